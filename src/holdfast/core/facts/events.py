"""Events of a run: immutable facts, past tense, in units. Their fold is the run's state.

Never here: a rule. A field that a later version adds has a default, so that every old history still decodes.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from holdfast.core.facts.terms import Terms
from holdfast.core.nouns.shared_values import MAX_VERSIONS, SharedConflict, SharedIndex
from holdfast.core.nouns.tool_policy import ToolTerms
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import CallId, EffectKey, GateId, NodeName, Path, RunId, Seq, SessionId, StepId
from holdfast.core.values.payload import NULL, Payload
from holdfast.core.values.policies import DEFAULT_RETRY, ErrorRecord, RetryPolicy
from holdfast.core.values.remainder import ScopeLeft


class Event(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """A fact in a run's history.

    Shared args:
        run: Id of the run.
        step: Step that the event is about.
        attempt: Number of the step's attempt, from 1.
        path: Place of the operation in the step's journal.
        args_hash: Hash of what the operation was given.
        call: Id of a model or tool call.
        error: Record of the error.
        reason: Reason, as text.
        by: Name that the person or program gave, which is not verified.
        os_user: Operating system's user who typed the command.
        client: Token with which the request came. Early histories have only `by`.
        roles: Roles in which `by` acted.
        hold: Amount reserved for the call, as it stands afterwards.
        due_at_ms: End of the wait, in Unix milliseconds.
        retry_at_ms: Time of the next attempt, in Unix milliseconds.
        gate: Id of the gate.
        agent: Agent of the run's team budget that is charged.
        loans: Amounts that other agents of the team lend, by scope.
        took_ms: Duration of the call in milliseconds. Early histories do not have it.
    """


# --- The run ----------------------------------------------------------------------------------------------------------


class Parent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request for a run that is a child.

    Args:
        path: Operation of the parent's step.
        root: Run at the top of the tree.
        depth: Number of runs above the child.
    """

    run: RunId
    step: StepId
    path: Path
    root: RunId
    depth: int


class RunStarted(Terms, Event, frozen=True):  # type: ignore[misc]  # the state has the same, and changes them
    """A run began. The event has everything about it that never changes; later events may raise limits.

    Args:
        tenant: Tenant of the run.
        workflow: Name of the workflow.
        version: Version of the workflow.
        graph_hash: Hash of its graph.
        input: Input of the run.
        limit_nanousd: Cost limit in nano-dollars.
        max_steps: Maximum number of steps.
        max_active_s: Maximum working time in seconds.
        max_lifespan_s: Age in seconds at which the run is escalated.
        key: Start key.
        input_digest: Digest of workflow and input, by which a repeated start is recognized.
        price_fingerprint: Fingerprint of the price list.
        team: Team in whose budgets the run counts.
        counted: True if the run has its place among the active runs of its tenant and of the fleet. Early versions counted
            none.
        awaits: Scope in which the run waits for a place first; nothing of it begins before.
        parent: Request of the parent, for a child.
        shared: Further scopes above the run in which its money counts.
        naming: Rule by which operations of its flow are named; early versions knew the first.
        contributors: Others who have a part in what the run was started with.
        traceparent: Place in a trace in which the run was started (W3C Trace Context); its span is zeros where none was named.
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
    traceparent: str = ""


class RunAdmitted(Event, frozen=True):
    """A run that waited for a place among the active runs got it, and begins."""


class AdmissionDeferred(Event, frozen=True):
    """A run that waits for its place found another scope full, and waits there.

    Args:
        scope: The other scope.
    """

    scope: str


class ContributorNamed(Event, frozen=True):
    """A person contributed to the run by the event beside this one. It had that person's words in a step's place, or their key,
    or was based on a shared value that they wrote.

    Args:
        name: Name of the person.
        read: Shared value that the run has read, `SPACE/KEY`.
    """

    name: str
    read: str | None = None


class MakersLearned(Event, frozen=True):
    """The run learned of another run in which a key was used to decide.

    Args:
        makers: Makers of such keys, by folded name of the person who decided. `not_by` with that name bars them too.
    """

    makers: dict[str, tuple[str, ...]]


class RunLabelled(Event, frozen=True):
    """Labels of the run changed.

    Args:
        labels: Labels by key; null removes one.
        step: Step whose code set them.
    """

    labels: dict[str, str | None]
    by: str | None = None
    os_user: str = ""
    client: str = ""
    step: StepId | None = None


class RunPaused(Event, frozen=True):
    """A person paused the run: nothing new begins."""

    by: str | None = None
    os_user: str = ""
    client: str = ""


class RunResumed(Event, frozen=True):
    """A person resumed a paused run."""

    by: str | None = None
    os_user: str = ""
    client: str = ""


class RunFailing(Event, frozen=True):
    """The run will end failed, after every effect has an outcome and compensation is complete."""

    error: ErrorRecord


class RunCancelling(Event, frozen=True):
    """The run will end cancelled, after every effect has an outcome and compensation is complete."""

    reason: str
    by: str | None = None
    os_user: str = ""
    client: str = ""


class RunCompleted(Event, frozen=True):
    """The run ended with an output.

    Args:
        output: Output of its only end node.
        parts: Outputs by end node, if the run has several.
    """

    output: Payload = NULL
    parts: dict[str, Payload] = {}


class RunFailed(Event, frozen=True):
    """The run ended with an error."""

    error: ErrorRecord


class RunCancelled(Event, frozen=True):
    """The run ended because a person or a limit cancelled it."""

    reason: str


class RunReopened(Event, frozen=True):
    """A person retried a failed run: it goes on where it failed. Or a completed child is undone by its parent: then
    RunCancelling follows.

    The steps to retry follow as StepReplayed, with their journals.

    Args:
        superseded: Steps that no longer count; the graph reaches their nodes again.
        counted: As in RunStarted: the run asks for its place again.
        awaits: As in RunStarted.
    """

    by: str | None = None
    os_user: str = ""
    client: str = ""
    superseded: tuple[StepId, ...] = ()
    counted: bool = False
    awaits: str | None = None


class RunForked(Event, frozen=True):
    """The run is a fork: it goes its own way from a step of the original run. What it keeps follows as StepInherited,
    OperationInherited, GuardJudged and SignalReceived.

    Args:
        origin: Id of the original run.
        seq: Event of the original run up to which its history counts.
        path: Operation of the step from which the fork begins; by default the whole step.
        visits: Number of earlier visits, by node.
        summoned: Nodes to which a loop is going back.
        given: Outputs that a person gave for steps, which are not executed.
        repeats_effects: True if new calls of once-only tools are made without asking.
        trace: Id of the original run's trace.
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
    trace: str = ""


class RunMigrated(Event, frozen=True):
    """A person moved the run to another definition of its workflow.

    Args:
        version: Version of the new definition.
        graph_hash: Hash of its graph.
    """

    version: int
    graph_hash: str
    by: str | None = None
    os_user: str = ""
    client: str = ""


class LimitRaised(Event, frozen=True):
    """A person raised a limit.

    Args:
        limit: `cost`, `steps`, `tokens`, `model_calls`, `tool_calls`, `active`, `wall` or `lifespan`.
        value: New limit: a number; nano-dollars for `cost`; seconds for `active`, `wall` and `lifespan`.
    """

    limit: str
    value: int
    by: str | None = None
    os_user: str = ""
    client: str = ""


class LimitNeared(Event, frozen=True):
    """The run has used 50, 80 or 100 % of a limit. Reserved amounts do not count. At 100 too little is left for the next call.

    Args:
        limit: The limit.
        percent: 50, 80 or 100.
        used: Amount used: nano-dollars, milliseconds or a number.
        most: The limit's amount, in the same unit.
    """

    limit: str
    percent: int
    used: int
    most: int


class LimitWouldStop(Event, frozen=True):
    """A run whose limits are only recorded would have stopped here. It goes on. The event is written once per limit, until the
    limit is raised.

    Args:
        limit: The limit.
        message: Reason for which it would have stopped.
    """

    limit: str
    message: str


# --- Steps ------------------------------------------------------------------------------------------------------------


class StepReady(Event, frozen=True):
    """A step may start, but no process took it in the commit that made it ready.

    Args:
        demand: Resources, for a step that must be placed first.
    """

    step: StepId
    demand: Demand | None = None


class StepStarted(Event, frozen=True):
    """An attempt of a step began.

    Args:
        session: Session of the process that executes it.
    """

    step: StepId
    attempt: int
    session: SessionId


class StepSuspended(Event, frozen=True):
    """An attempt left its step, which waits. The next attempt continues.

    Args:
        yields: True if the step waits for nothing: its process is stopping, and any process may continue at once.
    """

    step: StepId
    attempt: int
    yields: bool = False


class StepCompleted(Event, frozen=True):
    """A step completed with its output.

    Args:
        output: Output of the step.
        decisions: Names by which edges are chosen; null takes all.
        provisional: True if the output reports a failure. The step keeps its journal, so that a retry of the failed run retries
            it too.
        conversation: Turns of its model conversation, if its next visit continues it.
        trace: Notes of its code on how it came to the output.
    """

    step: StepId
    attempt: int
    output: Payload
    decisions: tuple[str, ...] | None = None
    provisional: bool = False
    conversation: Payload | None = None
    trace: Payload | None = None


class StateConflicted(Event, frozen=True):
    """The output of a step patches a field of the typed state that another step had patched meanwhile, with another value.

    Args:
        field: The field.
        strategy: Strategy of the field; `reject` fails the attempt.
        other: The other step.
        current: Value of the other step.
        attempted: Value of this step.
        resolved: Value that the strategy made of both.
    """

    step: StepId
    field: str
    strategy: str
    other: StepId
    current: Payload
    attempted: Payload
    resolved: Payload | None = None


class AttemptFailed(Event, frozen=True):
    """An attempt failed, and another one follows.

    Args:
        reopens: Operation that failed, which the next attempt repeats.
    """

    step: StepId
    attempt: int
    error: ErrorRecord
    retry_at_ms: int
    reopens: Path | None = None


class AttemptLost(Event, frozen=True):
    """The session of an attempt died. The attempt does not count; effects that it had intended are in doubt.

    Args:
        session: The session.
    """

    step: StepId
    attempt: int
    session: SessionId


class StepFailed(Event, frozen=True):
    """A step failed for good.

    Args:
        absorbed: True if an error edge, a tolerant join or `continue_on_error` handles the failure.
        parked: True if the step became a dead letter, which a person may retry at `path`.
        path: Operation that failed.
        output: Output that led nowhere: its loop was used up, or nothing follows its decision.
    """

    step: StepId
    attempt: int
    error: ErrorRecord
    absorbed: bool = False
    parked: bool = False
    path: Path | None = None
    output: Payload = NULL


class StepReplayed(Event, frozen=True):
    """A person had a failed step tried again, with its journal and its keys.

    Args:
        reopens: Operation that is repeated.
    """

    step: StepId
    reopens: Path | None = None
    by: str | None = None
    os_user: str = ""
    client: str = ""


class StepStopped(Event, frozen=True):
    """An attempt found an operation in its step's journal, at `path`, that its code no longer asks for. It called nothing.

    Args:
        retry_at_ms: Time of the next attempt, in case the old code is back. Null waits for a person.
    """

    step: StepId
    attempt: int
    path: Path
    retry_at_ms: int | None = None


class JournalDropped(Event, frozen=True):
    """A person had a step continue with other code. Its journal no longer counts from `path` on; what it completed is kept for
    operations that ask for the same.

    Args:
        path: First operation that no longer counts; null for all.
        edited: True if the run's input was changed.
    """

    step: StepId
    path: Path | None = None
    edited: bool = False


class DeadLetterEdited(Event, frozen=True):
    """A person changed the run's input, or the arguments of a tool call, for the next attempt of a permanently failed step.

    Args:
        input: New input of the run.
        tool: Name of the tool whose call was edited.
        arguments: New arguments of the call.
    """

    step: StepId
    input: Payload
    by: str | None = None
    os_user: str = ""
    client: str = ""
    path: Path | None = None
    tool: str = ""
    arguments: Payload | None = None


class DeadLetterResolved(Event, frozen=True):
    """A person closed the dead letter of a step without another attempt."""

    step: StepId
    reason: str | None = None
    by: str | None = None
    os_user: str = ""
    client: str = ""


class OperationReused(Event, frozen=True):
    """A step asked, at `path`, for an operation that it had completed in a dropped journal, and got that outcome.

    Args:
        kept: Name under which the outcome was kept.
        origin: Run in which it happened, for a fork.
    """

    step: StepId
    attempt: int
    path: Path
    kept: Path
    origin: RunId | None = None
    """Of which run it is the outcome, where the run is a fork and `kept` is the place there."""


class StepInherited(Event, frozen=True):
    """A step is over because the original run had done it, or because its output was passed to the fork.

    Args:
        status: Status of the step.
        output: As in StepCompleted.
        decisions: As in StepCompleted.
        absorbed: As in StepFailed.
        conversation: As in StepCompleted.
        fields: Fields of the typed state as conflicts were resolved.
        previous: True if it counts as a loop's earlier visit.
    """

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
    """The fork has the outcome of an operation of the original run. Key and call are those of that run.

    Args:
        kind: Kind of the operation.
        name: Name of the tool, model or function.
        outcome: Its outcome.
        key: Key of the effect.
        stands: True if it is in the step's journal from the start. Otherwise it is reused if the step asks for the same at
            `path`.
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
    """The code of a step was notified that its run is being cancelled, and may clean up.

    Args:
        until_ms: End of the clean-up, in Unix milliseconds.
    """

    step: StepId
    until_ms: int


class StepSkipped(Event, frozen=True):
    """A step will not start: its join can no longer be met, or its guard denied it."""

    step: StepId
    reason: str


class StepCancelled(Event, frozen=True):
    """A step was cancelled: its run is ending, or a join that it led to was met without it."""

    step: StepId
    attempt: int
    reason: str


class LoopTaken(Event, frozen=True):
    """A loop edge sent the run back.

    Args:
        source: Node at which the edge begins.
        target: Node to which it leads.
        superseded: Steps whose outputs now belong to the previous visit.
        rearmed: Nodes of the loop that had not started; what was known of their joins and guards no longer counts.
        bygone: Nodes that this iteration did not reach; their earlier visit is no longer the previous one.
    """

    source: StepId
    target: NodeName
    superseded: tuple[StepId, ...]
    rearmed: tuple[NodeName, ...] = ()
    bygone: tuple[NodeName, ...] = ()


class ItemsMapped(Event, frozen=True):
    """A step, at `path`, maps a list: each item is a step of its own, and the step waits for them.

    Args:
        map: Name of the map. Items are called `map[0]`, `map[1]` and so on, or by `keys`.
        name: Function or node that processes an item.
        count: Number of items.
        max_parallel: Maximum number of items in progress.
        enough: Number of completed items after which the map ends.
        tolerated: Number of items that may fail.
        timeout_ms: Time limit in milliseconds.
        settles: True if the map takes what is complete at the time limit; otherwise it fails.
        retry: Retry policy of each item.
        demand: Resources of each item, unless `demands` has them.
        keys: Keys of the items.
        pages: Items, in parts of the list as JSON.
        starts: Number of the first item of each page.
        is_call: True if it is the call of a step with a place of its own: one item, its arguments.
        demands: Resources of each item.
        fail_fast: True if a completed item that reports a failure stops the others. No new item begins, and active ones are
            asked to end.
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
    """The items of a map are complete; with `error`, they can no longer be.

    Args:
        map: Name of the map.
    """

    step: StepId
    path: Path
    map: str
    error: ErrorRecord | None = None


class MapReopened(Event, frozen=True):
    """A map goes on because its step is tried again. Its time limit begins again.

    Args:
        map: Name of the map.
        again: Items that are tried again. Each follows as StepReplayed when a place is free; early versions named none.
    """

    step: StepId
    path: Path
    map: str
    again: tuple[NodeName, ...] = ()


class GuardAsked(Event, frozen=True):
    """A guard must decide: about the edge from `step` to `target`, or, without `target`, about starting `step`.

    Args:
        target: Node to which the edge leads.
        guard: Name of the guard.
    """

    step: StepId
    target: NodeName | None
    guard: str


class GuardJudged(Event, frozen=True):
    """A guard decided.

    Args:
        target: As in GuardAsked.
        guard: Name of the guard.
        allowed: True if it allows the transition.
        reason: Reason of a denial.
        above: Budgets above the run that the guard was shown.
    """

    step: StepId
    target: NodeName | None
    guard: str
    allowed: bool
    reason: str | None = None
    above: tuple[ScopeLeft, ...] = ()


class JoinOpened(Event, frozen=True):
    """The first branch reached a join that has a time limit.

    Args:
        node: Node of the join.
    """

    node: NodeName
    due_at_ms: int


class JoinTimedOut(Event, frozen=True):
    """The time limit of a join passed before the join was met.

    Args:
        node: Node of the join.
    """

    node: NodeName


# --- Operations -------------------------------------------------------------------------------------------------------


class ValueRecorded(Event, frozen=True):
    """A step recorded a value: something that will change, like the clock, or a result. A replay gets this value.

    Args:
        kind: Kind of the value; `step` for the result of a function that a flow called.
        value: The value.
        payload: The value, if it is a result.
        name: Name of the function.
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
    """A function that a flow called as a step failed, or returned something that cannot be kept.

    Args:
        name: Name of the function.
    """

    step: StepId
    attempt: int
    path: Path
    name: str
    args_hash: str
    error: ErrorRecord
    took_ms: int = 0


class RetryScheduled(Event, frozen=True):
    """A failed operation will be tried again; its step waits until then."""

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
    """Money was reserved for a model call before it leaves the process: the worst case, never an estimate.

    Args:
        model: Model that the step asked for.
        sent_to: Model that gets the call.
        offer: Number of the chosen offer; another than 0 if money was short.
        hold_nanousd: Reserved money, in nano-dollars.
        tokens: Maximum number of tokens of the call, which count against the run's limit.
        scoped: True if its money counts in the scopes above the run. Early versions had none.
        tokens_scoped: True if its tokens count there too.
        bound_percent: Factor on its money bound in percent, raised after its model had billed a call above the bound.
        token_bound_percent: The same of its token bound.
        request: The kept form of the request, by the setting `keep_requests`.
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
    request: Payload | None = None


class PoolsAwaited(Event, frozen=True):
    """A model call waits for pools, longer than a moment. Nothing is reserved for it yet.

    Args:
        model: The model.
        pools: Names of the pools.
    """

    step: StepId
    path: Path
    model: str
    pools: tuple[str, ...]


class HoldDeferred(Event, frozen=True):
    """A model or tool call waits for money or tokens that other calls of the run have reserved.

    Args:
        model: Model, or tool for the kind `tool`.
        needed_nanousd: Money that it needs, in nano-dollars.
        needed_tokens: Tokens that it needs.
        blocked: True if too little would be left anyway, so that a person is asked.
        kind: `model` or `tool`.
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
    """A model or tool call fits its run, but not the limit of a scope above the run. Scopes are a tenant's or team's day or
    month, a conversation, a tree of runs, or a team budget. The call waits there for room.

    Args:
        model: Model, or tool for the kind `tool`.
        scope: The scope.
        needed_nanousd: Money that it needs, in nano-dollars.
        limit_nanousd: Limit in nano-dollars; 0 for a scope that counts tokens.
        due_at_ms: Beginning of the next day or month, in Unix milliseconds; null for a tree.
        blocked: True if too little would be left anyway, so that a person may want to raise the limit.
        needed_tokens: Tokens that it needs.
        limit_tokens: Limit in tokens, for a scope that counts them.
        kind: `model` or `tool`.
        grantable: Amount that an agent of a team budget could have got instead, with all loans.
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
    """An operation that waited or failed is tried again. A scope had room, its time came, or another run's effect has its
    outcome."""

    step: StepId
    path: Path


class ModelCallSettled(Event, frozen=True):
    """A model call has its reply and its price. The rest of the reservation is free.

    Args:
        cost_nanousd: Cost in nano-dollars.
        input_tokens: Tokens of the input.
        output_tokens: Tokens of the output.
        output: The reply.
        over_bound: True if the provider billed more than the bound.
        cache_read_tokens: Part of the input that the provider read from its cache. Early histories do not have it.
        cache_write_tokens: Part of the input that the provider wrote to its cache.
        cacheable_nanousd: Money that the call would have cost less with its whole input read from the cache.
    """

    call: CallId
    cost_nanousd: int
    input_tokens: int
    output_tokens: int
    output: Payload
    over_bound: bool = False
    hold: Hold | None = None
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cacheable_nanousd: int = 0


class ModelCallFailed(Event, frozen=True):
    """A model call was refused or never left the process. Nothing was spent, and the reservation is free.

    Args:
        reopens: True if the call had no fault of its own: the next attempt makes it instead of getting the error.
    """

    call: CallId
    error: ErrorRecord
    reopens: bool = False
    hold: Hold | None = None


class ModelCallInDoubt(Event, frozen=True):
    """The cost of a model call is unknown. Its whole reservation counts as spent until it is reconciled.

    Args:
        reopens: As in ModelCallFailed.
        output: The reply, if it arrived.
        partial: Part of a streamed reply that arrived before it was lost or stopped.
    """

    call: CallId
    error: ErrorRecord
    reopens: bool = False
    output: Payload | None = None
    hold: Hold | None = None
    partial: Payload | None = None


class ModelCallReconciled(Event, frozen=True):
    """The cost of a call in doubt became known, or was taken as known.

    Args:
        cost_nanousd: Cost in nano-dollars.
        rule: Rule, set in advance by a person, that gave the cost.
    """

    call: CallId
    cost_nanousd: int
    by: str | None = None
    os_user: str = ""
    client: str = ""
    hold: Hold | None = None
    rule: str | None = None


class EffectIntended(Event, frozen=True):
    """A tool is about to be called. From here on the call may have taken effect.

    Args:
        tool: Name of the tool.
        policy: Effect policy of the tool.
        key: Key of the effect.
        request: Arguments of the call.
        named: True if the code named the key.
        settles_within_s: Seconds after the call before which a lookup that finds nothing does not count.
        compensation: Name of the tool that undoes it.
        compensates: Call that this call undoes.
        tenant_wide: True if the key is unique in the tenant.
        hold_nanousd: Price of the call, reserved as for a model call, in nano-dollars.
        given_up: Earlier calls under the same key that were given up. Each may have been billed, so its reservation counts as
            spent.
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
    """A step asked for an effect that already exists under the same key, and got the recorded outcome.

    Args:
        tool: Name of the tool.
        key: Key of the effect.
        call: Call of another run of the tenant, if it has the effect.
        response: Response of that call.
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
    """A step asked for an effect whose key another call has in flight. It waits for that outcome.

    Args:
        tool: Name of the tool.
        key: Key of the effect.
        call: Call of another run, if it has the effect.
    """

    step: StepId
    attempt: int
    path: Path
    tool: str
    args_hash: str
    key: EffectKey
    call: CallId | None = None


class EffectCompleted(Event, frozen=True):
    """A tool call took effect and has its response. It has cost what was reserved.

    Args:
        response: Response of the tool.
        by: Person who recorded the outcome, if one did; not verified.
    """

    call: CallId
    response: Payload
    by: str | None = None
    os_user: str = ""
    client: str = ""
    hold: Hold | None = None


class EffectFailed(Event, frozen=True):
    """A tool call did not take effect, as the tool or a person reported. Its reservation is free. Or a call that only reads has
    no outcome: it may have been billed.

    Args:
        by: Person who recorded the outcome, if one did; not verified.
        cost_nanousd: Cost of a call that only reads, in nano-dollars.
    """

    call: CallId
    error: ErrorRecord
    by: str | None = None
    os_user: str = ""
    client: str = ""
    hold: Hold | None = None
    cost_nanousd: int = 0


class EffectReleased(Event, frozen=True):
    """An intended call certainly never left the process. The operation is open again, and its reservation is free."""

    call: CallId
    hold: Hold | None = None


class EffectInDoubt(Event, frozen=True):
    """The outcome of a tool call is unknown. Its reservation counts as spent until the outcome is known."""

    call: CallId
    error: ErrorRecord
    hold: Hold | None = None


class EffectUnanswered(Event, frozen=True):
    """A call that may be repeated got no answer. It failed for its step; a retry repeats it under its key. Without a retry its
    outcome stays unknown."""

    call: CallId
    error: ErrorRecord
    hold: Hold | None = None


class EffectReopened(Event, frozen=True):
    """An effect in doubt is called again under its key, because its policy allows it or a person decided so. Its first outcome
    is accepted until the repeat is intended.

    Args:
        by: Person who decided so, if one did; not verified.
    """

    call: CallId
    by: str | None = None
    os_user: str = ""
    client: str = ""
    hold: Hold | None = None


class OutcomeOrphaned(Event, frozen=True):
    """A call that had been given up and repeated under its key returned its outcome after all. The outcome is kept.

    Args:
        response: Response of the tool.
    """

    call: CallId
    response: Payload | None = None
    error: ErrorRecord | None = None


class ToolCallDenied(Event, frozen=True):
    """A tool call was refused before anything happened: not listed, not approved, or with arguments that do not fit.

    Args:
        tool: Name of the tool.
    """

    step: StepId
    attempt: int
    path: Path
    tool: str
    args_hash: str
    error: ErrorRecord


class OperationCalledOff(Event, frozen=True):
    """The code of a step goes on without an operation that has no outcome. A time limit ran out, or a task was cancelled. The
    operation ends with the error class `called_off`."""

    step: StepId
    path: Path


class TimerStarted(Event, frozen=True):
    """A step began to sleep.

    Args:
        name: `sleep`, or `timer` if the code waits by asyncio's clock.
    """

    step: StepId
    attempt: int
    path: Path
    args_hash: str
    due_at_ms: int
    name: str = "sleep"


class TimerFired(Event, frozen=True):
    """The sleep of a step is over."""

    step: StepId
    path: Path


class SignalAwaited(Event, frozen=True):
    """A step waits for a signal.

    Args:
        name: Name of the signal.
        schema: JSON Schema of the data, if it has a type.
    """

    step: StepId
    attempt: int
    path: Path
    name: str
    args_hash: str
    due_at_ms: int | None = None
    schema: dict[str, Any] | None = None


class SharedValueWritten(Event, frozen=True):
    """A step wrote a shared value.

    Args:
        space: Name of the space.
        key: Key of the value.
        base: Version that it replaced; 0 for none.
        outcome: New version.
        fence: Number of the lock under which it was written.
        index: Data by which it is found.
        keep: Number of latest versions that stay; 0 for none.
        dropped: Keys of the space that were deleted with this write.
    """

    step: StepId
    path: Path
    space: str
    key: str
    args_hash: str
    base: int
    outcome: Payload
    fence: int | None = None
    index: SharedIndex | None = None
    keep: int = MAX_VERSIONS
    dropped: tuple[str, ...] = ()


class SharedValueConflicted(Event, frozen=True):
    """A step's write expected another version of a shared value than the current one. With an error it was refused.

    Args:
        space: Name of the space.
        key: Key of the value.
        conflict: Both sides, and how the conflict was resolved.
    """

    step: StepId
    path: Path
    space: str
    key: str
    args_hash: str
    conflict: SharedConflict
    error: ErrorRecord | None = None


class SharedValueAwaited(Event, frozen=True):
    """A step waits for a later version of a shared value.

    Args:
        space: Name of the space.
        key: Key of the value.
        after: Version that the step knows.
    """

    step: StepId
    attempt: int
    path: Path
    space: str
    key: str
    args_hash: str
    after: int
    due_at_ms: int | None = None


class SharedValueArrived(Event, frozen=True):
    """The version that a step waited for exists.

    Args:
        outcome: The version.
    """

    step: StepId
    path: Path
    outcome: Payload


class SharedValueTimedOut(Event, frozen=True):
    """The version that a step waited for was not written in time."""

    step: StepId
    path: Path
    error: ErrorRecord


class SignalReceived(Event, frozen=True):
    """A signal arrived. The run keeps it until a step asks for it.

    Args:
        name: Name of the signal.
        number: Number of the signal in the run.
        data: Data of the signal.
        key: Idempotency key: the same signal does not arrive again.
        digest: Digest of name and data.
        sender: Run whose step sent it.
    """

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
    """A step got the signal that it waited for.

    Args:
        number: Number of the signal.
    """

    step: StepId
    path: Path
    number: int


class SignalTimedOut(Event, frozen=True):
    """The signal that a step waited for did not arrive in time."""

    step: StepId
    path: Path
    error: ErrorRecord


class MessageReceived(Event, frozen=True):
    """A message arrived in the run's conversation while its agent was working. The run keeps it until the next model call of
    the conversation.

    Args:
        number: Number of the message.
        message: The message.
    """

    number: int
    message: Payload
    by: str | None = None
    os_user: str = ""
    client: str = ""


class MessageRead(Event, frozen=True):
    """A message became part of the prompt: of the model call at `path`, and of those that follow.

    Args:
        number: Number of the message.
    """

    step: StepId
    attempt: int
    path: Path
    number: int


# --- Children ---------------------------------------------------------------------------------------------------------


class TreeOpened(Event, frozen=True):
    """A run with a limit on money or tokens requested its first child. From now on the limit is that of a scope, in which all
    runs below it count too.

    Args:
        limit_nanousd: Limit in nano-dollars.
        settled_nanousd: Money spent so far.
        held_nanousd: Money reserved so far.
        in_doubt_nanousd: Money in doubt so far.
        limit_tokens: Limit in tokens.
        settled_tokens: Tokens used so far.
        held_tokens: Tokens reserved so far.
        in_doubt_tokens: Tokens in doubt so far.
    """

    limit_nanousd: int | None
    settled_nanousd: int
    held_nanousd: int
    in_doubt_nanousd: int
    limit_tokens: int | None = None
    settled_tokens: int = 0
    held_tokens: int = 0
    in_doubt_tokens: int = 0


class ChildRequested(Event, frozen=True):
    """A step requested a child, a run of its own, which is about to start.

    Args:
        child: Id of the child's run.
        workflow: Name of its workflow.
        version: Version of its workflow.
        graph_hash: Hash of its graph.
        input: Input of the child.
        limit_nanousd: Cost limit of its own, in nano-dollars.
        max_tokens: Token limit of its own.
        background: True if the step goes on meanwhile.
        key: Name of the child in the run.
        again: True if the child had failed, and is retried.
        handoff: True if the conversation is handed over to it.
        agent: Agent that is charged for it in the shared team budget.
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
    """A step waits for the end of a child that was requested before, or gets it at once.

    Args:
        child: Id of the child's run.
        workflow: Name of its workflow.
        kind: Kind of the operation.
        background: True if the step asks only for the run's id.
    """

    step: StepId
    attempt: int
    path: Path
    child: RunId
    workflow: str
    args_hash: str
    kind: str
    background: bool = False


class ChildAbandoned(Event, frozen=True):
    """No step waits for a child any more; it is to be cancelled.

    Args:
        child: Id of the child's run.
    """

    child: RunId
    reason: str


class ChildUndone(Event, frozen=True):
    """A run that is compensated has a completed child undo its effects. The child ends once more.

    Args:
        child: Id of the child's run.
        workflow: Name of its workflow.
    """

    step: StepId
    attempt: int
    path: Path
    child: RunId
    workflow: str
    args_hash: str


class ChildEnded(Event, frozen=True):
    """A child ended.

    Args:
        child: Id of the child's run.
        how: `completed`, `failed` or `cancelled`.
        output: Output of a completed child.
        undoable: True if it has effects that can be undone.
        contributors: Persons who have a part in its output.
    """

    child: RunId
    how: Literal["completed", "failed", "cancelled"]
    output: Payload = NULL
    error: ErrorRecord | None = None
    undoable: bool = False
    contributors: tuple[str, ...] = ()


# --- People -----------------------------------------------------------------------------------------------------------


class GateOpened(Event, frozen=True):
    """A person is asked. `approval` and `question` come from the workflow, other reasons from the engine.

    Args:
        reason: Reason of the gate, one in the list of codes.
        shown: Data that the person is shown.
        shown_hash: Hash of it, which binds a decision.
        allowed: Allowed decisions.
        form: JSON Schema of the decision's data.
        filled: Data with which the form begins.
        reviewers: Persons or roles who may decide; empty for anyone.
        requester: Person who started the run; with `four_eyes`, may not decide.
        four_eyes: True to bar the requester and the contributors.
        subject: Subject of an engine's gate: a call, a limit or a step.
        due_at_ms: Deadline in Unix milliseconds.
        remind_every_ms: Milliseconds between reminders.
        cancel_after_ms: Milliseconds after the deadline at which the run is cancelled.
        completes_step: True if the decision completes the step.
        expires_at_ms: Time from which no answer counts, in Unix milliseconds.
        not_by: Persons who may not decide.
        contributors: Others who contributed to the run.
        edited_by: Person who has edited what is shown (GateEdited).
        quorum: Number of different persons who must approve; one is enough to reject.
        hash_optional: True if a decision sent to a server may leave out the hash, as in early histories.
        proposed_action: Action that is proposed.
        evidence_ids: Ids of its evidence.
        risk_level: Risk of the action.
        asked_first: Reviewers for whom it was opened, before GateAssigned.
        terms: Declaration of the tool whose call it asks about.
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
    terms: ToolTerms | None = None


class GateApproved(Event, frozen=True):
    """One of the persons whom a quorum needs approved. The last one is in GateDecided.

    Args:
        shown_hash: Hash of what the person saw.
        maker: Maker of the key that was used.
    """

    gate: GateId
    shown_hash: str
    by: str | None = None
    os_user: str = ""
    client: str = ""
    reason: str | None = None
    roles: tuple[str, ...] = ()
    maker: str | None = None


class GateEdited(Event, frozen=True):
    """A person edited what a gate with four eyes shows. Nothing of it is done: the gate now asks another person about `data`.

    Args:
        data: The edited data.
        shown_hash: New hash of what is shown.
        maker: Maker of the key that was used.
    """

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
    """An open gate asks other reviewers from here on.

    Args:
        reviewers: The reviewers.
        delegated: True if a reviewer added them; false if they replace the reviewers.
    """

    gate: GateId
    reviewers: tuple[str, ...]
    delegated: bool = False
    by: str | None = None
    os_user: str = ""
    client: str = ""
    reason: str | None = None
    roles: tuple[str, ...] = ()


class GateReminded(Event, frozen=True):
    """A gate has no answer yet, and its reviewers are to be notified again.

    Args:
        number: Number of the reminder.
    """

    gate: GateId
    number: int


class GateEscalated(Event, frozen=True):
    """The deadline of a gate passed. It decides nothing and needs attention."""

    gate: GateId
    reason: str


class GateDecided(Event, frozen=True):
    """A person decided a gate.

    Args:
        decision: The decision.
        data: Its data.
        shown_hash: Hash of what the person saw.
        roles: Roles that the person claimed.
        maker: Maker of the key that was used.
    """

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
    """A gate had no answer before the time from which none counts.

    Args:
        error: Error that the code gets.
    """

    gate: GateId
    error: ErrorRecord


class GateWithdrawn(Event, frozen=True):
    """A gate no longer needs an answer."""

    gate: GateId
    reason: str


class LifespanPassed(Event, frozen=True):
    """The run is older than its workflow expects, and a person should look. Nothing was stopped.

    Args:
        lifespan_s: The expected age in seconds.
    """

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

    `trace_id` is that of the latest request so far that commanded the run and named its trace (core.values.trace).
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
