"""The log of runs: what is appended, and what is read of it to fold a run.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import AppendId, RunId, Seq
from holdfast.core.views.projection import Changes
from holdfast.errors import HoldfastError


class Append(msgspec.Struct, frozen=True):
    """Events to be the run's next after `expected`, with the rows that `project` derived from them.

    `append_id` is stored with the events: an append that is sent again under the same id, because the reply of its
    commit was lost, is recognised and acknowledged, never written twice. Each event says in which trace it came to be.
    """

    run: RunId
    expected: Seq
    append_id: AppendId
    events: tuple[Recorded, ...]
    changes: Changes


class SnapshotRecord(msgspec.Struct, frozen=True):
    """A folded state at `seq`, encoded; worthless to a Holdfast with another fold version. `tenant` is that of its run, where
    it is to be kept."""

    seq: Seq
    fold_version: int
    state: bytes
    tenant: str = ""


class History(msgspec.Struct, frozen=True):
    """The data from which a run is folded: its latest snapshot, if there is one, and the events after it."""

    snapshot: SnapshotRecord | None
    events: tuple[Recorded, ...]


class Log(Protocol):
    """The histories of runs. Everything else may be lost and restored from here."""

    async def append(self, appends: Sequence[Append]) -> Sequence[HoldfastError | None]:
        """Commit many runs' appends together, at most one of each run, durably; each learns its own fate.

        The fates are in order: None for committed (with every row of its changes), SeqConflict where the run is not at
        `expected`, KeyReused where the start key belongs to another run (`run` names it), EffectKeyTaken where a
        tenant-wide effect key does (with what is known of its effect), OverLimit where a scope has no room (see Scopes;
        asked last, for it leaves a waiter), Unstorable where this append cannot be stored, StoreBusy where somebody else
        has held its run for too long. An append whose fate is an error has written nothing. Raises StoreError when
        nothing at all was written, UnknownCommit when that cannot be known: append
        again under the same ids.
        """
        ...

    async def load(self, run: RunId, fold_version: int) -> History:
        """The run's latest snapshot of this fold version and the events after it. Raises NotFound."""
        ...

    async def events(self, run: RunId, after: int = 0, limit: int | None = None) -> Sequence[Recorded]:
        """The run's events after `after`, in order; empty for an unknown run."""
        ...

    async def seqs(self, runs: Sequence[RunId], *, ended: bool = False) -> Mapping[RunId, Seq]:
        """Return the current position of each of these runs. Unknown runs are missing. With `ended` so are those that have not
        ended."""
        ...

    def exclusive(self, run: RunId) -> AbstractAsyncContextManager[None]:
        """Hold a run alone, inside a block: until this process appends to `run`, no other does. So what was loaded of it is
        still true at the append."""
        ...

    async def snapshot(self, run: RunId, record: SnapshotRecord) -> None:
        """Keep a snapshot, instead of older ones of the run. Losing it loses nothing."""
        ...

    async def is_archived(self, run: RunId) -> bool:
        """Return True if the run's history is in an archive, or was removed with one."""
        ...

    async def run_of_key(self, tenant: str, key: str) -> tuple[RunId, str] | None:
        """The run that was started under this key, and the digest of its input."""
        ...
