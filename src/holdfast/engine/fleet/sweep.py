"""Finds the runs that must go on without a request: what is due, lost, ready, or changed elsewhere.

It sends each the same command, Tick; two sweeps meet in the append. It makes every queue a hint. Never here: deciding what a
tick finds.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from typing import Final, Protocol
from zlib import crc32

from holdfast.core.facts.commands import Tick
from holdfast.core.nouns.model_estimates import FORGOTTEN_MS
from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import with_headroom
from holdfast.engine.background.rounds import Rounds
from holdfast.engine.background.stuck import StuckRuns
from holdfast.engine.background.workflow_loader import WorkflowLoader
from holdfast.engine.capacity.placing import in_line
from holdfast.engine.capacity.stored_line import StoredLine
from holdfast.engine.runs.background_loop import BackgroundLoop, Outage
from holdfast.engine.steps.executor import Executor
from holdfast.errors import StoreError, StoreGone
from holdfast.ports import RESOLVED_FOR_MS, DueRun

log = logging.getLogger("holdfast")

LONGEST_PAUSE_S: Final = 0.2
"""The store tells of other processes' commits, but only when it is asked."""
SHORTEST_PAUSE_S: Final = 0.01
MAX_RUNS: Final = 500
"""One turn; the rest is found by the next."""
FEWEST_RUNS: Final = 50
"""Of one turn that finds more than there is room for: timers and deadlines need no slot."""
_AWAY_S: Final = 1.0
_STRANDED_LOOK_S: Final = 1.0
"""How often to look for runs of others whose workflow is gone: a grace period is much longer than that."""
_ADOPT_EVERY_S: Final = 0.5
"""How often to look for runs of workflows that are still to be learned."""
_PATIENCE_S: Final = 3.0
"""How long a worker of a lane that is led leaves to the leader what it could find by itself."""
_LED_LOOK_S: Final = 1.0
_DESCRIBED_EVERY_S: Final = 1.0
_DAY_MS: Final = 24 * 3600 * 1000
_MAINTAIN_EVERY_S: Final = 3600.0
"""How often to do what the store needs done now and then."""


class Lane(Protocol):
    """A lane whose leader makes this process's sweep a patient one."""

    async def is_led(self) -> bool: ...


class Sweep:
    """The watch of one process over the store."""

    def __init__(
        self,
        executor: Executor,
        *,
        workflow_grace_s: float,
        lane: Lane | None = None,
        adoption: WorkflowLoader | None = None,
        rounds: Rounds | None = None,
        conversations_days: int | None = None,
    ) -> None:
        """`workflow_grace_s` is how long a run is left alone whose workflow no living process can run. `lane`, where
        there is one, may have a leader that finds everything first, and makes the `rounds`. `adoption` learns workflows from
        the store. With `conversations_days` conversations are forgotten that had no message for so long."""
        self._executor = executor
        self._runtime = runtime = executor.services.runtime
        self._workflow_grace_ms = math.ceil(workflow_grace_s * 1000)
        self._looked_for_stranded_s = -math.inf
        self._lane = lane
        self._adoption = adoption
        self._adopted_s = -math.inf
        self._is_led = False
        self._asked_lane_s = -math.inf
        self._seen_dead_s: dict[RunId, float] = {}
        self._maintained_s = -math.inf
        self._line = StoredLine(runtime.store.views, runtime.clock, runtime.catalog.is_here)
        self._stuck = StuckRuns(runtime.store.views, runtime.clock)
        self._described_s = -math.inf
        self._rounds = rounds
        self._conversations_days = conversations_days
        self._missed = False
        """The store tells of a commit once: what it told before a look that failed may not have been looked at."""
        self._loop = BackgroundLoop(
            "holdfast-sweep",
            self._look,
            runtime.clock,
            runtime.membership.give_up,
            fault="holdfast can no longer watch its store",
            outage=Outage("holdfast cannot look into the store and tries again: %s", _AWAY_S),
        )
        self._looked_s = runtime.clock.monotonic_s()
        self._all_wait_here = False
        """Whether all that was due waits for a slot of this process already: it is fed when one is free."""

    @property
    def age_s(self) -> float:
        """Return the time since it last finished a turn."""
        return self._runtime.clock.monotonic_s() - self._looked_s

    @property
    def is_led(self) -> bool:
        """True while the lane's leader does what one process of a store does for all."""
        return self._is_led

    def start(self) -> None:
        self._loop.start()

    async def aclose(self) -> None:
        await self._loop.aclose()

    async def turn(self) -> int:
        """Send a tick to every run that is due now; how many they were."""
        executor, runtime = self._executor, self._runtime
        store = runtime.store
        await runtime.membership.hold()
        if runtime.membership.session is None:
            return 0
        dead = await store.sessions.expire()
        await self._adopt()
        await self._find_unplaced()
        await self._describe()
        hashes = runtime.catalog.hashes
        patience_ms = await self._patience_ms()
        due = await store.views.due(store.clock.now_ms() - patience_ms, hashes, MAX_RUNS)
        mine = [
            each
            for each in due
            if each.run not in runtime.runs.damaged
            and (each.dead or not executor.wants(each.run))
            and runtime.catalog.is_here(each)
        ]
        if patience_ms:
            mine = self._overdue(mine)
        mine = self._share(mine)
        self._all_wait_here = bool(due) and not mine
        waiting = {} if patience_ms else with_headroom(await store.scopes.headroom(MAX_RUNS))
        stuck = [] if self._is_led else await self._stuck.look()
        # From here to the gather nothing is awaited: a look that fails would lose ticks and commits of unknown outcome.
        tick, damaged = runtime.runs.tick, runtime.runs.damaged
        ticks = [tick(each.run, Tick(each.dead, headroom=waiting.pop(each.run, frozenset()))) for each in mine]
        ticks += [tick(run, Tick(headroom=scopes)) for run, scopes in waiting.items() if run not in damaged]
        ticks += [self._tick_again(run) for run in runtime.runs.take_unknown_commits()]
        ticks += [tick(row.run, Tick()) for row in stuck if runtime.catalog.is_here(row)]
        await asyncio.gather(*ticks)
        await self._look_for_stranded()
        await self._maintain()
        if self._rounds is not None and not self._is_led:  # else they are the leader's
            await self._rounds.turn(died=bool(dead))
        self._looked_s = runtime.clock.monotonic_s()
        return len(mine)

    async def _adopt(self) -> None:
        now_s = self._runtime.clock.monotonic_s()
        if self._adoption is not None and now_s - self._adopted_s >= _ADOPT_EVERY_S:
            self._adopted_s = now_s
            await self._adoption.turn(self._runtime.store.clock.now_ms())

    async def _find_unplaced(self) -> None:
        """Have those placed that stand in line in the store, and no others."""
        placing = self._executor.placing
        if self._is_led:
            placing.hand_over()
            if not placing.serves:
                return
        else:
            placing.take_over()
        found = await self._line.look()
        placing.find(in_line(found.runs))
        if found.all_since_s is not None:
            placing.forget_others(found.everybody, found.all_since_s)

    async def _describe(self) -> None:
        """Have the session say what there is here, and which steps are placed with it, for those who ask why others wait."""
        now_s = self._runtime.clock.monotonic_s()
        if now_s - self._described_s >= _DESCRIBED_EVERY_S and await self._runtime.membership.describe():
            self._described_s = now_s

    async def _patience_ms(self) -> int:
        if self._lane is None:
            return 0
        now_s = self._runtime.clock.monotonic_s()
        if now_s - self._asked_lane_s >= _LED_LOOK_S:
            self._is_led, self._asked_lane_s = await self._lane.is_led(), now_s
        return int(_PATIENCE_S * 1000) if self._is_led else 0

    def _overdue(self, due: Sequence[DueRun]) -> list[DueRun]:
        """Without the runs of the dead that the leader has had no time to find."""
        now_s = self._runtime.clock.monotonic_s()
        self._seen_dead_s = {each.run: self._seen_dead_s.get(each.run, now_s) for each in due if each.dead}
        return [each for each in due if now_s - self._seen_dead_s.get(each.run, -math.inf) >= _PATIENCE_S]

    async def _maintain(self) -> None:
        """Maintain the store. One that cannot be maintained (its user may make no tables, say) works on; its administrator gets
        a message."""
        now_s = self._runtime.clock.monotonic_s()
        if now_s - self._maintained_s < _MAINTAIN_EVERY_S:
            return
        self._maintained_s = now_s
        try:
            await self._runtime.store.upkeep.maintain()
            now_ms = self._runtime.store.clock.now_ms()
            await self._runtime.store.dead_letters.forget(now_ms - RESOLVED_FOR_MS)
            await self._runtime.store.model_estimates.forget(now_ms - FORGOTTEN_MS)
            await self._forget_conversations()
        except StoreGone:
            raise  # the process ends for it, and says so
        except StoreError as problem:
            log.warning("holdfast could not look after its store, and tries again in an hour: %s", problem)

    async def _forget_conversations(self) -> None:
        """Forget conversations that have been idle for long; as many as one look finds."""
        if self._conversations_days is None:
            return
        conversations, now_ms = self._runtime.store.conversations, self._runtime.store.clock.now_ms()
        for each in await conversations.idle(now_ms - self._conversations_days * _DAY_MS, MAX_RUNS):
            await conversations.remove(each)  # else a message has come meanwhile

    def _share(self, due: list[DueRun]) -> list[DueRun]:
        """As many as there is room for, where more are due: in an order of this process's own, so that others who find
        the same runs at the same moment begin with other ones."""
        executor, runtime = self._executor, self._runtime
        if len(due) <= executor.room:
            return due
        own = crc32((runtime.membership.session or "").encode())
        ordered = sorted(due, key=lambda each: crc32(each.run.encode(), own))
        return ordered[: max(executor.room, FEWEST_RUNS)]

    async def _look_for_stranded(self) -> None:
        """Find the runs that no process will go on with, of any process, and have a person asked about each."""
        runtime = self._runtime
        now_s = runtime.clock.monotonic_s()
        if now_s - self._looked_for_stranded_s < _STRANDED_LOOK_S:
            return
        self._looked_for_stranded_s = now_s
        found = await runtime.store.views.stranded(runtime.store.clock.now_ms() - self._workflow_grace_ms, MAX_RUNS)
        loaded = runtime.catalog.loaded
        ticks = [runtime.runs.tick(each.run, Tick(each.dead, loaded)) for each in found if each.run not in runtime.runs.damaged]
        await asyncio.gather(*ticks)

    async def _tick_again(self, run: RunId) -> bool:
        """Decide a run that may have gone on without news here: its step may have started here."""
        try:
            return await self._runtime.runs.tick(run, Tick())
        except StoreError:
            self._runtime.runs.unknown_commit(run)
            raise

    async def _look(self) -> float | None:
        """Take a turn, and rest until there may be more to find."""
        runtime = self._runtime
        if runtime.membership.broken is not None:
            return None
        missed, self._missed = self._missed, True
        found = await self.turn()
        pause_s = SHORTEST_PAUSE_S if found >= FEWEST_RUNS else await self._pause_s()
        if self._is_led:  # who commits elsewhere says so over the queue; this is for what is lost there
            await runtime.clock.sleep(_LED_LOOK_S)
            pause_s = 0.0
        if await runtime.store.watch.changed(pause_s) or missed:
            await self._refresh()
        self._missed = False
        return 0.0

    async def _pause_s(self) -> float:
        runtime = self._runtime
        due_ms = (
            await runtime.store.views.next_due_ms(runtime.catalog.hashes) if runtime.membership.session is not None else None
        )
        if due_ms is None or self._all_wait_here:
            return LONGEST_PAUSE_S
        until_s = (due_ms - runtime.store.clock.now_ms()) / 1000
        return min(max(until_s, SHORTEST_PAUSE_S), LONGEST_PAUSE_S)

    async def _refresh(self) -> None:
        """Another process has committed: bring the runs in memory up to date, and tell those who wait for others."""
        runtime = self._runtime
        resident = dict(runtime.runs.resident)
        runs = list(dict.fromkeys([*resident, *runtime.runs.watched(at_end=False)]))
        now = await runtime.store.log.seqs(runs) if runs else {}
        behind = [run for run, seq in resident.items() if now.get(run, seq) > seq]
        await asyncio.gather(*(runtime.runs.tick(run, Tick()) for run in behind))
        awaited = runtime.runs.watched(at_end=True)
        ended = await runtime.store.log.seqs(awaited, ended=True) if awaited else {}
        runtime.runs.notify({**now, **ended})
