"""The rows beside the history, as the sweep and people's lists ask for them.

Never here: a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Unpack

import apsw
import msgspec

from holdfast.core.rules.questions import WORKFLOW_MISSING
from holdfast.core.values.ids import CallId, GateId, RunId, SessionId
from holdfast.core.values.scopes import PLACEMENT
from holdfast.core.views.projection import EffectChange, EffectRow, GateChange, GateRow, RunRow
from holdfast.ports import MOST_LISTED, DueRun, RunFilter, Unplaced
from holdfast.stores.archive import no_line
from holdfast.stores.nouns.figures import Labels
from holdfast.stores.row import effect_of, encode, gate_of, no_gate
from holdfast.stores.shelf import Shelf
from holdfast.stores.sqlite.context import SQL, StoreContext, StorePort, rows, value

_Waiting = tuple[RunId, str, int | None, str, str | None, int, frozenset[SessionId]]
_decode_waiting = msgspec.json.Decoder(list[_Waiting]).decode

_OPEN_GATES: Final = "state in ('open', 'escalated')"
_LABELLED: Final = """run in (
    select run from (select ? as pair) as asked join run_labels on key = asked.pair ->> 0 and value = asked.pair ->> 1
)"""
_LABELLED_WITH_ALL: Final = """not exists (
    select 1 from json_each(?) as asked
    where not exists (
        select 1 from run_labels
        where run_labels.run = runs.run and run_labels.key = asked.value ->> 0 and run_labels.value = asked.value ->> 1
    )
)"""
_NAMED_LIKE: Final = """0 < instr(lower(concat_ws(
    char(10), workflow, start_key, started_by,
    (select group_concat(value, char(10)) from run_labels where run_labels.run = runs.run)
)), lower(?))"""
_AFTER_ANY: Final = "\U0010ffff"
"""Comes after whatever may follow a beginning."""


class Views(Labels, StorePort):
    """Keeps ports.Views."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._shelf = Shelf(context.ground)

    async def due(self, now_ms: int, hashes: Sequence[str], limit: int) -> Sequence[DueRun]:
        return await self._reader.ask(lambda db: _due(db, now_ms, hashes, limit))

    async def stranded(self, before_ms: int, limit: int) -> Sequence[DueRun]:
        return await self._reader.ask(lambda db: _stranded(db, before_ms, limit))

    async def unplaced(self, after: int, limit: int) -> Sequence[Unplaced]:
        asked = {"scope": PLACEMENT, "after": after, "most": limit}
        return [Unplaced(*row) for row in await self._reader.ask(lambda db: rows(db, "unplaced", asked))]

    async def wanted_hashes(self, before_ms: int) -> Sequence[str]:
        def read(db: apsw.Connection) -> list[str]:
            dead = encode([session for session, _ in rows(db, "dead_in_flight")]).decode()
            asked = {"before_ms": before_ms, "dead": dead, "scope": PLACEMENT}
            return [hash_ for (hash_,) in rows(db, "wanted_hashes", asked)]

        return await self._reader.ask(read)

    async def next_due_ms(self, hashes: Sequence[str]) -> int | None:
        def read(db: apsw.Connection) -> int | None:
            times = (value(db, "next_due_ms", (hash_,)) for hash_ in hashes)
            return min((time for time in times if time is not None), default=None)

        return await self._reader.ask(read)

    async def unended(self, hashes: Sequence[str]) -> int:
        return await self._reader.ask(lambda db: sum(value(db, "unended", (hash_,)) for hash_ in hashes))

    async def run(self, run: RunId) -> RunRow | None:
        found = await self._list("runs", {"run = ?": run}, "limit 1")
        return RunRow(*found[0]) if found else None

    async def runs(self, **sought: Unpack[RunFilter]) -> Sequence[RunRow]:
        status, prefix = sought.get("status"), sought.get("prefix")
        one = status if status is None or isinstance(status, str) else None
        conditions: dict[str, Any] = {
            "run >= ?": prefix,
            "run < ?": None if prefix is None else prefix + _AFTER_ANY,
            "tenant = ?": sought.get("tenant"),
            "workflow = ?": sought.get("workflow"),
            "status = ?": one,
            "status in (select value from json_each(?))": None if status == one else encode(status).decode(),
            "start_key = ?": sought.get("key"),
            "started_at_ms >= ?": sought.get("since_ms"),
            "in_doubt_nanousd > ?": 0 if sought.get("in_doubt") else None,
            "started_at_ms < ?": sought.get("until_ms"),
            "run in (select child from children where parent = ?)": sought.get("parent"),
            "run in (select child from children where root = ?)": sought.get("root"),
            "id < (select id from runs where run = ?)": sought.get("before"),
            _NAMED_LIKE: sought.get("text"),
            "settled_nanousd >= ?": sought.get("cost_from_nanousd"),
            "settled_nanousd <= ?": sought.get("cost_to_nanousd"),
        }
        if labels := sought.get("labels"):
            rest = encode(labels[1:]).decode() if labels[1:] else None
            conditions |= {_LABELLED: encode(labels[0]).decode(), _LABELLED_WITH_ALL: rest}
        limit = sought.get("limit", MOST_LISTED)
        return [RunRow(*row) for row in await self._list("runs", conditions, "order by id desc limit ?", limit)]

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
        conditions = {
            "run = ?": run,
            "(select tenant from runs where run = gates.run) = ?": tenant,
            "id > (select id from gates where gate = ?)": after,
            "risk_level in (select value from json_each(?))": encode(risk_levels).decode() if risk_levels else None,
        }
        always = (_OPEN_GATES,) if open_only else ()
        rows = await self._list("gates", conditions, "order by id limit ?", limit, always)
        if not rows and after is not None and not await self._list("gates", {"gate = ?": after}, ""):
            raise no_gate(after)
        return [gate_of(row, self._sealing) for row in rows]

    async def effects(
        self,
        *,
        run: RunId | None = None,
        tenant: str | None = None,
        state: str | None = None,
        after: CallId | None = None,
        limit: int = MOST_LISTED,
    ) -> Sequence[tuple[EffectRow, EffectChange | None]]:
        conditions = {
            "run = ?": run,
            "(select tenant from runs where run = effects.run) = ?": tenant,
            "state = ?": state,
            "id > (select id from effects where call = ?)": after,
        }
        rows = await self._list("effects", conditions, "order by id limit ?", limit)
        if not rows and run is not None and (archive := await self._shelf.archive(run)) is not None:
            rows = archive.ledger(state, after, limit)
        elif not rows and after is not None and not await self._list("effects", {"call = ?": after}, ""):
            raise no_line(after)
        return [effect_of(row, self._sealing) for row in rows]

    async def _list(
        self, name: str, conditions: Mapping[str, Any], tail: str, limit: int | None = None, always: Iterable[str] = ()
    ) -> list[tuple[Any, ...]]:
        """Rows of a list. A condition without a value is not asked, so that each list finds the index made for it."""
        asked = {condition: value for condition, value in conditions.items() if value is not None}
        where = " and ".join([*asked, *always])
        statement = f"{SQL[name]} {'where ' + where if where else ''} {tail}"
        bound = (*asked.values(), *(() if limit is None else (limit,)))
        return await self._reader.ask(lambda db: db.execute(statement, bound).fetchall())


def _due(db: apsw.Connection, now_ms: int, hashes: Sequence[str], limit: int) -> list[DueRun]:
    died_ms: dict[SessionId, int] = dict(rows(db, "dead_in_flight"))
    found: list[_Waiting] = []
    for hash_ in hashes:
        found += _decode_waiting(value(db, "due_runs", {"hash": hash_, "now_ms": now_ms, "most": limit}))
    if died_ms:
        asked = {"dead": encode(list(died_ms)).decode(), "hashes": encode(hashes).decode(), "most": limit}
        found += _decode_waiting(value(db, "lost_runs", asked))
    return _in_order(found, now_ms, died_ms, limit)


def _stranded(db: apsw.Connection, before_ms: int, limit: int) -> list[DueRun]:
    died_ms: dict[SessionId, int] = dict(rows(db, "dead_in_flight"))
    dead = encode([session for session, at_ms in died_ms.items() if at_ms <= before_ms]).decode()
    given: dict[str, Any] = {"before_ms": before_ms, "dead": dead, "scope": PLACEMENT}
    hashes = [hash_ for (hash_,) in rows(db, "stranded_hashes", given)]
    found: list[_Waiting] = []
    for hash_ in hashes:
        asked = {**given, "hash": hash_, "reason": WORKFLOW_MISSING, "most": limit}
        found += _decode_waiting(value(db, "stranded_runs", asked))
    return _in_order(found, before_ms, died_ms, limit)


def _in_order(found: Iterable[_Waiting], now_ms: int, died_ms: dict[SessionId, int], limit: int) -> list[DueRun]:
    """The first of these runs, each once, those that have waited longest before the others."""
    due: dict[RunId, tuple[int, DueRun]] = {}
    for run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms, sessions in found:
        dead = frozenset(sessions & died_ms.keys())
        times = [died_ms[session] for session in dead]
        if due_at_ms is not None and due_at_ms <= now_ms:
            times.append(due_at_ms)
        due[run] = min(times, default=updated_at_ms), DueRun(run, graph_hash, due_at_ms, tenant, started_by, dead)
    in_order = sorted(due.values(), key=lambda each: each[0])
    return [each for _, each in in_order[:limit]]
