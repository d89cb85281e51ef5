"""Model calls of a program that a step runs: answered from the journal, made once, held at what is bought, and never silently new."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from holdfast import Engine, RetryPolicy, RunFailed, Workflow, task
from holdfast.core.facts.events import ModelCallFailed, ModelCallHeld, ModelCallInDoubt, ModelCallSettled
from holdfast.engine.operations.forwarding import ProgramCalls
from holdfast.errors import CallsStopped, OperationFailed
from holdfast.models.forwarded.requests import read
from holdfast.models.providers import Providers
from holdfast.ports import ForwardedReply, ForwardedRequest
from holdfast.service.declarations import query
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.settings import Settings
from holdfast.testing.model_server import Fault, ModelServer, Rule
from holdfast.testing.wire import Usage
from tests.engine.history import events_of

HAIKU, NANO = "claude-haiku-4-5", "gpt-4.1-nano"


class Reader:
    """What a program got of a streamed reply."""

    def __init__(self) -> None:
        self.begun: list[int | None] = []
        self.pieces: list[str] = []

    def begin(self, max_tokens: int | None) -> None:
        self.begun.append(max_tokens)

    def tell(self, piece: str) -> None:
        self.pieces.append(piece)


def message(text: str, *, max_tokens: int = 300, stream: bool = False, **fields: Any) -> ForwardedRequest:
    body = {"model": HAIKU, "max_tokens": max_tokens, "messages": [{"role": "user", "content": text}], **fields}
    body |= {"stream": True} if stream else {}
    return msgspec.structs.replace(read("/v1/messages", {}, json.dumps(body).encode()), timeout_s=20.0)


async def ask(calls: ProgramCalls, text: str, **options: Any) -> str:
    """What the model says, as the program reads it."""
    reply = await calls.forward(message(text, **options), Reader())
    return said(reply)


def said(reply: ForwardedReply) -> str:
    return str(json.loads(reply.pieces[0])["content"][0]["text"])


Program = Callable[[ProgramCalls, int], Awaitable[Any]]


class Fails(Exception):
    """The program has failed."""


def runs(program: Program, attempts: int = 3, **options: Any) -> Workflow:
    """A workflow whose one step runs a program; it is given the number of the attempt."""
    wf = Workflow("runs")
    started = 0

    @wf.node("program")
    @task(retry=RetryPolicy(max_attempts=attempts, initial_s=0, jitter=0))
    async def run(ctx: Any) -> Any:
        nonlocal started
        started += 1
        async with ctx.program_calls("call", **{"patience_s": 0.05, **options}) as calls:
            return await program(calls, started)

    return wf


async def test_a_program_that_starts_again_is_answered_from_the_journal(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="first", user="one"), Rule(text="second", user="two"), Rule(text="third", user="three"))

    async def program(calls: ProgramCalls, attempt: int) -> list[str]:
        answers = [await ask(calls, "one"), await ask(calls, "two")]
        if attempt == 1:
            raise Fails
        return [*answers, await ask(calls, "three")]

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program), cost_limit_usd="1.00")
        assert await run.result() == ["first", "second", "third"]
        assert len(server.calls) == 3
        held, settled = await events_of(run, ModelCallHeld), await events_of(run, ModelCallSettled)
        assert [each.path for each in held] == ["call.0", "call.1", "call.2"]
        assert all(each.cost_nanousd > 0 for each in settled)


async def test_a_recorded_stream_comes_again_in_the_same_pieces(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(text="a longer answer in several pieces"))
    got: list[Reader] = []

    async def program(calls: ProgramCalls, attempt: int) -> None:
        got.append(reader := Reader())
        reply = await calls.forward(message("go on", stream=True), reader)
        assert reply.pieces == tuple(reader.pieces)
        if attempt == 1:
            raise Fails

    async with Engine.open(store, model=model) as engine:
        await (await engine.start(runs(program))).result()
        assert len(server.calls) == 1
        assert got[0].pieces == got[1].pieces
        assert len(got[0].pieces) > 3
        assert got[0].begun == got[1].begun == [None]


async def test_calls_in_another_order_find_their_replies(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(text="first", user="one"), Rule(text="second", user="two"))

    async def program(calls: ProgramCalls, attempt: int) -> list[str]:
        order = ["one", "two"] if attempt == 1 else ["two", "one"]
        answers = await asyncio.gather(*(ask(calls, each) for each in order))
        if attempt == 1:
            raise Fails
        return answers

    async with Engine.open(store, model=model) as engine:
        assert await (await engine.start(runs(program))).result() == ["second", "first"]
        assert len(server.calls) == 2


async def test_equal_requests_are_calls_of_their_own_and_keep_their_order(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="heads", times=1), Rule(text="tails"))

    async def program(calls: ProgramCalls, attempt: int) -> list[str]:
        answers = [await ask(calls, "toss"), await ask(calls, "toss")]
        if attempt == 1:
            raise Fails
        return answers

    async with Engine.open(store, model=model) as engine:
        assert await (await engine.start(runs(program))).result() == ["heads", "tails"]
        assert len(server.calls) == 2


async def test_a_difference_stops_and_names_the_call_the_field_and_both_values(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="yes"))

    async def program(calls: ProgramCalls, attempt: int) -> str:
        await ask(calls, "one")
        await ask(calls, "two" if attempt == 1 else "three")
        if attempt == 1:
            raise Fails
        return "unreachable"

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program))
        with pytest.raises(RunFailed) as failed:
            await run.result()
        message = failed.value.error.message
        assert "Call 2 of the program" in message
        assert "turns[0].content" in message
        assert "'two'" in message
        assert "'three'" in message
        assert len(server.calls) == 2


async def test_the_program_hears_of_a_difference_and_none_of_its_later_calls_is_made(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="yes"))

    async def program(calls: ProgramCalls, attempt: int) -> str:
        await ask(calls, "one" if attempt == 1 else "two")
        raise Fails

    async def stubborn(calls: ProgramCalls, attempt: int) -> str:
        if attempt == 1:
            return await program(calls, attempt)
        for text in ("two", "three"):
            with pytest.raises(CallsStopped) as stopped:
                await ask(calls, text)
            assert stopped.value.reason == "difference"
        return "done"

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(stubborn))
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert failed.value.error.error_class == "non_deterministic"
        assert len(server.calls) == 1


async def test_on_change_live_goes_on_from_there(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(text="yes"))

    async def program(calls: ProgramCalls, attempt: int) -> list[str]:
        answers = [await ask(calls, "one"), await ask(calls, "two" if attempt == 1 else "three")]
        if attempt == 1:
            raise Fails
        return answers

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program, on_change="live"))
        assert await run.result() == ["yes", "yes"]
        assert [each.path for each in await events_of(run, ModelCallHeld)] == ["call.0", "call.1", "call.2"]


async def test_a_new_call_of_a_parallel_part_waits_for_the_recorded_ones(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="yes"))

    async def program(calls: ProgramCalls, attempt: int) -> str:
        async def slow() -> None:
            await ask(calls, "a1")
            if attempt == 2:
                while not waits:
                    await asyncio.sleep(0)
            await ask(calls, "a2")

        async def fast() -> None:
            if attempt == 1:
                return
            waits.append(True)
            await ask(calls, "b1")

        waits: list[bool] = []
        await asyncio.gather(slow(), fast())
        if attempt == 1:
            raise Fails
        return "done"

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program, patience_s=30.0))
        assert await run.result() == "done"
        assert len(server.calls) == 3


# --- Money --------------------------------------------------------------------------------------------------------------------


async def test_a_maximum_that_the_budget_cannot_hold_is_lowered_and_held_at_what_is_bought(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="short"))
    got = Reader()

    async def program(calls: ProgramCalls, attempt: int) -> int | None:
        reply = await calls.forward(message("go", max_tokens=64_000, stream=True), got)
        return reply.max_tokens

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program), cost_limit_usd="0.10")
        bought = await run.result()
        assert bought is not None
        assert 10_000 < bought < 20_000
        assert got.begun == [bought]
        (call,) = server.calls
        assert call.max_tokens == bought
        (held,) = await events_of(run, ModelCallHeld)
        assert bought * 5_000 < held.hold_nanousd <= 100_000_000
        assert bought < held.tokens < bought + 2_000
        (row,) = (await Service(engine).query(Principal(), query.Operations(run=run.id))).rows
        assert row["max_tokens"] == bought


async def test_a_lowered_call_is_found_by_what_the_program_asked_for(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(text="short"))

    async def program(calls: ProgramCalls, attempt: int) -> str:
        answer = await ask(calls, "go", max_tokens=64_000)
        if attempt == 1:
            raise Fails
        return answer

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program), cost_limit_usd="0.10")
        assert await run.result() == "short"
        assert len(server.calls) == 1


async def test_a_policy_can_forbid_a_lower_maximum(store: str, server: ModelServer, model: Providers) -> None:
    async def program(calls: ProgramCalls, attempt: int) -> str:
        with pytest.raises(CallsStopped) as stopped:
            await ask(calls, "go", max_tokens=64_000)
        assert stopped.value.reason == "limit"
        return "ended"

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program, may_lower=False), cost_limit_usd="0.10")
        await run.settled()
        assert await run.status() == "budget_blocked"
        assert server.calls == []


async def test_at_a_limit_the_program_is_told_and_a_raise_goes_on_from_that_call(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="yes", usage=Usage(input_tokens=100, output_tokens=900)))
    told: list[str] = []

    async def program(calls: ProgramCalls, attempt: int) -> list[str]:
        answers = []
        for text in ("one", "two"):
            try:
                answers.append(await ask(calls, text, max_tokens=1_000))
            except CallsStopped as stopped:
                told.append(str(stopped))
                return answers
        return answers

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program), cost_limit_usd="0.0056")
        await run.settled()
        assert await run.status() == "budget_blocked"
        assert len(server.calls) == 1
        assert f"Cost limit of run {run.id} reached" in told[0]
        assert f"holdfast budget raise {run.id}" in told[0]
        await engine.raise_budget(run.id, "1.00", by="ada")
        assert await run.result() == ["yes", "yes"]
        assert len(server.calls) == 2


async def test_a_call_waits_for_what_another_of_the_program_leaves(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(text="yes"))

    async def program(calls: ProgramCalls, attempt: int) -> list[str]:
        return await asyncio.gather(*(ask(calls, str(each), max_tokens=1_000) for each in range(4)))

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program), cost_limit_usd="0.009")
        assert await run.result() == ["yes"] * 4
        assert len(server.calls) == 4


# --- Clients that go ----------------------------------------------------------------------------------------------------------


async def test_a_call_whose_client_is_gone_is_finished_and_answers_the_next_equal_request(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="late but here", latency_s=0.3))

    async def program(calls: ProgramCalls, attempt: int) -> list[str]:
        first = asyncio.create_task(ask(calls, "go"))
        while not server.calls:
            await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.wait([first])
        return [await ask(calls, "go"), await ask(calls, "go")]

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program))
        assert await run.result() == ["late but here", "late but here"]
        assert len(server.calls) == 2  # a reply that was delivered is not given twice
        assert len(await events_of(run, ModelCallSettled)) == 2


async def test_a_call_is_journaled_though_its_client_and_the_program_are_gone(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="late", latency_s=0.3))

    async def program(calls: ProgramCalls, attempt: int) -> str:
        task = asyncio.create_task(ask(calls, "go"))
        while not server.calls:
            await asyncio.sleep(0.01)
        task.cancel()
        return "ended"

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program))
        assert await run.result() == "ended"
        assert len(await events_of(run, ModelCallSettled)) == 1


async def test_a_reply_that_could_not_be_given_answers_the_next_equal_request(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(text="here", times=1), Rule(text="another"))

    async def program(calls: ProgramCalls, attempt: int) -> list[str]:
        first = await ask(calls, "go")
        calls.undelivered(message("go"))
        return [first, await ask(calls, "go"), await ask(calls, "go")]

    async with Engine.open(store, model=model) as engine:
        assert await (await engine.start(runs(program))).result() == ["here", "here", "another"]


# --- Errors -------------------------------------------------------------------------------------------------------------------


async def test_an_error_of_the_provider_is_recorded_and_comes_again(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(times=1, fault=Fault("status", status=400, message="too long")), Rule(text="shorter"))

    async def program(calls: ProgramCalls, attempt: int) -> str:
        with pytest.raises(OperationFailed, match="too long") as failed:
            await ask(calls, "long")
        assert getattr(failed.value, "status_code", None) == 400
        reply = await ask(calls, "short")
        if attempt == 1:
            raise Fails
        return reply

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program))
        assert await run.result() == "shorter"
        assert len(server.calls) == 2
        assert len(await events_of(run, ModelCallFailed)) == 1


async def test_an_error_at_which_a_program_has_ended_is_asked_for_again(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(user="bad", times=1, fault=Fault("status", status=400)), Rule(text="yes"))

    async def program(calls: ProgramCalls, attempt: int) -> str:
        answers = await asyncio.gather(ask(calls, "good"), ask(calls, "bad"), return_exceptions=True)
        if any(isinstance(each, Exception) for each in answers):
            raise Fails
        return " ".join(map(str, answers))

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program))
        assert await run.result() == "yes yes"
        assert len(server.calls) == 3


async def test_a_stream_that_breaks_off_is_in_doubt_and_its_retry_is_another_call(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(times=1, text="a reply of some words", fault=Fault("cut_in_body")), Rule(text="whole"))

    async def program(calls: ProgramCalls, attempt: int) -> str:
        with pytest.raises(OperationFailed):
            await calls.forward(message("go", stream=True), Reader())
        reader = Reader()
        await calls.forward(message("go", stream=True), reader)
        if attempt == 1:
            raise Fails
        return "".join(reader.pieces)

    async with Engine.open(store, model=model) as engine:
        run = await engine.start(runs(program))
        assert "whole" in await run.result()
        assert len(server.calls) == 2
        assert len(await events_of(run, ModelCallInDoubt)) == 1


async def test_with_only_hashes_kept_a_difference_still_stops(store: str, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(text="yes"))

    async def program(calls: ProgramCalls, attempt: int) -> str:
        await ask(calls, f"attempt {attempt}")
        raise Fails

    async with Engine.open(store, model=model, settings=Settings(keep_requests="hash")) as engine:
        run = await engine.start(runs(program))
        with pytest.raises(RunFailed, match="only the hash is kept"):
            await run.result()
        assert len(server.calls) == 1
