"""What the machine needs from outside, as short promises; each is kept by adapters that do not know one another.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn, Protocol, TypeVar, runtime_checkable

import msgspec

from holdfast.core.commands import Offer
from holdfast.core.costs import Cost, Uncounted
from holdfast.core.demand import Demand, Resources
from holdfast.core.estimates import Estimate, Use
from holdfast.core.events import Recorded
from holdfast.core.ids import AppendId, CallId, EffectKey, Path, RunId, Seq, SessionId, StepId, Unique
from holdfast.core.lanes import DEFAULT
from holdfast.core.lending import DeclaredPool, Grant, Share, Visit, Visitor
from holdfast.core.policies import ErrorRecord
from holdfast.core.projection import Changes, EffectChange, EffectRow, GateChange, GateRow, RunRow
from holdfast.core.quota import Answer, Letter, Pool, Standing, Want
from holdfast.core.scopes import ScopeRow, Waiting
from holdfast.core.state import OpenCall
from holdfast.errors import HoldfastError

T = TypeVar("T")

# --- Models -----------------------------------------------------------------------------------------------------------


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it. `parameters` is the JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class AnswerSpec(msgspec.Struct, frozen=True):
    """The shape an answer must have: the JSON Schema of an object. The reply's `answer` is such an object, unvalidated."""

    name: str
    description: str
    schema: dict[str, Any]


class ToolRequest(msgspec.Struct, frozen=True):
    """A model's wish to call a tool. `arguments` is the parsed object, or the raw string where it is not JSON."""

    id: str
    name: str
    arguments: Any


class ToolReply(msgspec.Struct, frozen=True):
    """What a tool answered, as the model reads it."""

    id: str
    name: str
    content: str
    is_error: bool = False


class UserTurn(msgspec.Struct, frozen=True, tag="user"):
    text: str


class ModelTurn(msgspec.Struct, frozen=True, tag="model"):
    """An earlier reply, in the form its adapter gave it (`ModelReply.turn`), to be replayed exactly."""

    replay: Any


class ToolTurn(msgspec.Struct, frozen=True, tag="tools"):
    """The answers to all tool requests of the turn before."""

    replies: tuple[ToolReply, ...]


Turn = UserTurn | ModelTurn | ToolTurn


class ModelRequest(msgspec.Struct, frozen=True):
    """One request to a model, complete: equal requests are equal bytes on the wire.

    `max_tokens` bounds the output and is always set. With `answer` the model must end with an object of that shape.
    """

    model: str
    system: str
    turns: tuple[Turn, ...]
    max_tokens: int
    tools: tuple[ToolSpec, ...] = ()
    answer: AnswerSpec | None = None
    temperature: float | None = None
    timeout_s: float = 600.0


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the provider counted them. `input_tokens` includes those read from and written to its cache."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class ModelReply(msgspec.Struct, frozen=True):
    """A complete reply. `usage` is None where the provider's figures are missing or unreadable.

    `answer` is the structured answer (its tool request, so that a repair can address it), None for plain text.
    `turn` is the reply for later requests; it round-trips through JSON.
    """

    text: str
    tool_requests: tuple[ToolRequest, ...]
    answer: ToolRequest | None
    usage: Usage | None
    finish_reason: str | None
    response_id: str | None
    turn: Any


class Model(Protocol):
    """Something that answers requests: a provider reached over its SDK, or a double of one."""

    async def prepare(self, model: str) -> None:
        """Load what calls of `model` need, before money is held for one. Raises ModelRefused for an unknown model."""
        ...

    async def request(self, request: ModelRequest) -> ModelReply:
        """Send `request` exactly once, never retrying.

        Raises ModelRefused (ModelRateLimited) when certainly nothing was spent, ModelUncertain when nobody can know.
        """
        ...


# --- Provider pools ---------------------------------------------------------------------------------------------------


class Shares(msgspec.Struct, frozen=True):
    """What a call was lent of its pools. Once the Clock port shows `expires_at_s`, others may be lent its slots: the
    call must be over by then."""

    id: str
    wants: tuple[Want, ...]
    expires_at_s: float


class Pools(Protocol):
    """Lends what providers limit to calls, each from all its pools or from none. Calls wait; they do not fail."""

    async def reserve(self, wants: Sequence[Want], *, deadline_s: float, priority: int = 0) -> Shares:
        """Wait until all of `wants` are lent: a higher priority goes first, and within one whoever came first.

        `deadline_s`: how long after this returns the call can still be running; its slots come back then, even if this
        process is dead. Whoever is cancelled while waiting leaves nothing behind. Raises PoolLineFull when too many wait
        already, UsageError where a pool lends nothing for so long.
        """
        ...

    def give_back(self, shares: Shares, used: Mapping[str, int]) -> None:
        """The call is over: its slots come back at once, and of each rate in `used` what the call did not use. Where it
        used more, that is charged. Rates that are not in `used` were used as they were lent."""
        ...

    def close(self, pool: Pool, for_s: float) -> None:
        """Its provider takes no more for so long: nothing is lent of it meanwhile, by anybody."""
        ...

    async def show(self, pools: Sequence[Pool]) -> Sequence[Standing]: ...

    async def aclose(self) -> None:
        """Tell what is still to be told; nobody waits any more."""
        ...


class PoolAuthority(Protocol):
    """The one place where pools are counted, as a process visits it. Its own clock decides, never the visitor's."""

    poll_s: float
    """How often to come by while waiting, beside the times that an answer names."""

    async def visit(self, letter: Letter) -> Answer:
        """Take in all that `letter` says, serve those who wait, and answer. To be said again after PoolsAway."""
        ...

    def call(self, holder: str, ring: Callable[[], None]) -> None:
        """Have `ring` called when another's visit may have granted something to `holder`. It may be called for nothing,
        and a call may be lost."""
        ...

    async def show(self, pools: Sequence[str]) -> Sequence[Standing]: ...

    async def aclose(self) -> None: ...


# --- The store --------------------------------------------------------------------------------------------------------


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

    async def run_of_key(self, tenant: str, key: str) -> tuple[RunId, str] | None:
        """The run that was started under this key, and the digest of its input."""
        ...


class Scopes(Protocol):
    """The books of scopes above runs (core.scopes): what appends move in them, up to which limit, and who waits.

    Books are moved by appends alone, in the transaction of the append: its scopes' rows are locked in the order of
    their keys, and charges are taken in the order of the appends, so that a flush writes each row once. An append that
    has a bounded charge above zero that would bring a scope's settled + held + in doubt above its limit is refused as a
    whole with OverLimit; every other charge is taken. For a charge `in_turn` it counts as used what those want who wait
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

    async def scopes(self, names: Sequence[str]) -> Sequence[ScopeRow]:
        """The books of these scopes, in the order asked for; empty ones where nothing was ever charged."""
        ...

    async def waiting(self, scopes: Sequence[str], limit: int) -> Sequence[Waiting]:
        """Who waits in these scopes, longest first."""
        ...

    async def room(self, limit: int) -> Sequence[Waiting]:
        """Who waits, longest first, in a scope that has room for it alone.

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
        """Who has how much of a pool, by holder, for whoever asks. The dead are among them until somebody visits."""
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

    async def costs(self, first_day: str, last_day: str, *, tenant: str | None = None) -> Sequence[Cost]:
        """The roll-up of the days from `first_day` to `last_day` (`2026-11-21`), in order."""
        ...


class Blobs(Protocol):
    """Large payloads, each kept for a tenant and a month, by the sha256 of its content."""

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        """Store `content` durably, before any event names it; what is there already is not stored again. Returns its hash.

        Raises StoreError: then nothing may name it.
        """
        ...

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        """What was put there; no tenant is given what only another has put. Whoever asks checks it against its hash.

        Raises NotFound where there is none, StoreError where nobody can know for now.
        """
        ...


class BlobPlace(Blobs, Protocol):
    """A place for large payloads beside the store's own tables. It belongs to one store."""

    async def prune(self, before: str, kept: Collection[str]) -> int:
        """Remove what is kept for the months before `before` (`2026-09`), but for the hashes `kept`; how many bytes that
        were. It may be interrupted anywhere and be done again; what is no payload is left alone. Raises StoreError."""
        ...


class Graphs(Protocol):
    """The graphs of workflows by their hash, beside the runs that follow them: whoever decides about a run needs its
    graph, and may not have the workflow's code."""

    async def put_graph(self, graph_hash: str, encoded: bytes) -> None: ...

    async def graph(self, graph_hash: str) -> bytes:
        """Raises NotFound."""
        ...


class Sessions(Protocol):
    """The leases of processes. Death is one-way: a session that was once found dead never lives again."""

    async def open_session(
        self, session: SessionId, label: str, hashes: Sequence[str], described: bytes | None = None
    ) -> None:
        """Begin a session that can run the workflows of these hashes, and keep it alive by itself until it is closed.
        `described` is what it says of itself, for those who ask."""
        ...

    async def widen_session(self, session: SessionId, hashes: Sequence[str]) -> None:
        """Say that this process's session can from now on run the workflows of these hashes, and no others."""
        ...

    async def describe_session(self, session: SessionId, described: bytes) -> None:
        """Keep what it says of itself, for those who ask; instead of what it said before."""
        ...

    async def described(self) -> Sequence[bytes]:
        """What the sessions say of themselves that are not known to be dead."""
        ...

    async def close_session(self, session: SessionId) -> None:
        """End it; whatever it still had in flight counts as lost."""
        ...

    async def renew_session(self, session: SessionId) -> bool:
        """Extend this process's own lease now; False if it was found dead, and so is dead for ever."""
        ...

    def alive(self, session: SessionId) -> bool:
        """Whether this process's own session still holds its lease now, by a clock that counts sleep. No I/O."""
        ...

    async def bury(self) -> frozenset[SessionId]:
        """Find sessions that are dead (marking the expired ones so, for ever) and still have work in flight."""
        ...


class DueRun(msgspec.Struct, frozen=True):
    """A run that somebody must look at, and the dead sessions that it still waits for."""

    run: RunId
    graph_hash: str
    due_at_ms: int | None
    tenant: str
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


class Views(Protocol):
    """The rows beside the history, as lists and the sweep read them."""

    async def due(self, now_ms: int, hashes: Sequence[str], limit: int) -> Sequence[DueRun]:
        """Runs of these workflows that are due, or have work in flight in dead sessions; longest due first."""
        ...

    async def stranded(self, before_ms: int, limit: int) -> Sequence[DueRun]:
        """Runs that have been due, or have had work in flight in a dead session, since `before_ms` or longer, and whose
        workflow no session that lived after that moment could run. Left out are those about which a gate of reason
        `workflow_missing` is open. (Whoever asks has buried the dead first.)"""
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

    async def runs(
        self, *, tenant: str | None = None, workflow: str | None = None, status: str | None = None,
        before: RunId | None = None, limit: int = 100,
    ) -> Sequence[RunRow]:  # fmt: skip
        """Runs, newest first, `before` one of them."""
        ...

    async def unended(self, hashes: Sequence[str]) -> int:
        """How many runs of these workflows have not ended."""
        ...

    async def gates(
        self, *, run: RunId | None = None, open_only: bool = True, limit: int = 100
    ) -> Sequence[tuple[GateRow, GateChange | None]]:
        """Gates, oldest first, each with the latest that became of it."""
        ...

    async def effects(
        self, *, run: RunId | None = None, state: str | None = None, limit: int = 100
    ) -> Sequence[tuple[EffectRow, EffectChange | None]]:
        """The ledger, oldest first, each line with the latest that became of it."""
        ...


class Watch(Protocol):
    """Tells that somebody else may have written."""

    async def changed(self, timeout_s: float) -> bool:
        """Wait until another process may have committed, at most `timeout_s`; True if one may have."""
        ...


class Told(msgspec.Struct, frozen=True):
    """An event as a tail tells it. A tail that begins at `cursor` goes on right after it."""

    run: RunId
    recorded: Recorded
    cursor: str


class Tail(Protocol):
    """Every committed event of all runs, once, in order within a run; for exports and live views.

    A cursor is a text that outlives processes: whoever keeps it goes on from there, wherever.
    """

    async def tail(self, cursor: str | None, limit: int) -> tuple[Sequence[Told], str]:
        """At most `limit` events after `cursor` (None: from the oldest that the tail knows), and the cursor after them.
        Fewer say that everything was told that was committed when this was asked.

        Raises UsageError for a text that is no cursor, CursorLost where events after it may be unknown by now.
        """
        ...

    async def tail_end(self) -> str:
        """The cursor after everything that is committed now."""
        ...


class Store(Log, Graphs, Scopes, Lending, Costs, Blobs, Sessions, Views, Watch, Tail, Protocol):
    """All that the engine needs of a store. One object may keep all these promises, or several behind one face."""

    def now_ms(self) -> int:
        """The store's time, milliseconds since the epoch; it never runs backwards within a process."""
        ...

    async def tend(self) -> None:
        """Do what the store needs done now and then, whoever does it: rooms for the months to come, what is no longer
        needed. To be asked for about once an hour."""
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class Lanes(Protocol):
    """Who leads: at any moment at most one living session leads a lane of the fleet."""

    async def lead(self, lane: str, session: SessionId) -> bool:
        """Whether `session`, one of this process's own, leads `lane` now: it takes over from nobody, or from the dead."""
        ...

    async def is_led(self, lane: str) -> bool:
        """Whether a living session leads `lane`."""
        ...

    async def able(self, graph_hash: str) -> int:
        """How many living sessions can run this workflow."""
        ...

    async def unended_hashes(self) -> Sequence[str]:
        """The workflows that have runs which have not ended, or have work in flight."""
        ...


# --- The queue --------------------------------------------------------------------------------------------------------


class PlacedStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step that is to be placed, or was; then all amounts of pools in its demand are known."""

    run: RunId
    step: StepId
    tenant: str
    workflow: str
    graph_hash: str
    demand: Demand


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run with something to do for whoever can run its workflow; `dead` are dead sessions that it still waits for.

    Offered, `steps` are to be placed; handed to a worker, they were placed with it. `looks`: the run has something to do
    besides them.
    """

    run: RunId
    graph_hash: str
    dead: frozenset[SessionId] = frozenset()
    tenant: str = ""
    steps: tuple[PlacedStep, ...] = ()
    looks: bool = True


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a worker says of itself: the workflows it can run, its slots, and how many of them are free, those left out
    that are kept for jobs it has taken. `taken` counts all of these so far: what was placed with it and is not among
    them is still on its way, and needs a slot too. `held` are the placed steps that it has and is not done with, `connected`
    the workers that do steps for it, with the tasks that they offer as their `hashes`."""

    worker: SessionId
    hashes: tuple[str, ...]
    slots: int
    free: int
    taken: int = 0
    labels: tuple[str, ...] = ()
    resources: Resources = Resources()
    held: tuple[PlacedStep, ...] = ()
    connected: tuple[Report, ...] = ()


class Handed(msgspec.Struct, frozen=True):
    """A job in somebody's hands, to be acknowledged by its `receipt`; none where the leader found it by itself."""

    job: Job
    receipt: str


class Queue(Protocol):
    """Hints between the processes of a fleet. Any of them may be lost, late or told twice: the store has the truth, and
    the sweep finds in it what nobody was told of. So nothing here raises for a queue that cannot be reached.

    Whoever leads or works belongs to one lane. Jobs go to the lane's leader, from there to workers; each is kept until it is
    acknowledged, and comes to others when its holder is dead. News of runs go to everybody.
    """

    async def offer(self, jobs: Sequence[Job], lane: str = DEFAULT) -> None:
        """Tell the leader of a lane of runs that want a worker."""
        ...

    async def report(self, report: Report) -> None:
        """Tell the leader what a worker has free."""
        ...

    async def tell(self, seqs: Mapping[RunId, Seq]) -> None:
        """Tell everybody how far these runs are, because somebody else may wait for it."""
        ...

    async def news(self) -> Mapping[RunId, Seq]:
        """Wait for what others tell; empty when some of it may have been missed."""
        ...

    async def offered(self, leader: SessionId) -> Sequence[Handed]:
        """Wait for jobs, as the lane's leader; first those that the leader before it has left."""
        ...

    async def reported(self) -> Sequence[Report]:
        """Wait for what workers say of themselves; first the latest of each."""
        ...

    async def place(self, worker: SessionId, placed: Sequence[Handed]) -> None:
        """Hand jobs on to a worker: from now on they are its own to acknowledge."""
        ...

    async def drop(self, useless: Sequence[Handed]) -> None:
        """These that were offered need no worker: their run waits already, or there is no room for them."""
        ...

    async def placed(self, worker: SessionId) -> Sequence[Handed]:
        """Wait for jobs, as a worker."""
        ...

    async def acknowledge(self, worker: SessionId, done: Sequence[Handed]) -> None:
        """These were taken up, durably, or there was nothing to take up."""
        ...

    async def reclaim(self, worker: SessionId) -> Sequence[Job]:
        """What a dead or departed worker has not acknowledged; nobody else is given it."""
        ...

    async def aclose(self) -> None: ...


# --- The store as a whole ---------------------------------------------------------------------------------------------


class MonthStanding(msgspec.Struct, frozen=True):
    """The runs that were started in a month of UTC (`2026-09`), and where their histories are.

    `state`: open (in the tables), archived, pruned (removed for good), or partly archived, where an archiving was
    interrupted or something was written after it. `stored_bytes` is what they take on the disk, None where nobody knows.
    """

    month: str
    state: str
    runs: int
    unended: int
    events: int
    stored_bytes: int | None


class SessionStanding(msgspec.Struct, frozen=True):
    """A process that holds a lease. `version` is that of the tables that its code knows, None where all know the same."""

    session: SessionId
    label: str
    opened_at_ms: int
    version: int | None


class StoreStanding(msgspec.Struct, frozen=True):
    """How a store is. `version` is that of its tables, 0 where there are none yet; `pending` are the migrations that it has
    not had. What needs tables is left at its default while there are none that this version can read."""

    store: str
    version: int
    known: int
    pending: tuple[str, ...]
    now_ms: int
    months: tuple[MonthStanding, ...] = ()
    sessions: tuple[SessionStanding, ...] = ()
    blobs: int = 0
    blob_bytes: int = 0
    oldest_unended: RunRow | None = None


class Holder(msgspec.Struct, frozen=True):
    """A run that keeps its month from being archived. `why`: unended, money (held or in doubt), call (in flight), effect
    (of unknown outcome)."""

    run: RunId
    tenant: str
    workflow: str
    status: str
    started_at_ms: int
    why: str


class Freed(msgspec.Struct, frozen=True):
    """What was archived or removed. `stored_bytes` is the size of the archives or blobs."""

    runs: int
    events: int
    stored_bytes: int


class Administration(Protocol):
    """What a person does to a store as a whole. Every deed may be interrupted anywhere and be done again."""

    async def standing(self) -> StoreStanding: ...

    async def migrate(self, part: str | None) -> Sequence[str]:
        """Apply the migrations that the store has not had: those of `before` the deployment, of `after` it, or both; their
        names. Raises Conflict, with nothing of it done, where `after` would break processes that still run."""
        ...

    async def archive(self, month: str) -> Freed:
        """Take the histories of a month that is over out of the tables, into blobs; they are read from there. Raises MonthHeld
        where runs of it may still go on, UsageError where the month is not over or the store has no months."""
        ...

    async def prune(self, before: str) -> Freed:
        """Remove for good the archives of all months before that one, with their blobs. Raises MonthHeld where one of them
        has not been archived."""
        ...

    async def aclose(self) -> None: ...


# --- Time and chance --------------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Time as the engine feels it."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that counts sleep and never jumps."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """New names."""

    def run(self, now_ms: int) -> RunId:
        """A UUIDv7 of that time."""
        ...

    def session(self) -> SessionId: ...

    def append(self) -> AppendId: ...


class Threads(Protocol):
    """Where users' functions run. A plain one cannot be stopped: `abandoned` of them have been given up and still run.

    `on_return` is called, in the event loop, whenever an abandoned one has come back.
    """

    abandoned: int
    on_return: Callable[[], None]

    async def run(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """What `function` returns; awaited too where that is awaitable."""
        ...

    def close(self) -> None:
        """Begin nothing more. What still runs is not waited for."""
        ...


# --- Connected workers ------------------------------------------------------------------------------------------------


class Work(msgspec.Struct, frozen=True):
    """A step's work for a connected worker. `job` names the attempt: no two are the same."""

    job: str
    task: str
    arguments_json: bytes
    timeout_s: float | None = None
    pools: Mapping[str, int] = {}
    """What was reserved for it of pools, by their names."""


class Calls(Protocol):
    """What a worker may ask for while it works: what has to be journaled is done here. `number` is the call's place in the
    step, counted by the worker: the same one in a later attempt gets the recorded outcome.

    A call raises StepError where it failed, which is the worker's to hear. Anything else that it raises ends the work.
    """

    run: RunId
    step: StepId

    async def model(
        self, number: int, model: str, user: Any, *, system: str, max_tokens: int | None, temperature: float | None
    ) -> Any:
        """One model call: its text."""
        ...

    async def tool(self, number: int, name: str, arguments: Any, *, key: str | None) -> Any:
        """One call of a tool that the node lists."""
        ...

    def redact(self, text: str) -> str:
        """`text` without the values of secrets."""
        ...


class Hands(Protocol):
    """The workers that are connected to this process."""

    async def perform(self, place: str, work: Work, calls: Calls) -> Any:
        """Have `work` done by the worker `place`; what came of it, as JSON data. To be cancelled, it is called off there too.

        Raises RemoteFailed or the StepError of one of `calls` where the work failed, PlaceLost where its worker is gone.
        """
        ...


# --- The journal ------------------------------------------------------------------------------------------------------


class Recall(msgspec.Struct, frozen=True):
    """What a journal holds at a place: an outcome, an error, or a call whose outcome the tool itself must be asked for."""

    value: Any = None
    error: ErrorRecord | None = None
    unverified: OpenCall | None = None
    call: CallId | None = None


class Pace(Protocol):
    """Keeps a step's model calls within what was reserved for it."""

    def call(self, names: Collection[str]) -> AbstractAsyncContextManager[None]:
        """Inside, one call may be on its way to a model that has these names. Waits until it may leave."""
        ...

    def used(self, names: Collection[str], usage: Usage) -> None:
        """What an answered call has taken of tokens."""
        ...


class Journal(Protocol):
    """One step's journal, for those who make its calls: an intent before each call, its outcome after.

    Whatever waits (for money, for a person, for another's call) leaves the step by an exception of the engine's own,
    which is to be let through.
    """

    run: RunId
    tenant: str

    @property
    def pace(self) -> Pace | None:
        """None where nothing was reserved for the step."""
        ...

    async def recall(self, path: Path, kind: str, name: str, args_hash: str) -> Recall | None:
        """What stands at `path`; None if the operation is to be made. Raises NonDeterministicStep for another one."""
        ...

    def error(
        self, error_class: str, message: str, *, retryable: bool = False, tool: str | None = None,
        retry_after_s: float | None = None,
    ) -> ErrorRecord:  # fmt: skip
        """An error of this step, at this moment, with secrets taken out of its message."""
        ...

    def may_send(self) -> bool:
        """Whether this process still holds its lease: to be asked right before a call leaves."""
        ...

    async def outside(self, call: Coroutine[Any, Any, T]) -> T:
        """Make an outside call and record its outcome, so that what has left brings it home even when nobody waits."""
        ...

    async def hold(self, path: Path, model: str, args_hash: str, offers: Sequence[Offer]) -> tuple[CallId, int]:
        """The call that may now be made, and which of the offers it is: the first that fits the money that is left."""
        ...

    async def settle(self, call: CallId, cost_nanousd: int, input_tokens: int, output_tokens: int, output: Any) -> Any:
        """Returns `output` as the journal keeps it: what a replay would return."""
        ...

    async def refuse(self, call: CallId, error: ErrorRecord) -> None: ...

    async def unsent(self, call: CallId, error: ErrorRecord) -> NoReturn:
        """The call never left, for a reason of this process's own: gives the money back and leaves the step, whose next
        attempt makes the call."""
        ...

    async def withdraw(self, call: CallId, error: ErrorRecord) -> None:
        """The call was certainly not made, and will be later: gives its money back, durably, and leaves its place in the
        journal open for the next."""
        ...

    async def doubt(self, call: CallId, error: ErrorRecord, output: Any = None, *, reopens: bool = False) -> Any:
        """`reopens`: nobody has heard of an outcome, so the next attempt makes another call instead of an error."""
        ...

    async def intend(
        self, path: Path, tool: str, policy: str, args_hash: str, request: Any, *, key_name: str | None, unique: Unique,
        settles_within_s: float | None, compensation: str | None, compensates: CallId | None,
    ) -> CallId | Recall:  # fmt: skip
        """The call that may now be made; a Recall where a named effect already has its outcome. `unique` says how far
        the name reaches."""
        ...

    def key_of(self, call: CallId) -> EffectKey: ...

    def sent_at_ms(self, call: CallId) -> int: ...

    async def complete(self, call: CallId, response: Any) -> Any:
        """Returns `response` as the journal keeps it."""
        ...

    async def fail(self, call: CallId, error: ErrorRecord) -> None: ...

    async def release(self, call: CallId) -> NoReturn:
        """The call never left. Leaves the step: whoever holds the lease goes on with it."""
        ...

    async def doubt_effect(self, call: CallId, error: ErrorRecord, *, reopens: bool = False) -> None:
        """`reopens`: nobody has heard of an outcome, so the next attempt calls again where a repeat is harmless."""
        ...

    async def reopen(self, call: CallId) -> None: ...

    def abandon(self, error: ErrorRecord) -> NoReturn:
        """Fail the attempt, whatever its code makes of errors: this one is in no journal, so no replay would see it."""
        ...

    async def deny(self, path: Path, tool: str, args_hash: str, error: ErrorRecord) -> None: ...

    async def approve(self, path: Path, tool: str, args_hash: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Ask a person about a call: `{"decision", "data", "by", "reason"}`."""
        ...

    async def wait_until(self, path: Path, due_at_ms: int) -> None: ...
