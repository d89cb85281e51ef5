"""What every store checks of a history on its way in and out, whatever database it is kept in.

Never here: SQL, a connection; what an event means is core's.
"""

from __future__ import annotations

import msgspec

from holdfast.core.facts.events import Event, Recorded, decode
from holdfast.core.values.ids import RunId, Seq
from holdfast.core.views.sealing import Sealing
from holdfast.errors import CorruptHistory, StoreError, Unstorable
from holdfast.ports import Append


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
    """What an append is told whose content no store can hold."""
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
