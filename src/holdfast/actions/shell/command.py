"""The program and flags that run a script: those that GitHub documents for each `shell`.

Never here: starting anything.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from holdfast.errors import InvalidInput, ToolFailed

PLACE: Final = "{0}"
"""Where the script's file goes in a custom shell."""

BUILT_IN: Final = {
    "bash": ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", PLACE),
    "sh": ("sh", "-e", PLACE),
    "python": ("python", PLACE),
}
_UNSET: Final = (("bash", "-e", PLACE), ("sh", "-e", PLACE))
"""Without `shell`: the first that is there. Not the same as `shell: bash`: no pipefail."""


def command_of(shell: str | None) -> tuple[Sequence[str], ...]:
    """The commands for `shell`, the first that is found to be taken, with PLACE where the script's file goes.

    Raises InvalidInput for a shell that is neither built in nor a custom one with PLACE.
    """
    if shell is None:
        return _UNSET
    if shell in BUILT_IN:
        return (BUILT_IN[shell],)
    known = ", ".join(BUILT_IN)
    if PLACE not in shell:
        raise InvalidInput(
            f"shell {shell!r} is unknown. Nothing was run. Use one of {known}, or a command with {PLACE} where the"
            f" script's file goes, as {f'{shell} {PLACE}'!r}."
        )
    try:
        words = shlex.split(shell)
    except ValueError as problem:
        raise InvalidInput(f"shell {shell!r} cannot be taken apart: {problem}. Nothing was run.") from None
    if PLACE in words[0]:
        raise InvalidInput(
            f"shell {shell!r} names no program: its first word is the script's own file. Nothing was run."
            f" Write the program before it, as 'bash {PLACE}'."
        )
    return (words,)


def find(shell: str | None, path: str, folder: str) -> list[str]:
    """The command of `shell` with its program found: on `path`, which is the worker's, for what a step is given must not
    choose its shell; or, with a slash in its name, relative to `folder`.

    Raises InvalidInput as `command_of` does, ToolFailed if the program is not there.
    """
    candidates = command_of(shell)
    for program, *words in candidates:
        there = shutil.which(str(Path(folder, program)) if "/" in program else program, path=path)
        if there is not None:
            return [there, *words]
    tried = " or ".join(program for program, *_ in candidates)
    raise ToolFailed(
        f"{tried} is not there, or may not be executed (PATH is {path}). Nothing was run."
        f" Install it where this job runs, or name another shell."
    )


def filled(command: Sequence[str], file: str) -> list[str]:
    """`command` for the script in `file`."""
    program, *words = command
    return [program, *(word.replace(PLACE, file) for word in words)]
