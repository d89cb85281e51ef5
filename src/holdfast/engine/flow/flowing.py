"""Does what a flow asks for: begins operations, hands their outcomes over in the order of the history, and knows the end.

The flow's tasks run in a loop of their own (loop). Each operation is done here, in a task of the engine's loop, by the
code that does it anywhere else (context). Its outcome is handed over when it is in the history, one at a time, in the order of
the history: a replay does the same, so its code goes the same way. Where nothing is under way any more and something is
waited for, the whole step waits.

Never here: what an operation is, the rules of a journal (core).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from heapq import heappop
from typing import Any, Final

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import Step
from holdfast.core.values.ids import Path
from holdfast.core.values.policies import CANCELLED
from holdfast.engine.attempts.attempt import is_left
from holdfast.engine.attempts.cursor import Suspension
from holdfast.engine.attempts.journal import GATHER, StepJournal
from holdfast.engine.attempts.residents import FlowPosition, outcomes
from holdfast.engine.flow.held_memory import held_bytes
from holdfast.engine.flow.loop import FlowLoop
from holdfast.engine.flow.operations import FlowOperations, is_open
from holdfast.engine.flow.outcomes import CLOSING, WRITE_AFTER_S
from holdfast.errors import StepError
from holdfast.platform.border import is_cut_off

NEAR_S: Final = 1.0
"""A flow that waits for nothing but a timer keeps its slot so long: to leave and to go on takes commits and a replay."""
LOOK_S: Final = 5.0
"""How often a flow that is at work looks for what others have brought meanwhile."""
OUTSIDE_S = 60.0
"""How long a flow of one task waits for what neither an operation nor a future of another loop brings: other code of its
process may."""
LIBRARY_S: Final = 3600.0
"""How long one waits for a future that a library has made by itself, as anyio does for its threads."""
CLOSING_S: Final = 60.0
"""The longest time for which tasks go on that are cancelled when the function of their flow has returned."""
GOES_ON: Final = (
    "End the task when it is cancelled: it goes on for more than a minute after the flow's function has returned, as code does"
    " that catches asyncio.CancelledError and does not raise it again"
)
FLOW_BYTES: Final = 10 * 1024
TASK_BYTES: Final = 6 * 1024
"""What a flow that waits takes in memory, and each of its tasks or operations, without what its code holds (measured)."""
WAITS_FOR_NOTHING: Final = (
    "Wait for an operation: the flow waits for what no operation brings (a lock that is never released, an event that no task"
    " sets)"
)
GOES_ON_WITHOUT: Final = (
    "Decide by what operations return, and not by chance or the clock, when the flow goes on without one: an attempt before"
    " has called off what this one waits for"
)


class FlowAttempt(FlowOperations):
    """A flow that is under way in this attempt."""

    def __init__(self, journal: StepJournal, code: Coroutine[Any, Any, Any]) -> None:
        super().__init__(journal)
        self._code: Coroutine[Any, Any, Any] | None = code
        """What the flow's function is called with, until it begins."""
        self._handed_over = 0
        """The number of the last outcome that was."""
        self._closing_s: float | None = None
        """The recorded time at which the function had returned."""
        self.stands = False
        """Its step was left to wait, and its code was not: it may go on here in the next attempt."""

    async def carry(self) -> Any:
        """Return what the flow's function returns. Raises what it raises, and Suspension where the step waits."""
        loop, task = self._loop, asyncio.current_task()
        assert task is not None
        self._carrier = task
        self._attempt = self._journal.attempt
        self._attempt.heeds = self._heed
        step = self._step()
        self._came_before = step.settlements
        if step.cancelled_at and not self._is_cancelled:
            self._note_cancelling(step)
        code, self._code = self._code, None
        if code is not None:
            if (closing := step.journal.get(CLOSING)) is not None:
                self._fired(CLOSING, closing)
            loop.start(code, loop.row(""))
        elif self.stands:
            self._wake(step)
        is_dropped = False
        try:
            while not await self._go_on():
                pass
            return self._result()
        except asyncio.CancelledError:
            if is_cut_off():
                loop.let_go(cancels=True)
            raise
        except GeneratorExit:  # its event loop is closed: nothing can be waited for any more
            is_dropped = True
            raise
        finally:
            self._attempt.heeds = None
            if not self.stands:
                try:
                    if not is_dropped:
                        await self._leave()
                finally:
                    loop.let_go()
                for end in () if is_dropped else [*self._journal.ends]:
                    await end()

    def _wake(self, step: Step) -> None:
        """Go on where the code waits, with what has come since."""
        self.stands = False
        self._has_rung = True
        for operation, waits in [*self._waiting.items()]:
            if not all(is_open(step, path) for path in waits):  # nothing will be heard of it: it asks again
                del self._waiting[operation]
                self._do_again(operation)
        for path in self._timers:
            op = step.journal.get(Path(path))
            if op is not None and op.due_at_ms is not None:
                self._timers[path] = op.due_at_ms

    def let_go(self) -> None:
        """Leave the code where it waits."""
        self._loop.let_go()

    def standing(self) -> FlowPosition:
        """Return the place at which it waits."""
        journal, step = self._journal, self._step()
        return FlowPosition(
            journal.run,
            journal.step,
            journal.number,
            self._attempt.definition,
            step.generation,
            step.settlements,
            outcomes(step, step.settlements),
            self._size_bytes(),
        )

    def _size_bytes(self) -> int:
        loop = self._loop
        of_itself = FLOW_BYTES + TASK_BYTES * max(loop.unfinished, loop.open_operations)
        return of_itself + held_bytes(task.code for task in loop.tasks if not task.done())

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
            await self._begin_timers()
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
            await self._wait_for_events()
        elif not self.is_live and (parked := self._parked()):
            self.is_live = True
            for operation in parked:
                self._unpark(operation)
        elif self._at_work:
            await self._wait_for_events()
        else:
            return await self._rest()
        return False

    def _expect_sound(self) -> None:
        if self._broken is not None:
            raise self._broken
        if self._loop.left is not None:
            raise self._loop.left

    async def _rest(self) -> bool:
        """Go on where nothing is under way: with the end, with a timer that is near, or after the step has waited."""
        loop = self._loop
        assert loop.main is not None
        self.is_live = True
        if loop.main.done():
            left = [task for task in loop.tasks if not task.done()]
            if not left:
                return not (loop.closing and await self._wait_for_events(LOOK_S))
            if await self._close(left):
                return False
        if loop.has_lent:
            await self._wait_for_events()
            return False
        if self._drop_closing() or await self._give_up_gathers():
            return False
        if loop.is_connected and not loop.is_recording:
            await self._wait_for_events()
            return False
        near_s = self._next_timer_s()
        if near_s is not None and near_s <= NEAR_S and not self._waiting:
            await self._wait_for_events()
            return False
        if self._operations and not self._waiting:
            loop.refuse(GOES_ON_WITHOUT)
        if not self._timers and not self._waiting:
            if (others_s := _others_s(loop)) and await self._wait_for_events(others_s):
                return False
            loop.refuse(WAITS_FOR_NOTHING)
        await self._see_what_came()
        if not (self._at_work or self._finished):
            self.stands = self._may_stay()
            raise self._suspension()
        return False

    async def _close(self, left: list[Any]) -> bool:
        """Have the tasks cancelled that only wait, since the flow's function has returned, as asyncio.run does.

        Returns False if that was done before. Refuses a task that goes on for long.
        """
        loop = self._loop
        if self._closing_s is not None:
            if any(timer.when() > self._closing_s + CLOSING_S for timer in loop.timers.values()):
                loop.refuse(GOES_ON)
            return False
        known = self._step().journal
        if not (self._waiting or any(path in known for path in self._timers)):
            self._cancel(left)
        else:  # what they wait for may be coming: which was first has to be known
            await self._journal.record(cmd.Value(CLOSING, GATHER, None, None, GATHER))
            self._fired(CLOSING, (await self._current()).journal[CLOSING])
            await self._see_what_came()
        return True

    def _drop_closing(self) -> bool:
        """Forget a closing that came of other code: this one's function has not returned. Returns True if there was one."""
        if self._finished:
            heappop(self._finished)
            return True
        return False

    def _cancel(self, tasks: list[Any]) -> None:
        self._closing_s = self._loop.now_s
        with self._loop.running():
            for task in tasks:
                task.cancel()

    def _may_stay(self) -> bool:
        """Return True if the code may be kept where it waits: it is in no lock and has no connection open."""
        attempt = self._attempt
        return not (self._journal.ends or self._loop.is_connected or is_left(attempt)) and attempt.services.residents.is_open

    def _suspension(self) -> Suspension:
        """Why the step is left: it waits, for its timers among others."""
        why = Suspension()
        why.timers = self._unwritten()
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
        if loop.main.cancelled() and self._is_cancelled:
            raise StepError("The run is being cancelled.", error_class=CANCELLED)
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

    async def _hand_over(self) -> bool:
        """Hand over the first outcome, if it is certain that none comes before it. Returns True if something has moved."""
        finished, loop = self._finished, self._loop
        if self.moving:
            return False
        if finished[0].place == CLOSING and loop.main is not None and not loop.main.done():
            return False
        if finished[0].settled > self._handed_over + 1:
            if await self._see_what_came():
                return True
            step, settled = self._step(), finished[0].settled
            if not all(each.is_quiet(step, settled) for each in self._operations if each.task is not None):
                return False
        settled, _, at_s, operation, place = heappop(finished)
        self._handed_over = max(self._handed_over, settled)
        loop.now_s = max(loop.now_s, at_s)
        if operation is not None:
            outcome = operation.outcome
            if not outcome.done():  # it may have been called off meanwhile
                operation.call.row.pass_by(operation.cursor)
                loop.hand_over(outcome, operation.result, operation.problem)
        elif place == CLOSING:
            self._cancel([task for task in loop.tasks if not task.done()])
        elif place:
            self._timers.pop(place, None)
            loop.fire(place)
        else:
            loop.cancel()
        return True

    async def _wait_for_events(self, at_most_s: float | None = None) -> bool:
        """Wait for what comes from outside, or for the time of a timer. Returns True if anything has come."""
        if self._has_rung:
            return True
        wait_s = LOOK_S if self._waiting else at_most_s
        if self._unwritten_since_s is not None and self.is_live:
            left_s = self._unwritten_since_s + WRITE_AFTER_S - self._host.time()
            if left_s <= 0:
                await self._write_timers()
                return self._has_rung
            wait_s = left_s if wait_s is None else min(left_s, wait_s)
        due_s = self._next_timer_s() if self.is_live else None
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


def _others_s(loop: FlowLoop) -> float:
    """Return how long to wait for others: for a future that neither the flow's loop nor one of its tasks has made, or for
    anything."""
    if any(type(getattr(task, "_fut_waiter", None)) is asyncio.Future for task in loop.tasks):
        return LIBRARY_S
    return OUTSIDE_S if loop.unfinished == 1 else 0
