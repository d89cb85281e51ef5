"""The event loop of one flow: a queue of what is ready, and nothing else; so plain asyncio is the same in every replay.

It has no clock, sockets or threads. What a flow waits for comes from outside, one outcome at a time, each after the queue has
run empty (flowing): what the flow does is a function of the outcomes and their order. Tasks, futures and operations have hashes
that a replay gives them again, because asyncio keeps them in sets.

Never here: doing an operation, what stands in the journal, the end of a flow.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from inspect import CORO_CREATED, getcoroutinestate
from types import CodeType, CoroutineType, FrameType, NoneType, coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.engine.attempts import cursor as places
from holdfast.engine.attempts.cursor import Cursor, Refusal, Suspension
from holdfast.engine.flow.lending import NO_CONTEXT, FlowFuture, LendingLoop
from holdfast.engine.runs import user_lines
from holdfast.platform.border import fact, is_ours, is_signal

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("holdfast")

T = TypeVar("T")

MAX_TURNS: Final = 100_000
"""Callbacks between two outcomes. Beyond that the flow asks again and again for something that only an outcome can change."""
_MAX_THROWN: Final = 100
"""How often a task is left that goes on all the same."""

BY_SET: Final = (
    "Give asyncio.as_completed tasks, as in as_completed([asyncio.create_task(f()) for ...]): of coroutines it makes tasks in"
    " an order that depends on chance. Steps may be given as they are"
)
ELSEWHERE: Final = (
    "Await the step in the flow itself, and not in another event loop (asyncio.run in a thread?): there its outcome cannot"
    " come. Or call it as step.function(...), which records nothing"
)
MADE_BY_HAND: Final = (
    "Make the task with asyncio.create_task or a TaskGroup: operations are named by their task, and of an asyncio.Task that"
    " code has made by itself a replay does not know which it is"
)
LEFT_OPEN: Final = (
    "Write `async with contextlib.aclosing(generator)` around the loop over an asynchronous generator: the loop was left before"
    " its end, and the `finally` of the generator asks for an operation, at a moment that is not recorded"
)
STANDS: Final = (
    "holdfast: loop.time() stands still while a flow computes, or waits for what is not recorded, like asyncio.to_thread. A"
    " loop that waits for it to go on has no end. Ask `await ctx.now()`, or do the work in a step. It is asked for at %s, in %s"
)
_STANDS_MS: Final = 5_000
"""How long the time has to have stood still before code that asks for it is warned."""
GOES_ROUND: Final = (
    "Wait for an operation, or for asyncio.sleep(1), in that loop: the flow goes round and round without waiting for anything"
    " that is recorded (a loop around asyncio.sleep(0)?)"
)


class Outcome(asyncio.Future[Any]):
    """The outcome of an operation. Cancelling it calls the operation off."""

    operation: Any = None
    """What does it (operations), from its beginning to its end."""

    def __init__(self, call: OperationCall) -> None:
        super().__init__(loop=call.tasks)
        self.call = call

    def __hash__(self) -> int:
        return hash(self.call)

    def cancel(self, msg: Any | None = None) -> bool:
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self.call.tasks.open_operations -= 1
            self.call.tasks.call_off(self)
        return is_cancelled


class FlowTask(asyncio.Task[Any]):
    """A task of a flow, whose operations are named after it."""

    def __init__(self, code: Coroutine[Any, Any, Any], row: Cursor, loop: FlowLoop, name: str, context: Context) -> None:
        loop.made += 1
        self._number = loop.salt + loop.made
        self.row = row
        self.code = code
        self._context = context
        around = _awaited(code) if type(code) is OperationCall else _tended(loop, code)
        super().__init__(around, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self._number

    def leave(self, suspension: Suspension) -> None:
        """Leave its code at the place where it waits, however often that goes on all the same."""
        around: Any = self.get_coro()
        with suppress(BaseException):  # what the code makes of that counts for nothing
            for _ in range(_MAX_THROWN):
                self._context.run(around.throw, suspension)  # where the code finds the places of its task, and no others
        with suppress(BaseException):
            self._context.run(self.code.close)  # if it has not begun
        suspension.__traceback__ = suspension.__context__ = None  # it is kept, and they hold all that the code had


_OURS: Final = frozenset({FlowFuture, Outcome, FlowTask})


class OperationCall(Coroutine[Any, Any, Any]):
    """An operation that the code of a flow has called, and is to await.

    Not a coroutine of Python's, so that it can have a hash of its own (`asyncio.as_completed` makes a set of what it is given).
    It is done in a task of the engine's loop, by the code that its method returns.
    """

    cr_running = cr_suspended = False  # as inspect.getcoroutinestate asks for
    cr_frame: object | None = True
    """None once it was awaited, given to a gather, or dropped."""

    def __init__(
        self,
        tasks: FlowLoop,
        row: Cursor,
        name: str,
        method: Callable[..., Coroutine[Any, Any, Any]],
        args: tuple[Any, ...],
        arguments: dict[str, Any],
    ) -> None:
        self.tasks = tasks
        self.row = row
        self.name = name
        self._asked = method, args, arguments
        self._code: Coroutine[Any, Any, Any] | None = method(*args, **arguments)  # a call that does not fit raises now
        self._awaited: Generator[Any, Any, Any] | None = None
        tasks.made += 1
        self._number = tasks.salt + tasks.made

    def __hash__(self) -> int:
        return self._number

    def __repr__(self) -> str:
        return f"<call of {self.name}>"

    def code(self) -> Coroutine[Any, Any, Any]:
        """Return the coroutine that does it, from its beginning."""
        code, self._code = self._code, None
        if code is None:
            method, args, given = self._asked
            code = method(*args, **given)
        return code

    def begin(self, row: Cursor) -> Outcome:
        """Begin it at the next place of that row."""
        if self.cr_frame is None:
            raise RuntimeError(f"the call of {self.name} was awaited already; await its task, or keep its result")
        if asyncio._get_running_loop() is not self.tasks:
            self.drop()
            self.tasks.refuse(LEFT_OPEN if asyncio._get_running_loop() is self.tasks._host else ELSEWHERE)
        self.cr_frame = None
        self.row = row
        return self.tasks.begin(self)

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        if type(task) not in (FlowTask, NoneType) and asyncio._get_running_loop() is self.tasks:
            self.drop()
            self.tasks.refuse(MADE_BY_HAND)
        return (yield from self.begin(task.row if type(task) is FlowTask else self.row))

    def _generator(self) -> Generator[Any, Any, Any]:
        if self._awaited is None:
            self._awaited = self.__await__()
        return self._awaited

    def send(self, value: Any) -> Any:
        return self._generator().send(value)

    def throw(self, *problem: Any) -> Any:
        return self._generator().throw(*problem)

    def __del__(self) -> None:
        if self._code is not None:
            self._code.close()  # Python complains of a coroutine that was never awaited; its flow has

    def drop(self) -> None:
        """Have it not done, nor what it was given to do."""
        self.cr_frame = None
        if self._code is not None:
            _drop(self._code)
            self._code = None

    def close(self) -> None:
        """Drop it, and leave who awaits it."""
        self.drop()
        if self._awaited is not None:
            self._awaited.close()


class GatherBranches:
    """The branches of a gather."""

    def __init__(self, loop: FlowLoop, tasks: Sequence[asyncio.Future[Any]]) -> None:
        self._tasks = tasks
        self._left = len(tasks)
        self.ended = FlowFuture(loop)
        """Done when all branches are, or when it is given up."""
        for task in tasks:
            task.add_done_callback(self._over, context=NO_CONTEXT)
        if not tasks:
            self.end()

    def _over(self, _: asyncio.Future[Any]) -> None:
        self._left -= 1
        if not self._left:
            self.end()

    def end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    @property
    def has_failed(self) -> bool:
        """True if the first branch without a result has ended in an error."""
        for task in self._tasks:
            if not task.done():
                return False
            if task.cancelled() or task.exception() is not None:
                return True
        return False


class Timer(asyncio.TimerHandle):
    """A callback that waits for recorded time: asyncio.sleep, timeout, wait_for and the time-outs of wait come here."""

    path = ""
    late_ms = 0
    """How long after the loop's time it was begun."""
    is_sleep = False
    """True if asyncio.sleep waits for it."""


def _warned_of_standing(asks: FrameType, about: str) -> bool:
    """Say that the time stands still, if it is the user's own code that asks for it: a loop may wait for it without end."""
    line = user_lines.first_of([asks])
    if line is not None:
        log.warning(STANDS, line, about)
    return line is not None


class FlowLoop(LendingLoop):
    """The tasks, futures, callbacks and timers of one flow. Keeps cursor.Tasks."""

    def __init__(self, run: str, now_s: float, moved: Callable[[], None], late_ms: Callable[[], int]) -> None:
        """`now_s` is the recorded time at which the flow began. `moved` is called when something from outside is ready.
        `late_ms` says how long after the loop's time it is."""
        super().__init__(run, moved)
        self._refused = 0
        self._late_ms = late_ms
        self._about = run
        self._has_warned = False
        self.now_s = now_s
        self.main: FlowTask | None = None
        self.tasks: dict[FlowTask, None] = {}
        """Those that are not over, and those whose error no code has taken."""
        self.unfinished = 0
        self.open_operations = 0
        """The number of operations that tasks wait for."""
        self.begun: list[tuple[Outcome, Context]] = []
        """Operations that were begun since the last outcome, and the contexts in which they are done."""
        self.called_off: list[Outcome] = []
        self.timers: dict[str, Timer] = {}
        """Those that wait, by their places."""
        self.timers_begun: list[Timer] = []
        self.timers_off: list[str] = []
        self.gathers: dict[str, GatherBranches] = {}
        """Those under way, by their places."""
        self.gathers_begun: list[str] = []

    # --- Operations ---------------------------------------------------------------------------------------------------

    def call(
        self,
        row: Cursor,
        name: str,
        method: Callable[..., Coroutine[Any, Any, T]],
        args: tuple[Any, ...],
        arguments: dict[str, Any],
        frames: int,
    ) -> Coroutine[Any, Any, T]:
        call = OperationCall(self, row, name, method, args, arguments)
        noted: Coroutine[Any, Any, T] = row.call(name, call, frames + 1)
        return noted

    def begin(self, call: OperationCall) -> Outcome:
        """Have an operation begun when all tasks wait."""
        if self.left is not None:
            call.drop()
            self._refused += 1
            if self._refused < _MAX_THROWN:
                raise self.left
            return Outcome(call)  # for code that asks again and again: it will not hear of it
        self.expect_unmixed()
        self.open_operations += 1
        outcome = Outcome(call)
        self.begun.append((outcome, copy_context()))
        return outcome

    def call_off(self, outcome: Outcome) -> None:
        """Note that no code waits for an operation any more."""
        if not self._is_gone:
            outcome.call.row.begin_row()
            self.called_off.append(outcome)

    # --- What asyncio asks of a loop ----------------------------------------------------------------------------------

    def time(self) -> float:
        """The time of the last outcome, in seconds: a replay has the same."""
        if not self._has_warned and self._late_ms() > _STANDS_MS:
            self._has_warned = _warned_of_standing(sys._getframe(1), self._about)
        return self.now_s

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now_s + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if math.isnan(when):
            raise ValueError("Give asyncio a delay that is a number: nan is none.")
        timer = Timer(when, callback, args, self, context)
        if when <= self.now_s:
            self._ready.append(timer)
            if not self._is_inside:
                self._moved()
            return timer
        if when == math.inf:
            return timer
        timer.is_sleep = callback is _WAKES
        if timer.is_sleep:
            self.expect_unmixed()
        timer.path, timer.late_ms = self._here().timer(), self._late_ms()
        self.timers[timer.path] = timer
        self.timers_begun.append(timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if isinstance(handle, Timer) and self.timers.pop(handle.path, None) is not None and not self._is_gone:
            self.timers_off.append(handle.path)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None, **_: Any
    ) -> FlowTask:
        if self.left is not None:
            coro.close()
            raise self.left
        maker = None if type(coro) is OperationCall and not _WAITS_IN_A_TASK else _maker()
        if maker in _MADE_OF_SETS and type(coro) is not OperationCall:
            coro.close()
            self.refuse(BY_SET)
        here = self._here()
        # What wait_for makes a task of until Python 3.11 is done in the row of the code that waits, which does nothing else.
        row = here if maker is _WAIT_FOR else self.row(here.branch(), here)
        return self.make(coro, row, name, context)

    def branch(self, code: Coroutine[Any, Any, Any], row: Cursor) -> asyncio.Future[Any]:
        """Begin a branch of a gather, whose operations are in that row. An operation needs no task that awaits it."""
        return code.begin(row) if type(code) is OperationCall and code.cr_frame is not None else self.make(code, row)

    def row(self, prefix: str, around: Cursor | None = None) -> Cursor:
        """Places of a task of their own."""
        return Cursor(prefix, tasks=self, around=around)

    def make(
        self, code: Coroutine[Any, Any, Any], row: Cursor, name: str | None = None, context: Context | None = None
    ) -> FlowTask:
        """A task whose operations are in that row."""
        context = copy_context() if context is None else context.copy()
        context.run(places.enter, row)
        task = FlowTask(code, row, self, name or f"flow {row.prefix or '0'}", context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.tasks[task] = None
        self.unfinished += 1
        task.add_done_callback(self._over, context=NO_CONTEXT)
        return task

    def _over(self, task: asyncio.Task[Any]) -> None:
        self.unfinished -= 1
        row = task.row  # type: ignore[attr-defined]
        if task.cancelled():
            _drop(task.code)  # type: ignore[attr-defined]
        if row.around is not None:
            row.adopted()
        if task.cancelled() or not getattr(task, "_log_traceback", False):
            self.tasks.pop(task, None)  # type: ignore[call-overload]

    def _here(self) -> Cursor:
        """Return the place of the task that asks; in a callback, of the task in whose context it was added."""
        task = asyncio.current_task(self)
        return task.row if isinstance(task, FlowTask) else places.cursor()

    # --- Turns --------------------------------------------------------------------------------------------------------

    def start(self, code: Coroutine[Any, Any, Any], row: Cursor) -> None:
        with self.running():
            self.main = self.make(code, row)

    def drain(self) -> None:
        """Let the flow's tasks run until each of them waits for an outcome."""
        if self._ready:
            before = self._enter()
            try:
                if not self._turn(MAX_TURNS):
                    self.left = self.left or Refusal(self.worded(GOES_ROUND))
            finally:
                self._exit(*before)

    def _turn(self, most: int, *, even_if_left: bool = False) -> bool:
        """Run what is ready. Returns False if that is more than so many callbacks."""
        ready = self._ready
        for _ in range(most):
            if not ready or (self.left is not None and not even_if_left):
                return True
            handle = ready.popleft()
            if handle._cancelled:
                continue
            try:
                handle._context.run(handle._callback, *handle._args)
            except (Exception, SystemExit, KeyboardInterrupt) as problem:
                if is_signal(problem):
                    raise
                if all(fact(task, "_exception") is not problem for task in self.tasks):  # a task's own comes here too
                    self._tell(problem)
        return False

    def hand_over(self, outcome: Outcome, result: Any, problem: BaseException | None) -> None:
        """Have an operation come to its result, or its problem."""
        self._is_inside = True
        self.open_operations -= 1
        try:
            if problem is None:
                outcome.set_result(result)
            else:
                outcome.set_exception(problem)
        finally:
            self._is_inside = False

    def fire(self, path: str) -> None:
        """Call what a timer was to call, or have a gather end without its last results."""
        if (timer := self.timers.pop(path, None)) is not None:
            self._ready.append(timer)
        elif (gathered := self.gathers.get(path)) is not None:
            with self.running():
                gathered.end()

    async def gather(self, path: str, tasks: Sequence[asyncio.Future[Any]]) -> list[Any]:
        """The results of the branches at that place. Every branch gets as far as it can; then the first without a result
        decides: its error is raised, or it is waited for."""
        gathered = self.gathers[path] = GatherBranches(self, tasks)
        self.gathers_begun.append(path)
        try:
            await gathered.ended
        finally:
            del self.gathers[path]
            left = [task for task in tasks if not task.done()]
            for task in left:
                task.cancel()
            if left:
                await asyncio.gather(*left, return_exceptions=True)
        for task in tasks:
            if task not in left or not task.cancelled():
                task.result()
        return [task.result() for task in tasks]

    def cancel(self) -> None:
        """Cancel the task of the flow's function: its run is being cancelled."""
        if self.main is not None:
            with self.running():
                self.main.cancel()

    def let_go(self, *, cancels: bool = False) -> None:
        """Leave the code of all tasks, as that of a step which waits is left. What it asks for meanwhile is refused.

        With `cancels` the tasks are cancelled first, as an engine's task is that is cut off; raises what the flow's code makes
        of that.
        """
        self.left = self.left or Suspension()
        self._is_gone = True
        main, self.main = self.main, None
        with self.running():
            if cancels:
                for task in self.tasks:
                    task.cancel()
                self._turn(_MAX_THROWN * len(self.tasks), even_if_left=True)
            for task in [*self.tasks]:
                if not task.done():
                    task.leave(self.left)
                    task.cancel()
            with suppress(Suspension):  # who waits for the ends of tasks, as threads of anyio do, hears of them
                self._turn(_MAX_THROWN * len(self.tasks), even_if_left=True)
        for outcome, _ in self.begun:
            outcome.call.close()
        self.begun.clear()
        self.tasks.clear()
        self._ready.clear()
        self.timers.clear()
        if main is None:
            return
        if main.row.calls is not None:
            main.row.calls.close()
        if cancels and main.done() and not main.cancelled():
            problem = main.exception()
            if problem is not None and not is_ours(problem):
                raise problem

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside, this is the loop that runs."""
        before = self._enter()
        try:
            yield
        finally:
            self._exit(*before)

    def _enter(self) -> tuple[Any, Any, Any]:
        host, hooks = asyncio._get_running_loop(), sys.get_asyncgen_hooks()
        task = None if _swap_current_task is None else _swap_current_task(host, None)
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(None, self.close_generator)
        self._is_inside = True
        return host, task, hooks

    def _exit(self, host: Any, task: Any, hooks: Any) -> None:
        self._is_inside = False
        sys.set_asyncgen_hooks(*hooks)
        asyncio._set_running_loop(host)
        if _swap_current_task is not None:
            _swap_current_task(host, task)

    @property
    def is_recording(self) -> bool:
        """See LendingLoop."""
        return self.open_operations > 0 or any(timer.is_sleep for timer in self.timers.values())

    def worded(self, words: str) -> str:
        """See LendingLoop."""
        waiting = (task.code for task in reversed(self.tasks) if not task.done())
        line = user_lines.running(FlowLoop._turn.__code__) or user_lines.waiting(waiting) or user_lines.running()
        return f"{words}." if line is None else f"{words}: {line}."


def _drop(code: Any) -> None:
    """Close a coroutine, and those that it was given, if it has not begun: they will never be awaited."""
    if type(code) is OperationCall:
        code.drop()
    elif isinstance(code, CoroutineType) and getcoroutinestate(code) == CORO_CREATED:
        given = [] if code.cr_frame is None else [*code.cr_frame.f_locals.values()]
        code.close()
        for each in given:
            for one in each if type(each) is tuple else (each,):
                _drop(one)


_WAKES: Final = asyncio.futures._set_result_unless_cancelled  # type: ignore[attr-defined]
"""The callback of asyncio.sleep's timer."""
_WAIT_FOR: Final[CodeType | None] = asyncio.wait_for.__code__
_WAITS_IN_A_TASK: Final = sys.version_info < (3, 12)
"""Whether asyncio.wait_for makes a task of what it waits for."""
_MADE_OF_SETS: Final = {asyncio.as_completed.__code__} if hasattr(asyncio.as_completed, "__code__") else set()
if (_iterator := getattr(asyncio.tasks, "_AsCompletedIterator", None)) is not None:
    _MADE_OF_SETS.add(_iterator.__init__.__code__)


def _maker() -> CodeType | None:
    """The function of asyncio that makes a task of what it was given, if the task's name or order depends on that."""
    frame = sys._getframe(2)
    for _ in range(4):
        code = frame.f_code
        if code in _MADE_OF_SETS or (_WAITS_IN_A_TASK and code is _WAIT_FOR):
            return code
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


async def _awaited(call: OperationCall) -> Any:
    """Run the code of a task that is one operation, which waits for nothing of another loop."""
    return await call


async def _tended(loop: FlowLoop, code: Coroutine[Any, Any, T]) -> T:
    """Run the code of a task."""
    return await _lending(loop, code)


@coroutine
def _lending(loop: FlowLoop, code: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Run the code of a task, and lend it the futures of other loops that it waits for."""
    resume: Callable[..., Any] = code.send
    given: Any = None
    while True:
        try:
            awaited = resume(given)
        except StopIteration as done:
            result: T = done.value
            return result
        try:
            given = yield awaited if awaited is None or type(awaited) in _OURS else _own(loop, awaited)
            resume = code.send
        except GeneratorExit:
            code.close()
            raise
        except BaseException as problem:  # noqa: BLE001 - it is for the code to say what becomes of it
            resume, given = code.throw, problem


def _own(loop: FlowLoop, awaited: Any) -> Any:
    """A future that the flow's task can wait for: `awaited`, or one for it where that is of another loop."""
    try:
        of = awaited.get_loop()
    except AttributeError:  # no future: the task says so
        return awaited
    return awaited if of is loop else loop.lend(awaited)


_swap_current_task: Final[Callable[[Any, Any], Any] | None] = getattr(asyncio.tasks, "_swap_current_task", None)
"""None until Python 3.11, where each loop has a current task of its own."""
