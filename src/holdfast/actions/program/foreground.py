"""The command in whose place a program runs: its streams, its signals, and how the program ended.

Never here: what a signal means for the command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class ProgramEnd(NamedTuple):
    """The ending of a program."""

    exit_code: int
    """Its own, or 128 and the number of the signal that ended it, as a shell has it."""
    signal: str | None = None

    def __str__(self) -> str:
        return f"exit code {self.exit_code}" if self.signal is None else f"signal {self.signal}"


class Foreground:
    """The descriptors that a program reads and writes in the place of the command, and the way of signals to it."""

    def __init__(self, stdin: int = 0, stdout: int = 1, stderr: int = 2) -> None:
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.end: ProgramEnd | None = None
        """The program's ending, once it has ended."""
        self.deliver: Callable[[int], None] | None = None
        """Sends the running program a signal, in the event loop; None while none runs."""

    def signal(self, number: int) -> bool:
        """Pass on a signal. Return False if no program runs."""
        if self.deliver is None:
            return False
        self.deliver(number)
        return True
