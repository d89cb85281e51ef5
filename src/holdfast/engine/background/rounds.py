"""Rounds of looking in the store, for work beside the runs that are due: by the leader of a lane, or by each process without
one.

Never here: what is found (engine.background), which process looks.
"""

from __future__ import annotations

from holdfast.engine.background.doubt import DoubtRule, Doubts
from holdfast.engine.background.follow_ups import FollowUps
from holdfast.engine.background.rollup import RegularCount
from holdfast.engine.background.schedule_runner import ScheduleRunner
from holdfast.engine.runs.runtime import Runtime


class Rounds:
    """The rounds of one process."""

    def __init__(self, runtime: Runtime, follow_ups: FollowUps, doubts: DoubtRule | None) -> None:
        store = runtime.store
        self._follow_ups = follow_ups
        self._firing = ScheduleRunner(runtime)
        self._costs = RegularCount(store, runtime.clock)
        self._doubts = Doubts(runtime, doubts)

    async def turn(self, *, died: bool) -> None:
        """Look for all of it. `died`: a process is seen to have died, and may have left something undone. Raises StoreError."""
        await self._follow_ups.turn(died=died)
        await self._firing.turn()
        await self._costs.turn()
        await self._doubts.turn()
