"""The rule of a tick: what time, death and chance have made of a run since its last event.

Two ticks at once meet in the append: the loser reloads and finds nothing left. Never here: finding out which process is dead,
or what time it is.
"""

from __future__ import annotations

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import DerivedValue
from holdfast.core.people import changed_code, gates
from holdfast.core.rules import admission, calls, endings, limits, mapping, shortages, steps, waits
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.readiness import judge, next_step, stuck
from holdfast.core.values.ids import NodeName, node_of
from holdfast.core.values.policies import JOIN


def tick(d: Decision, c: commands.Tick) -> None:
    """Answer with whatever is due, lost or startable; with nothing when there is nothing."""
    if d.state.ended:
        # Money may outlive its run; an effect cannot.
        calls.lose_calls(d, c.dead)
        return
    for name in list(d.state.active):
        step = d.state.steps[name]
        if step.session in c.dead:
            steps.lose(d, step)
    if c.dead:
        calls.lose_calls(d, c.dead)
    endings.end_overdue_cleanups(d)
    admission.attend(d, c.headroom)
    waits.fire_due(d)
    gates.attend_due(d)
    limits.attend_due(d)
    shortages.reopen(d, c.headroom)
    for name, due_at_ms in list(d.state.joins.items()):
        if due_at_ms is None or due_at_ms > d.now_ms or name in d.state.steps or d.state.phase:
            continue
        if judge(d.graph, d.state, name).standing == "waiting":  # not for its guard: then it has been met in time
            _time_join_out(d, name)
    _find_startable(d)  # only now: what time has just ended is not tried again
    if d.state.maps:
        mapping.attend(d)
    _touch_what_moved(d)
    if c.loaded is not None:
        steps.follow(d)  # what time has just brought may be the first thing that needs the code
        changed_code.ask(d, c.loaded)


def _find_startable(d: Decision) -> None:
    """Have those steps start that are to be tried again by now, and those that nothing would ever wake."""
    for name in d.state.timed():
        step = d.state.steps[name]
        if step.status == "retrying" and step.retry_at_ms is not None and step.retry_at_ms <= d.now_ms:
            d.ready[name] = None
    for step in stuck(d.state):
        d.ready[node_of(step.id)] = None


class _Moved(DerivedValue):
    """The changes since the last tick. Each rule follows its own changes; a tick makes sure, and goes through the whole of a
    state that has just been loaded."""


def _touch_what_moved(d: Decision) -> None:
    state = d.state
    moved = state.derived(_Moved).moved
    begins = () if state.steps else d.graph.entries
    names = {*moved, *state.summoned, *state.joins, *begins}
    moved.clear()
    for name in sorted(names & d.graph.place.keys(), key=d.graph.place.__getitem__):
        d.touch(name)


def _time_join_out(d: Decision, node: NodeName) -> None:
    d.emit(ev.JoinTimedOut(node))
    if d.graph.nodes[node].join.mode == "best_effort":
        return
    step = next_step(d.state, node)
    d.emit(ev.StepReady(step, d.graph.demanding.get(node)))
    timeout_s = d.graph.nodes[node].join.timeout_s
    steps.fail_step(
        d, d.state.steps[node], d.error(node, JOIN, f"The branches before {node!r} did not arrive in {timeout_s} s.")
    )
