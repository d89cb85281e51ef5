"""An append as the rows that it becomes.

Never here: writing them.
"""

from __future__ import annotations

import msgspec

from holdfast.core.facts.events import encode as encode_event
from holdfast.core.values.ids import RunId
from holdfast.core.views.projection import Changes
from holdfast.core.views.sealing import Sealing
from holdfast.ports import Append
from holdfast.stores.row import Row, astuple, encode, expect_next, unstorable


class Entry(msgspec.Struct):
    """An append as rows: made before the write lock is taken, which is not held for longer than it must."""

    run: RunId
    expected: int
    append_id: str
    events: list[Row]
    row: Row
    sessions: str
    changes: Changes


def entry(append: Append, sealing: Sealing) -> Entry:
    """`append` as rows. Raises StoreError for what is no next part of a history, cannot be encoded, or has no key."""
    expect_next(append)
    run = append.run
    try:
        encoded = [encode_event(recorded.event) for recorded in append.events]
        sessions = encode(append.changes.sessions).decode()
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
    return Entry(
        run,
        append.expected,
        append.append_id,
        events,
        (*astuple(append.changes.run), sessions),
        sessions,
        sealing.seal_changes(append.changes),
    )
