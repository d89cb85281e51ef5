"""Where the code of a step is in its journal, and how it is left when an operation has to be waited for.

Paths are positions; only `gather` gives concurrent branches paths of their own. Never here: what stands in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Iterator
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from holdfast.core.ids import Path
from holdfast.core.policies import ErrorRecord
from holdfast.core.state import Operation
from holdfast.errors import NonDeterministicStep

T = TypeVar("T")

MOST_OPERATIONS: Final = 100_000
"""In one step; beyond that it should be a loop in the graph."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class Suspension(BaseException):
    """Leaves a handler whose step waits. Not an Exception, so that a handler's `except Exception` lets it through."""


class Abandonment(Suspension):
    """Leaves a handler whose attempt fails for a reason that no journal has: a replay may not meet it, so the code may
    not go on with it either."""

    def __init__(self, error: ErrorRecord) -> None:
        super().__init__(error.message)
        self.error = error


class Displacement(Suspension):
    """Leaves a handler whose process has lost its session: its attempt counts no more, and another one goes on."""


class Divergence(Suspension):
    """Leaves a handler whose code does not ask any more for what stands in the journal at `path`."""

    def __init__(self, path: Path, stands: Path, op: Operation, kind: str, name: str, asked: Any) -> None:
        """`stands` is where the operation is: at `path`, or in a branch of the gather that was there."""
        super().__init__(str(path))
        self.path = path
        self.stands = stands
        self.op = op
        self.asked = (kind, name, asked)


class Cursor:
    """Where a step, or a branch of a gather in it, is in its journal."""

    def __init__(self, prefix: str, function: str = "") -> None:
        """`function` is the one inside which there are no places, where the code is in one."""
        self.prefix = prefix
        self._function = function
        self._next = 0
        self._busy = False
        self._marks: dict[str, tuple[int, int]] = {}
        self.left: Suspension | None = None
        """Why the code has to be left at a place here; it may have caught what said so."""

    @contextlib.contextmanager
    def place(self) -> Iterator[Path]:
        """The next place, for one operation at a time."""
        with self.ahead() as path:
            self._next += 1
            yield path

    @contextlib.contextmanager
    def ahead(self) -> Iterator[Path]:
        """The next place, for what stands beside the operation that comes there."""
        self._refuse_inside()
        if self.left is not None:
            raise self.left
        if self._busy:
            raise NonDeterministicStep(
                "Two operations of one step overlap, so their places in the journal would depend on chance."
                " Use ctx.gather(...) for operations that are to run at the same time."
            )
        if self._next >= MOST_OPERATIONS:
            raise NonDeterministicStep(f"A step may have {MOST_OPERATIONS} operations; make it a loop in the graph.")
        self._busy = True
        try:
            yield self.following
        except Suspension as why:
            self.left = why
            raise
        finally:
            self._busy = False

    def named(self, name: str) -> Path:
        """The place of that name in the step, or in this branch of it."""
        self._refuse_inside()
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} names no place; use a letter, followed by letters, digits, '_' and '-'")
        return Path(f"{self.prefix}{name}")

    def mark(self, stream: str) -> str:
        """Which piece of a stream is written here: the place of the operation that comes next, and how many were before it at
        that place."""
        self._refuse_inside()
        place, count = self._marks.get(stream, (self._next, 0))
        count = count if place == self._next else 0
        self._marks[stream] = self._next, count + 1
        return f"{self.prefix}{self._next}:{count}"

    @property
    def following(self) -> Path:
        """The place of the operation that comes next."""
        return Path(f"{self.prefix}{self._next}")

    def versioned(self, name: str) -> tuple[Path, Path]:
        """Where it is kept which version of the code goes on here, and the place of the operation that comes next."""
        place = self.named(name).removeprefix(self.prefix)
        return Path(f"{self.prefix}@{place}"), self.following

    def _refuse_inside(self) -> None:
        if self._function:
            raise NonDeterministicStep(
                f"The step {self._function!r} uses ctx while it runs. It has no journal: it runs as a whole, again if need be,"
                " and only what it returns is recorded. Take what it needs of ctx before it, as an argument, and let the flow"
                " do the rest; or make it a plain async function that the flow awaits."
            )


_cursor: ContextVar[Cursor] = ContextVar("holdfast_cursor")


def begin() -> None:
    """Put the journal's position at the start of the step, in this task's context."""
    _cursor.set(Cursor(""))


def cursor() -> Cursor:
    """Where the code that asks is."""
    return _cursor.get()


@contextlib.contextmanager
def inside(function: str) -> Iterator[None]:
    """Inside, a function runs whose result is recorded, and which has no operations of its own."""
    token = _cursor.set(Cursor("", function))
    try:
        yield
    finally:
        _cursor.reset(token)


async def in_branch(code: Awaitable[T], prefix: str) -> T:
    """Run a branch of a step's code, whose places begin with `prefix`; in a task of its own."""
    _cursor.set(Cursor(prefix))
    return await heeding(code)


async def heeding(code: Awaitable[T]) -> T:
    """Run a step's code, or a branch of it. Where an operation has to be waited for it is left, even if the code has
    caught what said so (a bare `except:`, a task group): what it made of that counts for nothing."""
    try:
        result = await code
    except (Suspension, asyncio.CancelledError):
        raise
    except BaseException:
        if (left := _cursor.get().left) is not None:
            raise left from None
        raise
    if (left := _cursor.get().left) is not None:
        raise left
    return result
