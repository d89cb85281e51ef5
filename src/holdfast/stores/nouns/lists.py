"""Lists of runs, of gates and of tool calls, and the labels of runs.

A list is selected by criteria, each a condition in `sql/conditions.sql`. Never here: a condition, the sweep's questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Unpack

from holdfast.core.nouns.labels import BEFORE_ALL_COUNTS, FIRST_KEY, LAST_KEY, CountKey, LabelCount, Pair
from holdfast.core.values.ids import CallId, GateId, RunId, run_of
from holdfast.core.views.projection import EffectChange, EffectRow, GateChange, GateRow, RunRow
from holdfast.core.views.sealing import Sealing
from holdfast.core.views.selection import GateOrder
from holdfast.ports import MAX_LABELLED, MAX_LISTED, EffectFilter, GateFilter, RunFilter
from holdfast.stores.archive import no_line
from holdfast.stores.archive_store import ArchiveStore
from holdfast.stores.nouns.tables import Tables
from holdfast.stores.row import Row, effect_of, gate_of, is_run, no_gate, runs_from

_RUNS: Final = ("before", "parent", "root")
"""Criteria that name a run."""
_GATES_BY: Final[Mapping[GateOrder, str]] = {"opened": "order", "due": "order_due", "closed": "order_closed"}
_AFTER_GATE: Final[Mapping[GateOrder, str]] = {"opened": "after", "due": "after_due", "closed": "after_closed"}
"""The criterion of a gate's place in each order."""


async def listed(tables: Tables, name: str, criteria: Mapping[str, Any], limit: int, order: str = "order") -> Sequence[Row]:
    """Return rows of the named list, in its order or another of its orders. A criterion without a value is not asked, so that
    each list finds the index made for it; a tuple is as many values as its condition has."""
    asked: list[Any] = []
    words: list[str] = []
    for criterion, value in criteria.items():
        if value is not None:
            values = value if isinstance(value, tuple) else (value,)
            condition = tables.text(f"{name}_{criterion}")
            words.append(condition.format(*(f"${len(asked) + place}" for place in range(1, len(values) + 1))))
            asked += values
    where = f"where {' and '.join(words)} " if words else ""
    ordered = f"order by {tables.text(f'{name}_{order}')} limit ${len(asked) + 1}"
    return await tables.look(f"{tables.text(name)} {where}{ordered}", [*asked, limit])


class Lists:
    """Keeps what ports.Views promises of lists, for the views of a database."""

    _tables: Tables
    _sealing: Sealing
    _shelf: ArchiveStore

    async def run(self, run: RunId) -> RunRow | None:
        found = await listed(self._tables, "runs", {"run": run}, 1) if is_run(run) else ()
        return RunRow(*found[0]) if found else None

    async def runs(self, **filters: Unpack[RunFilter]) -> Sequence[RunRow]:
        limit = filters.pop("limit", MAX_LISTED)
        criteria = _criteria(filters)
        return [] if criteria is None else [RunRow(*row) for row in await listed(self._tables, "runs", criteria, limit)]

    async def labels(self, runs: Sequence[RunId]) -> Mapping[RunId, Sequence[Pair]]:
        found: dict[RunId, list[Pair]] = {}
        for run, *pair in await self._tables.ask("labels", [run for run in runs if is_run(run)]):
            found.setdefault(RunId(run), []).append((pair[0], pair[1]))
        return found

    async def label_counts(
        self,
        *,
        key: str | None = None,
        tenant: str | None = None,
        workflow: str | None = None,
        after: CountKey = BEFORE_ALL_COUNTS,
        limit: int = MAX_LISTED,
        newest: int = MAX_LABELLED,
    ) -> Sequence[LabelCount]:
        after = max(after, (FIRST_KEY if key is None else key, "", "", ""))
        last = LAST_KEY if key is None else key
        found = await self._tables.ask("label_counts", last, tenant, workflow, *after, limit, newest)
        return [LabelCount(*row) for row in found]

    async def gates(
        self, *, run: RunId | None = None, **filters: Unpack[GateFilter]
    ) -> Sequence[tuple[GateRow, GateChange | None]]:
        if run is not None and not is_run(run):
            return []
        order = filters.get("order", "opened")
        after = filters.get("after")
        is_below = run is not None and filters.get("below", False)
        criteria = {
            "run": None if is_below else run,
            "below": (run, run) if is_below else None,
            "tenant": filters.get("tenant"),
            "open": () if order != "closed" and filters.get("open_only", True) else None,
            "closed": () if order == "closed" else None,
            "risk_levels": list(filters.get("risk_levels", ())) or None,
            _AFTER_GATE[order]: after,
        }
        found = await listed(self._tables, "gates", criteria, filters.get("limit", MAX_LISTED), _GATES_BY[order])
        if not found and after is not None and not await listed(self._tables, "gates", {"gate": after}, 1):
            raise no_gate(GateId(after))
        return [gate_of(row, self._sealing) for row in found]

    async def effects(
        self, *, run: RunId | None = None, **filters: Unpack[EffectFilter]
    ) -> Sequence[tuple[EffectRow, EffectChange | None]]:
        if run is not None and not is_run(run):
            return []
        state, limit = filters.get("state"), filters.get("limit", MAX_LISTED)
        after = None if (call := filters.get("after")) is None else CallId(call)
        place = None if after is None else (run_of(after), after)
        criteria = {"run": run, "tenant": filters.get("tenant"), "state": state, "after": place}
        found = await self._lines(criteria, place, limit)
        if not found and run is not None and (archive := await self._shelf.archive(run)) is not None:
            found = archive.ledger(state, after, limit)
        elif not found and after is not None and not await self._lines({"call": place}, place, 1):
            raise no_line(after)
        return [effect_of(row, self._sealing) for row in found]

    async def _lines(self, criteria: Mapping[str, Any], place: tuple[RunId, CallId] | None, limit: int) -> Sequence[Row]:
        """Lines of the ledger; none for a `place` that no run's can be."""
        return () if place is not None and not is_run(place[0]) else await listed(self._tables, "effects", criteria, limit)


def _criteria(selection: RunFilter) -> dict[str, Any] | None:
    """Return what is asked, by the names of conditions; None where it can be of no run."""
    found: dict[str, Any] = {**selection, "in_doubt": () if selection.get("in_doubt") else None, "waiting_for": None}
    if any(found.get(name) is not None and not is_run(found[name]) for name in _RUNS):
        return None
    if (ids := selection.get("ids")) is not None:
        found["ids"] = [run for run in ids if is_run(RunId(run))]
    if (prefix := selection.get("prefix")) is not None:
        found["prefix"] = runs_from(prefix)
        if not is_run(found["prefix"][0]):
            return None
    if not isinstance(status := selection.get("status"), str | None):
        found |= {"status": None, "statuses": list(status)}
    if kinds := selection.get("waiting_for"):  # a quote within a text has a backslash before it: this is no part of one
        found["waiting_for"] = [f'"kind":"{kind}"' for kind in kinds]
    if labels := found.pop("labels", None):
        rest = {f"{key}={value}" for key, value in labels[1:]}
        found |= {"label": tuple(labels[0]), "labels": (sorted(rest), len(rest)) if rest else None}
    return found
