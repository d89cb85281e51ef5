"""What became of what a model asked for is told to whoever watches: what the model is told, once, by the request. The witness
is the request that the model gets next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Chat, Context, Engine, Handoff, Workflow, flow, memory_tools, tool
from holdfast.core.facts import events as ev
from holdfast.core.facts.streams import StreamEvent, call_of, request_of
from holdfast.models.providers import Providers
from holdfast.ports import ModelReply, ModelRequest, TextDelta, ThinkingDelta, ToolDelta, ToolTurn, UsageDelta
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.engine.history import events_of
from tests.engine.kit import bounded, die, opened

HAIKU, NANO = "claude-haiku-4-5", "gpt-4.1-nano"
BOTH = pytest.mark.parametrize("name", [HAIKU, NANO])
LONG = "x" * 20_000
world: list[str] = []


@pytest.fixture(autouse=True)
def fresh_world(monkeypatch: pytest.MonkeyPatch) -> None:
    world.clear()
    monkeypatch.setenv("CANARY", "TOP-SECRET-VALUE")


class Person(BaseModel):
    name: str


@tool(effect="read")
async def look(where: str) -> Any:
    """Look somewhere."""
    world.append(f"look {where}")
    if where == "nowhere":
        raise LookupError("there is no such place")
    return {"door": "the key is TOP-SECRET-VALUE", "book": LONG}.get(where, {"at": where, "found": 1})


@tool(effect="once", approval=True)
async def pay(who: str) -> str:
    """Pay somebody."""
    world.append(f"pay {who}")
    return f"paid {who}"


@flow
async def research(ctx: Context, person: Person) -> dict[str, str]:
    """Find out who somebody is."""
    return {"who": f"{person.name} is known"}


@flow
async def refunds(ctx: Context, chat: Chat) -> str:
    """For money that is to be paid back."""
    return await ctx.agent(HAIKU, chat, tools=[look], system="You refund.", max_tokens=100, stream=True)


class Witness(Providers):
    """Keeps what models are told in answer to their requests, by the ids of these."""

    def __init__(self, server: ModelServer) -> None:
        super().__init__(environment=server.environment)
        self.told: dict[str, tuple[str, str]] = {}

    async def stream(
        self, request: ModelRequest
    ) -> AsyncIterator[TextDelta | ThinkingDelta | ToolDelta | UsageDelta | ModelReply]:
        for turn in request.turns:
            for each in turn.replies if isinstance(turn, ToolTurn) else ():
                self.told[each.id] = each.content, "failed" if each.is_error else "completed"
        async for piece in super().stream(request):
            yield piece


def agent(name: str = HAIKU, *, stream: bool = True, output: type[BaseModel] | None = None) -> Workflow:
    @flow(name="agent", cost_limit_usd=1)
    async def agent(ctx: Context, asked: str) -> Any:
        ctx.secret("CANARY")
        tools = [look, pay, research, *memory_tools("clerk")]
        said = await ctx.agent(name, asked, tools=tools, system="You work.", max_tokens=500, stream=stream, output=output)
        return said if output is None else said.name

    return agent


def asks(*calls: tuple[str, dict[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(name, given) for name, given in calls)


def results(told: list[StreamEvent]) -> dict[str, tuple[str, str | None]]:
    """By the id of the request, each of which has been heard, and was answered once."""
    found = [each for each in told if each.kind == "result"]
    assert len({each.source for each in found}) == len(found)
    assert {request_of(each.source) for each in found} <= {each.source for each in told if each.kind == "arguments"}
    ends = {each.source: at for at, each in enumerate(told) if each.kind == "end"}
    assert all(at > ends[call_of(each.source)] for at, each in enumerate(told) if each.kind == "result")
    return {request_of(each.source).rpartition(":")[2]: (each.text, each.outcome) for each in found}


async def heard(engine: Engine, run: str, since: str = "start") -> list[StreamEvent]:
    return [each async for each in engine.watch_stream(run, since=since)]


@BOTH
@bounded
async def test_a_watcher_sees_what_the_model_got_for_each_request(
    store: str, server: ModelServer, name: str, stored: Callable[[], bytes]
) -> None:
    """Whatever it came to: a value, an error, a refusal, a run, a memory; without secrets, and the beginning of what is long."""
    server.script.add(
        Rule(
            turn=1,
            tool_calls=asks(
                ("look", {"where": "here"}),
                ("look", {"where": "nowhere"}),
                ("look", {"when": 1}),
                ("look", {"where": "door"}),
                ("look", {"where": "book"}),
                ("research", {"name": "Ada"}),
                ("research", {}),
                ("remember", {"text": "Ada likes tea"}),
            ),
        ),
        Rule(turn=2, text="Done."),
    )
    model = Witness(server)
    wf = agent(name)
    async with opened(store, workflows=[wf, research], model=model) as engine:
        run = await engine.start(wf, "Work")
        live = await heard(engine, run.id)
        assert await run.result() == "Done."
        later = await heard(engine, run.id)
    await model.aclose()
    assert results(live) == results(later)
    told, whole = results(live), dict(model.told)
    assert len(told) == 8
    (cut,) = [request for request, (text, _) in whole.items() if text == LONG]
    assert told.pop(cut) == (f"{'x' * 8_000}… (12,000 characters more)", "completed")
    whole.pop(cut)
    assert told == whole
    texts = [text for text, outcome in told.values() if outcome == "completed"]
    assert {'{"at":"here","found":1}', "the key is [secret]", '{"who":"Ada is known"}'} <= {*texts}
    errors = " ".join(text for text, outcome in told.values() if outcome == "failed")
    assert all(words in errors for words in ("no such place", "do not fit its schema", "name: Field required"))
    assert b"TOP-SECRET-VALUE" not in stored()


@bounded
async def test_a_result_is_sent_once_however_often_its_step_runs_again(store: str, server: ModelServer) -> None:
    """What is done before somebody is asked is told before; the rest when he has answered, also where the process died between.
    Who comes back with his cursor misses nothing and hears nothing twice."""
    both = asks(("look", {"where": "here"}), ("pay", {"who": "ida"}), ("pay", {"who": "bob"}))
    server.script.add(Rule(turn=1, tool_calls=both), Rule(turn=2, text="Done."))
    model, wf = Witness(server), agent()
    async with opened(store, workflows=[wf], model=model) as engine:
        run = await engine.start(wf, "Pay")
        await run.settled()
        before = [each async for each in engine.watch_stream(run.id, follow=False)]
        assert [text for text, _ in results(before).values()] == ['{"at":"here","found":1}']
        first, second = sorted((await run.state()).gates)
        await engine.decide(first, "approve", by="ada")
        await run.until(lambda state: len(state.gates) == 1)
        await run.settled()
        await die(engine)
    async with opened(store, workflows=[wf], model=model) as engine:
        await engine.decide(second, "reject", by="ada", reason="owed nothing")
        assert await engine.run(run.id).result() == "Done."
        whole = await heard(engine, run.id)
        after = await heard(engine, run.id, before[-1].cursor)
        middle = next(each for each in whole if each.kind == "result" and "paid" in each.text)
        rest = await heard(engine, run.id, middle.cursor)
    await model.aclose()
    assert results(whole) == model.told
    assert [outcome for _, outcome in results(whole).values()] == ["completed", "completed", "failed"]
    assert [each for each in after if each.kind == "result"] == [each for each in whole if each.kind == "result"][1:]
    assert ["ada did not approve" in each.text for each in rest if each.kind == "result"] == [True]
    assert world == ["look here", "pay ida"]


@bounded
async def test_answers_among_requests_and_what_is_handed_over_have_a_result_too(store: str, server: ModelServer) -> None:
    """So that nobody waits for one for ever."""
    server.script.add(
        Rule(turn=1, user="who", tool_calls=asks(("look", {"where": "here"}), ("final_result", {"name": "Too early"}))),
        Rule(turn=2, user="who", tool_calls=asks(("final_result", {"nick": "Ada"}))),
        Rule(turn=3, user="who", tool_calls=asks(("final_result", {"name": "Ada"}))),
        Rule(system="greet", tool_calls=asks(("look", {"where": "here"}), ("transfer_to_refunds", {}))),
        Rule(system="refund", turn=1, tool_calls=asks(("look", {"where": "there"}))),
        Rule(system="refund", turn=2, text="Paid back."),
    )

    @flow(cost_limit_usd=1)
    async def front(ctx: Context, chat: Chat) -> str:
        return await ctx.agent(HAIKU, chat, tools=[look, Handoff(refunds)], system="You greet.", max_tokens=100, stream=True)

    model, wf = Witness(server), agent(output=Person)
    async with opened(store, workflows=[wf, front, refunds], model=model) as engine:
        run = await engine.start(wf, "who")
        assert await run.result() == "Ada"
        told = [*results(await heard(engine, run.id)).values()]
        assert [outcome for _, outcome in told] == ["completed", "failed", "failed", "completed"]
        assert "first read the tools' answers" in told[1][0]
        assert "does not fit" in told[2][0]
        run = await engine.start(front, {"messages": [{"role": "user", "text": "My money?"}]})
        assert await run.result() == "Paid back."
        assert [*results(await heard(engine, run.id)).values()] == [
            ("Not done: you handed the conversation over in the same turn. Ask for one of the two.", "failed"),
            ("Paid back.", "completed"),
        ]
        (asked,) = await events_of(run, ev.ChildRequested)
        assert [text for text, _ in results(await heard(engine, asked.child)).values()] == ['{"at":"there","found":1}']
    await model.aclose()


@bounded
async def test_of_an_agent_without_listeners_nothing_is_sent(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(turn=1, tool_calls=asks(("look", {"where": "here"}))), Rule(turn=2, text="Done."))
    wf = agent(stream=False)
    async with opened(store, workflows=[wf], model=model) as engine:
        run = await engine.start(wf, "Look")
        assert await run.result() == "Done."
        assert [each.kind for each in await heard(engine, run.id)] == ["text", "end"]
