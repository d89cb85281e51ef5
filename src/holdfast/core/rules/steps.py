"""The rules of steps: how they start, complete, fail, are lost, suspended, skipped, sent back and called off.

Never here: what a call costs or does (calls), who is asked (gates), how a run ends (endings).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

from holdfast.core.facts import commands, typed_state
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE, EXPIRED, GATE_DECISIONS, Edge, Node
from holdfast.core.facts.state import Step, verdict_key
from holdfast.core.facts.typed_state import PatchConflict
from holdfast.core.rules import admission, calls, endings, limits, mapping, questions, waits
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.readiness import (
    Standing,
    absorbed,
    chosen,
    denied_failure,
    guards_after,
    judge,
    loop_state,
    may_loop,
    next_step,
    tally_of,
    tolerated,
    unhandled_failure,
    will_wake,
)
from holdfast.core.values import policies
from holdfast.core.values.actor import folded
from holdfast.core.values.ids import NodeName, Path, StepId, is_item, map_of, node_of
from holdfast.core.values.payload import NULL, Payload, inline
from holdfast.core.values.policies import (
    CANCELLED,
    CHECK_FAILED,
    CONFLICT,
    DEFAULT_RETRY,
    LOOP_EXHAUSTED,
    LOST,
    MAX_LOST_ATTEMPTS,
    RATE_LIMIT,
    REJECTED,
    ROUTING,
    ErrorRecord,
    RetryPolicy,
    delay_ms,
    retries,
)
from holdfast.core.values.trace import TraceContext
from holdfast.errors import Conflict, InvalidInput

_MAX_REASON: Final = 500
"""Characters of what a check has found that its error tells; all of it is the step's output."""


def start_run(d: Decision, c: commands.StartRun) -> None:
    if d.state.seq:
        raise Conflict(f"Run {c.run} has already been started.")
    _check_requester(d, c)
    traceparent = c.by.traceparent
    if c.by.trace_id is not None and not traceparent and c.parent is None:
        traceparent = TraceContext(c.by.trace_id).traceparent
    awaits = admission.claim(d, c) if c.parent is None else None
    definition = d.graph.definition
    limits_ = definition.limits
    terms: dict[str, Any] = {name: getattr(limits_, name, None) if term is None else term for name, term in c.terms().items()}
    d.emit(
        ev.RunStarted(
            run=c.run,
            tenant=c.tenant,
            workflow=definition.name,
            version=definition.version,
            graph_hash=d.graph.hash,
            input=c.input,
            limit_nanousd=c.limit_nanousd if c.limit_nanousd is not None else limits_.cost_nanousd,
            max_steps=limits_.max_steps,
            max_active_s=limits_.max_active_s,
            max_lifespan_s=limits_.max_lifespan_s,
            key=c.key,
            input_digest=c.input_digest,
            by=c.by.name,
            os_user=c.by.os_user,
            client=c.by.client,
            price_fingerprint=c.price_fingerprint,
            team=c.team,
            counted=awaits is None and c.parent is None,
            awaits=awaits,
            parent=c.parent,
            shared=c.shared,
            naming=c.naming,
            contributors=c.contributors,
            roles=c.by.roles,
            traceparent=traceparent,
            **terms,
        )
    )
    for event in c.inherits:
        d.emit(event)
    d.learn(c.makers)
    for name in d.graph.order if c.inherits else d.graph.entries:
        d.touch(name)
    if c.held is not None:
        subject = f"{definition.name} {definition.version}"
        allowed, reviewers = ("approve", "reject"), c.held.reviewers
        questions.open_engine_gate(
            d, questions.VERSION_HELD, c.held.shown, allowed=allowed, subject=subject, reviewers=reviewers
        )


def _check_requester(d: Decision, c: commands.StartRun) -> None:
    """Raises InvalidInput if a gate needs another person than the starter, and the starter is unknown."""
    eyes = [name for name, node in d.graph.nodes.items() if node.options.get("four_eyes")]
    if eyes and not folded(c.by.name):
        raise InvalidInput(
            f"{eyes[0]!r} needs a second pair of eyes, so it must be known who asks for this"
            " run. No run was started. Name the person who asks (by=NAME)."
        )


def complete_step(d: Decision, c: commands.CompleteStep) -> None:
    step = d.current(c)
    d.record(c.step, c.values)
    if step.cleans_up:
        endings.end_cleanup(d, step)
        return
    met = _meetings(d, step, c.output)
    if met and any(each.rejected for each in met):
        for each in met:
            d.emit(_conflict(step, each, resolved=None))
        fail_attempt(d, commands.FailAttempt(c.step, c.attempt, _rejection(d, step, met), None))
        return
    finish_step(d, step, c.output, c.decisions, provisional=c.provisional, conversation=c.conversation, trace=c.trace)


def _meetings(d: Decision, step: Step, output: Payload) -> list[PatchConflict]:
    """Find each field of the typed state, which most workflows have not, in which the output of a step meets another's."""
    strategies = d.graph.definition.state
    return [*typed_state.meetings(strategies, d.state, step, output)] if strategies else []


def _conflict(step: Step, meeting: PatchConflict, resolved: Payload | None) -> ev.StateConflicted:
    sides = inline(meeting.current), inline(meeting.attempted)
    return ev.StateConflicted(step.id, meeting.field, meeting.strategy, meeting.other, *sides, resolved)


def _rejection(d: Decision, step: Step, meetings: Sequence[PatchConflict]) -> ErrorRecord:
    first = next(each for each in meetings if each.rejected)
    return d.error(
        node_of(step.id),
        CONFLICT,
        f"The field {first.field!r} of the state was written by {first.other} meanwhile, which this step had not seen. Both"
        " are in the history, and nothing of this step's output was taken.",
        retryable=True,
    )


def finish_step(
    d: Decision,
    step: Step,
    output: Payload,
    decisions: tuple[str, ...] | None,
    *,
    provisional: bool = False,
    conversation: Payload | None = None,
    trace: Payload | None = None,
) -> None:
    """Complete `step`, unless its decision leads nowhere. What a person says counts also where a field rejects."""
    wrong = _misrouted(d, step, decisions, output)
    if wrong is not None:
        # A gate that has its decision cannot be tried again: the person has spoken.
        fail_step(d, step, wrong, final=d.graph.nodes[node_of(step.id)].kind == "human_gate", output=output)
        return
    if d.state.gates:
        questions.withdraw_of_step(d, step.id, "the step has completed")
    if step.maps:
        endings.call_items_off(d, step, "its step has completed")
    for met in _meetings(d, step, output):
        d.emit(_conflict(step, met, inline(met.resolved)))
    d.emit(ev.StepCompleted(step.id, step.attempt, output, decisions, provisional, conversation, trace))
    d.touch(node_of(step.id))


def _misrouted(d: Decision, step: Step, decisions: tuple[str, ...] | None, output: Payload) -> ErrorRecord | None:
    """Why no edge can follow `decisions`, if that is so: a decision that names nothing, or a loop that is used up."""
    name = node_of(step.id)
    node = d.graph.nodes.get(name)
    if decisions is None or node is None or not (node.decides or node.kind == "task"):
        return None
    edges = [edge for edge in d.graph.outgoing[name] if edge.on == "success"]
    loops = d.graph.loops_from.get(name, ())
    for decision in decisions:
        if any(chosen(d.graph, edge, (decision,)) for edge in edges):
            continue
        back = [loop for loop in loops if chosen(d.graph, loop, (decision,))]
        if any(may_loop(d.state, loop) for loop in back):
            continue
        if back:
            return d.error(
                name,
                CHECK_FAILED if node.kind == "check" else LOOP_EXHAUSTED,
                f"{name!r} decided {decision!r}, but {back[0].target!r} has been visited {back[0].max_visits} times,"
                f" which is all that its loop allows{_finding(node, output)}.",
            )
        if node.kind in ("branch", "task"):
            known = sorted({edge.when or edge.target for edge in (*edges, *loops)})
            return d.error(name, ROUTING, f"{name!r} chose {decision!r}, which is none of its ways: {', '.join(known)}.")
        if decision in ("fail", "retry") and node.kind == "check":
            return d.error(name, CHECK_FAILED, f"The check {name!r} did not pass ({decision}){_finding(node, output)}.")
        if decision in ("reject", "retry") and node.kind == "human_gate":
            return d.error(name, REJECTED, f"{name!r} was rejected{_by(d)}, and no edge follows a rejection.")
        if decision == EXPIRED and node.kind == "human_gate":
            return d.error(name, policies.EXPIRED, f"{name!r} was not answered in time, and no edge follows that.")
        if node.kind == "human_gate" and decision not in GATE_DECISIONS:
            return d.error(name, ROUTING, f"{name!r} was decided {decision!r}, and no edge follows that.")
    return None


def _by(d: Decision) -> str:
    """Return who has just decided a gate, and why."""
    decided = next((event for event in reversed(d.events) if isinstance(event, ev.GateDecided)), None)
    if decided is None or decided.by is None:
        return ""
    return f" by {decided.by}" + (f": {decided.reason[:_MAX_REASON].rstrip('.')}" if decided.reason else "")


def _finding(node: Node, output: Payload) -> str:
    """Return a check's finding, as the end of a sentence."""
    said = output.value() if node.kind == "check" and output.blob is None else None
    reason = said.get("reason") if isinstance(said, dict) else None
    return f": {str(reason)[:_MAX_REASON].rstrip('.')}" if reason else ""


def fail_attempt(d: Decision, c: commands.FailAttempt) -> None:
    step = d.current(c)
    d.record(c.step, c.values)
    if step.cleans_up:
        fail_step(d, step, c.error)
        return
    name = node_of(c.step)
    policy = _policy(d, name)
    failures = (step.rate_limited if c.error.error_class == RATE_LIMIT else step.failures) + 1
    # What an operation's own policy has given up, only one that the node names itself tries again.
    given_up = c.spent and policy.only_transient
    if not given_up and retries(policy, c.error, failures):
        wait_ms = delay_ms(policy, c.error, failures, f"{d.state.run}/{c.step}")
        d.emit(ev.AttemptFailed(c.step, c.attempt, c.error, d.now_ms + wait_ms, c.path))
        note_left(d, name)
    else:
        fail_step(d, step, c.error, c.path)


def _policy(d: Decision, name: NodeName) -> RetryPolicy:
    if is_item(name):
        return d.state.maps[map_of(name)].opened.retry
    node = d.graph.nodes.get(name)
    return DEFAULT_RETRY if node is None or node.kind == "map" else node.retry


def fail_step(
    d: Decision, step: Step, error: ErrorRecord, path: Path | None = None, *, final: bool = False, output: Payload = NULL
) -> None:
    """A step fails for good: into an error edge, a tolerant join, the dead letters, or the run's failure.

    Where it failed because nobody knows what became of a call, a person is asked first: the answer is the call's outcome, and
    the step goes on with it. `final`: nobody could mend it, so it is no dead letter. `output`: what it came to, where only that
    leads nowhere.
    """
    name = node_of(step.id)
    if step.cleans_up:
        endings.end_cleanup(d, step, f"failed: {error.message}" if error.error_class != CANCELLED else "")
        return
    if name == COMPENSATE:
        d.emit(ev.StepFailed(step.id, step.attempt, error, parked=True, path=path))
        questions.ask_about_compensation(d, step.id, error)
        return
    taken_up = mapping.tolerates(d, name) if is_item(name) else absorbed(d.graph, d.state, name)
    parks = not taken_up and not final and d.graph.definition.on_exhausted == "dead_letter"
    doubt = None if taken_up or parks or final else calls.doubt_behind(d.state, step, error, path)
    if step.maps:
        endings.call_items_off(d, step, "its step has failed")
    if doubt is not None:
        path = d.state.calls[doubt].path
    is_asked = parks or doubt is not None
    d.emit(ev.StepFailed(step.id, step.attempt, error, absorbed=taken_up, parked=is_asked, path=path, output=output))
    if doubt is not None:
        if is_item(name):
            d.touch(name)  # another may begin in its place
        questions.ask_about_effect(d, doubt, d.state.calls[doubt], error, repeatable=True)
        return
    if parks:
        if is_item(name):
            d.touch(name)  # another may begin in its place
        at_hand = _at_hand(d, name) if error.error_class in (LOOP_EXHAUSTED, CHECK_FAILED) else {}
        questions.ask_about_failure(
            d, step.id, error, answerable=not _decides(d, name) and not questions.has_asked(d.state, step), at_hand=at_hand
        )
        return
    questions.withdraw_of_step(d, step.id, "the step has failed")
    if taken_up:
        d.touch(name)
    elif is_item(name):
        mapping.fail(d, name, error)
    else:
        endings.begin_failing(d, error)


def _decides(d: Decision, name: NodeName) -> bool:
    node = d.graph.nodes.get(name)
    return node is not None and node.decides


def _at_hand(d: Decision, name: NodeName) -> dict[NodeName, Payload]:
    """Return the outputs of the bodies of the used-up loops back from a node, its own included."""
    body = set[NodeName]().union(*(d.graph.loop_body[loop.target] for loop in d.graph.loops_from.get(name, ())))
    steps = [(each, d.state.steps[each]) for each in d.graph.order if each in body and each in d.state.steps]
    return {each: step.output for each, step in steps if step.status == "completed" or each == name}


def suspend_step(d: Decision, c: commands.SuspendStep) -> None:
    step = d.current(c)
    d.record(c.step, c.values)
    waits.start_timers(d, step, c.timers)
    suspend(d, step, yields=c.yields)


def suspend(d: Decision, step: Step, *, yields: bool = False) -> None:
    """Leave a step until something wakes it. Where nothing ever would, its attempt is lost instead, and another begins."""
    if yields or step.woken or d.state.paused or will_wake(d.state, step):
        d.emit(ev.StepSuspended(step.id, step.attempt, yields))
        note_left(d, node_of(step.id))
    else:
        lose(d, step)


def lose_attempt(d: Decision, c: commands.LoseAttempt) -> None:
    step = d.current(c)
    d.record(c.step, c.values)
    lose(d, step)


def lose(d: Decision, step: Step) -> None:
    """Take an attempt for lost: nothing that it says counts any more, and another may begin, up to so many in a row."""
    session = step.session
    assert session is not None
    d.emit(ev.AttemptLost(step.id, step.attempt, session))
    if step.losses >= MAX_LOST_ATTEMPTS:
        error = d.error(
            node_of(step.id),
            LOST,
            f"The process died in each of {step.losses} attempts of step {step.id}; it may be the step that kills it.",
        )
        fail_step(d, step, error)
    else:
        note_left(d, node_of(step.id))


def note_left(d: Decision, name: NodeName) -> None:
    """An attempt has left its step unfinished: that of an item may be what its map was stopping for."""
    if is_item(name) and d.state.maps[map_of(name)].stopping:
        d.touch(name)


def await_pools(d: Decision, c: commands.AwaitPools) -> None:
    d.current(c)
    d.emit(ev.PoolsAwaited(c.step, c.path, c.model, c.pools))


def judge_guards(d: Decision, c: commands.JudgeGuards) -> None:
    for verdict in c.verdicts:
        if verdict_key(verdict.step, verdict.target, verdict.guard) not in d.state.asked:
            continue  # another process judged, or a loop has made the question pointless
        allowed = verdict.allowed and verdict.error is None
        d.emit(ev.GuardJudged(verdict.step, verdict.target, verdict.guard, allowed, verdict.reason, verdict.above))
        d.touch(node_of(verdict.step))
        if verdict.error is not None and not d.state.phase:
            endings.begin_failing(d, verdict.error)


# --- Following: what happens by itself ---------------------------------------------------------------------------------


def follow(d: Decision) -> None:
    """Take the run as far as it goes by itself: loops, skips, joins, starts."""
    if d.state.awaits is not None and not d.state.phase:
        return  # nothing begins before it has its place
    while d.touched and not d.state.phase:
        name = next(iter(d.touched))
        del d.touched[name]
        _advance(d, name)
    _start(d)


def _advance(d: Decision, name: NodeName) -> None:
    """See what the latest about the node `name` means for it and for those after it."""
    if is_item(name):
        mapping.go_on(d, map_of(name))
        return
    denied = denied_failure(d.graph, d.state, name)
    if denied is not None:
        endings.begin_failing(d, denied)
        return
    for loop in d.graph.loops_from.get(name, ()):
        if loop_state(d.graph, d.state, loop) == "taken":
            _take(d, loop)
            return
    if name in d.graph.guarded:
        for edge, step in guards_after(d.graph, d.state, name):
            _ask(d, step.id, edge.target, edge.guard)
    todo = deque([name, *d.graph.successors[name]])
    while todo:
        node = todo.popleft()
        if node not in d.state.steps and _settle(d, node) == "skipped":
            todo.extend(d.graph.successors[node])


def _settle(d: Decision, node: NodeName) -> Standing:
    """Act on how `node`, which has no current step, stands."""
    standing, reason = judge(d.graph, d.state, node)
    if standing == "skipped":
        d.emit(ev.StepSkipped(next_step(d.state, node), reason))
        _explain_unmet(d, node)
    elif standing == "ready":
        _come_to(d, node)
        _call_losers_off(d, node)
    elif standing == "guard":
        _ask(d, next_step(d.state, node), None, d.graph.nodes[node].guard)
    else:
        _open_join(d, node)
    return standing


def _come_to(d: Decision, node: NodeName) -> None:
    if d.state.given and (id_ := next_step(d.state, node)) in d.state.given:
        d.emit(ev.StepInherited(id_, "completed", d.state.given[id_]))
        d.touch(node)
    else:
        d.ready[node] = None


def _ask(d: Decision, step: StepId, target: NodeName | None, guard: str | None) -> None:
    if guard is not None and verdict_key(step, target, guard) not in d.state.asked:
        d.emit(ev.GuardAsked(step, target, guard))


def _explain_unmet(d: Decision, node: NodeName) -> None:
    """A tolerant join that cannot be met because branches failed is a failure, not a way the run chose not to take."""
    if d.graph.nodes[node].join.mode not in ("any", "quorum"):
        return
    error = unhandled_failure(d.graph, d.state, node)
    if error is not None and not tolerated(d.graph, d.state, node):
        endings.begin_failing(d, error)


def _open_join(d: Decision, node: NodeName) -> None:
    timeout_s = d.graph.nodes[node].join.timeout_s
    if timeout_s is None or node in d.state.joins:
        return
    if tally_of(d.graph, d.state, node).undecided < len(d.graph.incoming[node]):
        d.emit(ev.JoinOpened(node, d.now_ms + int(timeout_s * 1000)))


def _call_losers_off(d: Decision, join: NodeName) -> None:
    """A join met early has no use for the branches that only lead to it."""
    mode = d.graph.nodes[join].join.mode
    if mode not in ("any", "quorum", "best_effort") and not any(edge.optional for edge in d.graph.incoming[join]):
        return
    losers = d.graph.losers(join)
    for name in d.graph.order if losers else ():
        if name not in losers:
            continue
        d.ready.pop(name, None)
        step = d.state.steps.get(name)
        if step is None:
            d.emit(ev.StepSkipped(next_step(d.state, name), f"{join!r} was met without it"))
        elif name in d.state.unfinished or step.parked:
            endings.call_off(d, step, f"{join!r} was met without it")


def _take(d: Decision, loop: Edge) -> None:
    state, body = d.state, d.graph.loop_body[loop.target]
    superseded: list[StepId] = []
    rearmed: list[NodeName] = []
    bygone: list[NodeName] = []
    for name in d.graph.order:
        if name not in body:
            continue
        d.ready.pop(name, None)
        step = state.steps.get(name)
        if step is not None:
            questions.withdraw_of_step(d, step.id, f"superseded by the loop back to {loop.target!r}")
            if step.maps:
                endings.call_items_off(d, step, f"superseded by the loop back to {loop.target!r}")
            superseded.append(step.id)
        elif name in state.joins or name in state.summoned or d.graph.nodes[name].guard is not None:
            rearmed.append(name)
        if step is None and name in state.previous:
            bygone.append(name)
    source = state.steps[loop.source].id
    d.emit(ev.LoopTaken(source, loop.target, tuple(superseded), tuple(rearmed), tuple(bygone)))
    d.touch(loop.target)


def _start(d: Decision) -> None:
    """Start what may start, as far as the session's slots reach; what is new and stays behind becomes known as ready."""
    state = d.state
    # A set has no order that a history could follow.
    places = {node_of(id_) for id_ in d.placed}
    placed = [name for name in state.unplaced if name in places] if places else []
    # Of many that wait for a slot only those are looked at that may have one, and one more, which may run into a limit.
    waiting = islice(state.startable, max(0, d.slots) + 1)
    for name in [*waiting, *placed, *d.ready]:
        step = state.steps.get(name)
        goes_on = name == COMPENSATE or (step is not None and step.cleans_up)
        if state.phase and not goes_on:
            continue
        of_map = is_item(name)
        new = (step is None or step.attempt == 0) and not of_map
        may = not state.paused and limits.allow_start(d, new=new)
        if state.phase and not goes_on:
            continue  # the limit that it has just run into makes the run fail
        id_ = step.id if step is not None else next_step(state, name)
        if step is not None:
            demand = step.demand
        else:
            demand = state.maps[map_of(name)].demand_of(name) if of_map else d.graph.demanding.get(name)
        if may and d.session is not None and (id_ in d.placed if demand is not None else d.slots > 0):
            d.slots -= demand is None  # a placed step has a slot of its own
            d.emit(ev.StepStarted(id_, (step.attempt if step is not None else 0) + 1, d.session))
        elif name in d.ready:
            d.emit(ev.StepReady(id_, demand))
    d.ready.clear()
