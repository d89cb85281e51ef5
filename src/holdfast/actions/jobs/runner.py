"""Runs the scripts of one combination, one after the other, in a directory of its own.

Never here: what a script is given, what its ending means for its step, a connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.actions import shell
from holdfast.actions.jobs.workspace import workspace
from holdfast.actions.syntax import directory
from holdfast.errors import InvalidInput
from holdfast.ports import Clock

OnLine = Callable[[str], Awaitable[None]]


class Shell(Protocol):
    """What runs a script on this machine: `shell.run`."""

    async def __call__(
        self, script: shell.Script, limits: shell.Limits, *, clock: Clock, on_line: OnLine, redact: Callable[[str], str]
    ) -> shell.Ending: ...


class JobRunner(Protocol):
    """Runs scripts in one directory, on this machine or on another."""

    async def run(self, script: shell.Script, limits: shell.Limits, on_line: OnLine) -> shell.Ending:
        """Run a script, which starts in the directory that its `folder` names from here, `` for this one.

        Cancelled, it ends the script first. Raises InvalidInput and ToolFailed where nothing was run, OutcomeUnknown where
        nobody knows how it ended, PlaceLost where the machine is gone.
        """
        ...


class LocalRunner:
    """A runner on this machine."""

    def __init__(self, folder: Path, shell: Shell, clock: Clock, redact: Callable[[str], str]) -> None:
        self._folder = folder
        self._shell = shell
        self._clock = clock
        self._redact = redact

    async def run(self, script: shell.Script, limits: shell.Limits, on_line: OnLine) -> shell.Ending:
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
