"""The rows beside the history, as lists and the sweep read them.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, TypedDict, Unpack

import msgspec

from holdfast.core.nouns.labels import BEFORE_ALL_COUNTS, CountKey, LabelCount, Pair
from holdfast.core.values.ids import RunId, SessionId
from holdfast.core.views.projection import EffectChange, EffectRow, GateChange, GateRow, RunRow
from holdfast.core.views.selection import GateOrder, RunFilter

MAX_LABELLED: Final = 50_000
"""Runs whose labels are counted: a look at a large store takes no longer."""
MAX_LISTED: Final = 100
"""Default number of rows of a list."""


class DueRun(msgspec.Struct, frozen=True):
    """A run that a process must look at, and the dead sessions that it still waits for."""

    run: RunId
    graph_hash: str
    due_at_ms: int | None
    tenant: str
    started_by: str | None
    dead: frozenset[SessionId] = frozenset()


class UnplacedRun(msgspec.Struct, frozen=True):
    """A run with steps that are to be placed, as its row says it: `waiting_for` has their demands. `place` is its place
    in line."""

    place: int
    run: RunId
    tenant: str
    workflow: str
    graph_hash: str
    waiting_for: bytes
    started_by: str | None


class GateFilter(TypedDict, total=False):
    """The criteria by which gates are selected. A criterion that is missing or None matches any."""

    tenant: str | None
    below: bool
    """With a run: those of the runs below it too."""
    open_only: bool
    """True, and by default: only those that wait for a decision."""
    risk_levels: Sequence[str]
    """One of which they have."""
    order: GateOrder
    """`opened`, and by default: the oldest first. `due`: by deadline, those without one last. `closed`: only those that wait
    for no decision any more, closed last first; it overrides `open_only`."""
    after: str | None
    """Only those after this one, in that order."""
    limit: int


class EffectFilter(TypedDict, total=False):
    """The criteria by which lines of the ledger are selected. A criterion that is missing or None matches any."""

    tenant: str | None
    state: str | None
    after: str | None
    """Only those after the line of this call."""
    limit: int


class Views(Protocol):
    """The rows beside the history, as lists and the sweep read them."""

    async def due(self, now_ms: int, hashes: Sequence[str], limit: int) -> Sequence[DueRun]:
        """Runs of these workflows that are due, or have work in flight in dead sessions; longest due first."""
        ...

    async def stranded(self, before_ms: int, limit: int) -> Sequence[DueRun]:
        """Runs that have been due, or have had work in flight in a dead session, or steps in line for a place and nothing
        happening to them, since `before_ms` or longer, and whose workflow no session that lived after that moment could run.
        Those that have waited longest come first. Left out are those about which a gate of reason
        `workflow_missing` is open. (The caller has expired dead sessions first.)"""
        ...

    async def unplaced(self, after: int, limit: int) -> Sequence[UnplacedRun]:
        """Runs with steps that are to be placed, longest waiting first, after the place `after`."""
        ...

    async def wanted_hashes(self, before_ms: int) -> Sequence[str]:
        """The workflows of all runs that are due by then, have work in flight in dead sessions, or have steps that are to
        be placed."""
        ...

    async def next_due_ms(self, hashes: Sequence[str]) -> int | None:
        """The earliest due time among runs of these workflows."""
        ...

    async def run(self, run: RunId) -> RunRow | None: ...

    async def runs(self, **filters: Unpack[RunFilter]) -> Sequence[RunRow]:
        """Runs, newest first."""
        ...

    async def labels(self, runs: Sequence[RunId]) -> Mapping[RunId, Sequence[Pair]]:
        """The labels and tags of those runs that have any."""
        ...

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
        """Return the number of runs with each label, of one key or of any, in the order of CountKey: among the newest runs of a
        tenant, of a workflow or of all."""
        ...

    async def unended(self, hashes: Sequence[str]) -> int:
        """Return the number of runs of these workflows that have not ended."""
        ...

    async def gates(
        self, *, run: RunId | None = None, **filters: Unpack[GateFilter]
    ) -> Sequence[tuple[GateRow, GateChange | None]]:
        """Gates in the `order`, each with the latest that became of it; with `after` those that come after that one, with
        `risk_levels` those of one of these.
        Raises NotFound where the store has no gate `after`."""
        ...

    async def effects(
        self, *, run: RunId | None = None, **filters: Unpack[EffectFilter]
    ) -> Sequence[tuple[EffectRow, EffectChange | None]]:
        """The ledger, oldest first, each line with the latest that became of it; with `after` the lines after that call's.
        Raises NotFound where the ledger has no call `after`: its run may have been archived meanwhile."""
        ...
