"""Events of a run: immutable facts, past tense, in units. Their fold is the run's state.

Never here: a rule. A field that a later version adds has a default, so that every old history still decodes.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.core.facts.terms import Terms
from holdfast.core.nouns.shared_values import MOST_VERSIONS, SharedConflict, SharedIndex
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import CallId, EffectKey, GateId, NodeName, Path, RunId, Seq, SessionId, StepId
from holdfast.core.values.payload import NULL, Payload
from holdfast.core.values.policies import DEFAULT_RETRY, ErrorRecord, RetryPolicy
from holdfast.core.values.remainder import ScopeLeft


class Event(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A fact in a run's history.

    Where somebody acted, `by` is the name that he gave, which nobody has verified; `os_user` is the operating system's user
    who typed it, `client` whose token it came with over gRPC (see `claim.Claim`). Early histories have only the first.
    """


# --- The run ----------------------------------------------------------------------------------------------------------


class Parent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request for a run that is a child: the operation at `path` of a step of the run `run`. `root` is the run at the top
    of the tree, `depth` how far below it the child is."""

    run: RunId
    step: StepId
    path: Path
    root: RunId
    depth: int


class RunStarted(Terms, Event, frozen=True):  # type: ignore[misc]  # the state has the same, and changes them
    """A run began, with everything about it that never changes afterwards; limits may be raised by later events.

    `counted`: it has its place among the active runs of its tenant and of the fleet (early versions counted none).
    `awaits`: it waits for a place, in this scope first; nothing of it begins before.
    `parent`: the run that it is a child of. `shared`: the scopes above it, besides those of its tenant and team, in which its
    money counts. The rest of what it was started with are its terms (terms).
    `naming`: by which rule the operations of its flow are named (early versions knew the first).
    `contributors`: who else has a part in what it was started with (contribution). `roles`: those in which `by` acted.
    """

    run: RunId
    tenant: str
    workflow: str
    version: int
    graph_hash: str
    input: Payload
    limit_nanousd: int | None
    max_steps: int
    max_active_s: float | None = None
    max_lifespan_s: float | None = None
    key: str | None = None
    input_digest: str = ""
    by: str | None = None
    price_fingerprint: str | None = None
    team: str | None = None
    counted: bool = False
    awaits: str | None = None
    os_user: str = ""
    client: str = ""
    parent: Parent | None = None
    shared: tuple[str, ...] = ()
    naming: int = 1
    contributors: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()


class RunAdmitted(Event, frozen=True):
    """A run that waited for a place among the active ones has it, and begins."""


class AdmissionDeferred(Event, frozen=True):
    """A run that waits for its place found another scope full, and waits there."""

    scope: str


class ContributorNamed(Event, frozen=True):
    """`name` contributed to the run, by an event beside this one: with words in a step's place, as the maker of the key that
    was used, or because they wrote what the run has `read`, a shared value (`SPACE/KEY`) or one that was found in a space."""

    name: str
    read: str | None = None


class MakersLearned(Event, frozen=True):
    """The run has heard of another in which somebody decided with a key. `makers` are those who made such keys, by the folded
    name of the person who decided: `not_by` with that name bars them too."""

    makers: dict[str, tuple[str, ...]]


class RunLabelled(Event, frozen=True):
    """Labels of the run changed; None removes one. `step` is the step whose code asked for it."""

    labels: dict[str, str | None]
    by: str | None = None
    os_user: str = ""
    client: str = ""
    step: StepId | None = None


class RunPaused(Event, frozen=True):
    """A person asked that nothing new begins."""

    by: str | None = None
    os_user: str = ""
    client: str = ""


class RunResumed(Event, frozen=True):
    """A person let a paused run go on."""

    by: str | None = None
    os_user: str = ""
    client: str = ""


class RunFailing(Event, frozen=True):
    """The run will end failed, once every effect has an outcome and compensation is through."""

    error: ErrorRecord


class RunCancelling(Event, frozen=True):
    """The run will end cancelled, once every effect has an outcome and compensation is through."""

    reason: str
    by: str | None = None
    os_user: str = ""
    client: str = ""


class RunCompleted(Event, frozen=True):
    """The run ended with the output of its only end node, or with `parts`, a map by end node."""

    output: Payload = NULL
    parts: dict[str, Payload] = {}


class RunFailed(Event, frozen=True):
    """The run ended with `error`."""

    error: ErrorRecord


class RunCancelled(Event, frozen=True):
    """The run ended because somebody or a limit cancelled it."""

    reason: str


class RunReopened(Event, frozen=True):
    """A person took up a run that had failed: it goes on where it failed, and what it has done stays done. Or a child had
    completed, and its parent is undone: then RunCancelling follows.

    Those steps follow as StepReplayed that go on at once, with their journals; `superseded` ones no longer count, and the
    graph comes to their nodes anew. `counted` and `awaits` are those of RunStarted: its place is asked for again.
    """

    by: str | None = None
    os_user: str = ""
    client: str = ""
    superseded: tuple[StepId, ...] = ()
    counted: bool = False
    awaits: str | None = None


class RunForked(Event, frozen=True):
    """The run goes its own way from `step` of its `origin`, and in a step from the operation at `path`, as that run's event
    `seq` left it. What it has from there follows: StepInherited, OperationInherited, GuardJudged, SignalReceived.

    `visits` says how often each node was come to before, `summoned` to which a loop is going back. `given` are outputs of
    steps that are not done, because a person has said what they come to. `repeats_effects`: what happens once and is not the
    origin's is done without a question.
    """

    origin: RunId
    seq: Seq
    step: StepId
    path: Path | None = None
    visits: dict[NodeName, int] = {}
    summoned: tuple[NodeName, ...] = ()
    given: dict[StepId, Payload] = {}
    repeats_effects: bool = False
    by: str | None = None
    os_user: str = ""
    client: str = ""


class RunMigrated(Event, frozen=True):
    """A person moved the run to another definition of its workflow."""

    version: int
    graph_hash: str
    by: str | None = None
    os_user: str = ""
    client: str = ""


class LimitRaised(Event, frozen=True):
    """A person extended a limit: `cost` (nano-dollars), `steps`, `tokens`, `model_calls`, `tool_calls`, or `active`, `wall` or
    `lifespan` (seconds)."""

    limit: str
    value: int
    by: str | None = None
    os_user: str = ""
    client: str = ""


class LimitNeared(Event, frozen=True):
    """A run has used 50, 80 or 100 % of a limit: `used` of `most`, in nano-dollars, in milliseconds or in what it counts; what
    is only held does not count. At 100 the limit is reached: what is left is too little for what would come next."""

    limit: str
    percent: int
    used: int
    most: int


class LimitWouldStop(Event, frozen=True):
    """A run whose limits are only recorded would have stopped here, `message` says why. It goes on. Told once of each limit,
    until that is raised."""

    limit: str
    message: str


# --- Steps ------------------------------------------------------------------------------------------------------------


class StepReady(Event, frozen=True):
    """A step may start, but nobody took it in the commit that made it ready. One with a `demand` is to be placed first."""

    step: StepId
    demand: Demand | None = None


class StepStarted(Event, frozen=True):
    """An attempt of a step began in a session."""

    step: StepId
    attempt: int
    session: SessionId


class StepSuspended(Event, frozen=True):
    """An attempt left its step, which waits; going on will be the next attempt.

    `yields`: it waits for nothing, its process is stopping; anybody may go on at once.
    """

    step: StepId
    attempt: int
    yields: bool = False


class StepCompleted(Event, frozen=True):
    """A step has its output. `decisions` are the names that its edges are chosen by, None where all are taken.

    `provisional`: the output tells of a failure, so the step keeps its journal: where its run fails and is taken up again,
    the step is too, and whatever followed from it.
    `conversation` are the turns of its talk with a model, where its next visit is to go on with them.
    `trace` is what its code says of how it came to this.
    """

    step: StepId
    attempt: int
    output: Payload
    decisions: tuple[str, ...] | None = None
    provisional: bool = False
    conversation: Payload | None = None
    trace: Payload | None = None


class StateConflicted(Event, frozen=True):
    """The output of a step patches a field of the typed state that `other` had patched meanwhile, with something else: both
    sides, and what the field's `strategy` makes of them. None under `reject`: the attempt fails."""

    step: StepId
    field: str
    strategy: str
    other: StepId
    current: Payload
    attempted: Payload
    resolved: Payload | None = None


class AttemptFailed(Event, frozen=True):
    """An attempt ended in an error and another will follow at `retry_at_ms`, reopening the operation that failed."""

    step: StepId
    attempt: int
    error: ErrorRecord
    retry_at_ms: int
    reopens: Path | None = None


class AttemptLost(Event, frozen=True):
    """The session of an attempt died; the attempt counts for nothing, what it had intended is in doubt."""

    step: StepId
    attempt: int
    session: SessionId


class StepFailed(Event, frozen=True):
    """A step failed for good. `absorbed`: an error edge, a tolerant join or `continue_on_error` takes it from here.

    `parked`: what follows waits for a person, who may have it tried again at `path`, the operation that failed.
    `output` is what it came to, where that led nowhere: its loop was used up, or nothing follows its decision.
    """

    step: StepId
    attempt: int
    error: ErrorRecord
    absorbed: bool = False
    parked: bool = False
    path: Path | None = None
    output: Payload = NULL


class StepReplayed(Event, frozen=True):
    """A person had a step that came to nothing tried again, with its journal and its keys."""

    step: StepId
    reopens: Path | None = None
    by: str | None = None
    os_user: str = ""
    client: str = ""


class StepStopped(Event, frozen=True):
    """An attempt met an operation in its step's journal, at `path`, that its code does not ask for any more; it called nothing.

    It is tried again at `retry_at_ms`, in case the old code is back by then; None: when a person says so.
    """

    step: StepId
    attempt: int
    path: Path
    retry_at_ms: int | None = None


class JournalDropped(Event, frozen=True):
    """A person had a step go on with other code: its journal no longer counts from `path` on; None: from its beginning.

    What had been completed there is kept for whatever asks for the same again. `edited`: it is the run's input that is other.
    """

    step: StepId
    path: Path | None = None
    edited: bool = False


class DeadLetterEdited(Event, frozen=True):
    """A person gave the run another input, or the call of `tool` at `path` other arguments, for a step of it that has failed
    for good to be tried again with."""

    step: StepId
    input: Payload
    by: str | None = None
    os_user: str = ""
    client: str = ""
    path: Path | None = None
    tool: str = ""
    arguments: Payload | None = None


class DeadLetterResolved(Event, frozen=True):
    """A person said that nothing more is to become of a step that has failed for good."""

    step: StepId
    reason: str | None = None
    by: str | None = None
    os_user: str = ""
    client: str = ""


class OperationReused(Event, frozen=True):
    """A step asked, at `path`, for what it had completed in a journal that was dropped, and got that outcome. `kept` is the
    name under which it had been kept."""

    step: StepId
    attempt: int
    path: Path
    kept: Path
    origin: RunId | None = None
    """Of which run it is the outcome, where the run is a fork and `kept` is the place there."""


class StepInherited(Event, frozen=True):
    """A step is over because it was in the run's origin, or because its output was `given` to the run when it was forked.
    `previous`: as a loop's visit before."""

    step: StepId
    status: Literal["completed", "failed", "skipped", "cancelled"]
    output: Payload = NULL
    decisions: tuple[str, ...] | None = None
    error: ErrorRecord | None = None
    absorbed: bool = False
    reason: str | None = None
    conversation: Payload | None = None
    previous: bool = False
    fields: dict[str, Payload] = {}


class OperationInherited(Event, frozen=True):
    """The outcome of an operation in the run's origin. It happened there: its key and its call are the origin's.

    `stands`: it is in the step's journal from the beginning; otherwise it is reused if the step asks for the same at `path`.
    """

    step: StepId
    path: Path
    kind: str
    name: str
    args_hash: str
    outcome: Payload | None = None
    error: ErrorRecord | None = None
    call: CallId | None = None
    key: EffectKey | None = None
    stands: bool = False


class StepCancelling(Event, frozen=True):
    """The code of a step hears that its run is being cancelled. It may clean up until `until_ms`; then it is called off."""

    step: StepId
    until_ms: int


class StepSkipped(Event, frozen=True):
    """A step will not happen: its join can no longer be met, or its guard denied it."""

    step: StepId
    reason: str


class StepCancelled(Event, frozen=True):
    """A step was called off: its run is ending, or a join that it led to was met without it."""

    step: StepId
    attempt: int
    reason: str


class LoopTaken(Event, frozen=True):
    """A loop edge sent the run back to `target`; the outputs of `superseded` steps are those of the visit before from now on.

    `rearmed` are nodes of the loop's body that had not started, but of which something was known already: that their
    join had been reached, what their guard said. It no longer counts. `bygone` are those that this time round has not come
    to: the visit that they had before it is no longer the one before.
    """

    source: StepId
    target: NodeName
    superseded: tuple[StepId, ...]
    rearmed: tuple[NodeName, ...] = ()
    bygone: tuple[NodeName, ...] = ()


class ItemsMapped(Event, frozen=True):
    """A step, at `path`, has a list done item by item, each a step of its own, and waits for what that comes to.

    The items are called `map[0]`, `map[1]` and so on, or by their `keys`. Their values are in `pages`, each a part of the list
    as JSON, of which `starts` says with which item it begins. At most `max_parallel` are under way; they have done enough once
    `enough` of them have completed, `tolerated` may fail, and after `timeout_ms` nothing more is waited for: then what is
    there is taken if it `settles`, else they have failed. `name` is what a flow calls for each item, or the map's node;
    `retry` and `demand` are those of each item, unless `demands` says what each asks for. One that `is_call` has one item, the
    arguments of a step that asks for a place of its own: it fails as that does. With `fail_fast` an item that completes and
    tells of a failure stops the others: none begins any more, and those that are active are asked to end, and waited for.
    """

    step: StepId
    attempt: int
    path: Path
    map: str
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
    fail_fast: bool = False


class MapEnded(Event, frozen=True):
    """The items of a map have done enough; or, with `error`, no longer can."""

    step: StepId
    path: Path
    map: str
    error: ErrorRecord | None = None


class MapReopened(Event, frozen=True):
    """A map goes on whose step is tried again, with its time anew. Those items that came to nothing, `again`, follow as
    StepReplayed, each when there is room for it; early versions named none and had them follow at once."""

    step: StepId
    path: Path
    map: str
    again: tuple[NodeName, ...] = ()


class GuardAsked(Event, frozen=True):
    """A guard must speak: about the edge from `step` to `target`, or, without `target`, about starting `step`."""

    step: StepId
    target: NodeName | None
    guard: str


class GuardJudged(Event, frozen=True):
    """A guard has spoken; a transition that it denied is recorded with its reason. `above` is what it was shown of the budgets
    above the run, which no history of a run tells."""

    step: StepId
    target: NodeName | None
    guard: str
    allowed: bool
    reason: str | None = None
    above: tuple[ScopeLeft, ...] = ()


class JoinOpened(Event, frozen=True):
    """The first branch reached a join that does not wait for ever."""

    node: NodeName
    due_at_ms: int


class JoinTimedOut(Event, frozen=True):
    """A join's time was up before it was met."""

    node: NodeName


# --- Operations -------------------------------------------------------------------------------------------------------


class ValueRecorded(Event, frozen=True):
    """A step looked at something that will not be the same again (the clock), or came to a result that it need not come to
    again; a replay sees this value. A result is a payload.

    Of a function that a flow called as a step (kind `step`), `name` and `args_hash` say which it was, and what it was given;
    `took_ms` is how long it ran.
    """

    step: StepId
    path: Path
    kind: str
    value: Any
    payload: Payload | None = None
    name: str = ""
    args_hash: str = ""
    took_ms: int = 0


class FunctionFailed(Event, frozen=True):
    """A function that a flow called as a step ended in an error, or in what cannot be kept, after `took_ms`."""

    step: StepId
    attempt: int
    path: Path
    name: str
    args_hash: str
    error: ErrorRecord
    took_ms: int = 0


class RetryScheduled(Event, frozen=True):
    """An operation that has failed will be tried again at `retry_at_ms`; until then the step that asks for it waits."""

    step: StepId
    path: Path
    retry_at_ms: int


class Hold(msgspec.Struct, frozen=True, omit_defaults=True):
    """The reservation of a call that now closes, and its time: its day is that of the hold, however late it closes.

    `in_doubt`: its cost was unknown. `agent` and `loans` as the call had them.
    """

    nanousd: int
    at_ms: int
    in_doubt: bool = False
    tokens: int = 0
    agent: str | None = None
    loans: dict[str, int] = {}


class ModelCallHeld(Event, frozen=True):
    """Money set aside for one model call before it leaves the process: the worst case, never an estimate.

    `model` is what the step asked for, `sent_to` what it will get: where money was short, `offer` is not the first.
    `tokens` is the most that it may use; they count against the run's limit as the money does.
    `scoped`: its money counts in the scopes above the run too; `tokens_scoped`: so do its tokens. Early versions had none.
    `bound_percent` and `token_bound_percent`: by how much its bounds were raised, because its model had billed a call of the
    run above them. `agent`: whose allotment of the run's team budget it counts in; `loans`: what others of the team lend
    for it, by their scopes.
    """

    call: CallId
    step: StepId
    attempt: int
    path: Path
    model: str
    args_hash: str
    hold_nanousd: int
    offer: int = 0
    sent_to: str = ""
    tokens: int = 0
    scoped: bool = False
    tokens_scoped: bool = False
    bound_percent: int = 100
    token_bound_percent: int = 100
    agent: str | None = None
    loans: dict[str, int] = {}


class PoolsAwaited(Event, frozen=True):
    """A model call waits for what it takes of pools, longer than a moment. Nothing is held for it yet."""

    step: StepId
    path: Path
    model: str
    pools: tuple[str, ...]


class HoldDeferred(Event, frozen=True):
    """A call of a model or, of the kind `tool`, of a tool waits for money or tokens that other calls of the run still hold.

    `blocked`: what these leave would not be enough either, so a person is asked.
    """

    step: StepId
    attempt: int
    path: Path
    model: str
    args_hash: str
    needed_nanousd: int
    needed_tokens: int = 0
    blocked: bool = False
    kind: Literal["model", "tool"] = "model"


class ScopeExceeded(Event, frozen=True):
    """A call of a model or, of the kind `tool`, of a tool fits its run, but not the limit of a scope above the run: a tenant's
    or a team's day or month, a conversation, a tree of runs, or a team budget.

    It waits for room there, at most until `due_at_ms`, when another day or month begins; a tree has none.
    `blocked`: what the calls in flight may leave would not be enough either, so a person may want to raise the limit.
    Where the scope counts tokens, `limit_tokens` is its limit, and `limit_nanousd` is 0. `grantable` is what an agent of a team
    budget could have been granted instead, in what the scope counts, with all that others may lend.
    """

    step: StepId
    attempt: int
    path: Path
    model: str
    args_hash: str
    scope: str
    needed_nanousd: int
    limit_nanousd: int
    due_at_ms: int | None
    blocked: bool = False
    needed_tokens: int = 0
    limit_tokens: int | None = None
    kind: Literal["model", "tool"] = "model"
    grantable: int | None = None


class OperationReopened(Event, frozen=True):
    """An operation that waited or failed is to be tried again: a scope had room, its time was over, another run's effect has
    its outcome, or the time for the next attempt has come."""

    step: StepId
    path: Path


class ModelCallSettled(Event, frozen=True):
    """A model call has its reply and its price; the rest of its hold is free again."""

    call: CallId
    cost_nanousd: int
    input_tokens: int
    output_tokens: int
    output: Payload
    over_bound: bool = False
    hold: Hold | None = None


class ModelCallFailed(Event, frozen=True):
    """A model call was refused or never left: certainly nothing was spent, so its hold is free again.

    `reopens`: it failed for no reason of its own, so the next attempt makes it instead of hearing of an error.
    """

    call: CallId
    error: ErrorRecord
    reopens: bool = False
    hold: Hold | None = None


class ModelCallInDoubt(Event, frozen=True):
    """Nobody can know what a model call cost; its whole hold counts as spent until it is reconciled.

    `partial` is what a model had said that was to be heard while it spoke, up to where it was lost or stopped.
    """

    call: CallId
    error: ErrorRecord
    reopens: bool = False
    output: Payload | None = None
    hold: Hold | None = None
    partial: Payload | None = None


class ModelCallReconciled(Event, frozen=True):
    """The cost of a call in doubt became known, or was taken as known: from a person, or from a `rule` that a person had set
    beforehand."""

    call: CallId
    cost_nanousd: int
    by: str | None = None
    os_user: str = ""
    client: str = ""
    hold: Hold | None = None
    rule: str | None = None


class EffectIntended(Event, frozen=True):
    """A tool is about to be called: from here on it may have happened.

    `hold_nanousd` is what the call costs, by the tool's declared price, set aside as for a model call. `given_up` are calls
    under the same key that nobody waits for any more: each may have been billed, so what was held for it is spent. `agent` and
    `loans` as for a model call.
    """

    call: CallId
    step: StepId
    attempt: int
    path: Path
    tool: str
    policy: str
    key: EffectKey
    args_hash: str
    request: Payload
    named: bool = False
    settles_within_s: float | None = None
    compensation: str | None = None
    compensates: CallId | None = None
    tenant_wide: bool = False
    hold_nanousd: int = 0
    given_up: dict[CallId, Hold] = {}
    agent: str | None = None
    loans: dict[str, int] = {}


class EffectReused(Event, frozen=True):
    """A step meant an effect that the run already has under the same name; it got the recorded outcome.

    `call` and `response` where another run of the tenant has it.
    """

    step: StepId
    attempt: int
    path: Path
    tool: str
    args_hash: str
    key: EffectKey
    call: CallId | None = None
    response: Payload | None = None


class EffectDeferred(Event, frozen=True):
    """A step means an effect of a name that another call has in flight; it waits for that outcome.

    `call` where that is another run's.
    """

    step: StepId
    attempt: int
    path: Path
    tool: str
    args_hash: str
    key: EffectKey
    call: CallId | None = None


class EffectCompleted(Event, frozen=True):
    """A tool did what it was asked, and answered. `by` where a person said so. It has cost what was held for it."""

    call: CallId
    response: Payload
    by: str | None = None
    os_user: str = ""
    client: str = ""
    hold: Hold | None = None


class EffectFailed(Event, frozen=True):
    """A tool did not do what it was asked: it said so, or a person did (`by`); what was held for it is free again. Or it had
    only to read, and nobody will know what became of that: then it may have been billed, and has `cost_nanousd`."""

    call: CallId
    error: ErrorRecord
    by: str | None = None
    os_user: str = ""
    client: str = ""
    hold: Hold | None = None
    cost_nanousd: int = 0


class EffectReleased(Event, frozen=True):
    """An intent provably never left the process; the operation is open again, and what was held for it is free."""

    call: CallId
    hold: Hold | None = None


class EffectInDoubt(Event, frozen=True):
    """Nobody can know from here whether a tool did what it was asked. What was held for it counts as spent until somebody
    does."""

    call: CallId
    error: ErrorRecord
    hold: Hold | None = None


class EffectUnanswered(Event, frozen=True):
    """A call that may be repeated brought no answer. For its step it failed; a retry will repeat it under its key.

    Until then, and if there is none, nobody knows whether the tool did what it was asked.
    """

    call: CallId
    error: ErrorRecord
    hold: Hold | None = None


class EffectReopened(Event, frozen=True):
    """An effect in doubt is to be called again under its key: its policy allows it, or a person did (`by`).

    Its outcome is still accepted until the repeat is intended.
    """

    call: CallId
    by: str | None = None
    os_user: str = ""
    client: str = ""
    hold: Hold | None = None


class OutcomeOrphaned(Event, frozen=True):
    """A call that had been given up and repeated under its key brought its outcome after all. Kept as the truth it is."""

    call: CallId
    response: Payload | None = None
    error: ErrorRecord | None = None


class ToolCallDenied(Event, frozen=True):
    """A tool call was refused before anything happened: not listed, not approved, or of the wrong shape."""

    step: StepId
    attempt: int
    path: Path
    tool: str
    args_hash: str
    error: ErrorRecord


class OperationCalledOff(Event, frozen=True):
    """The code of a step goes on without what it had asked for at `path`, which has no outcome: a time limit ran out, or a task
    was cancelled. It ends in an error of the class `called_off`."""

    step: StepId
    path: Path


class TimerStarted(Event, frozen=True):
    """A step sleeps until `due_at_ms`; `name` is `timer` where its code waits by asyncio's clock."""

    step: StepId
    attempt: int
    path: Path
    args_hash: str
    due_at_ms: int
    name: str = "sleep"


class TimerFired(Event, frozen=True):
    """A sleeping step's time has come."""

    step: StepId
    path: Path


class SignalAwaited(Event, frozen=True):
    """A step waits for a program to send the signal `name`; `due_at_ms` bounds the wait. `schema` is the JSON Schema of the
    data that it takes, where that has a type."""

    step: StepId
    attempt: int
    path: Path
    name: str
    args_hash: str
    due_at_ms: int | None = None
    schema: dict[str, Any] | None = None


class SharedValueWritten(Event, frozen=True):
    """A step wrote a shared value, in the place of version `base` (0: there was none): `outcome` is the new version, of all of
    which the last `keep` stay (0: none does). `fence` is the number of the lock under which it did. `index` is by what it is
    found; `dropped` are keys of the space that went with this write."""

    step: StepId
    path: Path
    space: str
    key: str
    args_hash: str
    base: int
    outcome: Payload
    fence: int | None = None
    index: SharedIndex | None = None
    keep: int = MOST_VERSIONS
    dropped: tuple[str, ...] = ()


class SharedValueConflicted(Event, frozen=True):
    """A step's write of a shared value expected another version than was there: both sides, and how it was resolved. With an
    error it was refused."""

    step: StepId
    path: Path
    space: str
    key: str
    args_hash: str
    conflict: SharedConflict
    error: ErrorRecord | None = None


class SharedValueAwaited(Event, frozen=True):
    """A step waits until a shared value has a later version than `after`; `due_at_ms` bounds the wait."""

    step: StepId
    attempt: int
    path: Path
    space: str
    key: str
    args_hash: str
    after: int
    due_at_ms: int | None = None


class SharedValueArrived(Event, frozen=True):
    """The version that a step waited for is there: `outcome`."""

    step: StepId
    path: Path
    outcome: Payload


class SharedValueTimedOut(Event, frozen=True):
    """Nobody wrote the version that a step waited for in time."""

    step: StepId
    path: Path
    error: ErrorRecord


class SignalReceived(Event, frozen=True):
    """A signal arrived; it is kept until a step asks for it. With a `key`, the same signal does not arrive again; `digest` is
    of its name and data. `sender` is the run whose step sent it."""

    name: str
    number: int
    data: Payload
    by: str | None = None
    os_user: str = ""
    client: str = ""
    key: str | None = None
    digest: str = ""
    sender: RunId | None = None


class SignalDelivered(Event, frozen=True):
    """A step got the signal that it waited for."""

    step: StepId
    path: Path
    number: int


class SignalTimedOut(Event, frozen=True):
    """A step waited for a signal until its time was up."""

    step: StepId
    path: Path
    error: ErrorRecord


class MessageReceived(Event, frozen=True):
    """Something was said in the run's conversation while its agent was at work: the exchange of that number. It is kept until a
    model is asked about the conversation."""

    number: int
    message: Payload
    by: str | None = None
    os_user: str = ""
    client: str = ""


class MessageRead(Event, frozen=True):
    """A message is part of what the model is asked by the call beside which `path` is, and by those that follow it."""

    step: StepId
    attempt: int
    path: Path
    number: int


# --- Children ---------------------------------------------------------------------------------------------------------


class TreeOpened(Event, frozen=True):
    """A run that has a limit on money or on tokens asks for its first child. From here on what it has a limit of counts in a
    scope too, with that of every run below it: what it has used so far is taken along, and its limit is the scope's."""

    limit_nanousd: int | None
    settled_nanousd: int
    held_nanousd: int
    in_doubt_nanousd: int
    limit_tokens: int | None = None
    settled_tokens: int = 0
    held_tokens: int = 0
    in_doubt_tokens: int = 0


class ChildRequested(Event, frozen=True):
    """A step asks for a child, a run of its own, which is about to start; `limit_nanousd` and `max_tokens` are its own limits,
    where they are given.

    `background`: the step goes on. `key`: by which name the run knows the child. `again`: the child has failed, and is taken up
    where it did. `handoff`: the conversation is handed over to it. `agent`: as whom it counts in the team
    budget that it shares.
    """

    step: StepId
    attempt: int
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
    again: bool = False
    handoff: bool = False
    max_tokens: int | None = None
    agent: str | None = None


class ChildAwaited(Event, frozen=True):
    """A step waits for the end of a child that was asked for before, or hears of it at once. `background`: it asks only which
    run that is. `kind` is that of its operation."""

    step: StepId
    attempt: int
    path: Path
    child: RunId
    workflow: str
    args_hash: str
    kind: str
    background: bool = False


class ChildAbandoned(Event, frozen=True):
    """Nobody waits for a child any more: it is to be cancelled."""

    child: RunId
    reason: str


class ChildUndone(Event, frozen=True):
    """A run that undoes itself has a child that had completed undo what that did; the child ends once more."""

    step: StepId
    attempt: int
    path: Path
    child: RunId
    workflow: str
    args_hash: str


class ChildEnded(Event, frozen=True):
    """A child has ended: with `output`, or failed or cancelled, with `error`. `undoable`: it has done what it can undo.
    `contributors` have a part in what it came to."""

    child: RunId
    how: Literal["completed", "failed", "cancelled"]
    output: Payload = NULL
    error: ErrorRecord | None = None
    undoable: bool = False
    contributors: tuple[str, ...] = ()


# --- People -----------------------------------------------------------------------------------------------------------


class GateOpened(Event, frozen=True):
    """A person is asked. `reason` says by whom and why: `approval` and `question` by the workflow, others by the engine.

    `allowed` are the decisions it takes; `form` is the JSON Schema of their data and `filled` what it is filled with.
    `subject` names what an engine's gate is about: a call, a limit, a step. `not_by` are persons who cannot decide it; with
    `four_eyes` neither can the `requester` nor the `contributors`. `edited_by` has edited what is shown since (GateEdited).
    Once it was given to others, `asked_first` are the reviewers whom it was opened for (GateAssigned).
    `quorum` distinct persons approve it; one of them rejects it. With `hash_optional`, as in early histories, a decision that
    comes to a server may leave out the hash of what was shown. What it proposes is kept with it: an action, its evidence, its
    risk.
    """

    gate: GateId
    reason: str
    shown: Payload
    shown_hash: str
    allowed: tuple[str, ...]
    step: StepId | None = None
    attempt: int = 0
    path: Path | None = None
    args_hash: str = ""
    form: dict[str, Any] | None = None
    filled: Payload = NULL
    reviewers: tuple[str, ...] = ()
    requester: str | None = None
    four_eyes: bool = False
    subject: str | None = None
    due_at_ms: int | None = None
    remind_every_ms: int | None = None
    cancel_after_ms: int | None = None
    completes_step: bool = False
    expires_at_ms: int | None = None
    not_by: tuple[str, ...] = ()
    contributors: tuple[str, ...] = ()
    edited_by: str | None = None
    quorum: int = 1
    hash_optional: bool = True
    proposed_action: str | None = None
    evidence_ids: tuple[str, ...] = ()
    risk_level: str | None = None
    asked_first: tuple[str, ...] | None = None


class GateApproved(Event, frozen=True):
    """One of several persons whom a gate with a quorum needs approved what `shown_hash` stands for. The last is in GateDecided.
    `maker` has made the key that was used."""

    gate: GateId
    shown_hash: str
    by: str | None = None
    os_user: str = ""
    client: str = ""
    reason: str | None = None
    roles: tuple[str, ...] = ()
    maker: str | None = None


class GateEdited(Event, frozen=True):
    """A person edited what a gate with four eyes shows. Nothing of it is done: the gate asks another person about `data` now,
    under another hash. `maker` has made the key that was used."""

    gate: GateId
    data: Payload
    shown_hash: str
    by: str | None = None
    os_user: str = ""
    client: str = ""
    reason: str | None = None
    roles: tuple[str, ...] = ()
    maker: str | None = None


class GateAssigned(Event, frozen=True):
    """An open gate asks `reviewers` from here on. One of those it asked has `delegated` it, and they are asked beside them;
    or somebody has given it to others in their place."""

    gate: GateId
    reviewers: tuple[str, ...]
    delegated: bool = False
    by: str | None = None
    os_user: str = ""
    client: str = ""
    reason: str | None = None
    roles: tuple[str, ...] = ()


class GateReminded(Event, frozen=True):
    """Nobody has answered yet; people should be notified again."""

    gate: GateId
    number: int


class GateEscalated(Event, frozen=True):
    """A gate's deadline passed. It never decides by itself: it summons attention."""

    gate: GateId
    reason: str


class GateDecided(Event, frozen=True):
    """A person answered a gate, about exactly what `shown_hash` stands for. `roles` are those in which he said he acts;
    `maker` has made the key that was used."""

    gate: GateId
    decision: str
    data: Payload
    shown_hash: str
    by: str | None = None
    os_user: str = ""
    client: str = ""
    reason: str | None = None
    roles: tuple[str, ...] = ()
    maker: str | None = None


class GateExpired(Event, frozen=True):
    """Nobody answered a gate before the moment after which no answer counts. `error` is what the code that asked is told."""

    gate: GateId
    error: ErrorRecord


class GateWithdrawn(Event, frozen=True):
    """A gate no longer needs an answer."""

    gate: GateId
    reason: str


class LifespanPassed(Event, frozen=True):
    """The run is older than its workflow expects; a person should look, nothing was stopped."""

    lifespan_s: float


AnyEvent = (
    RunStarted
    | RunAdmitted
    | AdmissionDeferred
    | MakersLearned
    | ContributorNamed
    | RunLabelled
    | RunPaused
    | RunResumed
    | RunFailing
    | RunCancelling
    | RunCompleted
    | RunFailed
    | RunCancelled
    | RunReopened
    | RunForked
    | RunMigrated
    | LimitRaised
    | LimitNeared
    | LimitWouldStop
    | StepReady
    | StepStarted
    | StepSuspended
    | StepCompleted
    | StateConflicted
    | AttemptFailed
    | AttemptLost
    | StepFailed
    | StepReplayed
    | StepStopped
    | JournalDropped
    | OperationReused
    | StepInherited
    | OperationInherited
    | DeadLetterEdited
    | DeadLetterResolved
    | StepSkipped
    | StepCancelling
    | StepCancelled
    | ItemsMapped
    | MapEnded
    | MapReopened
    | LoopTaken
    | GuardAsked
    | GuardJudged
    | JoinOpened
    | JoinTimedOut
    | ValueRecorded
    | FunctionFailed
    | RetryScheduled
    | PoolsAwaited
    | ModelCallHeld
    | HoldDeferred
    | ScopeExceeded
    | OperationReopened
    | ModelCallSettled
    | ModelCallFailed
    | ModelCallInDoubt
    | ModelCallReconciled
    | EffectIntended
    | EffectReused
    | EffectDeferred
    | EffectCompleted
    | EffectFailed
    | EffectReleased
    | EffectInDoubt
    | EffectUnanswered
    | EffectReopened
    | OutcomeOrphaned
    | ToolCallDenied
    | SharedValueWritten
    | SharedValueConflicted
    | SharedValueAwaited
    | SharedValueArrived
    | SharedValueTimedOut
    | OperationCalledOff
    | TimerStarted
    | TimerFired
    | SignalAwaited
    | SignalReceived
    | SignalDelivered
    | SignalTimedOut
    | MessageReceived
    | MessageRead
    | TreeOpened
    | ChildRequested
    | ChildAwaited
    | ChildAbandoned
    | ChildUndone
    | ChildEnded
    | GateOpened
    | GateApproved
    | GateEdited
    | GateAssigned
    | GateReminded
    | GateEscalated
    | GateDecided
    | GateExpired
    | GateWithdrawn
    | LifespanPassed
)


class Recorded(msgspec.Struct, frozen=True):
    """An event in its place: the run's `seq`-th, at the store's time `at_ms` (milliseconds since the epoch).

    `trace_id` is that of the latest request so far that told the run something and named its trace (core.values.trace).
    """

    seq: Seq
    at_ms: int
    event: Event
    trace_id: str | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    return _encoder.encode(event)


def decode(data: bytes) -> Event:
    """Raises msgspec.ValidationError for what is no event known to this version."""
    event: Event = _decoder.decode(data)
    return event
