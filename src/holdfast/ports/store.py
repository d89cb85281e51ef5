"""What the machine needs of a store: the log of runs, and the rows beside it.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, Protocol, TypedDict, Unpack

import msgspec

from holdfast.core.costs import Cost, CostKey, Uncounted
from holdfast.core.estimates import Estimate, Use
from holdfast.core.events import Recorded
from holdfast.core.ids import AppendId, CallId, GateId, RunId, Seq, SessionId
from holdfast.core.lending import DeclaredPool, Grant, Share, Visit, Visitor
from holdfast.core.projection import Changes, EffectChange, EffectRow, GateChange, GateRow, RunRow
from holdfast.core.scopes import ScopeRow, Waiting
from holdfast.errors import HoldfastError

MOST_LISTED: Final = 100
"""What a list has where nobody says how much he wants."""


class Append(msgspec.Struct, frozen=True):
    """Events to be the run's next after `expected`, with the rows that `project` derived from them.

    `append_id` is stored with the events: an append that is sent again under the same id, because the reply of its
    commit was lost, is recognised and acknowledged, never written twice.
    """

    run: RunId
    expected: Seq
    append_id: AppendId
    events: tuple[Recorded, ...]
    changes: Changes


class SnapshotRecord(msgspec.Struct, frozen=True):
    """A folded state at `seq`, encoded; worthless to a Holdfast with another fold version."""

    seq: Seq
    fold_version: int
    state: bytes


class History(msgspec.Struct, frozen=True):
    """What is needed to fold a run: its latest snapshot, if there is one, and the events after it."""

    snapshot: SnapshotRecord | None
    events: tuple[Recorded, ...]


class Log(Protocol):
    """Where runs live. Everything else may be lost and found again from here."""

    async def append(self, appends: Sequence[Append]) -> Sequence[HoldfastError | None]:
        """Commit many runs' appends together, at most one of each run, durably; each learns its own fate.

        The fates are in order: None for committed (with every row of its changes), SeqConflict where the run is not at
        `expected`, KeyReused where the start key belongs to another run (`run` names it), EffectKeyTaken where a
        tenant-wide effect key does (with what is known of its effect), OverLimit where a scope has no room (see Scopes;
        asked last, for it leaves a waiter), Unstorable where this append cannot be stored, StoreBusy where somebody else
        has held its run for too long. An append whose fate is an error has written nothing. Raises StoreError when
        nothing at all was written, UnknownCommit when nobody can know: append
        again under the same ids.
        """
        ...

    async def load(self, run: RunId, fold_version: int) -> History:
        """The run's latest snapshot of this fold version and the events after it. Raises NotFound."""
        ...

    async def events(self, run: RunId, after: int = 0, limit: int | None = None) -> Sequence[Recorded]:
        """The run's events after `after`, in order; empty for an unknown run."""
        ...

    async def seqs(self, runs: Sequence[RunId]) -> Mapping[RunId, Seq]:
        """Where each of these runs is now; unknown ones are missing."""
        ...

    def exclusive(self, run: RunId) -> AbstractAsyncContextManager[None]:
        """Inside, until this process appends to `run`, nobody else does: what was loaded of it is true when it is
        appended to."""
        ...

    async def snapshot(self, run: RunId, record: SnapshotRecord) -> None:
        """Keep a snapshot, instead of older ones of the run. Losing it loses nothing."""
        ...

    async def is_archived(self, run: RunId) -> bool:
        """Whether the run's history is in an archive, or was removed with one."""
        ...

    async def run_of_key(self, tenant: str, key: str) -> tuple[RunId, str] | None:
        """The run that was started under this key, and the digest of its input."""
        ...


class Scopes(Protocol):
    """The books of scopes above runs (core.scopes): what appends move in them, up to which limit, and who waits.

    Books are moved by appends alone, in the transaction of the append: its scopes' rows are locked in the order of
    their keys, and postings are taken in the order of the appends, so that a flush writes each row once. An append that
    has a bounded posting above zero that would bring a scope's settled + held + in doubt above its limit is refused as a
    whole with OverLimit; every other posting is taken. For a posting `in_turn` it counts as used what those want who wait
    in the scope before its run, or all who wait there if its run does not. Books are kept whether there is a limit or
    not.

    An append that is refused leaves a waiter in the same transaction, so that what makes room cannot miss it, unless
    its run is not there yet. One that is taken leaves exactly the waiters of its changes: those of the run that are
    among them keep their turn, others of the run go.
    """

    async def set_limit(self, family: str, amount: int | None) -> None:
        """Set, or with None remove, the limit of every scope of this family, those of days gone by included. What is
        used already may be more: then nothing more is admitted."""
        ...

    async def limits(self, family: str) -> Mapping[str, int]:
        """The limits that are set, of families that begin with `family`."""
        ...

    async def balances(self, names: Sequence[str]) -> Sequence[ScopeRow]:
        """The books of these scopes, in the order asked for; empty ones where nothing was ever charged."""
        ...

    async def waiting(self, scopes: Sequence[str], limit: int) -> Sequence[Waiting]:
        """Who waits in these scopes, longest first."""
        ...

    async def room(self, limit: int) -> Sequence[Waiting]:
        """Who waits, longest first, in a scope that has room for it alone. And who waits for money that calls in flight can
        leave no more of, in a run whose status is still `waiting`: it tries again, to hear that.

        The scope `effect/<key>` has no books: there is room as soon as no other run has this tenant-wide effect key with
        its outcome outstanding. Keys are kept for good, whatever becomes of the runs that took them.
        """
        ...


class Lending(Protocol):
    """Pools above steps (core.lending): declared here for every process, and lent in shares to those who place steps.

    The pools that a visit names are locked in the order of their names, in a transaction of its own, never one of an
    append. A share is its session's: it is free when that is dead, and what the visitor has placed cannot be running.
    """

    async def set_pool(self, pool: DeclaredPool) -> None:
        """Declare a pool, or give it other figures. What is lent above a smaller limit comes back as it is given back."""
        ...

    async def remove_pool(self, name: str) -> bool:
        """False if there was none. What is lent of it is remembered, should it be declared again meanwhile."""
        ...

    async def pools(self) -> Sequence[DeclaredPool]:
        """All of them, by name."""
        ...

    async def lend(self, visitor: Visitor, visits: Sequence[Visit]) -> Sequence[Grant]:
        """What the visitor has of each of these pools from now on, in one transaction; nothing of those that are not there.

        Raises Conflict where its session is dead: then it has nothing. After any other error nobody knows what it was
        lent, and its next visit sets that right.
        """
        ...

    async def pool_shares(self, pool: str) -> Sequence[Share]:
        """Who has how much of a pool, by holder. The dead are among them until somebody visits."""
        ...

    async def estimates(self, *, workflow: str | None = None, pool: str | None = None) -> Sequence[Estimate]:
        """What steps have taken of pools (core.estimates), by workflow, node and pool."""
        ...

    async def learn(self, uses: Sequence[Use]) -> None:
        """Take into account what steps have taken, in one transaction."""
        ...


class Costs(Protocol):
    """The roll-up of what model calls cost (core.costs), and up to which event each run is in it."""

    async def uncounted(self, started_before_ms: int, after: RunId | None, limit: int) -> Sequence[Uncounted]:
        """Runs with events that are not in the roll-up yet, in the order of their names, after the run `after`."""
        ...

    async def count(self, uncounted: Uncounted, costs: Sequence[Cost]) -> bool:
        """Add `costs`, of the run's events after `counted` up to `seq`, and remember that, in one transaction. False, with
        nothing added, if the run is not counted up to `counted`: somebody else was first."""
        ...

    async def rollup(
        self, first_day: str, last_day: str, *, tenant: str | None = None, after: CostKey | None = None,
        limit: int | None = None,
    ) -> Sequence[Cost]:  # fmt: skip
        """The roll-up of the days from `first_day` to `last_day` (`2026-11-21`), in order, after the row `after`."""
        ...


class LogPlace(NamedTuple):
    """Where a piece of what a job prints stands: behind the `first` bytes of that attempt."""

    run: RunId
    job: str
    """Its id, with its combination: `greet (Ada)`."""
    attempt: int
    first: int


class LogPiece(NamedTuple):
    """What there is of it."""

    place: LogPlace
    bytes: int
    written_at_ms: int


class JobLogs(Protocol):
    """What jobs have printed, for people. Nothing follows from it, so losing some of it changes no run."""

    async def keep(self, pieces: Sequence[tuple[LogPlace, bytes]], cut: Sequence[LogPlace]) -> None:
        """Keep pieces, each whole in the place of what was there, and let go of those that are too much."""
        ...

    async def pieces(self, run: RunId) -> Sequence[LogPiece]:
        """All pieces of a run, by job and attempt in the order in which they began, each of those from its beginning."""
        ...

    async def read(self, place: LogPlace) -> bytes:
        """What a piece says, in UTF-8; nothing if it was cut meanwhile."""
        ...


class Blobs(Protocol):
    """Large payloads, each kept for a tenant and a month, by the sha256 of its content."""

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        """Store `content` durably, before any event names it; what is there already is not stored again. Returns its hash.

        Raises StoreError: then nothing may name it.
        """
        ...

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        """What was put there; no tenant is given what only another has put. The caller checks it against its hash.

        Raises NotFound where there is none, StoreError where nobody can know for now.
        """
        ...


class BlobPlace(Blobs, Protocol):
    """A place for large payloads beside the store's own tables. It belongs to one store."""

    async def prune(self, before: str, kept: Collection[str]) -> int:
        """Remove what is kept for the months before `before` (`2026-09`), but for the hashes `kept`; how many bytes that
        were. It may be interrupted anywhere and be done again; what is no payload is left alone. Raises StoreError."""
        ...


class WorkflowRecord(msgspec.Struct, frozen=True):
    """What is known of a workflow without its code: the definition that was loaded last under this name and version."""

    name: str
    version: int
    graph_hash: str
    input_schema: bytes | None = None
    """The JSON Schema of what a start must fit, as JSON; None where anything fits, or where nothing was said of it."""
    loaded_at_ms: int | None = None
    """Since when it is this one, by the store's time; None where that was before stores kept it."""


class Graphs(Protocol):
    """The workflows by name and version, and their graphs by hash, beside the runs that follow them: to decide about
    a run needs its graph, to start one needs to know what fits, and neither may have the workflow's code."""

    async def put_workflow(self, loaded: WorkflowRecord, graph: bytes) -> None:
        """Keep a workflow that was loaded, and its graph: from now on it is the one of its name and version. What is there
        already is not written again. The store says when it was loaded, whatever `loaded` says."""
        ...

    async def workflow(self, name: str, version: int | None = None) -> WorkflowRecord:
        """The workflow of this name and version, or of the highest version that there is. Raises NotFound."""
        ...

    async def workflows(
        self, *, after: tuple[str, int] | None = None, limit: int = MOST_LISTED
    ) -> Sequence[WorkflowRecord]:
        """All of them by name, the highest version first; with `after` those that come after this name and version."""
        ...

    async def graph(self, graph_hash: str) -> bytes:
        """Raises NotFound."""
        ...


class Sessions(Protocol):
    """The leases of processes. Death is one-way: a session that was once found dead never lives again."""

    async def open(self, session: SessionId, label: str, hashes: Sequence[str], described: bytes | None = None) -> None:
        """Begin a session that can run the workflows of these hashes, and keep it alive by itself until it is closed.
        `described` is what it says of itself, for those who ask."""
        ...

    async def widen(self, session: SessionId, hashes: Sequence[str]) -> None:
        """Say that this process's session can from now on run the workflows of these hashes, and no others."""
        ...

    async def describe(self, session: SessionId, described: bytes) -> None:
        """Keep what it says of itself, for those who ask; instead of what it said before."""
        ...

    async def described(self) -> Sequence[bytes]:
        """What the sessions say of themselves that are not known to be dead."""
        ...

    async def able(self, hashes: Sequence[str]) -> int:
        """How many living sessions can run one of these workflows."""
        ...

    async def able_until_ms(self, hashes: Sequence[str]) -> int | None:
        """When the latest of the dead sessions died that could run one of these workflows; None where none is remembered."""
        ...

    async def labels(self, sessions: Collection[SessionId]) -> Mapping[SessionId, str]:
        """What the processes of these sessions are called, of those that are still remembered."""
        ...

    async def close(self, session: SessionId) -> None:
        """End it; whatever it still had in flight counts as lost."""
        ...

    async def renew(self, session: SessionId) -> bool:
        """Extend this process's own lease now; False if it was found dead, and so is dead for ever."""
        ...

    def alive(self, session: SessionId) -> bool:
        """Whether this process's own session still holds its lease now, by a clock that counts sleep. No I/O."""
        ...

    async def expire(self) -> frozenset[SessionId]:
        """Find sessions that are dead (marking the expired ones so, for ever) and still have work in flight."""
        ...


class DueRun(msgspec.Struct, frozen=True):
    """A run that somebody must look at, and the dead sessions that it still waits for."""

    run: RunId
    graph_hash: str
    due_at_ms: int | None
    tenant: str
    started_by: str | None
    dead: frozenset[SessionId] = frozenset()


class Unplaced(msgspec.Struct, frozen=True):
    """A run with steps that are to be placed, as its row says it: `waiting_for` has their demands. `place` is its place
    in line."""

    place: int
    run: RunId
    tenant: str
    workflow: str
    graph_hash: str
    waiting_for: bytes
    started_by: str | None


class RunFilter(TypedDict, total=False):
    """Which runs a list is to have; what is not said, or None, is any. Times are those of a run's start."""

    prefix: str | None
    """How the run's id begins."""
    tenant: str | None
    workflow: str | None
    status: str | Sequence[str] | None
    """One, or one of several."""
    key: str | None
    since_ms: int | None
    until_ms: int | None
    in_doubt: bool
    """Only those with money in doubt."""
    before: str | None
    """Only those older than this run."""
    limit: int


ANY_YAML: Final = "any workflow in YAML"
"""What a session says it can run, besides the workflows that it has, where it learns those in YAML from the store."""


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

    async def unplaced(self, after: int, limit: int) -> Sequence[Unplaced]:
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

    async def runs(self, **sought: Unpack[RunFilter]) -> Sequence[RunRow]:
        """Runs, newest first."""
        ...

    async def unended(self, hashes: Sequence[str]) -> int:
        """How many runs of these workflows have not ended."""
        ...

    async def gates(
        self, *, run: RunId | None = None, tenant: str | None = None, open_only: bool = True,
        after: GateId | None = None, limit: int = MOST_LISTED,
    ) -> Sequence[tuple[GateRow, GateChange | None]]:  # fmt: skip
        """Gates, oldest first, each with the latest that became of it; with `after` those that were opened after that one.
        Raises NotFound where the store has no gate `after`."""
        ...

    async def effects(
        self, *, run: RunId | None = None, tenant: str | None = None, state: str | None = None,
        after: CallId | None = None, limit: int = MOST_LISTED,
    ) -> Sequence[tuple[EffectRow, EffectChange | None]]:  # fmt: skip
        """The ledger, oldest first, each line with the latest that became of it; with `after` the lines after that call's.
        Raises NotFound where the ledger has no call `after`: its run may have been archived meanwhile."""
        ...


class Watch(Protocol):
    """Tells that somebody else may have written."""

    async def changed(self, timeout_s: float) -> bool:
        """Wait until another process may have committed, at most `timeout_s`; True if one may have."""
        ...


class TailEvent(msgspec.Struct, frozen=True):
    """An event as a tail tells it. A tail that begins at `cursor` goes on right after it."""

    run: RunId
    recorded: Recorded
    cursor: str


class Tail(Protocol):
    """Every committed event of all runs, once, in order within a run; for exports and live views.

    A cursor is a text that outlives processes: a reader that keeps it goes on from there, wherever.
    """

    async def after(self, cursor: str | None, limit: int) -> tuple[Sequence[TailEvent], str]:
        """At most `limit` events after `cursor` (None: from the oldest that the tail knows), and the cursor after them.
        Fewer say that everything was told that was committed when this was asked.

        Raises UsageError for a text that is no cursor, CursorLost where events after it may be unknown by now.
        """
        ...

    async def end(self) -> str:
        """The cursor after everything that is committed now."""
        ...


class StoreClock(Protocol):
    """The store's time, which those who share a store share too."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; it never runs backwards within a process."""
        ...


class Upkeep(Protocol):
    """Opened and closed, and kept in order meanwhile."""

    async def maintain(self) -> None:
        """Do what the store needs done now and then, by any process: rooms for the months to come, what is no longer
        needed. To be asked for about once an hour."""
        ...

    async def aclose(self) -> None:
        """End this process's sessions and let go of the store. May be called again."""
        ...


class Leadership(Protocol):
    """Who leads: at any moment at most one living session leads a lane of the fleet."""

    async def lead(self, lane: str, session: SessionId) -> bool:
        """Whether `session`, one of this process's own, leads `lane` now: it takes over from nobody, or from the dead."""
        ...

    async def is_led(self, lane: str) -> bool:
        """Whether a living session leads `lane`."""
        ...

    async def unended_hashes(self) -> Sequence[str]:
        """The workflows that have runs which have not ended, or have work in flight."""
        ...


class Store(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """All that the engine needs of a store: narrow ports onto one place, which were opened together.

    Whoever is made with one is made with those of its ports that it uses. One object may keep several of them.
    """

    clock: StoreClock
    log: Log
    graphs: Graphs
    scopes: Scopes
    lending: Lending
    costs: Costs
    job_logs: JobLogs
    blobs: Blobs
    sessions: Sessions
    views: Views
    watch: Watch
    tail: Tail
    upkeep: Upkeep
    leadership: Leadership | None = None
    """None where no fleet can share the store."""

    async def aclose(self) -> None:
        """Close it, for all its ports."""
        await self.upkeep.aclose()
