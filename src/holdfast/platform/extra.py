"""Packages that are installed only where they are asked for, and the words for one that is not there.

Never here: which part needs which package; each says so where it imports them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import MissingExtra


@contextmanager
def needs(extra: str, name: str, *, is_program: bool = False) -> Iterator[None]:
    """Import inside what the extra brings. Raises MissingExtra for `name`; a program of its own ends with its words."""
    try:
        with _explain_missing(extra, name):
            yield
    except MissingExtra as missing:
        if is_program:
            raise SystemExit(missing.message) from None
        raise


@contextmanager
def _explain_missing(extra: str, name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as problem:
        package = (problem.name or "holdfast").split(".")[0]
        if package == "holdfast":
            raise
        raise MissingExtra(
            f"{name} needs {package}, which is not installed, so it was not done. In Holdfast's checkout:"
            f" pip install '.[{extra}]'",
            extra=extra,
            module=package,
        ) from None
