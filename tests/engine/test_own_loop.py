"""An engine is called from other event loops and threads as from its own, and is none the worse for it."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import pkgutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

import pytest

from holdfast import Context, Engine, Run, Supervisor, WorkerAgent, flow, step
from holdfast.errors import KeyReused, NotFound, UsageError
from holdfast.platform.own_loop import OfLoop, OwnLoop
from holdfast.service import control
from holdfast.service.control.run_reader import RunReader
from tests.engine.kit import eventually, opened

T = TypeVar("T")


@flow
async def plus(ctx: Context, number: int) -> int:
    return number + 1


@flow
async def waits(ctx: Context) -> str:
    return str(await ctx.wait_signal("go"))


@flow
async def speaks(ctx: Context) -> None:
    stream = ctx.stream("news")
    await stream.write("one")
    await ctx.wait_signal("go")
    await stream.write("two")


def in_another_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> Coroutine[Any, Any, T]:
    """Run it in an event loop of a thread."""
    return asyncio.to_thread(lambda: asyncio.run(work()))


# --- One mechanism -------------------------------------------------------------------------------------------------------


def everything_of(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for each in kind.__subclasses__():
        yield from everything_of(each)


def is_async(method: Any) -> bool:
    inner = inspect.unwrap(method)
    returns = str(getattr(inner, "__annotations__", {}).get("return"))
    return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner) or "Async" in returns


def test_no_public_async_method_of_an_engine_can_be_forgotten() -> None:
    for module in pkgutil.iter_modules(control.__path__, "holdfast.service.control."):
        importlib.import_module(module.name)
    kinds = {*everything_of(OfLoop)} - {OfLoop}
    assert {Engine, Run, Supervisor, RunReader} < kinds
    methods = {
        f"{kind.__name__}.{name}": method
        for kind in kinds
        for name, method in vars(kind).items()
        if inspect.isfunction(method) and not name.startswith("_")
    }
    assert [name for name, method in methods.items() if is_async(method) and not hasattr(method, "through")] == []
    assert [name for name, method in methods.items() if not is_async(method)] == sorted_plain(methods)
    others = [
        each
        for module in pkgutil.iter_modules(control.__path__, "holdfast.service.control.")
        for each in vars(importlib.import_module(module.name)).values()
        if inspect.isclass(each) and each.__module__ == module.name and not issubclass(each, OfLoop)
    ]
    assert [each for each in others if any(map(inspect.iscoroutinefunction, vars(each).values()))] == []


def sorted_plain(methods: dict[str, Any]) -> list[str]:
    """The methods that need no loop, in the order of `methods`: they make handles, or look at what they are given."""
    plain = {
        "Commands.run",
        "Control.traced",
        "ControlBase.sensitive",
        "RunReader.now_ms",
        "Run.is_idle",
        "Run.needs_somebody",
        "Supervisors.supervisor",
        "Notifications.channels",
    }
    return [name for name in methods if name in plain]


async def test_a_call_in_the_engine_s_own_loop_goes_straight_there(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(OwnLoop, "carried", never)
    async with opened(store, workflows=[plus, speaks]) as engine:
        run = await asyncio.create_task(engine.start(plus, 1))
        assert await asyncio.wait_for(run.result(), 60) == 2
        rows, means = await asyncio.gather(engine.runs(), engine.score_means())
        assert ([each.run for each in rows], means) == ([run.id], [])
        assert [each async for each in engine.watch_stream(run.id)] == []


# --- From another loop ---------------------------------------------------------------------------------------------------


async def test_an_engine_serves_another_thread_s_event_loop_and_stays_whole(store: str) -> None:
    async with opened(store, workflows=[plus]) as engine:

        async def work(number: int) -> int:
            run = await engine.start(plus, number)
            result: int = await run.result()
            return result

        assert await asyncio.gather(*[in_another_loop(lambda n=n: work(n)) for n in range(8)]) == [*range(1, 9)]
        assert await work(10) == 11
        assert {each.status for each in await engine.runs()} == {"completed"}


async def test_handles_and_supervisors_serve_another_loop_too(store: str) -> None:
    async with opened(store, workflows=[waits, plus]) as engine:
        run = await engine.start(waits)
        team = await engine.set_supervisor("team", [WorkerAgent("ann", plus, ["add"])])

        async def work() -> tuple[Any, Any]:
            await engine.traced(None).signal(run.id, "go", "said")
            task = await team.submit("add", 1)
            return await engine.run(run.id).result(), (await team.wait(task.task_id)).result

        assert await in_another_loop(work) == ("said", 2)


async def test_an_error_comes_back_as_it_is(store: str) -> None:
    async with opened(store, workflows=[plus]) as engine:

        async def work() -> str:
            with pytest.raises(NotFound, match="no run nope"):
                await engine.find("nope")
            run = await engine.start(plus, 1, key="one")
            with pytest.raises(KeyReused) as problem:
                await engine.start(plus, 2, key="one")
            assert problem.value.run == run.id
            return run.id

        run_id = await in_another_loop(work)
        assert (await engine.find(run_id)).key == "one"


async def test_a_stream_is_followed_from_another_loop_and_left_there(store: str) -> None:
    async with opened(store, workflows=[speaks]) as engine:
        run = await engine.start(speaks)

        async def work() -> list[Any]:
            found = []
            stream = engine.watch_stream(run.id)
            async for told in stream:
                found.append(told)
                break
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await anext(stream)
            await stream.aclose()
            return found

        assert len(await in_another_loop(work)) == 1
        assert engine.executor.services.listening._feeds == {}

        async def whole() -> list[Any]:
            return [told async for told in engine.watch_stream(run.id)]

        following = asyncio.create_task(in_another_loop(whole))
        await eventually(lambda: engine.executor.services.listening._feeds)
        await engine.signal(run.id, "go")
        assert len(await following) > 1


async def test_leaving_a_call_leaves_nothing_of_it_behind(store: str) -> None:
    async with opened(store, workflows=[waits]) as engine:
        run = await engine.start(waits)

        async def work() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await run.result()
            assert engine.runtime.runs.watched(at_end=True) == []  # it had ended before the caller went on

        await in_another_loop(work)
        await engine.signal(run.id, "go", "said")
        assert await run.result() == "said"


async def test_a_call_is_made_in_its_caller_s_context(store: str) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="engine's")
    async with opened(store, workflows=[plus]) as engine:
        run = await engine.start(plus, 1)
        seen = set()

        async def work() -> None:
            variable.set("caller's")
            await run.until(lambda state: bool(seen.add(variable.get()) or state.ended))

        await in_another_loop(work)
        assert "caller's" in seen


async def test_a_step_in_a_thread_may_use_the_engine(store: str) -> None:
    @step
    def starts(number: int) -> int:
        async def work() -> int:
            result: int = await (await engines[0].start(plus, number)).result()
            return result

        return asyncio.run(work())

    @flow
    async def outer(ctx: Context) -> int:
        return await starts(1)

    async with opened(store, workflows=[outer, plus]) as engine:
        engines = [engine]
        assert await (await engine.start(outer)).result() == 2


# --- Where it cannot be --------------------------------------------------------------------------------------------------


async def test_an_engine_that_is_closed_says_so_in_every_loop(store: str) -> None:
    async with opened(store, workflows=[waits]) as engine:
        run = await engine.start(waits)
    for work in (lambda: engine.start(waits), run.state, lambda: anext(engine.watch_stream(run.id))):
        with pytest.raises(UsageError, match=r"^Open the engine again, or close it later"):
            await work()
        with pytest.raises(UsageError, match=r"^Open the engine again, or close it later"):
            await in_another_loop(work)  # type: ignore[arg-type]


async def test_a_call_that_an_engine_is_closed_under_ends(store: str) -> None:
    async with opened(store, workflows=[waits]) as engine:
        run = await engine.start(waits)
        waiting = asyncio.create_task(in_another_loop(run.result))
        await eventually(lambda: engine.runtime.runs.watched(at_end=True))
    with pytest.raises(UsageError, match=r"^Keep the engine open until its calls have returned"):
        await waiting


def test_an_engine_whose_loop_does_not_run_reports_how_to_be_opened(tmp_path: Any) -> None:
    loop = asyncio.new_event_loop()
    opening = Engine.open(tmp_path / "holdfast.db", workflows=[plus])
    engine = loop.run_until_complete(opening.__aenter__())
    with pytest.raises(UsageError, match=r"^Open the engine in an event loop that runs as long as it is used.*not run"):
        asyncio.run(engine.start(plus, 1))
    run = loop.run_until_complete(engine.start(plus, 1))
    assert loop.run_until_complete(run.result()) == 2
    loop.run_until_complete(opening.__aexit__(None, None, None))
    loop.close()


def test_a_loop_that_is_closed_completes_no_call_and_keeps_no_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.platform.own_loop._LOOK_S", 0.01)
    loop = asyncio.new_event_loop()

    async def made() -> OwnLoop:
        return OwnLoop()

    own = loop.run_until_complete(made())
    begun = threading.Event()

    async def forever() -> None:
        begun.set()
        await asyncio.Event().wait()

    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def work() -> None:
        waiting = asyncio.create_task(own.carried(forever()))
        await asyncio.to_thread(begun.wait)
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join)
        loop.close()
        with pytest.raises(UsageError, match=r"^Keep the engine open"):
            await waiting
        with pytest.raises(UsageError, match=r"^Open the engine in an event loop .* is closed"):
            await own.carried(forever())

    asyncio.run(work())


async def test_a_forked_process_gets_the_advice_to_open_an_engine_of_its_own(store: str) -> None:
    async with opened(store, workflows=[plus]) as engine:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            try:
                asyncio.set_event_loop(None)
                asyncio.new_event_loop().run_until_complete(engine.start(plus, 1))
            except BaseException as problem:
                os.write(writing, str(problem).encode())
            finally:
                os._exit(0)
        os.close(writing)
        said = await asyncio.to_thread(os.read, reading, 1000)
        await asyncio.to_thread(os.waitpid, child, 0)
        os.close(reading)
        assert said.decode().startswith("Open an engine in this process")
        assert await (await engine.start(plus, 1)).result() == 2


# --- A forgotten await -----------------------------------------------------------------------------------------------------


async def test_a_call_that_is_not_awaited_says_so_to_those_who_use_it(store: str) -> None:
    async with opened(store, workflows=[plus]) as engine:
        start: Any = engine.start(plus, 1)
        with pytest.raises(AttributeError, match=r"^Write `await engine.start\(...\)`.*'result'"):
            start.result()
        assert (await start).id
        rows: Any = engine.runs()
        with pytest.raises(TypeError, match=r"^Write `await engine.runs\(...\)`"):
            list(rows)
        run = (await rows)[0].run
        state: Any = engine.run(run).state()
        with pytest.raises(AttributeError, match=r"^Write `await run.state\(...\)`"):
            print(state.ended)
        assert repr(state) == "<run.state(...), to be awaited>"
        state.close()
