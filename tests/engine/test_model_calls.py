"""Model calls of steps over a real connection: refused early, sent once, tried again by the run's own rules, answered in shape."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from holdfast import Engine, RetryPolicy, RunFailed, Workflow, llm_node, task
from holdfast.core.facts.events import AttemptFailed, ModelCallFailed, ModelCallHeld, ModelCallInDoubt, StepStarted
from holdfast.engine.attempts.attempt import Attempt
from holdfast.models.providers import Providers
from holdfast.ports import ModelReply, ModelRequest
from holdfast.settings import Settings, load
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.model_server import Fault, ModelServer, Rule, ToolCall
from tests.engine.history import events_of
from tests.engine.kit import divergence, lose_lease
from tests.engine.recorder import Recorder

HAIKU, NANO = "claude-haiku-4-5", "gpt-4.1-nano"
INVENTED = "claude-sonnet-4-7"
BOTH = pytest.mark.parametrize("name", [HAIKU, NANO])
AT_ONCE = RetryPolicy(max_attempts=3, initial_s=0, jitter=0, rate_limit_attempts=4)


class Verdict(BaseModel):
    severity: Literal["minor", "major"]
    why: str


def one(model: str = HAIKU, prompt: Any = "Is it bad?", **options: Any) -> Workflow:
    """A workflow of one model call."""
    wf = Workflow("one")

    @wf.node("ask")
    @llm_node(model=model, max_tokens=options.pop("max_tokens", 200), **options)
    async def ask(state):
        return prompt() if callable(prompt) else prompt

    return wf


# --- Refused before it is called --------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, "5.00"])
async def test_a_model_without_a_price_is_not_called_and_the_error_explains_the_remedy(
    store: str, server: ModelServer, model: Providers, limit: str | None
) -> None:
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one(INVENTED), cost_limit_usd=limit)
        with pytest.raises(RunFailed) as failed:
            await run.result()
        error = failed.value.error
        assert error.error_class == "validation"
        assert f'holdfast.toml under [models."{INVENTED}"]' in error.message
        assert "input_usd_per_mtok, output_usd_per_mtok" in error.message
        assert "Nothing was called" in error.message
        assert server.calls == []
        assert await events_of(run, ModelCallHeld) == []
        assert len(await events_of(run, StepStarted)) == 1  # trying again would not give it a price


async def test_a_declared_model_is_called_at_its_declared_price(
    store: str, server: ModelServer, model: Providers, tmp_path: Path
) -> None:
    (tmp_path / "holdfast.toml").write_text(f'[models."{INVENTED}"]\ninput_usd_per_mtok = 3\noutput_usd_per_mtok = 15.5\n')
    async with Engine.open(store, model=model, settings=load(tmp_path)) as engine:
        run = await engine.start(one(INVENTED), cost_limit_usd="0.50")
        await run.result()
        (call,) = server.calls
        assert call.model == INVENTED
        assert call.used is not None
        row = await engine.find(run.id)
        assert row.settled_nanousd == call.used.input_tokens * 3_000 + call.used.output_tokens * 15_500


async def test_a_model_without_a_provider_is_not_called(store: str, server: ModelServer, model: Providers) -> None:
    declared = {"models": {"our-model": {"input_usd_per_mtok": 1, "output_usd_per_mtok": 1}}}
    async with Engine.open(store, model=model, settings=Settings(**declared)) as engine:
        run = await engine.start(one("our-model"))
        with pytest.raises(RunFailed, match="The provider of our-model is unknown"):
            await run.result()
        assert server.calls == []


async def test_without_a_key_the_step_fails_as_one_without_authorization(store: str) -> None:
    async with Engine.open(store, model=Providers(environment={})) as engine:
        run = await engine.start(one())
        with pytest.raises(RunFailed, match="ANTHROPIC_API_KEY is not set") as failed:
            await run.result()
        assert failed.value.error.error_class == "authorization"
        assert await events_of(run, ModelCallHeld) == []


async def test_an_empty_prompt_is_reported_before_anything_is_called(store: str, server: ModelServer, model: Providers) -> None:
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one(prompt={"system": "x", "usr": "typo"}))
        with pytest.raises(RunFailed, match="system, usr") as failed:
            await run.result()
        assert failed.value.error.error_class == "validation"
        assert server.calls == []


# --- Tried again ------------------------------------------------------------------------------------------------------


@BOTH
async def test_a_rate_limit_is_waited_out_and_each_attempt_is_a_call_of_its_own(
    tmp_path: Path, server: ModelServer, model: Providers, name: str
) -> None:
    server.script.add(Rule(times=2, fault=Fault("status", status=429, retry_after_s=20)), Rule(text="now"))
    now_ms = [time.time_ns() // 1_000_000]
    store = await SqliteStore.connect(tmp_path / "holdfast.db", machine_ms=lambda: now_ms[0])
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one(name, retry=AT_ONCE))
        for refusals in (1, 2):
            async with asyncio.timeout(60):
                while len(await events_of(run, AttemptFailed)) < refusals:
                    await asyncio.sleep(0.01)
            assert await run.status() == "waiting"
            now_ms[0] += 19_900
            await asyncio.sleep(0.25)  # longer than the sweep ever rests
            assert len(server.calls) == refusals
            now_ms[0] += 200
        assert await run.result() == "now"
        assert len(server.calls) == 3
        held = await events_of(run, ModelCallHeld)
        assert len({call.call for call in held}) == 3
        refused = await events_of(run, ModelCallFailed)
        assert [call.error.retry_after_s for call in refused] == [20, 20]
        assert (await engine.find(run.id)).in_doubt_nanousd == 0
    await store.aclose()


@BOTH
async def test_a_rate_limit_that_does_not_end_ends_the_step_after_its_bound(
    store: str, server: ModelServer, model: Providers, name: str
) -> None:
    server.script.add(Rule(fault=Fault("status", status=429, retry_after_s=0.01)))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one(name, retry=AT_ONCE))
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert failed.value.error.error_class == "rate_limit"
        assert len(server.calls) == 4
        assert len(await events_of(run, ModelCallHeld)) == 4


async def test_a_long_rate_limit_is_waited_for_without_holding_anything(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(fault=Fault("status", status=429, retry_after_s=3_600)))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one())
        async with asyncio.timeout(60):
            while not await events_of(run, AttemptFailed):
                await asyncio.sleep(0.01)
        row = await engine.find(run.id)
        assert row.status == "waiting"
        assert row.due_at_ms is not None
        assert row.due_at_ms >= (time.time() + 3_590) * 1000
        assert row.held_nanousd == 0
        assert engine.executor.working == 0


@BOTH
async def test_an_overloaded_model_is_retried_exactly_as_often_as_the_policy_allows(
    store: str, server: ModelServer, model: Providers, name: str
) -> None:
    server.script.add(Rule(fault=Fault("status", status=503)))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one(name, retry=AT_ONCE))
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert failed.value.error.error_class == "model_transient"
        assert len(server.calls) == len(await events_of(run, ModelCallHeld)) == 3


@pytest.mark.parametrize("status", [400, 401, 403])
async def test_what_trying_again_cannot_mend_is_not_tried_again(
    store: str, server: ModelServer, model: Providers, status: int
) -> None:
    server.script.add(Rule(fault=Fault("status", status=status)))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one(retry=AT_ONCE))
        with pytest.raises(RunFailed):
            await run.result()
        assert len(server.calls) == 1


async def test_a_timed_out_step_makes_a_new_call_in_its_next_attempt(store: str, server: ModelServer, model: Providers) -> None:
    async with Engine.open(store, model=model) as engine:
        await (await engine.start(one())).result()  # the client is loaded
        server.script.add(Rule(times=2, fault=Fault("hang")), Rule(text="at last"))
        run = await engine.start(one(timeout_s=0.1, retry=AT_ONCE))
        assert await run.result() == "at last"
        assert len(server.calls) == 4
        assert len(await events_of(run, StepStarted)) == 3  # no attempt was lost on an error that nobody had seen
        assert [call.error.error_class for call in await events_of(run, ModelCallInDoubt)] == ["timeout"] * 2


@pytest.mark.parametrize("clean_up", [None, RuntimeError("Cannot close")])
async def test_an_adapter_that_ignores_its_timeout_is_given_up_with_money_in_doubt(
    store: str, monkeypatch: pytest.MonkeyPatch, clean_up: Exception | None
) -> None:
    class Deaf:
        """Keeps the Model port, except that it never answers."""

        async def prepare(self, model: str) -> None: ...

        async def request(self, request: ModelRequest) -> ModelReply:
            try:
                await asyncio.Event().wait()
            finally:
                if clean_up is not None:
                    raise clean_up
            raise AssertionError("unreachable")

    monkeypatch.setattr("holdfast.models.gateway.GRACE_S", -599.95)  # of the 600 s that a request has by itself
    async with Engine.open(store, model=Deaf()) as engine:
        run = await engine.start(one(retry=1))
        with pytest.raises(RunFailed, match="did not answer within"):
            await run.result()
        (held,) = await events_of(run, ModelCallHeld)
        assert (await engine.find(run.id)).in_doubt_nanousd == held.hold_nanousd > 0


async def test_a_stopping_process_hands_over_its_call_without_using_up_an_attempt(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(fault=Fault("hang")))
    wf = one(retry=1)
    for restart in (1, 2, 3):
        standing_in = Providers(environment=server.environment)
        async with Engine.open(store, workflows=[wf], model=standing_in, call_grace_s=0.05) as engine:
            if restart == 1:
                run_id = (await engine.start(wf)).id
            async with asyncio.timeout(60):
                while len(server.calls) < restart:
                    await asyncio.sleep(0.01)
    server.script.add(Rule(text="at last"))
    async with Engine.open(store, workflows=[wf], model=model) as engine:
        run = engine.run(run_id)
        assert await run.result() == "at last"
        assert len(server.calls) == 4
        held = await events_of(run, ModelCallHeld)
        assert (await engine.find(run_id)).in_doubt_nanousd == sum(call.hold_nanousd for call in held[:3])


@pytest.mark.parametrize("retry", [None, 1])
async def test_a_process_without_its_lease_sends_no_call_and_holds_no_money(
    store: str, server: ModelServer, model: Providers, monkeypatch: pytest.MonkeyPatch, retry: int | None
) -> None:
    outside, frozen = Attempt.outside, []

    async def freeze_first(self, call):
        async def later():
            if not frozen:  # between hold and send, until the session is dead and the process has another
                frozen.append(self.session)
                await lose_lease(engine)
                await engine.runtime.membership.hold()
            return await call

        return await outside(self, later())

    monkeypatch.setattr(Attempt, "outside", freeze_first)
    server.script.add(Rule(text="once"))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one(retry=retry))
        assert await run.result() == "once"
        assert len(server.calls) == 1
        first, _ = await events_of(run, ModelCallHeld)
        assert [failed.call for failed in await events_of(run, ModelCallFailed)] == [first.call]
        assert await events_of(run, AttemptFailed) == []
        row = await engine.find(run.id)
        assert (row.held_nanousd, row.in_doubt_nanousd) == (0, 0)


async def test_a_prompt_that_changes_between_attempts_stops_the_step_and_calls_nothing(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(fault=Fault("status", status=503)))
    prompts = iter(["first", "second"])
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one(prompt=lambda: next(prompts), retry=AT_ONCE))
        shown = await divergence(run)
        assert "second" in shown["code"]["arguments"]
        assert shown["journal"]["operation"] == shown["code"]["operation"] == f"model {HAIKU!r}"
        assert [call.user for call in server.calls] == ["first"]


# --- Structured output ------------------------------------------------------------------------------------------------


@BOTH
async def test_a_structured_answer_is_an_object_of_its_model(
    store: str, server: ModelServer, model: Providers, name: str
) -> None:
    server.script.add(Rule(output={"severity": "major", "why": "it burns"}))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one(name, output=Verdict))
        assert await run.result() == {"severity": "major", "why": "it burns"}
        assert len(server.calls) == 1


@BOTH
@pytest.mark.parametrize(
    "wrong",
    [
        Rule(fault=Fault("wrong_schema")),
        Rule(output={"severity": "fatal", "why": "x"}),
        Rule(text="It is major."),
        Rule(fault=Fault("unknown_tool")),
        Rule(fault=Fault("malformed_arguments")),
    ],
    ids=["other fields", "not of the enum", "text", "a tool that is not there", "not JSON"],
)
async def test_an_answer_that_does_not_fit_is_mended_once(
    store: str, server: ModelServer, model: Providers, name: str, wrong: Rule
) -> None:
    server.script.add(
        Rule(turn=1, text=wrong.text, output=wrong.output, fault=wrong.fault),
        Rule(turn=2, output={"severity": "minor", "why": "it smokes"}),
    )
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one(name, output=Verdict, retry=AT_ONCE))
        assert await run.result() == {"severity": "minor", "why": "it smokes"}
        assert [call.turn for call in server.calls] == [1, 2]
        assert {call.status for call in server.calls} == {200}
        assert len({call.call for call in await events_of(run, ModelCallHeld)}) == 2


@BOTH
@pytest.mark.parametrize("fault", ["wrong_schema", "unknown_tool"])
async def test_an_unfit_answer_after_one_repair_fails_as_schema_and_is_not_retried(
    store: str, server: ModelServer, model: Providers, name: str, fault: Any
) -> None:
    server.script.add(Rule(fault=Fault(fault)))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one(name, output=Verdict, retry=AT_ONCE))
        with pytest.raises(RunFailed, match="does not fit its schema") as failed:
            await run.result()
        assert failed.value.error.error_class == "schema"
        assert [call.turn for call in server.calls] == [1, 2]


async def test_a_model_without_tools_that_asks_for_one_gets_one_error_and_answers(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(turn=1, fault=Fault("unknown_tool")), Rule(turn=2, text="then in words"))
    async with Engine.open(store, model=model) as engine:
        run = await engine.start(one())
        assert await run.result() == "then in words"
        assert [call.turn for call in server.calls] == [1, 2]


async def test_a_steps_own_code_and_the_nodes_behind_get_an_instance_of_the_output(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(turn=1, fault=Fault("wrong_schema")), Rule(output={"severity": "major", "why": "it burns"}))
    wf = Workflow("own")

    @wf.node("own")
    @task
    async def own(state, ctx):
        verdict = await ctx.model(HAIKU, "Is it bad?", system="Judge.", max_tokens=100, output=Verdict)
        again = await ctx.agent(HAIKU, "Is it bad?", max_tokens=100, output=Verdict)
        return [verdict.severity, verdict.why, type(verdict) is type(again) is Verdict]

    @wf.node("asks")
    @llm_node(model=HAIKU, output=Verdict, max_tokens=100)
    def asks(state):
        return "Is it bad?"

    @wf.node("sees")
    @task
    def sees(state):
        found = state.events["asks"].output
        return [*state.events["own"].output, found.why, type(found) is Verdict]

    wf.edge("own", "asks")
    wf.edge("asks", "sees")
    async with Engine.open(store, model=model) as engine:
        assert await (await engine.start(wf)).result() == ["major", "it burns", True, "it burns", True]
        assert [call.turn for call in server.calls] == [1, 2, 1, 2, 1, 2]


# --- On the wire, and in the store ------------------------------------------------------------------------------------


async def test_the_static_tools_carry_the_mark_of_anthropics_prompt_cache(
    store: str, server: ModelServer, model: Providers
) -> None:
    from holdfast import tool

    @tool(effect="read")
    async def look(where: str) -> str:
        """Look somewhere."""
        return "nothing there"

    server.script.add(Rule(turn=1, tool_calls=(ToolCall("look", {"where": "x"}),)), Rule(turn=2, text="done"))
    async with Engine.open(store, model=model) as engine:
        assert await (await engine.start(one(tools=[look]))).result() == "done"
        assert await (await engine.start(one(output=Verdict))).result()
        assert await (await engine.start(one())).result()
    assert [call.cache_control_on_tools for call in server.calls] == [True, True, True, False]
    first, second = server.calls[:2]
    assert first.used is not None
    assert second.used is not None
    assert first.used.cache_write_tokens > 0
    assert second.used.cache_read_tokens == first.used.cache_write_tokens


async def test_ids_of_calls_travel_to_providers_unless_they_are_not_to(
    store: str, server: ModelServer, model: Providers
) -> None:
    hashes = []
    for sends in (True, False):
        recorder = Recorder(model)
        async with Engine.open(store, model=recorder, settings=Settings(send_call_ids=sends)) as engine:
            run = await engine.start(one())
            await run.result()
            (held,) = await events_of(run, ModelCallHeld)
            assert [each.call for each in recorder.asked] == [held.call if sends else None]
            hashes.append(held.args_hash)
    assert hashes[0] == hashes[1]


async def test_no_key_is_in_the_store_whichever_source_has_it(
    store: str, stored: Callable[[], bytes], server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"ANTHROPIC_API_KEY": "sk-ant-canary-58a1", "OPENAI_API_KEY": "sk-oai-canary-91c7"}
    for name, value in {**server.environment, **keys}.items():
        monkeypatch.setenv(name, value)
    said = " and ".join(keys.values())
    server.script.add(
        Rule(user="refused", fault=Fault("status", status=400, message=f"Wrong key: {said}")),
        Rule(user="lost", fault=Fault("status", status=502, message=f"Wrong key: {said}")),
        Rule(user="unauthorized", fault=Fault("status", status=401, message=f"Wrong key: {said}")),
        Rule(user="echoed", text=f"Your keys are {said}"),
    )
    async with Engine.open(store) as engine:
        for name in (HAIKU, NANO):
            for how in ("refused", "lost", "unauthorized"):
                run = await engine.start(one(name, prompt=how, retry=1))
                with pytest.raises(RunFailed) as failed:
                    await run.result()
                assert "canary" not in failed.value.error.message
            run = await engine.start(one(name, prompt=f"echoed, with {said}"), {"note": said})
            assert await run.result() == "Your keys are [secret] and [secret]"
    assert len(server.calls) == 8
    kept = stored()
    assert b"[secret]" in kept
    assert b"canary" not in kept
