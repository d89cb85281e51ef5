"""Events in one line for a person who watches a run. Most events are left out.

Never here: where the line goes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from holdfast.cli.page import terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.moment import clock, span
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.facts.state import FUNCTION, SHARED_USE
from holdfast.core.nouns.shared_values import CACHE
from holdfast.core.rules import limits
from holdfast.core.values.actor import Actor
from holdfast.core.values.content import labelled
from holdfast.core.values.ids import StepId, item_name, node_of
from holdfast.core.values.money import usd
from holdfast.core.values.payload import Payload
from holdfast.core.values.policies import ErrorRecord
from holdfast.core.values.scopes import counts_tokens, in_words
from holdfast.service.declarations.query import View

_CLIP: Final = 100
"""How much of a value a line shows; --json has all of it."""
_MACHINERY: Final = re.compile(r"(_hash|_digest|_fingerprint|\bsession|\bcounted|scoped)$")
"""Fields that say nothing to people."""
_PLACE: Final = re.compile(r'^ *File "(?:.*/)?([^"/]+)", line (\d+), in (\S+)$', re.MULTILINE)
COMBINATION: Final = "combination"
"""The node by which each item of a job's matrix is done (actions)."""
_ERROR: Final = {"error_class", "message"}


def tell(recorded: ev.Recorded) -> str | None:
    """The line for an event; None for one that only the engine cares about."""
    teller = _TELLERS.get(type(recorded.event))
    return teller(recorded.event, recorded.at_ms) if teller is not None else None


class EventFormatter:
    """Tells a run's events in their order, and each failure once: that of an operation is also its step's and its run's."""

    def __init__(self) -> None:
        self.told: set[str] = set()
        self._combinations: dict[str, str] = {}
        """The names shown here of the combinations of a job's matrix, and of all together, by the names of their steps."""
        self._failures: Counter[StepId] = Counter()
        """The number of times each step has failed or lost its process."""

    def tell(self, recorded: ev.Recorded) -> str | None:
        """Return the line for an event; None for one that only the engine cares about."""
        line, event = self._line(recorded), recorded.event
        if line is None or not self._combinations:
            return line
        step: StepId | None = getattr(event, "step", None)
        name = event.map if isinstance(event, ev.MapEnded | ev.MapReopened) else None if step is None else node_of(step)
        known = None if name is None else self._combinations.get(name)
        return line if name is None or known is None else f"{known}{line.removeprefix(name)}"

    def _line(self, recorded: ev.Recorded) -> str | None:
        event = recorded.event
        if isinstance(event, ev.StepStarted):
            return self._started(event)
        if isinstance(event, ev.ItemsMapped) and event.name == COMBINATION:
            job = node_of(event.step)
            self._combinations[event.map] = job
            for number in range(event.count):
                self._combinations[item_name(event.map, str(number))] = f"{job} ({number + 1} of {event.count})"
            return f"{job} has {event.count} combinations"
        if isinstance(event, ev.AttemptFailed | ev.AttemptLost | ev.StepReplayed):
            self._failures[event.step] += 1
        line, error = tell(recorded), getattr(event, "error", None)
        if line is None or not isinstance(error, ErrorRecord):
            return line
        words = failure(error)
        if words in self.told:
            line = line.replace(f": {words}", "")
        self.told.add(words)
        return line

    def _started(self, e: ev.StepStarted) -> str:
        """A step that has waited begins a further attempt too, though nothing failed: it goes on."""
        failures = self._failures[e.step]
        if not failures:
            return f"{named(e.step)} {'started' if e.attempt == 1 else 'resumed'}"
        return f"{named(e.step)} started (attempt {failures + 1})"


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


def _completed(e: ev.StepCompleted, at_ms: int) -> str:
    """The step has completed; of a job, or one of its combinations, the line says what it came to."""
    if e.decisions is not None:
        return f"{named(e.step)} completed: {', '.join(e.decisions)}"
    return f"{named(e.step)} {job_result(e.output, is_failure=e.provisional)}"


_JOB: Final = {"result", "outcome", "outputs"}
"""The fields in the output of a YAML job, and of each combination of its matrix."""


def job_result(output: Payload, *, is_failure: bool) -> str:
    """Return what became of a step that has completed: of a job, its result. `is_failure` if its output tells of a failure."""
    said = output.value() if output.blob is None else None
    job = said if isinstance(said, dict) and said.keys() >= _JOB else {}
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


def _retried(e: ev.AttemptFailed, at_ms: int) -> str:
    return f"{named(e.step)} failed and is tried again in {span(e.retry_at_ms - at_ms)}: {failure(e.error)}"


def _of_value(e: ev.ValueRecorded) -> str | None:
    if e.kind == FUNCTION:
        return f"{named(e.step)}: {e.name} completed"
    if e.kind == SHARED_USE and e.name.startswith(CACHE) and e.payload is not None:
        for hit in e.payload.value():
            saved = usd(hit["saved_nanousd"])
            return f"{named(e.step)} got a cached answer (likeness {hit['likeness']:g}), which saved ${saved}"
    return None


def _short_of(e: ev.ScopeExceeded) -> str:
    what, left = ("tokens", "are left") if counts_tokens(e.scope) else ("money", "is left")
    return f"needs more {what} than {left}" if e.blocked else f"waits for {what} that others hold"


def _asked(e: ev.GateOpened, at_ms: int) -> str:
    who = ", ".join(e.reviewers) or "anyone"
    return f"{named(e.step) if e.step is not None else 'the run'} asks {who}: {e.reason}"


def _shared(e: ev.SharedValueWritten, at_ms: int) -> str:
    value = e.outcome.value()
    if not e.keep or (isinstance(value, dict) and value.get("gone")):
        return f"{e.step} deleted {e.space!r} {e.key!r}"
    dropped = f", in the place of {counted(len(e.dropped), 'other')}" if e.dropped else ""
    return f"{e.step} wrote version {e.base + 1} of {e.space!r} {e.key!r}{dropped}"


def _awaited(e: ev.SignalAwaited, at_ms: int) -> str:
    until = f" until {clock(e.due_at_ms)}" if e.due_at_ms is not None else ""
    return f"{named(e.step)} waits for the signal {e.name!r}{until}"


def by(e: Any) -> str:
    """Return the actor of an event, or of a run that has `by`; nothing if unknown."""
    return f" by {Actor(e.by, e.os_user, e.client)}" if e.by is not None else ""


def gist(event: View) -> str:
    """Return an event of a history on one line for people: no hashes and no sessions, long values cut short."""
    from holdfast.service import view

    told = [_fact(name, value) for name, value in view.news(event).items() if not _MACHINERY.search(name)]
    if event.get("by") is not None:
        whose = Actor(event["by"], event.get("os_user", ""), event.get("client", ""))
        told = [
            (name, text if name != "by" else json.dumps(str(whose), ensure_ascii=False))
            for name, text in told
            if name not in ("os_user", "client")
        ]
    return "  ".join(f"{name}={text if len(text) <= _CLIP else f'{text[: _CLIP - 1]}…'}" for name, text in told)


def _fact(name: str, value: Any) -> tuple[str, str]:
    """A field by its name without the unit, and its value with it."""
    if isinstance(value, int) and name.endswith("nanousd"):
        return name.removesuffix("nanousd").rstrip("_") or "cost", f"${usd(value)}"
    if isinstance(value, int) and name.endswith("_at_ms"):
        return name.removesuffix("_at_ms"), clock(value)
    if isinstance(value, int) and name.endswith("_ms"):
        return name.removesuffix("_ms"), span(value)
    if isinstance(value, dict) and value.keys() >= _ERROR:
        return name, json.dumps(f"{value['error_class']}: {value['message']}", ensure_ascii=False)
    if isinstance(value, dict) and name == "released" and "nanousd" in value:
        return name, f"${usd(value['nanousd'])}"
    return name, json.dumps(labelled(value), ensure_ascii=False)


_TELLERS: Final[dict[type[ev.Event], Callable[[Any, int], str | None]]] = {
    ev.RunAdmitted: lambda e, at_ms: "the run was admitted and begins",
    ev.RunPaused: lambda e, at_ms: f"the run was paused{by(e)}",
    ev.RunResumed: lambda e, at_ms: f"the run was resumed{by(e)}",
    ev.RunFailing: lambda e, at_ms: "the run is failing",
    ev.RunCancelling: lambda e, at_ms: f"the run is being cancelled{by(e)}: {e.reason}",
    ev.RunForked: lambda e, at_ms: f"the run was forked from {e.step} of run {e.origin}{by(e)}",
    ev.RunMigrated: lambda e, at_ms: f"the run continues with version {e.version}{by(e)}",
    ev.LimitRaised: lambda e, at_ms: (
        f"the limit on {e.limit} was raised{by(e)} to {f'${usd(e.value)}' if e.limit == 'cost' else e.value}"
    ),
    ev.LimitNeared: lambda e, at_ms: (
        f"{e.percent} % of the limit on {e.limit} are used"
        if e.percent < limits.THRESHOLDS[-1]
        else f"the limit on {e.limit} is reached"
    ),
    ev.LimitWouldStop: lambda e, at_ms: f"it would have stopped here: {e.message}",
    ev.StepCompleted: _completed,
    ev.StateConflicted: lambda e, at_ms: (
        f"{named(e.step)} and {named(e.other)} wrote {e.field} of the state, neither seeing the other's ({e.strategy})"
    ),
    ev.AttemptFailed: _retried,
    ev.AttemptLost: lambda e, at_ms: f"{named(e.step)} lost its process and is started again",
    ev.StepFailed: lambda e, at_ms: f"{named(e.step)} failed: {failure(e.error)}",
    ev.StepReplayed: lambda e, at_ms: f"{named(e.step)} is tried again",
    ev.DeadLetterEdited: lambda e, at_ms: f"the run has another input{by(e)}, for {named(e.step)}",
    ev.DeadLetterResolved: lambda e, at_ms: f"{named(e.step)} stays failed{by(e)}",
    ev.ValueRecorded: lambda e, at_ms: _of_value(e),
    ev.FunctionFailed: lambda e, at_ms: f"{named(e.step)}: {e.name} failed: {failure(e.error)}",
    ev.RetryScheduled: lambda e, at_ms: f"{named(e.step)} tries that again in {span(e.retry_at_ms - at_ms)}",
    ev.StepSkipped: lambda e, at_ms: f"{named(e.step)} skipped: {e.reason}",
    ev.StepCancelled: lambda e, at_ms: f"{named(e.step)} cancelled: {e.reason}",
    ev.ItemsMapped: lambda e, at_ms: f"{named(e.step)} has {counted(e.count, 'item')} done by {e.name}: {e.map}",
    ev.MapEnded: lambda e, at_ms: f"{e.map} has what it needs" if e.error is None else f"{e.map} failed: {failure(e.error)}",
    ev.MapReopened: lambda e, at_ms: f"{e.map} continues",
    ev.LoopTaken: lambda e, at_ms: f"{named(e.source)} goes back to {e.target}",
    ev.HoldDeferred: lambda e, at_ms: (
        f"{named(e.step)} " + ("needs more than its limits leave" if e.blocked else "waits for money that other calls hold")
    ),
    ev.ScopeExceeded: lambda e, at_ms: f"{named(e.step)} {_short_of(e)}: {in_words(e.scope)}",
    ev.ModelCallInDoubt: lambda e, at_ms: f"a model call's cost is unknown, it counts as spent: {failure(e.error)}",
    ev.EffectInDoubt: lambda e, at_ms: f"it is unknown whether a tool call happened: {failure(e.error)}",
    ev.ToolCallDenied: lambda e, at_ms: f"{named(e.step)} may not call {e.tool}: {failure(e.error)}",
    ev.StepCancelling: lambda e, at_ms: f"{named(e.step)} may clean up until {clock(e.until_ms)}",
    ev.OperationCalledOff: lambda e, at_ms: f"{named(e.step)} continues without what it requested at {e.path}",
    ev.TimerStarted: lambda e, at_ms: f"{named(e.step)} sleeps until {clock(e.due_at_ms)}",
    ev.SignalAwaited: _awaited,
    ev.SharedValueWritten: _shared,
    ev.SharedValueAwaited: lambda e, at_ms: f"{e.step} waits for a version of {e.space!r} {e.key!r} after {e.after}",
    ev.SharedValueArrived: lambda e, at_ms: f"{e.step} has the version that it waited for",
    ev.SharedValueTimedOut: lambda e, at_ms: f"{e.step} gave up waiting: {e.error.message}",
    ev.SharedValueConflicted: lambda e, at_ms: (
        f"{e.step} expected version {e.conflict.expected} of {e.space!r} {e.key!r} and found {e.conflict.found}"
        f" of {e.conflict.found_by!r}: {e.conflict.strategy}"
    ),
    ev.SignalReceived: lambda e, at_ms: f"the signal {e.name!r} arrived{by(e)}{f', from run {e.sender}' if e.sender else ''}",
    ev.ContributorNamed: lambda e, at_ms: (
        f"{e.name} contributed" + (f": they wrote {e.read}, which was read" if e.read is not None else "")
    ),
    ev.MakersLearned: lambda e, at_ms: (
        f"elsewhere, keys were used that {', '.join(dict.fromkeys(each for those in e.makers.values() for each in those))} made"
    ),
    ev.MessageReceived: lambda e, at_ms: f"message {e.number} arrived{by(e)}",
    ev.MessageRead: lambda e, at_ms: f"{named(e.step)} read message {e.number}",
    ev.GateOpened: _asked,
    ev.GateApproved: lambda e, at_ms: f"gate {e.gate} approved{by(e)}; another person is needed",
    ev.GateEdited: lambda e, at_ms: f"gate {e.gate} edited{by(e)}; another person decides",
    ev.GateAssigned: lambda e, at_ms: f"gate {e.gate} asks {', '.join(e.reviewers)} now{by(e)}",
    ev.GateReminded: lambda e, at_ms: f"reminder {e.number}: gate {e.gate} is open",
    ev.GateEscalated: lambda e, at_ms: f"gate {e.gate} passed its deadline: {e.reason}",
    ev.GateDecided: lambda e, at_ms: f"gate {e.gate} decided{by(e)}: {e.decision}",
    ev.GateExpired: lambda e, at_ms: f"gate {e.gate} expired: it accepts no decision any more",
}


def tell_run(row: dict[str, Any], as_json: bool = False) -> None:
    """Print how a run stands after a command, and how it goes on where that was asked for (`advice.with_next`)."""
    if as_json:
        terminal.emit(row)
        return
    terminal.say(f"Run {row['run_id']}: {row['status']}.")
    for line in row.get("next", ()):
        terminal.say(line)
