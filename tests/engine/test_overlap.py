"""Overlapping and forgotten operations in runs of early versions: the step fails whatever its code makes of that, and no
operation goes missing. Flows of later runs have an event loop of their own (idioms)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Context, Engine, OperationFailed, RunFailed, Workflow, flow, step, tool
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION
from holdfast.core.values.policies import NON_DETERMINISTIC, ErrorRecord
from tests.engine.history import events_of
from tests.engine.kit import eventually, opened
from tests.engine.naming import name_as_before

AN_HOUR_S = 3600
paid: list[int] = []
going: dict[int, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def old_naming(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs as an early version has started them, whose flows have no event loop of their own."""
    name_as_before(monkeypatch)


@pytest.fixture(autouse=True)
def world() -> list[int]:
    paid.clear()
    going.clear()
    return paid


@step
async def pay(n: int) -> int:
    paid.append(n)
    await asyncio.sleep(0)
    return n


@step(effect="once")
async def pay_once(n: int) -> int:
    paid.append(n)
    while n in going and not going[n].is_set():
        await asyncio.sleep(0)
    return n


async def failure(engine: Engine, wf: Workflow) -> ErrorRecord:
    """The error of a run of `wf`, which must not complete."""
    with pytest.raises(RunFailed) as failed:
        await (await engine.start(wf)).result()
    error: ErrorRecord = failed.value.error
    return error


# --- Overlap -----------------------------------------------------------------------------------------------------------


async def the_approval_with_a_time_limit(ctx: Context) -> Any:
    answer, timer = asyncio.ensure_future(ctx.wait_signal("ok")), asyncio.ensure_future(ctx.sleep(AN_HOUR_S))
    done, _ = await asyncio.wait({answer, timer}, return_when=asyncio.FIRST_COMPLETED)
    return "nobody answered in an hour" if timer in done else "answered"


async def the_same_in_the_other_order(ctx: Context) -> Any:
    timer, answer = asyncio.ensure_future(ctx.sleep(AN_HOUR_S)), asyncio.ensure_future(ctx.wait_signal("ok"))
    done, _ = await asyncio.wait({answer, timer}, return_when=asyncio.FIRST_COMPLETED)
    return "answered" if answer in done else "nobody answered in an hour"


async def a_gather_that_returns_exceptions(ctx: Context) -> Any:
    return [str(each) for each in await asyncio.gather(pay(1), pay(2), return_exceptions=True)]


async def a_fallback_under_a_gather(ctx: Context) -> Any:
    async def careful(n: int) -> Any:
        try:
            return await pay(n)
        except Exception:
            return "fallback"

    return await asyncio.gather(careful(1), careful(2))


async def one_that_catches_everything(ctx: Context) -> Any:
    async def careless(n: int) -> Any:
        with contextlib.suppress(BaseException):
            return await pay(n)

    return await asyncio.gather(careless(1), careless(2))


async def a_task_beside_the_flow(ctx: Context) -> Any:
    task = asyncio.create_task(pay(1))
    await asyncio.sleep(0)
    with contextlib.suppress(BaseException):
        await pay(2)
    return await task


async def a_task_group(ctx: Context) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(pay(n)) for n in (1, 2)]
    return [task.result() for task in tasks]


async def a_task_group_that_is_caught(ctx: Context) -> Any:
    try:
        return await a_task_group(ctx)
    except BaseException:
        return "fallback"


async def an_agents_tools_that_report_every_error(ctx: Context) -> Any:
    async def called(n: int) -> str:
        try:
            return f"paid {await pay(n)}"
        except BaseException as problem:
            return f"error: {type(problem).__name__}"

    told = await asyncio.gather(*map(called, (1, 2)))
    return f"All is paid: {told}"


async def a_branch_of_a_gather(ctx: Context) -> Any:
    async def branch() -> Any:
        return await asyncio.gather(pay(1), pay(2), return_exceptions=True)

    with contextlib.suppress(Exception):
        await ctx.gather(broken(), branch())
    return "done"


async def broken() -> None:
    raise ValueError("this branch is broken")


OVERLAPS: list[Callable[[Context], Awaitable[Any]]] = [
    the_approval_with_a_time_limit,
    the_same_in_the_other_order,
    a_gather_that_returns_exceptions,
    a_fallback_under_a_gather,
    one_that_catches_everything,
    a_task_beside_the_flow,
    a_task_group,
    a_task_group_that_is_caught,
    an_agents_tools_that_report_every_error,
    a_branch_of_a_gather,
]


@pytest.mark.parametrize("code", OVERLAPS, ids=lambda each: each.__name__)
async def test_overlapping_operations_fail_the_step_whatever_its_code_catches(
    store: str, code: Callable[[Context], Awaitable[Any]]
) -> None:
    @flow
    async def wf(ctx: Context) -> Any:
        return await code(ctx)

    async with opened(store, workflows=[wf]) as engine:
        error = await failure(engine, wf)
    assert error.error_class == NON_DETERMINISTIC
    assert not error.retryable
    assert error.message.startswith("Use ctx.gather(...)"), error.message
    assert paid in ([], [1])


async def test_a_refusal_names_both_operations_and_their_lines(store: str) -> None:
    @flow
    async def wf(ctx: Context) -> Any:
        first = pay(1)
        second = ctx.sleep(5)
        return await asyncio.gather(first, second, return_exceptions=True)

    line = wf.function.__code__.co_firstlineno + 2
    async with opened(store, workflows=[wf]) as engine:
        message = (await failure(engine, wf)).message
    assert f"'pay' (test_overlap.py:{line})" in message
    assert f"'ctx.sleep' (test_overlap.py:{line + 1})" in message


async def test_overlapping_operations_of_a_node_fail_it(store: str) -> None:
    wf = Workflow("wf")

    @wf.node("one")
    async def one(state: Any, ctx: Context) -> Any:
        done = await asyncio.gather(ctx.step("pay", pay, 1), ctx.step("pay", pay, 2), return_exceptions=True)
        return [str(each) for each in done]

    async with opened(store, workflows=[wf]) as engine:
        assert (await failure(engine, wf)).error_class == NON_DETERMINISTIC


async def overlapping_item(ctx: Context, n: int) -> Any:
    return [str(each) for each in await asyncio.gather(pay(n), pay(n + 1), return_exceptions=True)]


async def test_overlapping_operations_of_an_item_fail_it(store: str) -> None:
    @flow
    async def wf(ctx: Context) -> Any:
        return await ctx.map(overlapping_item, [1])

    async with opened(store, workflows=[wf]) as engine:
        assert "ctx.gather" in (await failure(engine, wf)).message


async def test_an_effect_that_had_begun_keeps_its_outcome_when_another_is_refused(store: str) -> None:
    going[1] = asyncio.Event()

    @flow
    async def wf(ctx: Context) -> Any:
        task = asyncio.create_task(pay_once(1))
        while 1 not in paid:
            await asyncio.sleep(0)
        with contextlib.suppress(BaseException):
            await pay_once(2)
        asyncio.get_running_loop().call_later(0.01, going[1].set)
        return task.done()

    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        with pytest.raises(RunFailed):
            await run.result()
        assert [each.response.value() for each in await events_of(run, ev.EffectCompleted)] == [1]
        assert paid == [1]


async def test_nothing_is_recorded_after_a_refusal(store: str) -> None:
    @flow
    async def wf(ctx: Context) -> Any:
        async def several() -> None:
            for n in (1, 3, 4):
                await pay(n)

        task = asyncio.create_task(several())
        await asyncio.sleep(0)
        with contextlib.suppress(BaseException):
            await pay(2)
        with contextlib.suppress(BaseException):
            await task
        return "done"

    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        with pytest.raises(RunFailed):
            await run.result()
        assert [each.name for each in await events_of(run, ev.ValueRecorded) if each.kind == FUNCTION] == ["pay"]
    assert paid == [1]


# --- What nobody awaits ------------------------------------------------------------------------------------------------


async def a_task_that_is_not_begun(ctx: Context) -> Any:
    ctx.task = asyncio.create_task(pay(1))  # type: ignore[attr-defined]
    return "done"


async def a_task_of_a_helper(ctx: Context) -> Any:
    async def helper() -> None:
        await pay(1)

    ctx.task = asyncio.create_task(helper())  # type: ignore[attr-defined]
    return "done"


async def a_task_under_way(ctx: Context) -> Any:
    ctx.task = asyncio.create_task(pay(1))  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    return "done"


async def a_named_branch_under_way(ctx: Context) -> Any:
    ctx.task = asyncio.create_task(ctx.apart("aside", pay(1)))  # type: ignore[attr-defined]
    await asyncio.sleep(0)
    return "done"


async def a_race_that_another_won(ctx: Context) -> Any:
    never = asyncio.create_task(pay_once(1))
    await asyncio.wait({never, asyncio.create_task(asyncio.sleep(0))}, return_when=asyncio.FIRST_COMPLETED)
    return "done"


LEFT = [a_task_that_is_not_begun, a_task_of_a_helper, a_task_under_way, a_named_branch_under_way, a_race_that_another_won]


@pytest.mark.parametrize("code", LEFT, ids=lambda each: each.__name__)
async def test_code_that_returns_while_an_operation_is_under_way_fails(
    store: str, code: Callable[[Context], Awaitable[Any]]
) -> None:
    @flow
    async def wf(ctx: Context) -> Any:
        return await code(ctx)

    async with opened(store, workflows=[wf]) as engine:
        error = await failure(engine, wf)
        assert error.error_class == NON_DETERMINISTIC
        assert error.message.startswith("Await "), error.message
        assert "test_overlap.py:" in error.message
        before = [*paid]
        await asyncio.sleep(0.05)  # nothing of it goes on
    assert before == paid


async def test_a_task_that_asks_for_something_after_the_end_gets_nothing(store: str) -> None:
    asked: list[BaseException] = []
    ended = asyncio.Event()

    @flow
    async def wf(ctx: Context) -> Any:
        async def late() -> None:
            await ended.wait()
            try:
                await pay(1)
            except BaseException as problem:
                asked.append(problem)

        ctx.task = asyncio.create_task(late())  # type: ignore[attr-defined]
        return "done"

    async with opened(store, workflows=[wf]) as engine:
        assert await (await engine.start(wf)).result() == "done"
        ended.set()
        await eventually(lambda: asked)
    assert "has ended" in str(asked[0])
    assert paid == []


async def test_an_operation_that_an_error_left_behind_is_done_before_the_next_attempt(store: str) -> None:
    going[1] = asyncio.Event()
    attempts: list[int] = []

    @flow(retry=2)
    async def wf(ctx: Context) -> Any:
        attempts.append(len(attempts))
        if len(attempts) == 1:
            ctx.task = asyncio.create_task(pay_once(1))  # type: ignore[attr-defined]
            while 1 not in paid:
                await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(0.01, going[1].set)
            raise ConnectionError("gone")
        return await pay_once(1)

    async with opened(store, workflows=[wf]) as engine:
        assert await (await engine.start(wf)).result() == 1
    assert paid == [1]


# --- A call without await ------------------------------------------------------------------------------------------------


async def discarded(ctx: Context) -> Any:
    pay(1)
    return "done"


async def discarded_wait(ctx: Context) -> Any:
    ctx.sleep(5)
    return "done"


async def returned(ctx: Context) -> Any:
    return pay(1)


async def returned_inside(ctx: Context) -> Any:
    return {"paid": [pay(1)]}


async def added(ctx: Context) -> Any:
    return pay(1) + 1  # type: ignore[operator]


async def asked_for_a_field(ctx: Context) -> Any:
    return ctx.ask("?").decision  # type: ignore[attr-defined]


async def given_to_another(ctx: Context) -> Any:
    return await pay_once(pay(1))  # type: ignore[arg-type]


async def printed(ctx: Context) -> Any:
    return f"paid {pay(1)}"


async def an_effect(ctx: Context) -> Any:
    pay_once(1)
    return "done"


async def a_memory(ctx: Context) -> Any:
    ctx.memory("desk").remember("ann likes tea")
    return "done"


async def a_shared_value(ctx: Context) -> Any:
    ctx.shared("desk").write("tea", 1)
    return "done"


async def a_stream(ctx: Context) -> Any:
    ctx.stream("news").write(1)
    return "done"


async def a_tool_by_name(ctx: Context) -> Any:
    ctx.tool("note", n=1)
    return "done"


@tool(effect="read")
async def note(n: int) -> int:
    paid.append(n)
    return n


FORGOTTEN = {
    discarded: "pay",
    discarded_wait: "ctx.sleep",
    returned: "pay",
    returned_inside: "pay",
    added: "pay",
    asked_for_a_field: "ctx.ask",
    given_to_another: "pay",
    printed: "pay",
    an_effect: "pay_once",
    a_memory: "memory.remember",
    a_shared_value: "shared.write",
    a_stream: "stream.write",
    a_tool_by_name: "ctx.tool",
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("code", FORGOTTEN, ids=lambda each: each.__name__)
async def test_a_call_without_await_fails_the_step_by_its_name_and_line(
    store: str, code: Callable[[Context], Awaitable[Any]]
) -> None:
    @flow(tools=[note])
    async def wf(ctx: Context) -> Any:
        return await code(ctx)

    line = code.__code__.co_firstlineno + 1
    async with opened(store, workflows=[wf]) as engine:
        error = await failure(engine, wf)
    assert error.message.startswith(f"Write `await {FORGOTTEN[code]}(...)`"), error.message
    assert f"`{FORGOTTEN[code]}(...)` was not awaited (test_overlap.py:{line})" in error.message
    assert not error.retryable
    assert paid == []


async def test_a_plain_node_that_asks_without_await_fails(store: str) -> None:
    wf = Workflow("wf")

    @wf.node("one")
    def one(state: Any, ctx: Context) -> Any:
        ctx.sleep(5)
        return "done"

    async with opened(store, workflows=[wf]) as engine:
        assert "`ctx.sleep(...)` was not awaited" in (await failure(engine, wf)).message


@pytest.mark.filterwarnings("error::RuntimeWarning")
async def test_calls_awaited_after_a_wait_or_a_failure_are_no_mistake(store: str) -> None:
    @flow
    async def wf(ctx: Context) -> Any:
        calls = [pay(n) for n in (1, 2)]
        await ctx.sleep(0.001)
        try:
            await ctx.gather(broken(), *[pay(n) for n in (3, 4)])
        except ValueError:
            pass
        return [await each for each in calls]

    async with opened(store, workflows=[wf]) as engine:
        assert await (await engine.start(wf)).result() == [1, 2]


async def test_an_error_is_not_blamed_on_calls_that_it_kept_from_being_awaited(store: str) -> None:
    @flow
    async def wf(ctx: Context) -> Any:
        call = pay(1)
        raise ValueError("no money") if call else None  # type: ignore[misc]

    async with opened(store, workflows=[wf]) as engine:
        assert "no money" in (await failure(engine, wf)).message


async def test_a_call_that_a_branch_leaves_to_the_code_around_it_may_be_awaited_there(store: str) -> None:
    @flow
    async def wf(ctx: Context) -> Any:
        async def chosen(n: int) -> Any:
            return pay(n)

        return [await each for each in await ctx.gather(chosen(1), chosen(2))]

    async with opened(store, workflows=[wf]) as engine:
        assert await (await engine.start(wf)).result() == [1, 2]


async def test_a_step_that_swallows_what_refuses_its_use_of_ctx_fails(store: str) -> None:
    @flow
    async def wf(ctx: Context) -> Any:
        @step
        async def inner() -> str:
            with contextlib.suppress(Exception):
                await ctx.sleep(5)
            return "slept"

        return await inner()

    async with opened(store, workflows=[wf]) as engine:
        assert "uses ctx while it runs" in (await failure(engine, wf)).message


async def test_operations_one_after_another_in_tasks_are_no_overlap(store: str) -> None:
    @flow
    async def wf(ctx: Context) -> Any:
        first = await asyncio.create_task(pay(1))
        try:
            await asyncio.wait_for(ctx.step("bad", broken), 5)
        except OperationFailed:
            first += await asyncio.shield(pay(2))
        return first + sum(await ctx.gather(pay(3), pay(4)))

    async with opened(store, workflows=[wf]) as engine:
        assert await (await engine.start(wf)).result() == 10
