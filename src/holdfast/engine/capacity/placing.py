"""The start of steps that demand something: between this process's runs and the scheduler.

It reports to the scheduler which steps wait and which have ended, and begins those that were placed. All of it is in memory:
what is lost with the process is found again by those who wait in line in the store.

Never here: which step goes where (scheduling), a rule of runs (core), what a connected worker does (wire).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.core.facts.state import State
from holdfast.core.values.ids import RunId, StepId
from holdfast.core.views.status import Wait, may_be_placed
from holdfast.engine.capacity.connected import ConnectedWorkers
from holdfast.engine.capacity.pool_client import PoolClient
from holdfast.engine.runs.observing import NOBODY, Observers
from holdfast.ports import Clock, PlacedStep, StepPlaced, UnplacedRun
from holdfast.scheduling.job import Capacity
from holdfast.scheduling.lane_workers import job_of
from holdfast.scheduling.placement import Scheduler

log = logging.getLogger("holdfast")

HERE: Final = "here"
"""What this process is called as a worker of its own scheduler. No connected worker can have the name."""

Key = tuple[RunId, StepId]

_decode_waits = msgspec.json.Decoder(list[Wait]).decode


def refilled_ms(times_s: Mapping[str, float], now_s: float, now_ms: int) -> dict[str, int]:
    """Return times of a process's clock, at which pools have refilled, as the store's, in whole tenths of a second."""
    return {name: round((now_ms + (at_s - now_s) * 1000) / 100) * 100 for name, at_s in times_s.items()}


class StepPlacement(NamedTuple):
    """The place of a step, and what it was lent of pools."""

    worker: str
    pools: Mapping[str, int]


def unplaced_of(state: State) -> tuple[PlacedStep, ...]:
    """The steps of a run that are to be placed now."""
    if not state.unplaced or not may_be_placed(state):
        return ()
    steps = [state.steps[name] for name in state.unplaced]
    return tuple(
        PlacedStep(state.run, step.id, state.tenant, state.workflow, state.graph_hash, step.demand)
        for step in steps
        if step.demand is not None
    )


def in_line(steps: Iterable[UnplacedRun]) -> list[PlacedStep]:
    """The same of runs as they stand in line in the store."""
    return [
        PlacedStep(each.run, StepId(wait.step), each.tenant, each.workflow, each.graph_hash, wait.demand)
        for each in steps
        for wait in _decode_waits(each.waiting_for)
        if wait.demand is not None and wait.step is not None
    ]


class StepPlacer:
    """The steps of one process's runs that are placed before they start."""

    def __init__(
        self,
        clock: Clock,
        scheduler: Scheduler,
        here: Capacity,
        room: Callable[[], int],
        begin: Callable[[RunId], None],
        pool_client: PoolClient,
        broken: Callable[[BaseException], None],
        observers: Observers = NOBODY,
    ) -> None:
        """`here` is what this process has. `room` returns how many of its slots are free; `begin` looks at a run of which steps
        were placed, and calls `settle` when it has. `pool_client` has what is lent of pools, and `broken` is called about a
        fault of ours: a process that silently places nothing would be worse than none."""
        self.scheduler = scheduler
        self.connected = ConnectedWorkers(scheduler, clock)
        self._clock = clock
        self._here = here
        self._changed = True
        """Whether the scheduler has not heard yet what there is here."""
        self._able: frozenset[str] = frozenset()
        self._room = room
        self._begin = begin
        self._pool_client = pool_client
        self._broken = broken
        self._observers = observers
        self.places = True
        """Whether it places its runs' steps itself. In a fleet with a leader it does not: it is given them."""
        self.serves = False
        """True if workers connect here. No other process knows them, so their tasks are placed here, not by the leader."""
        self._steps: dict[RunId, dict[StepId, PlacedStep]] = {}
        """What waits or was placed, each under its run."""
        self._since_s: dict[RunId, float] = {}
        self._placed: dict[Key, StepPlacement] = {}
        self._begun: set[Key] = set()
        self._doubted: dict[RunId, frozenset[StepId]] = {}
        self._again: dict[Key, PlacedStep] = {}
        """Steps that wait again while their last attempt here is still leaving."""
        self._kept = 0
        self._placing_soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def reserved_slots(self) -> int:
        """Slots of this process that are kept for steps which were placed and have not begun."""
        return self._kept

    def close(self) -> None:
        """Place nothing more."""
        self._closed = True
        for handle in (self._placing_soon, self._timer):
            if handle is not None:
                handle.cancel()

    # --- What there is to place ---------------------------------------------------------------------------------------

    def committed(self, state: State) -> None:
        """A run has gone on: see to it that exactly those of its steps wait that wait for a place."""
        if doubted := self._doubted.pop(state.run, None):
            for step in sorted(self.ready(state.run) & doubted):
                self._drop(state.run, step)  # by now it is known that it has not begun
        known = self._steps.get(state.run)
        if known is None and not state.unplaced:
            return
        waits = {each.step: each for each in unplaced_of(state)}
        for step in [step for step in known or () if step not in waits and (state.run, step) not in self._begun]:
            self._drop(state.run, step)
        self.find(waits.values())

    def find(self, steps: Iterable[PlacedStep]) -> None:
        """Steps that wait for a place, of workflows that this process has."""
        now_s = self._clock.monotonic_s()
        for each in filter(self._is_placed_here, steps):
            if (each.run, each.step) in self._begun:
                self._again[each.run, each.step] = each
                continue
            if each.step in self._steps.get(each.run, ()):
                continue
            known = self._pool_client.resolve_amounts(each, lambda step: self.find([step]))
            if known is not None and self.scheduler.submit(job_of(known), now_s):
                self._steps.setdefault(each.run, {})[each.step] = known
                self._since_s[each.run] = now_s
                self._pool_client.tell_soon()
                self.place_soon()

    def _is_placed_here(self, step: PlacedStep) -> bool:
        return self.places or (self.serves and step.demand.task is not None)  # with connected workers, in the last case

    def forget_others(self, runs: Collection[RunId], since_s: float) -> None:
        """Note that these are all who stood in line in the store at that time: any other that waits here was started
        elsewhere."""
        for run in [run for run, at_s in self._since_s.items() if at_s < since_s and run not in runs]:
            for step in [step for step in self._steps[run] if (run, step) not in self._placed]:
                self._drop(run, step)

    def hand_over(self) -> None:
        """A leader places from now on: what waits here waits there."""
        self.places, self._pool_client.borrows, self._changed = False, self.serves, True
        for each in [each for each in self.waiting() if not self._is_placed_here(each)]:
            self._drop(each.run, each.step)

    def take_over(self) -> None:
        """No leader places any more."""
        self.places = self._pool_client.borrows = self._changed = True

    def accept(self, steps: Iterable[PlacedStep]) -> None:
        """These were placed here by a leader."""
        now_s = self._clock.monotonic_s()
        for each in steps:
            if each.step in self._steps.get(each.run, ()) and (each.run, each.step) not in self._placed:
                self._drop(each.run, each.step)  # it waited for a connected worker
            if each.step not in self._steps.get(each.run, ()):
                self.scheduler.charge((each.run, each.step), job_of(each), HERE)
                self._steps.setdefault(each.run, {})[each.step] = each
                self._since_s[each.run] = now_s
                self._keep_place(each.run, each.step, StepPlacement(HERE, _amounts(each)))

    def held(self) -> tuple[PlacedStep, ...]:
        """The steps that were placed here and are not over."""
        return tuple(self._steps[run][step] for run, step in self._placed)

    def _drop(self, run: RunId, step: StepId) -> None:
        """The step waits no more; what it was lent comes back."""
        self.scheduler.cancel((run, step))
        self._leave(run, step)

    def _leave(self, run: RunId, step: StepId) -> None:
        steps = self._steps[run]
        del steps[step]
        if not steps:
            del self._steps[run], self._since_s[run]
        placed = self._placed.pop((run, step), None)
        if placed is not None and placed.worker == HERE and (run, step) not in self._begun:
            self._kept -= 1
        self._begun.discard((run, step))
        self._pool_client.tell_soon()
        self.place_soon()

    # --- Who there is to do it ----------------------------------------------------------------------------------------

    def able(self, here: Collection[str], scripts: Collection[str]) -> None:
        """Set what this process can run from now on, and the workflows whose scripts any worker with a shell can run."""
        self._able, self._changed = frozenset(here), True
        self.connected.run_scripts_of(scripts)
        self.place_soon()

    def join(self, capacity: Capacity) -> None:
        """A connected worker can be given steps, or has something else to give than before."""
        self.connected.join(capacity)
        self.place_soon()

    def leave(self, worker: str) -> None:
        """Note that a connected worker is gone. The performer of its steps notifies their attempts."""
        for job in self.connected.leave(worker):
            run, step = RunId(job.key[0]), StepId(job.key[1])
            if (run, step) not in self._begun:
                self._leave(run, step)  # it stands in line in the store
        self.place_soon()

    # --- Placing ------------------------------------------------------------------------------------------------------

    def place_soon(self) -> None:
        """Something has come, or become free: place what can be placed, after this turn of the loop."""
        if self._placing_soon is None and not self._closed and self._steps:
            self._placing_soon = asyncio.get_running_loop().call_soon(self._place_all)

    def is_about_to_place(self, run: RunId) -> bool:
        """True if a step of the run may be placed after this turn of the loop."""
        return self._placing_soon is not None and not self._closed and run in self._steps

    def _place_all(self) -> None:
        self._placing_soon = None
        try:
            self.place(self._room())
        except Exception as problem:
            log.exception("holdfast can no longer place steps")
            self._broken(problem)
            raise

    def place_at_once(self, state: State, room: int) -> frozenset[StepId]:
        """Place what can be placed now, and return the steps of this run that have a place. The caller begins them. `state` is
        not durable yet: what it has started keeps its place until that is known."""
        self.find(unplaced_of(state))
        self.place(room, but=state.run)
        return self.ready(state.run)

    def place(self, room: int, but: RunId | None = None) -> None:
        """Place what can be placed now, with so many free slots of this process; begin it, unless it is of the run `but`."""
        if self._closed or not self._steps:
            return
        now_s = self._clock.monotonic_s()
        used = sum(placed.worker == HERE for placed in self._placed.values())
        busy = max(0, self._here.slots - used - room)
        if busy != self._here.busy or self._changed:
            able = self._able if self.places else frozenset()  # where a leader places, it places here too
            self._here, self._changed = msgspec.structs.replace(self._here, able=able, busy=busy), False
            self.scheduler.join(self._here, now_s)
        runs: dict[RunId, None] = {}
        placed = self.scheduler.place(now_s)
        if placed:
            self._pool_client.placed()
        for each in placed:
            run, step = RunId(each.job.key[0]), StepId(each.job.key[1])
            self._keep_place(run, step, StepPlacement(each.worker, each.pools))
            runs[run] = None
        for run in runs:
            if run != but:
                self._begin(run)
        self._pool_client.tell_soon()
        self._look_again(now_s)

    def _keep_place(self, run: RunId, step: StepId, placed: StepPlacement) -> None:
        self._placed[run, step] = placed
        self._kept += placed.worker == HERE
        if self._observers:
            worker = None if placed.worker == HERE else placed.worker
            self._observers.notify(StepPlaced(run, step, worker, placed.pools))

    def _look_again(self, now_s: float) -> None:
        """Wake when a pool will have refilled; everything else is announced."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_s = self.scheduler.next_s
        if next_s is not None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, next_s - now_s), self.place_soon)

    def ready(self, run: RunId) -> frozenset[StepId]:
        """The steps of a run that were placed and have not begun."""
        known = self._steps.get(run)
        if known is None:
            return frozenset()
        return frozenset(step for step in known if (run, step) in self._placed and (run, step) not in self._begun)

    def begun(self, run: RunId, step: StepId) -> StepPlacement | None:
        """An attempt of the step begins: where it was placed, if it had to be."""
        placed = self._placed.get((run, step))
        if placed is not None and (run, step) not in self._begun:
            self._begun.add((run, step))
            self._kept -= placed.worker == HERE
        return placed

    def ended(self, run: RunId, step: StepId) -> None:
        """The attempt is over; what it had is free."""
        if (run, step) not in self._begun:
            return
        self.scheduler.finish((run, step), self._clock.monotonic_s())
        self._leave(run, step)
        again = self._again.pop((run, step), None)
        if again is not None:
            self.find([again])

    def settle(self, run: RunId, steps: Collection[StepId]) -> None:
        """These were to start when the run was looked at: what has not begun by now could not. It stands in line in the
        store, and is found."""
        for step in sorted(self.ready(run) & frozenset(steps) - self._doubted.get(run, frozenset())):
            self._drop(run, step)

    def doubt(self, run: RunId, steps: Iterable[StepId]) -> None:
        """Note that it is unknown here whether these have started: they keep their places until the run is heard of."""
        self._doubted[run] = self._doubted.get(run, frozenset()) | frozenset(steps)

    def lose(self) -> None:
        """This process's session is dead: nothing that was to start here does."""
        self._doubted.clear()
        for run in list(self._steps):
            for step in self.ready(run):
                self._drop(run, step)

    # --- Asking -------------------------------------------------------------------------------------------------------

    def hopeful(self) -> bool:
        """True if a step waits here that may get a place once others have ended."""
        return self._pool_client.is_asking or any(self._may_be_placed(each) for each in self.waiting())

    def may_place(self, state: State) -> bool:
        """The same of one run, of which counts what has its place and is about to begin."""
        return any(self._may_be_placed(each) for each in unplaced_of(state))

    def _may_be_placed(self, step: PlacedStep) -> bool:
        """True if the step may ever be placed, as far as is known here; so may one that was not looked at yet."""
        key = (step.run, step.step)
        known = self._steps.get(step.run, {}).get(step.step)
        if known is None or key in self._placed or self._placing_soon is not None:
            return True
        return self.scheduler.has_worker(key) and self._pool_client.may_have(known, self._since_s[step.run])

    def waiting(self) -> Sequence[PlacedStep]:
        """Return the steps that wait here for a place."""
        return [each for run, steps in self._steps.items() for step, each in steps.items() if (run, step) not in self._placed]


def _amounts(step: PlacedStep) -> dict[str, int]:
    return {pool: amount for pool, amount in step.demand.pools.items() if amount is not None}
