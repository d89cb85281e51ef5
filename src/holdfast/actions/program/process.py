"""The process of a program, beneath the supervisor of `actions.shell`: when this process dies, however it dies, the program and
everything that it has started end too.

Never here: a step, a journal, where its variables come from.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import marshal
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.actions.program.foreground import Foreground, ProgramEnd
from holdfast.actions.program.passage import Passage
from holdfast.actions.shell import supervisor
from holdfast.actions.shell.log import Log, LogBounds
from holdfast.actions.shell.runner import MAX_DURATION_S
from holdfast.actions.shell.supervisor import KILL, KILL_LIMIT_S, LENGTH_BYTES, STOP
from holdfast.errors import OutcomeUnknown, ToolFailed, UsageError

_GRACE_S: Final = 2.0
"""The time that a stopped program gets to end by itself."""
_LAST_WORDS_S: Final = 1.0
"""The time before that in which it may report the error that it got."""
_LINGER_S: Final = 1.0
"""The same for processes that a program leaves behind."""
_DRAIN_LIMIT_S: Final = 10.0
"""The longest wait for a slow reader of its last output."""
_REPORT_BYTES: Final = 8 * 1024
_SIGNALLED: Final = 128

_log = logging.getLogger(__name__)


class Program(msgspec.Struct, frozen=True):
    """A program with its arguments, and the directory in which it starts."""

    command: tuple[str, ...]
    folder: str

    def expect_file(self) -> str:
        """Return the program's path. Raises UsageError if nothing there can be executed, or its directory is gone."""
        name = self.command[0]
        if not Path(self.folder).is_dir():
            raise UsageError(f"The directory {self.folder}, in which the program starts, does not exist. Nothing was run.")
        found = shutil.which(str(Path(self.folder, name)) if "/" in name else name)
        if found is None:
            raise UsageError(f"{name} cannot be executed: no such program was found. Nothing was run.")
        return found


async def run(
    program: Program,
    environment: Mapping[str, str],
    foreground: Foreground,
    stop: asyncio.Event,
    *,
    redact: Callable[[str], str],
    on_line: Callable[[str], None],
) -> ProgramEnd:
    """Run a program to its end. `on_line` gets its output line by line, masked by `redact`.

    Cancelled, it stops the program; cancelled again, it kills it. Once `stop` is set, the program has a moment to say why, and
    is stopped. Raises ToolFailed if it could not be started, OutcomeUnknown
    if its supervisor was killed.
    """
    one, order = _Process(foreground), _order(program, environment)
    task = asyncio.ensure_future(one.run(order, _ways(foreground, redact, on_line)))
    stopping = asyncio.ensure_future(_stop(one, stop))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        one.send(STOP)
        while not task.done():
            try:
                await asyncio.wait((task,))
            except asyncio.CancelledError:
                one.send(KILL)
        if not task.cancelled() and (problem := task.exception()) is not None:
            _log.warning("a program that was stopped ended with: %s", problem)
        raise
    finally:
        stopping.cancel()


async def _stop(one: _Process, stop: asyncio.Event) -> None:
    """Stop the program, once it has had a moment to report why."""
    await stop.wait()
    await asyncio.sleep(_LAST_WORDS_S)
    one.send(STOP)


def _ways(foreground: Foreground, redact: Callable[[str], str], on_line: Callable[[str], None]) -> list[Passage]:
    """Return the ways of output and errors: one for both if they go to the same place, so that their order stays."""
    loop = asyncio.get_running_loop()

    def on_lines(lines: list[str]) -> None:
        for line in lines:  # a log is bounded, and so is what waits for the loop here
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(on_line, line)

    exits = [foreground.stdout, foreground.stderr]
    if os.path.samestat(*map(os.fstat, exits)):
        exits = exits[:1]
    return [Passage(each, Log(LogBounds(), redact), on_lines) for each in exits]


def _order(program: Program, environment: Mapping[str, str]) -> dict[str, Any]:
    if sys.platform != "linux":
        raise ToolFailed("Programs are run on Linux only: what ends them needs its kernel. Nothing was run.")
    return {
        "command": [os.fsencode(word) for word in program.command],
        "file": os.fsencode(program.expect_file()),
        "environment": {os.fsencode(name): os.fsencode(value) for name, value in environment.items()},
        "folder": os.fsencode(program.folder),
        "timeout_s": float(MAX_DURATION_S),
        "grace_s": _GRACE_S,
        "linger_s": _LINGER_S,
        "limits": [],
        "groups": [],
    }


class _Process:
    """One run of a program."""

    def __init__(self, foreground: Foreground) -> None:
        self._foreground = foreground
        self._to_supervisor: asyncio.StreamWriter | None = None
        self._asked = b""

    def send(self, message: bytes) -> None:
        """Stop, kill or signal the program; kept for a supervisor that is not there yet."""
        if self._to_supervisor is None:
            self._asked += message
        elif not self._to_supervisor.is_closing():
            self._to_supervisor.write(message)

    async def run(self, order: dict[str, Any], ways: Sequence[Passage]) -> ProgramEnd:
        order["stdin"] = stdin = os.dup(self._foreground.stdin)  # the supervisor's own is the socket
        process, control = _start(stdin, ways)
        answers, writer = await asyncio.open_connection(sock=control, limit=_REPORT_BYTES)
        try:
            data = marshal.dumps(order)
            writer.write(len(data).to_bytes(LENGTH_BYTES, "big") + data + self._asked)
            self._to_supervisor = writer
            self._foreground.deliver = lambda number: self._signal(number, ways)
            end = await _listen(answers, process)
            for way in ways:
                await asyncio.to_thread(way.join, _DRAIN_LIMIT_S)
            self._foreground.end = end
            return end
        finally:
            self._foreground.deliver = None
            with contextlib.suppress(OSError):
                writer.write_eof()
            await _leave(answers, writer, process)

    def _signal(self, number: int, ways: Sequence[Passage]) -> None:
        if number == signal.SIGWINCH:
            for way in ways:
                way.resize()
        self.send(bytes([number]))


def _start(stdin: int, ways: Sequence[Passage]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start the supervisor. Return its process, and our end of the socket to it."""
    private = Path(tempfile.mkdtemp(prefix="holdfast-program-"))
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(private)],
            stdin=theirs.fileno(),
            stdout=ways[0].entry,
            stderr=ways[-1].entry,
            pass_fds=(stdin,),
            cwd="/",
            env={"PATH": os.defpath},
            start_new_session=True,
        )
    except OSError as problem:
        ours.close()
        private.rmdir()
        for way in ways:
            way.abandon()
        raise ToolFailed(f"No process could be started: {problem.strerror}. Nothing was run.") from None
    finally:
        theirs.close()
        os.close(stdin)
    for way in ways:
        way.start()
    return process, ours


async def _listen(answers: asyncio.StreamReader, process: subprocess.Popen[bytes]) -> ProgramEnd:
    """Return the end that the supervisor reports."""
    with contextlib.suppress(ConnectionResetError):
        while report := (await answers.readline()).decode().rstrip("\n"):
            word, _, rest = report.partition(" ")
            if word == "failed":
                raise ToolFailed(f"The program could not be started: {rest}. Nothing was run.")
            if word == "ended":
                return _end_of(rest.split()[0])
    process.kill()  # the kernel then kills the program
    raise OutcomeUnknown("The process that looks after the program was killed, and the program with it.")


def _end_of(status: str) -> ProgramEnd:
    if status == "-":
        return ProgramEnd(_SIGNALLED + signal.SIGKILL, "SIGKILL (it could not be ended)")
    number = int(status)
    if not os.WIFSIGNALED(number):
        return ProgramEnd(os.WEXITSTATUS(number))
    ended_by = os.WTERMSIG(number)
    name = signal.Signals(ended_by).name if ended_by in signal.valid_signals() and ended_by < signal.SIGRTMIN else str(ended_by)
    return ProgramEnd(_SIGNALLED + ended_by, name)


async def _leave(answers: asyncio.StreamReader, writer: asyncio.StreamWriter, process: subprocess.Popen[bytes]) -> None:
    """Let the supervisor end whatever is left and remove its folder, and reap it."""
    try:
        async with asyncio.timeout(2 * KILL_LIMIT_S):
            await answers.read()
    except (TimeoutError, ConnectionResetError):
        process.kill()
    writer.close()
    try:
        await asyncio.to_thread(process.wait, KILL_LIMIT_S)
    except subprocess.TimeoutExpired:
        _log.warning("process %d does not end, although it was killed", process.pid)
