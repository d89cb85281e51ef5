"""The rows beside the history, as the sweep and people's lists ask for them.

Never here: a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Unpack

from holdfast.core.rules.questions import WORKFLOW_MISSING
from holdfast.core.values.ids import CallId, GateId, RunId, SessionId, run_of
from holdfast.core.values.scopes import PLACEMENT
from holdfast.core.views.projection import EffectChange, EffectRow, GateChange, GateRow, RunRow
from holdfast.ports import MOST_LISTED, DueRun, RunFilter, Unplaced
from holdfast.stores.archive import no_line
from holdfast.stores.nouns.figures import Labels
from holdfast.stores.postgres.context import StoreContext, StorePort, runs_from
from holdfast.stores.row import effect_of, encode, gate_of, is_run, no_gate
from holdfast.stores.shelf import Shelf

_OPEN_GATES: Final = "state in ('open', 'escalated')"


class Views(Labels, StorePort):
    """Keeps ports.Views."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._shelf = Shelf(context.ground)

    async def due(self, now_ms: int, hashes: Sequence[str], limit: int) -> Sequence[DueRun]:
        return [_due(row) for row in await self._db.fetch(self._sql["due_runs"], list(hashes), now_ms, limit)]

    async def stranded(self, before_ms: int, limit: int) -> Sequence[DueRun]:
        rows = await self._db.fetch(self._sql["stranded_runs"], before_ms, limit, WORKFLOW_MISSING, PLACEMENT)
        return [_due(row) for row in rows]

    async def unplaced(self, after: int, limit: int) -> Sequence[Unplaced]:
        return [Unplaced(*row) for row in await self._db.fetch(self._sql["unplaced"], PLACEMENT, after, limit)]

    async def wanted_hashes(self, before_ms: int) -> Sequence[str]:
        return [row[0] for row in await self._db.fetch(self._sql["wanted_hashes"], before_ms, PLACEMENT)]

    async def next_due_ms(self, hashes: Sequence[str]) -> int | None:
        found: int | None = await self._db.value(self._sql["next_due_ms"], list(hashes))
        return found

    async def unended(self, hashes: Sequence[str]) -> int:
        found: int = await self._db.value(self._sql["unended"], list(hashes))
        return found

    async def run(self, run: RunId) -> RunRow | None:
        found = await self._list("runs", {"run =": run}, "", 1) if is_run(run) else []
        return RunRow(*found[0]) if found else None

    async def runs(self, **sought: Unpack[RunFilter]) -> Sequence[RunRow]:
        status, prefix, before = sought.get("status"), sought.get("prefix"), sought.get("before")
        first, last = (None, None) if prefix is None else runs_from(prefix)
        parent, root = sought.get("parent"), sought.get("root")
        if any(each is not None and not is_run(each) for each in (before, parent, root)) or (
            prefix is not None and first is None
        ):
            return []
        conditions: dict[str, Any] = {
            "runs.run >=": first,
            "runs.run <=": last,
            "runs.run <": before,
            "tenant =": sought.get("tenant"),
            "workflow =": sought.get("workflow"),
            "start_key =": sought.get("key"),
            "started_at_ms >=": sought.get("since_ms"),
            "started_at_ms <": sought.get("until_ms"),
            self._sql["child_of"]: parent,
            self._sql["below"]: root,
            self._sql["named_like"]: sought.get("text"),
            "settled_nanousd >=": sought.get("cost_from_nanousd"),
            "settled_nanousd <=": sought.get("cost_to_nanousd"),
        }
        if labels := sought.get("labels"):
            rest = encode(labels[1:]).decode() if labels[1:] else None
            conditions |= {self._sql["labelled"]: list(labels[0]), self._sql["labelled_with_all"]: rest}
        if sought.get("in_doubt"):
            conditions["in_doubt_nanousd >"] = 0
        conditions |= {"status =": status} if isinstance(status, str) else {"status = any": status and list(status)}
        limit = sought.get("limit", MOST_LISTED)
        return [RunRow(*row) for row in await self._list("runs", conditions, "order by runs.run desc", limit)]

    async def gates(
        self,
        *,
        run: RunId | None = None,
        tenant: str | None = None,
        open_only: bool = True,
        risk_levels: Sequence[str] = (),
        after: GateId | None = None,
        limit: int = MOST_LISTED,
    ) -> Sequence[tuple[GateRow, GateChange | None]]:
        if run is not None and not is_run(run):
            return []
        place = None if after is None else await self._db.value(self._sql["gate_place"], after)
        if after is not None and place is None:
            raise no_gate(after)
        conditions = {
            "run =": run,
            self._sql["gate_tenant"]: tenant,
            "place >": place,
            "risk_level = any": list(risk_levels) or None,
        }
        always = (_OPEN_GATES,) if open_only else ()
        return [gate_of(row, self._sealing) for row in await self._list("gates", conditions, "order by place", limit, always)]

    async def effects(
        self,
        *,
        run: RunId | None = None,
        tenant: str | None = None,
        state: str | None = None,
        after: CallId | None = None,
        limit: int = MOST_LISTED,
    ) -> Sequence[tuple[EffectRow, EffectChange | None]]:
        if run is not None and not is_run(run):
            return []
        place = None if after is None else await self._place(after)
        conditions = {"run =": run, self._sql["effect_tenant"]: tenant, "state =": state, "place >": place}
        rows = []
        if after is None or place is not None:
            rows = await self._list("effects", conditions, "order by place", limit)
        if not rows and run is not None and (archive := await self._shelf.archive(run)) is not None:
            rows = archive.ledger(state, after, limit)
        elif after is not None and place is None:
            raise no_line(after)
        return [effect_of(row, self._sealing) for row in rows]

    async def _place(self, call: CallId) -> int | None:
        """Return the place of a call in the ledger, as long as its month is here."""
        run = run_of(call)
        place: int | None = await self._db.value(self._sql["effect_place"], run, call) if is_run(run) else None
        return place

    async def _list(
        self, name: str, conditions: Mapping[str, Any], order: str, limit: int, always: Iterable[str] = ()
    ) -> list[tuple[Any, ...]]:
        """Rows of a list. A condition without a value is not asked, so that each list finds the index made for it."""
        asked = {condition: value for condition, value in conditions.items() if value is not None}
        words = [
            condition.replace("{}", f"${number}") if "{}" in condition else f"{condition} (${number})"
            for number, condition in enumerate(asked, 1)
        ]
        where = " and ".join([*words, *always])
        statement = f"{self._sql[name]} {'where ' + where if where else ''} {order} limit ${len(asked) + 1}"
        return [tuple(row) for row in await self._db.fetch(statement, *asked.values(), limit)]


def _due(row: Any) -> DueRun:
    run, graph_hash, due_at_ms, tenant, started_by, dead = row
    lost = frozenset(SessionId(session) for session in dead)
    return DueRun(RunId(run), graph_hash, due_at_ms, tenant, started_by, lost)
