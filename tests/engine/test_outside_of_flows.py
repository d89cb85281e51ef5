"""What a flow has from outside of its loop and its operations: connections, processes, threads."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from holdfast import Context, RunFailed, flow, step
from holdfast.core.facts.state import State
from holdfast.core.views.status import status
from holdfast.engine.flow import flowing
from tests.engine.kit import opened

ECHO = "import sys; print(sys.stdin.readline().strip())"
"""A program that says nothing before it hears something."""


@step
async def work(name: str) -> str:
    return name


@step
async def never() -> None:
    await asyncio.Event().wait()


async def test_a_flow_reads_within_a_limit_without_leaving_its_connection(store: str) -> None:
    begun: list[asyncio.subprocess.Process] = []

    @flow
    async def reads(ctx: Context) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", ECHO, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        begun.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        async with asyncio.timeout(3600):
            process.stdin.write(b"hello\n")
            line = await process.stdout.readline()
        await process.communicate()
        return line.decode().strip()

    async with opened(store) as engine, asyncio.timeout(30):
        assert await (await engine.start(reads)).result() == "hello"
    assert len(begun) == 1


async def test_a_flow_that_sleeps_beside_an_open_connection_holds_no_slot(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flowing, "NEAR_S", 0.0)

    @flow
    async def sleeps(ctx: Context) -> None:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", ECHO, stdin=asyncio.subprocess.PIPE)
        try:
            await asyncio.sleep(86_400)
        finally:
            process.kill()

    def waits(state: State) -> bool:
        return status(state) == "waiting"

    async with opened(store) as engine:
        run = await engine.start(sleeps)
        await run.until(waits)
        await engine.cancel(run.id)


async def test_an_operation_beside_a_thread_is_refused_with_its_line(store: str) -> None:
    @flow
    async def mixes(ctx: Context) -> None:
        beside = asyncio.create_task(never())
        await asyncio.sleep(0)
        await asyncio.to_thread(len, "abc")
        beside.cancel()

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match=r"Put it into a step: .*: test_outside_of_flows\.py:\d+ in mixes\.") as failed:
            await (await engine.start(mixes)).result()
    assert failed.value.error.error_class == "non_deterministic"


async def test_a_flow_that_waits_for_nothing_reports_where_each_task_waits(store: str) -> None:
    async def takes(first: asyncio.Lock, second: asyncio.Lock) -> None:
        async with first:
            await work("a")
            async with second:
                await work("b")

    @flow
    async def locks(ctx: Context) -> None:
        left, right = asyncio.Lock(), asyncio.Lock()
        await asyncio.gather(takes(left, right), takes(right, left))

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match=r"Wait for an operation: .*: test_\w+\.py:\d+ in takes, test_.* in locks\."):
            await (await engine.start(locks)).result()


async def test_a_limit_that_is_infinite_is_none(store: str) -> None:
    @flow
    async def unlimited(ctx: Context) -> list[str]:
        async with asyncio.timeout(math.inf):
            first = await work("a")
        return [first, await asyncio.wait_for(work("b"), math.inf)]

    async with opened(store) as engine:
        assert await (await engine.start(unlimited)).result() == ["a", "b"]


async def test_a_task_that_goes_on_though_it_is_cancelled_is_refused_at_the_end(store: str) -> None:
    async def beats() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    @flow
    async def returns(ctx: Context) -> str:
        beside = asyncio.create_task(beats())
        return f"{await work('a')} {beside.done()}"

    async with opened(store) as engine, asyncio.timeout(30):
        with pytest.raises(RunFailed, match=r"End the task when it is cancelled: .*: test_\w+\.py:\d+ in beats\."):
            await (await engine.start(returns)).result()


async def test_a_step_that_another_event_loop_awaits_is_refused_with_its_line(store: str) -> None:
    async def elsewhere() -> str:
        return await work("a")

    def begins() -> str:
        return asyncio.run(elsewhere())

    @flow
    async def threads(ctx: Context) -> str:
        return await asyncio.to_thread(begins)

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match=r"Await the step in the flow itself, .*: test_\w+\.py:\d+ in threads\."):
            await (await engine.start(threads)).result()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda loop: loop.run_until_complete(None), "Write `await`, and leave out loop.run_until_complete"),
        (lambda loop: loop.set_task_factory(None), "Leave out loop.set_task_factory"),
    ],
)
async def test_what_the_loop_of_a_flow_has_not_is_refused_in_words(
    store: str, asked: Callable[[asyncio.AbstractEventLoop], None], words: str
) -> None:
    @flow
    async def asks(ctx: Context) -> None:
        asked(asyncio.get_running_loop())

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match=words):
            await (await engine.start(asks)).result()


async def test_calls_given_to_wait_are_to_be_tasks_in_pythons_own_words(store: str) -> None:
    @flow
    async def waits(ctx: Context) -> None:
        await asyncio.wait([work("a"), work("b")])  # type: ignore[type-var]

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match=r"use tasks explicitly.* \(test_\w+\.py:\d+ in waits\)"):
            await (await engine.start(waits)).result()


class Pages:
    """An asynchronous generator whose `finally` waits for something, and then notes that it is closed."""

    def __init__(self, until: Callable[[], Any]) -> None:
        self._until = until
        self.closed: list[str] = []
        self.run_is_over = asyncio.Event()

    async def read(self) -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            with contextlib.suppress(TimeoutError):  # a run that does not wait for it would be over by then
                await asyncio.wait_for(self.run_is_over.wait(), 0.3)
            await self._until()
            self.closed.append("closed")


async def test_a_generator_that_is_left_open_is_closed_before_the_run_completes(store: str) -> None:
    pages = Pages(lambda: asyncio.to_thread(str))

    @flow
    async def reads(ctx: Context) -> int:
        async for page in pages.read():
            return page
        return 0

    async with opened(store) as engine:
        assert await (await engine.start(reads)).result() == 1
        pages.run_is_over.set()
    assert pages.closed == ["closed"]


async def test_an_operation_of_a_generator_that_is_left_open_is_refused_at_the_end_too(store: str) -> None:
    pages = Pages(lambda: work("a"))

    @flow
    async def reads(ctx: Context) -> int:
        async for page in pages.read():
            return page
        return 0

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match=r"contextlib\.aclosing.*test_outside_of_flows\.py:\d+ in read"):
            await (await engine.start(reads)).result()
        pages.run_is_over.set()
    assert pages.closed == []


async def test_a_generator_that_cannot_close_is_logged_and_does_not_hold_its_flow(
    store: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(flowing, "LOOK_S", 0.05)
    waits = Pages(asyncio.Event().wait)

    async def fails() -> None:
        raise ValueError("cannot close")

    broken = Pages(fails)
    broken.run_is_over.set()

    @flow
    async def reads(ctx: Context) -> int:
        for pages in (broken, waits):
            async for page in pages.read():
                await work(f"page {page}")
                break
        return 0

    async with opened(store) as engine:
        assert await (await engine.start(reads)).result() == 0
    assert "a generator of a flow failed to close: ValueError: cannot close" in caplog.text
    assert waits.closed == []


async def test_threads_of_anyio_side_by_side_come_back(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their futures are made by anyio itself: nothing says that something is to come."""
    monkeypatch.setattr(flowing, "OUTSIDE_S", 0.0)

    @flow
    async def reads(ctx: Context) -> list[str]:
        return await asyncio.gather(*(anyio.to_thread.run_sync(slowly, each) for each in ("a", "b")))

    def slowly(name: str) -> str:
        threading.Event().wait(0.05)
        return name

    async with opened(store) as engine:
        assert await (await engine.start(reads)).result() == ["a", "b"]


async def test_a_callback_that_the_flow_itself_asks_for_is_none_from_a_thread(store: str) -> None:
    @flow
    async def calls(ctx: Context) -> list[str]:
        called: list[str] = []
        beside = asyncio.create_task(work("a"))
        asyncio.get_running_loop().call_soon_threadsafe(called.append, "b")
        return [await beside, *called]

    async with opened(store) as engine:
        assert await (await engine.start(calls)).result() == ["a", "b"]


async def test_who_waits_for_the_end_of_a_task_hears_of_it_when_its_flow_is_left(store: str) -> None:
    """A thread of anyio ends with its task; else it would keep its process from exiting."""
    ended: list[bool] = []

    @flow
    async def waits(ctx: Context) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda done: ended.append(done.done()))
        await ctx.wait_signal("go")

    async with opened(store) as engine:
        run = await engine.start(waits)
        await run.until(lambda state: status(state) == "waiting")
    assert ended == [True]


async def test_a_delay_that_is_no_number_is_an_error_of_the_code(store: str) -> None:
    @flow
    async def sleeps(ctx: Context) -> str:
        try:
            await asyncio.sleep(math.nan)
        except ValueError as problem:
            return str(problem)
        return "slept"

    async with opened(store) as engine:
        assert "nan" in await (await engine.start(sleeps)).result()


async def test_a_flow_that_cancels_itself_fails_with_its_own_words_and_line(store: str) -> None:
    @flow
    async def gives_up(ctx: Context) -> None:
        raise asyncio.CancelledError("no more paper")

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match=r"CancelledError: no more paper \(test_outside_of_flows\.py:\d+ in"):
            await (await engine.start(gives_up)).result()
