"""The processes of an example: each is started here, known by its id, and ended here, whatever happens.

Never here: what an example tells, what it counts.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

LISTENS_WITHIN_S = 30.0
ENDS_WITHIN_S = 5.0
LOOK_S = 0.02
LOOPBACK = "127.0.0.1"
HOLDFAST = (sys.executable, "-c", "import sys; from holdfast.cli import main; sys.exit(main())")
"""The command `holdfast`, wherever this Python keeps its scripts."""
SOMEWHERE = Path()
"""Where nobody has said where."""


class StageError(Exception):
    """A process of the demo did not do its part; the message has the end of what it said."""


class Child:
    """One process of ours, and the file with all that it said."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self.log = log
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def failed(self) -> bool:
        """Whether it has ended, and not because it was done."""
        return bool(self._process.returncode)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    async def wait(self) -> int:
        return await self._process.wait()

    async def kill(self) -> None:
        """kill -9: no handler runs, nothing is flushed, nobody is told."""
        self._signal(signal.SIGKILL)
        await self._process.wait()

    async def end(self) -> int:
        """Ask it to stop, and make it stop if it does not. Returns its exit code."""
        self._signal(signal.SIGTERM)
        self.thaw()  # a frozen process hears nothing else
        try:
            return await asyncio.wait_for(self._process.wait(), ENDS_WITHIN_S)
        except TimeoutError:
            await self.kill()
            return self._process.returncode or 0

    def last_words(self, lines: int = 15) -> str:
        said = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(said[-lines:]) or "(it said nothing)"

    def _signal(self, number: signal.Signals) -> None:
        if self.alive:
            self._process.send_signal(number)


class Stage:
    """All processes of one demo. Leaving it ends them, last come, first gone; a second Ctrl-C does not stop that."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._children: list[Child] = []

    async def start(
        self, name: str, *command: str, environment: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Child:
        log = self.directory / f"{name}.log"
        with log.open("ab") as said:
            process = await asyncio.create_subprocess_exec(
                *command, env=environment, cwd=cwd, stdin=asyncio.subprocess.DEVNULL, stdout=said, stderr=said
            )
        child = Child(name, process, log)
        self._children.append(child)
        return child

    async def serve(self, name: str, module: str, *options: str) -> tuple[Child, int]:
        """A server of the test kit, and the port on which it listens."""
        port_file = self.directory / f"{name}.port"
        child = await self.start(name, sys.executable, "-m", module, "--port-file", str(port_file), *options)
        async with asyncio.timeout(LISTENS_WITHIN_S):
            while not port_file.exists():
                if not child.alive:
                    raise StageError(f"The {name} did not start:\n{child.last_words()}")
                await asyncio.sleep(LOOK_S)
        return child, int(port_file.read_text())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # ending takes seconds at most
        try:
            for child in reversed(self._children):
                await child.end()
        finally:
            signal.signal(signal.SIGINT, before)


def environment(store: str, **more: str) -> dict[str, str]:
    """Ours for the demo's processes: the store and `more`, no other setting of Holdfast, no proxy to ourselves."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    direct = {name: ",".join(filter(None, (given.get(name), LOOPBACK))) for name in ("NO_PROXY", "no_proxy")}
    return {**given, **direct, "PYTHONUNBUFFERED": "1", "HOLDFAST_STORE": store, **more}


async def alongside(story: Coroutine[Any, Any, None], *helpers: Coroutine[Any, Any, None]) -> None:
    """Play `story` to its end while the helpers work; one of them that fails ends it too."""
    tasks = [asyncio.create_task(each) for each in (story, *helpers)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def until_terminated(playing: Coroutine[Any, Any, T]) -> T:
    """SIGTERM and SIGHUP end the demo as Ctrl-C does: with everything that it started."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await playing


def fresh_directory(keep: Path | None) -> Path:
    """A fresh one: named by the user, or a temporary one."""
    if keep is None or keep == SOMEWHERE:
        return Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    keep.mkdir(parents=True, exist_ok=True)
    if any(keep.iterdir()):
        sys.exit(f"{keep} is not empty; the demo needs a fresh directory.")
    return keep.resolve()
