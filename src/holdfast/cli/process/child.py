"""A `holdfast` command that another one keeps as a process of its own: started, relayed line by line, heard when it serves,
ended.

Never here: when it is started again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from holdfast.cli.page import terminal
from holdfast.cli.process.parent import STOP_S, WITH_PARENT

_LONGEST_LINE: Final = 2**20
_SERVES: Final = "serves"
"""The file, in a folder that only both processes know, that is there once this one serves."""
_LOOK_EVERY_S: Final = 0.05


async def start(words: Sequence[str], environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    """Start `holdfast` with these words, out of reach of the keys that end its parent; it ends with this process, however that
    ends."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "holdfast",
        *words,
        env={**os.environ, **environment, WITH_PARENT: "1"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
        limit=_LONGEST_LINE,
    )


async def relay(name: str, process: asyncio.subprocess.Process) -> None:
    """Say what a process says, line by line, until it ends."""
    assert process.stdout is not None
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:  # more than a line may have; the rest of it follows
            terminal.say(f"[{name}] (a line of more than {_LONGEST_LINE} bytes)")
            continue
        if not line:
            break
        terminal.relay(name, line.decode(errors="replace").rstrip())
    await process.wait()


def say_serves(folder: Path) -> None:
    """Let the process that keeps this one know that it serves."""
    (folder / _SERVES).touch()


def forget_serves(folder: Path) -> None:
    """Forget the word of the process before; the next is not started yet."""
    (folder / _SERVES).unlink(missing_ok=True)


async def serves(folder: Path) -> None:
    """Wait until the process that was started with this folder serves. Its port is not asked: that may be another's."""
    while True:
        if (folder / _SERVES).exists():
            return
        await asyncio.sleep(_LOOK_EVERY_S)


async def end(process: asyncio.subprocess.Process) -> None:
    """Have it stop, and kill it where it does not."""
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def describe_exit(process: asyncio.subprocess.Process) -> str:
    """Return how a process has ended."""
    code = process.returncode or 0
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}"
