"""What a script says to its runner by lines that it prints: `::name key=value::text`, as on GitHub.

Masks are kept, annotations and groups are made readable, and what would let printed data steer the job is told and not
obeyed: a script writes it into its files. Never here: where lines go.
"""

from __future__ import annotations

import re
from typing import Final

_COMMAND: Final = re.compile(r"\s*::([A-Za-z][\w-]*)(?:\s+([^\n]*?))?::(.*)", re.DOTALL)
_ANNOTATIONS: Final = ("error", "warning", "notice", "debug")
_FILES: Final = {
    "set-output": "GITHUB_OUTPUT", "set-env": "GITHUB_ENV", "add-path": "GITHUB_PATH", "save-state": "GITHUB_ENV",
}  # fmt: skip
_MASK: Final = "***"
_MOST_MASKS: Final = 100
"""Each is looked for in every line."""
_LONGEST_MASK: Final = 64 * 1024


class Commands:
    """Those of one combination of a job, in the order of its lines."""

    def __init__(self) -> None:
        self._masks: list[str] = []
        self._resumed_by: str | None = None
        """While commands are stopped: the line that lets them go on."""

    def masked(self, text: str) -> str:
        """`text` without what has been masked so far."""
        for mask in self._masks:
            text = text.replace(mask, _MASK)
        return text

    def shown(self, line: str) -> str | None:
        """What people see of a line; None where there is nothing to see."""
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
        if len(self._masks) + len(wanted) > _MOST_MASKS or len(text) > _LONGEST_MASK:
            return (
                f"add-mask: not masked; a job may mask {_MOST_MASKS} lines of up to {_LONGEST_MASK} characters together"
            )
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
