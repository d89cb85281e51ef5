"""Routers and fallbacks in runs: who is asked is read off the other side, and no limit is passed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Complexity, Context, Engine, RetryPolicy, RoutedModel, Router, RunFailed, Workflow, flow, llm_node, tool
from holdfast.core.facts.events import HoldDeferred, ModelCallFailed, ModelCallHeld, ModelCallInDoubt
from holdfast.core.nouns import routing
from holdfast.engine.capacity import model_knowledge
from holdfast.errors import StoreBusy, UsageError
from holdfast.models.providers import Providers
from holdfast.testing.model_rule import Fault
from holdfast.testing.model_server import ModelServer, Rule
from tests.engine.history import assert_never_above, events_of

NANO, HAIKU, SONNET, OPUS = "gpt-4.1-nano", "claude-haiku-4-5", "claude-sonnet-4-5", "claude-opus-4-5"
ROUTER = Router(
    [
        RoutedModel(OPUS, Complexity.COMPLEX, Complexity.EXPERT, tokens_per_s=50),
        RoutedModel(SONNET, Complexity.MODERATE, Complexity.EXPERT, tokens_per_s=80),
        RoutedModel(HAIKU, Complexity.TRIVIAL, Complexity.MODERATE, tokens_per_s=200),
        RoutedModel(NANO, Complexity.TRIVIAL, Complexity.SIMPLE, tokens_per_s=300, tools=False),
    ]
)


def asked(router: Router = ROUTER, **options: Any) -> Workflow:
    @flow(cost_limit_usd=1)
    async def ask(ctx: Context) -> Any:
        return await ctx.model(router, "Say something.", **{"max_tokens": 100, **options})

    return ask


async def sent(run: Any) -> list[str]:
    """The models that a run has asked, in their order."""
    return [held.sent_to for held in await events_of(run, ModelCallHeld)]


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        ({"complexity": Complexity.TRIVIAL}, NANO),
        ({"complexity": 2}, NANO),
        ({"complexity": Complexity.MODERATE}, HAIKU),
        ({"complexity": Complexity.COMPLEX}, SONNET),
        ({"complexity": Complexity.EXPERT}, SONNET),
        ({}, NANO),
    ],
)
async def test_each_request_goes_to_the_cheapest_model_that_can_answer_it(
    store: str, model: Providers, options: dict[str, Any], taken: str
) -> None:
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asked(**options))
        await run.result()
        assert await sent(run) == [taken]


async def test_what_is_needed_decides_and_so_does_a_function_of_the_state(store: str, model: Providers) -> None:
    @tool(effect="read")
    def look() -> str:
        return "there"

    wf = Workflow("desk", cost_limit_usd=1)
    kinds: tuple[tuple[str, dict[str, Any]], ...] = (
        ("plain", {"complexity": lambda state: 1}),
        ("tools", {"tools": [look], "complexity": 1}),
        ("fast", {"max_latency_s": 0.4}),
    )
    for name, more in kinds:
        wf.node(name)(llm_node(model=ROUTER, max_tokens=100, **more)(lambda state: "Say something."))
    wf.edge("plain", "tools")
    wf.edge("tools", "fast")
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(wf)
        await run.result()
        assert await sent(run) == [NANO, HAIKU, NANO]


async def test_where_no_model_can_answer_nothing_is_called_and_it_is_said_why(store: str, model: Providers) -> None:
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asked(complexity=Complexity.EXPERT, max_latency_s=0.1))
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert not await events_of(run, ModelCallHeld)
    assert "No model of the router 'router' can answer this. Nothing was called." in str(failed.value)
    assert f"{OPUS}: it would take 2.0 s, and 0.1 s are allowed" in str(failed.value)
    assert f"{NANO}: it is for TRIVIAL to SIMPLE, and this is EXPERT" in str(failed.value)


# --- Where a model cannot answer for now ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["status", "cut_before_reply"])
async def test_another_model_of_another_provider_first_is_asked_and_each_call_is_held(
    store: str, model: Providers, server: ModelServer, kind: Any
) -> None:
    server.script.add(Rule(model=NANO, fault=Fault(kind, status=503)), Rule(text="from {user}"))
    router = Router([NANO, "gpt-4.1-mini", HAIKU])
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asked(router))
        await run.result()
        assert await sent(run) == [NANO, HAIKU]
        lost = await events_of(run, ModelCallFailed, ModelCallInDoubt)
        assert len(lost) == 1
        await assert_never_above(run, 10**9)


async def test_a_plain_model_may_have_fallbacks(store: str, model: Providers, server: ModelServer) -> None:
    server.script.add(Rule(model=HAIKU, fault=Fault("status", status=529)), Rule(text="here I am"))

    @flow(cost_limit_usd=1)
    async def ask(ctx: Context) -> Any:
        return await ctx.model(HAIKU, "Are you there?", max_tokens=100, fallback_models=[NANO])

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(ask)
        assert await run.result() == "here I am"
        assert await sent(run) == [HAIKU, NANO]


async def test_a_model_that_refuses_for_good_has_no_fallback(store: str, model: Providers, server: ModelServer) -> None:
    server.script.add(Rule(model=NANO, fault=Fault("status", status=400)))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asked(Router([NANO, HAIKU])))
        with pytest.raises(RunFailed):
            await run.result()
        assert await sent(run) == [NANO]


async def test_where_all_have_failed_the_step_fails_as_its_policy_says(
    store: str, model: Providers, server: ModelServer
) -> None:
    server.script.add(Rule(fault=Fault("status", status=503)))
    wf = Workflow("ask", cost_limit_usd=1)
    once = llm_node(model=Router([NANO, HAIKU]), max_tokens=50, retry=RetryPolicy(max_attempts=1))
    wf.node("ask")(once(lambda state: "Say something."))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(wf)
        with pytest.raises(RunFailed):
            await run.result()
        assert await sent(run) == [NANO, HAIKU]


@pytest.mark.parametrize("options", [{}, {"fallback_models": [HAIKU]}], ids=["router", "fallback"])
async def test_a_step_that_is_tried_again_begins_with_a_model_that_has_not_just_failed(
    store: str, model: Providers, server: ModelServer, options: dict[str, Any]
) -> None:
    server.script.add(
        Rule(model=NANO, fault=Fault("status", status=503)),
        Rule(model=HAIKU, times=1, fault=Fault("cut_before_reply")),
        Rule(text="here I am"),
    )
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asked(NANO if options else Router([NANO, HAIKU]), **options))  # type: ignore[arg-type]
        assert await run.result() == "here I am"
        assert await sent(run) == [NANO, HAIKU, HAIKU]
        await assert_never_above(run, 10**9)


async def test_what_had_just_failed_stays_the_last_to_be_asked_where_others_fail_besides(
    store: str, model: Providers, server: ModelServer
) -> None:
    server.script.add(
        Rule(model=NANO, fault=Fault("status", status=503)),
        Rule(model=HAIKU, times=1, fault=Fault("cut_before_reply")),
        Rule(model=SONNET, times=1, fault=Fault("cut_before_reply")),
        Rule(model=HAIKU, fault=Fault("status", status=503)),
        Rule(text="here I am"),
    )
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asked(Router([NANO, HAIKU, SONNET])))
        assert await run.result() == "here I am"
        assert await sent(run) == [NANO, HAIKU, SONNET, HAIKU, SONNET], "of another provider, and in trouble too"


async def test_a_process_that_takes_up_a_step_begins_with_a_model_that_has_not_just_failed(
    store: str, model: Providers, server: ModelServer
) -> None:
    server.script.add(
        Rule(model=NANO, fault=Fault("status", status=529)), Rule(model=HAIKU, times=1, fault=Fault("hang")), Rule(text="hi")
    )
    wf = asked(Router([NANO, HAIKU]))
    async with Engine.open(store, model=model, call_grace_s=0.1) as engine:
        run = await engine.start(wf)
        async with asyncio.timeout(30):
            while len(server.calls) < 2:
                await asyncio.sleep(0.01)
    async with Engine.open(store, model=model, workflows=[wf]) as engine:
        again = engine.run(run.id)
        assert await again.result() == "hi"
        assert await sent(again) == [NANO, HAIKU, HAIKU]


async def test_after_a_while_the_cheapest_is_begun_with_again(
    store: str, model: Providers, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "_UNABLE_S", 0.05)  # less than the pause between two attempts
    server.script.add(
        Rule(model=NANO, times=1, fault=Fault("status", status=503)), Rule(model=HAIKU, fault=Fault("cut_before_reply"))
    )
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(asked(Router([NANO, HAIKU])))
        await run.result()
        assert await sent(run) == [NANO, HAIKU, NANO]


async def test_no_fallback_passes_the_limit(store: str, model: Providers, server: ModelServer) -> None:
    """The cheap model fails after it was sent and is in doubt; what is left does not pay for the dear one, which is not called."""
    server.script.add(Rule(model=NANO, fault=Fault("cut_before_reply")))

    @flow(cost_limit_usd="0.0005")
    async def ask(ctx: Context) -> Any:
        return await ctx.model(NANO, "Say something.", max_tokens=100, fallback_models=[OPUS])

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(ask)
        with pytest.raises(RunFailed):
            await run.result()
        assert set(await sent(run)) == {NANO}
        assert not await events_of(run, HoldDeferred)
        await assert_never_above(run, 500_000)
    assert {each.model for each in server.calls} == {NANO}


# --- What was seen of models ------------------------------------------------------------------------------------------


async def test_a_process_that_has_just_started_quotes_and_routes_by_what_others_have_seen(
    store: str, model: Providers, server: ModelServer
) -> None:
    server.script.add(Rule(model=NANO, latency_s=0.3), Rule(text="Yes."))
    wf = asked(max_latency_s=0.2, max_tokens=1_000)
    router = Router([NANO, HAIKU])
    plain = asked(router)
    async with Engine.open(store, model=model) as engine:
        before = await engine.quote_route(router, "Say something.", max_tokens=1_000, workflow="ask", node="flow")
        await (await engine.start(plain)).result()
        assert before[0].latency_s is None
    async with Engine.open(store, model=model) as engine:
        after = await engine.quote_route(router, "Say something.", max_tokens=1_000, workflow="ask", node="flow")
        assert after[0].expected_nanousd < before[0].expected_nanousd / 10, "it writes a word, and may write a thousand"
        assert after[1].expected_nanousd < before[1].expected_nanousd / 10, "the other is judged by what is asked here"
        assert [each.worst_case_nanousd for each in after] == [each.worst_case_nanousd for each in before]
        assert after[0].latency_s is not None
        assert after[0].latency_s >= 0.3
        elsewhere = await engine.quote_route(router, "Say something.", max_tokens=1_000)
        assert elsewhere[0].expected_nanousd < before[0].expected_nanousd / 10
        run = await engine.start(wf)
        await run.result()
    assert [each.model for each in server.calls] == [NANO, HAIKU], "the fast one, which is dearer"


async def test_a_living_process_hears_within_seconds_what_another_has_seen(
    store: str, model: Providers, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_knowledge, "_KNOWN_S", 0.05)
    server.script.add(Rule(text="Yes."))
    async with Engine.open(store, model=model) as engine, Engine.open(store, model=model) as other:
        at_first = (await other.quote_route(ROUTER, "Say something."))[3].expected_nanousd
        await (await engine.start(asked())).result()
        async with asyncio.timeout(30):
            while (await other.quote_route(ROUTER, "Say something."))[3].expected_nanousd == at_first:
                await asyncio.sleep(0.05)


async def test_many_calls_are_one_write_and_a_workflow_is_asked_for_once(
    store: str, model: Providers, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    @flow(cost_limit_usd=1)
    async def many(ctx: Context) -> Any:
        await ctx.gather(*(ctx.model(ROUTER, f"Say {n}.", max_tokens=10) for n in range(20)))
        for n in range(20):
            await ctx.model(ROUTER, f"Then say {n}.", max_tokens=10)

    async with Engine.open(store, model=model) as engine:
        estimates = engine.runtime.store.model_estimates
        read, written = estimates.of, estimates.learn
        asked_for: list[str] = []
        uses: list[int] = []

        async def of(workflow: str) -> Any:
            asked_for.append(workflow)
            return await read(workflow)

        async def learn(seen: Any) -> None:
            uses.append(len(seen))
            await written(seen)

        monkeypatch.setattr(engine.executor.services.models, "_estimates", estimates)
        monkeypatch.setattr(engine.executor.services.models._learning, "_write", learn)
        monkeypatch.setattr(estimates, "of", of)
        await (await engine.start(many)).result()
    assert (set(asked_for), sum(uses)) == ({"many"}, 40)
    assert max(len(asked_for), len(uses)) < 10, "each is of some seconds, not of a call"


async def test_a_store_that_cannot_say_what_models_are_like_stops_no_call(
    store: str, model: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_: Any) -> Any:
        raise StoreBusy("Somebody has locked it.")

    async with Engine.open(store, model=model) as engine:
        monkeypatch.setattr(engine.runtime.store.model_estimates, "of", away)
        monkeypatch.setattr(engine.executor.services.models._learning, "_write", away)
        run = await engine.start(asked())
        await run.result()
        assert await sent(run) == [NANO]


# --- Quotes and what was saved ----------------------------------------------------------------------------------------


async def test_a_request_is_quoted_without_being_sent(store: str, model: Providers, server: ModelServer) -> None:
    async with Engine.open(store, model=model) as engine:
        quotes = await engine.quote_route(ROUTER, "Say something.", max_tokens=100, complexity=3)
    assert [each.model for each in quotes] == [OPUS, SONNET, HAIKU, NANO]
    assert [each.refusal is None for each in quotes] == [False, True, True, False]
    assert quotes[1].expected_nanousd > quotes[2].expected_nanousd > 0
    assert all(each.worst_case_nanousd >= each.expected_nanousd for each in quotes)
    assert (quotes[2].latency_s, server.calls) == (0.5, [])


async def test_a_report_says_what_was_saved_against_the_dearest(store: str, model: Providers) -> None:
    @flow(cost_limit_usd=1)
    async def ask(ctx: Context, level: int) -> Any:
        return await ctx.model(ROUTER, "Say something.", max_tokens=100, complexity=level)

    today = datetime.now(UTC).date().isoformat()
    async with Engine.open(store, model=model) as engine:
        for level in (1, 2, 5):
            await (await engine.start(ask, level)).result()
        report = await engine.routing_report(ROUTER, today, today)
    assert report.calls == {OPUS: 0, SONNET: 1, HAIKU: 0, NANO: 2}
    assert report.dearest == OPUS
    assert 0 < report.cost_nanousd < report.dearest_nanousd
    assert str(report).endswith(f"{report.saved_percent:.0f} % saved")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Router([]), "needs at least one model"),
        (lambda: Router([NANO, NANO]), "each once"),
        (lambda: Router([RoutedModel(NANO, Complexity.EXPERT, Complexity.SIMPLE)]), "is for no complexity"),
        (lambda: llm_node(model=ROUTER, complexity=6), "complexity=6: it is one of TRIVIAL"),
        (lambda: llm_node(model=ROUTER, max_latency_s=0), "max_latency_s=0: it is how long"),
        (lambda: llm_node(model=ROUTER, max_latency_s="soon"), "max_latency_s='soon': it is how long"),
        (lambda: llm_node(model=ROUTER, max_latency_s=float("nan")), "max_latency_s=nan: it is how long"),
    ],
)
def test_a_router_that_could_not_choose_is_refused_where_it_is_made(make: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()
