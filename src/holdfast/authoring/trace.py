"""Where in the user's own code an error happened: the part of a traceback that is theirs.

Never here: what the error means; a value of a variable, which might be anything.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MOST_TRACE: Final = 3000
"""Characters that are kept: they are part of the run's history. What is cut is the way there; the end says where."""
_MOST_LINKS: Final = 5
"""Errors that led to one another."""

_HOLDFAST: Final = str(Path(__file__).parents[1])
_INSTALLED: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_CUT: Final = "...\n"


def of(problem: BaseException) -> str | None:
    """The traceback with the frames of the user's own code only, cut to its end; None where none are theirs."""
    links = [(each, frames) for each in _chain(problem) if (frames := _own(each))]
    if not links:
        return None
    parts = [
        "".join([*frames.format(), *traceback.format_exception_only(type(each), each)]) for each, frames in links
    ]  # fmt: skip
    text = "which led to:\n".join(parts)
    return text if len(text) <= MOST_TRACE else _CUT + text[len(_CUT) - MOST_TRACE :]


def innermost(problem: BaseException) -> str | None:
    """The last place in the user's own code, which is what one looks for: `refund.py:12 in pay`."""
    own = _own(problem)
    if not own:
        return None
    return f"{own[-1].filename.rpartition('/')[2]}:{own[-1].lineno} in {own[-1].name}"


def _own(problem: BaseException) -> traceback.StackSummary:
    frames = traceback.extract_tb(problem.__traceback__)
    return traceback.StackSummary.from_list(
        frame for frame in frames if not frame.filename.startswith((_HOLDFAST, "<", *_INSTALLED))
    )


def _chain(problem: BaseException) -> Iterator[BaseException]:
    """The errors that led to this one, the first of them first."""
    links = [problem]
    while len(links) < _MOST_LINKS:
        last = links[-1]
        before = last.__cause__ if last.__cause__ is not None or last.__suppress_context__ else last.__context__
        if before is None or before in links:
            break
        links.append(before)
    return reversed(links)
