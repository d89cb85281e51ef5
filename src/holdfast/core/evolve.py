"""`evolve`: folds one event into the state of its run. The events of a run as a whole (start, limits, phases, end) are here.

It knows no graph and refuses nothing: it is total over known events and raises CorruptHistory only for a history that no
rule can have written. Never here: what an event of a step, an operation or a call does (folding).
"""

from __future__ import annotations

from typing import Final, Literal

from holdfast.core.facts import contribution
from holdfast.core.facts import events as ev
from holdfast.core.facts.contribution import CONTRIBUTIONS, note
from holdfast.core.facts.folding import call, child, items, operation, step
from holdfast.core.facts.folding.moves import Folds, unjudge, wake, wake_deferred
from holdfast.core.facts.state import InheritedJournal, Origin, State
from holdfast.core.nouns.labels import merged
from holdfast.core.values.ids import Seq, node_of
from holdfast.core.values.policies import GUARD
from holdfast.errors import CorruptHistory


def _run_started(s: State, e: ev.RunStarted, at_ms: int) -> None:
    s.run, s.tenant, s.workflow, s.version, s.graph_hash = e.run, e.tenant, e.workflow, e.version, e.graph_hash
    s.input, s.input_digest, s.key, s.by = e.input, e.input_digest, e.key, e.by
    s.os_user, s.client, s.roles, s.traceparent = e.os_user, e.client, e.roles, e.traceparent
    s.price_fingerprint, s.team = e.price_fingerprint, e.team
    s.counted, s.awaits = e.counted, e.awaits
    s.parent, s.shared = e.parent, e.shared
    s.started_at_ms = at_ms
    s.budget.limit_nanousd = e.limit_nanousd
    s.max_steps, s.max_active_s, s.max_lifespan_s, s.naming = e.max_steps, e.max_active_s, e.max_lifespan_s, e.naming
    for name, term in e.terms().items():
        setattr(s, name, term)


def _run_admitted(s: State, e: ev.RunAdmitted, at_ms: int) -> None:
    s.counted, s.awaits = True, None


def _admission_deferred(s: State, e: ev.AdmissionDeferred, at_ms: int) -> None:
    s.awaits = e.scope


def _contributor_named(s: State, e: ev.ContributorNamed, at_ms: int) -> None:
    """All of it is noted (contribution.note)."""


def _makers_learned(s: State, e: ev.MakersLearned, at_ms: int) -> None:
    contribution.note_makers(s, e.makers)


def _run_labelled(s: State, e: ev.RunLabelled, at_ms: int) -> None:
    s.labels = merged(s.labels, e.labels)


def _run_paused(s: State, e: ev.RunPaused, at_ms: int) -> None:
    s.paused = True


def _run_resumed(s: State, e: ev.RunResumed, at_ms: int) -> None:
    s.paused = False
    for name in s.active:
        s.steps[name].woken = True  # it may be leaving because the pause refused it something


def _run_failing(s: State, e: ev.RunFailing, at_ms: int) -> None:
    s.phase, s.error = "failing", e.error
    s.asked.clear()


def _run_cancelling(s: State, e: ev.RunCancelling, at_ms: int) -> None:
    s.phase, s.reason = "cancelling", e.reason
    s.asked.clear()


def _run_completed(s: State, e: ev.RunCompleted, at_ms: int) -> None:
    s.output, s.parts = e.output, e.parts
    _end(s, "completed", at_ms)


def _run_failed(s: State, e: ev.RunFailed, at_ms: int) -> None:
    s.error = e.error
    _end(s, "failed", at_ms)


def _run_cancelled(s: State, e: ev.RunCancelled, at_ms: int) -> None:
    s.reason = e.reason
    _end(s, "cancelled", at_ms)


def _end(s: State, status: Literal["completed", "failed", "cancelled"], at_ms: int) -> None:
    s.ended, s.ended_at_ms = status, at_ms
    s.startable.clear()
    s.unplaced.clear()


def _run_reopened(s: State, e: ev.RunReopened, at_ms: int) -> None:
    if s.error is not None and s.error.error_class == GUARD:
        _forget_denials(s, s.error.node)  # a guard broke: what counted as its word was none
    if s.ended:  # one that was still failing has kept its place
        s.counted, s.awaits = e.counted, e.awaits
    s.ended, s.ended_at_ms, s.phase, s.error = "", 0, "", None
    s.reopened += 1
    if s.messages:  # its conversation goes on with them
        s.told, s.messages = s.messages[0].number - 1, []
    s.joins.clear()  # those that were waited for are waited for again
    for id_ in e.superseded:
        items.drop_maps(s, s.steps[node_of(id_)])
        step = s.steps.pop(node_of(id_))
        if step.attempt == 0:  # its visit has not begun yet, and will have what it has inherited
            s.visits[node_of(id_)] -= 1
            if step.journal or step.inherited:
                s.inherited[id_] = InheritedJournal(step.journal, step.inherited)
        unjudge(s, id_)
    s.__dict__.clear()  # so much has changed that what is kept beside it is worked out again


def _forget_denials(s: State, node: str) -> None:
    about = (f">{node}:", f">{node}#")
    for key in [key for key, allowed in s.verdicts.items() if not allowed and any(part in key for part in about)]:
        del s.verdicts[key]


def _run_forked(s: State, e: ev.RunForked, at_ms: int) -> None:
    s.origin = Origin(e.origin, e.step, e.path, e.repeats_effects)
    s.visits.update(e.visits)
    s.summoned.update(dict.fromkeys(e.summoned))
    s.given.update(e.given)


def _run_migrated(s: State, e: ev.RunMigrated, at_ms: int) -> None:
    s.version, s.graph_hash = e.version, e.graph_hash
    s.asked.clear()  # guards of the old graph; those of the new one are asked again


def _limit_raised(s: State, e: ev.LimitRaised, at_ms: int) -> None:
    match e.limit:
        case "cost":
            s.budget.limit_nanousd = e.value
        case "steps":
            s.max_steps = e.value
        case "tokens":
            s.max_tokens = e.value
        case "model_calls":
            s.max_model_calls = e.value
        case "tool_calls":
            s.max_tool_calls = e.value
        case "active":
            s.max_active_s = e.value
            _wake_all(s)
        case "wall":
            s.max_wall_s = e.value
            _wake_all(s)
        case _:
            s.max_lifespan_s = e.value
            s.lifespan_passed = False
    s.neared.pop(e.limit, None)
    s.would_stop.pop(e.limit, None)
    wake_deferred(s, all_calls=True)


def _wake_all(s: State) -> None:
    for name in s.unfinished:
        wake(s, s.steps[name])  # those that left, or are leaving, because they were refused something


def _limit_neared(s: State, e: ev.LimitNeared, at_ms: int) -> None:
    s.neared[e.limit] = e.percent


def _limit_would_stop(s: State, e: ev.LimitWouldStop, at_ms: int) -> None:
    s.would_stop[e.limit] = e.message


def _lifespan_passed(s: State, e: ev.LifespanPassed, at_ms: int) -> None:
    s.lifespan_passed = True


_OF_RUNS: Final[Folds] = {
    ev.RunStarted: _run_started,
    ev.RunAdmitted: _run_admitted,
    ev.AdmissionDeferred: _admission_deferred,
    ev.ContributorNamed: _contributor_named,
    ev.MakersLearned: _makers_learned,
    ev.RunLabelled: _run_labelled,
    ev.RunPaused: _run_paused,
    ev.RunResumed: _run_resumed,
    ev.RunFailing: _run_failing,
    ev.RunCancelling: _run_cancelling,
    ev.RunCompleted: _run_completed,
    ev.RunFailed: _run_failed,
    ev.RunCancelled: _run_cancelled,
    ev.RunReopened: _run_reopened,
    ev.RunForked: _run_forked,
    ev.RunMigrated: _run_migrated,
    ev.LimitRaised: _limit_raised,
    ev.LimitNeared: _limit_neared,
    ev.LimitWouldStop: _limit_would_stop,
    ev.LifespanPassed: _lifespan_passed,
}
FOLDS: Final[Folds] = {**_OF_RUNS, **step.FOLDS, **items.FOLDS, **operation.FOLDS, **call.FOLDS, **child.FOLDS}


def evolve(state: State, event: ev.Event, at_ms: int) -> State:
    """`state` with `event`, which happened at `at_ms`, folded into it (in place)."""
    try:
        fold = FOLDS[type(event)]
    except KeyError:
        raise CorruptHistory(f"run {state.run}: an event of unknown kind {type(event).__name__}") from None
    state.seq = Seq(state.seq + 1)
    state.at_ms = at_ms
    try:
        if type(event) in CONTRIBUTIONS:
            note(state, event)
        fold(state, event, at_ms)
    except (LookupError, AttributeError, ValueError, StopIteration) as problem:
        raise CorruptHistory(
            f"run {state.run}: event {state.seq} ({type(event).__name__}) does not follow from the events before it"
            f" ({problem!r})"
        ) from problem
    return state
