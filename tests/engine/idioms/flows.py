"""Flows as people write them with plain asyncio, one for each line of docs/guide/what-a-flow-may-do.md.

Their steps return what they were given and tell the `World` of it. Never here: what must come of a flow (table).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import http.server
import socketserver
import threading
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

import anyio
import httpx2

from holdfast import Context, OperationFailed, flow, step
from tests.engine.idioms.world import world

DAY_S = 86_400.0
"""A time that passes. Where the store's time is not the test's it is a short one (`short`)."""
YEAR_S = 31_536_000.0
"""A time that never passes in a test."""


@step
async def pay(name: str) -> str:
    world().called("pay", name)
    return name


@step
async def later(name: str, than: str) -> str:
    """Come back after the result of `than` was recorded."""
    world().called("later", name)
    await world().recorded(than)
    return name


@step
async def never(name: str) -> str:
    """Take for ever, until it is called off."""
    world().called("never", name)
    try:
        await asyncio.Event().wait()
    finally:
        world().left(name)
    return name


@step
async def broken(name: str) -> str:
    world().called("broken", name)
    raise ValueError(f"{name} is broken")


@step(effect="once")
async def charge(name: str) -> str:
    world().called("charge", name)
    return name


@flow
async def one_after_another(ctx: Context) -> Any:
    return [await pay("a"), await pay("b")]


@flow
async def gathered(ctx: Context) -> Any:
    return await asyncio.gather(later("a", "b"), pay("b"))


@flow
async def gathered_by_ctx(ctx: Context) -> Any:
    return await ctx.gather(later("a", "b"), pay("b"))


@flow
async def gathered_with_exceptions(ctx: Context) -> Any:
    results = await asyncio.gather(pay("a"), broken("b"), return_exceptions=True)
    return [isinstance(each, OperationFailed) or each for each in results]


@flow
async def gathered_where_one_fails(ctx: Context) -> Any:
    try:
        return await asyncio.gather(broken("a"), later("b", "c"))
    except OperationFailed:
        return await pay("c")


@flow
async def a_task(ctx: Context) -> Any:
    task = asyncio.create_task(pay("a"))
    beside = await pay("b")
    return [await task, beside]


@flow
async def a_task_that_nobody_awaits(ctx: Context) -> Any:
    async def both() -> None:
        await pay("b")
        await pay("c")

    kept = asyncio.create_task(both())
    assert not kept.done()
    return await pay("a")


@flow
async def a_task_that_fails_unseen(ctx: Context) -> Any:
    kept = asyncio.create_task(broken("b"))
    assert not kept.done()
    return await pay("a")


@flow
async def a_group(ctx: Context) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(later("a", "b")), group.create_task(pay("b"))]
    return [task.result() for task in tasks]


@flow
async def a_group_where_one_fails(ctx: Context) -> Any:
    failed = 0
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(never("a"))
            group.create_task(broken("b"))
    except* OperationFailed as problems:
        failed = len(problems.exceptions)
    return failed


@flow
async def a_race_of_a_signal_and_time(ctx: Context) -> Any:
    answer = asyncio.ensure_future(ctx.wait_signal("ok"))
    timer = asyncio.ensure_future(ctx.sleep(DAY_S))
    done, _ = await asyncio.wait({answer, timer}, return_when=asyncio.FIRST_COMPLETED)
    return "nobody answered" if timer in done else await answer


@flow
async def a_race_of_steps(ctx: Context) -> Any:
    slow, fast = asyncio.create_task(never("slow")), asyncio.create_task(pay("fast"))
    done, pending = await asyncio.wait([slow, fast], return_when=asyncio.FIRST_COMPLETED)
    for each in pending:
        each.cancel()
    return [await each for each in done]


@flow
async def a_wait_until_one_fails(ctx: Context) -> Any:
    tasks = [asyncio.create_task(never("a")), asyncio.create_task(broken("b"))]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for each in pending:
        each.cancel()
    return [len(done), len(pending)]


@flow
async def a_wait_with_a_limit(ctx: Context) -> Any:
    tasks = [asyncio.create_task(pay("a")), asyncio.create_task(ctx.wait_signal("ok"))]
    done, pending = await asyncio.wait(tasks, timeout=DAY_S)
    for each in pending:
        each.cancel()
    return [len(done), len(pending)]


@flow
async def as_each_is_done(ctx: Context) -> Any:
    tasks = [asyncio.create_task(later("a", "b")), asyncio.create_task(pay("b"))]
    return [await each for each in asyncio.as_completed(tasks)]


@flow
async def as_each_step_is_done(ctx: Context) -> Any:
    return [await each for each in asyncio.as_completed([later("a", "b"), pay("b")])]


@flow
async def as_each_coroutine_is_done(ctx: Context) -> Any:
    async def taxed(name: str) -> str:
        return await pay(name)

    return [await each for each in asyncio.as_completed([taxed("a"), taxed("b")])]


@flow
async def a_time_limit_that_ends_a_wait(ctx: Context) -> Any:
    try:
        async with asyncio.timeout(DAY_S):
            return await ctx.wait_signal("ok")
    except TimeoutError:
        return await pay("reminder")


@flow
async def a_time_limit_that_is_kept(ctx: Context) -> Any:
    async with asyncio.timeout(YEAR_S):
        return await ctx.wait_signal("ok")


@flow
async def a_time_limit_that_ends_a_step(ctx: Context) -> Any:
    try:
        async with asyncio.timeout(0.05):
            return await never("a")
    except TimeoutError:
        return await pay("b")


@flow
async def a_time_limit_around_a_step(ctx: Context) -> Any:
    async with asyncio.timeout(YEAR_S):
        return await pay("a")


@flow
async def waiting_for_a_signal_with_a_limit(ctx: Context) -> Any:
    try:
        return await asyncio.wait_for(ctx.wait_signal("ok"), DAY_S)
    except TimeoutError:
        return "too late"


@flow
async def waiting_for_a_step_with_a_limit(ctx: Context) -> Any:
    return await asyncio.wait_for(pay("a"), YEAR_S)


@flow
async def a_shield(ctx: Context) -> Any:
    task = asyncio.create_task(ctx.wait_signal("ok"))
    try:
        return await asyncio.wait_for(asyncio.shield(task), DAY_S)
    except TimeoutError:
        return ["late", await task]


@flow
async def a_long_sleep(ctx: Context) -> Any:
    before = asyncio.get_running_loop().time()
    await asyncio.sleep(DAY_S)
    return asyncio.get_running_loop().time() - before >= DAY_S


@flow
async def a_lock(ctx: Context) -> Any:
    lock, room, order = asyncio.Lock(), asyncio.Semaphore(2), list[str]()

    async def held(name: str) -> None:
        async with room, lock:
            order.append(await pay(name))

    await asyncio.gather(*map(held, "abc"))
    return order


@flow
async def a_queue(ctx: Context) -> Any:
    queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1)

    async def fill() -> None:
        for name in "ab":
            await queue.put(await pay(name))

    filling = asyncio.create_task(fill())
    taken = [await queue.get() for _ in range(2)]
    await filling
    return taken


@flow
async def a_condition_and_a_barrier(ctx: Context) -> Any:
    met, barrier, ready = asyncio.Condition(), asyncio.Barrier(2), list[str]()

    async def ask(name: str) -> None:
        paid = await pay(name)
        await barrier.wait()
        async with met:
            ready.append(paid)
            met.notify_all()

    async with asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(ask(name))
        async with met:
            await met.wait_for(lambda: len(ready) == 2)
    return sorted(ready)


@flow
async def an_event_that_nobody_sets(ctx: Context) -> Any:
    await pay("a")
    await asyncio.Event().wait()


@flow
async def polling_without_a_pause(ctx: Context) -> Any:
    task = asyncio.create_task(pay("a"))
    while not task.done():
        await asyncio.sleep(0)
    return task.result()


@flow
async def polling_with_a_pause(ctx: Context) -> Any:
    task = asyncio.create_task(ctx.wait_signal("ok"))
    while not task.done():
        await asyncio.sleep(DAY_S)
    return task.result()


class Greeter(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *args: Any) -> None:
        pass


class Threads(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False  # a client may keep its connection


@contextlib.contextmanager
def greeter() -> Iterator[str]:
    """The address of an HTTP server in a thread."""
    with Threads(("127.0.0.1", 0), Greeter) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()


async def printed(word: str) -> str:
    process = await asyncio.create_subprocess_exec("echo", word, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return out.decode().strip()


@flow
async def a_thread_and_a_process_of_its_own(ctx: Context) -> Any:
    return [await asyncio.to_thread(len, "abc"), await printed("b"), await pay("a")]


@flow
async def requests_at_the_same_time(ctx: Context) -> Any:
    async with asyncio.timeout(YEAR_S), httpx2.AsyncClient() as client:
        with greeter() as url:
            replies = await asyncio.gather(client.get(url), client.get(url))
        return [*[each.text for each in replies], await pay("a")]


@flow
async def a_thread_beside_a_task(ctx: Context) -> Any:
    task = asyncio.create_task(pay("a"))
    return [await asyncio.to_thread(len, "abc"), await task]


@flow
async def a_thread_that_calls_in(ctx: Context) -> Any:
    loop = asyncio.get_running_loop()
    told: asyncio.Future[str] = loop.create_future()
    beside = [asyncio.create_task(never(name)) for name in "ab"]
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        threads.submit(loop.call_soon_threadsafe, told.set_result, "a")
    return [await told, *[await each for each in beside]]


@flow
async def a_callback_that_makes_a_task(ctx: Context) -> Any:
    made: list[asyncio.Task[str]] = []
    first = asyncio.create_task(pay("a"))
    first.add_done_callback(lambda _: made.append(asyncio.create_task(pay("b"))))
    await asyncio.wait([first])
    await asyncio.sleep(0)
    return [await first, await made[0]]


@flow
async def a_task_that_is_cancelled(ctx: Context) -> Any:
    task = asyncio.create_task(ctx.wait_signal("ok"))
    paid = await pay("a")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return [paid, task.cancelled(), await pay("b")]


@flow
async def cleaning_up_when_the_run_is_cancelled(ctx: Context) -> Any:
    try:
        await pay("reserve")
        await ctx.wait_signal("ok")
    finally:
        await pay("release")


@flow
async def plain_cleaning_up_at_a_wait(ctx: Context) -> Any:
    try:
        return await ctx.wait_signal("ok")
    finally:
        world().left("wait")


@flow
async def cleaning_up_around_a_wait(ctx: Context) -> Any:
    async def asked() -> Any:
        try:
            return await ctx.wait_signal("ok")
        finally:
            await pay("b")

    task = asyncio.create_task(asked())
    try:
        return await asyncio.wait_for(task, YEAR_S)
    finally:
        await asyncio.gather(task, return_exceptions=True)
        await pay("a")


@flow
async def a_gather_that_is_cancelled(ctx: Context) -> Any:
    async def waiting() -> Any:
        return await ctx.wait_signal("ok")

    async def both() -> Any:
        return await ctx.gather(waiting(), ctx.sleep(YEAR_S))

    task = asyncio.create_task(both())
    paid = await pay("a")
    task.cancel()
    await asyncio.wait([task])
    return [paid, task.cancelled()]


@flow
async def a_heartbeat(ctx: Context) -> Any:
    async def beat() -> None:
        while True:
            await asyncio.sleep(YEAR_S)

    kept = asyncio.create_task(beat())
    paid = await pay("a")
    return [paid, kept.done()]


@flow
async def scopes_of_anyio(ctx: Context) -> Any:
    with anyio.move_on_after(DAY_S) as scope:
        await ctx.wait_signal("ok")
    results: list[str] = []

    async def kept(name: str) -> None:
        results.append(await pay(name))

    async with anyio.create_task_group() as group:
        for name in "ab":
            group.start_soon(kept, name)
    return [scope.cancelled_caught, *sorted(results)]


@flow
async def a_call_without_await(ctx: Context) -> Any:
    pay("a")  # type: ignore[unused-awaitable]
    return await pay("b")


@flow
async def chance(ctx: Context) -> Any:
    names = ["a", "b"] if world().passes_of("chance") else ["b", "a"]
    return [await pay(name) for name in names]


@flow
async def a_set_of_gathers(ctx: Context) -> Any:
    gathers = {asyncio.gather(pay("a"), pay("b")), asyncio.gather(pay("c"))}
    done, _ = await asyncio.wait(gathers)
    return sorted(name for each in done for name in each.result())


@flow
async def an_async_generator(ctx: Context) -> Any:
    async def paid() -> AsyncIterator[str]:
        for name in "ab":
            yield await pay(name)

    return [each async for each in paid()]


@flow
async def a_generator_that_is_left_early(ctx: Context) -> Any:
    async def paid() -> AsyncIterator[str]:
        try:
            for name in "ab":
                yield await pay(name)
        finally:
            await pay("c")

    async for _ in paid():
        break
    return await pay("d")


@flow
async def a_generator_that_is_closed(ctx: Context) -> Any:
    async def paid() -> AsyncIterator[str]:
        try:
            for name in "ab":
                yield await pay(name)
        finally:
            await pay("c")

    async with contextlib.aclosing(paid()) as names:
        async for _ in names:
            break
    return await pay("d")


async def paid_by(name: str) -> str:
    return await pay(name)


async def paid_for(call: Awaitable[str]) -> str:
    return await call


@flow
async def tasks_that_are_cancelled_before_they_begin(ctx: Context) -> Any:
    ended: list[str] = []
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(pay("a"), 0)
    try:
        async with asyncio.TaskGroup() as group:
            for each in (pay("b"), paid_by("c"), paid_for(pay("d"))):
                group.create_task(each)
            raise ValueError
    except* ValueError:
        ended.append("group")
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.gather(pay("e"), ctx.gather(pay("f"), paid_by("g")))
    return [*ended, await pay("h")]


@flow
async def a_step_in_a_loop_of_its_own(ctx: Context) -> Any:
    with contextlib.suppress(Exception):
        await asyncio.to_thread(lambda: asyncio.run(paid_for(pay("a"))))
    with contextlib.suppress(Exception):
        await asyncio.to_thread(lambda: asyncio.run(pay("a")))  # type: ignore[arg-type]
    return await pay("b")


@flow
async def a_step_in_a_thread_of_an_executor(ctx: Context) -> Any:
    with contextlib.suppress(Exception), concurrent.futures.ThreadPoolExecutor() as pool:
        await asyncio.get_running_loop().run_in_executor(pool, lambda: asyncio.run(pay("a")))  # type: ignore[arg-type]
    return await pay("b")


@flow
async def a_step_in_a_thread_that_it_starts(ctx: Context) -> Any:
    thread = threading.Thread(target=lambda: asyncio.run(pay("a")))  # type: ignore[arg-type]
    thread.start()
    thread.join()
    return await pay("b")


@flow
async def a_coroutine_without_await(ctx: Context) -> Any:
    paid_by("a")  # type: ignore[unused-coroutine]
    return await pay("b")


@flow
async def a_task_made_by_hand(ctx: Context) -> Any:
    tasks = [asyncio.Task(paid_by(name), loop=asyncio.get_running_loop()) for name in "ab"]
    with contextlib.suppress(Exception):
        await asyncio.wait(tasks)
    return await pay("c")
