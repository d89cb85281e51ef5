"""Runs the scripts of one combination, one after the other, in a directory of its own.

The directory is gone afterwards, also if its worker was killed: each is locked for as long as its worker lives, and a
runner that makes a new one removes those whose lock is free.

Never here: what a script is given, what its ending means for its step, a connection.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from holdfast.actions import shell
from holdfast.actions.syntax import directory
from holdfast.errors import InvalidInput
from holdfast.ports import Clock

OnLine = Callable[[str], Awaitable[None]]


class Shell(Protocol):
    """The function that runs a script on this machine: `shell.run`."""

    async def __call__(
        self, script: shell.Script, limits: shell.Limits, *, clock: Clock, on_line: OnLine, redact: Callable[[str], str]
    ) -> shell.ScriptEnd: ...


class JobRunner(Protocol):
    """Runs scripts in one directory, on this machine or on another."""

    async def run(self, script: shell.Script, limits: shell.Limits, on_line: OnLine) -> shell.ScriptEnd:
        """Run a script, which starts in the directory that its `folder` names from here, `` for this one.

        Cancelled, it ends the script first. Raises InvalidInput and ToolFailed if nothing was run, OutcomeUnknown if its end is
        unknown, PlaceLost if the machine is gone.
        """
        ...


class LocalRunner:
    """A runner on this machine."""

    def __init__(self, folder: Path, shell: Shell, clock: Clock, redact: Callable[[str], str]) -> None:
        self._folder = folder
        self._shell = shell
        self._clock = clock
        self._redact = redact

    async def run(self, script: shell.Script, limits: shell.Limits, on_line: OnLine) -> shell.ScriptEnd:
        placed = msgspec.structs.replace(script, folder=str(self._place(script.folder)))
        return await self._shell(placed, limits, clock=self._clock, on_line=on_line, redact=self._redact)

    def _place(self, relative: str) -> Path:
        """Raises InvalidInput for a place that is not below the directory."""
        problem = directory.problem(relative)
        place = self._folder if problem is not None else (self._folder / relative).resolve()
        if not place.is_relative_to(self._folder):
            problem = "a link in it leads out of the job's own directory"
        if problem is not None:
            raise InvalidInput(f"working-directory is {relative!r:.200}; {problem}. Nothing was run.")
        return place


@contextmanager
def local_runner(shell: Shell, clock: Clock, redact: Callable[[str], str]) -> Iterator[LocalRunner]:
    """A runner whose directory is gone afterwards. `redact` masks what scripts print."""
    with workspace() as folder:
        yield LocalRunner(folder, shell, clock, redact)


_NEW: Final = "holdfast-new-"
_LOCKED: Final = "holdfast-job-"

_log = logging.getLogger(__name__)


@contextmanager
def workspace() -> Iterator[Path]:
    """An empty directory."""
    _clear()
    new = Path(tempfile.mkdtemp(prefix=_NEW)).resolve()
    lock = _lock(new)
    folder = new.rename(new.with_name(new.name.replace(_NEW, _LOCKED, 1)))  # from now on its lock says whether it is left
    try:
        yield folder
    finally:
        shutil.rmtree(folder, onerror=_tell)
        if lock is not None:
            os.close(lock)


def _clear() -> None:
    """Remove what killed workers of this account have left."""
    for left in Path(tempfile.gettempdir()).glob(f"{_LOCKED}*"):
        lock = _lock(left)
        if lock is None:
            continue
        if os.fstat(lock).st_uid == os.geteuid():
            shutil.rmtree(left, onerror=_tell)
        os.close(lock)


def _lock(folder: Path) -> int | None:
    """A lock on it that goes with this process; None if another has it, or if it is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _tell(_: Callable[..., Any], path: str, problem: Any) -> None:
    """Scripts may leave files that cannot be removed; and two may remove the same."""
    if not issubclass(problem[0], FileNotFoundError):
        _log.warning("%s, left by a job, could not be removed: %s", path, problem[1])
