"""A store in memory that several simulated processes share, as they would share a disk.

It keeps what holdfast.ports says of a store as SqliteStore does, and breaks at its seams as a disk does. What is
committed is kept encoded: nobody gets back the object that he put in. Never here: which faults there are, or when.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from statistics import fmean
from typing import Any, Final, Protocol, TypeVar, Unpack

import msgspec

from holdfast.core.capacity.estimates import Estimate, Use, learned
from holdfast.core.capacity.lending import DeclaredPool, Grant, Life, PoolRow, Share, Visit, Visitor, declared, lend
from holdfast.core.facts.costs import (
    BEFORE_ALL,
    Cost,
    CostField,
    CostKey,
    CostProgress,
    CostSum,
    HourCost,
    LabelCost,
    RunCost,
    UncountedRun,
)
from holdfast.core.facts.events import Recorded, decode, encode
from holdfast.core.facts.extra_costs import ExtraCost, ExtraField, ExtraSum, RunCosts
from holdfast.core.nouns import model_estimates
from holdfast.core.nouns.conversations import Change, Conversation, ConversationTurn
from holdfast.core.nouns.evaluations import Evaluation, ScenarioResult
from holdfast.core.nouns.labels import BEFORE_ALL_COUNTS, CountKey, LabelCount, Pair
from holdfast.core.nouns.model_estimates import ModelEstimate, ModelUse
from holdfast.core.nouns.schedules import Schedule
from holdfast.core.nouns.scores import Score, ScoreMean, counting
from holdfast.core.nouns.shared_values import SharedIndex, SharedValue, unpacked, words_of
from holdfast.core.nouns.supervision import KEPT_MS, Supervisor, Task, due_at_ms
from holdfast.core.nouns.supervision import Change as Supervised
from holdfast.core.nouns.team_budgets import TeamAgent, allotted
from holdfast.core.rules.questions import WORKFLOW_MISSING
from holdfast.core.values.audit import FIRST, Entry, Head, Link, head_of, link
from holdfast.core.values.ids import AppendId, CallId, EffectKey, GateId, RunId, Seq, SessionId, StepId
from holdfast.core.values.payload import Payload
from holdfast.core.values.scopes import PLACEMENT, AgentRow, ScopeRow, ScopeWaiter, budget_of, family_of
from holdfast.core.views.notifications import Delivery, DeliveryState, Rule
from holdfast.core.views.projection import (
    Changes,
    ChildChange,
    ChildOrder,
    ChildRow,
    EffectChange,
    EffectRow,
    GateChange,
    GateRow,
    KeyClaim,
    RunRow,
    SharedChange,
    SharedWaitRow,
)
from holdfast.errors import (
    Conflict,
    CursorLost,
    EffectKeyTaken,
    HoldfastError,
    KeyReused,
    NotFound,
    OverLimit,
    SeqConflict,
    SharedLockLost,
    SharedValueMoved,
    StoreBusy,
    StoreError,
    UnknownCommit,
    Unstorable,
    UsageError,
)
from holdfast.ports import (
    MAX_LABELLED,
    MAX_LISTED,
    OF_NONE,
    ApiKey,
    Append,
    ArchivedRun,
    AuditFilter,
    ChannelFigures,
    ChildLink,
    Chunk,
    Claimed,
    CostFilter,
    CostSumFilter,
    DeliveryFilter,
    DueRun,
    EffectFilter,
    ExtraFilter,
    FollowerRow,
    GateFilter,
    History,
    KeptSchedule,
    Letter,
    LetterCount,
    LetterFilter,
    LogPiece,
    LogPlace,
    PendingRequest,
    Piece,
    Reply,
    RunFilter,
    ScoreFilter,
    SharedArrival,
    SharedEntry,
    SharedFound,
    SignIn,
    SnapshotRecord,
    Store,
    StoreCounts,
    StreamName,
    StreamUpdate,
    TailEvent,
    UnplacedRun,
    WorkflowRecord,
)
from holdfast.stores import books
from holdfast.stores.nouns.workflows import no_workflow

LEASE_S: Final = 10.0
RENEWED_EVERY_S: Final = 2.0
WAIT_S: Final = 30.0
"""How long to wait for another process that holds the store, before an error says so."""
_LINE_S: Final = 1.0
"""How often to look at those who stand in line to be placed: less often than in the world, so that long waits stay short, and
ever less often where nobody has written anything for minutes: a script may hang for six hours."""
_LARGEST: Final = 2**63
_OVERDUE_S: Final = 1.0
"""How often a patient listener looks at what is due and cannot be taken up: all slots are busy."""


Row = TypeVar("Row")


class Weather(Protocol):
    """What may go wrong between a process and its disk. Each of these may also be the process's last moment."""

    async def reach(self, seam: str) -> None:
        """On the way to the disk: takes time; raises StoreError where nothing will have been done."""
        ...

    async def answer(self, seam: str) -> None:
        """On the way back: takes time."""
        ...

    def loses_request(self) -> bool:
        """Whether a commit gets lost before it is made, without anybody hearing of it."""
        ...

    def loses_reply(self) -> bool:
        """Whether a commit's reply gets lost."""
        ...


class FairWeather:
    """Nothing goes wrong, and nothing takes time."""

    async def reach(self, seam: str) -> None:
        await asyncio.sleep(0)

    async def answer(self, seam: str) -> None:
        pass

    def loses_request(self) -> bool:
        return False

    def loses_reply(self) -> bool:
        return False


class Line(msgspec.Struct):
    """An event on the disk."""

    append_id: AppendId
    at_ms: int
    event: bytes
    trace_id: str | None


class Kept(msgspec.Struct):
    """A run on the disk."""

    row: RunRow
    number: int
    lines: list[Line] = []
    sessions: tuple[SessionId, ...] = ()
    snapshot: SnapshotRecord | None = None


class Lease(msgspec.Struct):
    """A session on the disk. `stalls` are the times (from, until) in which its process could not renew it."""

    session: SessionId
    opened_s: float
    hashes: tuple[str, ...] = ()
    """The workflows that its process can run."""
    stalls: list[tuple[float, float]] = []
    unlocked: bool = False
    dead_at_ms: int | None = None
    died_s: float | None = None
    described: bytes | None = None
    label: str = ""

    def renewals(self, now_s: float) -> float:
        """When it was renewed last: as it happened, not as the disk has it, for nobody renews the dead."""
        number = int((now_s - self.opened_s) / RENEWED_EVERY_S)
        last_s = self.opened_s + number * RENEWED_EVERY_S
        for from_s, until_s in reversed(self.stalls):
            if from_s <= last_s < until_s:
                if now_s >= until_s:
                    return until_s  # the first thing it does when it can
                last_s = self.opened_s + int((from_s - self.opened_s) / RENEWED_EVERY_S) * RENEWED_EVERY_S
        return last_s

    def known_dead(self, now_s: float) -> bool:
        """Whether its own process has found out that somebody took it for dead."""
        return self.died_s is not None and self.renewals(now_s) >= self.died_s

    def lasts(self, now_s: float) -> bool:
        """Whether the lease is not over, as it stands on the disk."""
        last_s = self.renewals(now_s) if self.died_s is None else min(self.renewals(now_s), self.died_s)
        return now_s - last_s < LEASE_S

    def over_s(self, now_s: float) -> float:
        """When the lease will be over if nothing more is heard of its process."""
        return self.renewals(now_s) + LEASE_S


class Disk:
    """What outlives every process."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        """`clock_s` is the time since the machine was started, which all processes read alike."""
        self.clock_s = clock_s
        self.wall_offset_ms = 1_700_000_000_000
        self.away_until_s = 0.0
        """Until when nobody can reach it."""
        """What the machine's clock is set to at second 0 of `clock_s`."""
        self.runs: dict[RunId, Kept] = {}
        self.order: list[tuple[RunId, int]] = []
        """Every event, in the order of the commits."""
        self.keys: dict[tuple[str, str], tuple[RunId, str]] = {}
        self.gates: dict[GateId, tuple[GateRow, GateChange | None]] = {}
        self.labels: dict[RunId, tuple[Pair, ...]] = {}
        self.letters: dict[tuple[RunId, StepId], Letter] = {}
        self.effects: dict[CallId, tuple[EffectRow, EffectChange | None]] = {}
        self.scopes: dict[str, ScopeRow] = {}
        """Books, without their limits."""
        self.effect_keys: dict[EffectKey, tuple[KeyClaim, Payload | None]] = {}
        """Tenant-wide effect keys: who has each, and what came of it."""
        self.costs: dict[tuple[str, ...], HourCost] = {}
        self.counted: dict[RunId, Seq] = {}
        self.cost_progress: CostProgress | None = None
        self.extra_costs: list[ExtraCost] = []
        self.totals: dict[RunId, int] = {}
        self.job_logs: dict[LogPlace, bytes] = {}
        self.scores: dict[RunId, list[Score]] = {}
        self.api_keys: dict[tuple[str, str], ApiKey] = {}
        self.audit: list[Link] = []
        self.followers: dict[str, FollowerRow] = {}
        self.evaluations: dict[str, tuple[Evaluation, tuple[ScenarioResult, ...]]] = {}
        self.replies: dict[str, PendingRequest] = {}
        self.sign_ins: dict[str, SignIn] = {}
        self.streams: dict[StreamName, list[tuple[str, Chunk]]] = {}
        """The pieces of each, with their marks."""
        self.conversations: dict[tuple[str, str], Conversation] = {}
        self.said_ms: dict[tuple[str, str], int] = {}
        """When each has changed last."""
        self.shared_values: dict[tuple[str, str, str], list[SharedValue]] = {}
        self.shared_entries: dict[tuple[str, str, str], tuple[SharedIndex, int, int]] = {}
        """By what each value is found that was written so, how often it was used, and when."""
        self.shared_waits: dict[RunId, tuple[SharedWaitRow, ...]] = {}
        self.shared_locks: dict[tuple[str, str, str], tuple[int, int]] = {}
        """The fence that was given last, and until when it counts."""
        self.exchanges: dict[tuple[str, str, int], ConversationTurn] = {}
        self.supervisors: dict[tuple[str, str], Supervisor] = {}
        self.tasks: dict[tuple[str, str, str], Task] = {}
        self.schedules: dict[tuple[str, str], KeptSchedule] = {}
        self.on_schedule: Callable[[Schedule, Schedule], None] = lambda _, __: None
        self.pools: dict[str, PoolRow] = {}
        self.shares: dict[tuple[str, str, SessionId], Share] = {}
        self.estimates: dict[tuple[str, str, str], Estimate] = {}
        self.model_estimates: dict[tuple[str, str, str], ModelEstimate] = {}
        self.limits: dict[str, int] = {}
        self.priorities: dict[str, float] = {}
        """Of the agents of team budgets."""
        self.moved_ms: dict[str, int] = {}
        """When the books of scopes were moved last."""
        self.waiters: dict[tuple[str, RunId], int] = {}
        """What is wanted, by scope and run, longest waiting first."""
        self.children: dict[RunId, tuple[ChildLink, int]] = {}
        """Links between runs and their children, and when each has changed."""
        self.graphs: dict[str, bytes] = {}
        self.workflows: dict[tuple[str, int], WorkflowRecord] = {}
        self.submitted: dict[tuple[str, str, int], WorkflowRecord] = {}
        self.blobs: dict[tuple[str, str, str], bytes] = {}
        self.leases: dict[SessionId, Lease] = {}
        self.newest_ms = 0
        self.version = 0
        self._touched_s = 0.0
        self.owner: Mount | None = None
        self._queue: deque[asyncio.Future[None]] = deque()
        self._mounts: list[Mount] = []
        self.on_commit: Callable[[Mount, Append], None] = lambda _, __: None
        self.on_snapshot: Callable[[RunId, SnapshotRecord], None] = lambda _, __: None
        self.on_said: Callable[[Change], None] = lambda _: None
        self.on_supervised: Callable[[Supervised], None] = lambda _: None
        self.on_shared: Callable[[SharedChange], None] = lambda _: None
        self.on_score: Callable[[RunId, Score], None] = lambda _, __: None
        self.conflicts = 0

    # --- Writing ------------------------------------------------------------------------------------------------------

    def commit(self, by: Mount, appends: Sequence[tuple[Append, list[bytes]]]) -> list[HoldfastError | None]:
        """Write what is at its place; at once, as a transaction is."""
        fates: list[HoldfastError | None] = []
        for append, events in appends:
            fate = self._refusal(append)
            if fate is None and not self._is_there(append):
                self._write(append, events)
                self.on_commit(by, append)
            fates.append(fate)
        self.touched(by)
        return fates

    def _is_there(self, append: Append) -> bool:
        kept = self.runs.get(append.run)
        if kept is None or len(kept.lines) <= append.expected:
            return False
        return kept.lines[append.expected].append_id == append.append_id

    def _refusal(self, append: Append) -> HoldfastError | None:
        kept = self.runs.get(append.run)
        seq = len(kept.lines) if kept is not None else 0
        if seq != append.expected and not self._is_there(append):
            self.conflicts += 1
            return SeqConflict(
                f"Run {append.run} is at {seq}, not at {append.expected}.", run=append.run, expected=append.expected, seq=seq
            )
        key = append.changes.start_key
        if key is not None and (known := self.keys.get((key.tenant, key.key))) is not None and known[0] != append.run:
            return KeyReused(f"The start key {key.key!r} belongs to run {known[0]}.", key=key.key, run=known[0])
        return None if self._is_there(append) else (self._key_taken(append) or self._moved(append) or self._over_limit(append))

    def _key_taken(self, append: Append) -> EffectKeyTaken | None:
        for change in append.changes.effect_keys:
            owner, response = self.effect_keys.get(change.key, (None, None))
            if isinstance(change, KeyClaim) and owner is not None and owner.run != append.run:
                return EffectKeyTaken(
                    f"It is call {owner.call}.", key=owner.key, call=owner.call, args_hash=owner.args_hash, response=response
                )
        return None

    def _moved(self, append: Append) -> SharedValueMoved | SharedLockLost | None:
        bases: dict[tuple[str, str, str], int] = {}
        for change in append.changes.shared_values:
            name = (change.tenant, change.space, change.key)
            known = self.shared_values.get(name)
            if change.base != bases.get(name, known[-1].version if known else 0):
                return SharedValueMoved(f"{change.key} is not at {change.base}.")
            fence, expires_at_ms = self.shared_locks.get(name, (0, 0))
            if change.fence is not None and (fence, True) != (change.fence, expires_at_ms > append.events[-1].at_ms):
                return SharedLockLost(f"The lock {change.fence} on {change.key} is over.")
            bases[name] = change.base + 1
        return None

    def share(self, changes: Sequence[SharedChange]) -> None:
        for change in changes:
            name = (change.tenant, change.space, change.key)
            known = self.shared_values.pop(name, [])
            uses = self.shared_entries.pop(name, (None, 0, 0))[1:]
            if change.keep:
                self.shared_values[name] = [*known, msgspec.json.decode(change.body, type=SharedValue)][-change.keep :]
            if change.index is not None:
                self.shared_entries[name] = (change.index, *uses)
            for key in change.dropped:
                self.shared_values.pop((change.tenant, change.space, key), None)
                self.shared_entries.pop((change.tenant, change.space, key), None)

    def _use(self, changes: Changes) -> None:
        for use in changes.shared_uses:
            for name in [(use.tenant, use.space, key) for key in use.keys]:
                if name in self.shared_entries:
                    index, uses, used_at_ms = self.shared_entries[name]
                    self.shared_entries[name] = (index, uses + 1, max(used_at_ms, use.at_ms))

    def _write_keys(self, changes: Changes) -> None:
        for change in changes.effect_keys:
            if isinstance(change, KeyClaim):
                self.effect_keys[change.key] = (change, None)
            elif (known := self.effect_keys.get(change.key)) is not None and known[0].call == change.call:
                if change.response is None:
                    del self.effect_keys[change.key]
                else:
                    self.effect_keys[change.key] = (known[0], change.response)

    def _over_limit(self, append: Append) -> OverLimit | None:
        """Which scope has no room for what is to be charged; its run then waits there."""
        rows = {posting.scope: self.books(posting.scope) for posting in append.changes.postings}
        for posting in append.changes.postings:
            row = books.limited(rows, posting)
            ahead = self._ahead(posting.scope, append.run) if posting.in_turn else 0
            wanted = books.excess(row, posting, ahead)
            if wanted is None:
                continue
            if posting.waits:
                self.waiters[posting.scope, append.run] = wanted
            return books.over(append.run, row, wanted, ahead, self.agents(budget_of(posting.scope)))
        return None

    def agents(self, budget: str | None) -> list[AgentRow]:
        """The agents of a team budget, by name."""
        team = [scope for scope in sorted(self.limits) if budget is not None and budget_of(scope) == budget]
        return [self._agent(self.books(scope)) for scope in team]

    def _agent(self, row: ScopeRow) -> AgentRow:
        beside = self.priorities.get(row.scope, 1.0), self.moved_ms.get(row.scope, 0)
        return AgentRow(row.scope, row.limit, row.settled, row.held, row.in_doubt, *beside)

    def _others(self, scope: str) -> list[AgentRow]:
        """Who may lend to the agent of a scope."""
        return [each for each in self.agents(budget_of(scope)) if each.scope != scope]

    def _ahead(self, scope: str, run: RunId) -> int:
        """What they want who wait in a scope before `run`, or at all where it does not wait."""
        wanted = 0
        for (where, who), amount in self.waiters.items():
            if (where, who) == (scope, run):
                break
            wanted += amount if where == scope else 0
        return wanted

    def books(self, scope: str) -> ScopeRow:
        known = self.scopes.get(scope, ScopeRow(scope, None))
        return msgspec.structs.replace(known, limit=self.limits.get(family_of(scope)))

    def waiting(self) -> list[ScopeWaiter]:
        """Who waits in scopes, longest first."""
        return [ScopeWaiter(run, scope, wanted, self.books(scope).left) for (scope, run), wanted in self.waiters.items()]

    def _with_loans(self, waiting: ScopeWaiter) -> ScopeWaiter:
        """The same with what others of its team may lend."""
        if waiting.left is None:
            return waiting
        lendable = sum(max(each.left or 0, 0) // 2 for each in self._others(waiting.scope))
        return msgspec.structs.replace(waiting, left=waiting.left + lendable)

    def with_headroom(self) -> list[ScopeWaiter]:
        """Those of them whose scope has room for them alone, and those who are to be told that it can have none any more."""
        return [
            each
            for each in map(self._with_loans, self.waiting())
            if each.scope != PLACEMENT
            and (each.left is None or each.wanted <= each.left or self._is_in_vain(each))
            and not self._in_flight_elsewhere(each)
        ]

    def _is_in_vain(self, waiting: ScopeWaiter) -> bool:
        """Whether calls in flight can leave no room for it any more, and its run's status does not say so yet."""
        if waiting.left is None or waiting.scope == "fleet/runs" or re.fullmatch(r"tenant/[^/]*/runs", waiting.scope):
            return False
        return (
            waiting.wanted > waiting.left + sum(row.held for row in (self.books(waiting.scope), *self._others(waiting.scope)))
            and self.runs[waiting.run].row.status == "waiting"
        )

    def _in_flight_elsewhere(self, waiting: ScopeWaiter) -> bool:
        """Whether it waits for a tenant-wide effect that another run still has in flight."""
        owner, response = self.effect_keys.get(EffectKey(waiting.scope.removeprefix("effect/")), (None, None))
        return owner is not None and owner.run != waiting.run and response is None

    def _write(self, append: Append, events: list[bytes]) -> None:
        changes = append.changes
        kept = self.runs.get(append.run)
        if kept is None:
            kept = self.runs[append.run] = Kept(changes.run, len(self.runs), [])
        for recorded, event in zip(append.events, events, strict=True):
            kept.lines.append(Line(append.append_id, recorded.at_ms, event, recorded.trace_id))
            self.order.append((append.run, recorded.seq))
        kept.row, kept.sessions = changes.run, changes.sessions
        self.newest_ms = max(self.newest_ms, append.events[-1].at_ms)
        self._write_beside(changes)
        self._write_scopes(append.run, changes)
        self._write_keys(changes)
        for change in changes.children:
            self._move_children(change)

    def _move_children(self, change: ChildRow | ChildChange | ChildOrder) -> None:
        match change:
            case ChildRow():
                known, _ = self.children.get(change.child, (None, 0))
                link = known or ChildLink(change.child, change.parent, change.root, "", 0, 0)
                self.children[change.child] = msgspec.structs.replace(link, state="requested"), change.at_ms
            case ChildChange():
                link, _ = self.children[change.child]
                if link.state != "told":
                    self.children[change.child] = msgspec.structs.replace(link, state=change.state), change.at_ms
            case ChildOrder():
                for name, (link, _) in self.children.items():
                    if link.parent == change.parent and change.child in (None, name) and link.state != "told":
                        self.children[name] = msgspec.structs.replace(link, ordered=change.ordered), change.at_ms

    def _write_scopes(self, run: RunId, changes: Changes) -> None:
        for posting in changes.postings:
            if posting.limit is not None:
                self.limits[posting.family] = posting.limit
            if posting.limit_change and posting.family in self.limits:
                self.limits[posting.family] += posting.limit_change
            row = self.scopes.get(posting.scope, ScopeRow(posting.scope, None))
            self.scopes[posting.scope] = ScopeRow(
                posting.scope, None, row.settled + posting.settled, row.held + posting.held, row.in_doubt + posting.in_doubt
            )
        for scope, at_ms in books.moved_at_ms([changes]).items():
            self.moved_ms[scope] = max(self.moved_ms.get(scope, 0), at_ms)
        kept = {(waiter.scope, run): waiter.wanted for waiter in changes.waiters}
        for place in [place for place in self.waiters if place[1] == run and place not in kept]:
            del self.waiters[place]
        self.waiters |= kept

    def _write_gates(self, changes: Changes) -> None:
        for gate in changes.gates:
            self.gates.pop(gate.gate, None)
            self.gates[gate.gate] = (gate, None)
        for gate_change in changes.gate_changes:
            if gate_change.gate in self.gates:
                opened, before = self.gates[gate_change.gate]
                asks = opened.reviewers if gate_change.reviewers is None else gate_change.reviewers
                if gate_change.approved_by is None and before is not None:
                    gate_change = msgspec.structs.replace(gate_change, approved_by=before.approved_by)  # noqa: PLW2901
                self.gates[gate_change.gate] = (msgspec.structs.replace(opened, reviewers=asks), gate_change)

    def _write_beside(self, changes: Changes) -> None:
        self.share(changes.shared_values)
        self._use(changes)
        if changes.shared_waits is not None:
            self.shared_waits[changes.run.run] = changes.shared_waits
        if (key := changes.start_key) is not None:
            self.keys[key.tenant, key.key] = (key.run, key.input_digest)
        if changes.dead_letters is not None:
            run, at_ms = changes.run.run, changes.run.updated_at_ms
            for place, known in self.letters.items():
                if place[0] == run and known.resolved_at_ms is None:
                    self.letters[place] = Letter(known.letter, at_ms)
            self.letters |= {(run, letter.step): Letter(letter, None) for letter in changes.dead_letters}
        self.labels |= {} if changes.labels is None else {changes.run.run: changes.labels}
        self._write_gates(changes)
        for effect in changes.effects:
            self.effects[effect.call] = (effect, None)
        for change in changes.effect_changes:
            if change.call in self.effects:
                self.effects[change.call] = (self.effects[change.call][0], change)

    def touched(self, by: Mount | None) -> None:
        """Somebody wrote: others may want to know."""
        self.version += 1
        self._touched_s = self.clock_s()
        for mount in self._mounts:
            if mount is not by:
                mount.heard_of += 1
            mount.wake()

    @property
    def quiet_s(self) -> float:
        """For how long nobody has written anything."""
        return self.clock_s() - self._touched_s

    def nudge(self) -> None:
        """A lease may be over: everybody should look."""
        for mount in self._mounts:
            mount.nudge()

    def history(self, run: RunId, after: int = 0, limit: int | None = None) -> tuple[Recorded, ...]:
        """A run's events, decoded anew."""
        kept = self.runs.get(run)
        lines = kept.lines[after : None if limit is None else after + limit] if kept is not None else []
        return tuple(
            Recorded(Seq(after + 1 + n), line.at_ms, decode(line.event), line.trace_id) for n, line in enumerate(lines)
        )

    # --- Who may write ------------------------------------------------------------------------------------------------

    async def turn(self, by: Mount) -> None:
        """Wait until no other process keeps the disk to itself. Raises StoreBusy."""
        until_s = self.clock_s() + WAIT_S
        while self.owner not in (None, by):
            free: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append(free)
            try:
                async with asyncio.timeout(until_s - self.clock_s()):
                    await free
            except TimeoutError:
                raise StoreBusy("Another process holds the store's write lock.") from None

    def let_go(self) -> None:
        self.owner = None
        waiting, self._queue = self._queue, deque()
        for free in waiting:
            if not free.done():
                free.set_result(None)

    def attach(self, mount: Mount) -> None:
        self._mounts.append(mount)

    def drop(self, mount: Mount) -> None:
        """A process is gone, and its locks with it."""
        if mount in self._mounts:
            self._mounts.remove(mount)
        for lease in mount.leases.values():
            lease.unlocked = True
        if self.owner is mount:
            self.let_go()
        self.touched(mount)

    # --- Sessions -----------------------------------------------------------------------------------------------------

    def dead_in_flight(self) -> frozenset[SessionId]:
        dead = [
            session for session in self.in_flight() if session not in self.leases or self.leases[session].dead_at_ms is not None
        ]
        return frozenset(dead)

    def in_flight(self) -> dict[SessionId, None]:
        return {session: None for kept in self.runs.values() for session in kept.sessions}

    def left_undone(self) -> bool:
        """Whether somebody has to see to a child, a conversation or a supervisor."""
        return (
            any(link.is_pending for link, _ in self.children.values())
            or bool(self.conversations_due())
            or bool(self.supervisors_due(self.newest_ms))
        )

    def conversations_due(self) -> list[Conversation]:
        return [
            each
            for each in self.conversations.values()
            if each.is_pending or (each.run in self.runs and self.runs[each.run].row.ended_at_ms is not None)
        ]

    def supervisors_due(self, now_ms: int) -> list[tuple[str, str]]:
        due = [place for place, each in self.supervisors.items() if (at_ms := due_at_ms(each)) is not None and at_ms <= now_ms]
        ended = [
            place[:2]
            for place, each in self.tasks.items()
            if each.ended_ms is None and each.run in self.runs and self.runs[each.run].row.ended_at_ms is not None
        ]
        return list(dict.fromkeys([*due, *ended]))

    def next_due_ms(self, hashes: Sequence[str] | None) -> int | None:
        rows = [kept.row for kept in self.runs.values() if hashes is None or kept.row.graph_hash in hashes]
        due = [row.due_at_ms for row in rows]
        if hashes is None:
            due += [kept.schedule.due_at_ms for kept in self.schedules.values()]
            due += [due_at_ms(each) for each in self.supervisors.values()]
        return min((at_ms for at_ms in due if at_ms is not None), default=None)


class Mount:
    """One process's way to the disk: what its ports know together. Keeps ports.StoreClock."""

    def __init__(self, disk: Disk, weather: Weather | None = None, *, patient: bool = False) -> None:
        """With `patient`, a listener sleeps on as long as there can be nothing to find: nobody polls through a month."""
        self.disk = disk
        self.patient = patient
        self.weather = weather or FairWeather()
        self.leases: dict[SessionId, Lease] = {}
        self._offset_ms = max(disk.wall_offset_ms + disk.clock_s() * 1000, disk.newest_ms) - disk.clock_s() * 1000
        self.heard_of = 0
        """Commits of others since this process last asked."""
        self.nudged = self.reminded = False
        self.listening: asyncio.Future[None] | None = None
        self.closed = False
        self.busy = 0
        disk.attach(self)

    def now_ms(self) -> int:
        return int(self._offset_ms + self.disk.clock_s() * 1000)

    def boot_ms(self) -> int:
        """What all processes of the machine read alike, and nobody sets."""
        return int(self.disk.clock_s() * 1000)

    def check_open(self) -> None:
        if self.closed:
            raise StoreError("The store is closed.")

    async def read(self) -> None:
        self.check_open()
        await self.weather.reach("read")

    async def write(self, seam: str) -> None:
        self.check_open()
        self.busy += 1
        try:
            await self.weather.reach(seam)
            await self.disk.turn(self)
        finally:
            self.busy -= 1

    def expire(self, lease: Lease) -> None:
        if lease.dead_at_ms is None:
            lease.dead_at_ms, lease.died_s = self.now_ms(), self.disk.clock_s()

    def wake(self) -> None:
        """Let whoever listens look whether there is anything for it."""
        if self.listening is not None and not self.listening.done():
            self.listening.set_result(None)

    def nudge(self) -> None:
        """Let whoever listens stop listening: time has brought something that is no commit."""
        self.nudged = True
        self.wake()

    def remind(self) -> None:
        """The same, also of somebody who is busy looking just now: then he looks once more."""
        self.reminded = True
        self.wake()


class Port:
    """One of the ports of a process."""

    def __init__(self, mount: Mount) -> None:
        self._mount = mount
        self._disk = mount.disk


class Log(Port):
    """Keeps ports.Log."""

    def __init__(self, mount: Mount) -> None:
        super().__init__(mount)
        self._alone = asyncio.Lock()

    async def append(self, appends: Sequence[Append]) -> Sequence[HoldfastError | None]:
        fates: dict[int, HoldfastError | None] = {}
        sound: dict[int, tuple[Append, list[bytes]]] = {}
        for index, append in enumerate(appends):
            try:
                sound[index] = (append, _encoded(append))
            except StoreError as problem:
                fates[index] = problem
        if sound:
            fates |= dict(zip(sound, await self._commit(list(sound.values())), strict=True))
        return [fates[index] for index in range(len(appends))]

    async def _commit(self, appends: list[tuple[Append, list[bytes]]]) -> list[HoldfastError | None]:
        self._mount.check_open()
        self._mount.busy += 1
        try:
            await self._mount.weather.reach("append")
            await self._disk.turn(self._mount)
            if self._mount.weather.loses_request():
                raise UnknownCommit("The reply of a commit was lost; nothing was written.")
            fates = self._disk.commit(self._mount, appends)
            lost = self._mount.weather.loses_reply()
            await self._mount.weather.answer("append")
        finally:
            self._mount.busy -= 1
        if lost:
            raise UnknownCommit("The reply of a commit was lost; it was written.")
        return fates

    async def load(self, run: RunId, fold_version: int) -> History:
        await self._mount.read()
        kept = self._disk.runs.get(run)
        if kept is None:
            raise NotFound(f"There is no run {run} in this store.", run=run)
        snapshot = kept.snapshot
        if snapshot is not None and snapshot.fold_version != fold_version:
            snapshot = None
        return History(snapshot, self._disk.history(run, snapshot.seq if snapshot is not None else 0))

    async def events(self, run: RunId, after: int = 0, limit: int | None = None) -> Sequence[Recorded]:
        await self._mount.read()
        return self._disk.history(run, after, limit)

    async def seqs(self, runs: Sequence[RunId], *, ended: bool = False) -> Mapping[RunId, Seq]:
        await self._mount.read()
        found = [(run, self._disk.runs[run]) for run in runs if run in self._disk.runs]
        return {run: Seq(len(kept.lines)) for run, kept in found if kept.row.ended_at_ms is not None or not ended}

    def exclusive(self, run: RunId) -> AbstractAsyncContextManager[None]:
        return self._exclusive()

    @asynccontextmanager
    async def _exclusive(self) -> AsyncIterator[None]:
        async with self._alone:
            await self._mount.weather.reach("lock")
            await self._disk.turn(self._mount)
            self._disk.owner = self._mount
            try:
                yield
            finally:
                self._disk.let_go()

    async def snapshot(self, run: RunId, record: SnapshotRecord) -> None:
        await self._mount.write("snapshot")
        kept = self._disk.runs[run]
        known = kept.snapshot
        if known is None or known.fold_version != record.fold_version or known.seq <= record.seq:
            kept.snapshot = record
        self._disk.on_snapshot(run, record)
        self._disk.touched(self._mount)

    async def is_archived(self, run: RunId) -> bool:
        return False

    async def run_of_key(self, tenant: str, key: str) -> tuple[RunId, str] | None:
        await self._mount.read()
        return self._disk.keys.get((tenant, key))


class Scopes(Port):
    """Keeps ports.Scopes."""

    async def set_limit(self, family: str, amount: int | None) -> None:
        await self._mount.write("limit")
        if amount is None:
            self._disk.limits.pop(family, None)
        else:
            self._disk.limits[family] = amount
        self._disk.touched(self._mount)

    async def allot(self, budget: str, total: int | None, team: Mapping[str, TeamAgent]) -> None:
        await self._mount.write("limit")
        disk = self._disk
        used = {row.scope: row.used for row in disk.agents(budget)}
        for scope in (*used, budget):
            disk.limits.pop(scope, None)
        if total is not None:
            found = allotted(total, team, used)
            disk.limits |= {budget: total, **found}
            disk.priorities |= {scope: team.get(scope, TeamAgent(0)).priority for scope in found}
        disk.touched(self._mount)

    async def agents(self, budget: str) -> Sequence[AgentRow]:
        await self._mount.read()
        return self._disk.agents(budget)

    async def limits(self, family: str) -> Mapping[str, int]:
        await self._mount.read()
        return {name: amount for name, amount in sorted(self._disk.limits.items()) if name.startswith(family)}

    async def balances(self, names: Sequence[str]) -> Sequence[ScopeRow]:
        await self._mount.read()
        return [self._disk.books(scope) for scope in names]

    async def waiting(self, scopes: Sequence[str], limit: int) -> Sequence[ScopeWaiter]:
        await self._mount.read()
        return [each for each in self._disk.waiting() if each.scope in scopes][:limit]

    async def headroom(self, limit: int) -> Sequence[ScopeWaiter]:
        await self._mount.read()
        return self._disk.with_headroom()[:limit]


class Children(Port):
    """Keeps ports.Children."""

    async def pending(self, before_ms: int, limit: int) -> Sequence[ChildLink]:
        await self._mount.read()
        found = [(at_ms, link) for link, at_ms in self._disk.children.values() if link.is_pending and at_ms <= before_ms]
        return [link for _, link in sorted(found, key=lambda each: each[0])][:limit]

    async def link(self, child: RunId) -> ChildLink | None:
        await self._mount.read()
        return self._disk.children.get(child, (None, 0))[0]

    async def settle(self, link: ChildLink) -> bool:
        await self._mount.write("settle")
        known, at_ms = self._disk.children[link.child]
        if (known.state, known.ordered) != (link.state, link.ordered):
            return False
        state = {"requested": "running", "ended": "told"}.get(known.state, known.state)
        self._disk.children[link.child] = msgspec.structs.replace(known, state=state, heeded=known.ordered), at_ms
        self._disk.touched(self._mount)
        return True

    async def family(self, root: RunId, after: RunId | None, limit: int) -> Sequence[ChildLink]:
        await self._mount.read()
        links = [link for name, (link, _) in sorted(self._disk.children.items()) if name > (after or "")]
        return [link for link in links if link.root == root][:limit]


class JobLogs(Port):
    """Keeps ports.JobLogs."""

    async def keep(self, pieces: Sequence[tuple[LogPlace, bytes, str]], cut: Sequence[LogPlace]) -> None:
        await self._mount.write("put_job_logs")
        self._disk.job_logs.update({place: content for place, content, _ in pieces})
        for place in cut:
            self._disk.job_logs.pop(place, None)

    async def pieces(self, run: RunId) -> Sequence[LogPiece]:
        await self._mount.read()
        return [LogPiece(place, len(said), 0) for place, said in sorted(self._disk.job_logs.items()) if place.run == run]

    async def read(self, place: LogPlace) -> bytes:
        await self._mount.read()
        return self._disk.job_logs.get(place, b"")


class Keys(Port):
    """Keeps ports.Keys."""

    async def put(self, key: ApiKey, before: str | None) -> bool:
        await self._mount.write("put_key")
        keys, name = self._disk.api_keys, (key.name, key.tenant or "")
        there = keys.get(name)
        others = [tenant for known, tenant in keys if known == key.name]
        if (None if there is None else there.hash) != before or (there is None and ((others and not name[1]) or "" in others)):
            return False
        keys[name] = key
        return True

    async def find(self, hash: str) -> ApiKey | None:  # noqa: A002 - the port's word
        await self._mount.read()
        return next((each for each in self._disk.api_keys.values() if each.hash == hash), None)

    async def named(self, name: str, tenant: str | None, limit: int) -> Sequence[ApiKey]:
        return [key for key in await self.listed(tenant, None, 2**31) if key.name == name][:limit]

    async def listed(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[ApiKey]:
        await self._mount.read()
        found = [key for name, key in sorted(self._disk.api_keys.items()) if name > (after or ("", ""))]
        return [key for key in found if tenant in (None, key.tenant)][:limit]

    async def cursor_key(self) -> bytes:
        await self._mount.read()
        return b"of the simulation".ljust(64)


class Audit(Port):
    """Keeps ports.Audit."""

    async def append(self, entry: Entry) -> Link:
        await self._mount.write("append_audit")
        links = self._disk.audit
        links.append(link(head_of(links[-1]) if links else None, entry))
        return links[-1]

    async def links(self, **filters: Unpack[AuditFilter]) -> Sequence[Link]:
        await self._mount.read()
        links = self._disk.audit[:: -1 if filters.get("newest_first") else 1]
        return [each for each in links if _is_asked(each, filters)][: filters.get("limit", MAX_LISTED)]

    async def head(self) -> Head | None:
        await self._mount.read()
        return head_of(self._disk.audit[-1]) if self._disk.audit else Head(0, FIRST)


def _is_asked(found: Link, asked: AuditFilter) -> bool:
    entry, place = found.entry, found.number
    after, before = asked.get("after") or 0, asked.get("before") or math.inf
    since_ms, until_ms = asked.get("since_ms"), asked.get("until_ms")
    return (
        after < place < before
        and asked.get("tenant") in (None, entry.tenant)
        and asked.get("name") in (None, entry.name, entry.client)
        and (not asked.get("actions") or entry.action in (asked.get("actions") or ()))
        and entry.about.startswith(asked.get("about") or "")
        and (-math.inf if since_ms is None else since_ms) <= entry.at_ms < (math.inf if until_ms is None else until_ms)
    )


class Replies(Port):
    """Keeps ports.Replies."""

    async def begin(self, name: str, digest: str, kept_ms: int, tenant: str = OF_NONE) -> PendingRequest:
        await self._mount.write("begin_reply")
        now_ms, there = self._mount.now_ms(), self._disk.replies.get(name)
        if there is not None and there.begun_at_ms >= now_ms - kept_ms:
            return there
        self._disk.replies[name] = PendingRequest(digest, now_ms)
        return PendingRequest(digest, now_ms, is_new=True)

    async def finish(self, name: str, reply: Reply | None, tenant: str = OF_NONE) -> bool:
        await self._mount.write("finish_reply")
        known = self._disk.replies.get(name)
        if known is None or (reply is None and known.reply is not None):
            return False
        if reply is None:
            del self._disk.replies[name]
        else:
            self._disk.replies[name] = known._replace(reply=reply)
        return True


class NotificationRules(Port):
    """Keeps ports.NotificationRules. No program of the simulation sets one."""

    async def put(self, rule: Rule) -> bool:
        raise NotImplementedError

    async def remove(self, tenant: str, name: str) -> bool:
        raise NotImplementedError

    async def find(self, tenant: str, name: str) -> Rule | None:
        await self._mount.read()
        return None

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Rule]:
        await self._mount.read()
        return []


class Outbox(Port):
    """Keeps ports.Outbox: nothing is sent from here."""

    async def add(self, deliveries: Sequence[Delivery]) -> int:
        raise NotImplementedError

    async def claim(
        self, channel: str, limit: int, lease_ms: int, rooms: Mapping[str, int] | None = None, most: int | None = None
    ) -> Sequence[Claimed]:
        raise NotImplementedError

    async def sent(self, claimed: Claimed, channel: str) -> bool:
        raise NotImplementedError

    async def failed(self, claimed: Claimed, channel: str, problem: str, again_at_ms: int | None, *, disable: bool) -> bool:
        raise NotImplementedError

    async def replay(self, id_: str) -> bool:
        raise NotImplementedError

    async def enable(self, channel: str, address: str) -> bool:
        raise NotImplementedError

    async def find(self, id_: str) -> Delivery | None:
        await self._mount.read()
        return None

    async def listed(self, **filters: Unpack[DeliveryFilter]) -> Sequence[Delivery]:
        await self._mount.read()
        return []

    async def figures(self) -> Sequence[ChannelFigures]:
        await self._mount.read()
        return []

    async def last_problem(self, channel: str, address: str, state: DeliveryState) -> str | None:
        await self._mount.read()
        return None

    async def forget(self, sent_before_ms: int, dead_before_ms: int, limit: int) -> int:
        raise NotImplementedError


class Followers(Port):
    """Keeps ports.Followers."""

    async def hold(self, name: str, holder: str, lease_ms: int) -> FollowerRow | None:
        await self._mount.write("hold_follower")
        now_ms = self._mount.now_ms()
        there = self._disk.followers.get(name) or FollowerRow(name, None, now_ms, None, 0, 0, "", holder, 0)
        if there.holder != holder and there.until_ms > now_ms:
            return None
        self._disk.followers[name] = held = msgspec.structs.replace(there, holder=holder, until_ms=now_ms + lease_ms)
        return held

    async def begin(self, name: str, cursor: str) -> None:
        await self._mount.write("begin_follower")
        there = self._disk.followers.get(name) or FollowerRow(name, None, self._mount.now_ms(), None, 0, 0, "", "", 0)
        if there.cursor is None:
            self._disk.followers[name] = msgspec.structs.replace(there, cursor=cursor)

    async def move(self, row: FollowerRow) -> bool:
        await self._mount.write("move_follower")
        there = self._disk.followers.get(row.name)
        if there is None or there.holder != row.holder:
            return False
        self._disk.followers[row.name] = msgspec.structs.replace(row, until_ms=there.until_ms)
        return True

    async def release(self, name: str, holder: str) -> None:
        await self._mount.write("release_follower")
        there = self._disk.followers.get(name)
        if there is not None and there.holder == holder:
            self._disk.followers[name] = msgspec.structs.replace(there, holder="", until_ms=0)

    async def archived(self, since_ms: int, after: RunId, until_ms: int, limit: int) -> Sequence[ArchivedRun]:
        return []  # it archives nothing

    async def listed(self) -> Sequence[FollowerRow]:
        await self._mount.read()
        return [self._disk.followers[name] for name in sorted(self._disk.followers)]


class SignIns(Port):
    """Keeps ports.SignIns."""

    async def add(self, sign_in: SignIn, most: int) -> None:
        await self._mount.write("add_sign_in")
        kept = self._disk.sign_ins
        kept[sign_in.hash] = sign_in
        of_one = sorted((each for each in kept.values() if each.owner == sign_in.owner), key=lambda each: -each.expires_at_ms)
        for each in of_one[most:]:
            del kept[each.hash]

    async def find(self, hash: str) -> SignIn | None:  # noqa: A002 - the port's word
        await self._mount.read()
        found = self._disk.sign_ins.get(hash)
        return found if found is not None and found.expires_at_ms > self._mount.now_ms() else None

    async def listed(
        self,
        *,
        name: str | None = None,
        tenant: str | None = None,
        session: str | None = None,
        after: str | None = None,
        limit: int,
    ) -> Sequence[SignIn]:
        await self._mount.read()
        now_ms = self._mount.now_ms()
        kept = sorted(self._disk.sign_ins.values(), key=lambda each: (each.expires_at_ms, each.hash), reverse=True)
        if after is not None:
            kept = kept[1 + next((place for place, each in enumerate(kept) if each.id == after), len(kept)) :]
        found = [each for each in kept if each.expires_at_ms > now_ms and session in (None, each.id)]
        return [each for each in found if name in (None, each.name) and tenant in (None, each.tenant)][:limit]

    async def end(self, hash: str) -> bool:  # noqa: A002 - the port's word
        await self._mount.write("end_sign_in")
        return self._disk.sign_ins.pop(hash, None) is not None

    async def end_of(self, name: str, tenant: str | None) -> int:
        await self._mount.write("end_sign_ins")
        kept, now_ms = self._disk.sign_ins, self._mount.now_ms()
        live = [each for each in kept.values() if each.expires_at_ms > now_ms]
        ended = [each.hash for each in live if each.name == name and tenant in (None, each.tenant)]
        for each in ended:
            del kept[each]
        return len(ended)


class Scores(Port):
    """Keeps ports.Scores."""

    async def add(self, run: RunId, score: Score, most: int) -> bool:
        await self._mount.write("add_score")
        known = self._disk.scores.setdefault(run, [])
        if len(known) < most:
            known.append(score)
            self._disk.on_score(run, score)
            return True
        return False

    async def of_run(self, run: RunId) -> Sequence[Score]:
        await self._mount.read()
        return [*self._disk.scores.get(run, ())]

    async def means(self, **filters: Unpack[ScoreFilter]) -> Sequence[ScoreMean]:
        await self._mount.read()
        tenant, workflow, name = filters.get("tenant"), filters.get("workflow"), filters.get("name")
        since_ms, limit = filters.get("since_ms", 0), filters.get("limit", MAX_LISTED)
        found: dict[tuple[str, str, int], list[Score]] = {}
        for run, given in self._disk.scores.items():
            row = self._disk.runs[run].row
            if tenant in (None, row.tenant) and workflow in (None, row.workflow):
                for each in counting(given):
                    if name in (None, each.name) and each.at_ms >= since_ms:
                        found.setdefault((row.workflow, each.name, -row.version), []).append(each)
        return [
            ScoreMean(of, -version, about, len(each), fmean(one.value for one in each), max(one.at_ms for one in each))
            for (of, about, version), each in sorted(found.items())
        ][:limit]


class Evaluations(Port):
    """Keeps ports.Evaluations."""

    async def add(self, evaluation: Evaluation, judged: Sequence[ScenarioResult]) -> None:
        await self._mount.write("add_evaluation")
        self._disk.evaluations.setdefault(evaluation.id, (evaluation, tuple(judged)))

    async def find(self, id_: str) -> tuple[Evaluation, Sequence[ScenarioResult]] | None:
        await self._mount.read()
        return self._disk.evaluations.get(id_)

    async def listed(self, tenant: str | None, workflow: str | None, before: str | None, limit: int) -> Sequence[Evaluation]:
        await self._mount.read()
        return [
            each
            for _, (each, _) in sorted(self._disk.evaluations.items(), reverse=True)
            if tenant in (None, each.tenant) and workflow in (None, each.workflow) and (before is None or each.id < before)
        ][:limit]


class Streams(Port):
    """Keeps ports.Streams."""

    async def append(self, pieces: Sequence[Piece]) -> None:
        await self._mount.write("append_chunks")
        for name, mark, size, content, _ in pieces:
            stream = self._disk.streams.setdefault(name, [])
            if all(known != mark for known, _ in stream):
                first = sum(chunk.size for _, chunk in stream)
                stream.append((mark, Chunk(name, first, size, content)))

    async def chunks(
        self, runs: Collection[RunId], known: Mapping[StreamName, int], limit: int, only: str | None = None
    ) -> Sequence[Chunk]:
        await self._mount.read()
        return [
            chunk
            for name, stream in sorted(self._disk.streams.items(), key=_thoughts_first)
            for _, chunk in stream
            if name.run in runs and only in (None, name.stream) and chunk.first + chunk.size > known.get(name, 0)
        ][:limit]

    async def news(self, mark: str | None) -> StreamUpdate:
        """A mark is what there was."""
        await self._mount.read()
        sizes = {name: sum(chunk.size for _, chunk in stream) for name, stream in self._disk.streams.items()}
        seqs = {run: kept.row.seq for run, kept in self._disk.runs.items()}
        there = (sorted((*name, size) for name, size in sizes.items()), seqs)
        known, before = msgspec.json.decode(mark or msgspec.json.encode(there))
        for run, stream, size in known:
            if sizes.get(name := StreamName(RunId(run), stream)) == size:
                del sizes[name]
        grown = {run: seq for run, seq in seqs.items() if before.get(run) != seq}
        return StreamUpdate(msgspec.json.encode(there).decode(), sizes, grown)

    async def sizes(self, runs: Collection[RunId]) -> Mapping[StreamName, int]:
        await self._mount.read()
        return {name: sum(chunk.size for _, chunk in stream) for name, stream in self._disk.streams.items() if name.run in runs}

    async def forget(self, names: Collection[StreamName]) -> None:
        await self._mount.write("forget_chunks")
        for name in names:
            self._disk.streams.pop(name, None)


def _thoughts_first(item: tuple[StreamName, Any]) -> tuple[bool, StreamName]:
    name, _ = item
    return not name.stream.endswith(":thinking"), name


class Schedules(Port):
    """Keeps ports.Schedules."""

    async def add(self, schedule: Schedule) -> bool:
        await self._mount.write("add_schedule")
        is_new = (schedule.tenant, schedule.name) not in self._disk.schedules
        self._disk.schedules.setdefault((schedule.tenant, schedule.name), KeptSchedule(schedule, 1))
        self._disk.nudge()  # others look within some seconds
        return is_new

    async def replace(self, schedule: Schedule, revision: int) -> bool:
        await self._mount.write("replace_schedule")
        known = self._disk.schedules.get((schedule.tenant, schedule.name))
        if known is None or known.revision != revision:
            return False
        self._disk.schedules[schedule.tenant, schedule.name] = KeptSchedule(schedule, revision + 1)
        self._disk.on_schedule(known.schedule, schedule)
        self._disk.nudge()
        await self._mount.weather.answer("replace_schedule")
        return True

    async def remove(self, tenant: str, name: str) -> bool:
        await self._mount.write("remove_schedule")
        return self._disk.schedules.pop((tenant, name), None) is not None

    async def find(self, tenant: str, name: str) -> KeptSchedule | None:
        await self._mount.read()
        return self._disk.schedules.get((tenant, name))

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[KeptSchedule]:
        await self._mount.read()
        known = sorted(self._disk.schedules.items())
        return [kept for key, kept in known if key > (after or ("", "")) and tenant in (None, key[0])][:limit]

    async def due(self, now_ms: int, limit: int) -> Sequence[KeptSchedule]:
        await self._mount.read()
        due = [(at, key) for key, kept in self._disk.schedules.items() if (at := kept.schedule.due_at_ms) is not None]
        return [self._disk.schedules[key] for at, key in sorted(due) if at <= now_ms][:limit]

    async def next_due_ms(self) -> int | None:
        await self._mount.read()
        due = [kept.schedule.due_at_ms for kept in self._disk.schedules.values()]
        return min((at_ms for at_ms in due if at_ms is not None), default=None)


class DeadLetters(Port):
    """Keeps ports.DeadLetters, as far as anybody here asks."""

    async def letters(self, **sought: Unpack[LetterFilter]) -> Sequence[Letter]:
        await self._mount.read()
        run = sought.get("run")
        return [each for (of, _), each in sorted(self._disk.letters.items()) if run in (None, of)]

    async def counts(self, tenant: str | None = None) -> Sequence[LetterCount]:
        raise NotImplementedError

    async def forget(self, before_ms: int) -> int:
        await self._mount.write("forget_letters")
        letters = self._disk.letters
        over = [place for place, each in letters.items() if (each.resolved_at_ms or before_ms) < before_ms]
        for place in over:
            del letters[place]
        return len(over)


class Conversations(Port):
    """Keeps ports.Conversations."""

    async def put(self, change: Change) -> bool:
        await self._mount.write("put_conversation")
        new = change.conversation
        known = self._disk.conversations.get((new.tenant, new.id))
        if (0 if known is None else known.revision) != new.revision:
            return False
        self._disk.conversations[new.tenant, new.id] = msgspec.structs.replace(new, revision=new.revision + 1)
        for each in change.exchanges:
            self._disk.exchanges[new.tenant, new.id, each.number] = each
        self._disk.said_ms[new.tenant, new.id] = self._mount.now_ms()
        self._disk.on_said(change)
        self._disk.touched(self._mount)
        return True

    async def remove(self, conversation: Conversation) -> bool:
        await self._mount.write("remove_conversation")
        place = (conversation.tenant, conversation.id)
        if self._disk.conversations.get(place) != conversation or not _is_idle(conversation):
            return False
        return self._removed(place)

    async def discard(self, tenant: str, conversation: str) -> bool:
        await self._mount.write("remove_conversation")
        return (tenant, conversation) in self._disk.conversations and self._removed((tenant, conversation))

    def _removed(self, place: tuple[str, str]) -> bool:
        del self._disk.conversations[place]
        self._disk.exchanges = {key: each for key, each in self._disk.exchanges.items() if key[:2] != place}
        return True

    async def idle(self, before_ms: int, limit: int) -> Sequence[Conversation]:
        await self._mount.read()
        found = [
            (at_ms, each)
            for key, each in self._disk.conversations.items()
            if _is_idle(each) and (at_ms := self._disk.said_ms[key]) < before_ms
        ]
        return [each for _, each in sorted(found, key=lambda each: each[0])][:limit]

    async def find(self, tenant: str, name: str) -> Conversation | None:
        await self._mount.read()
        return self._disk.conversations.get((tenant, name))

    async def exchanges(self, tenant: str, name: str) -> Sequence[ConversationTurn]:
        await self._mount.read()
        return [each for key, each in sorted(self._disk.exchanges.items()) if key[:2] == (tenant, name)]

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Conversation]:
        await self._mount.read()
        known = sorted(self._disk.conversations.items())
        return [each for key, each in known if key > (after or ("", "")) and tenant in (None, key[0])][:limit]

    async def due(self, limit: int) -> Sequence[Conversation]:
        await self._mount.read()
        return self._disk.conversations_due()[:limit]


class Supervisors(Port):
    """Keeps ports.Supervisors."""

    async def put(self, change: Supervised) -> bool:
        await self._mount.write("put_supervisor")
        new = change.supervisor
        place = (new.tenant, new.name)
        known = self._disk.supervisors.get(place)
        if (0 if known is None else known.revision) != new.revision:
            return False
        self._disk.on_supervised(change)
        self._disk.supervisors[place] = msgspec.structs.replace(new, revision=new.revision + 1)
        for each in change.tasks:
            self._disk.tasks[*place, each.id] = each
        before_ms = self._mount.now_ms() - KEPT_MS
        for name in [name for name, each in self._disk.tasks.items() if (each.ended_ms or before_ms) < before_ms]:
            del self._disk.tasks[name]
        self._disk.touched(self._mount)
        return True

    async def remove(self, supervisor: Supervisor) -> bool:
        await self._mount.write("remove_supervisor")
        place = (supervisor.tenant, supervisor.name)
        if self._disk.supervisors.get(place) != supervisor:
            return False
        del self._disk.supervisors[place]
        self._disk.tasks = {name: each for name, each in self._disk.tasks.items() if name[:2] != place}
        return True

    async def find(self, tenant: str, name: str) -> Supervisor | None:
        await self._mount.read()
        return self._disk.supervisors.get((tenant, name))

    async def task(self, tenant: str, name: str, task: str) -> Task | None:
        await self._mount.read()
        return self._disk.tasks.get((tenant, name, task))

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Supervisor]:
        await self._mount.read()
        known = sorted(self._disk.supervisors.items())
        return [each for key, each in known if key > (after or ("", "")) and tenant in (None, key[0])][:limit]

    async def due(self, now_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        await self._mount.read()
        return self._disk.supervisors_due(now_ms)[:limit]


def _likeness(index: SharedIndex, query: SharedIndex | None) -> float | None:
    """How like a query an entry is, None where it is no answer."""
    if query is None:
        return 0.0
    if query.vector:
        if (index.model, len(index.vector)) != (query.model, len(query.vector)):
            return None
        return sum(a * b for a, b in zip(unpacked(index.vector), unpacked(query.vector), strict=True))
    found, asked = ({word.rstrip("s") for word in words_of(each.words)} for each in (index, query))
    return float(len(found & asked)) or None


class SharedValues(Port):
    """Keeps ports.SharedValues."""

    async def find(self, tenant: str, space: str, key: str) -> SharedValue | None:
        await self._mount.read()
        known = self._disk.shared_values.get((tenant, space, key))
        return known[-1] if known else None

    async def versions(self, tenant: str, space: str, key: str) -> Sequence[SharedValue]:
        await self._mount.read()
        return list(self._disk.shared_values.get((tenant, space, key), []))

    async def page(
        self, tenant: str | None, space: str | None, after: tuple[str, str, str] | None, limit: int
    ) -> Sequence[SharedEntry]:
        await self._mount.read()
        found = [
            SharedEntry(*name, known[-1])
            for name, known in sorted(self._disk.shared_values.items())
            if name > (after or ("", "", "")) and tenant in (None, name[0]) and space in (None, name[1])
        ]
        return found[:limit]

    async def arrivals(self, name: tuple[str, str, str] | None, limit: int) -> Sequence[SharedArrival]:
        await self._mount.read()
        found = [
            SharedArrival(wait.run, wait.step, wait.path, known[-1])
            for waits in self._disk.shared_waits.values()
            for wait in waits
            if (known := self._disk.shared_values.get((wait.tenant, wait.space, wait.key)))
            and known[-1].version > wait.after
            and name in (None, (wait.tenant, wait.space, wait.key))
        ]
        return found[:limit]

    async def lock(self, tenant: str, space: str, key: str, holder: str, lease_ms: int) -> int | None:
        await self._mount.write("lock_shared_value")
        fence, expires_at_ms = self._disk.shared_locks.get((tenant, space, key), (0, 0))
        if expires_at_ms > self._mount.now_ms():
            return None
        self._disk.shared_locks[tenant, space, key] = (fence + 1, self._mount.now_ms() + lease_ms)
        return fence + 1

    async def unlock(self, tenant: str, space: str, key: str, fence: int) -> None:
        await self._mount.write("unlock_shared_value")
        if self._disk.shared_locks.get((tenant, space, key), (0, 0))[0] == fence:
            self._disk.shared_locks[tenant, space, key] = (fence, 0)

    async def search(self, tenant: str, space: str, query: SharedIndex | None, limit: int) -> Sequence[SharedFound]:
        await self._mount.read()
        found = [
            SharedFound(key, self._disk.shared_values[tenant, space, key][-1], likeness, uses, used_at_ms)
            for (there, where, key), (index, uses, used_at_ms) in reversed(self._disk.shared_entries.items())
            if (there, where) == (tenant, space) and (likeness := _likeness(index, query)) is not None
        ]
        return sorted(found, key=lambda each: -each.likeness)[:limit]

    async def put(self, change: SharedChange) -> bool:
        await self._mount.write("put_shared_value")
        known = self._disk.shared_values.get((change.tenant, change.space, change.key))
        if change.base != (known[-1].version if known else 0):
            return False
        self._disk.share([change])
        self._disk.on_shared(change)
        return True


_Row = TypeVar("_Row")


class Costs(Port):
    """Keeps ports.Costs."""

    async def progress(self) -> CostProgress | None:
        await self._mount.read()
        return self._disk.cost_progress

    async def move(self, before: CostProgress | None, after: CostProgress) -> bool:
        await self._mount.write("move_cost_progress")
        if self._disk.cost_progress != before:
            return False
        self._disk.cost_progress = after
        self._disk.touched(self._mount)
        return True

    async def uncounted(self, runs: Sequence[RunId]) -> Sequence[UncountedRun]:
        await self._mount.read()
        found = [
            UncountedRun(run, self._disk.runs[run].row.seq, self._disk.counted.get(run, Seq(0)))
            for run in sorted(set(runs) & self._disk.runs.keys())
        ]
        return [each for each in found if each.seq > each.counted]

    async def count(self, runs: Sequence[RunCosts]) -> Sequence[RunId]:
        await self._mount.write("count")
        added = [each for each in runs if self._disk.counted.get(each.uncounted.run, Seq(0)) == each.uncounted.counted]
        for each in added:
            for cost in each.costs:
                kind = (cost.hour, cost.team, *cost.cost.key)
                known = self._disk.costs.get(kind)
                self._disk.costs[kind] = msgspec.structs.replace(cost, cost=known.cost.plus(cost.cost)) if known else cost
            self._disk.extra_costs.extend(each.extra)
            self._disk.totals[each.uncounted.run] = each.total_nanousd
            self._disk.counted[each.uncounted.run] = each.uncounted.seq
        self._disk.touched(self._mount)
        return [each.uncounted.run for each in added]

    async def rollup(self, first_day: str, last_day: str, **filters: Unpack[CostFilter]) -> Sequence[Cost]:
        await self._mount.read()
        tenant, after, limit = filters.get("tenant"), filters.get("after"), filters.get("limit")
        sums: dict[CostKey, Cost] = {}
        for each in self._disk.costs.values():
            sums[each.cost.key] = (sums.get(each.cost.key) or Cost(*each.cost.key, 0, 0, 0, 0)).plus(each.cost)
        return [
            cost
            for _, cost in sorted(sums.items())
            if first_day <= cost.day <= last_day and tenant in (None, cost.tenant) and cost.key > (after or BEFORE_ALL)
        ][:limit]

    async def workflows(self, first_day: str, last_day: str, tenant: str | None = None) -> Sequence[str]:
        return sorted({each.workflow for each in await self.rollup(first_day, last_day, tenant=tenant)})

    async def sums(
        self, by: Collection[CostField], first_day: str, last_day: str, **filters: Unpack[CostSumFilter]
    ) -> Sequence[CostSum]:
        await self._mount.read()
        amounts = ("calls", "input_tokens", "output_tokens", "cost_nanousd")
        criteria = {name: filters.get(name) for name in ("tenant", "team")}
        workflows, top, limit = filters.get("workflows"), filters.get("top"), filters.get("limit")
        sums: dict[tuple[str, ...], list[int]] = {}
        wholes: dict[tuple[str, ...], int] = {}
        for each in self._disk.costs.values():
            cost = each.cost
            said = {**msgspec.structs.asdict(cost), "month": cost.day[:7], "hour": each.hour, "team": each.team}
            is_meant = all(value in (None, said[name]) for name, value in criteria.items())
            if not (first_day <= cost.day <= last_day and is_meant and (workflows is None or cost.workflow in workflows)):
                continue
            key = tuple(said[name] if name in by else "" for name in CostSum._fields[:8])
            sums[key] = [one + said[name] for one, name in zip(sums.get(key, [0] * 4), amounts, strict=True)]
            wholes[key[3:]] = wholes.get(key[3:], 0) + cost.cost_nanousd
        largest = sorted(wholes, key=lambda key: (-wholes[key], key))[:top]
        shown: dict[tuple[tuple[str, ...], bool], list[int]] = {}
        for key, found in sums.items():
            is_rest = key[3:] not in largest
            place = (*key[:3], *("",) * 5) if is_rest else key
            shown[place, is_rest] = [
                one + other for one, other in zip(shown.get((place, is_rest), [0] * 4), found, strict=True)
            ]
        is_largest_first = filters.get("largest_first", False)
        order = sorted(shown, key=lambda at: (at[1], -shown[at][3], at[0]) if is_largest_first else at)
        rows = [CostSum._make((*key, is_rest, *shown[key, is_rest])) for key, is_rest in order]
        after = filters.get("offset", 0)
        return rows[after : None if limit is None else after + limit]

    async def extra(
        self, by: Collection[ExtraField], first_day: str, last_day: str, **filters: Unpack[ExtraFilter]
    ) -> Sequence[ExtraSum]:
        await self._mount.read()
        sums: dict[tuple[str, ...], list[int]] = {}
        for each in self._disk.extra_costs:
            if first_day <= each.day <= last_day and _is_meant(each, filters):
                key = tuple(getattr(each, name) if name in ("cause", *by) else "" for name in ExtraSum._fields[:7])
                amounts = each.calls, each.tokens, each.cost_nanousd
                sums[key] = [one + other for one, other in zip(sums.get(key, [0] * 3), amounts, strict=True)]
        rows = sorted(sums.items(), key=lambda each: (-each[1][2], each[0]))
        return _part([ExtraSum._make((*key, *amounts)) for key, amounts in rows], filters)

    async def dearest(self, since_ms: int, until_ms: int, **filters: Unpack[ExtraFilter]) -> Sequence[RunCost]:
        await self._mount.read()
        found = []
        for run, total in self._disk.totals.items():
            row = self._disk.runs[run].row
            if total and since_ms <= row.started_at_ms < until_ms and _is_meant(row, filters):
                said = row.tenant, row.workflow, row.version, row.status, row.started_at_ms, row.ended_at_ms
                found.append(RunCost(run, *said, total, row.in_doubt_nanousd))
        return _part(sorted(found, key=lambda each: (each.cost_nanousd, each.run), reverse=True), filters)

    async def by_label(self, key: str, since_ms: int, until_ms: int, **filters: Unpack[ExtraFilter]) -> Sequence[LabelCost]:
        await self._mount.read()
        sums: dict[str, list[int]] = {}
        for run, pairs in self._disk.labels.items():
            row = self._disk.runs[run].row
            if since_ms <= row.started_at_ms < until_ms and _is_meant(row, filters):
                amounts = 1, row.settled_nanousd, row.in_doubt_nanousd
                for value in (value for of, value in pairs if of == key):
                    sums[value] = [one + other for one, other in zip(sums.get(value, [0] * 3), amounts, strict=True)]
        rows = sorted(sums.items(), key=lambda each: (-each[1][1], each[0]))
        return _part([LabelCost(value, *amounts) for value, amounts in rows], filters)


def _is_meant(row: Any, filters: ExtraFilter) -> bool:
    workflows = filters.get("workflows")
    return filters.get("tenant") in (None, row.tenant) and (workflows is None or row.workflow in workflows)


def _part(rows: list[_Row], filters: ExtraFilter) -> list[_Row]:
    after, limit = filters.get("offset", 0), filters.get("limit")
    return rows[after : None if limit is None else after + limit]


class Graphs(Port):
    """Keeps ports.Graphs."""

    async def put_workflow(self, loaded: WorkflowRecord, graph: bytes) -> None:
        await self._mount.read()
        place = loaded.name, loaded.version
        known = self._disk.workflows.get(place)
        if known is not None and loaded == msgspec.structs.replace(known, loaded_at_ms=loaded.loaded_at_ms):
            return
        await self._mount.write("graph")
        self._disk.graphs[loaded.graph_hash] = graph
        self._disk.workflows[place] = msgspec.structs.replace(loaded, loaded_at_ms=self._mount.now_ms())
        self._disk.touched(self._mount)

    async def submit_workflow(self, submitted: WorkflowRecord, graph: bytes) -> bool:
        await self._mount.read()
        if code := [each.graph_hash for (name, _), each in self._disk.workflows.items() if name == submitted.name]:
            return submitted.graph_hash in code
        assert submitted.tenant is not None
        await self._mount.write("graph")
        self._disk.graphs[submitted.graph_hash] = graph
        kept = msgspec.structs.replace(submitted, loaded_at_ms=self._mount.now_ms())
        self._disk.submitted[submitted.tenant, submitted.name, submitted.version] = kept
        self._disk.touched(self._mount)
        return True

    async def workflow(self, name: str, version: int | None = None, *, tenant: str) -> WorkflowRecord:
        every = await self.workflows(tenant=tenant, limit=len(self._disk.workflows) + len(self._disk.submitted))
        found = next((each for each in every if each.name == name and version in (None, each.version)), None)
        if found is None:
            raise no_workflow(name, version)
        return found

    async def workflows(
        self, *, tenant: str, after: tuple[str, int] | None = None, limit: int = MAX_LISTED
    ) -> Sequence[WorkflowRecord]:
        await self._mount.read()
        code = {name for name, _ in self._disk.workflows}
        own = {
            (name, version): each
            for (whose, name, version), each in self._disk.submitted.items()
            if whose == tenant and name not in code
        }
        every = self._disk.workflows | own
        in_order = sorted((name, -version) for name, version in every)
        left = [each for each in in_order if after is None or each > (after[0], -after[1])]
        return [every[name, -behind] for name, behind in left[:limit]]

    async def graph(self, graph_hash: str) -> bytes:
        await self._mount.read()
        if graph_hash not in self._disk.graphs:
            raise NotFound(f"There is no graph {graph_hash} in this store.", graph_hash=graph_hash)
        return self._disk.graphs[graph_hash]


class Tail(Port):
    """Keeps ports.Tail."""

    async def after(self, cursor: str | None, limit: int) -> tuple[Sequence[TailEvent], str]:
        await self._mount.read()
        after = self._after(cursor)
        told = [
            TailEvent(run, self._disk.history(run, seq - 1, 1)[0], str(place))
            for place, (run, seq) in enumerate(self._disk.order[after : after + limit], after + 1)
        ]
        return told, str(after + len(told))

    async def runs(self, cursor: str, limit: int) -> tuple[Sequence[RunId], str, bool]:
        await self._mount.read()
        after = self._after(cursor)
        found = self._disk.order[after : after + limit]
        return list(dict.fromkeys(run for run, _ in found)), str(after + len(found)), len(found) < limit

    def _after(self, cursor: str | None) -> int:
        if cursor is not None and not (cursor.isascii() and cursor.isdigit()):
            raise UsageError(f"{cursor!r} is no cursor of this store's tail.")
        after = int(cursor or 0)
        if after > len(self._disk.order):
            raise CursorLost(f"The tail's cursor {after} is beyond the last event.")
        return after

    async def end(self) -> str:
        await self._mount.read()
        return str(len(self._disk.order))


class Blobs(Port):
    """Keeps ports.Blobs."""

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        await self._mount.write("blob")
        sha256 = hashlib.sha256(content).hexdigest()
        self._disk.blobs[tenant, month, sha256] = content
        self._disk.touched(self._mount)
        return sha256

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        await self._mount.read()
        if (tenant, month, sha256) not in self._disk.blobs:
            raise NotFound(f"There is no blob {sha256} of tenant {tenant!r} in this store.", sha256=sha256)
        return self._disk.blobs[tenant, month, sha256]


class Sessions(Port):
    """Keeps ports.Sessions."""

    async def open(self, session: SessionId, label: str, hashes: Sequence[str], described: bytes | None = None) -> None:
        await self._mount.write("session")
        if session in self._disk.leases:
            raise StoreError(f"Session {session} has been opened before.")
        self._mount.leases[session] = self._disk.leases[session] = Lease(
            session, self._disk.clock_s(), tuple(hashes), [], described=described, label=label
        )
        self._disk.touched(self._mount)

    async def widen(self, session: SessionId, hashes: Sequence[str]) -> None:
        await self._mount.write("session")
        self._disk.leases[session].hashes = tuple(hashes)
        self._disk.touched(self._mount)

    async def describe(self, session: SessionId, described: bytes) -> None:
        await self._mount.write("session")
        self._disk.leases[session].described = described

    async def described(self) -> Sequence[bytes]:
        await self._mount.read()
        return [
            lease.described
            for _, lease in sorted(self._disk.leases.items())
            if lease.described is not None and lease.dead_at_ms is None
        ]

    async def lost(self, since_ms: int, limit: int) -> Sequence[tuple[bytes, int]]:
        await self._mount.read()
        found = [
            (lease.described, lease.dead_at_ms)
            for _, lease in sorted(self._disk.leases.items())
            if lease.described is not None and lease.dead_at_ms is not None and lease.dead_at_ms >= since_ms
        ]
        return sorted(found, key=lambda each: -each[1])[:limit]

    async def able(self, hashes: Sequence[str]) -> int:
        await self._mount.read()
        living = [lease for lease in self._disk.leases.values() if lease.dead_at_ms is None]
        return sum(not set(hashes).isdisjoint(lease.hashes) for lease in living)

    async def able_until_ms(self, hashes: Sequence[str]) -> int | None:
        await self._mount.read()
        could = [lease for lease in self._disk.leases.values() if not set(hashes).isdisjoint(lease.hashes)]
        return max((lease.dead_at_ms for lease in could if lease.dead_at_ms is not None), default=None)

    async def labels(self, sessions: Collection[SessionId]) -> Mapping[SessionId, str]:
        await self._mount.read()
        return {session: lease.label for session, lease in self._disk.leases.items() if session in sessions}

    async def close(self, session: SessionId) -> None:
        lease = self._mount.leases.pop(session, None)
        if lease is None:
            return
        try:
            await self._mount.write("session")
        finally:
            lease.unlocked = True  # if the disk does not take it: nobody holds it any more, so it is found dead
        lease.described = None
        self._mount.expire(lease)
        self._disk.touched(self._mount)

    async def renew(self, session: SessionId) -> bool:
        if session not in self._mount.leases:
            return False
        await self._mount.write("session")
        lease = self._mount.leases.get(session)
        if lease is not None and lease.died_s is None and not lease.lasts(self._disk.clock_s()):
            raise StoreError("The lease cannot be renewed now. Nobody has found its session dead.")
        return self.alive(session)

    def alive(self, session: SessionId) -> bool:
        lease = self._mount.leases.get(session)
        now_s = self._disk.clock_s()
        return lease is not None and not lease.known_dead(now_s) and lease.lasts(now_s)

    def age_s(self, session: SessionId) -> float | None:
        lease, now_s = self._mount.leases.get(session), self._disk.clock_s()
        return None if lease is None else now_s - lease.renewals(now_s)

    async def expire(self) -> frozenset[SessionId]:
        await self._mount.read()
        now_s = self._disk.clock_s()
        for session, lease in self._disk.leases.items():
            if lease.dead_at_ms is None and session not in self._mount.leases and (lease.unlocked or not lease.lasts(now_s)):
                self._mount.expire(lease)
        for session in self._disk.in_flight():
            if session not in self._disk.leases:
                stranger = self._disk.leases[session] = Lease(session, now_s, (), [], unlocked=True)
                self._mount.expire(stranger)
        return self._disk.dead_in_flight()


class Lending(Port):
    """Keeps ports.Lending."""

    def __init__(self, mount: Mount, sessions: Sessions) -> None:
        super().__init__(mount)
        self._sessions = sessions

    async def set_pool(self, pool: DeclaredPool) -> None:
        await self._mount.write("pool")
        self._disk.pools[pool.name] = declared(pool, self._disk.pools.get(pool.name), self._mount.boot_ms())
        self._disk.touched(self._mount)

    async def add_pool(self, pool: DeclaredPool) -> bool:
        await self._mount.write("pool")
        if pool.name in self._disk.pools:
            return False
        self._disk.pools[pool.name] = declared(pool, None, self._mount.boot_ms())
        self._disk.touched(self._mount)
        return True

    async def remove_pool(self, name: str) -> bool:
        await self._mount.write("pool")
        found = self._disk.pools.pop(name, None) is not None
        self._disk.touched(self._mount)
        return found

    async def pools(self) -> Sequence[DeclaredPool]:
        await self._mount.read()
        return [row.pool for _, row in sorted(self._disk.pools.items())]

    async def lend(self, visitor: Visitor, visits: Sequence[Visit]) -> Sequence[Grant]:
        await self._sessions.expire()
        await self._mount.write("lend")
        lease = self._disk.leases.get(visitor.session)
        if lease is None or lease.dead_at_ms is not None:
            raise Conflict(f"Session {visitor.session} is dead, so {visitor.holder} has nothing of any pool any more.")
        asked = sorted(visits, key=lambda visit: visit.pool)
        lent = lend(self._disk.pools.values(), self._shares(), visitor, asked, self._mount.boot_ms())
        for share in lent.gone:
            del self._disk.shares[share.key]
        self._disk.shares |= {share.key: share for share in lent.shares}
        for name, bucket in lent.buckets.items():
            self._disk.pools[name] = PoolRow(self._disk.pools[name].pool, bucket)
        self._disk.touched(self._mount)
        return lent.grants

    def _shares(self) -> list[Share]:
        return [msgspec.structs.replace(share, life=self._life(share)) for _, share in sorted(self._disk.shares.items())]

    def _life(self, share: Share) -> Life:
        lease = self._disk.leases.get(share.session)
        if lease is None:
            return "dead"
        if lease.dead_at_ms is None:
            return "living"
        return "lingering" if abs(self._mount.now_ms() - lease.dead_at_ms) < share.outlives_ms else "dead"

    async def pool_shares(self, pool: str) -> Sequence[Share]:
        await self._sessions.expire()
        return [share for share in self._shares() if share.pool == pool]

    async def estimates(self, *, workflow: str | None = None, pool: str | None = None) -> Sequence[Estimate]:
        await self._mount.read()
        return [
            each
            for _, each in sorted(self._disk.estimates.items())
            if workflow in (None, each.workflow) and pool in (None, each.pool)
        ]

    async def learn(self, uses: Sequence[Use]) -> None:
        await self._mount.write("learn")
        self._disk.estimates |= learned(self._disk.estimates, uses)
        self._disk.touched(self._mount)


class ModelEstimates(Port):
    """Keeps ports.ModelEstimates."""

    async def of(self, workflow: str) -> Sequence[ModelEstimate]:
        await self._mount.read()
        latest = sorted(self._disk.model_estimates.values(), key=lambda each: -each.at_ms)
        both = ([each for each in latest if each.workflow == name] for name in {workflow, ""})
        return [each for found in both for each in found[: model_estimates.MAX_ESTIMATES]]

    async def learn(self, uses: Sequence[ModelUse]) -> None:
        await self._mount.write("learn")
        self._disk.model_estimates |= model_estimates.learned(self._disk.model_estimates, uses)
        self._disk.touched(self._mount)

    async def forget(self, before_ms: int) -> None:
        await self._mount.write("forget")
        for kind in [kind for kind, each in self._disk.model_estimates.items() if each.at_ms < before_ms]:
            del self._disk.model_estimates[kind]
        self._disk.touched(self._mount)


class Views(Port):
    """Keeps ports.Views."""

    async def due(self, now_ms: int, hashes: Sequence[str], limit: int) -> Sequence[DueRun]:
        await self._mount.read()
        dead = self._disk.dead_in_flight()
        found: list[tuple[int, int, DueRun]] = []
        for kept in self._disk.runs.values():
            row = kept.row
            if row.graph_hash not in hashes:
                continue
            lost = frozenset(session for session in kept.sessions if session in dead)
            times = [self._disk.leases[session].dead_at_ms or 0 for session in lost]
            if row.due_at_ms is not None and row.due_at_ms <= now_ms:
                times.append(row.due_at_ms)
            if times:
                found.append((min(times), kept.number, _due(row, lost)))
        return [each for _, _, each in sorted(found, key=lambda each: each[:2])[:limit]]

    async def unplaced(self, after: int, limit: int) -> Sequence[UnplacedRun]:
        await self._mount.read()
        rows = {run: self._disk.runs[run].row for scope, run in self._disk.waiters if scope == PLACEMENT}
        found = [
            UnplacedRun(place, run, row.tenant, row.workflow, row.graph_hash, row.waiting_for, row.started_by)
            for place, (run, row) in enumerate(rows.items(), 1)
        ]
        return [each for each in found if each.place > after][:limit]

    async def stranded(self, before_ms: int, limit: int) -> Sequence[DueRun]:
        await self._mount.read()
        leases = self._disk.leases
        died_ms = {session: leases[session].dead_at_ms or 0 for session in self._disk.dead_in_flight()}
        known = {
            hash_
            for lease in leases.values()
            if lease.dead_at_ms is None or lease.dead_at_ms > before_ms
            for hash_ in lease.hashes
        }
        asked = {
            row.run
            for row, change in self._disk.gates.values()
            if row.reason == WORKFLOW_MISSING and (change is None or change.state in ("open", "escalated"))
        }
        in_line = {run for scope, run in self._disk.waiters if scope == PLACEMENT}
        found: list[tuple[int, int, DueRun]] = []
        for kept in self._disk.runs.values():
            row = kept.row
            if row.graph_hash in known or row.run in asked:
                continue
            lost = frozenset(session for session in kept.sessions if session in died_ms)
            times = [died_ms[session] for session in lost]
            if row.due_at_ms is not None:
                times.append(row.due_at_ms)
            if row.run in in_line:
                times.append(row.updated_at_ms)
            if times and min(times) <= before_ms:
                found.append((min(times), kept.number, _due(row, lost)))
        return [each for _, _, each in sorted(found, key=lambda each: each[:2])[:limit]]

    async def wanted_hashes(self, before_ms: int) -> Sequence[str]:
        await self._mount.read()
        dead = self._disk.dead_in_flight()
        unplaced = {run for scope, run in self._disk.waiters if scope == PLACEMENT}
        return sorted(
            {
                kept.row.graph_hash
                for kept in self._disk.runs.values()
                if (kept.row.due_at_ms is not None and kept.row.due_at_ms <= before_ms)
                or any(session in dead for session in kept.sessions)
                or kept.row.run in unplaced
            }
        )

    async def next_due_ms(self, hashes: Sequence[str]) -> int | None:
        await self._mount.read()
        return self._disk.next_due_ms(hashes)

    async def run(self, run: RunId) -> RunRow | None:
        await self._mount.read()
        kept = self._disk.runs.get(run)
        return kept.row if kept is not None else None

    async def runs(self, **sought: Unpack[RunFilter]) -> Sequence[RunRow]:
        await self._mount.read()
        known, before, status = self._disk.runs, sought.get("before"), sought.get("status")
        most = known[RunId(before)].number if before is not None else len(known)
        rows = [kept.row for kept in reversed(known.values()) if kept.number < most]
        statuses = (status,) if isinstance(status, str) else status
        return [
            row
            for row in rows
            if row.run.startswith(sought.get("prefix") or "")
            and sought.get("tenant") in (None, row.tenant)
            and sought.get("workflow") in (None, row.workflow)
            and (statuses is None or row.status in statuses)
            and (
                not (kinds := sought.get("waiting_for"))
                or any(b'"kind":"%s"' % kind.encode() in row.waiting_for for kind in kinds)
            )
            and (not sought.get("in_doubt") or row.in_doubt_nanousd > 0)
            and (not (parent := sought.get("parent")) or row.run in _children_of(self._disk, parent))
            and (not (root := sought.get("root")) or row.run in _below(self._disk, root))
            and sought.get("key") in (None, row.key)
            and row.started_at_ms >= (sought.get("since_ms") or 0)
            and ((until_ms := sought.get("until_ms")) is None or row.started_at_ms < until_ms)
            and {*(sought.get("labels") or ())} <= {*self._disk.labels.get(row.run, ())}
            and (sought.get("cost_from_nanousd") or 0) <= row.settled_nanousd
            and ((most_nanousd := sought.get("cost_to_nanousd")) is None or row.settled_nanousd <= most_nanousd)
            and sought.get("version") in (None, row.version)
            and self._is_scored(row.run, sought.get("score_from"), 1)
            and self._is_scored(row.run, sought.get("score_to"), -1)
            and (sought.get("text") or "").lower() in "\n".join(self._known_by(row)).lower()
        ][: sought.get("limit", MAX_LISTED)]

    def _is_scored(self, run: RunId, bound: tuple[str, float] | None, sign: int) -> bool:
        return bound is None or any(
            each.name == bound[0] and sign * each.value >= sign * bound[1] for each in counting(self._disk.scores.get(run, ()))
        )

    def _known_by(self, row: RunRow) -> list[str]:
        return [row.workflow, row.key or "", row.started_by or "", *(value for _, value in self._disk.labels.get(row.run, ()))]

    async def labels(self, runs: Sequence[RunId]) -> Mapping[RunId, Sequence[Pair]]:
        await self._mount.read()
        return {run: sorted(found) for run in runs if (found := self._disk.labels.get(run))}

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
        await self._mount.read()
        found: Counter[CountKey] = Counter()
        rows = [kept.row for _, kept in sorted(self._disk.runs.items(), reverse=True) if tenant in (None, kept.row.tenant)]
        if tenant is None:
            rows = [row for row in rows if workflow in (None, row.workflow)]
        for row in rows[:newest]:
            if workflow in (None, row.workflow):
                labels = self._disk.labels.get(row.run, ())
                found.update((each, value, row.workflow, row.status) for each, value in labels if each and key in (None, each))
        return [LabelCount(*each, runs) for each, runs in sorted(found.items()) if each > after][:limit]

    async def unended(self, hashes: Sequence[str]) -> int:
        await self._mount.read()
        rows = [kept.row for kept in self._disk.runs.values()]
        return sum(row.graph_hash in hashes and row.ended_at_ms is None for row in rows)

    async def gates(
        self, *, run: RunId | None = None, **filters: Unpack[GateFilter]
    ) -> Sequence[tuple[GateRow, GateChange | None]]:
        await self._mount.read()
        tenant, after, limit = filters.get("tenant"), filters.get("after"), filters.get("limit", MAX_LISTED)
        open_only, risk_levels = filters.get("open_only", True), filters.get("risk_levels", ())
        order = filters.get("order", "opened")
        below = _below(self._disk, run) if run is not None and filters.get("below", False) else ()

        def is_listed(change: GateChange | None) -> bool:
            is_open = change is None or change.state in ("open", "escalated")
            return not is_open if order == "closed" else is_open or not open_only

        gates = self._disk.gates
        if order == "due":
            gates = dict(
                sorted(gates.items(), key=lambda each: math.inf if each[1][0].due_at_ms is None else each[1][0].due_at_ms)
            )
        elif order == "closed":
            known = reversed(gates.items())
            gates = dict(sorted(known, key=lambda each: 0 if each[1][1] is None else -each[1][1].at_ms))
        return [
            (row, change)
            for row, change in _after(gates, after)
            if (run in (None, row.run) or row.run in below)
            and self._is_of(row.run, tenant)
            and (not risk_levels or row.risk_level in risk_levels)
            and is_listed(change)
        ][:limit]

    async def effects(
        self, *, run: RunId | None = None, **filters: Unpack[EffectFilter]
    ) -> Sequence[tuple[EffectRow, EffectChange | None]]:
        await self._mount.read()
        tenant, after, limit = filters.get("tenant"), filters.get("after"), filters.get("limit", MAX_LISTED)
        state = filters.get("state")
        return [
            (row, change)
            for row, change in _after(self._disk.effects, after)
            if run in (None, row.run)
            and self._is_of(row.run, tenant)
            and state in (None, change.state if change is not None else "intended")
        ][:limit]

    def _is_of(self, run: RunId, tenant: str | None) -> bool:
        return tenant is None or self._disk.runs[run].row.tenant == tenant


class Watch(Port):
    """Keeps ports.Watch."""

    async def changed(self, timeout_s: float) -> bool:
        self._mount.check_open()
        until_s = self._disk.clock_s() + timeout_s
        self._mount.nudged = False
        while not self._mount.heard_of and not self._mount.nudged and not self._mount.reminded:
            self._mount.listening = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(self._patience_s(until_s)):
                    await self._mount.listening
            except TimeoutError:
                break
            finally:
                self._mount.listening = None
        heard, self._mount.heard_of, self._mount.reminded = bool(self._mount.heard_of), 0, False
        return heard

    def _patience_s(self, until_s: float) -> float | None:
        """How long to listen; None for as long as nobody says anything."""
        left_s = max(0.0, until_s - self._disk.clock_s())
        if not self._mount.patient:
            return left_s
        if self._mount.leases and self._disk.with_headroom():
            return left_s
        if self._mount.leases and self._disk.left_undone():
            return max(left_s, _OVERDUE_S)
        due_ms = self._disk.next_due_ms(None)
        due_s = None if due_ms is None else (due_ms - self._mount.now_ms()) / 1000
        if self._mount.leases and any(scope == PLACEMENT for scope, _ in self._disk.waiters):
            line_s = max(_LINE_S, self._disk.quiet_s / 100)
            return max(left_s, line_s if due_s is None or due_s <= 0 else min(line_s, due_s))
        if due_s is None or not self._mount.leases:  # who has no session takes nothing up
            return None
        return max(left_s, due_s, 0.0 if due_s > 0 else _OVERDUE_S)


class Census(Port):
    """Keeps ports.Census: nobody reads metrics in a simulation."""

    async def counts(self) -> StoreCounts:
        return StoreCounts({}, {}, {}, (), 0, 0, {}, 0)


class Upkeep(Port):
    """Keeps ports.Upkeep."""

    def __init__(self, mount: Mount, sessions: Sessions) -> None:
        super().__init__(mount)
        self._sessions = sessions

    async def maintain(self) -> None:
        pass  # a disk that is a dict needs none

    async def aclose(self) -> None:
        mount = self._mount
        if mount.closed:
            return
        for session in list(mount.leases):
            await self._sessions.close(session)
        mount.closed = True
        while mount.busy:
            await asyncio.sleep(0.001)
        self._disk.drop(mount)


class SimulatedStore(Store, frozen=True, kw_only=True, eq=False):
    """The ports of one process onto the disk."""

    mount: Mount

    @classmethod
    def on(cls, mount: Mount) -> SimulatedStore:
        sessions = Sessions(mount)
        return cls(
            mount=mount,
            clock=mount,
            log=Log(mount),
            graphs=Graphs(mount),
            scopes=Scopes(mount),
            children=Children(mount),
            lending=Lending(mount, sessions),
            model_estimates=ModelEstimates(mount),
            census=Census(mount),
            costs=Costs(mount),
            dead_letters=DeadLetters(mount),
            job_logs=JobLogs(mount),
            conversations=Conversations(mount),
            streams=Streams(mount),
            schedules=Schedules(mount),
            shared_values=SharedValues(mount),
            supervisors=Supervisors(mount),
            scores=Scores(mount),
            evaluations=Evaluations(mount),
            notification_rules=NotificationRules(mount),
            outbox=Outbox(mount),
            keys=Keys(mount),
            audit=Audit(mount),
            replies=Replies(mount),
            sign_ins=SignIns(mount),
            blobs=Blobs(mount),
            sessions=sessions,
            views=Views(mount),
            watch=Watch(mount),
            tail=Tail(mount),
            followers=Followers(mount),
            upkeep=Upkeep(mount, sessions),
        )


def _is_idle(conversation: Conversation) -> bool:
    return conversation.run is None and not conversation.is_pending


def _children_of(disk: Disk, parent: str) -> list[RunId]:
    return [name for name, (link, _) in disk.children.items() if link.parent == parent]


def _below(disk: Disk, root: str) -> list[RunId]:
    return [name for name, (link, _) in disk.children.items() if link.root == root]


def _due(row: RunRow, lost: frozenset[SessionId]) -> DueRun:
    return DueRun(row.run, row.graph_hash, row.due_at_ms, row.tenant, row.started_by, lost)


def _encoded(append: Append) -> list[bytes]:
    """The events as bytes. Raises StoreError for what is no next part of a history, or cannot be encoded."""
    run, row = append.run, append.changes.run
    last = append.expected + len(append.events)
    seqs = [recorded.seq for recorded in append.events]
    if not seqs or seqs != list(range(append.expected + 1, last + 1)) or (row.run, row.seq) != (run, last):
        raise StoreError(f"Events {seqs} of run {run} do not follow from its event {append.expected}.", run=run)
    try:
        _check_columns(row)
        return [encode(recorded.event) for recorded in append.events]
    except Exception as problem:
        raise Unstorable(f"What run {run} was to append cannot be stored ({problem}).", run=run) from problem


def _check_columns(row: RunRow) -> None:
    """Raises for what no column of a database can hold."""
    for value in msgspec.structs.astuple(row):
        _check_column(value)


def _check_column(value: Any) -> None:
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise OverflowError(f"{value} is too large")


def _after(kept: Mapping[Any, Row], after: Any) -> list[Row]:
    """What came to be after that. Raises NotFound where that is not kept."""
    if after is None:
        return list(kept.values())
    if after not in kept:
        raise NotFound(f"There is no {after} to go on after.")
    return list(kept.values())[list(kept).index(after) + 1 :]
