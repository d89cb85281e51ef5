"""Writing appends down: what is at its expected place goes in, everything else is told why not.

A flush whose appends change nothing but runs, histories and the books of scopes that have no limit is one statement,
and so one round trip. One that opens gates, calls tools or needs room under a limit is a transaction of a few.

Never here: what an event or a row means; how often to try.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.facts.events import encode as encode_event
from holdfast.core.values.ids import GateId, RunId, run_of
from holdfast.core.views.projection import Changes, ChildChange, ChildOrder, ChildRow, GateChange, StartKey
from holdfast.core.views.sealing import Sealing
from holdfast.errors import HoldfastError, KeyReused, SeqConflict
from holdfast.ports import Append
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.row import (
    Row,
    astuple,
    encode,
    expect_next,
    is_run,
    of_effect,
    of_effect_change,
    of_gate,
    of_gate_change,
    unstorable,
)

_KEY_COLUMNS: Final = 4
_WAITER_COLUMNS: Final = 3


_NOBODY: Final[Mapping[RunId, HoldfastError]] = {}


class Entry(msgspec.Struct):
    """An append as rows."""

    run: RunId
    expected: int
    append_id: str
    row: Row
    events: list[Row]
    key: StartKey | None
    changes: Changes

    @property
    def is_plain(self) -> bool:
        """True if one statement can write the entry, unless a limit is in its way."""
        changes = self.changes
        ledger = changes.gates or changes.gate_changes or changes.effects or changes.effect_changes
        limits = changes.postings and any(each.limit is not None or each.limit_change for each in changes.postings)
        beside = changes.effect_keys or changes.children or changes.dead_letters is not None
        shared = changes.shared_values or changes.shared_waits is not None or changes.shared_uses
        return not (ledger or beside or shared or limits or changes.labels is not None)

    @property
    def is_simple(self) -> bool:
        """True if the entry changes only what `append_one` does."""
        return self.is_plain and self.key is None and not self.changes.waiters


class FlushResult(NamedTuple):
    """The result of a flush."""

    now_ms: int
    runs: frozenset[str]
    is_free: bool
    """False where nothing was written, because there is a limit to be heeded."""


def entry(append: Append, sealing: Sealing) -> Entry:
    """`append` as rows. Raises StoreError for what is no next part of a history, cannot be encoded, or has no key."""
    expect_next(append)
    run = append.run
    if not is_run(run):
        raise unstorable(run, "a run's id is a UUID")
    try:
        encoded = [encode_event(recorded.event) for recorded in append.events]
    except Exception as problem:  # whatever a value of a user's making does when it is encoded
        raise unstorable(run, problem) from problem
    tenant = append.changes.run.tenant
    events = [
        (
            run,
            recorded.seq,
            append.append_id,
            recorded.at_ms,
            type(recorded.event).__name__,
            sealing.seal(tenant, event),
            recorded.trace_id,
        )
        for recorded, event in zip(append.events, encoded, strict=True)
    ]
    changes = sealing.seal_changes(append.changes)
    _, *columns = astuple(changes.run)
    row = (run, append.expected, *columns, changes.sessions)
    return Entry(run, append.expected, append.append_id, row, events, changes.start_key, changes)


async def write(db: Connection, sql: dict[str, str], process: Any, entries: Sequence[Entry], *, charging: bool) -> FlushResult:
    """Write `entries`, each whole or not at all. With `charging` the books of their scopes are moved too, unless one that
    could be refused for a limit has one; without, the caller moves them."""
    row = await db.fetchrow(
        sql["append"],
        *_rows_of(entries, entries if charging else ()),
        process,
        *_columns((astuple(new.key) for new in entries if new.key is not None), _KEY_COLUMNS),
        *_columns(((new.run, each.scope, each.wanted) for new in entries for each in new.changes.waiters), _WAITER_COLUMNS),
    )
    return FlushResult(row["now_ms"], frozenset(row["written"]), row["is_free"])


async def write_one(db: Connection, sql: dict[str, str], process: Any, new: Entry) -> tuple[int, bool]:
    """Write a simple append that is the only one of its flush; the time, and whether it was written."""
    (run,), *others = _rows_of([new], [new])
    row = await db.fetchrow(sql["append_one"], run, *others, process)
    return row["now_ms"], row["is_written"]


def _rows_of(entries: Sequence[Entry], charged: Sequence[Entry]) -> tuple[list[Row], list[Row], list[Row], list[str]]:
    """Rows of runs, of events and of what moves the books of the `charged`; and of these the families of which one could be
    refused, if it has a limit."""
    postings = [(new.run, each) for new in charged for each in new.changes.postings]
    charges = [(run, each.scope, each.family, each.settled, each.held, each.in_doubt) for run, each in postings]
    limited = {each.family for _, each in postings if each.bounded and each.total > 0}
    return [new.row for new in entries], [event for new in entries for event in new.events], charges, [*limited]


async def write_ledger(db: Connection, sql: dict[str, str], entries: Sequence[Entry]) -> None:
    """Write the changes of gates, tool calls, tags and dead letters of a flush's written entries. If one thing changed twice,
    the last change counts."""
    changes = [new.changes for new in entries]
    labels = {new.run: new.changes.labels for new in entries if new.changes.labels is not None}
    await _put(db, sql["put_labels"], [(run, *pair) for run, pairs in labels.items() for pair in ((None, None), *pairs)])
    gates = {gate.gate: of_gate(gate) for each in changes for gate in each.gates}
    await _put(db, sql["put_gates"], gates.values())
    became: dict[GateId, GateChange] = {}
    for change in (change for each in changes for change in each.gate_changes):
        before = became.get(change.gate, change)
        asks = before.reviewers if change.reviewers is None else change.reviewers
        approved_by = before.approved_by if change.approved_by is None else change.approved_by
        became[change.gate] = msgspec.structs.replace(change, reviewers=asks, approved_by=approved_by)
    await _put(db, sql["change_gates"], map(of_gate_change, became.values()))
    await _put(db, sql["put_effects"], [of_effect(effect) for each in changes for effect in each.effects])
    closed = {
        change.call: (run_of(change.call), *of_effect_change(change)) for each in changes for change in each.effect_changes
    }
    await _put(db, sql["change_effects"], closed.values())
    letters = [
        (new.run, new.changes.run.updated_at_ms, found) for new in entries if (found := new.changes.dead_letters) is not None
    ]
    of_runs = [(run, at_ms, encode([each.step for each in found]).decode()) for run, at_ms, found in letters]
    await _put(db, sql["resolve_letters"], of_runs)
    await _put(db, sql["put_letters"], [astuple(each) for _, _, found in letters for each in found])


async def fates_of(
    db: Connection, sql: dict[str, str], entries: Sequence[Entry], refused: Mapping[RunId, HoldfastError] = _NOBODY
) -> dict[RunId, HoldfastError | None]:
    """Return the fates of the appends that were not written. None means that the append is there already. Otherwise the error
    names the conflict or, if there is none, is the one for which the append was `refused`.

    Call it inside a transaction that locks their runs. Then its commit is acknowledged only when everything that it saw is as
    durable as itself. Without that, a failover could still undo what it saw.
    """
    await db.execute(sql["lock_runs"], [new.run for new in entries])
    await _put(db, sql["lock_keys"], [(new.key.tenant, new.key.key) for new in entries if new.key is not None])
    rows = await db.fetch(
        sql["standings"], *_columns(((new.run, new.expected, new.changes.run.tenant, _key(new)) for new in entries), 4)
    )
    found = {row["run"]: row for row in rows}
    return {new.run: _fate(new, found[new.run], refused.get(new.run)) for new in entries}


def _fate(new: Entry, row: Any, refused: HoldfastError | None) -> HoldfastError | None:
    if row["append_id"] == new.append_id:
        return None
    if row["owner"] is not None and row["owner"] != new.run:
        owner = RunId(row["owner"])
        return KeyReused(f"The start key {_key(new)!r} belongs to another run. Nothing was started.", key=_key(new), run=owner)
    if refused is not None and row["seq"] == new.expected:
        return refused
    return SeqConflict(
        f"Run {new.run} is at event {row['seq']}, not at {new.expected}: another writer was first. Nothing was written; load"
        " it and decide again.",
        run=new.run,
        expected=new.expected,
        seq=row["seq"],
    )


def _key(new: Entry) -> str | None:
    return new.key.key if new.key is not None else None


async def _put(db: Connection, statement: str, rows: Iterable[Row]) -> None:
    given = list(rows)
    if given:
        await db.execute(statement, *_columns(given, len(given[0])))


def _columns(rows: Iterable[Row], width: int) -> Sequence[Sequence[Any]]:
    """The columns of `rows`, as many as there are even when there are no rows."""
    return list(zip(*rows, strict=True)) or [()] * width


async def write_children(db: Connection, sql: dict[str, str], entries: Sequence[Entry]) -> None:
    """The links to children, as the appends that were written move them."""
    changes = [change for new in entries for change in new.changes.children]
    if not changes:
        return
    moved = {each.child: (each.child, each.state, each.at_ms) for each in changes if isinstance(each, ChildChange)}
    if moved:
        await db.execute(sql["move_children"], *zip(*moved.values(), strict=True))
    asked = {each.child: each for each in changes if isinstance(each, ChildRow)}
    if asked:
        rows = [(each.child, each.parent, each.root, each.at_ms) for each in asked.values()]
        await db.execute(sql["put_children"], *zip(*rows, strict=True))
    orders = [(each.parent, each.child, each.ordered, each.at_ms) for each in changes if isinstance(each, ChildOrder)]
    if orders:
        await db.execute(sql["order_children"], *zip(*orders, strict=True))
