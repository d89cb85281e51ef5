"""The place of a step's code in its journal, and how the code is left when an operation has to be waited for.

Paths are positions; only `gather` gives concurrent branches paths of their own. Overlapping operations, and those that the code
leaves behind, are refused: the refusal is remembered, so no code can catch it. Never here: the content of the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final, Protocol, TypeVar
from weakref import ref

from holdfast.core.facts.commands import Timer
from holdfast.core.facts.state import Operation
from holdfast.core.values.ids import ROW_SIGN, Path
from holdfast.core.values.policies import SCHEMA, VALIDATION, ErrorRecord
from holdfast.engine.attempts.operation_calls import OperationCalls
from holdfast.errors import InvalidInput, NonDeterministicStep
from holdfast.platform.border import HandlerExit, fact, is_ours, ordinary, words_of

T = TypeVar("T")

_MAKE_TASKS: Final = "use tasks explicitly"
_OF_VALUES: Final = (SCHEMA, VALIDATION)
"""The classes of errors that say that something is not of the kind that was wanted."""
MAX_OPERATIONS: Final = 100_000
"""In one step or flow; beyond that a part of it should be a child, or a loop in the graph."""
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class Suspension(HandlerExit):
    """Leaves a handler whose step waits."""

    timers: tuple[Timer, ...] = ()
    """The timers of asyncio that are to be started when the step is suspended."""


class Abandonment(Suspension):
    """Leaves a handler whose attempt fails for a reason that no journal has: a replay may not meet it, so the code may
    not go on with it either."""

    def __init__(self, error: ErrorRecord) -> None:
        super().__init__(error.message)
        self.error = error


class Displacement(Suspension):
    """Leaves a handler whose process has lost its session: its attempt counts no more, and another one goes on."""


class Refusal(Suspension):
    """Leaves a handler whose operations have no certain place: its attempt fails as NonDeterministicStep."""


class Divergence(Suspension):
    """Leaves a handler whose code does not ask any more for what stands in the journal at `path`."""

    def __init__(self, path: Path, stands: Path, op: Operation, kind: str, name: str, request: Any) -> None:
        """`stands` is where the operation is: at `path`, or in a branch of the gather that was there."""
        super().__init__(str(path))
        self.path = path
        self.stands = stands
        self.op = op
        self.asked = (kind, name, request)


_ENDED: Final = Suspension()
"""Why nothing more begins at a place whose code has ended."""


class Tasks(Protocol):
    """The tasks of a flow, as what they call knows them (loop)."""

    left: Suspension | None
    """Why the flow has to be left; its code may have caught what said so."""

    def call(
        self,
        row: Cursor,
        name: str,
        method: Callable[..., Coroutine[Any, Any, T]],
        args: tuple[Any, ...],
        arguments: dict[str, Any],
        frames: int,
    ) -> Coroutine[Any, Any, T]:
        """An operation that a task calls, which is done outside of the flow's loop once it is awaited."""
        ...

    def row(self, prefix: str, around: Cursor | None = None) -> Cursor:
        """Places of a task of their own."""
        ...

    def branch(self, code: Coroutine[Any, Any, T], row: Cursor) -> asyncio.Future[T]:
        """Begin a branch of a gather, whose operations are in that row."""
        ...

    async def gather(self, path: str, tasks: Sequence[asyncio.Future[Any]]) -> list[Any]:
        """The results of the branches of the gather at that place."""
        ...


class Progress(Protocol):
    """An operation of a flow that is under way, as its own code knows it (flowing)."""

    def enter(self, path: Path) -> None: ...
    def leave(self, path: Path, *, waits: bool) -> None: ...

    def certain(self, path: Path | None) -> asyncio.Future[None] | None:
        """Note that whatever comes of the operation from here on is recorded: called before something is sent, asked for, or
        begun that a replay would not do again. Returns what has to be waited for first, if anything."""
        ...


class Place:
    """One that is taken inside; what it gives is where that is. (Written out: there are two for each operation.)"""

    __slots__ = ("_cursor", "_operations", "_path")

    def __init__(self, cursor: Cursor, operations: int) -> None:
        self._cursor = cursor
        self._operations = operations

    def __enter__(self) -> Path:
        self._path = self._cursor.enter(self._operations)
        return self._path

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, _: object) -> None:
        why = problem if kind is not None and issubclass(kind, Suspension) else None
        self._cursor.leave(self._path, why)  # type: ignore[arg-type]


class Cursor:
    """The place in its journal of a step, of a branch of a gather in it, or of a task of a flow."""

    progress: Progress | None = None
    at: Path | None = None
    """Where the operation is that is under way."""
    is_in_function = False
    """An async function is under way here of which nothing was recorded: it may be cancelled."""
    task: asyncio.Task[Any] | None = None
    """The task whose operation is under way; None for one of a plain function, which never waits."""
    apart: frozenset[asyncio.Task[Any]] = frozenset()
    """The tasks of branches under way that have names of their own."""
    calls: OperationCalls | None = None
    """Those of operations that the code has called here."""
    misuse: NonDeterministicStep | None = None
    """Why the function inside which there are no places fails; it may have caught this."""
    left: Suspension | None = None
    """Why the code has to be left at a place here; it may have caught what said so."""
    _row = ""
    _rows = _branches = _timers = _next = 0
    _busy = False
    _free: asyncio.Future[None] | None = None
    """Set when that operation is over, if it has a waiter."""

    def __init__(self, prefix: str, function: str = "", around: Cursor | None = None, tasks: Tasks | None = None) -> None:
        """`function` is the one inside which there are no places, where the code is in one. `around` is the cursor of the
        code that has this branch. `tasks` are those of the flow of which this is one."""
        self.prefix = prefix
        self.around = around
        self.tasks = tasks
        if around is not None:
            self.progress = around.progress
        self._function = function
        self._marks: dict[str, tuple[int, int]] = {}

    def place(self) -> Place:
        """The next place, for one operation at a time."""
        return Place(self, 1)

    def ahead(self) -> Place:
        """The next place, for what stands beside the operation that comes there."""
        return Place(self, 0)

    def enter(self, operations: int) -> Path:
        """Begin at the next place, with so many operations. Raises Suspension where nothing may begin."""
        self._refuse_inside()
        if self.left is not None:
            raise self._late() if self.left is _ENDED else self.left
        if self._busy:
            raise self.refuse(
                f"Use ctx.gather(...) for operations that are to run at the same time: {self._overlapping()} of one"
                " step overlap, so their places in the journal would depend on chance."
            )
        if self._next >= MAX_OPERATIONS:
            raise self.refuse(f"Do a part of it in a child (ctx.child): a journal takes {MAX_OPERATIONS} operations.")
        self._busy = True
        with contextlib.suppress(RuntimeError):  # the thread of a plain function has no event loop
            self.task = asyncio.current_task()
        self.at = path = self.following
        if self.progress is not None:
            self.progress.enter(path)
        self._next += operations
        return path

    def leave(self, path: Path, suspension: Suspension | None) -> None:
        """End at that place, where the operation has come to something or has to be waited for."""
        if suspension is not None:
            self._leave(suspension)
        self._busy = False
        self.task = self.at = None
        if self.progress is not None:
            self.progress.leave(path, waits=suspension is not None)
        if self._free is not None:
            self._free.set_result(None)
            self._free = None

    def refuse(self, message: str) -> Suspension:
        """Remember that the step fails, whatever its code makes of what is raised here."""
        return self._leave(Refusal(message))

    def _leave(self, suspension: Suspension) -> Suspension:
        """Remember why the code is left, unless there is a reason already: a refusal may have come first."""
        if self.left is None:
            self.left = suspension
        if self.tasks is not None and self.tasks.left is None:
            self.tasks.left = self.left
        return self.left

    def operation(self, progress: Progress) -> Cursor:
        """Return the place of an operation that a task of a flow has called while others go on."""
        made = Cursor(self.prefix)
        made.progress = progress
        made._row, made._next, made._marks = self._row, self._next, self._marks
        return made

    def pass_by(self, done: Cursor) -> None:
        """Go on after an operation that has come to its end."""
        self._next = done._next

    def branch(self) -> str:
        """Return the prefix of the places of the next task that is made here."""
        self._branches += 1
        return f"{self.prefix}~{self._branches - 1}."

    def timer(self) -> str:
        """The place of the next timer of asyncio that is started here."""
        self._timers += 1
        return f"{self.prefix}@{self._timers - 1}"

    def begin_row(self) -> None:
        """Go on in places of a row of their own: an operation was called off, and how many it took is not recorded."""
        self._rows += 1
        self._row, self._next = f"{self._rows}{ROW_SIGN}", 0

    def call(self, name: str, code: Coroutine[Any, Any, T], frames: int = 2) -> Coroutine[Any, Any, T]:
        """Take note of an operation that is called so many frames above: it has to be awaited before the end."""
        if self.calls is None:
            self.calls = OperationCalls()
        self.calls.add(name, code, frames + 1)
        return code

    @contextlib.contextmanager
    def beside(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Inside, a branch of a name of its own is under way."""
        self.apart |= {task}
        try:
            yield
        finally:
            self.apart -= {task}

    def expect_done(self) -> None:
        """Leave the step where its code has returned without an operation that it called. Raises Suspension."""
        if self.left is not None:
            raise self.left
        calls = self.calls
        if calls is None:
            return
        if (call := calls.under_way()) is not None:
            raise self.refuse(
                f"Await {call} before the end: the code returned while it was under way in a task that is never awaited."
            )
        if self.around is None and (forgotten := calls.forgotten()) is not None:
            raise self.refuse(forgotten)

    def explained(self, problem: BaseException) -> Suspension | None:
        """Why the code failed, where that is because a call was not awaited: what it used was a coroutine."""
        forgotten = None if self.calls is None else self.calls.forgotten()
        if self.left is not None or forgotten is None:
            return self.left
        text, record = words_of(problem), fact(problem, "error")
        if _MAKE_TASKS in text:  # asyncio.wait was given calls, and says so itself
            return None
        is_of_values = fact(record, "error_class") in _OF_VALUES or issubclass(type(problem), InvalidInput)
        if "coroutine" in text or "OperationCall" in text or is_of_values:
            return self.refuse(f"{forgotten} ({text:.500})")
        return None

    async def end(self, *, is_cancelled: bool) -> None:
        """Let the operations that are under way come to their ends, and nothing more begin."""
        if self.left is None:
            self.left = _ENDED
        self.adopted()
        if self.calls is not None:
            self.calls.close()
        if (task := self.task) is not None:
            if not is_cancelled:
                self._free = asyncio.get_running_loop().create_future()
                try:
                    await self._free
                finally:
                    task.cancel()
            task.cancel()
        if self.apart:
            if is_cancelled:
                for each in self.apart:
                    each.cancel()
            else:
                await asyncio.wait(self.apart)

    def adopted(self) -> None:
        """Leave the calls that this branch has not awaited to the code around it."""
        if self.calls is not None and self.around is not None:
            self.around._adopt(self.calls)

    def _adopt(self, calls: OperationCalls) -> None:
        """Take over the calls that a branch has not awaited: the code around it may."""
        if self.calls is None:
            self.calls = OperationCalls()
        calls.move_to(self.calls)

    def _overlapping(self) -> str:
        """Name the operation that is under way and the one that the code asks for meanwhile."""
        first, second = (None, None) if self.calls is None else (self.calls.under_way(), self.calls.current())
        return "two operations" if first is None or second is None else f"{first} and {second}"

    def _late(self) -> Suspension:
        """Refuse what a task asks for when the code that made it has ended."""
        asked = None if self.calls is None else self.calls.current()
        message = (
            f"Await the task that calls {asked or 'this operation'}: the code that began the task has ended, so nothing more is"
            " done in it."
        )
        around = self.around
        while around is not None and around.left is _ENDED:
            around = around.around
        return Refusal(message) if around is None else around.refuse(message)

    def named(self, name: str) -> Path:
        """The place of that name in the step, or in this branch of it."""
        self._refuse_inside()
        if isinstance(self.left, Refusal):
            raise self.left
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} names no place; use a letter, followed by letters, digits, '_' and '-'")
        return Path(f"{self.prefix}{name}")

    def mark(self, stream: str) -> str:
        """Return the mark of a piece of a stream that is written here: the place of the next operation, and the number of
        pieces before it at that place."""
        self._refuse_inside()
        place, count = self._marks.get(stream, (self._next, 0))
        count = count if place == self._next else 0
        self._marks[stream] = self._next, count + 1
        return f"{self.following}:{count}"

    @property
    def following(self) -> Path:
        """The place of the operation that comes next."""
        return Path(f"{self.prefix}{self._row}{self._next}")

    def versioned(self, name: str) -> tuple[Path, Path]:
        """Return the place at which the version of the code that goes on here is kept, and the place of the next operation."""
        place = self.named(name).removeprefix(self.prefix)
        return Path(f"{self.prefix}@{place}"), self.following

    def _refuse_inside(self) -> None:
        if self._function:
            problem = NonDeterministicStep(
                f"The step {self._function!r} uses ctx while it runs. It has no journal: it runs as a whole, again if need be,"
                " and only what it returns is recorded. Take what it needs of ctx before it, as an argument, and let the flow"
                " do the rest; or make it a plain async function that the flow awaits."
            )
            self.misuse = problem
            raise problem


class _Trail:
    """Lives as long as a context that was copied from that of a step's code: of a task that the code made, say."""


_cursor: ContextVar[Cursor] = ContextVar("holdfast_cursor")
_trail: ContextVar[_Trail | None] = ContextVar("holdfast_trail", default=None)


def begin() -> None:
    """Put the journal's position at the start of the step, in this task's context."""
    _cursor.set(Cursor(""))
    _trail.set(_Trail())


def enter(row: Cursor) -> None:
    """Go on in that row, in this context: that of a task of a flow, which its loop knows of."""
    _cursor.set(row)
    _trail.set(None)


def move(context: Context, to: Cursor) -> None:
    """Have the code that runs in a context, a copy of that of a flow's task, be there."""
    context.run(_cursor.set, to)


def _may_have_tasks() -> bool:
    """True if the step's code has made a task that is not over. Its context is not the code's own any more then."""
    trail = ref(kept) if (kept := _trail.get()) is not None else None
    del kept
    _trail.set(None)
    return trail is not None and trail() is not None


def cursor() -> Cursor:
    """Return the place of the code that asks."""
    return _cursor.get()


def note_calls(kind: type[Any], owner: str, *methods: str, of_branches: bool = False) -> None:
    """Have calls of these methods noted: they are operations that code has to await. `owner` is what `kind` is called there.
    Those `of_branches` run code of the caller's, so they are done in its own loop."""
    for name in methods:
        setattr(kind, name, _noted(getattr(kind, name), f"{owner}.{name}", of_branches))


def _noted(
    method: Callable[..., Coroutine[Any, Any, T]], name: str, of_branches: bool
) -> Callable[..., Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    def called(*args: Any, **value: Any) -> Coroutine[Any, Any, T]:
        here = _cursor.get()
        if (tasks := here.tasks) is not None and not of_branches:
            return tasks.call(here, name, method, args, value, 2)
        return here.call(name, method(*args, **value))

    return called


def note_step_calls(kind: type[Any], *methods: str) -> None:
    """The same of methods that call the step which they are given."""
    for name in methods:
        setattr(kind, name, _noted_step(getattr(kind, name)))


def _noted_step(method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    def called(self: Any, step: Any, args: Any, value: Any) -> Coroutine[Any, Any, T]:
        here = _cursor.get()
        if (tasks := here.tasks) is not None:
            return tasks.call(here, step.name, method, (self, step, args, value), {}, 3)
        return here.call(step.name, method(self, step, args, value), 3)

    return called


def certain() -> asyncio.Future[None] | None:
    """Note that whatever comes of the operation that asks is recorded from here on: see Progress. Returns what it has to wait
    for before that; nothing outside of flows."""
    here = _cursor.get(None)
    return None if here is None or here.progress is None else here.progress.certain(here.at)


def inside(function: str) -> tuple[Cursor, Context]:
    """Return where a function is whose result is recorded, and which has no operations of its own, and a context for it."""
    here, context = Cursor("", function), copy_context()
    context.run(_cursor.set, here)
    return here, context


async def in_branch(code: Awaitable[T], prefix: str) -> T:
    """Run a branch of a step's code, whose places begin with `prefix`; in a task of its own."""
    _cursor.set(Cursor(prefix, around=_cursor.get()))
    return await heeding(code)


async def heeding(code: Awaitable[T]) -> T:
    """Run a step's code, or a branch of it. Where an operation has to be waited for or was refused it is left, even if the
    code has caught what said so (a bare `except:`, a task group): what it made of that counts for nothing. Raises what the
    code raises, as `border.ordinary` has it."""
    here, is_cancelled = _cursor.get(), False
    try:
        result = await code
        if here.around is None and _may_have_tasks():
            await asyncio.sleep(0)  # what was made a task at the very end begins
    except BaseException as problem:
        if is_ours(problem):
            is_cancelled = isinstance(problem, asyncio.CancelledError)
            raise
        if (left := here.explained(problem)) is not None:
            raise left from None
        raise ordinary(problem) from None
    else:
        if here.left is not None or here.calls is not None:
            here.expect_done()
    finally:
        if here.calls is None and here.task is None and not here.apart:
            here.left = here.left or _ENDED
        else:
            await here.end(is_cancelled=is_cancelled)
    return result
