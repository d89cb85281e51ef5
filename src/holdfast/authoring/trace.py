"""The place in the user's own code at which an error happened: the part of a traceback that is theirs.

A trace is part of a run's history, which is to be the same on every machine: it names files by their place in their package
or below the working directory (`recorded_file`), and classes of a file that was loaded by its path by the file's own name.

Never here: what the error means; a value of a variable, which might be anything; a path of this machine.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
import traceback
from collections import deque
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Final

from pydantic import ValidationError

from holdfast.authoring.values.arguments import describe
from holdfast.platform.border import joined, leaves, text_of

MAX_TRACE: Final = 3000
"""Characters that are kept: they are part of the run's history. What is cut is the way there; the end says where."""
_MAX_LINKS: Final = 5
"""Errors that led to one another."""
_MAX_FRAMES: Final = 200
"""Of each: the last, which an endless recursion fills with the same."""

_INSTALLED: Final = tuple(
    {f"{place}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib") if (place := sysconfig.get_path(name))}
)
_NOT_THEIRS: Final = (f"{Path(__file__).parents[1]}{os.sep}", "<", *_INSTALLED)
_CUT: Final = "...\n"
_BY_PATH: Final = re.compile(r"_[0-9a-f]{8}\Z")
"""At the end of a module's name: it was loaded from a file by its path, of which this is the digest."""


def of(problem: BaseException) -> str | None:
    """The traceback with the frames of the user's own code only, cut to its end; None where none are theirs.

    Of a group it is that of its first member. Raises nothing, whatever the exception does when it is looked at.
    """
    try:
        return _traced(leaves(problem)[0])
    except BaseException:  # noqa: BLE001 - its attributes are the user's
        return None


def _traced(problem: BaseException) -> str | None:
    links = [(each, frames) for each in _chain(problem) if (frames := _own(each))]
    if not links:
        return None
    parts = ["".join([*frames.format(), *(recorded_text(line, each) for line in _last_lines(each))]) for each, frames in links]
    text = "which led to:\n".join(parts)
    return text if len(text) <= MAX_TRACE else _CUT + text[len(_CUT) - MAX_TRACE :]


def _last_lines(problem: BaseException) -> list[str]:
    """Return what Python says below the frames; of Pydantic's errors without what was given."""
    if type(problem) is ValidationError:
        return [f"pydantic_core.ValidationError: {describe(problem)}\n"]
    return traceback.format_exception_only(type(problem), problem)


def innermost(problem: BaseException) -> str | None:
    """The last place in the user's own code, which is what one looks for: `refund.py:12 in pay`. Raises nothing."""
    try:
        own = _own(problem)
    except BaseException:  # noqa: BLE001 - as above
        return None
    if not own:
        return None
    return f"{own[-1].filename.rpartition('/')[2]}:{own[-1].lineno} in {own[-1].name}"


def is_theirs(file: str) -> bool:
    """True for a file of the user's own: neither Holdfast's, nor Python's, nor of an installed package."""
    return not file.startswith(_NOT_THEIRS)


def describe_error(problem: BaseException) -> str:
    """Return an exception in words, as a history has them. Raises nothing."""
    ends = leaves(problem)
    if len(ends) > 1:
        return joined([describe_error(each) for each in ends])
    text = text_of(ends[0])
    if type(ends[0]) is ValidationError:
        return f"ValidationError: {describe(ends[0])}"
    try:
        return recorded_text(text, ends[0])
    except BaseException:  # noqa: BLE001 - as above
        return text


def recorded_file(file: str, module: str) -> str:
    """Return the name that a history has for a code file: below its package, or else below the working directory.

    A file that is in neither goes by its own name. A machine's path would make a history differ from one machine to the next.
    """
    parts = PurePath(file).parts
    packages = module.split(".")
    if not file.endswith(f"{os.sep}__init__.py"):
        packages.pop()
    if packages and list(parts[-1 - len(packages) : -1]) == packages:
        named = PurePath(*parts[-1 - len(packages) :])
    else:
        named = _below_here(PurePath(file))
    return named.as_posix().encode(errors="backslashreplace").decode()


def recorded_module(module: str) -> str:
    """Return the name that a history has for a module: without the digest of its path, where it was loaded by its path."""
    plain = _BY_PATH.sub("", module)
    file = getattr(sys.modules.get(module), "__file__", None)
    return plain if file is not None and PurePath(file).stem == plain.rpartition(".")[2] else module


def recorded_text(text: str, problem: BaseException) -> str:
    """Return an error's words as a history has them: a code file that Python names by its path has its recorded name."""
    if isinstance(problem, SyntaxError | ImportError):
        file = problem.filename if isinstance(problem, SyntaxError) else problem.path
        if isinstance(file, str) and PurePath(file).is_absolute():
            text = text.replace(file, recorded_file(file, getattr(problem, "name", None) or ""))
    module = type(problem).__module__
    return text.replace(f"{module}.", f"{recorded_module(module)}.", 1) if text.startswith(f"{module}.") else text


def _below_here(file: PurePath) -> PurePath:
    """A file that belongs to no package. The root of the file system does not count as a working directory."""
    try:
        below = file.relative_to(PurePath(os.getcwd()))  # noqa: PTH109 - as text
    except (ValueError, OSError):
        return PurePath(file.name) if file.is_absolute() or ".." in file.parts else file
    return below if len(below.parts) < len(file.parts) - 1 else PurePath(file.name)


def _own(problem: BaseException) -> traceback.StackSummary:
    """Return the frames of the user's own code, with their files as a history names them.

    Each has its line and no columns: how Python marks these differs from version to version.
    """
    return traceback.StackSummary.from_list(
        traceback.FrameSummary(
            recorded_file(frame.f_code.co_filename, str(frame.f_globals.get("__name__", ""))),
            number,
            frame.f_code.co_name,
            line=linecache.getline(frame.f_code.co_filename, number, frame.f_globals),
        )
        for frame, number in deque(traceback.walk_tb(problem.__traceback__), _MAX_FRAMES)
        if is_theirs(frame.f_code.co_filename)
    )


def _chain(problem: BaseException) -> Iterator[BaseException]:
    """The errors that led to this one, the first of them first."""
    links = [problem]
    while len(links) < _MAX_LINKS:
        last = links[-1]
        before = last.__cause__ if last.__cause__ is not None or last.__suppress_context__ else last.__context__
        if before is None or before in links:
            break
        links.append(before)
    return reversed(links)
