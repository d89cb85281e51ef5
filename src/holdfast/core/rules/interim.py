"""The interim report of a run that a limit stops: what is done, by node, with its cost, what is under way and what comes next.

Who is asked to extend a limit decides from this. Never here: an output (the run's own view has them).
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import State
from holdfast.core.values.ids import NodeName, root_of
from holdfast.core.values.money import usd

MAX_NODES: Final = 20
"""Of each kind that are named; of the rest the report says how many there are."""


def report(graph: Graph, state: State) -> dict[str, Any]:
    """`done`: nodes with how often they were begun and what their calls have cost so far; `under_way`: those with an unfinished
    step; `next`: those after these that have not begun. In the graph's order, each with at most MAX_NODES entries."""
    under_way = list(dict.fromkeys(root_of(name) for name in state.unfinished))
    done = [name for name in graph.order if name in state.steps and name not in under_way]
    ahead = dict.fromkeys(after for name in under_way if name in graph.nodes for after in graph.successors[name])
    to_come = [name for name in ahead if name not in state.steps]
    found = {"done": done, "under_way": under_way, "next": to_come}
    shown: dict[str, Any] = {
        "done": [_node(state, name) for name in done[:MAX_NODES]],
        "under_way": [_node(state, name) for name in under_way[:MAX_NODES]],
        "next": to_come[:MAX_NODES],
    }
    more = {what: len(names) - MAX_NODES for what, names in found.items() if len(names) > MAX_NODES}
    return shown | ({"more": more} if more else {})


def _node(state: State, name: NodeName) -> dict[str, Any]:
    step = state.steps.get(name)
    return {
        "node": name,
        "status": step.status if step is not None else "active",
        "visits": state.visits.get(name, 0),
        "cost_usd": usd(state.cost_nanousd_by_node.get(name, 0)),
    }
