"""The output of steps on its way to listeners: a record of Python's logging for each line, and the end of it kept.

A line may be a command to the runner (`::name key=value::text`), as on GitHub. Masks are kept, annotations and groups are made
readable. A command that would let printed data steer the job is reported and not obeyed: a script writes it into its files.

Never here: a screen.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from typing import Final

from holdfast.actions.jobs.attempt import Attempt
from holdfast.ports import JOB_LOG

TAIL_CHARACTERS: Final = 8 * 1024
"""What is kept of each combination's log in the output of its job."""

_log = logging.getLogger(JOB_LOG)


class Log:
    """The log of one combination of a job, without secrets."""

    def __init__(self, attempt: Attempt, job: str) -> None:
        self._redact = attempt.redact
        self._about = {"run": attempt.run_id, "job": self._redact(job)}
        self._kept = attempt.kept_log(self._about["job"])
        self._commands = Commands()
        self._lines: deque[str] = deque()
        self._characters = 0

    async def line(self, text: str) -> None:
        """One line of a step, masked by its shell."""
        shown = self._commands.visible(text)
        for each in [] if shown is None else shown.splitlines() or [""]:
            self._add(each)

    def say(self, text: str) -> None:
        """Add a message about a step."""
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


_COMMAND: Final = re.compile(r"\s*::([A-Za-z][\w-]*)(?:\s+([^\n]*?))?::(.*)", re.DOTALL)
_ANNOTATIONS: Final = ("error", "warning", "notice", "debug")
_FILES: Final = {"set-output": "GITHUB_OUTPUT", "set-env": "GITHUB_ENV", "add-path": "GITHUB_PATH", "save-state": "GITHUB_ENV"}
_MASK: Final = "***"
_MAX_MASKS: Final = 100
"""Each is looked for in every line."""
_LONGEST_MASK: Final = 64 * 1024


class Commands:
    """The commands of one combination of a job, in the order of its lines."""

    def __init__(self) -> None:
        self._masks: list[str] = []
        self._resumed_by: str | None = None
        """While commands are stopped: the line that lets them go on."""

    def masked(self, text: str) -> str:
        """`text` without what has been masked so far."""
        for mask in self._masks:
            text = text.replace(mask, _MASK)
        return text

    def visible(self, line: str) -> str | None:
        """Return the line as people see it; None if there is nothing to see."""
        if self._resumed_by is not None:
            self._resumed_by = None if line.strip() == self._resumed_by else self._resumed_by
            return self.masked(line)
        found = _COMMAND.fullmatch(line)
        if found is None:
            return self.masked(line)
        name, properties, text = found[1].lower(), _unescaped(found[2] or ""), _unescaped(found[3])
        if name == "add-mask":
            return self._mask(text)
        if name == "stop-commands":
            self._resumed_by = f"::{text.strip()}::"
        shown = _readable(name, properties, text, line)
        return None if shown is None else self.masked(shown)

    def _mask(self, text: str) -> str:
        """Its lines too, because what prints it prints them one by one."""
        wanted = {text, *text.splitlines()} - {"", *self._masks}
        if len(self._masks) + len(wanted) > _MAX_MASKS or len(text) > _LONGEST_MASK:
            return f"add-mask: not masked; a job may mask {_MAX_MASKS} lines of up to {_LONGEST_MASK} characters together"
        self._masks = sorted({*self._masks, *wanted}, key=len, reverse=True)  # the longest first: one may hold another
        return f"::add-mask::{_MASK}"


def _readable(name: str, properties: str, text: str, line: str) -> str | None:
    if name in _ANNOTATIONS:
        return f"{name}{f' ({properties})' if properties else ''}: {text}"
    if name == "group":
        return f"--- {text}"
    if name == "endgroup":
        return None
    if name in _FILES:
        return f"::{name}:: is not obeyed: what is printed must not steer a job. Write it into ${_FILES[name]}."
    return line


def _unescaped(text: str) -> str:
    for code, sign in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, sign)
    return text
