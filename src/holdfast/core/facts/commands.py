"""Commands to a run: imperative and complete, decided by core.decide or refused there.

Never here: a rule. A process that executes steps puts itself into `Worker`, so that a step that becomes ready can start at
once.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.core.facts.events import Event, Parent
from holdfast.core.facts.state import TIMER
from holdfast.core.facts.terms import Terms
from holdfast.core.nouns.evaluations import HeldVersion
from holdfast.core.nouns.shared_values import MAX_VERSIONS, SharedConflict, SharedIndex
from holdfast.core.nouns.team_budgets import Lender
from holdfast.core.nouns.tool_policy import ToolTerms
from holdfast.core.values.actor import NOBODY, Actor
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import NAMING, CallId, EffectKey, GateId, NodeName, Path, RunId, SessionId, StepId
from holdfast.core.values.payload import NULL, Payload
from holdfast.core.values.policies import DEFAULT_RETRY, ErrorRecord, RetryPolicy
from holdfast.core.values.proposal import Proposal
from holdfast.core.values.remainder import ScopeLeft


class Worker(msgspec.Struct, frozen=True):
    """A session that may start up to `slots` steps in this commit, and besides them those that were `placed` with it."""

    session: SessionId
    slots: int
    placed: frozenset[StepId] = frozenset()


class Shortage(msgspec.Struct, frozen=True):
    """Facts about a scope without room: it may still take `left`; calls in flight there hold `held`. If it is the scope of an
    agent of a team budget, `team` are the agents of that."""

    limit: int
    left: int
    held: int
    team: tuple[Lender, ...] = ()


class KnownEffect(msgspec.Struct, frozen=True):
    """Facts about a tenant-wide effect of another run: its call, its request and, if it is known, its outcome."""

    call: CallId
    args_hash: str
    response: Payload | None = None


class Command(msgspec.Struct, frozen=True):
    """A wish. `makers`, of one that brings what another run came to: who made the keys with which that was decided."""


class StartRun(Terms, Command, frozen=True):  # type: ignore[misc]  # the state has the same, and changes them
    """`queue`: where too many runs are active, wait for a place instead of being refused.

    `limit_nanousd` is its cost limit, instead of its workflow's.
    `parent`: it is that run's child; a tree has one place, its root's. `shared`: scopes in which its calls count besides those
    of its tenant and team. `inherits`: what a fork has from its origin (forking), which it takes over by the origin's `naming`.
    `contributors`: who else has a part in what it is started with. `held`: what it asks before its first step.
    """

    run: RunId
    tenant: str
    input: Payload
    input_digest: str
    limit_nanousd: int | None = None
    key: str | None = None
    by: Actor = NOBODY
    price_fingerprint: str | None = None
    team: str | None = None
    queue: bool = False
    inherits: tuple[Event, ...] = ()
    parent: Parent | None = None
    shared: tuple[str, ...] = ()
    naming: int = NAMING
    contributors: tuple[str, ...] = ()
    makers: dict[str, tuple[str, ...]] = {}
    held: HeldVersion | None = None


class LoadedWorkflow(msgspec.Struct, frozen=True):
    """A workflow that a process can run."""

    workflow: str
    version: int
    graph_hash: str


class Tick(Command, frozen=True):
    """Find whether anything is due, lost or startable. `dead` are sessions known to be dead.

    `loaded` comes with the finding that for a grace period no living session could run this run's workflow: it is what
    the process that found it can run. `headroom` are the scopes that it waits for and that have room for it now.
    """

    dead: frozenset[SessionId] = frozenset()
    loaded: tuple[LoadedWorkflow, ...] | None = None
    headroom: frozenset[str] = frozenset()


class LabelRun(Command, frozen=True):
    """Change labels; None removes one."""

    labels: dict[str, str | None]
    by: Actor = NOBODY


class PauseRun(Command, frozen=True):
    by: Actor = NOBODY


class ResumeRun(Command, frozen=True):
    by: Actor = NOBODY


class CancelRun(Command, frozen=True):
    """`insists`: where the run is being cancelled already, what cleans up is cut short."""

    reason: str = "cancelled"
    by: Actor = NOBODY
    insists: bool = False


class UndoRun(Command, frozen=True):
    """Undo what a run has done that has completed: its parent is undone."""

    reason: str


class RetryRun(Command, frozen=True):
    """Take up a run that has failed, where it failed. `contributors`: who else has a part in that."""

    by: Actor = NOBODY
    contributors: tuple[str, ...] = ()
    makers: dict[str, tuple[str, ...]] = {}


class EditDeadLetter(Command, frozen=True):
    """Give the run another input, or the call that its step has failed for good of other arguments, for the step to be tried
    again with."""

    step: StepId
    input: Payload | None = None
    by: Actor = NOBODY
    arguments: Payload | None = None


class RetryDeadLetter(Command, frozen=True):
    """Have a step that has failed for good tried again, or with it all that failed in its run."""

    step: StepId
    by: Actor = NOBODY


class ResolveDeadLetter(Command, frozen=True):
    """Say that nothing more is to become of a step that has failed for good."""

    step: StepId
    reason: str | None = None
    by: Actor = NOBODY


class RaiseLimit(Command, frozen=True):
    """Extend `limit` (one of questions.LIMITS) to `value`, answering its gate if one is open."""

    limit: str
    value: int
    by: Actor = NOBODY


class MigrateRun(Command, frozen=True):
    """Move the run to the graph that the command is decided with."""

    by: Actor = NOBODY


class EndChild(Command, frozen=True):
    """A child of the run has ended; `undoable`: it has done what it can undo."""

    child: RunId
    how: Literal["completed", "failed", "cancelled"]
    output: Payload = NULL
    error: ErrorRecord | None = None
    undoable: bool = False
    contributors: tuple[str, ...] = ()
    makers: dict[str, tuple[str, ...]] = {}


class SendSignal(Command, frozen=True):
    """Bring the run a signal. With a `key` it is received once, however often it is sent; `digest` is of its name and data.

    `sender` is the run whose step sends it, and `contributors` are that run's. `plain` is the data where it is to be held
    against what the run waits for: UNSET where the sender has done so."""

    name: str
    data: Payload = NULL
    by: Actor = NOBODY
    key: str | None = None
    digest: str = ""
    sender: RunId | None = None
    plain: Any = msgspec.UNSET
    contributors: tuple[str, ...] = ()
    makers: dict[str, tuple[str, ...]] = {}


class SendMessage(Command, frozen=True):
    """Tell the run what was said in its conversation while it was at work: the exchange `number`, once."""

    number: int
    message: Payload
    by: Actor = NOBODY


class DecideGate(Command, frozen=True):
    """Answer a gate. `shown_hash`, where given, is what the person saw.

    `data` is the gate's form; `given` tells an answer of null from no answer. `roles` are those in which the person acts. `kin`
    are the contributors to the runs under way above and below, None where not all are known.
    """

    gate: GateId
    decision: str
    data: dict[str, Any] | None = None
    by: Actor = NOBODY
    reason: str | None = None
    shown_hash: str | None = None
    given: bool = False
    roles: tuple[str, ...] = ()
    kin: tuple[str, ...] | None = ()


class AssignGate(Command, frozen=True):
    """Have an open gate ask `to`, persons or roles: beside those whom it asks, who `delegates` being one of them, or in their
    place. For `kin` see DecideGate."""

    gate: GateId
    to: tuple[str, ...]
    delegates: bool
    by: Actor = NOBODY
    reason: str | None = None
    roles: tuple[str, ...] = ()
    kin: tuple[str, ...] | None = ()


class DecideTogether(Command, frozen=True):
    """Answer several gates of one step about calls of tools, all of them or none."""

    decisions: tuple[DecideGate, ...]


class JudgeGuards(Command, frozen=True):
    """The verdicts of guards: (step, target or None, guard, allowed, reason, error)."""

    verdicts: tuple[Verdict, ...]


class Verdict(msgspec.Struct, frozen=True):
    """A guard's verdict. `error` if it failed instead of answering; `above` as GuardJudged has it."""

    step: StepId
    target: NodeName | None
    guard: str
    allowed: bool
    reason: str | None = None
    error: ErrorRecord | None = None
    above: tuple[ScopeLeft, ...] = ()


class ReconcileCall(Command, frozen=True):
    """Record the actual cost of a model call in doubt. `rule`: a person's rule that gives it, if no person does now."""

    call: CallId
    cost_nanousd: int
    by: Actor = NOBODY
    rule: str | None = None


# --- From inside an attempt: fenced by (step, attempt) -----------------------------------------------------------------


class Value(msgspec.Struct, frozen=True):
    """Something a step looked at or came to, to be recorded with its next commit.

    `name` and `args_hash` say of a function's result which function it was, and what it was given. `authors` wrote what it
    looked at.
    """

    path: Path
    kind: str
    value: Any
    payload: Payload | None = None
    name: str = ""
    args_hash: str = ""
    authors: tuple[str, ...] = ()
    took_ms: int = 0
    """The time that the function took."""


class AttemptCommand(Command, frozen=True):
    """Refused with StaleAttempt when `attempt` is not the step's current one."""

    step: StepId
    attempt: int


class CompleteStep(AttemptCommand, frozen=True):
    """`provisional`: should its run fail and be taken up again, the step is too. `conversation` are the turns with which the
    step's next visit is to go on, `trace` what its code says of how it came to its output."""

    output: Payload
    decisions: tuple[str, ...] | None = None
    values: tuple[Value, ...] = ()
    provisional: bool = False
    conversation: Payload | None = None
    trace: Payload | None = None


class FailAttempt(AttemptCommand, frozen=True):
    """`path` is the operation whose error escaped the handler, which a retry reopens. `spent`: it has had all the tries that a
    policy of its own gives it."""

    error: ErrorRecord
    path: Path | None = None
    values: tuple[Value, ...] = ()
    spent: bool = False


class Timer(msgspec.Struct, frozen=True):
    """A wait of a step's code by asyncio's clock, for `wait_ms` from now on."""

    path: Path
    args_hash: str
    wait_ms: int
    name: str = TIMER


class SuspendStep(AttemptCommand, frozen=True):
    """`yields`: the step waits for nothing, its process is stopping. `timers` are started, but for those in its journal
    and while nothing new may begin."""

    values: tuple[Value, ...] = ()
    yields: bool = False
    timers: tuple[Timer, ...] = ()


class CallOffOperations(AttemptCommand, frozen=True):
    """The step's code goes on without what it had asked for at `paths`. What has its outcome keeps it, and so does a call that
    was sent: it is left alone."""

    paths: tuple[Path, ...]
    values: tuple[Value, ...] = ()


class StopStep(AttemptCommand, frozen=True):
    """The step's journal holds something at `path` that its code does not ask for any more. `recorded` and `asked` say both
    for people: `operation`, in a few words, and `arguments`."""

    path: Path
    recorded: dict[str, Any]
    asked: dict[str, Any]


class RecordValues(AttemptCommand, frozen=True):
    """Results of the step so far, recorded now because producing them again would cost more than a commit. `timers` start as
    with SuspendStep."""

    values: tuple[Value, ...]
    timers: tuple[Timer, ...] = ()


class FailFunction(AttemptCommand, frozen=True):
    """The function that the step called at `path` ended in an error; `retry` says whether it is called again."""

    path: Path
    name: str
    args_hash: str
    error: ErrorRecord
    retry: RetryPolicy
    values: tuple[Value, ...] = ()
    took_ms: int = 0


class RetryOperation(AttemptCommand, frozen=True):
    """Try the operation at `path` again, which has failed, if `retry` gives it another try."""

    path: Path
    retry: RetryPolicy


class ReuseOperation(AttemptCommand, frozen=True):
    """Give the operation at `path` the outcome of an equal one of a journal that was dropped, if there is one."""

    path: Path
    kind: str
    name: str
    args_hash: str
    values: tuple[Value, ...] = ()


class MapItems(AttemptCommand, frozen=True):
    """Have a list done item by item; the fields are those of ItemsMapped."""

    path: Path
    name: str
    args_hash: str
    count: int
    max_parallel: int
    enough: int
    tolerated: int = 0
    timeout_ms: int | None = None
    settles: bool = False
    retry: RetryPolicy = DEFAULT_RETRY
    demand: Demand | None = None
    keys: tuple[str, ...] = ()
    pages: tuple[Payload, ...] = ()
    starts: tuple[int, ...] = ()
    is_call: bool = False
    demands: tuple[Demand, ...] = ()
    values: tuple[Value, ...] = ()
    fail_fast: bool = False


class AwaitPools(AttemptCommand, frozen=True):
    """The call of `model` at `path` waits for what it takes of pools, for people to see."""

    path: Path
    model: str
    pools: tuple[str, ...]


class LoseAttempt(AttemptCommand, frozen=True):
    """The attempt gives its step up, though its session lives: the connected worker that did its work is gone."""

    values: tuple[Value, ...] = ()


class CallCandidate(msgspec.Struct, frozen=True):
    """One way to make a model call: with up to `tokens` tokens in and out, at most for `hold_nanousd`."""

    model: str
    hold_nanousd: int
    tokens: int


class HoldModelCall(AttemptCommand, frozen=True):
    """Set the worst case of a call aside: of the first of `offers` that fits. `model` is what the step asked for, `request`
    what is kept of its request."""

    path: Path
    model: str
    args_hash: str
    offers: tuple[CallCandidate, ...]
    values: tuple[Value, ...] = ()
    request: Payload | None = None


class IntendEffect(AttemptCommand, frozen=True):
    """`key` names the effect where the caller did, else it is derived; the request's hash is `args_hash`.

    `tenant_wide`: the name is unique in the tenant, not only in the run. `hold_nanousd` is what the call costs.
    """

    path: Path
    tool: str
    policy: str
    args_hash: str
    request: Payload
    key: EffectKey | None = None
    settles_within_s: float | None = None
    compensation: str | None = None
    compensates: CallId | None = None
    values: tuple[Value, ...] = ()
    tenant_wide: bool = False
    hold_nanousd: int = 0


class DenyToolCall(AttemptCommand, frozen=True):
    path: Path
    tool: str
    args_hash: str
    error: ErrorRecord
    values: tuple[Value, ...] = ()


class StartTimer(AttemptCommand, frozen=True):
    path: Path
    args_hash: str
    wait_ms: int
    values: tuple[Value, ...] = ()


class ReadMessages(AttemptCommand, frozen=True):
    """Have unread messages of the run be part of the prompt at `path`."""

    path: Path
    values: tuple[Value, ...] = ()


class AwaitSignal(AttemptCommand, frozen=True):
    """Wait for a signal; `schema` is the JSON Schema of its data, where that has a type."""

    path: Path
    name: str
    args_hash: str
    timeout_ms: int | None = None
    values: tuple[Value, ...] = ()
    schema: dict[str, Any] | None = None


class WriteSharedValue(AttemptCommand, frozen=True):
    """A write of a shared value, decided on version `base` of it: what it comes to, in `outcome` (a SharedValue, null where
    there is none), and if another version was expected, the `conflict`, with why it is refused where it is. For `index`, `keep`
    and `dropped` see events.SharedValueWritten. From `until_ms` on it is not taken any more. `authors` wrote the version
    of which it was made, or which it met in the place of the expected one."""

    path: Path
    space: str
    key: str
    args_hash: str
    base: int
    is_written: bool
    outcome: Payload
    conflict: SharedConflict | None = None
    refusal: str | None = None
    fence: int | None = None
    values: tuple[Value, ...] = ()
    index: SharedIndex | None = None
    keep: int = MAX_VERSIONS
    dropped: tuple[str, ...] = ()
    until_ms: int | None = None
    authors: tuple[str, ...] = ()


class AwaitSharedValue(AttemptCommand, frozen=True):
    """Wait until a shared value has a later version than `after`."""

    path: Path
    space: str
    key: str
    args_hash: str
    after: int
    timeout_ms: int | None = None
    values: tuple[Value, ...] = ()


class BringSharedValue(Command, frozen=True):
    """A step waits at `path` for a later version of a shared value, and there is one: `value`, a SharedValue, which `authors`
    wrote."""

    step: StepId
    path: Path
    value: Payload
    authors: tuple[str, ...] = ()


class OpenGate(AttemptCommand, frozen=True):
    """Ask a person. With `completes_step` the answer is the step's outcome (a human_gate node)."""

    path: Path
    reason: str
    args_hash: str
    shown: Payload
    shown_hash: str
    allowed: tuple[str, ...]
    form: dict[str, Any] | None = None
    filled: Payload = NULL
    reviewers: tuple[str, ...] = ()
    four_eyes: bool = False
    timeout_ms: int | None = None
    remind_every_ms: int | None = None
    cancel_after_ms: int | None = None
    completes_step: bool = False
    expires_after_ms: int | None = None
    not_by: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()
    quorum: int = 1
    hash_optional: bool = False
    proposal: Proposal = Proposal()
    terms: ToolTerms | None = None


class RequestChild(AttemptCommand, frozen=True):
    """Ask for a run of its own under the name `child`, or, where that of `key` has one already, for that one's outcome."""

    path: Path
    child: RunId
    workflow: str
    version: int
    graph_hash: str
    args_hash: str
    input: Payload
    limit_nanousd: int | None = None
    key: str | None = None
    background: bool = False
    values: tuple[Value, ...] = ()
    handoff: bool = False
    max_tokens: int | None = None


class UndoChild(AttemptCommand, frozen=True):
    """Have a child that has completed undo what it did."""

    path: Path
    child: RunId
    workflow: str
    args_hash: str


class AwaitChild(AttemptCommand, frozen=True):
    """Wait for the end of a child of the run."""

    path: Path
    child: RunId
    args_hash: str
    values: tuple[Value, ...] = ()


# --- The outcomes of calls: addressed to the call, accepted once, whatever became of the attempt ------------------------


class CallCommand(Command, frozen=True):
    """Refused with AlreadyClosed when the call has its outcome."""

    call: CallId


class SettleModelCall(CallCommand, frozen=True):
    cost_nanousd: int
    input_tokens: int
    output_tokens: int
    output: Payload
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cacheable_nanousd: int = 0


class FailModelCall(CallCommand, frozen=True):
    """The provider refused it, or it never left. `reopens`: for no reason of its own, so the next attempt makes it; or because
    one of `fallbacks`, which are asked now in its place, fits what is left."""

    error: ErrorRecord
    reopens: bool = False
    fallbacks: tuple[CallCandidate, ...] = ()


class DoubtModelCall(CallCommand, frozen=True):
    """`output` where there is a reply, but no price can be put on it. `reopens`: the call was given up by its sender
    before anybody heard of an outcome, so the next attempt makes another. `partial`: what it had said until
    then; `cost_nanousd`: what it cost in all, if its provider had already counted that. `fallbacks`: as of FailModelCall."""

    error: ErrorRecord
    output: Payload | None = None
    reopens: bool = False
    partial: Payload | None = None
    cost_nanousd: int | None = None
    fallbacks: tuple[CallCandidate, ...] = ()


class CompleteEffect(CallCommand, frozen=True):
    response: Payload


class FailEffect(CallCommand, frozen=True):
    error: ErrorRecord


class ReleaseEffect(CallCommand, frozen=True):
    """It provably never left."""


class DoubtEffect(CallCommand, frozen=True):
    """`reopens`: the call was given up by its sender before an outcome arrived; if its policy lets it be repeated, the next
    attempt repeats it instead of seeing it fail."""

    error: ErrorRecord
    reopens: bool = False


class ReopenEffect(CallCommand, frozen=True):
    """Its policy allows another call under the same key: `verify` found nothing after the time to settle."""
