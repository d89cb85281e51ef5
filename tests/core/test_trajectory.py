"""The path of a run: what is read from histories, and what a trace never says."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import Graph
from holdfast.core.values.ids import is_item, node_of
from holdfast.core.values.payload import Payload, inline
from holdfast.core.views.status import status
from holdfast.core.views.trajectory import TraceType, shape, trace, trajectory
from tests.golden.record import HERE, fold, read

NAMES = sorted(file.name.removesuffix(".jsonl") for file in HERE.glob("*.jsonl"))


@pytest.mark.parametrize("name", NAMES)
def test_the_path_of_every_history_agrees_with_its_state(name: str) -> None:
    golden = read(name)
    state, path = fold(golden), trajectory(golden.events, Graph(golden.graphs[-1]))
    spent = state.budget.settled_nanousd + state.budget.in_doubt_nanousd
    assert (path.run, path.status, path.cost_nanousd) == (state.run, status(state), spent)
    begun = [each.event.step for each in golden.events if isinstance(each.event, ev.StepStarted)]
    assert [*path.nodes] == [node_of(step) for step in dict.fromkeys(begun) if not is_item(node_of(step))]
    edges = {(edge.source, edge.target) for graph in golden.graphs for edge in graph.edges}
    assert {(each.source, each.target) for each in path.transitions} <= edges


def test_every_node_but_the_first_was_come_to_by_an_edge() -> None:
    """Those aside that another graph, or another run, has brought about, and joins that start without any branch."""
    for name in NAMES:
        golden = read(name)
        if len(golden.graphs) > 1 or any(isinstance(each.event, ev.RunForked) for each in golden.events):
            continue
        graph = Graph(golden.graphs[-1])
        path = trajectory(golden.events, graph)
        come = {each.seq for each in path.transitions}
        lost = [visit.node for visit in path.visits if visit.seq not in come and graph.incoming.get(visit.node)]
        assert [node for node in lost if graph.nodes[node].join.mode != "best_effort"] == [], name


@pytest.mark.parametrize("name", NAMES)
def test_the_money_and_tokens_of_a_trace_are_those_of_the_run(name: str) -> None:
    golden = read(name)
    state, told = fold(golden), list(trace(golden.events))
    kept = [each for each in told if each.event_type == "checkpoint"]
    settled = sum(isinstance(each.event, ev.ModelCallSettled) for each in golden.events)
    assert sum(bool(each.token_usage) for each in kept) == settled
    if all(not isinstance(each.event, ev.ModelCallInDoubt | ev.EffectInDoubt) for each in golden.events):
        assert sum(each.cost_nanousd or 0 for each in kept) == state.budget.settled_nanousd
    assert all((each.latency_ms or 0) >= 0 for each in told)


def test_all_nine_types_come_up() -> None:
    seen = {each.event_type for name in NAMES for each in trace(read(name).events, Graph(read(name).graphs[-1]))}
    assert seen == set(get_args(TraceType))


def test_a_loop_is_gone_by_its_own_edge() -> None:
    golden = read("loop")
    path = trajectory(golden.events, Graph(golden.graphs[-1]))
    loops = {(edge.source, edge.target) for edge in golden.graphs[-1].edges if edge.max_visits is not None}
    back = [each.event for each in golden.events if isinstance(each.event, ev.LoopTaken)]
    assert back
    ways = [(each.source, each.target) for each in path.transitions]
    assert sum(way in loops for way in ways) == len(back)


def test_an_approval_is_sent_with_its_decision() -> None:
    path = trajectory(read("gate").events)
    assert path.approvals
    decided = [each for each in path.approvals if each.decision is not None]
    assert decided
    assert all(each.decided_seq > each.seq for each in decided)


PLANTED = inline("a planted secret")
DATA = ("input", "output", "data", "shown", "response", "request", "filled")


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_says_nothing_of_what_the_data_says(name: str) -> None:
    golden = read(name)
    planted = [
        msgspec.structs.replace(
            each,
            event=msgspec.structs.replace(
                each.event, **{field: PLANTED for field in DATA if isinstance(getattr(each.event, field, None), Payload)}
            ),
        )
        for each in golden.events
    ]
    assert any("planted" in str(ev.encode(each.event)) for each in planted)
    told = msgspec.json.encode(list(trace(planted, Graph(golden.graphs[-1]))))
    assert b"planted" not in told


def test_data_is_recognized_by_its_shape() -> None:
    assert shape(inline({"card": "4111", "name": "Ann"})) == {"kind": "object", "size_bytes": 28, "fields": ["card", "name"]}
    assert shape(inline([1, 2])) == {"kind": "array", "size_bytes": 5, "count": 2}
    assert [shape(inline(value))["kind"] for value in ("secret", True, None, 2, 0.5)] == [
        "string",
        "boolean",
        "null",
        "number",
        "number",
    ]
