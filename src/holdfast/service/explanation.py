"""A run explained in sentences: how it stands, what happened, what it waits for and who can end that, and what it costs.

All of it comes from the run's state and from reads with a bound, so that a long history makes no difference. Never here: a
command of the command line, a time in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.facts.events import AttemptLost, FunctionFailed
from holdfast.core.rules import limits
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import GateId
from holdfast.core.values.money import usd
from holdfast.core.views import status
from holdfast.core.views.status import Status
from holdfast.core.views.step_result import END, step_result
from holdfast.service.control import process
from holdfast.service.view.explanation import ExplainedWaitRow, ExplanationRow
from holdfast.service.view.plain import iso
from holdfast.service.wait_sentence import ENGINE_ASKS, needs_nobody, sentence, way_out

if TYPE_CHECKING:
    from holdfast.core.facts.events import Recorded
    from holdfast.core.facts.state import State, Step
    from holdfast.core.values.ids import SessionId
    from holdfast.core.values.policies import ErrorRecord
    from holdfast.core.views.projection import GateChange, GateRow, RunRow
    from holdfast.ports import Stall
    from holdfast.service.control.control import Control

MAX_NAMED: Final = 5
"""Steps, losses and decisions that are named one by one; of others there is the number."""
MAX_EVENTS_READ: Final = 1_000
"""Of the end of a history, for what no state has: the losses of processes."""
_ALIKE: Final = 100
"""Latest runs of the same workflow, from whose costs those of this one are estimated, as far as they have completed. One
criterion alone, so that its index serves any database."""
_ENOUGH: Final = 3
_NEAR_PERCENT: Final = 50
"""Use of a limit from which on it is named."""


class StatusWords(NamedTuple):
    """The words for a status."""

    summary: str
    action: str


STATUSES: Final[dict[Status, StatusWords]] = {
    "completed": StatusWords("It has completed.", "No action is needed."),
    "failed": StatusWords("It has failed.", "An operator can retry it, or fork it from an earlier step."),
    "cancelled": StatusWords("It was cancelled.", "An operator can fork it from an earlier step."),
    "paused": StatusWords("It is paused: no new step starts.", "An operator can resume it, or cancel it."),
    "running": StatusWords("It is being worked on, or starts in a moment.", "No action is needed."),
    "requires_attention": StatusWords("It needs a person.", "A person must answer a question, or an operator can cancel it."),
    "budget_blocked": StatusWords(
        "Its next model call does not fit a limit on money or tokens.",
        "An admin can raise the limit, or an operator cancel it.",
    ),
    "waiting": StatusWords("It waits.", "An operator can cancel it."),
}


class _Facts(NamedTuple):
    """Everything that is read about a run, each with a bound."""

    state: State
    latest: Sequence[Recorded]
    decided: Sequence[tuple[GateRow, GateChange | None]]
    alike: Sequence[RunRow]
    stalls: Sequence[Stall]
    missing_ms: int | None
    workers: Mapping[SessionId, str]
    now_ms: int


async def explain(control: Control, run_id: str, *, names_workers: bool) -> ExplanationRow:
    """Return a run in sentences. Raises NotFound."""
    state = await control.run(run_id).state()
    row = await control.find(run_id)
    workers = {each.worker for each in state.steps.values() if each.status == "active" and each.worker is not None}
    facts = _Facts(
        state,
        await control.store.log.events(state.run, max(0, state.seq - MAX_EVENTS_READ), MAX_EVENTS_READ),
        await control.gates(run_id, order="closed", open_only=False, limit=MAX_NAMED),
        await control.runs(workflow=state.workflow, limit=_ALIKE),
        await process.stalls(control.store, state.run),
        (await process.missing_since_ms(control.store, [row])).get(state.run),
        await process.names(control.store, workers) if names_workers else {},
        control.now_ms(),
    )
    return of_facts(facts)


def of_facts(facts: _Facts) -> ExplanationRow:
    """Return the sentences about what was read of a run."""
    state = facts.state
    stands = status.status(state)
    return {
        "run_id": state.run,
        "workflow": state.workflow,
        "version": state.version,
        "status": stands,
        "summary": STATUSES[stands].summary,
        "action": _action(facts, stands),
        "happened": [{"at": iso(at_ms), "text": text} for at_ms, text in _happened(facts)],
        "waits": [_wait(state, each) for each in status.waiting_for(state)],
        "costs": [*_spent(state, facts.now_ms), *_from_here(state, facts.alike)],
    }


def _action(facts: _Facts, stands: Status) -> str:
    """Return who can do what about a run. Where something keeps it, that no action is needed is not true."""
    if stands == "running":
        if facts.missing_ms is not None:
            return "Someone must start a process that has its workflow."
        if facts.stalls:
            return "Someone must correct what its process reports."
        if not all(map(needs_nobody, status.waiting_for(facts.state))):
            return "Each of its waits says who can end it."
    return STATUSES[stands].action


# --- What happened ----------------------------------------------------------------------------------------------------


def _happened(facts: _Facts) -> Iterator[tuple[int | None, str]]:
    state = facts.state
    yield state.started_at_ms, _start(state)
    if state.origin is not None:
        yield None, f"It is a fork of run {state.origin.run}, from {state.origin.place} on."
    if state.parent is not None:
        yield None, f"It is a child of run {state.parent.run}, for its step {state.parent.step}."
    yield from ((None, text) for text in (*_steps(facts), *_retries(facts), *_maps(state), *_children(state)))
    yield from _losses(facts)
    yield from _decisions(facts)
    for stall in facts.stalls:
        yield stall.since_ms, f"Its process cannot continue it, and tries again: {stall.reason}"
    if facts.missing_ms is not None:
        yield facts.missing_ms, "No live process has had its workflow since then. If none starts, a person is asked about it."
    if state.ended:
        yield state.ended_at_ms, _end(state)


def _start(state: State) -> str:
    actor = Actor(state.by, state.os_user, state.client)
    limit = "" if state.budget.limit_nanousd is None else f", with a limit of ${usd(state.budget.limit_nanousd)}"
    by = f" by {actor}" if state.by is not None else ""
    return f"{state.workflow} {state.version} was started{by} for the tenant {state.tenant}{limit}."


def _steps(facts: _Facts) -> Iterator[str]:
    state = facts.state
    own = {name: step for name, step in state.steps.items() if name != END}
    counts = Counter(_became(step) for step in own.values())
    if counts:
        listed = ", ".join(f"{count} {each}" for each, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
        events = _counted(state.seq, "event")
        started = state.steps_started - sum(step.attempt for name, step in state.steps.items() if name == END)
        yield f"It has started {_counted(started, 'step')}, in {events}. Its steps now: {listed}."
    for step in _first([step for step in state.steps.values() if step.status == "active"]):
        name = facts.workers.get(step.worker) if step.worker is not None else None
        at = f" at {name}" if name is not None else ""
        yield f"{step.id} is under way{at}."
    failed = [step for step in state.steps.values() if step.status == "failed"]
    for step in _first([step for step in failed if step.error != state.error or state.ended != "failed"]):
        yield f"{step.id} failed{'' if step.error is None else f': {_error(step.error)}'}"


def _became(step: Step) -> str:
    """Return the status of a step; of a job that is over, what it came to."""
    return step_result(step.output, is_failure=step.provisional) if step.status == "completed" else step.status


def _retries(facts: _Facts) -> Iterator[str]:
    """Yield the steps with several attempts, and the functions of flows that failed, as far as the latest events have them."""
    tried = [(step.attempt - step.resumptions, step.id, step.error) for step in facts.state.steps.values()]
    again = [f"{name} was tried {tries} times.{_last(error)}" for tries, name, error in tried if tries > 1]
    failures: dict[str, list[ErrorRecord]] = {}
    for each in facts.latest:
        if isinstance(each.event, FunctionFailed):
            failures.setdefault(f"{each.event.name!r} in {each.event.step}", []).append(each.event.error)
    again += [f"{name} failed {_counted(len(errors), 'time')}.{_last(errors[-1])}" for name, errors in failures.items()]
    yield from again[:MAX_NAMED]
    if len(again) > MAX_NAMED:
        yield f"{_counted(len(again) - MAX_NAMED, 'other part')} of its work failed and was tried again."


def _last(error: ErrorRecord | None) -> str:
    return "" if error is None else f" The last error was {_error(error)}"


def _maps(state: State) -> Iterator[str]:
    for name, each in list(state.maps.items())[:MAX_NAMED]:
        done, failed = each.completed - len(each.provisional), each.failed + len(each.provisional)
        under_way = len(each.items)
        yield (
            f"The map {name} has {_counted(each.opened.count, 'item')}: {done} completed, {failed} failed and {under_way} under"
            " way."
        )


def _children(state: State) -> Iterator[str]:
    if state.children_asked:
        open_ = sum(1 for _ in state.open_children())
        ended = f"{open_} {'has' if open_ == 1 else 'have'} not ended" if open_ else "all have ended"
        yield f"It has asked for {_counted(state.children_asked, 'child run')}; {ended}."


def _losses(facts: _Facts) -> Iterator[tuple[int | None, str]]:
    found = [(each.at_ms, each.event.step) for each in facts.latest if isinstance(each.event, AttemptLost)]
    for at_ms, step in found[-MAX_NAMED:]:
        yield at_ms, f"{step} lost its process, and was started again."
    if len(found) > MAX_NAMED:
        yield None, f"Of its latest {len(facts.latest)} events, {len(found)} are lost processes."


def _decisions(facts: _Facts) -> Iterator[tuple[int | None, str]]:
    for gate, change in reversed(facts.decided):
        if change is not None:
            where, by = gate.step or "the run", f" by {change.by}" if change.by else ""
            result = change.decision or change.state
            asked = ENGINE_ASKS.get(gate.reason, gate.reason).format(gate.subject or "the run")
            yield change.at_ms, f"The question of {where} ({asked}) was answered{by}: {result}."


def _end(state: State) -> str:
    if state.ended == "failed" and state.error is not None:
        return f"It failed: {_error(state.error)}"
    return f"It was cancelled: {state.reason}." if state.ended == "cancelled" else f"It {state.ended}."


# --- What it waits for ------------------------------------------------------------------------------------------------


def _wait(state: State, wait: status.Wait) -> ExplainedWaitRow:
    gate = state.gates.get(GateId(wait.id)) if wait.kind == "gate" else None
    action = way_out(wait)
    if gate is not None:
        who = ", ".join(gate.opened.reviewers) or "Any reviewer"
        action = f"{who} can decide: {', '.join(gate.opened.allowed)}."
        if not gate.opened.allowed:
            action = "It takes no decision: it is withdrawn when a process has the workflow, or when the run is migrated."
    if status.status(state) == "paused":
        action = f"{'It needs no action.' if needs_nobody(wait) else action} The run goes on only after it is resumed."
    return {
        "id": wait.id,
        "kind": wait.kind,
        "reason": wait.reason,
        "since": iso(wait.since_ms),
        "due_at": iso(wait.due_at_ms),
        "text": sentence(wait),
        "action": action,
    }


# --- What it costs ----------------------------------------------------------------------------------------------------


def _spent(state: State, now_ms: int) -> Iterator[str]:
    budget = state.budget
    limit = "; it has no cost limit" if budget.limit_nanousd is None else f" of its limit of ${usd(budget.limit_nanousd)}"
    calls = f"{_counted(state.model_calls, 'model call')} and {_counted(state.tool_calls, 'tool call')}"
    yield f"It has spent ${usd(budget.settled_nanousd)}{limit}. It made {calls}."
    if budget.held_nanousd:
        yield f"${usd(budget.held_nanousd)} are held for calls in flight."
    if budget.in_doubt_nanousd:
        yield f"${usd(budget.in_doubt_nanousd)} are in doubt: they count as spent until a person states the cost."
    if len(state.cost_nanousd_by_node) > 1:
        node, cost = max(state.cost_nanousd_by_node.items(), key=lambda pair: pair[1])
        if cost:
            yield f"Its most expensive node is {node}: ${usd(cost)}."
    for cap in limits.caps(state, state.ended_at_ms or now_ms):
        if cap.limit != "cost" and cap.percent >= _NEAR_PERCENT:
            yield f"It has used {cap.percent} % of its limit on {cap.limit.replace('_', ' ')}."


def _from_here(state: State, alike: Sequence[RunRow]) -> Iterator[str]:
    budget = state.budget
    if state.ended:
        more = " unless it is retried" if state.ended == "failed" else ""
        yield f"It costs nothing more{more}."
        return
    if budget.limit_nanousd is None:
        yield "No limit of its own bounds what it can still cost."
    else:
        left = max(0, budget.limit_nanousd - budget.settled_nanousd - budget.in_doubt_nanousd)
        yield f"It can cost at most ${usd(left)} more, unless its limit is raised."
    of_one = (state.tenant, state.version, "completed")
    costs = [each.settled_nanousd for each in alike if (each.tenant, each.version, each.status) == of_one]
    if len(costs) >= _ENOUGH:
        name, mean = f"{state.workflow} {state.version}", sum(costs) // len(costs)
        yield f"The last {len(costs)} completed runs of {name} cost ${usd(mean)} on average, and ${usd(max(costs))} at most."


def _error(error: ErrorRecord) -> str:
    return f"{error.error_class}: {error.message}"


def _first(steps: Sequence[Step]) -> Sequence[Step]:
    return steps[:MAX_NAMED]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
