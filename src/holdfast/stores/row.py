"""A history, and the rows beside it, as flat tuples for a database and back again; and what every store checks on the way.

Never here: SQL, a connection, what an event or a row means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from holdfast.core.facts.events import Event, Recorded, decode
from holdfast.core.nouns.conversations import ConversationTurn
from holdfast.core.nouns.shared_values import SharedIndex, SharedValue
from holdfast.core.values.ids import CallId, EffectKey, GateId, RunId, Seq
from holdfast.core.values.payload import Payload
from holdfast.core.views.projection import EffectChange, EffectRow, GateChange, GateRow, KeyClaim, KeyOutcome, SharedChange
from holdfast.core.views.sealing import Sealing
from holdfast.errors import (
    CorruptHistory,
    EffectKeyTaken,
    HoldfastError,
    NotFound,
    SharedLockLost,
    SharedValueMoved,
    StoreError,
    Unstorable,
    UsageError,
)
from holdfast.ports import Append, Chunk, StreamName

Row: TypeAlias = tuple[Any, ...]

_RUN: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FIRST: Final = "00000000-0000-0000-0000-000000000000"

CONVERSATION: Final = "conversation"
"""The kind of the records whose parts are messages."""

encode: Final = msgspec.json.Encoder().encode
astuple: Final = msgspec.structs.astuple

_decode_shared_value = msgspec.json.Decoder(SharedValue).decode
decode_exchange: Final = msgspec.json.Decoder(ConversationTurn).decode
_decode_payload = msgspec.json.Decoder(Payload).decode
_decode_names = msgspec.json.Decoder(tuple[str, ...]).decode


def expect_next(append: Append) -> None:
    """Raises StoreError where `append` is no next part of its run's history, or its row is another's."""
    run, row = append.run, append.changes.run
    last = append.expected + len(append.events)
    seqs = [recorded.seq for recorded in append.events]
    if not seqs or seqs != list(range(append.expected + 1, last + 1)) or (row.run, row.seq) != (run, last):
        raise StoreError(
            f"Events {seqs} of run {run} do not follow from its event {append.expected}, or their row (of {row.run}, at"
            f" {row.seq}) is another's. Nothing of it was written.",
            run=run,
        )


def unstorable(run: RunId, problem: BaseException | str) -> Unstorable:
    """Return the error for an append whose content no store can hold."""
    return Unstorable(f"What run {run} was to append cannot be stored ({problem}). Nothing of it was written.", run=run)


def recorded(
    sealing: Sealing, run: RunId, expected: int, seq: int, at_ms: int, payload: bytes, trace_id: str | None
) -> Recorded:
    """An event as it was stored. Raises CorruptHistory where it is not the `expected` one, not one we know, or cannot be read
    without a key."""
    if seq != expected:
        raise CorruptHistory(f"Run {run}: after event {expected - 1} comes {seq}; the history has a gap.", run=run)
    try:
        opened = sealing.open(payload)
    except CorruptHistory as problem:
        raise type(problem)(f"Run {run}: event {seq} cannot be read. {problem.message}", run=run, seq=seq) from problem
    return Recorded(Seq(seq), at_ms, _event(run, seq, opened), trace_id)


def _event(run: RunId, seq: int, payload: bytes) -> Event:
    try:
        return decode(payload)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise CorruptHistory(
            f"Run {run}: event {seq} is not one that this version of Holdfast knows ({problem}). Was it written by a newer"
            " one? Upgrade to work with this run; others are not affected.",
            run=run,
            seq=seq,
        ) from problem


def is_run(name: str) -> bool:
    """True where `name` can be a run's: ids are UUIDs in their usual form, so everything else is no run."""
    return _RUN.fullmatch(name) is not None


def runs_from(prefix: str) -> tuple[str, str]:
    """Return the first and the last id that begin with `prefix`: no ids of runs where none can."""
    return prefix + _FIRST[len(prefix) :], prefix + _FIRST.replace("0", "f")[len(prefix) :]


def shared_value_of(body: bytes, sealing: Sealing) -> SharedValue:
    """A version of a shared value. Raises KeyMissing."""
    return _decode_shared_value(sealing.open(body))


def expect_searchable(sealing: Sealing, query: SharedIndex | None) -> None:
    """Raise UsageError for a search in what is encrypted: neither its words nor its vectors are kept."""
    if sealing.is_on and query is not None:
        raise UsageError(
            "Stored payloads are encrypted here, so nothing can be searched by words or by meaning: their words and vectors"
            " would tell what they say. Nothing was done: read by key, or list."
        )


def moved(change: SharedChange) -> SharedValueMoved:
    """Return the error for a write that is based on another version of a shared value than its latest."""
    return SharedValueMoved(
        f"{change.key!r} of {change.space!r} is not at version {change.base} any more: another writer was first. Nothing was"
        " written."
    )


def lock_lost(change: SharedChange) -> SharedLockLost:
    """Return the error for a write of a shared value under a lock that is not held any more."""
    return SharedLockLost(
        f"The lock on {change.key!r} of {change.space!r} (number {change.fence}) is over: its time was up, and another"
        " holder may have written meanwhile. Nothing was written."
    )


class Owner(NamedTuple):
    """The owner of a key, with its call and the response to it."""

    run: RunId
    call: CallId
    args_hash: str
    response: Payload | None


def owners_of(rows: Iterable[Sequence[Any]]) -> dict[EffectKey, Owner]:
    """Return the owners in rows of the table."""
    return {
        EffectKey(key): Owner(run, call, args_hash, None if response is None else _decode_payload(response))
        for key, run, call, args_hash, response in rows
    }


def conflict(owners: dict[EffectKey, Owner], run: RunId, changes: Iterable[KeyClaim | KeyOutcome]) -> EffectKeyTaken | None:
    """Return the error for the first key that a run would claim and another has, or None."""
    for change in changes:
        owner = owners.get(change.key) if isinstance(change, KeyClaim) else None
        if owner is not None and owner.run != run:
            return EffectKeyTaken(
                f"The effect that run {run} means is call {owner.call}. Nothing was written.",
                key=change.key,
                call=owner.call,
                args_hash=owner.args_hash,
                response=owner.response,
            )
    return None


_REVIEWERS: Final = GateRow.__struct_fields__.index("reviewers")
_OPENED: Final = len(GateRow.__struct_fields__)
"""Columns of a list of gates that say what was opened; the others say what became of it."""


def of_gate(gate: GateRow) -> Row:
    *columns, evidence_ids = astuple(gate)
    columns[_REVIEWERS] = encode(gate.reviewers).decode()
    return (*columns, encode(evidence_ids).decode())


def of_gate_change(change: GateChange) -> Row:
    *columns, reviewers, approved_by = astuple(change)
    return (*columns, *(None if each is None else encode(each).decode() for each in (reviewers, approved_by)))


def of_effect(effect: EffectRow) -> Row:
    *columns, request, intended_at_ms = astuple(effect)
    return (*columns, encode(request), intended_at_ms)


def of_effect_change(change: EffectChange) -> Row:
    call, state, updated_at_ms, response, error, by = astuple(change)
    return call, state, updated_at_ms, None if response is None else encode(response), error, by


def gate_of(row: Row, sealing: Sealing) -> tuple[GateRow, GateChange | None]:
    """A gate and the latest that became of it; of the second part the third column says whether there is any."""
    columns: list[Any]
    became: list[Any]
    *columns, evidence_ids = row[:_OPENED]
    columns[_REVIEWERS] = _decode_names(columns[_REVIEWERS])
    columns.append(() if evidence_ids is None else _decode_names(evidence_ids))
    opened = sealing.open_gate(GateRow(*columns))
    *became, approved_by = row[_OPENED:]
    if became[2] is None:
        return opened, None
    became += (None, None if approved_by is None else _decode_names(approved_by))  # whom it asks is in what was opened
    return opened, GateChange(*became)


def fate_of(fate: HoldfastError | None, sealing: Sealing) -> HoldfastError | None:
    """Return the fate of an append, with its sealed parts opened."""
    if isinstance(fate, EffectKeyTaken):
        fate.args_hash = sealing.open_hash(fate.args_hash)
        fate.response = fate.response and sealing.open_payload(fate.response)
    return fate


def chunks_of(name: StreamName, rows: Iterable[Any], sealing: Sealing) -> Iterator[Chunk]:
    """Yield the pieces of a stream whose keys are there."""
    for first, size, kept in rows:
        if (content := sealing.readable(bytes, kept)) is not None:
            yield Chunk(name, first, size, content)


def no_gate(gate: GateId) -> NotFound:
    """Return the error for a list that is to go on after a gate that is not in the store."""
    return NotFound(f"There is no gate {gate} in this store to go on after. List again from the beginning.")


def effect_of(row: Row, sealing: Sealing) -> tuple[EffectRow, EffectChange | None]:
    """A line of the ledger and the latest that became of it; of the second part the third column says whether any."""
    call, run, step, tool, policy, key, request, intended_at_ms = row[:8]
    asked = sealing.open_payload(_decode_payload(request))
    line = EffectRow(call, run, step, tool, policy, key, asked, intended_at_ms)
    call, state, updated_at_ms, response, error, by = row[8:]
    if updated_at_ms is None:
        return line, None
    answer = None if response is None else sealing.open_payload(_decode_payload(response))
    words = None if error is None else sealing.open_text(error)
    return line, EffectChange(call, state, updated_at_ms, answer, words, by)
