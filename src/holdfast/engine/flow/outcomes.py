"""The outcomes that are to be handed to a flow, in the order of the history.

They are those of operations, of timers, of gathers that are given up, that the run is being cancelled, and that the tasks are
closed which wait when the flow's function has returned.

Never here: doing an operation (operations), when an outcome is handed over (flowing).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from heapq import heappush
from typing import Any, Final, NamedTuple

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import SLEEP, TIMER, Step
from holdfast.core.facts.state import Operation as Recorded
from holdfast.core.rules.calling_off import has_signal
from holdfast.core.values.ids import Path, approval_at
from holdfast.core.values.payload import digest
from holdfast.engine.attempts.cursor import Suspension
from holdfast.engine.attempts.journal import GATHER, StepJournal
from holdfast.engine.flow.loop import FlowLoop

WRITE_AFTER_S: Final = 0.25
"""How long a timer may be known to this process only, while something is at work."""
TIMER_HASH: Final = digest(["timer"])
CLOSING: Final = Path("~")
"""Where it stands when the flow's waiting tasks were closed, if what they wait for could have come meanwhile."""


class NumberedOutcome(NamedTuple):
    """An outcome that is to be handed over, by its number in the history."""

    settled: int
    order: int
    at_s: float
    """When it came; 0 where no history has that: what the code has looked at."""
    operation: Any
    """The operations.Operation that has come to its end; None where it is none."""
    place: str = ""
    """Of a timer, of a gather that is given up, or CLOSING; of none where the run is being cancelled."""


class FlowOutcomes:
    """The outcomes of one flow that is under way."""

    def __init__(self, journal: StepJournal, loop: FlowLoop) -> None:
        self._journal = journal
        self._attempt = journal.attempt
        self._clock = journal.attempt.services.runtime.store.clock
        self._loop = loop
        self._timers: dict[str, int] = {}
        """When those fire that the flow waits for, in Unix milliseconds, by their places."""
        self._finished: list[NumberedOutcome] = []
        self._numbered = 0
        self._is_cancelled = False
        self._came_before = 0
        """How many outcomes there were when this attempt began."""
        self._unwritten_since_s: float | None = None
        """Since when there are timers that the store does not know, by the clock of the engine's loop."""
        self.is_live = not journal.before.settlements
        """Everything recorded was handed over; what is begun from here on is done."""

    def _finish(self, settled: int, at_ms: int, operation: Any = None, place: str = "") -> None:
        """Keep an outcome until it is its turn."""
        self._numbered += 1
        if at_ms and settled <= self._came_before:
            at_ms = max(at_ms, self._step().heard_ms(settled))
        heappush(self._finished, NumberedOutcome(settled, self._numbered, at_ms / 1000, operation, place))

    def _note_cancelling(self, step: Step) -> None:
        """Take note of the run's being cancelled: an outcome among others."""
        self._is_cancelled = True
        self._finish(step.cancelled_at, step.cancelled_ms)

    def _note_timers(self) -> None:
        """Take note of the timers that the flow has begun; one that has fired is an outcome."""
        begun, self._loop.timers_begun = self._loop.timers_begun, []
        known = self._step().journal
        for timer in begun:
            if timer.path not in self._loop.timers:
                continue  # it was cancelled at once
            op = known.get(Path(timer.path))
            self._journal.find(Path(timer.path), SLEEP, TIMER, TIMER_HASH)
            if op is not None and op.status == "done":
                self._fired(timer.path, op)
            elif op is None or not op.settled:
                due_ms = None if op is None else op.due_at_ms
                self._timers[timer.path] = int(timer.when() * 1000) + timer.late_ms if due_ms is None else due_ms
                if op is None and self._unwritten_since_s is None:
                    self._unwritten_since_s = asyncio.get_running_loop().time()

    async def _begin_timers(self) -> None:
        """Take note of the timers that the flow has begun, and of what is known of them."""
        self._note_timers()
        if self._step().may_reuse:
            await self._reuse_sleeps()

    async def _reuse_sleeps(self) -> None:
        """Have sleeps end that had ended in a journal which was dropped, or in the run's origin. A time limit begins again."""
        known, loop = self._step().journal, self._loop
        begun = [Path(path) for path in self._timers if (timer := loop.timers.get(path)) is not None and timer.is_sleep]
        for path in begun:
            if path not in known:
                with suppress(Suspension):
                    await self._journal.recall(path, SLEEP, TIMER, TIMER_HASH)
        step = await self._current()
        for path in begun:
            if (op := step.journal.get(path)) is not None and op.status == "done":
                del self._timers[path]
                self._fired(path, op)

    def _late_ms(self) -> int:
        """Return how far the clock is ahead of the loop's time, which stands still while the code runs and while an outcome is
        on its way to it: a timer that it begins now is later by as much."""
        return max(0, self._clock.now_ms() - int(self._loop.now_s * 1000))

    def _unwritten(self) -> tuple[cmd.Timer, ...]:
        """The timers that the store does not know. One that is overdue keeps its place before others that are."""
        known, now_ms = self._step().journal, self._clock.now_ms()
        return tuple(
            cmd.Timer(Path(path), TIMER_HASH, due_ms - now_ms) for path, due_ms in self._timers.items() if path not in known
        )

    async def _write_timers(self) -> None:
        """Have the store know the timers that the flow waits for while something is at work. They were begun a while ago: what
        ends sooner costs no commit. After a crash they would begin again, and the timers of the store would be before them."""
        self._unwritten_since_s = None
        if timers := self._unwritten():
            await self._journal.record(timers=timers)

    def _fired(self, path: str, op: Recorded) -> None:
        self._finish(op.settled, op.settled_ms, place=path)

    def _next_timer_s(self) -> float | None:
        """Return how long it is until the next timer fires; None without one."""
        if not self._timers:
            return None
        return max(0.0, (min(self._timers.values()) - self._clock.now_ms()) / 1000)

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

    async def _withdraw(self, *places: list[Path]) -> None:
        """Take back what operations wait for, each at its places: a question, a signal, a timer, a child. A signal that
        has come for one that only waited for it is kept for another."""
        if not any(places):
            return
        step = await self._current()
        paths = tuple(each for waits in places for path in waits for each in (path, approval_at(path)) if each in step.pending)
        came = [waits[0] for waits in places if len(waits) == 1]
        paths += tuple(path for path in came if (op := step.journal.get(path)) is not None and has_signal(op))
        if paths:
            await self._journal.send(cmd.CallOffOperations(self._journal.step, self._journal.number, paths))

    async def _current(self) -> Step:
        return self._journal.current(await self._attempt.state())

    def _step(self) -> Step:
        """The step as it is in memory, with what may be on its way to the disk."""
        return self._in_memory() or self._journal.before

    def _in_memory(self) -> Step | None:
        """The same; None where the run is not in memory."""
        state = self._attempt.mailbox.state
        return None if state is None else state.step(self._journal.step)
