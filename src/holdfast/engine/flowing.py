"""Does what a flow asks for: begins operations, hands their outcomes over in the order of the history, and knows the end.

The flow's tasks run in a loop of their own (flow_loop). Each operation is done here, in a task of the engine's loop, by the
code that does it anywhere else (context). Its outcome is handed over when it is in the history, one at a time, in the order of
the history: a replay does the same, so its code goes the same way. Where nothing is under way any more and something is
waited for, the whole step waits.

Never here: what an operation is, the rules of a journal (core).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple

from holdfast.border import fact, is_cut_off, is_ours, ordinary
from holdfast.core import commands as cmd
from holdfast.core.ids import Path, approval_at
from holdfast.core.payload import digest
from holdfast.core.policies import CALLED_OFF, CANCELLED
from holdfast.core.state import Operation as Recorded
from holdfast.core.state import Step
from holdfast.engine import cursor as places
from holdfast.engine.cursor import Suspension
from holdfast.engine.flow_loop import FlowLoop, OperationCall, Timer
from holdfast.engine.journal import GATHER, StepJournal
from holdfast.errors import OperationFailed, RunEnded, SeqConflict, StaleAttempt, StepError, StoreError
from holdfast.isolation import isolated

MOST_AT_ONCE: Final = 200
"""Operations of a flow that are under way at a time: two appends' worth, one on its way to the disk and one gathering.
What is under way is looked through at each decision."""
NEAR_S: Final = 1.0
"""A flow that waits for nothing but a timer keeps its slot so long: to leave and to go on takes commits and a replay."""
LOOK_S: Final = 5.0
"""How often a flow that is at work looks for what others have brought meanwhile."""
OUTSIDE_S = 60.0
"""How long a flow of one task waits for what neither an operation nor a future of another loop brings: other code of its
process may."""
_TIMER: Final = "timer"
_TIMER_HASH: Final = digest(["timer"])
_BEYOND: Final = (StoreError, StaleAttempt, RunEnded, SeqConflict)
"""What ends an attempt, and is nothing that a flow's code could do anything about."""
WAITS_FOR_NOTHING: Final = (
    "Wait for an operation: the flow waits for what no operation brings (a lock that is never released, an event that no task"
    " sets)."
)

GOES_ON_WITHOUT: Final = (
    "Decide by what operations return, and not by chance or the clock, when the flow goes on without one: an attempt before"
    " has called off what this one waits for."
)


class _Finished(NamedTuple):
    """An outcome that is to be handed over, by its number in the history."""

    settled: int
    order: int
    at_s: float
    operation: Operation | None
    place: str = ""
    """Of a timer, or of a gather that is given up; of neither where the run is being cancelled."""


class Operation:
    """One that the flow has begun. Keeps cursor.Progress."""

    __slots__ = ("_flow", "call", "context", "cursor", "inside", "is_parked", "is_wanted", "problem", "result", "task", "used",
                 "waits")  # fmt: skip

    def __init__(self, flow: Flowing, call: OperationCall) -> None:
        self._flow = flow
        self.call = call
        self.cursor = call.row.operation(self)
        self.task: asyncio.Task[None] | None = None
        self.is_wanted = True
        self.is_parked: asyncio.Future[None] | None = None
        """Set while it has come to what no replay does, and earlier outcomes are still to be handed over."""
        self.inside: dict[Path, bool] = {}
        """The places where it is, and of each whether what comes of it will be recorded."""
        self.used: list[Path] = []
        self.waits: list[Path] = []
        self.result: Any = None
        self.problem: BaseException | None = None
        assert call.context is not None
        self.context: Context = call.context
        self.context.run(places.enter, self.cursor)

    def enter(self, path: Path) -> None:
        self.inside[path] = False
        self._flow.moving[self] = None

    def leave(self, path: Path, *, waits: bool) -> None:
        self.inside.pop(path, None)
        (self.waits if waits else self.used).append(path)
        self._flow.moving[self] = None

    def certain(self, path: Path | None) -> asyncio.Future[None] | None:
        if path is not None:
            self.inside[path] = True
        return self._flow.certain(self)

    def is_quiet(self, step: Step, before: int) -> bool:
        """Return True if nothing that came before that number lets it move on."""
        if self.is_parked is not None and not self.is_parked.done():
            return True
        for path, is_certain in self.inside.items():
            if is_certain:
                op = step.journal.get(path)
                if op is None or not 0 < op.settled < before:
                    return True
        return False


class Flowing:
    """A flow that is under way in this attempt."""

    def __init__(self, journal: StepJournal) -> None:
        self._journal = journal
        self._attempt = journal.attempt
        self._clock = journal.attempt.services.runtime.store.clock
        self._host = asyncio.get_running_loop()
        self._bell: asyncio.Future[None] | None = None
        self._has_rung = False
        self._loop = FlowLoop(f"{journal.run}/{journal.step}", journal.before.began_ms / 1000, self.ring)
        self._operations: dict[Operation, None] = {}
        """Those without an outcome."""
        self.moving: dict[Operation, None] = {}
        """Those of which it is not known yet whether what they come to will be recorded: they are waited for."""
        self._at_work = 0
        """How many of them have a task."""
        self._queue: deque[Operation] = deque()
        """Those that begin as others end."""
        self._waiting: dict[Operation, dict[Path, Any]] = {}
        """Those that wait for others' doing, and how what they wait for stood."""
        self._timers: dict[str, int] = {}
        """When those fire that the flow waits for, in Unix milliseconds, by their places."""
        self._finished: list[_Finished] = []
        self._numbered = 0
        self._handed_over = 0
        """The number of the last outcome that was."""
        self._is_live = not journal.before.settlements
        """Everything recorded was handed over; what is begun from here on is done."""
        self._is_alone: Operation | None = None
        """The one that is done in the attempt's own task."""
        self._interrupted: Operation | None = None
        """The one that was, until the run was cancelled: it is done again should the code still wait for it."""
        self._is_cancelled = False
        self._broken: BaseException | None = None
        self._is_closing = False

    def ring(self) -> None:
        """Have it looked at what has come."""
        self._has_rung = True
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    # --- The flow -----------------------------------------------------------------------------------------------------

    async def carry(self, code: Coroutine[Any, Any, Any]) -> Any:
        """Return what the flow's function returns. Raises what it raises, and Suspension where the step waits."""
        loop, task = self._loop, asyncio.current_task()
        assert task is not None
        self._carrier = task
        self._attempt.heeds = self._heed
        if (step := self._step()).cancelled_at:
            self._note_cancelling(step)
        loop.start(code, loop.row(""))
        try:
            while not await self._go_on():
                pass
            return self._result()
        except asyncio.CancelledError:
            if is_cut_off():
                loop.cut_off()
            raise
        finally:
            self._attempt.heeds = None
            try:
                await self._leave()
            finally:
                loop.let_go()
                for end in self._journal.ends:
                    await end()

    async def _go_on(self) -> bool:
        """Take the flow one step further. Returns True at its end."""
        loop, has_rung = self._loop, self._has_rung
        self._has_rung = False
        loop.drain()
        self._expect_sound()
        if loop.called_off or loop.timers_off:
            await self._call_off()
        if self._interrupted is not None:
            self._do_again(self._interrupted)
        if loop.timers_begun:
            self._note_timers()
        if loop.gathers_begun:
            self._note_gathers()
        if loop.begun:
            await self._begin()
            self._expect_sound()
        if has_rung and (self._waiting or self._timers):
            await self._see_what_came()
        if self._finished and await self._hand_over():
            return False
        if self.moving or loop._ready:
            await self._heard()
        elif not self._is_live and (parked := self._parked()):
            self._is_live = True
            for operation in parked:
                self._unpark(operation)
        elif self._at_work:
            await self._heard()
        else:
            return await self._rest()
        return False

    def _expect_sound(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._loop.left is not None:
            raise self._loop.left

    def _parked(self) -> list[Operation]:
        return [each for each in self._operations if each.is_parked is not None and not each.is_parked.done()]

    async def _rest(self) -> bool:
        """Go on where nothing is under way: with the end, with a timer that is near, or after the step has waited."""
        loop = self._loop
        assert loop.main is not None
        self._is_live = True
        if loop.main.done():
            left = [task for task in loop.tasks if not task.done()]
            if not left:
                return True
            if not self._is_closing:
                await self._close(left)
                return False
        if loop.has_lent:
            await self._heard()
            return False
        if await self._give_up_gathers():
            return False
        near_s = self._next_timer_s()
        if near_s is not None and near_s <= NEAR_S and not self._waiting:
            await self._heard()
            return False
        if self._operations and not self._waiting:
            loop.refuse(GOES_ON_WITHOUT)
        if not self._timers and not self._waiting:
            if loop.unfinished == 1 and await self._heard(OUTSIDE_S):
                return False
            loop.refuse(WAITS_FOR_NOTHING)
        await self._see_what_came()
        if not (self._at_work or self._finished):
            raise self._suspension()
        return False

    async def _close(self, left: list[Any]) -> None:
        """Cancel the tasks that only wait, since the flow's function has returned, as asyncio.run does."""
        self._is_closing = True
        with self._loop.running():
            for task in left:
                task.cancel()

    def _suspension(self) -> Suspension:
        """Why the step is left: it waits, for its timers among others."""
        why, now_ms = Suspension(), self._clock.now_ms()
        known = self._step().journal
        why.timers = tuple(
            cmd.Timer(Path(path), _TIMER_HASH, max(0, due_ms - now_ms))
            for path, due_ms in self._timers.items()
            if path not in known
        )
        return why

    def _result(self) -> Any:
        loop = self._loop
        assert loop.main is not None
        row = loop.main.row
        for task in [loop.main, *loop.tasks]:
            if not task.cancelled() and (task is loop.main or getattr(task, "_log_traceback", False)):
                problem = task.exception()
                if problem is not None:
                    raise row.explained(problem) or problem
        if row.calls is not None and (forgotten := row.calls.forgotten()) is not None:
            raise row.refuse(forgotten)
        if loop.main.cancelled():
            if self._is_cancelled:
                raise StepError("The run is being cancelled.", error_class=CANCELLED)
            raise asyncio.CancelledError
        return loop.main.result()

    async def _leave(self) -> None:
        """Let what was sent come to its end, unless this attempt is cut off; nothing more begins."""
        for operation in self._queue:
            operation.call.close()
        self._queue.clear()
        under_way = [each for each in self._operations if each.task is not None]
        for each in under_way:
            self._stop(each)
        tasks = [each.task for each in under_way if each.task is not None]
        if not tasks:
            return
        try:
            if not is_cut_off():
                await asyncio.wait(tasks)
        finally:
            left = [task for task in tasks if not task.done()]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)

    # --- Operations ---------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Begin what the flow's tasks have asked for; one alone goes on in this very task."""
        begun, self._loop.begun = self._loop.begun, []
        for call in begun:
            if call.outcome is None or call.outcome.done():
                call.close()
                continue
            operation = call.operation = Operation(self, call)
            self._operations[operation] = None
            self._queue.append(operation)
        if self._loop.unfinished == len(self._queue) == len(self._operations) == 1 and not (
            self._timers or self._finished
        ):
            await self._do_alone(self._queue.pop())
            return
        self._fill()

    async def _do_alone(self, operation: Operation) -> None:
        """Do an operation while nothing else is under way."""
        self._is_alone = operation
        self.moving[operation] = None
        try:
            await isolated(self._perform(operation), operation.context)
        except asyncio.CancelledError:
            if self._interrupted is None:
                raise
            self._carrier.uncancel()
        finally:
            self._is_alone = None
            self.moving.pop(operation, None)

    def _heed(self) -> None:
        """Hear that something has happened in the run."""
        self.ring()
        alone, step = self._is_alone, self._step()
        if step.cancelled_at and not self._is_cancelled:
            self._note_cancelling(step)
            if alone is not None and alone.cursor.is_in_function and self._interrupted is None:
                self._interrupted = alone
                self._carrier.cancel()

    def _note_cancelling(self, step: Step) -> None:
        """Take note of the run's being cancelled: an outcome among others."""
        self._is_cancelled = True
        self._numbered += 1
        heappush(self._finished, _Finished(step.cancelled_at, self._numbered, step.cancelled_ms / 1000, None))

    def _fill(self) -> None:
        while self._queue and self._at_work < MOST_AT_ONCE:
            operation = self._queue.popleft()
            if operation.is_wanted:
                self._start(operation)

    def _start(self, operation: Operation) -> None:
        self.moving[operation] = None
        self._at_work += 1
        name = f"holdfast {operation.call.name}"
        operation.task = self._host.create_task(self._in_task(operation), name=name, context=operation.context)

    async def _in_task(self, operation: Operation) -> None:
        try:
            await self._perform(operation)
        except asyncio.CancelledError:
            if operation.is_wanted:
                raise
        except BaseException as problem:  # noqa: BLE001 - it leaves the flow
            self._broken = self._broken or problem
        finally:
            operation.task = None
            self._at_work -= 1
            self.moving.pop(operation, None)
            if not operation.is_wanted:
                self._operations.pop(operation, None)
            if self._queue:
                self._fill()
            self.ring()

    async def _perform(self, operation: Operation) -> None:
        """Do an operation, and see what it has come to."""
        operation.waits, operation.used = [], []
        try:
            operation.result = await operation.call.code()
            if operation.cursor.left is not None:
                raise operation.cursor.left
        except Suspension as why:
            self.moving.pop(operation, None)
            if type(why) is not Suspension:
                self._loop.left = self._loop.left or why
            elif operation.is_wanted:
                self._wait(operation)
            else:
                await self._withdraw(operation.waits)
            return
        except BaseException as problem:
            if is_ours(problem) or (
                issubclass(type(problem), _BEYOND) and not issubclass(type(problem), OperationFailed)
            ):
                raise
            operation.problem = ordinary(problem)
            if _was_called_off(problem):
                self.moving.pop(operation, None)
                return  # its code will call it off again
        await self._finish(operation)

    async def _finish(self, operation: Operation) -> None:
        if len(self._operations) > 1 and self._journal.has_noted(operation.used):
            await self._journal.record()  # others are under way: its place among their outcomes has to be known
        step = self._step() if self._attempt.mailbox.state is not None else await self._current()
        settled, at_ms = 0, 0
        for path in operation.used:
            op = step.journal.get(path)
            if op is not None and op.settled > settled:
                settled, at_ms = op.settled, op.settled_ms
        self.moving.pop(operation, None)
        self._operations.pop(operation, None)
        if operation.is_wanted:
            self._numbered += 1
            heappush(self._finished, _Finished(settled, self._numbered, at_ms / 1000, operation))

    def _wait(self, operation: Operation) -> None:
        """Have an operation wait until what it waits for stands otherwise."""
        step = self._step()
        self._waiting[operation] = {path: _standing(step, path) for path in operation.waits}

    async def _see_what_came(self) -> bool:
        """Go on with the operations for which something has come, and note the timers that others have had fire. Returns True
        if there were any."""
        step = self._step()
        fired = [
            path for path in self._timers if (op := step.journal.get(Path(path))) is not None and op.status == "done"
        ]
        for path in fired:
            del self._timers[path]
            self._fired(path, step.journal[Path(path)])
        woken = [
            operation
            for operation, waits in self._waiting.items()
            if any(_standing(step, path) != before for path, before in waits.items())
        ]
        if woken:
            await self._journal.look_again()
        for operation in woken:
            del self._waiting[operation]
            self._do_again(operation)
        self._fill()
        return bool(fired or woken)

    def _do_again(self, operation: Operation) -> None:
        """Have an operation done from its beginning, if the code still waits for it."""
        if operation is self._interrupted:
            if self._finished:
                return  # that the run is cancelled is handed over first
            self._interrupted = None
        if operation.is_wanted:
            operation.cursor = operation.call.row.operation(operation)
            operation.context.run(places.enter, operation.cursor)
            self._queue.append(operation)
            self._fill()

    def certain(self, operation: Operation) -> asyncio.Future[None] | None:
        """See cursor.Progress."""
        moving = self.moving
        moving.pop(operation, None)
        if not self._is_live:
            if operation is not self._is_alone:
                self.ring()
                operation.is_parked = self._host.create_future()
                return operation.is_parked
            self._is_live = True
        if not moving and self._bell is not None:
            self.ring()
        return None

    def _unpark(self, operation: Operation) -> None:
        assert operation.is_parked is not None
        operation.is_parked.set_result(None)

    # --- Outcomes -----------------------------------------------------------------------------------------------------

    async def _hand_over(self) -> bool:
        """Hand over the first outcome, if it is certain that none comes before it. Returns True if something has moved."""
        finished = self._finished
        if self.moving:
            return False
        if finished[0].settled > self._handed_over + 1:
            if await self._see_what_came():
                return True
            step, settled = self._step(), finished[0].settled
            if not all(each.is_quiet(step, settled) for each in self._operations if each.task is not None):
                return False
        settled, _, at_s, operation, place = heappop(finished)
        loop = self._loop
        self._handed_over = max(self._handed_over, settled)
        loop.now_s = max(loop.now_s, at_s)
        if operation is not None:
            outcome = operation.call.outcome
            assert outcome is not None
            if not outcome.done():  # it may have been called off meanwhile
                operation.call.row.pass_by(operation.cursor)
                loop.hand_over(outcome, operation.result, operation.problem)
        elif place:
            self._timers.pop(place, None)
            loop.fire(place)
        else:
            loop.cancel()
        return True

    async def _heard(self, at_most_s: float | None = None) -> bool:
        """Wait for what comes from outside, or for the time of a timer. Returns True if anything has come."""
        if self._has_rung:
            return True
        wait_s = LOOK_S if self._waiting else at_most_s
        due_s = self._next_timer_s() if self._is_live else None
        if due_s is not None:
            wait_s = due_s if wait_s is None else min(due_s, wait_s)
        self._bell = self._host.create_future()
        try:
            if wait_s is None:
                await self._bell
            else:
                await asyncio.wait([self._bell], timeout=wait_s)
        finally:
            self._bell = None
        has_rung = self._has_rung
        if self._waiting and not has_rung:
            await self._attempt.patiently(self._attempt.mailbox.current)
            self._has_rung = True
        if due_s is not None:
            await self._fire_due()
        return has_rung

    # --- Timers -------------------------------------------------------------------------------------------------------

    def _note_timers(self) -> None:
        """Take note of the timers that the flow has begun; one that has fired is an outcome."""
        begun, self._loop.timers_begun = self._loop.timers_begun, []
        known = self._step().journal
        for timer in begun:
            if timer.path not in self._loop.timers:
                continue  # it was cancelled at once
            op = known.get(Path(timer.path))
            self._journal.found(Path(timer.path), "sleep", _TIMER, _TIMER_HASH)
            if op is not None and op.status == "done":
                self._fired(timer.path, op)
            elif op is None or not op.settled:
                due_ms = None if op is None else op.due_at_ms
                self._timers[timer.path] = _due_ms(timer) if due_ms is None else due_ms

    def _fired(self, path: str, op: Recorded) -> None:
        self._numbered += 1
        heappush(self._finished, _Finished(op.settled, self._numbered, op.settled_ms / 1000, None, path))

    def _next_timer_s(self) -> float | None:
        """How long it is until the next timer fires; None where there is none."""
        if not self._timers:
            return None
        return max(0.0, (min(self._timers.values()) - self._clock.now_ms()) / 1000)

    async def _fire_due(self) -> None:
        """Have it recorded that timers fire whose time has come, in the order of their times."""
        now_ms = self._clock.now_ms()
        due = sorted((due_ms, path) for path, due_ms in self._timers.items() if due_ms <= now_ms)
        if not due:
            return
        values = tuple(cmd.Value(Path(path), "sleep", None, None, _TIMER, _TIMER_HASH) for _, path in due)
        await self._journal.record(*values)
        await self._see_what_came()

    # --- Gathers ------------------------------------------------------------------------------------------------------

    def _note_gathers(self) -> None:
        """Take note of the gathers of the flow that an attempt before has given up."""
        begun, self._loop.gathers_begun = self._loop.gathers_begun, []
        known = self._step().journal
        for path in begun:
            op = known.get(Path(path))
            if op is not None and op.settled and path in self._loop.gathers:
                self._fired(path, op)

    async def _give_up_gathers(self) -> bool:
        """Have gathers end of which a branch has failed, where those before it have ended and those after it can only wait.
        Returns True if there were any."""
        given_up = [Path(path) for path, gathered in self._loop.gathers.items() if gathered.has_failed]
        if given_up:
            await self._journal.record(*(cmd.Value(path, GATHER, None, None, GATHER) for path in given_up))
            journal = (await self._current()).journal
            for path in given_up:
                self._fired(path, journal[path])
        return bool(given_up)

    # --- Calling off --------------------------------------------------------------------------------------------------

    async def _call_off(self) -> None:
        """Give up what no code waits for any more. What was sent comes to its end, and is handed to no code."""
        calls, self._loop.called_off = self._loop.called_off, []
        timers, self._loop.timers_off = self._loop.timers_off, []
        paths = [Path(path) for path in timers]
        for path in timers:
            self._timers.pop(path, None)
        for call in calls:
            operation = call.operation
            if operation is None or operation not in self._operations:
                continue  # it had not begun, or its outcome was about to be handed over
            operation.is_wanted = False
            if self._waiting.pop(operation, None) is not None:
                paths += operation.waits
                del self._operations[operation]
            elif operation in self._queue:
                self._queue.remove(operation)
                del self._operations[operation]
            elif operation.task is not None:
                self._stop(operation)
            else:
                del self._operations[operation]  # an attempt before has called it off
        if paths:
            await self._withdraw(paths)

    def _stop(self, operation: Operation) -> None:
        """Have an operation end as soon as it may: before what comes next in it, or in the function that it runs."""
        operation.is_wanted = False
        operation.cursor.left = operation.cursor.left or Suspension()
        is_parked = operation.is_parked is not None and not operation.is_parked.done()
        if is_parked or operation.cursor.is_in_function:
            assert operation.task is not None
            operation.task.cancel()

    async def _withdraw(self, waits: list[Path]) -> None:
        """Take back what is waited for at these places: a question, a signal, a timer, a child."""
        pending = (await self._current()).pending
        paths = tuple(each for path in waits for each in (path, approval_at(path)) if each in pending)
        if paths:
            await self._journal.send(cmd.CallOffOperations(self._journal.step, self._journal.number, paths))

    # --- The journal --------------------------------------------------------------------------------------------------

    async def _current(self) -> Step:
        return self._journal.current(await self._attempt.state())

    def _step(self) -> Step:
        """The step as it is in memory, with what may be on its way to the disk."""
        state = self._attempt.mailbox.state
        step = None if state is None else state.step(self._journal.step)
        return self._journal.before if step is None else step


def _standing(step: Step, path: Path) -> tuple[Any, ...]:
    """How what an operation waits for stands."""
    found = (step.journal.get(path), step.journal.get(approval_at(path)))
    return tuple(None if op is None else (op.status, op.settled) for op in found)


def _was_called_off(problem: BaseException) -> bool:
    return issubclass(type(problem), OperationFailed) and fact(fact(problem, "error"), "error_class") == CALLED_OFF


def _due_ms(timer: Timer) -> int:
    return int(timer.when() * 1000)


def carry(journal: StepJournal, code: Coroutine[Any, Any, Any]) -> Awaitable[Any]:
    """What the function of a flow returns, run in an event loop of its own."""
    return Flowing(journal).carry(code)
