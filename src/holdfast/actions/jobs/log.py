"""What steps print, on its way to those who watch: a record of Python's logging for each line, and the end of it kept.

Never here: a screen.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from holdfast.actions.jobs.attempt import Attempt
from holdfast.actions.jobs.command import Commands
from holdfast.ports import JOB_LOG

TAIL_CHARACTERS: Final = 8 * 1024
"""What is kept of each combination's log in the output of its job."""

_log = logging.getLogger(JOB_LOG)


class Log:
    """The log of one combination of a job, without secrets."""

    def __init__(self, attempt: Attempt, job: str) -> None:
        self._redact = attempt.redact
        self._about = {"run": attempt.run, "job": self._redact(job)}
        self._kept = attempt.kept_log(self._about["job"])
        self._commands = Commands()
        self._lines: deque[str] = deque()
        self._characters = 0

    async def line(self, text: str) -> None:
        """One line of a step, masked by its shell."""
        shown = self._commands.shown(text)
        for each in [] if shown is None else shown.splitlines() or [""]:
            self._add(each)

    def say(self, text: str) -> None:
        """What there is to say about a step."""
        self._add(self._commands.masked(self._redact(text)))

    def _add(self, text: str) -> None:
        _log.info("%s", text, extra=self._about)
        self._kept.add(text)
        text = text[-TAIL_CHARACTERS:]
        self._lines.append(text)
        self._characters += len(text) + 1
        while self._characters > TAIL_CHARACTERS and len(self._lines) > 1:
            self._characters -= len(self._lines.popleft()) + 1

    @property
    def tail(self) -> str:
        """The last lines."""
        return "\n".join(self._lines)
