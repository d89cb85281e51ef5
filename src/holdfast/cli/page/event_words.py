"""The words for each event of a history, declared once: a line for a person who follows the run, and a sentence for a reader of
the whole history.

Never here: what an event before has to do with it (event_format), where a line goes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from holdfast.cli.page.count import counted
from holdfast.cli.page.moment import clock, span
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.facts.state import FUNCTION, SHARED_USE
from holdfast.core.nouns.shared_values import CACHE
from holdfast.core.rules import limits
from holdfast.core.values.actor import Actor
from holdfast.core.values.content import labelled
from holdfast.core.values.ids import StepId, node_of
from holdfast.core.values.money import usd
from holdfast.core.values.payload import Payload
from holdfast.core.values.policies import ErrorRecord
from holdfast.core.values.scopes import counts_tokens, in_words
from holdfast.core.views.step_result import job_of

_MAX_VALUE: Final = 100
"""Maximum number of characters of a value; --json has all of it."""
_BLOB: Final[dict[str, Any]] = {"blob": None, "month": None}
"""The fields of a payload that is stored apart, besides its size."""
_PLACE: Final = re.compile(r'^ *File "(?:.*/)?([^"/]+)", line (\d+), in (\S+)$', re.MULTILINE)


class Place(NamedTuple):
    """The place of an event in its history: the name of its step, call or child, its time, and the number of times that its
    step has failed before."""

    name: str
    at_ms: int
    failures: int = 0


Text: TypeAlias = Callable[[Any, Place], str]


class Words(NamedTuple):
    """The words for a kind of event."""

    line: Callable[[Any, Place], str | None] | None = None
    """For a person who follows the run; None for an event that only a reader of the whole history cares about."""
    sentence: Text | None = None
    """For a reader of the whole history; by default the line, which leaves out a failure that was reported, with the detail."""
    detail: Text | None = None


def _read(sentence: Text) -> Words:
    """Return the words for an event that only a reader of the whole history cares about."""
    return Words(None, sentence)


def named(step: StepId) -> str:
    """A step by its node's name, with its visit where that is not the first."""
    return "compensation" if node_of(step) == COMPENSATE else step.removesuffix("#1")


def failure(error: ErrorRecord) -> str:
    """Return what went wrong and, if an error of the user's own code does not name it, where."""
    return failed(error.error_class, error.message, error.trace)


def failed(error_class: str, message: str, trace: str | None, **_: Any) -> str:
    """The same of an error as the views have it."""
    places = _PLACE.findall(trace or "")
    where = " ({}:{} in {})".format(*places[-1]) if places else ""
    return f"{error_class}: {message}" + (where if where.strip() not in message else "")


def by(e: Any) -> str:
    """Return the actor of an event, or of a run that has `by`; nothing if unknown."""
    return f" by {Actor(e.by, e.os_user, e.client)}" if e.by is not None else ""


def _value(payload: Payload | None, before: str = ": ") -> str:
    """Return a payload after `before`, cut short; nothing for null."""
    if payload is None:
        return ""
    value = {"size_bytes": payload.size_bytes, **_BLOB} if payload.blob is not None else payload.value()
    if value is None:
        return ""
    if isinstance(value, dict) and value.keys() >= _BLOB.keys() | {"size_bytes"}:
        return f"{before}{value['size_bytes']} bytes, stored apart"
    return before + clipped(value)


def clipped(value: Any) -> str:
    """Return a value as JSON, cut short."""
    text = json.dumps(labelled(value), ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


# --- Runs and steps ---------------------------------------------------------------------------------------------------


def _run_started(e: ev.RunStarted, at: Place) -> str:
    limit = "" if e.limit_nanousd is None else f", with a limit of ${usd(e.limit_nanousd)}"
    return f"{e.workflow} {e.version} started{by(e)}{limit}{_value(e.input)}"


def _labelled(e: ev.RunLabelled, at: Place) -> str:
    labels = ", ".join(f"{key}={value}" if value is not None else f"no {key}" for key, value in e.labels.items())
    return f"labels changed{by(e)}: {labels}"


def _makers(e: ev.MakersLearned, at: Place) -> str:
    names = dict.fromkeys(each for those in e.makers.values() for each in those)
    return f"elsewhere, keys were used that {', '.join(names)} made"


def _started(e: ev.StepStarted, at: Place) -> str:
    """A step that has waited begins a further attempt too, though nothing failed: it goes on."""
    if not at.failures:
        return f"{at.name} {'started' if e.attempt == 1 else 'resumed'}"
    return f"{at.name} started (attempt {at.failures + 1})"


def _completed(e: ev.StepCompleted, at: Place) -> str:
    """The step has completed; of a job, or one of its combinations, the line says what it came to."""
    if e.decisions is not None:
        return f"{at.name} completed: {', '.join(e.decisions)}"
    return f"{at.name} {job_result(e.output, is_failure=e.provisional)}"


def job_result(output: Payload, *, is_failure: bool) -> str:
    """Return what became of a step that has completed: of a job, its result. `is_failure` if its output tells of a failure."""
    job = job_of(output)
    why = f": {job['error']}" if isinstance(job.get("error"), str) else ""
    match job.get("result"), job.get("outcome"):
        case ("cancelled", _) if is_failure:
            return "cancelled"
        case _ if is_failure:
            return f"failed{why}"
        case ("success", "failure"):
            return f"failed, which its job allows{why}"
        case ("skipped", "skipped"):
            return "skipped"
        case _:
            return "completed"


def _conflicted(e: ev.StateConflicted, at: Place) -> str:
    return f"{at.name} and {named(e.other)} wrote {e.field} of the state, neither seeing the other's ({e.strategy})"


def _conflict(e: ev.StateConflicted, at: Place) -> str:
    resolved = "" if e.resolved is None else _value(e.resolved, " → ")
    return f": {named(e.other)}{_value(e.current, ' ')}, {at.name}{_value(e.attempted, ' ')}{resolved}"


def _recorded(e: ev.ValueRecorded, at: Place) -> str | None:
    if e.kind == FUNCTION:
        return f"{at.name}: {e.name} completed"
    if e.kind == SHARED_USE and e.name.startswith(CACHE) and e.payload is not None:
        for hit in e.payload.value():
            return f"{at.name} got a cached answer (likeness {hit['likeness']:g}), which saved ${usd(hit['saved_nanousd'])}"
    return None


def _value_recorded(e: ev.ValueRecorded, at: Place) -> str:
    if e.kind == FUNCTION:
        return f"{at.name}: {e.name} completed{_value(e.payload, ' → ')}"
    return f"{at.name} recorded {e.name}{_value(e.payload)}"


def _short_of(e: ev.ScopeExceeded) -> str:
    what, left = ("tokens", "are left") if counts_tokens(e.scope) else ("money", "is left")
    return f"needs more {what} than {left}" if e.blocked else f"waits for {what} that others hold"


# --- Calls ------------------------------------------------------------------------------------------------------------


def _settled(e: ev.ModelCallSettled, at: Place) -> str:
    over = ", more than its bound" if e.over_bound else ""
    return f"{at.name} ${usd(e.cost_nanousd)}, {e.input_tokens} + {e.output_tokens} tokens{over}"


def _in_doubt(e: ev.ModelCallInDoubt, at: Place) -> str:
    return f"{at.name}: the cost of call {e.call} is unknown, it counts as spent: {failure(e.error)}"


def _unknown(e: ev.EffectInDoubt, at: Place) -> str:
    return f"{at.name}: it is unknown whether call {e.call} happened: {failure(e.error)}"


def _intended(e: ev.EffectIntended, at: Place) -> str:
    undone = "" if e.compensates is None else f" to undo call {e.compensates}"
    return f"{at.name} calls {e.tool}{undone}{_value(e.request, ' with ')}"


def _judged(e: ev.GuardJudged, at: Place) -> str:
    target = f" → {e.target}" if e.target is not None else ""
    return f"{at.name}{target}: guard {e.guard} {'allows' if e.allowed else 'denies'} it{f': {e.reason}' if e.reason else ''}"


def _orphaned(e: ev.OutcomeOrphaned, at: Place) -> str:
    error = "" if e.error is None else f": {failure(e.error)}"
    return f"{at.name}: a call that was given up has answered{error}{_value(e.response)}"


# --- What a run waits for ---------------------------------------------------------------------------------------------


def _describe_gate(e: ev.GateOpened, at: Place) -> str:
    return f"{at.name or 'the run'} asks {', '.join(e.reviewers) or 'anyone'}: {e.reason}"


def _asked_in_full(e: ev.GateOpened, at: Place) -> str:
    *others, last = e.allowed
    reviewers, decisions = ", ".join(e.reviewers) or "anyone", f"{', '.join(others)} or {last}" if others else last
    return f"{at.name or 'the run'} asks {reviewers}: {decisions} ({e.reason}, gate {e.gate})"


def _decision(e: ev.GateDecided, at: Place) -> str:
    return (f" ({e.reason})" if e.reason else "") + _value(e.data)


def _awaited(e: ev.SignalAwaited, at: Place) -> str:
    until = f" until {clock(e.due_at_ms)}" if e.due_at_ms is not None else ""
    return f"{at.name} waits for the signal {e.name!r}{until}"


def _shared(e: ev.SharedValueWritten, at: Place) -> str:
    value = e.outcome.value()
    if not e.keep or (isinstance(value, dict) and value.get("gone")):
        return f"{e.step} deleted {e.space!r} {e.key!r}"
    dropped = f", in the place of {counted(len(e.dropped), 'other')}" if e.dropped else ""
    return f"{e.step} wrote version {e.base + 1} of {e.space!r} {e.key!r}{dropped}"


def _shared_conflict(e: ev.SharedValueConflicted, at: Place) -> str:
    found = e.conflict
    versions = f"expected version {found.expected} of {e.space!r} {e.key!r} and found {found.found} of {found.found_by!r}"
    return f"{at.name} {versions} ({found.strategy})"


def _ended(e: ev.ChildEnded, at: Place) -> str:
    error = "" if e.error is None else f": {failure(e.error)}"
    return f"{at.name} {e.how}{error}{_value(e.output)}"


WORDS: Final[dict[type[ev.Event], Words]] = {
    ev.RunStarted: _read(_run_started),
    ev.RunAdmitted: Words(lambda e, at: "the run was admitted and begins"),
    ev.AdmissionDeferred: _read(lambda e, at: f"the run waits for a place among the {in_words(e.scope)}"),
    ev.ContributorNamed: Words(
        lambda e, at: f"{e.name} contributed" + (f": they wrote {e.read}, which was read" if e.read is not None else "")
    ),
    ev.MakersLearned: Words(_makers),
    ev.RunLabelled: _read(_labelled),
    ev.RunPaused: Words(lambda e, at: f"the run was paused{by(e)}"),
    ev.RunResumed: Words(lambda e, at: f"the run was resumed{by(e)}"),
    ev.RunFailing: Words(lambda e, at: "the run is failing"),
    ev.RunCancelling: Words(lambda e, at: f"the run is being cancelled{by(e)}: {e.reason}"),
    ev.RunCompleted: _read(lambda e, at: f"the run completed{_value(e.output)}"),
    ev.RunFailed: _read(lambda e, at: f"the run failed: {failure(e.error)}"),
    ev.RunCancelled: _read(lambda e, at: f"the run was cancelled: {e.reason}"),
    ev.RunReopened: _read(lambda e, at: f"the run continues{by(e)}"),
    ev.RunForked: Words(lambda e, at: f"the run was forked from {e.step} of run {e.origin}{by(e)}"),
    ev.RunMigrated: Words(lambda e, at: f"the run continues with version {e.version}{by(e)}"),
    ev.LimitRaised: Words(
        lambda e, at: f"the limit on {e.limit} was raised{by(e)} to {f'${usd(e.value)}' if e.limit == 'cost' else e.value}"
    ),
    ev.LimitNeared: Words(
        lambda e, at: (
            f"{e.percent} % of the limit on {e.limit} are used"
            if e.percent < limits.THRESHOLDS[-1]
            else f"the limit on {e.limit} is reached"
        )
    ),
    ev.LimitWouldStop: Words(lambda e, at: f"it would have stopped here: {e.message}"),
    ev.StepReady: _read(lambda e, at: f"{at.name} is ready to start"),
    ev.StepStarted: Words(_started),
    ev.StepSuspended: _read(lambda e, at: f"{at.name} waits"),
    ev.StepCompleted: Words(_completed, detail=lambda e, at: _value(e.output, " → ")),
    ev.StateConflicted: Words(_conflicted, detail=_conflict),
    ev.AttemptFailed: Words(
        lambda e, at: f"{at.name} failed and is tried again in {span(e.retry_at_ms - at.at_ms)}: {failure(e.error)}"
    ),
    ev.AttemptLost: Words(lambda e, at: f"{at.name} lost its process and is started again"),
    ev.StepFailed: Words(lambda e, at: f"{at.name} failed: {failure(e.error)}"),
    ev.StepReplayed: Words(lambda e, at: f"{at.name} is tried again"),
    ev.StepStopped: _read(lambda e, at: f"{at.name} stopped: its code no longer asks for the operation at {e.path}"),
    ev.JournalDropped: _read(
        lambda e, at: f"{at.name} continues with other code{'' if e.path is None else f', from the operation at {e.path} on'}"
    ),
    ev.DeadLetterEdited: Words(lambda e, at: f"the run has another input{by(e)}, for {at.name}"),
    ev.DeadLetterResolved: Words(lambda e, at: f"{at.name} stays failed{by(e)}"),
    ev.OperationReused: _read(lambda e, at: f"{at.name} reuses the outcome at {e.kept} of its earlier code"),
    ev.StepInherited: _read(lambda e, at: f"{at.name} {e.status} before the fork{_value(e.output)}"),
    ev.OperationInherited: _read(lambda e, at: f"{at.name} keeps {e.name} ({e.kind}) from before the fork"),
    ev.StepCancelling: Words(lambda e, at: f"{at.name} may clean up until {clock(e.until_ms)}"),
    ev.StepSkipped: Words(lambda e, at: f"{at.name} skipped: {e.reason}"),
    ev.StepCancelled: Words(lambda e, at: f"{at.name} cancelled: {e.reason}"),
    ev.LoopTaken: Words(lambda e, at: f"{named(e.source)} goes back to {e.target}"),
    ev.ItemsMapped: Words(lambda e, at: f"{at.name} maps {counted(e.count, 'item')} to {e.name}: {e.map}"),
    ev.MapEnded: Words(
        lambda e, at: f"{e.map} has what it needs" if e.error is None else f"{e.map} failed: {failure(e.error)}"
    ),
    ev.MapReopened: Words(lambda e, at: f"{e.map} continues"),
    ev.GuardAsked: _read(
        lambda e, at: f"{at.name}{f' → {e.target}' if e.target is not None else ''}: guard {e.guard} must decide"
    ),
    ev.GuardJudged: _read(_judged),
    ev.JoinOpened: _read(lambda e, at: f"{e.node} waits for its other branches until {clock(e.due_at_ms)}"),
    ev.JoinTimedOut: _read(lambda e, at: f"{e.node} did not get its other branches in time"),
    ev.ValueRecorded: Words(_recorded, _value_recorded),
    ev.FunctionFailed: Words(lambda e, at: f"{at.name}: {e.name} failed: {failure(e.error)}"),
    ev.RetryScheduled: Words(lambda e, at: f"{at.name} tries that again in {span(e.retry_at_ms - at.at_ms)}"),
    ev.ModelCallHeld: _read(lambda e, at: f"{at.name} calls {e.model}, at most ${usd(e.hold_nanousd)}"),
    ev.PoolsAwaited: _read(lambda e, at: f"{at.name}: {e.model} waits for {', '.join(e.pools)}"),
    ev.HoldDeferred: Words(
        lambda e, at: (
            f"{at.name} " + ("needs more than its limits leave" if e.blocked else "waits for money that other calls hold")
        )
    ),
    ev.ScopeExceeded: Words(lambda e, at: f"{at.name} {_short_of(e)}: {in_words(e.scope)}"),
    ev.OperationReopened: _read(lambda e, at: f"{at.name} tries the operation at {e.path} again"),
    ev.ModelCallSettled: _read(_settled),
    ev.ModelCallFailed: _read(lambda e, at: f"{at.name} failed, nothing was spent: {failure(e.error)}"),
    ev.ModelCallInDoubt: Words(_in_doubt, _in_doubt),
    ev.ModelCallReconciled: _read(lambda e, at: f"{at.name} cost ${usd(e.cost_nanousd)}{by(e)}"),
    ev.EffectIntended: _read(_intended),
    ev.EffectReused: _read(lambda e, at: f"{at.name}: {e.tool} was called before under the key {e.key}{_value(e.response)}"),
    ev.EffectDeferred: _read(lambda e, at: f"{at.name}: {e.tool} waits for another call under the key {e.key}"),
    ev.EffectCompleted: _read(lambda e, at: f"{at.name} completed{by(e)}{_value(e.response, ' → ')}"),
    ev.EffectFailed: _read(lambda e, at: f"{at.name} failed{by(e)}: {failure(e.error)}"),
    ev.EffectReleased: _read(lambda e, at: f"{at.name} was not sent, and is open again"),
    ev.EffectInDoubt: Words(_unknown, _unknown),
    ev.EffectUnanswered: _read(lambda e, at: f"{at.name} got no answer: {failure(e.error)}"),
    ev.EffectReopened: _read(lambda e, at: f"{at.name} is called again{by(e)}"),
    ev.OutcomeOrphaned: _read(_orphaned),
    ev.ToolCallDenied: Words(lambda e, at: f"{at.name} may not call {e.tool}: {failure(e.error)}"),
    ev.OperationCalledOff: Words(lambda e, at: f"{at.name} continues without what it requested at {e.path}"),
    ev.TimerStarted: Words(lambda e, at: f"{at.name} sleeps until {clock(e.due_at_ms)}"),
    ev.TimerFired: _read(lambda e, at: f"{at.name}: the sleep is over"),
    ev.SignalAwaited: Words(_awaited),
    ev.SharedValueWritten: Words(_shared),
    ev.SharedValueConflicted: Words(
        _shared_conflict, detail=lambda e, at: _value(e.conflict.current, ": found ") + _value(e.conflict.attempted, ", wrote ")
    ),
    ev.SharedValueAwaited: Words(lambda e, at: f"{e.step} waits for a version of {e.space!r} {e.key!r} after {e.after}"),
    ev.SharedValueArrived: Words(lambda e, at: f"{e.step} has the version that it waited for"),
    ev.SharedValueTimedOut: Words(lambda e, at: f"{e.step} gave up waiting: {e.error.message}"),
    ev.SignalReceived: Words(
        lambda e, at: f"the signal {e.name!r} arrived{by(e)}{f', from run {e.sender}' if e.sender else ''}",
        detail=lambda e, at: _value(e.data),
    ),
    ev.SignalDelivered: _read(lambda e, at: f"{at.name} got signal {e.number}"),
    ev.SignalTimedOut: _read(lambda e, at: f"{at.name}: no signal arrived in time"),
    ev.MessageReceived: Words(lambda e, at: f"message {e.number} arrived{by(e)}", detail=lambda e, at: _value(e.message)),
    ev.MessageRead: Words(lambda e, at: f"{at.name} read message {e.number}"),
    ev.TreeOpened: _read(lambda e, at: "from here on, the limits of the run count what its children use"),
    ev.ChildRequested: _read(lambda e, at: f"{at.name} starts {e.workflow} {e.version}, run {e.child}{_value(e.input)}"),
    ev.ChildAwaited: _read(lambda e, at: f"{at.name} waits for {e.workflow}, run {e.child}"),
    ev.ChildAbandoned: _read(lambda e, at: f"{at.name} is to be cancelled: {e.reason}"),
    ev.ChildUndone: _read(lambda e, at: f"{at.name} has {e.workflow}, run {e.child}, undo its effects"),
    ev.ChildEnded: _read(_ended),
    ev.GateOpened: Words(_describe_gate, _asked_in_full),
    ev.GateApproved: Words(lambda e, at: f"gate {e.gate} approved{by(e)}; another person is needed"),
    ev.GateEdited: Words(lambda e, at: f"gate {e.gate} edited{by(e)}; another person decides"),
    ev.GateAssigned: Words(lambda e, at: f"gate {e.gate} asks {', '.join(e.reviewers)} now{by(e)}"),
    ev.GateReminded: Words(lambda e, at: f"reminder {e.number}: gate {e.gate} is open"),
    ev.GateEscalated: Words(lambda e, at: f"gate {e.gate} passed its deadline: {e.reason}"),
    ev.GateDecided: Words(lambda e, at: f"gate {e.gate} decided{by(e)}: {e.decision}", detail=_decision),
    ev.GateExpired: Words(lambda e, at: f"gate {e.gate} expired: it accepts no decision any more"),
    ev.GateWithdrawn: _read(lambda e, at: f"gate {e.gate} withdrawn: {e.reason}"),
    ev.LifespanPassed: _read(
        lambda e, at: f"the run is older than {span(round(e.lifespan_s * 1000))}, as its workflow expects"
    ),
}
