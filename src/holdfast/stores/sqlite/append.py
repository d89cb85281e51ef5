"""Writing appends down: what is at its expected place goes in, everything else is told why not.

A commit of many appends is a few wide statements, not many narrow ones: SQLite lets go of Python's lock at every step,
and a thread that wants it back beside a busy event loop may wait milliseconds each time.

Never here: what an event or a row means.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final

import apsw
import msgspec

from holdfast.core.views.projection import ChildChange, ChildOrder, ChildRow, StartKey
from holdfast.errors import HoldfastError, KeyReused, SeqConflict
from holdfast.stores.row import Row, astuple, encode, of_effect, of_effect_change, of_gate, of_gate_change
from holdfast.stores.sqlite import shared_index, shared_value
from holdfast.stores.sqlite.context import SQL, rows, value
from holdfast.stores.sqlite.effect_key import Keys
from holdfast.stores.sqlite.entry import Entry
from holdfast.stores.sqlite.scope import ScopeBalances
from holdfast.stores.statement import widened

_WIDEST: Final = 128
"""Rows in one statement, at most. Narrower ones are powers of two, so that few statements serve every number."""

_NOWHERE: Final = (0, "[]")

_decode_standings = msgspec.json.Decoder(list[tuple[str, int, str]]).decode
_decode_sessions = msgspec.json.Decoder(list[str]).decode


def commit(db: apsw.Connection, entries: Sequence[Entry]) -> list[HoldfastError | None]:
    """Write `entries`, inside a transaction, and say what became of each."""
    standings = _standings(db, entries)
    balances, keys = ScopeBalances(db, entries), Keys(db, entries)
    fates: list[HoldfastError | None] = []
    accepted: list[Entry] = []
    before: list[str] = []
    for new in entries:
        seq, sessions = standings.get(new.run, _NOWHERE)
        fate: HoldfastError | None
        if seq != new.expected:
            fate = _late(db, new, seq)
        elif (
            fate := _reused(db, new.changes.start_key)
            or keys.find_conflict(new)
            or shared_value.stale(db, new)
            or balances.admit(new)
        ) is None:
            keys.write(new)
            shared_value.write(db, new.changes.shared_values)
            shared_value.write_waits(db, new)
            shared_index.use(db, new.changes.shared_uses)
            if new.changes.start_key is not None:
                rows(db, "insert_start_key", astuple(new.changes.start_key))
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
    _write_letters(db, accepted)
    balances.write(accepted)
    _write_children(db, accepted)
    return fates


def _standings(db: apsw.Connection, entries: Sequence[Entry]) -> dict[str, tuple[int, str]]:
    """Return the position of each run, and the sessions that have work of it in flight."""
    runs = encode([new.run for new in entries]).decode()
    found = _decode_standings(value(db, "standings", (runs,)))
    return {run: (seq, sessions) for run, seq, sessions in found}


def _late(db: apsw.Connection, new: Entry, seq: int) -> SeqConflict | None:
    """Return the fate of an append whose place is taken: None if it is there already, SeqConflict if another is."""
    if seq > new.expected and value(db, "append_id_of", (new.run, new.expected + 1)) == new.append_id:
        return None
    return SeqConflict(
        f"Run {new.run} is at event {seq}, not at {new.expected}: another writer was first. Nothing was written; load it"
        " and decide again.",
        run=new.run,
        expected=new.expected,
        seq=seq,
    )


def _reused(db: apsw.Connection, key: StartKey | None) -> KeyReused | None:
    """Return KeyReused if the start key belongs to a run, else None."""
    if key is None:
        return None
    known = rows(db, "run_of_key", (key.tenant, key.key))
    if not known:
        return None
    owner = known[0][0]
    return KeyReused(f"The start key {key.key!r} belongs to another run. Nothing was started.", key=key.key, run=owner)


def _move_flights(db: apsw.Connection, new: Entry, before: set[str]) -> None:
    now = set(new.changes.sessions)
    db.executemany(SQL["delete_flight"], [(session, new.run) for session in before - now])
    db.executemany(SQL["insert_flight"], [(session, new.run) for session in now - before])


def _write_people(db: apsw.Connection, accepted: Sequence[Entry]) -> None:
    _insert(db, "insert_gate", [of_gate(gate) for new in accepted for gate in new.changes.gates])
    labels = {new.run: new.changes.labels for new in accepted if new.changes.labels is not None}
    db.executemany(SQL["delete_labels"], [(run,) for run in labels])
    _insert(db, "insert_label", [(run, *pair) for run, pairs in labels.items() for pair in pairs])
    changes = [of_gate_change(change) for new in accepted for change in new.changes.gate_changes]
    if changes:
        db.executemany(SQL["change_gate"], changes)


def _write_letters(db: apsw.Connection, accepted: Sequence[Entry]) -> None:
    """Write the open letters of each run and resolve its others. The letters of a change are all that its run has."""
    for new in accepted:
        letters = new.changes.dead_letters
        if letters is not None:
            steps = encode([letter.step for letter in letters]).decode()
            rows(db, "resolve_letters", (new.run, new.changes.run.updated_at_ms, steps))
            db.executemany(SQL["put_letter"], map(astuple, letters))


def _write_ledger(db: apsw.Connection, accepted: Sequence[Entry]) -> None:
    _insert(db, "insert_effect", [of_effect(effect) for new in accepted for effect in new.changes.effects])
    changes = [of_effect_change(change) for new in accepted for change in new.changes.effect_changes]
    if changes:
        db.executemany(SQL["change_effect"], changes)


def _write_children(db: apsw.Connection, accepted: Sequence[Entry]) -> None:
    """The links to children, as the appends that were accepted move them."""
    changes = [change for new in accepted for change in new.changes.children]
    if not changes:
        return
    moved = [(each.child, each.state, each.at_ms) for each in changes if isinstance(each, ChildChange)]
    db.executemany(SQL["move_child"], moved)
    asked = [(each.child, each.parent, each.root, each.at_ms) for each in changes if isinstance(each, ChildRow)]
    db.executemany(SQL["put_child"], asked)
    for each in changes:
        if isinstance(each, ChildOrder):
            statement, name = ("order_children", each.parent) if each.child is None else ("order_child", each.child)
            rows(db, statement, (name, each.ordered, each.at_ms))


def _insert(db: apsw.Connection, statement: str, new: Sequence[Row]) -> None:
    """Insert the rows `new` in as few steps as the widths allow."""
    done = 0
    while done < len(new):
        width = min(_WIDEST, 1 << ((len(new) - done).bit_length() - 1))
        db.execute(widened(SQL[statement], width), tuple(chain.from_iterable(new[done : done + width])))
        done += width
