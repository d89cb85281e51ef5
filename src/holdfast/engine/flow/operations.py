"""The operations of a flow that are under way: each is done in a task of the engine's loop, by the code that does it anywhere
else (context). What no code waits for any more is called off.

Never here: what an operation is, when its outcome is handed over (flowing).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextvars import Context
from typing import Any, Final

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import LOOKED_AT, SLEEP, TIMER, State, Step
from holdfast.core.rules.fence import hindrance
from holdfast.core.rules.readiness import brings
from holdfast.core.values.ids import Path, approval_at, refused_at
from holdfast.core.values.policies import CALLED_OFF
from holdfast.engine.attempts import cursor as places
from holdfast.engine.attempts.cursor import Suspension
from holdfast.engine.attempts.journal import GATHER, StepJournal, has_noted, look_again
from holdfast.engine.flow.loop import FlowLoop, Outcome
from holdfast.engine.flow.outcomes import TIMER_HASH, FlowOutcomes
from holdfast.errors import OperationFailed, RunEnded, SeqConflict, StaleAttempt, StoreError
from holdfast.platform.border import fact, is_ours, isolated, ordinary

MAX_AT_ONCE: Final = 200
"""Operations of a flow that are under way at a time: two appends' worth, one on its way to the disk and one gathering.
What is under way is looked through at each decision."""
_BEYOND: Final = (StoreError, StaleAttempt, RunEnded, SeqConflict)
"""What ends an attempt, and is nothing that a flow's code could do anything about."""


class Operation:
    """One that the flow has begun. Keeps cursor.Progress."""

    __slots__ = (
        "_flow",
        "call",
        "context",
        "cursor",
        "inside",
        "is_parked",
        "is_wanted",
        "outcome",
        "problem",
        "result",
        "task",
        "used",
        "waits",
    )
    used: list[Path]
    """The places where it has been since it was begun, or begun again."""
    waits: list[Path]
    """Those of them at which it has to wait."""

    def __init__(self, flow: FlowOperations, outcome: Outcome, context: Context) -> None:
        self._flow = flow
        self.outcome = outcome
        self.call = outcome.call
        self.context = context
        self.cursor = self.call.row.operation(self)
        self.task: asyncio.Task[None] | None = None
        self.is_wanted = True
        self.used, self.waits = [], []
        self.is_parked: asyncio.Future[None] | None = None
        """Set while it has come to what no replay does, and earlier outcomes are still to be handed over."""
        self.inside: dict[Path, bool] = {}
        """The places where it is, and of each whether what comes of it will be recorded."""
        self.result: Any = None
        self.problem: BaseException | None = None
        places.move(context, self.cursor)

    def enter(self, path: Path) -> None:
        self.inside[path] = False
        self._flow.moving[self] = None

    def leave(self, path: Path, *, waits: bool) -> None:
        self.inside.pop(path, None)
        (self.waits if waits else self.used).append(path)
        self._flow.moving[self] = None

    def certain(self, path: Path | None) -> asyncio.Future[None] | None:
        """See cursor.Progress."""
        if path is not None:
            self.inside[path] = True
        flow, moving = self._flow, self._flow.moving
        moving.pop(self, None)
        if not flow.is_live and not flow.was_refused(path) and (parked := flow.park(self)) is not None:
            return parked
        if not moving:
            flow.wake()
        return None

    def is_quiet(self, step: Step, before: int) -> bool:
        """Return True if nothing that came before that number lets it move on."""
        if self.is_parked is not None and not self.is_parked.done():
            return True
        for path, is_certain in self.inside.items():
            if is_certain and not 0 < max(_settled(step, path), _settled(step, refused_at(path))) < before:
                return True
        return False


class FlowOperations(FlowOutcomes):
    """The operations of one flow that is under way in this attempt."""

    def __init__(self, journal: StepJournal) -> None:
        began_s = journal.before.heard_ms(0) / 1000
        super().__init__(journal, FlowLoop(f"{journal.run}/{journal.step}", began_s, self.ring, self._late_ms))
        task = asyncio.current_task()
        assert task is not None
        self._carrier = task
        self._host = asyncio.get_running_loop()
        self._bell: asyncio.Future[None] | None = None
        self._has_rung = False
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
        self._is_alone: Operation | None = None
        """The one that is done in the attempt's own task."""
        self._interrupted: Operation | None = None
        """The one that was, until the run was cancelled: it is done again should the code still wait for it."""
        self._broken: BaseException | None = None

    def ring(self) -> None:
        """Have it looked at what has come."""
        self._has_rung = True
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    async def _begin(self) -> None:
        """Begin what the flow's tasks have asked for; one alone goes on in this very task."""
        begun, self._loop.begun = self._loop.begun, []
        for outcome, context in begun:
            if outcome.done():
                outcome.call.close()
                continue
            operation = outcome.operation = Operation(self, outcome, context)
            self._operations[operation] = None
            self._queue.append(operation)
        if self._loop.unfinished == len(self._queue) == len(self._operations) == 1 and not (self._timers or self._finished):
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

    def _heed(self, state: State) -> None:
        """Hear that something has happened in the run."""
        self.ring()
        alone, step = self._is_alone, state.step(self._journal.step)
        if step is not None and step.cancelled_at and not self._is_cancelled:
            self._note_cancelling(step)
            if alone is not None and alone.cursor.is_in_function and self._interrupted is None:
                self._interrupted = alone
                self._carrier.cancel()

    def _fill(self) -> None:
        while self._queue and self._at_work < MAX_AT_ONCE:
            operation = self._queue.popleft()
            if operation.is_wanted:
                self._start(operation)

    def _start(self, operation: Operation) -> None:
        self.moving[operation] = None
        self._at_work += 1
        operation.task = asyncio.Task(  # and not create_task, which is for tasks of users: this one lets no error out
            self._in_task(operation), loop=self._host, name=f"holdfast {operation.call.name}", context=operation.context
        )

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
                self._end(operation)
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
            why.__traceback__ = None  # it is remembered, and its frames hold the run as it was
            if type(why) is not Suspension:
                self._loop.left = self._loop.left or why
            elif operation.is_wanted:
                self._wait(operation)
            else:
                await self._withdraw(operation.waits)
            return
        except BaseException as problem:
            if is_ours(problem) or (issubclass(type(problem), _BEYOND) and not issubclass(type(problem), OperationFailed)):
                raise
            operation.problem = ordinary(problem)
            if _was_called_off(problem):
                self.moving.pop(operation, None)
                return  # its code will call it off again
        await self._come_to_end(operation)

    async def _come_to_end(self, operation: Operation) -> None:
        if len(self._operations) > 1 and has_noted(self._journal, operation.used):
            await self._journal.record()  # others are under way: its place among their outcomes has to be known
        step = self._in_memory() or await self._current()
        used = operation.used
        if operation.problem is not None and used and operation is not self._is_alone and not _settled(step, used[-1]):
            refused = refused_at(used[-1])
            if not _settled(step, refused):
                await self._journal.record(cmd.Value(refused, GATHER, None, None, GATHER))
                step = await self._current()
            used.append(refused)
        settled, at_ms = 0, 0
        for path in used:
            op = step.journal.get(path)
            if op is not None and op.settled > settled:
                settled = op.settled
                at_ms = at_ms if op.kind in LOOKED_AT else op.settled_ms
        self.moving.pop(operation, None)
        if operation.is_wanted:
            self._end(operation)
            self._finish(settled, at_ms, operation)
        else:
            await self._withdraw(used)

    def _end(self, operation: Operation) -> None:
        """Let go of an operation that is at its end. It is freed when its outcome was handed over: nothing that it holds may
        hold it, or it would stay until Python's collector comes past."""
        del self._operations[operation]
        operation.outcome.operation = operation.cursor.progress = None

    def _wait(self, operation: Operation) -> None:
        """Have an operation wait until what it waits for stands otherwise."""
        step = self._step()
        self._waiting[operation] = {path: _standing(step, path) for path in operation.waits}

    async def _see_what_came(self) -> bool:
        """Go on with the operations for which something has come, and note the timers that others have had fire. Returns True
        if there were any."""
        step = self._step()
        fired = [path for path in self._timers if (op := step.journal.get(Path(path))) is not None and op.status == "done"]
        for path in fired:
            del self._timers[path]
            self._fired(path, step.journal[Path(path)])
        woken = [
            operation
            for operation, waits in self._waiting.items()
            if any(_standing(step, path) != before for path, before in waits.items()) or self._may_go_on(step, waits)
        ]
        if woken:
            await look_again(self._journal)
        for operation in woken:
            del self._waiting[operation]
            self._do_again(operation)
        self._fill()
        return bool(fired or woken)

    def _may_go_on(self, step: Step, waits: Iterable[Path]) -> bool:
        """Return True if nothing brings what an operation waits for, and it may begin again: its intent was taken back, or its
        run was not to go on for a while. A step that is suspended so is started again; this one has others under way."""
        state = self._attempt.mailbox.state
        if state is None or not self._journal.may_send() or hindrance(state, self._journal.step) is not None:
            return False
        journal = step.journal
        return not any(
            brings(state, step, path, journal[path]) for wait in waits for path in (wait, approval_at(wait)) if path in journal
        )

    def _do_again(self, operation: Operation) -> None:
        """Have an operation done from its beginning, if the code still waits for it."""
        if operation is self._interrupted:
            if self._finished:
                return  # that the run is cancelled is handed over first
            self._interrupted = None
        if operation.is_wanted:
            operation.cursor = operation.call.row.operation(operation)
            places.move(operation.context, operation.cursor)
            self._queue.append(operation)
            self._fill()

    def park(self, operation: Operation) -> asyncio.Future[None] | None:
        """Have an operation wait that has come to what no replay does, until all that is recorded was handed over. One that is
        alone does not."""
        if operation is self._is_alone:
            self.is_live = True
            return None
        self.ring()
        operation.is_parked = self._host.create_future()
        return operation.is_parked

    def was_refused(self, path: Path | None) -> bool:
        """Return True if an attempt before had the operation at that place refused."""
        return path is not None and refused_at(path) in self._journal.before.journal

    def wake(self) -> None:
        """Have it looked at what has come, if that is waited for."""
        if self._bell is not None:
            self.ring()

    def _parked(self) -> list[Operation]:
        return [each for each in self._operations if each.is_parked is not None and not each.is_parked.done()]

    def _unpark(self, operation: Operation) -> None:
        assert operation.is_parked is not None
        operation.is_parked.set_result(None)

    async def _fire_due(self) -> None:
        """Have it recorded that timers fire whose time has come, in the order of their times."""
        now_ms = self._clock.now_ms()
        due = [path for path, due_ms in self._timers.items() if due_ms <= now_ms]
        if not due:
            return
        due.sort(key=lambda path: (self._timers[path], self._loop.timers[path].when()))
        values = tuple(cmd.Value(Path(path), SLEEP, None, None, TIMER, TIMER_HASH) for path in due)
        await self._journal.record(*values)
        await self._see_what_came()

    async def _call_off(self) -> None:
        """Give up what no code waits for any more. What was sent comes to its end, and is handed to no code."""
        outcomes, self._loop.called_off = self._loop.called_off, []
        timers, self._loop.timers_off = self._loop.timers_off, []
        places = [[Path(path)] for path in timers]
        for path in timers:
            self._timers.pop(path, None)
        for outcome in outcomes:
            operation = outcome.operation
            if operation is None:  # it had not begun, or its outcome was about to be handed over
                ended = (each.operation for each in self._finished if each.operation is not None)
                places += [each.used for each in ended if each.outcome is outcome]
                continue
            operation.is_wanted = False
            if operation.task is not None:
                self._stop(operation)
                continue
            if self._waiting.pop(operation, None) is None and operation in self._queue:
                self._queue.remove(operation)  # if in neither, an attempt before has called it off
            places.append(operation.waits)
            self._end(operation)
        await self._withdraw(*places)

    def _stop(self, operation: Operation) -> None:
        """Have an operation end as soon as it may: before what comes next in it, or in the function that it runs."""
        operation.is_wanted = False
        operation.cursor.left = operation.cursor.left or Suspension()
        is_parked = operation.is_parked is not None and not operation.is_parked.done()
        if is_parked or operation.cursor.is_in_function:
            assert operation.task is not None
            operation.task.cancel()


def _settled(step: Step, path: Path) -> int:
    """The number of the outcome at that place; 0 where there is none."""
    op = step.journal.get(path)
    return 0 if op is None else op.settled


def _standing(step: Step, path: Path) -> tuple[Any, ...]:
    """Return the state of what an operation waits for."""
    found = (step.journal.get(path), step.journal.get(approval_at(path)))
    return tuple(None if op is None else (op.status, op.settled) for op in found)


def is_open(step: Step, path: Path) -> bool:
    """Return True if something is waited for whose coming is recorded at that place: an answer, a signal, a time, a child."""
    return any((op := step.journal.get(each)) is not None and op.status == "open" for each in (path, approval_at(path)))


def _was_called_off(problem: BaseException) -> bool:
    return issubclass(type(problem), OperationFailed) and fact(fact(problem, "error"), "error_class") == CALLED_OFF
