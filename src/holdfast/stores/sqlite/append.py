"""Writing appends down: what is at its expected place goes in, everything else is told why not.

A commit of many appends is a few wide statements, not many narrow ones: SQLite lets go of Python's lock at every step,
and a thread that wants it back beside a busy event loop may wait milliseconds each time.

Never here: what an event or a row means.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import apsw
import msgspec

from holdfast.core.events import encode as encode_event
from holdfast.core.ids import RunId
from holdfast.core.projection import Changes, EffectChange, EffectRow, GateRow, StartKey
from holdfast.errors import HoldfastError, KeyReused, SeqConflict, StoreError, Unstorable
from holdfast.ports import Append
from holdfast.stores.sqlite.room import SQL, rows, value
from holdfast.stores.statement import widened

_WIDEST: Final = 128
"""Rows in one statement, at most. Narrower ones are powers of two, so that few statements serve every number."""

_NOWHERE: Final = (0, "[]")

_encode = msgspec.json.Encoder().encode
_decode_standings = msgspec.json.Decoder(list[tuple[str, int, str]]).decode
_decode_sessions = msgspec.json.Decoder(list[str]).decode
_astuple = msgspec.structs.astuple

_Row: TypeAlias = tuple[Any, ...]


class Entry(msgspec.Struct):
    """An append as rows: made before the write lock is taken, which is not held for longer than it must."""

    run: RunId
    expected: int
    append_id: str
    events: list[_Row]
    row: _Row
    sessions: str
    changes: Changes


def entry(append: Append) -> Entry:
    """`append` as rows. Raises StoreError for what is no next part of a history, or cannot be encoded."""
    run, row = append.run, append.changes.run
    last = append.expected + len(append.events)
    seqs = [recorded.seq for recorded in append.events]
    if not seqs or seqs != list(range(append.expected + 1, last + 1)) or (row.run, row.seq) != (run, last):
        raise StoreError(
            f"Events {seqs} of run {run} do not follow from its event {append.expected}, or their row (of {row.run}, at"
            f" {row.seq}) is another's. Nothing of it was written.",
            run=run,
        )
    try:
        events = [
            (run, recorded.seq, append.append_id, recorded.at_ms, type(recorded.event).__name__, encode_event(recorded.event))
            for recorded in append.events
        ]  # fmt: skip
        sessions = _encode(append.changes.sessions).decode()
    except Exception as problem:  # whatever a value of a user's making does when it is encoded
        raise unstorable(run, problem) from problem
    return Entry(run, append.expected, append.append_id, events, (*_astuple(row), sessions), sessions, append.changes)


def unstorable(run: RunId, problem: BaseException) -> Unstorable:
    """What an append is told whose content no store can hold."""
    return Unstorable(f"What run {run} was to append cannot be stored ({problem}). Nothing of it was written.", run=run)


def commit(db: apsw.Connection, entries: Sequence[Entry]) -> list[HoldfastError | None]:
    """Write `entries`, inside a transaction, and say what became of each."""
    standings = _standings(db, entries)
    fates: list[HoldfastError | None] = []
    accepted: list[Entry] = []
    before: list[str] = []
    for new in entries:
        seq, sessions = standings.get(new.run, _NOWHERE)
        fate: HoldfastError | None
        if seq != new.expected:
            fate = _late(db, new, seq)
        elif (fate := _claim(db, new.changes.start_key)) is None:
            accepted.append(new)
            before.append(sessions)
            standings[new.run] = (new.changes.run.seq, new.sessions)
        fates.append(fate)
    _insert(db, "insert_event", [row for new in accepted for row in new.events])
    _insert(db, "put_run", [new.row for new in accepted])
    for new, sessions in zip(accepted, before, strict=True):
        if new.sessions != sessions:
            _move_flights(db, new, set(_decode_sessions(sessions)))
    _write_people(db, accepted)
    _write_ledger(db, accepted)
    return fates


def _standings(db: apsw.Connection, entries: Sequence[Entry]) -> dict[str, tuple[int, str]]:
    """Where the runs are, and what they have in flight."""
    runs = _encode([new.run for new in entries]).decode()
    found = _decode_standings(value(db, "standings", (runs,)))
    return {run: (seq, sessions) for run, seq, sessions in found}


def _late(db: apsw.Connection, new: Entry, seq: int) -> SeqConflict | None:
    """What an append is told whose place is taken: that it is there already, or that another is."""
    if seq > new.expected and value(db, "append_id_of", (new.run, new.expected + 1)) == new.append_id:
        return None
    return SeqConflict(
        f"Run {new.run} is at event {seq}, not at {new.expected}: somebody else was first. Nothing was written; load it"
        " and decide again.",
        run=new.run,
        expected=new.expected,
        seq=seq,
    )


def _claim(db: apsw.Connection, key: StartKey | None) -> KeyReused | None:
    """Take a start key, or say whose it is."""
    if key is None:
        return None
    known = rows(db, "run_of_key", (key.tenant, key.key))
    if not known:
        rows(db, "insert_start_key", _astuple(key))
        return None
    owner = known[0][0]
    return KeyReused(f"The start key {key.key!r} belongs to run {owner}. Nothing was started.", key=key.key, run=owner)


def _move_flights(db: apsw.Connection, new: Entry, before: set[str]) -> None:
    now = set(new.changes.sessions)
    db.executemany(SQL["delete_flight"], [(session, new.run) for session in before - now])
    db.executemany(SQL["insert_flight"], [(session, new.run) for session in now - before])


def _write_people(db: apsw.Connection, accepted: Sequence[Entry]) -> None:
    _insert(db, "insert_gate", [_gate(row) for new in accepted for row in new.changes.gates])
    changes = [_astuple(change) for new in accepted for change in new.changes.gate_changes]
    if changes:
        db.executemany(SQL["change_gate"], changes)


def _write_ledger(db: apsw.Connection, accepted: Sequence[Entry]) -> None:
    _insert(db, "insert_effect", [_effect(row) for new in accepted for row in new.changes.effects])
    changes = [_effect_change(change) for new in accepted for change in new.changes.effect_changes]
    if changes:
        db.executemany(SQL["change_effect"], changes)


def _gate(row: GateRow) -> _Row:
    *columns, reviewers = _astuple(row)
    return (*columns, _encode(reviewers).decode())


def _effect(row: EffectRow) -> _Row:
    *columns, request, intended_at_ms = _astuple(row)
    return (*columns, _encode(request), intended_at_ms)


def _effect_change(change: EffectChange) -> _Row:
    call, state, updated_at_ms, response, error, by = _astuple(change)
    return call, state, updated_at_ms, None if response is None else _encode(response), error, by


def _insert(db: apsw.Connection, statement: str, new: Sequence[_Row]) -> None:
    """Insert the rows `new` in as few steps as the widths allow."""
    done = 0
    while done < len(new):
        width = min(_WIDEST, 1 << ((len(new) - done).bit_length() - 1))
        db.execute(widened(SQL[statement], width), tuple(chain.from_iterable(new[done : done + width])))
        done += width
