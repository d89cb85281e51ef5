"""The consequences of each decision that an open gate takes, before one is taken.

Never here: taking a decision (gates), words for people, the call that a gate asks about.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE, GATE_DECISIONS, Graph
from holdfast.core.facts.state import TOOL_APPROVAL, State
from holdfast.core.people.gates import offered
from holdfast.core.rules import limits
from holdfast.core.rules.questions import CODE_CHANGED, COMPENSATION_FAILED, EFFECT_UNKNOWN, EXHAUSTED, VERSION_HELD
from holdfast.core.rules.readiness import chosen, may_loop, tolerated
from holdfast.core.values.ids import NodeName, StepId, node_of

FollowUp: TypeAlias = Literal[
    "counted",
    "asked_again",
    "call_made",
    "call_not_made",
    "answered",
    "step_goes_on",
    "step_retried",
    "step_restarted",
    "step_fails",
    "run_fails",
    "limit_raised",
    "version_released",
    "run_ends",
]
"""- `counted`: one approval of several; the gate stays open
- `asked_again`: the gate shows the changes to another person
- `call_made`: the tool is called, or called again under its key
- `call_not_made`: the step gets an error of class `rejected`, or `tool` for a call that did not happen
- `answered`: the data stands for the tool's response; nothing is called
- `step_goes_on`: the step has the decision, and the run goes on
- `step_retried`: the step is tried again
- `step_restarted`: the step begins again
- `step_fails`: the step fails, and the run goes on by an edge for errors or without it
- `run_fails`: the run fails, and undoes what it can
- `limit_raised`: the run goes on under the limit that the data names
- `version_released`: the run begins, and the others of its version
- `run_ends`: the run ends as if the effect had been undone"""


class Consequence(msgspec.Struct, frozen=True):
    """The consequence of a decision: what follows, the nodes that the run goes on to, and how many persons must still approve
    after this one."""

    decision: str
    follows: FollowUp
    nodes: tuple[NodeName, ...] = ()
    more: int = 0


def consequences(graph: Graph, state: State, opened: ev.GateOpened) -> list[Consequence]:
    """Return the consequence of each decision that an open gate takes, in the order in which it names them."""
    return [_consequence(graph, state, opened, decision) for decision in offered(state, opened)]


def _consequence(graph: Graph, state: State, opened: ev.GateOpened, decision: str) -> Consequence:
    more = opened.quorum - 1 - len(state.gates[opened.gate].approvals) if decision == "approve" else 0
    if more > 0:
        return Consequence(decision, "counted", more=more)
    if decision == "edit" and (opened.four_eyes or opened.quorum > 1):
        return Consequence(decision, "asked_again")
    if opened.completes_step and opened.step is not None:
        return _of_node(graph, state, node_of(opened.step), decision)
    if opened.reason in limits.LIMIT_OF:
        return Consequence(decision, "limit_raised" if decision == "answer" else "run_fails")
    if decision == "reject" and opened.reason == CODE_CHANGED:
        return _of_failure(graph, state, node_of(StepId(opened.subject or "")), decision)
    return Consequence(decision, _BY_REASON.get(opened.reason, {}).get(decision, "step_goes_on"))


_BY_REASON: dict[str, dict[str, FollowUp]] = {
    TOOL_APPROVAL: {"approve": "call_made", "edit": "call_made", "reject": "call_not_made", "answer": "answered"},
    EFFECT_UNKNOWN: {"answer": "answered", "reject": "call_not_made", "retry": "call_made"},
    EXHAUSTED: {"retry": "step_retried", "answer": "step_goes_on", "reject": "run_fails"},
    CODE_CHANGED: {"retry": "step_retried", "approve": "step_goes_on", "answer": "step_restarted"},
    VERSION_HELD: {"approve": "version_released", "reject": "run_fails"},
    COMPENSATION_FAILED: {"retry": "call_made", "answer": "run_ends"},
}


def _of_node(graph: Graph, state: State, name: NodeName, decision: str) -> Consequence:
    """Return the consequence for a node that asks: the edges that are taken, guards aside."""
    node = graph.nodes.get(name)
    if node is None:
        return Consequence(decision, "step_goes_on")
    edges = [edge.target for edge in graph.outgoing[name] if edge.on == "success" and chosen(graph, edge, (decision,))]
    loops = [loop for loop in graph.loops_from.get(name, ()) if chosen(graph, loop, (decision,))]
    back = [loop.target for loop in loops if may_loop(state, loop)]
    if back or edges:
        return Consequence(decision, "step_goes_on", tuple(back or edges))
    if loops or decision in ("reject", "retry") or decision not in GATE_DECISIONS:
        return _of_failure(graph, state, name, decision)
    return Consequence(decision, "step_goes_on")


def _of_failure(graph: Graph, state: State, name: NodeName, decision: str) -> Consequence:
    """Return the consequence where a step fails for good."""
    if name == COMPENSATE or name not in graph.nodes:
        return Consequence(decision, "run_fails")
    errors = tuple(edge.target for edge in graph.outgoing[name] if edge.on == "error")
    goes_on = errors or graph.nodes[name].continue_on_error or tolerated(graph, state, name)
    return Consequence(decision, "step_fails" if goes_on else "run_fails", errors)
