"""What is asked about runs: their rows, gates and effects, what they wait for, what they have cost.

Never here: answering in words (cli), changing anything but what the answers are counted from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Unpack

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.control.handle import output
from holdfast.control.part import Part
from holdfast.core.costs import Cost
from holdfast.core.ids import RunId, SessionId, StepId
from holdfast.core.projection import EffectChange, EffectRow, GateChange, GateRow, RunRow
from holdfast.core.scopes import Waiting
from holdfast.core.state import State
from holdfast.engine import explaining
from holdfast.engine.explaining import Waits
from holdfast.engine.rollup import count_some
from holdfast.errors import NotFound
from holdfast.ports import MOST_LISTED, Hindered, LogPiece, LogPlace, PlacedStep, Report, RunFilter
from holdfast.scheduling.roster import ANY_YAML


class Inquiries(Part):
    """Answered from what the store says, whatever this process does."""

    async def workers_of(self, workflow: Workflow) -> int:
        """How many living processes can run this very version of `workflow`, those included that take any in YAML if it
        is one."""
        return await self.driver.store.able([workflow.hash, *[ANY_YAML] * workflow.graph.has_scripts])

    async def missing_since_ms(self, row: RunRow) -> int | None:
        """Since when no living process can run the workflow of a run that could go on now; None where one can, or where the
        run needs no code."""
        if row.status != "running":
            return None
        driver = self.driver
        hashes = [row.graph_hash, *[ANY_YAML] * await self._has_scripts(row.graph_hash)]
        if await driver.store.able(hashes):
            return None
        return max(row.due_at_ms or row.updated_at_ms, await driver.store.able_until_ms(hashes) or 0)

    async def _has_scripts(self, graph_hash: str) -> bool:
        """A run whose graph the store does not have is listed all the same."""
        try:
            return (await self.driver.graph_of(graph_hash)).has_scripts
        except NotFound:
            return False

    async def hindered(self, run_id: str) -> Sequence[Hindered]:
        """What living processes say that keeps them from going on with a run."""
        reports = [msgspec.json.decode(each, type=Report) for each in await self.driver.store.described()]
        return [each for report in reports for each in report.hindered if each.run == run_id]

    async def names_of(self, sessions: Collection[SessionId]) -> Mapping[SessionId, str]:
        """What the processes of these sessions are called, `host:pid`, of those that are still remembered."""
        return await self.driver.store.labels(sessions) if sessions else {}

    async def runs(self, **sought: Unpack[RunFilter]) -> Sequence[RunRow]:
        """Runs, newest first."""
        return await self.driver.store.runs(**sought)

    async def job_logs(self, run: RunId) -> Sequence[LogPiece]:
        """What there is of what the run's jobs have printed, as the store keeps it."""
        return await self.driver.store.job_logs(run)

    async def job_log(self, place: LogPlace) -> bytes:
        """What one piece of it says, in UTF-8."""
        return await self.driver.store.job_log(place)

    async def gates(
        self, run_id: str | None = None, *, open_only: bool = True, limit: int = MOST_LISTED
    ) -> Sequence[tuple[GateRow, GateChange | None]]:
        """Gates, oldest first, each with the latest that became of it."""
        return await self.driver.store.gates(run=RunId(run_id) if run_id else None, open_only=open_only, limit=limit)

    async def effects(
        self, run_id: str | None = None, *, state: str | None = None, limit: int = MOST_LISTED
    ) -> Sequence[tuple[EffectRow, EffectChange | None]]:
        """The calls of tools, oldest first, each with the latest that became of it."""
        return await self.driver.store.effects(run=RunId(run_id) if run_id else None, state=state, limit=limit)

    async def output(self, state: State) -> Any:
        """What a completed run returned."""
        return await output(self.driver.payloads, state)

    async def line(self) -> Sequence[PlacedStep]:
        """The steps that wait for a worker or a pool, longest first."""
        return await explaining.line(self.driver.store)

    async def why(self, run_id: str, step: str | None = None) -> Sequence[Waits]:
        """What the steps of a run wait for before they can start, or one of them (`draft#1`). Raises NotFound."""
        row = await self.find(run_id)
        return await explaining.waits_of(self.driver.store, row.run, None if step is None else StepId(step))

    async def waiting(self, scopes: Sequence[str]) -> Sequence[Waiting]:
        """The runs that wait for room in these scopes, longest first."""
        return await self.driver.store.waiting(scopes, MOST_LISTED)

    async def costs(self, first_day: str, last_day: str, *, tenant: str | None = None) -> Sequence[Cost]:
        """What model calls of these days (`2026-11-21`, UTC) cost, as of the last roll-up."""
        return await self.driver.store.costs(first_day, last_day, tenant=tenant)

    async def roll_up_costs(self, within_s: float = float("inf")) -> bool:
        """Bring the roll-up of costs up to date, with all that is known now; False where `within_s` was not enough for
        that, and the next will go on from there. Sweeps do so once a day."""
        store, clock = self.driver.store, self.driver.clock
        until_s = clock.monotonic_s() + within_s
        after = await count_some(store, store.now_ms() + 1, None)
        while after is not None and clock.monotonic_s() < until_s:
            after = await count_some(store, store.now_ms() + 1, after)
        return after is None
