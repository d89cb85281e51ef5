"""What a model says is heard while it says it, once, and the reply in the history goes on where the pieces end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Context, RetryPolicy, Workflow, flow, llm_node, tool
from holdfast.core.facts.events import ModelCallInDoubt, ModelCallReconciled
from holdfast.core.facts.streams import TOOLS, StreamEvent, call_of
from holdfast.models.providers import Providers
from holdfast.ports import Piece, StreamName, Usage
from holdfast.testing.model_server import Fault, ModelServer, Rule, ToolCall
from tests.engine.history import events_of
from tests.engine.kit import bounded, die, opened
from tests.models.provider import Wire, anthropic_reply, environment

HAIKU, NANO = "claude-haiku-4-5", "gpt-4.1-nano"
BOTH = pytest.mark.parametrize("name", [HAIKU, NANO])
SENTENCE = "Dear Ada, the parcel is late, and it will be at your door on Tuesday. Yours, Grace"
AT_ONCE = RetryPolicy(max_attempts=3, initial_s=0, jitter=0)


def letter(name: str = HAIKU, **options: Any) -> Workflow:
    wf = Workflow("letter")

    @wf.node("write")
    @llm_node(model=name, max_tokens=200, stream=True, **options)
    async def write(state):
        return "Where is it?"

    return wf


def text_of(told: list[StreamEvent], source: str = "write#1:0:1") -> str:
    return "".join(each.text for each in told if each.source == source)


async def until(telling: AsyncIterator[StreamEvent], letters: int) -> list[StreamEvent]:
    """What is told until so many letters of a text have come."""
    told: list[StreamEvent] = []
    while sum(len(each.text) for each in told) < letters:
        told.append(await anext(telling))
    return told


@BOTH
@bounded
async def test_a_model_is_heard_while_it_speaks_and_its_reply_has_the_same_places(
    store: str, server: ModelServer, model: Providers, name: str
) -> None:
    server.script.add(Rule(text=SENTENCE, pause_s=0.1))
    wf = letter(name)
    async with opened(store, workflows=[wf], model=model) as engine, opened(store, execute=False) as elsewhere:
        run = await engine.start(wf)
        watching = elsewhere.watch_stream(run.id)
        heard = await until(watching, 10)
        other = elsewhere.watch_stream(run.id, "write#1:0:1", since=5)
        before = await until(other, 3)
        await other.aclose()
        assert "write#1:0:1=" in before[-1].cursor, "it has not said all"
        heard += [each async for each in watching]
        assert await run.result() == text_of(heard) == SENTENCE
        assert [each.offset for each in heard] == [len(SENTENCE[: each.offset]) for each in heard]
        assert [each.kind for each in heard][-1] == "end"
        assert len(heard) >= 3
        assert text_of(before) == SENTENCE[5 : 5 + len(text_of(before))]
        after = [each async for each in elsewhere.watch_stream(run.id, "write#1:0:1", since=5)]
        assert text_of(after) == SENTENCE[5:]
        assert [each async for each in elsewhere.watch_stream(run.id, since=heard[-1].cursor)] == []
        assert (
            text_of([each async for each in elsewhere.watch_stream(run.id, since=heard[1].cursor)])
            == SENTENCE[heard[2].offset :]
        )
        streams = engine.runtime.store.streams
        while await streams.sizes([run.id]):
            await asyncio.sleep(0.01)
    assert [call.stream for call in server.calls] == [True]


@bounded
async def test_a_call_without_listeners_arrives_and_is_sent_whole(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(text=SENTENCE))

    @flow
    async def asks(ctx: Context, stream: bool) -> str:
        return await ctx.model(HAIKU, "Where is it?", max_tokens=200, stream=stream)

    async with opened(store, workflows=[asks], model=model) as engine:
        for stream in (False, True):
            run = await engine.start(asks, stream)
            assert await run.result() == SENTENCE
            told = [each async for each in engine.watch_stream(run.id)]
            assert text_of(told, "flow#1:0:1") == SENTENCE
            assert [each.outcome for each in told if each.kind == "end"] == ["completed"]
    assert [call.stream for call in server.calls] == [False, True]


@BOTH
@bounded
async def test_a_stopped_call_keeps_its_partial_text_and_its_repeat_voids_it(
    store: str, server: ModelServer, model: Providers, name: str
) -> None:
    """Its money stays in doubt, and the connection is closed."""
    server.script.add(Rule(text=SENTENCE, pause_s=0.5, times=1), Rule(text=SENTENCE))
    wf = letter(name)
    async with opened(store, execute=False) as elsewhere:
        async with opened(store, workflows=[wf], model=model, call_grace_s=0.0) as engine:
            run = await engine.start(wf)
            watching = elsewhere.watch_stream(run.id)
            told = await until(watching, 10)
        async with opened(store, workflows=[wf], model=model) as engine:
            assert await engine.run(run.id).result() == SENTENCE
            told += [each async for each in watching]
            (doubt,) = await events_of(engine.run(run.id), ModelCallInDoubt)
            part = doubt.partial.value()
            assert part
            assert part == text_of(told) == SENTENCE[: len(part)]
            assert text_of(told, "write#1:0:2") == SENTENCE
            kinds = [(each.kind, each.source, each.outcome) for each in told if each.kind in ("reset", "end")]
            assert kinds == [
                ("end", "write#1:0:1", "in_doubt"),
                ("reset", "write#1:0:1", None),
                ("end", "write#1:0:2", "completed"),
            ]
            assert (await engine.run(run.id).state()).budget.in_doubt_nanousd > 0
            assert text_of([each async for each in elsewhere.watch_stream(run.id)]) == part
    assert [call.outcome for call in server.calls] == ["client_left", "sent"]


@bounded
async def test_a_provider_that_is_cut_off_in_mid_sentence_leaves_what_it_had_said(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text=SENTENCE, fault=Fault("cut_in_body"), times=1), Rule(text=SENTENCE))
    wf = letter(retry=AT_ONCE)
    async with opened(store, workflows=[wf], model=model) as engine:
        run = await engine.start(wf)
        assert await run.result() == SENTENCE
        (doubt,) = await events_of(run, ModelCallInDoubt)
        assert SENTENCE.startswith(doubt.partial.value())
        assert (await events_of(run, ModelCallReconciled)) == []


@BOTH
@bounded
async def test_an_interrupted_call_has_a_known_cost_if_its_provider_counted_it(store: str, name: str) -> None:
    wire = Wire()
    listening = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = listening.sockets[0].getsockname()[1]
    if name == HAIKU:
        begun = anthropic_reply(stop_reason=None, usage={"input_tokens": 10, "output_tokens": 1})
        wire.will_stream(
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": SENTENCE}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 20}},
            done=False,
        )
    else:
        wire.will_stream(
            {"id": "c", "choices": [{"index": 0, "delta": {"content": SENTENCE}, "finish_reason": None}], "usage": None},
            {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None},
            {"id": "c", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}},
            done=False,
        )
    providers = Providers(environment=environment(wire.port))
    wf = letter(name, retry=1)
    async with opened(store, workflows=[wf], model=providers) as engine:
        run = await engine.start(wf)
        state = await run.until(lambda state: state.ended == "failed")
        (doubt,), (known,) = await events_of(run, ModelCallInDoubt), await events_of(run, ModelCallReconciled)
        price = engine.executor.services.gateway._prices.of(name)
        assert known.cost_nanousd == price.cost_nanousd(Usage(10, 20)) == state.budget.settled_nanousd
        assert doubt.partial.value() == SENTENCE
        assert (state.budget.held_nanousd, state.budget.in_doubt_nanousd) == (0, 0)
    await providers.aclose()
    listening.close()


@bounded
async def test_a_watcher_sees_a_dead_processs_text_voided_and_then_the_whole_answer(
    store: str, server: ModelServer, model: Providers
) -> None:
    """And who comes back with the cursor that he had in mid-sentence hears the rest once."""
    server.script.add(Rule(text=SENTENCE, pause_s=0.05))
    wf = letter()
    async with opened(store, execute=False) as elsewhere:
        async with opened(store, workflows=[wf], model=model) as engine:
            run = await engine.start(wf)
            watching = elsewhere.watch_stream(run.id)
            heard = await until(watching, 20)
            await die(engine)
        async with opened(store, workflows=[wf], model=model) as engine:
            back = [each async for each in elsewhere.watch_stream(run.id, since=heard[-1].cursor)]
            heard += [each async for each in watching]
            assert text_of(heard, "write#1:0:2") == text_of(back, "write#1:0:2") == SENTENCE
            assert await engine.run(run.id).result() == SENTENCE
            assert SENTENCE.startswith(text_of(heard))
            assert [each.kind for each in heard if each.kind == "reset"] == ["reset"]
            assert [each.kind for each in back if each.kind == "reset"] == ["reset"]


@bounded
async def test_a_secret_that_comes_in_two_pieces_is_never_shown(
    store: str, server: ModelServer, model: Providers, monkeypatch: pytest.MonkeyPatch, stored: Callable[[], bytes]
) -> None:
    """However the provider cuts it: each sentence has it elsewhere, and the server cuts them all alike."""
    monkeypatch.setenv("CANARY", "TOP-SECRET-VALUE")
    asked = ["x" * shift + " the key is TOP-SECRET-VALUE, keep it; TOP-SECRET-VAL is none" for shift in range(17)]
    server.script.add(*(Rule(user=f"number {n}:", text=text, pause_s=0.001) for n, text in enumerate(asked)))

    @flow
    async def leaks(ctx: Context, _: None) -> list[str]:
        ctx.secret("CANARY")
        calls = [ctx.model(HAIKU, f"number {n}: say it", max_tokens=200, stream=True) for n in range(len(asked))]
        return await ctx.gather(*calls)

    async with opened(store, workflows=[leaks], model=model) as engine:
        run = await engine.start(leaks, None)
        told = [each async for each in engine.watch_stream(run.id)]
        masked = [text.replace("TOP-SECRET-VALUE", "[secret]") for text in asked]
        assert await run.result() == masked
        for n, text in enumerate(masked):
            assert text_of(told, f"flow#1:0.{n}.0:1") == text
    assert b"TOP-SECRET-VALUE" not in stored()


@BOTH
@bounded
async def test_thinking_and_arguments_are_heard_as_they_come_without_the_secrets_in_them(
    store: str, name: str, monkeypatch: pytest.MonkeyPatch, stored: Callable[[], bytes]
) -> None:
    """Cut where it hurts; and who comes later is told the same at the same places."""
    monkeypatch.setenv("CANARY", "TOP-SECRET-VALUE")
    thoughts = ["They want TOP-SE", "CRET-VALUE", " back."]
    pieces = ['{"note": "TOP-SECRET', "-VALUE is", ' late"}']
    wire = Wire()
    listening = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = listening.sockets[0].getsockname()[1]
    if name == HAIKU:
        use = {"type": "tool_use", "id": "toolu/1", "name": "final_result", "input": {}}
        blocks = [
            ({"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", thoughts),
            (use, "input_json_delta", "partial_json", pieces),
        ]
        wire.will_stream(
            {"type": "message_start", "message": anthropic_reply(stop_reason=None)},
            *(
                event
                for n, (block, kind, field, parts) in enumerate(blocks)
                for event in (
                    {"type": "content_block_start", "index": n, "content_block": block},
                    *({"type": "content_block_delta", "index": n, "delta": {"type": kind, field: part}} for part in parts),
                )
            ),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 20}},
            {"type": "message_stop"},
        )
    else:
        called = [{"index": 0, "id": "toolu/1", "function": {"name": "final_result", "arguments": ""}}]
        called += [{"index": 0, "function": {"arguments": part}} for part in pieces]
        deltas = [*({"reasoning_content": part} for part in thoughts), *({"tool_calls": [each]} for each in called)]
        ends = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
        wire.will_stream(
            *({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas),
            ends,
            {"id": "c", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}},
        )
    providers = Providers(environment=environment(wire.port))

    class Note(BaseModel):
        note: str

    @flow
    async def asks(ctx: Context, _: None) -> str:
        ctx.secret("CANARY")
        return (await ctx.model(name, "Which?", max_tokens=200, output=Note, stream=True)).note

    async with opened(store, workflows=[asks], model=providers) as engine:
        run = await engine.start(asks, None)
        live = [each async for each in engine.watch_stream(run.id)]
        assert await run.result() == "[secret] is late"
        later = [each async for each in engine.watch_stream(run.id)]
    for told in (live, later):
        assert text_of(told, "flow#1:0:1:thinking") == "They want [secret] back."
        assert text_of(told, "flow#1:0:1:final_result:toolu_1") == '{"note": "[secret] is late"}'
        assert [each.kind for each in told][-2:] == ["end", "result"]
        assert {each.kind for each in told} == {"thinking", "arguments", "end", "result"}
    assert b"TOP-SECRET-VALUE" not in stored()
    await providers.aclose()
    listening.close()


@pytest.mark.parametrize("page", [1, 200])
@bounded
async def test_what_a_model_thinks_is_sent_before_what_it_says_also_to_who_comes_later(
    store: str, server: ModelServer, model: Providers, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where both are there at one look, while the call goes on."""
    monkeypatch.setattr("holdfast.engine.runs.stream_hub._PAGE", page)
    server.script.add(Rule(text="Never heard.", fault=Fault("hang")))
    wf = letter()
    async with opened(store, workflows=[wf], model=model, call_grace_s=0.0) as engine:
        run = await engine.start(wf)
        await run.until(lambda state: bool(state.calls))
        words = {"": "Tuesday.", ":thinking": "Where is it?"}
        for number in range(2):
            await engine.runtime.store.streams.append(
                [
                    Piece(StreamName(run.id, f"write#1:0:1{part}"), str(number), len(text), text.encode())
                    for part, text in words.items()
                ]
            )
        told = await _all(engine.watch_stream(run.id, follow=False))
        assert [each.kind for each in told] == ["thinking", "thinking", "text", "text"]


@bounded
async def test_to_be_heard_makes_no_other_workflow_and_no_other_request(server: ModelServer, model: Providers) -> None:
    plain = Workflow("letter")

    @plain.node("write")
    @llm_node(model=HAIKU, max_tokens=200)
    async def write(state):
        return "Where is it?"

    assert plain.hash == letter().hash


@tool(effect="read")
async def look(where: str) -> str:
    """Look somewhere."""
    return f"{where} is there"


@flow
async def looks(ctx: Context, question: str) -> str:
    return await ctx.agent(HAIKU, question, tools=[look], max_tokens=100, stream=True)


def looking(server: ModelServer, answer: str = "All there.", pause_s: float | None = None) -> None:
    """Two turns with tools, of two and of one, and an answer."""
    calls = [(ToolCall("look", {"where": "a"}), ToolCall("look", {"where": "b"})), (ToolCall("look", {"where": "c"}),)]
    for number, asked in enumerate(calls):
        server.script.add(Rule(turn=number + 1, text=f"Look {number}.", tool_calls=asked, pause_s=pause_s))
    server.script.add(Rule(turn=3, text=answer, pause_s=pause_s))


def keep_order(told: list[StreamEvent]) -> None:
    """Each result stands behind the request that it answers, before anything of the call that is given it."""
    ends = [at for at, each in enumerate(told) if each.kind == "end"]
    results = [at for at, each in enumerate(told) if each.kind == "result"]
    assert [sum(before < at for before in ends) for at in results] == [1, 1, 2], [(e.kind, e.source) for e in told]
    first: dict[str, int] = {}
    for at, each in enumerate(told):
        first.setdefault(call_of(each.source), at)
    _, second, third = first.values()
    assert results[1] < second < results[2] < third, [(each.kind, each.source) for each in told]


@pytest.mark.parametrize("page", [1, 2, 200])
@bounded
async def test_a_result_is_sent_before_what_is_written_about_it(
    store: str, server: ModelServer, model: Providers, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To those who listen, who come later, and who come back at any place."""
    monkeypatch.setattr("holdfast.engine.runs.stream_hub._PAGE", page)
    looking(server)
    async with opened(store, workflows=[looks], model=model) as engine, opened(store, execute=False) as elsewhere:
        run = await engine.start(looks, "What is there?")
        both = engine.watch_stream(run.id), elsewhere.watch_stream(run.id)
        heard = await asyncio.gather(*(asyncio.ensure_future(_all(each)) for each in both))
        assert await run.result() == "All there."
        later = await _all(engine.watch_stream(run.id, follow=False))
        for told in (*heard, later):
            keep_order(told)
        for at, each in enumerate(later[:-1]):
            rest = await _all(engine.watch_stream(run.id, since=each.cursor))
            assert [(e.kind, e.source) for e in rest] == [(e.kind, e.source) for e in later[at + 1 :]]


@bounded
async def test_a_result_is_sent_first_though_text_comes_while_it_is_looked_for(
    store: str, server: ModelServer, model: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is full of what the model says meanwhile has no room for the result."""
    monkeypatch.setattr("holdfast.engine.runs.stream_hub._PAGE", 1)
    looking(server, SENTENCE, pause_s=0.02)
    async with opened(store, workflows=[looks], model=model) as engine:
        streams = type(engine.runtime.store.streams)
        chunks = streams.chunks

        async def after_more_text(self: Any, runs: Any, known: Any, *rest: Any, **options: Any) -> Any:
            """With a result to read, read when there is more text than is known."""
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    while more := {name for name, size in (await self.sizes(runs)).items() if size > known.get(name, 0)}:
                        if all(name.stream != TOOLS for name in more) or len(more) > 1:
                            break
                        await asyncio.sleep(0.002)
            return await chunks(self, runs, known, *rest, **options)

        monkeypatch.setattr(streams, "chunks", after_more_text)
        run = await engine.start(looks, "What is there?")
        keep_order(await _all(engine.watch_stream(run.id)))
        assert await run.result() == SENTENCE


async def _all(telling: AsyncIterator[StreamEvent]) -> list[StreamEvent]:
    return [each async for each in telling]


@bounded
async def test_a_call_is_not_begun_before_the_results_that_it_is_given_are_in_the_store(
    store: str, server: ModelServer, model: Providers, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking(server)
    early: list[int] = []
    async with opened(store, workflows=[looks], model=model) as engine:
        streams = type(engine.runtime.store.streams)
        append = streams.append

        async def slowly(self: Any, pieces: Any) -> None:
            known = len(server.calls)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    while any(piece.name.stream == TOOLS for piece in pieces):
                        if len(server.calls) > known:
                            early.append(known)
                            break
                        await asyncio.sleep(0.005)
            await append(self, pieces)

        monkeypatch.setattr(streams, "append", slowly)
        assert await (await engine.start(looks, "What is there?")).result() == "All there."
    assert (early, len(server.calls)) == ([], 3)
