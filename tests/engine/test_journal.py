"""The journal of a step: what a handler that runs again sees, where it goes on, and what it may not do."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast import OperationFailed, RetryPolicy, RunFailed, Tool, ToolFailed, Workflow, task, tool
from holdfast.core.facts import events as ev
from holdfast.core.views.status import status, waiting_for
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.operations import branches
from holdfast.engine.runs import mailbox
from holdfast.errors import RunEnded, StaleAttempt
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer
from tests.engine.history import events_of
from tests.engine.kit import Time, die, divergence, engine_at, eventually, gate_of, lose_lease, opened

AT_ONCE = RetryPolicy(max_attempts=3, initial_s=0.001)
Handler = Callable[..., Any]


def one(handler: Handler, *tools: Tool, retry: Any = None, name: str = "one") -> Workflow:
    """A workflow of one step. What its handler does is no part of its identity, so another may go on with its runs."""
    wf = Workflow(name)
    wf.node("work")(task(tools=tools, retry=retry)(handler))
    return wf


@pytest.fixture
def world() -> list[Any]:
    return []


@pytest.fixture
def note(world: list[Any]) -> Tool:
    """A tool that leaves a trace."""

    @tool(effect="once")
    async def note(what: Any) -> Any:
        world.append(what)
        return what

    return note


@pytest.fixture
def refuse(world: list[Any]) -> Tool:
    @tool(effect="once")
    async def refuse(what: Any) -> Any:
        world.append(f"refused {what}")
        raise ValueError(f"not {what}")

    return refuse


# --- Replaying ------------------------------------------------------------------------------------------------------------


async def test_a_handler_repeated_after_a_crash_resumes_at_the_first_open_operation(
    store: str, world: list[Any], note: Tool, refuse: Tool
) -> None:
    seen: list[list[Any]] = []

    async def handler(state, ctx):
        found: list[Any] = []
        seen.append(found)
        found += [ctx.now(), ctx.uuid()]
        found.append(await ctx.tool("note", what=1))
        try:
            await ctx.tool("refuse", what=2)
        except OperationFailed as failed:
            found.append((failed.message, failed.error.error_class))
        found += [ctx.now(), ctx.uuid()]
        found.append(await ctx.tool("note", what={"a": [3]}))
        if len(seen) == 1:
            await asyncio.Event().wait()  # and here the process dies
        found.append(await ctx.tool("note", what=4))
        return "done"

    wf = one(handler, note, refuse)
    async with opened(store) as first, opened(store, workflows=[wf]) as second:
        run = await first.start(wf)
        await eventually(lambda: len(seen[0]) == 7 if seen else False)
        await die(first)
        assert await second.run(run.id).result() == "done"
        assert await events_of(run, ev.AttemptLost) != []
    assert seen[1][: len(seen[0])] == seen[0]
    assert len(seen[0]) == 7
    assert world == [1, "refused 2", {"a": [3]}, 4]


async def test_what_a_handler_gets_is_what_a_replay_gets(store: str, world: list[Any]) -> None:
    """A tuple is stored as a list, so the handler sees a list the first time too."""

    @tool(effect="read")
    async def pair(first: int) -> Any:
        return (first, {"on": ("2026-11-21",)})

    async def handler(ctx: Any) -> str:
        world.append(await ctx.tool("pair", first=1))
        await ctx.ask({"question": "go on?"})
        return "done"

    async with opened(store) as engine:
        run = await engine.start(one(handler, pair))
        await engine.decide(await gate_of(run))
        await run.result()
    assert world == [[1, {"on": ["2026-11-21"]}]] * 2


async def test_waiting_inside_a_step_is_replayed_too(store: str, world: list[Any], note: Tool) -> None:
    runs: list[int] = []

    async def handler(state, ctx):
        runs.append(1)
        begun = ctx.now()
        await ctx.tool("note", what="before")
        await ctx.sleep(0.01)
        answer = await ctx.ask("go on?")
        data = await ctx.wait_signal("go")
        assert ctx.now() > begun
        return [answer.decision, answer.data, answer.by, answer.reason, data]

    wf = one(handler, note)
    async with opened(store) as engine:
        run = await engine.start(wf)
        await engine.decide(await gate_of(run), "answer", {"yes": True}, by="ann", reason="why not")
        await run.until(lambda state: "signal" in [wait.kind for wait in waiting_for(state)])
    async with opened(store, workflows=[wf]) as engine:
        await engine.signal(run.id, "go", {"n": 1})
        assert await engine.run(run.id).result() == ["answer", {"yes": True}, "ann", "why not", {"n": 1}]
    assert world == ["before"]
    assert len(runs) == 4  # once, and after each of the three waits


async def test_the_time_and_the_uuids_of_a_step_belong_to_their_places(tmp_path: Path, world: list[Any]) -> None:
    now = Time()

    async def handler(state, ctx):
        world.append((ctx.now(), ctx.uuid(), ctx.uuid()))
        await ctx.sleep(days=1)
        world.append((ctx.now(), ctx.uuid()))
        return None

    async with engine_at(tmp_path, now) as engine:
        begun = datetime.datetime.fromtimestamp(now.ms / 1000, datetime.UTC)
        run = await engine.start(one(handler))
        await run.until(lambda state: bool(waiting_for(state)))
        now.forward(days=1)
        await run.result()
        other = await engine.start(one(handler))
        await other.until(lambda state: bool(waiting_for(state)))
    first, again, later, another = world
    assert first == again
    assert first[0] == begun
    assert later[0] == begun + datetime.timedelta(days=1)
    ids = {first[1], first[2], later[1], another[1], another[2]}
    assert len(ids) == 5
    assert all(isinstance(each, uuid.UUID) for each in ids)


async def test_a_plain_function_has_the_time_a_uuid_and_a_version_too(store: str, world: list[Any]) -> None:
    """It runs in a thread, which has no event loop."""

    def handler(state, ctx):
        world.append((ctx.now(), ctx.uuid(), ctx.version("rounding", 2), ctx.now()))
        if len(world) == 1:
            raise ValueError("the first time")
        return None

    async with opened(store) as engine:
        run = await engine.start(one(handler, retry=AT_ONCE))
        await run.result()
        assert len(await events_of(run, ev.ValueRecorded)) == 3
    first, again = world
    assert first == again
    assert first[2] == 2


async def test_neither_the_time_nor_a_uuid_costs_a_commit(store: str) -> None:
    async def handler(state, ctx):
        for _ in range(100):
            ctx.now()
            ctx.uuid()
        await ctx.sleep(0)

    async with opened(store) as engine:
        run = await engine.start(one(handler))
        await run.result()
        commits = {(each.at_ms, each.seq) for each in await run.events() if not isinstance(each.event, ev.ValueRecorded)}
        assert len(commits) < 10
        assert len(await events_of(run, ev.ValueRecorded)) == 100


async def test_a_retry_reopens_only_the_operation_whose_error_escaped(store: str, world: list[Any], note: Tool) -> None:
    tries: list[int] = []

    @tool(effect="idempotent")
    async def flaky(n: int, key: str) -> str:
        world.append(("flaky", n, key))
        if len(tries) < 3:
            tries.append(n)
            raise ToolFailed("not now")
        return f"flaky {n}"

    async def handler(state, ctx):
        await ctx.tool("note", what=1)
        try:
            await ctx.tool("flaky", n=1)
        except OperationFailed:
            pass  # this failure stays what it was
        await ctx.tool("note", what=2)
        said = await ctx.tool("flaky", n=2)
        await ctx.tool("note", what=3)
        return said

    async with opened(store) as engine:
        run = await engine.start(one(handler, note, flaky, retry=AT_ONCE))
        assert await run.result() == "flaky 2"
        assert [failed.reopens for failed in await events_of(run, ev.AttemptFailed)] == ["3", "3"]
    assert [each if isinstance(each, int) else each[:2] for each in world] == [
        1,
        ("flaky", 1),
        2,
        ("flaky", 2),
        ("flaky", 2),
        ("flaky", 2),
        3,
    ]
    keys = {each[2] for each in world if not isinstance(each, int)}
    assert len(keys) == 2


async def test_an_error_of_the_handlers_own_reopens_nothing(store: str, world: list[Any], note: Tool) -> None:
    async def handler(state, ctx):
        await ctx.tool("note", what=len(world))
        if len(tries) < 2:
            tries.append(1)
            raise RuntimeError("not yet")
        return len(world)

    tries: list[int] = []
    # A handler may not ask for something else when it runs again; this one does, so the second try is stopped.
    async with opened(store) as engine:
        shown = await divergence(await engine.start(one(handler, note, retry=AT_ONCE)))
        assert (shown["journal"]["arguments"], shown["code"]["arguments"]) == ('{"what":0}', '{"what":1}')
    assert world == [0]


# --- Leaving ----------------------------------------------------------------------------------------------------------------


async def test_a_handlers_except_exception_does_not_swallow_a_suspension(store: str, world: list[Any], note: Tool) -> None:
    async def handler(state, ctx):
        try:
            answer = await ctx.ask("sure?")
        except Exception:
            await ctx.tool("note", what="swallowed")
            return "swallowed"
        return answer.decision

    async with opened(store) as engine:
        run = await engine.start(one(handler, note))
        await engine.decide(await gate_of(run), "reject")
        assert await run.result() == "reject"
    assert world == []


async def test_a_handler_that_catches_everything_still_leaves_its_step(store: str, world: list[Any], note: Tool) -> None:
    async def handler(state, ctx):
        try:
            return (await ctx.ask("sure?")).decision
        except:  # noqa: E722
            await ctx.tool("note", what="swallowed")
            return "swallowed"
        finally:
            world.append("finally")

    async with opened(store) as engine:
        run = await engine.start(one(handler, note))
        await engine.decide(await gate_of(run), "approve")
        assert await run.result() == "approve"
    assert world == ["finally", "finally"]


async def test_a_branch_of_a_gather_that_catches_everything_still_waits(store: str) -> None:
    async def asks(ctx):
        try:
            return (await ctx.ask("sure?")).decision
        except:  # noqa: E722
            return "swallowed"

    async def handler(state, ctx):
        return await ctx.gather(asks(ctx), asks(ctx))

    async with opened(store) as engine:
        run = await engine.start(one(handler))
        first, second = (await run.until(lambda state: len(state.gates) == 2)).gates
        await engine.decide(second, "reject")
        await engine.decide(first, "approve")
        assert await run.result() == ["approve", "reject"]


async def test_nothing_is_held_while_a_step_waits(store: str) -> None:
    async def handler(state, ctx):
        return await ctx.gather(ctx.wait_signal("a"), ctx.sleep(days=3), ctx.ask("?"))

    async with opened(store, slots=1) as engine:
        runs = [await engine.start(one(handler)) for _ in range(10)]
        for run in runs:
            await run.until(lambda state: len(waiting_for(state)) == 3)
        await eventually(lambda: not (engine.runtime.runs.resident or engine.executor.working))
        assert [row.status for row in await engine.runs()] == ["waiting"] * 10
        waits = waiting_for(await runs[0].state())
        assert sorted(wait.kind for wait in waits) == ["gate", "signal", "timer"]


async def test_a_cancelled_step_waits_no_longer(store: str, world: list[Any], note: Tool) -> None:
    async def handler(state, ctx):
        world.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            world.append("cancelled")

    async with opened(store) as engine:
        run = await engine.start(one(handler))
        await eventually(lambda: world)
        await engine.cancel(run.id)
        assert (await run.settled()).ended == "cancelled"
        await eventually(lambda: not engine.executor.working)
    assert world == ["begun", "cancelled"]


# --- gather -----------------------------------------------------------------------------------------------------------------


async def test_the_branches_of_a_gather_run_at_the_same_time_and_answer_in_order(store: str) -> None:
    meet = asyncio.Barrier(3)

    @tool(effect="read")
    async def meeting(n: int) -> int:
        await asyncio.wait_for(meet.wait(), 60)
        await asyncio.sleep(0.01 * (3 - n))
        return n

    async def handler(state, ctx):
        return await ctx.gather(*(ctx.tool("meeting", n=n) for n in range(3)))

    async with opened(store) as engine:
        assert await (await engine.start(one(handler, meeting))).result() == [0, 1, 2]


@pytest.mark.parametrize("may_wait", [5, 10_000])
async def test_a_gather_of_more_than_may_wait_does_each_once_so_many_at_a_time(
    store: str, world: list[Any], monkeypatch: pytest.MonkeyPatch, may_wait: int
) -> None:
    monkeypatch.setattr(branches, "MAX_AT_ONCE", 7)
    monkeypatch.setattr(mailbox, "MAX_WAITING", may_wait)
    under_way: set[tuple[int, int]] = set()
    most: list[int] = []

    @tool(effect="once")
    async def act(outer: int, inner: int) -> None:
        under_way.add((outer, inner))
        most.append(max(sum(each[0] == outer for each in under_way) for outer in range(10)))
        await asyncio.sleep(0)
        world.append((outer, inner))
        under_way.remove((outer, inner))

    async def branch(ctx: Any, outer: int) -> int:
        return len(await ctx.gather(*(ctx.tool(act, outer=outer, inner=inner) for inner in range(20))))

    async def all_(state, ctx):
        return await ctx.gather(*(branch(ctx, outer) for outer in range(10)))

    wf = one(all_, act)
    async with opened(store, workflows=[wf]) as engine:
        assert await (await engine.start(wf)).result() == [20] * 10
    assert sorted(world) == [(outer, inner) for outer in range(10) for inner in range(20)]
    assert max(most) <= 7


async def test_nested_gathers_replay_each_branch_in_its_own_place(store: str, world: list[Any], note: Tool) -> None:
    async def leaf(ctx, name):
        first = await ctx.tool("note", what=f"{name}1")
        await ctx.sleep(0.01)
        return [first, await ctx.tool("note", what=f"{name}2"), str(ctx.uuid())]

    async def handler(state, ctx):
        before = await ctx.tool("note", what="before")
        found = await ctx.gather(leaf(ctx, "a"), ctx.gather(leaf(ctx, "b"), leaf(ctx, "c"), ctx.sleep(0.02)))
        return [before, found, await ctx.tool("note", what="after")]

    async with opened(store) as engine:
        run = await engine.start(one(handler, note))
        before, ((a1, a2, id_a), ((b1, b2, id_b), (c1, c2, id_c), nothing)), after = await run.result()
        assert [before, a1, a2, b1, b2, c1, c2, nothing, after] == ["before", "a1", "a2", "b1", "b2", "c1", "c2", None, "after"]
        assert len({id_a, id_b, id_c}) == 3
        assert len(await events_of(run, ev.EffectIntended)) == 8
    assert sorted(world) == ["a1", "a2", "after", "b1", "b2", "before", "c1", "c2"]


async def test_a_gather_decides_the_same_whatever_its_branches_have_become_meanwhile(
    store: str, world: list[Any], note: Tool, refuse: Tool
) -> None:
    """The second branch fails at once, the first only later: a handler that catches the error may not see another one
    when it runs again."""

    async def handler(state, ctx):
        try:
            await ctx.gather(ctx.wait_signal("late", timeout_s=0.05), ctx.tool("refuse", what=1))
        except OperationFailed as failed:
            await ctx.tool("note", what=failed.error.error_class)
            await ctx.wait_signal("go")
            return failed.error.error_class

    async with opened(store) as engine:
        run = await engine.start(one(handler, note, refuse))
        await run.until(lambda state: "go" in [wait.reason for wait in waiting_for(state)])
        await engine.signal(run.id, "go")
        assert await run.result() == "timeout"
    assert world == ["refused 1", "timeout"]


async def test_a_failed_branch_lets_the_others_finish_and_its_retry_repeats_only_itself(
    store: str, world: list[Any], note: Tool
) -> None:
    @tool(effect="once")
    async def picky(n: int) -> int:
        world.append(f"picky {n}")
        if world.count(f"picky {n}") < 2 and n == 1:
            raise ToolFailed("not now")
        return n

    async def handler(state, ctx):
        return await ctx.gather(ctx.tool("note", what=0), ctx.tool("picky", n=1), ctx.tool("picky", n=2))

    async with opened(store) as engine:
        assert await (await engine.start(one(handler, note, picky, retry=AT_ONCE))).result() == [0, 1, 2]
    assert sorted(map(str, world)) == ["0", "picky 1", "picky 1", "picky 2"]


async def test_overlapping_operations_outside_of_gather_are_refused(store: str, world: list[Any], note: Tool) -> None:
    async def handler(state, ctx):
        return await asyncio.gather(ctx.tool("note", what=1), ctx.tool("note", what=2))

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match="overlap") as failed:
            await (await engine.start(one(handler, note))).result()
        assert failed.value.error.error_class == "non_deterministic"
    assert 2 not in world


# --- Code that no longer matches ----------------------------------------------------------------------------------------------


def first_version(ctx):
    return ctx.tool("note", what="old")


CHANGED = {
    "another tool": (lambda ctx: ctx.tool("other", what="old"), ["note", "other"]),
    "other arguments": (lambda ctx: ctx.tool("note", what="new"), ["tool 'note'"]),
    "another key": (lambda ctx: ctx.tool("note", what="old", key="k"), ["tool 'note'"]),
    "another kind": (lambda ctx: ctx.sleep(1), ["tool 'note'", "asks for sleep"]),
    "a name": (lambda ctx: asyncio.sleep(0, ctx.uuid()), ["tool 'note'", "asks for uuid"]),
    "a gather": (lambda ctx: ctx.gather(ctx.tool("note", what="old")), ["tool 'note'", "asks for gather"]),
    "a signal": (lambda ctx: ctx.wait_signal("go"), ["tool 'note'", "signal 'go'"]),
    "a question": (lambda ctx: ctx.ask("?"), ["tool 'note'", "gate 'question'"]),
}


@pytest.mark.parametrize("how", CHANGED)
async def test_code_that_contradicts_the_journal_shows_both_and_executes_nothing(
    store: str, world: list[Any], note: Tool, how: str
) -> None:
    @tool(effect="once")
    async def other(what: str) -> None:
        world.append("other")

    asked = first_version

    async def handler(state, ctx):
        await asked(ctx)
        await ctx.wait_signal("continue")
        await ctx.tool("note", what="after")

    wf = one(handler, note, other)
    async with opened(store) as engine:
        run = await engine.start(wf)
        await run.settled()
        asked, says = CHANGED[how]
        before = len(await run.events())
        await engine.signal(run.id, "continue")
        shown = await divergence(run)
        assert await run.status() == "requires_attention"
        assert all(each in shown["message"] for each in says)
        assert shown["journal"] == {"operation": "tool 'note'", "arguments": '{"what":"old"}'}
        since = [type(each.event).__name__ for each in await run.events(before)]
        assert not {"EffectIntended", "TimerStarted", "SignalAwaited", "StepFailed"} & set(since)
        assert since.count("GateOpened") == 1
    assert world == ["old"]


async def test_what_looks_at_the_time_where_something_else_stood_is_reported(store: str, world: list[Any], note: Tool) -> None:
    looks = False

    async def handler(state, ctx):
        if looks:
            ctx.now()
        await ctx.tool("note", what=1)
        await ctx.wait_signal("continue")

    async with opened(store) as engine:
        run = await engine.start(one(handler, note))
        await run.settled()
        looks = True
        await engine.signal(run.id, "continue")
        assert (await divergence(run))["code"] == {"operation": "now"}
    assert world == [1]


async def test_one_line_put_before_a_question_stops_the_run_and_the_old_code_completes_it(
    store: str, world: list[Any], note: Tool
) -> None:
    """The payment made and the approval given are worth more than the line: nothing fails, and nothing is done twice."""
    sleeps = False

    async def handler(state, ctx):
        await ctx.tool("note", what="paid")
        if sleeps:
            await ctx.sleep(0)
        return (await ctx.ask("send it?")).decision

    wf = one(handler, note)
    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        gate = await gate_of(run)
    async with opened(store, execute=False) as engine:
        await engine.decide(gate, "approve", by="ann")
    sleeps = True
    async with opened(store, workflows=[wf]) as engine:
        shown = await divergence(engine.run(run.id))
        assert shown["journal"] == {"operation": "gate 'question'", "arguments": '"send it?"'}
        assert shown["code"] == {"operation": "sleep", "arguments": '{"seconds":0.0}'}
        assert (await engine.run(run.id).settled()).ended == ""
    sleeps = False
    async with opened(store, workflows=[wf]) as engine:
        await engine.decide(shown["gate"], "retry", by="ann")
        assert await engine.run(run.id).result() == "approve"
    assert world == ["paid"]


@pytest.mark.parametrize("answer", ["approve", "restart"])
async def test_going_on_with_the_new_code_reuses_what_is_done(
    store: str, world: list[Any], note: Tool, server: ModelServer, model: Providers, answer: str
) -> None:
    changed = False

    async def handler(state, ctx):
        if changed:
            await ctx.sleep(0)
        said = await ctx.model("claude-haiku-4-5", user="a word", max_tokens=10)
        first, second = await ctx.gather(ctx.tool("note", what="one"), ctx.tool("note", what="one"))
        await ctx.wait_signal("go")
        return [said, first, second]

    wf = one(handler, note)
    async with opened(store, workflows=[wf], model=model) as engine:
        run = await engine.start(wf)
        await run.until(lambda state: status(state) == "waiting")
        changed = True
        await engine.signal(run.id, "go")
        gate = (await divergence(run))["gate"]
        if answer == "approve":
            await engine.decide(gate, "approve")
        else:
            await engine.decide(gate, "answer", answer)
        assert (await run.result())[1:] == ["one", "one"]
    assert world == ["one", "one"]
    assert len(server.calls) == 1 + (answer == "restart"), "what a model said is asked for again only from the beginning"


async def test_the_time_brings_the_old_code_back_into_it_with_no_decision_at_all(store: str, note: Tool) -> None:
    changed = True

    async def handler(state, ctx):
        await ctx.tool("note", what="new" if changed and ctx.failures == 0 and seen else "old")
        seen.append(1)
        await ctx.wait_signal("go")
        return "done"

    seen: list[int] = []
    async with opened(store) as engine:
        run = await engine.start(one(handler, note))
        await run.settled()
        await engine.signal(run.id, "go")
        await divergence(run)
        changed = False
        assert await run.result() == "done"
        assert [gate.state for _, gate in await engine.gates(open_only=False) if gate] == ["withdrawn"]


# --- Faults of the handler's own ----------------------------------------------------------------------------------------------


async def test_a_conflict_of_the_handlers_own_is_its_error_and_not_a_step_that_hangs(store: str) -> None:
    async def handler(state, ctx):
        raise RunEnded("the run that I wanted to tell has ended")

    async with opened(store) as engine:
        run = await engine.start(one(handler))
        with pytest.raises(RunFailed, match="the run that I wanted to tell"):
            await asyncio.wait_for(run.result(), 60)


async def test_a_step_whose_process_dies_each_time_fails_instead_of_killing_for_ever(store: str) -> None:
    begun: list[int] = []

    async def handler(state, ctx):
        begun.append(1)
        await asyncio.Event().wait()

    wf = one(handler)
    async with opened(store) as first:
        run = await first.start(wf)
        await eventually(lambda: begun)
        await die(first)
        for number in range(2, 6):
            async with opened(store, workflows=[wf]) as engine:
                await eventually(lambda number=number: len(begun) == number)
                await die(engine)
        async with opened(store, workflows=[wf]) as engine:
            with pytest.raises(RunFailed, match="it may be the step that kills it") as failed:
                await engine.run(run.id).result()
            assert failed.value.error.error_class == "lost"
            assert len(await events_of(run, ev.AttemptLost)) == 5
    assert len(begun) == 5


async def test_an_attempt_that_another_process_replaced_gets_an_error_and_changes_nothing(
    store: str, world: list[Any], note: Tool
) -> None:
    go_on = asyncio.Event()
    told: list[BaseException] = []

    async def handler(state, ctx):
        world.append("begun")
        if len(world) == 1:
            while not go_on.is_set():
                with contextlib.suppress(asyncio.CancelledError):  # it is told, and does not listen
                    await go_on.wait()
            try:
                await ctx.tool("note", what="too late")
            except (StaleAttempt, asyncio.CancelledError) as problem:
                told.append(problem)
                raise
        return await ctx.tool("note", what="in time")

    wf = one(handler, note)
    async with opened(store) as first, opened(store, workflows=[wf]) as second:
        run = await first.start(wf)
        await eventually(lambda: world)
        await lose_lease(first)
        assert await second.run(run.id).result() == "in time"
        go_on.set()
        await eventually(lambda: told and not first.executor.working)
    assert world == ["begun", "begun", "in time"]


async def test_a_call_of_a_session_that_died_is_not_sent_under_the_one_that_took_its_place(
    store: str, world: list[Any], note: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease that counts right before sending is the one under which the intent was made."""
    outside, swapped = Attempt.outside, []

    async def swap_sessions_first(self, call):
        async def later():
            if not swapped:
                swapped.append(self.session)
                await lose_lease(engine)
                await engine.runtime.membership.hold()
                assert engine.runtime.membership.alive()
            return await call

        return await outside(self, later())

    async def handler(state, ctx):
        return await ctx.tool("note", what="once")

    monkeypatch.setattr(Attempt, "outside", swap_sessions_first)
    async with opened(store) as engine:
        run = await engine.start(one(handler, note))
        assert await run.result() == "once"
        assert [each.session for each in await events_of(run, ev.AttemptLost)] == swapped
        assert [change.state for _, change in await engine.effects(run.id)] == ["released", "completed"]
    assert world == ["once"]


async def test_a_handler_sees_the_run_as_it_was_while_others_commit(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a large output takes a while; what other branches commit meanwhile is not half there."""
    wf = Workflow("busy")
    names = [f"part{number}" for number in range(8)]
    waiting: list[str] = []
    reading = asyncio.Event()

    for name in names:

        @wf.node(name)
        @task
        async def part(state, name=name):
            waiting.append(name)
            await reading.wait()
            return name * 50_000

    @wf.node("large")
    @task
    async def large(state):
        await eventually(lambda: len(waiting) == len(names))
        return "x" * 200_000

    @wf.node("look")
    @task
    async def look(state):
        return {name: len(view.output) for name, view in state.events.items()}

    wf.node("end")(task(join="best_effort")(lambda state: state.events["look"].output))
    wf.edge("large", "look")
    for name in ("look", *names):
        wf.edge(name, "end")
    async with opened(store) as engine:
        payloads = engine.payloads
        get = payloads._blobs.get

        async def slowly(tenant: str, month: str, sha256: str) -> bytes:
            reading.set()
            while len([e for e in await run.events() if isinstance(e.event, ev.StepCompleted)]) <= len(names):
                await asyncio.sleep(0.005)
            return await get(tenant, month, sha256)

        monkeypatch.setattr(payloads, "_remember", lambda name, content: None)
        monkeypatch.setattr(payloads._blobs, "get", slowly)
        run = await engine.start(wf)
        assert await run.result() == {"large": 200_000}


async def test_what_a_handler_returns_poisons_only_its_own_run(store: str) -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    poison = {"deep": deep, "branch": "\ud800", "nul": "\x00", "nan": float("nan"), "object": object()}

    async def handler(state, ctx):
        return poison[state.input["kind"]]

    wf = one(handler)
    async with opened(store) as engine:
        bad = [await engine.start(wf, {"kind": kind}) for kind in poison]
        poison["good"] = "good"
        good = await engine.start(wf, {"kind": "good"})
        assert await good.result() == "good"
        for run in bad:
            state = await run.settled()
            assert state.ended == ("completed" if state.error is None else "failed")
        assert status(await bad[2].state()) == "completed"  # NUL is text like any other
        assert await (await engine.start(wf, {"kind": "good"})).result() == "good"
    async with opened(store, workflows=[wf]) as engine:
        assert await (await engine.start(wf, {"kind": "good"})).result() == "good"


async def test_a_name_that_cannot_be_stored_poisons_only_its_own_run(store: str) -> None:
    from holdfast import branch

    wf = Workflow("odd way")
    wf.node("route")(branch(lambda state: state.input["way"]))
    wf.node("there")(task(lambda state: "there"))
    wf.edge("route", "there")
    async with opened(store) as engine:
        bad = await engine.start(wf, {"way": "there"})
        odd = await engine.start(wf, {"way": "nowhere"})
        assert await bad.result() == "there"
        with pytest.raises(RunFailed):
            await odd.result()
        wf2 = Workflow("odd way 2")
        wf2.node("route")(branch(lambda state: "\ud800"))
        wf2.node("there")(task(lambda state: "there"))
        wf2.edge("route", "there")
        with pytest.raises(RunFailed):
            await asyncio.wait_for((await engine.start(wf2)).result(), 60)
        assert await (await engine.start(wf, {"way": "there"})).result() == "there"


# --- Places with names ----------------------------------------------------------------------------------------------------


async def test_a_place_with_a_name_is_found_whatever_came_before_it(store: str, world: list[Any], note: Tool) -> None:
    tries: list[int] = []

    async def handler(state, ctx):
        tries.append(ctx.failures)
        if not ctx.failures:
            await ctx.apart("first", ctx.tool("note", what="first"))
        said = await ctx.apart("second", ctx.tool("note", what="second"))
        if ctx.failures < 2:
            raise ConnectionError("gone for a moment")
        return said

    wf = one(handler, note, retry=AT_ONCE)
    async with opened(store, workflows=[wf]) as engine:
        assert await (await engine.start(wf)).result() == "second"
    assert world == ["first", "second"]
    assert tries == [0, 1, 2]  # how many tries have failed, as a step may ask


async def test_places_with_names_are_apart_in_each_branch_and_may_be_used_at_once(
    store: str, world: list[Any], note: Tool
) -> None:
    async def handler(state, ctx):
        async def branch(n):
            return await ctx.apart("same", ctx.tool("note", what=n))

        return await ctx.gather(branch(1), branch(2), ctx.gather(branch(3)))

    wf = one(handler, note)
    async with opened(store, workflows=[wf]) as engine:
        assert await (await engine.start(wf)).result() == [1, 2, [3]]
    assert sorted(world) == [1, 2, 3]


async def test_a_wait_at_a_place_with_a_name_suspends_the_step_even_if_its_code_caught_it(store: str) -> None:
    after: list[str] = []

    async def handler(state, ctx):
        try:
            await ctx.apart("pause", ctx.wait_signal("go"))
        except BaseException:  # what a careless handler does
            after.append("caught")
        after.append("went on")

    wf = one(handler)
    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        await run.until(lambda state: status(state) == "waiting")
        assert after == ["caught", "went on"]
        assert not (await run.state()).ended
        await engine.signal(run.id, "go")
        await run.result()
    assert after == ["caught", "went on", "went on"]


@pytest.mark.parametrize("name", ["", "0", "a.b", "a:b", "ä"])
async def test_what_would_look_like_another_place_is_no_name(store: str, name: str) -> None:
    async def handler(state, ctx):
        await ctx.apart(name, asyncio.get_running_loop().create_future())

    wf = one(handler, retry=1)
    async with opened(store, workflows=[wf]) as engine:
        with pytest.raises(RunFailed, match="names no place"):
            await (await engine.start(wf)).result()


async def test_branches_that_were_called_off_before_they_began_cause_no_complaint(
    store: str, world: list[Any], note: Tool
) -> None:
    """A coroutine that is let go of without a word makes asyncio warn, which is an error here."""

    async def called_off(work: Coroutine[Any, Any, Any]) -> None:
        going = asyncio.ensure_future(work)
        await asyncio.sleep(0)  # it has made its task, which has not begun
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going

    async def handler(state, ctx):
        await called_off(ctx.apart("place", ctx.tool("note", what="never")))
        await called_off(ctx.gather(ctx.tool("note", what="never")))
        with pytest.raises(ValueError, match="names no place"):
            await ctx.apart("0", ctx.tool("note", what="never"))
        gc.collect()

    wf = one(handler, note)
    async with opened(store, workflows=[wf]) as engine:
        await (await engine.start(wf)).result()
    assert world == []


async def test_a_recorded_result_is_there_for_later_attempts_and_belongs_to_its_branch(store: str) -> None:
    seen: list[Any] = []

    async def work(state: Any, ctx: Any) -> str:
        async def branch(n: int) -> None:
            seen.append((n, await ctx.recorded("part")))
            if ctx.failures < 2:
                await ctx.record("part", {"n": n, "failures": ctx.failures, "large": "x" * 100_000 * n})

        await ctx.gather(branch(0), branch(1))
        if ctx.failures < 2:
            raise ToolFailed("again", retryable=True)
        return "done"

    wf = one(work, retry=AT_ONCE)
    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        assert await run.result() == "done"
        recorded = await events_of(run, ev.ValueRecorded)
    assert [found for _, found in seen[:2]] == [None, None]
    assert {n: (found["n"], found["failures"], len(found["large"])) for n, found in seen[4:]} == {
        0: (0, 1, 0),
        1: (1, 1, 100_000),
    }
    assert {each.path for each in recorded} == {"0.0.part", "0.1.part"}
    assert {each.payload is not None and each.payload.blob is not None for each in recorded if "0.1" in each.path} == {True}


@pytest.mark.parametrize("name", ["", "0", "a.b", "a:b"])
async def test_what_names_no_place_is_reported(store: str, name: str) -> None:
    wf = one(lambda state, ctx: ctx.record(name, 1))
    async with opened(store, workflows=[wf]) as engine:
        with pytest.raises(RunFailed, match="names no place"):
            await (await engine.start(wf)).result()
