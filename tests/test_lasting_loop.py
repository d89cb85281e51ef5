"""A callback that exits does not end a loop of ours; its main task does, and a signal."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Context, flow, step, sync
from holdfast.platform.lasting_loop import LastingAsyncioLoop, LastingLoop, fastest
from holdfast.platform.machine import run_quickly
from holdfast.platform.own_loop import OwnLoop

MAKES = pytest.mark.parametrize("make", [LastingAsyncioLoop, fastest()], ids=["asyncio", "fastest"])


@step
async def lets_a_callback_exit() -> str:
    loop = asyncio.get_running_loop()
    for code in (3, "no file"):  # uvloop tells of the last that exit in one turn
        came = loop.create_future()
        loop.call_soon(sys.exit, code)
        loop.call_soon_threadsafe(came.set_result, None)
        await came
        await asyncio.sleep(0)
    return "went on"


@flow
async def careless(ctx: Context) -> str:
    asyncio.get_running_loop().call_soon(sys.exit)
    await asyncio.sleep(0)
    return await lets_a_callback_exit()


@MAKES
def test_a_callback_that_exits_does_not_end_the_loop(
    make: Callable[[], asyncio.AbstractEventLoop], caplog: pytest.LogCaptureFixture
) -> None:
    def interrupts() -> None:
        raise KeyboardInterrupt

    async def main() -> str:
        said: str = await lets_a_callback_exit()
        asyncio.get_running_loop().call_soon(interrupts)
        await asyncio.sleep(0)
        return said

    with asyncio.Runner(loop_factory=make) as runner:
        assert isinstance(runner.get_loop(), LastingLoop)
        assert runner.run(main()) == "went on"
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 3, said
    assert any("exit with 3" in each for each in said)
    assert any("exit with 1 (no file)" in each for each in said)
    assert all("raise an error in the step itself" in each for each in said)


@MAKES
def test_an_engine_is_called_also_at_the_moment_when_a_callback_has_exited(
    make: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From another thread, in which the loop does not run for a moment."""
    came: list[int] = []

    async def main() -> None:
        own = OwnLoop()

        async def work() -> int:
            return 7

        def calls(*_: object, **__: object) -> None:
            assert not own._loop.is_running()
            thread = threading.Thread(target=lambda: came.append(own.awaited(work())))
            thread.start()
            threads.append(thread)
            thread.join(0.2)  # it is sent now, and answered when the loop goes on

        monkeypatch.setattr("holdfast.platform.lasting_loop.log.error", calls)
        asyncio.get_running_loop().call_soon(sys.exit)
        while not came:
            await asyncio.sleep(0.001)

    threads: list[threading.Thread] = []
    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(asyncio.wait_for(main(), 30))
    threads[0].join()
    assert came == [7]


@pytest.fixture
def heard() -> Iterator[None]:
    """A process that a shell has put into the background ignores SIGINT, and so would this one."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@MAKES
@pytest.mark.usefixtures("heard")
def test_the_main_task_and_a_signal_end_the_loop(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def exits() -> None:
        await asyncio.sleep(0)
        sys.exit(4)

    async def is_interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    async def awaits_what_exits() -> None:
        await asyncio.create_task(exits())

    for main in (exits, awaits_what_exits):
        with asyncio.Runner(loop_factory=make) as runner, pytest.raises(SystemExit, match="4"):
            runner.run(main())
    with asyncio.Runner(loop_factory=make) as runner, pytest.raises(KeyboardInterrupt):
        runner.run(is_interrupted())


def test_commands_and_engines_that_block_have_such_a_loop(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert isinstance(run_quickly(loop()), LastingLoop)
    with sync.open(tmp_path / "holdfast.db", workflows=[careless]) as engine:
        assert engine.start(careless).result() == "went on"
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 3, said
    assert said[0] == "holdfast: a callback of a flow failed: its code asked the process to exit with 0"
