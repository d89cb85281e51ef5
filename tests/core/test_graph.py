"""A workflow that cannot be run is refused with every problem at once; one that can has an identity of its own."""

from __future__ import annotations

import math
import time

import msgspec
import pytest

from holdfast.core.facts.graph import Definition, Graph, Join, Node
from holdfast.core.values.ids import NodeName
from holdfast.core.values.policies import RetryPolicy
from tests.core.game import definition, edge, graph, loop, node, problems


def only(*parts: object, **more: object) -> str:
    (problem,) = problems(*parts, **more)
    return problem


# --- What cannot be run -----------------------------------------------------------------------------------------------


def test_every_problem_is_found_at_once() -> None:
    found = problems(node("a", timeout_s=0), node("b", join=Join("quorum")), edge("a", "b"), limits={"max_steps": 0})
    assert len(found) == 3
    assert any("'a'" in line for line in found)
    assert any("'b'" in line for line in found)


def test_a_workflow_without_nodes_says_how_to_add_one() -> None:
    assert "@wf.node" in only(Definition("flow", 1, (), ()))


def test_a_workflow_has_a_largest_size() -> None:
    many = tuple(Node(NodeName(f"n{i}"), "task") for i in range(10_001))
    assert "10001 nodes; at most 10000" in only(Definition("flow", 1, many, ()))


@pytest.mark.parametrize("name", ["", "1a", "a b", "a:b", "a#1", "a>b", "!compensate", "ä", "a" * 121])
def test_a_name_that_could_be_taken_for_something_else_is_refused(name: str) -> None:
    assert only(node(name)).startswith(f"node {name!r}: a name is a letter")


def test_two_nodes_of_one_name_are_refused() -> None:
    assert "node 'a' is defined twice; give" in only(Definition("flow", 1, (node("a"), node("a")), ()))


@pytest.mark.parametrize(("source", "target", "missing"), [("a", "x", "x"), ("x", "a", "x")])
def test_an_edge_to_nowhere_names_what_is_missing(source: str, target: str, missing: str) -> None:
    found = only(Definition("flow", 1, (node("a"),), (edge(source, target),)))
    assert f"there is no node {missing!r}; add it with @wf.node({missing!r})" in found


def test_an_edge_declared_twice_is_refused() -> None:
    assert "edge 'a' → 'b' is declared twice; remove one" in only(edge("a", "b"), edge("a", "b"))


def test_edges_for_different_decisions_may_lead_to_the_same_node() -> None:
    graph(node("a", "branch"), edge("a", "b", when="x"), edge("a", "b", when="y"), edge("a", "b", on="error"))


def test_a_decision_of_a_node_that_decides_nothing_is_refused() -> None:
    found = only(edge("a", "b", when="big"))
    assert "'a' is a task and decides nothing" in found
    assert "@wf.guard" in found


@pytest.mark.parametrize(("kind", "when"), [("human_gate", "maybe"), ("check", "approve")])
def test_a_decision_that_is_never_made_is_refused(kind: str, when: str) -> None:
    assert f"when={when!r} is never taken" in only(node("a", kind), edge("a", "b", when=when))


def test_an_error_edge_has_no_decision() -> None:
    assert "remove when='x'" in only(node("a", "branch"), edge("a", "b", when="x", on="error"))


@pytest.mark.parametrize("visits", [1, 0, -1, 1_000_001])
def test_a_loop_needs_a_bound_that_lets_it_loop(visits: int) -> None:
    assert f"max_visits is {visits}; use 2 to 1000000" in only("a > b", loop("b", "a", visits))


def test_a_loop_does_not_follow_failures() -> None:
    assert "use retry= for failures" in only("a > b", loop("b", "a", on="error"))


def test_a_person_must_be_able_to_leave_a_loop() -> None:
    assert "when='retry' or when='reject'" in only("a > b", node("b", "human_gate"), loop("b", "a"))
    graph("a > b", node("b", "human_gate"), loop("b", "a", when="reject"))


def test_a_loop_must_lead_back() -> None:
    assert "does not lead back: 'a' does not come after 'c'" in only("a > b > c", loop("a", "c"))


def test_a_node_may_loop_to_itself() -> None:
    assert graph(loop("a", "a")).loop_body == {"a": {"a"}}


def test_a_cycle_names_its_nodes_and_what_is_only_behind_it() -> None:
    around, behind = problems("a > b > c > b", "c > d")
    assert "nodes 'b', 'c' form a cycle; declare the edge that leads back with wf.loop" in around
    assert "nodes 'd' are reachable only through that cycle" in behind


def test_a_node_that_nothing_connects_is_refused() -> None:
    assert "node 'c' is unreachable" in only("a > b", node("c"))


def test_independent_nodes_without_any_edge_all_begin_the_run() -> None:
    assert graph("a", "b").entries == ("a", "b")


def test_a_quorum_needs_a_number_that_can_be_met() -> None:
    assert "at least 1" in only("a > c", "b > c", node("c", join=Join("quorum")))
    assert "a quorum of 3 can never be met by 2" in only("a > c", "b > c", node("c", join=Join("quorum", 3)))


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_a_time_without_meaning_is_refused(value: float) -> None:
    assert "join's time-out must be above zero" in only("a > b", node("b", join=Join(timeout_s=value)))
    assert "node 'a': timeout_s must be above zero" in only(node("a", timeout_s=value))
    assert "max_active_s is" in only("a", limits={"max_active_s": value})
    assert "max_lifespan_s is" in only("a", limits={"max_lifespan_s": value})


def test_a_limit_that_lets_nothing_happen_is_refused() -> None:
    assert "max_steps is 0" in only("a", limits={"max_steps": 0})
    assert "max_tokens is 0" in only("a", limits={"max_tokens": 0})
    assert "snapshot_every is 0" in only("a", snapshot_every=0)
    assert "cost_nanousd is -1" in only("a", limits={"cost_nanousd": -1})


def test_a_limit_of_no_money_at_all_is_a_limit() -> None:
    assert graph("a", limits={"cost_nanousd": 0}).definition.limits.cost_nanousd == 0


@pytest.mark.parametrize(
    "policy",
    [
        RetryPolicy(max_attempts=0),
        RetryPolicy(rate_limit_attempts=0),
        RetryPolicy(initial_s=-1),
        RetryPolicy(initial_s=2, max_s=1),
        RetryPolicy(initial_s=math.nan),
        RetryPolicy(max_s=math.inf),
        RetryPolicy(jitter=2),
        RetryPolicy(jitter=math.nan),
    ],
)
def test_a_retry_policy_without_meaning_names_its_node(policy: RetryPolicy) -> None:
    assert only(node("a", retry=policy)).startswith("node 'a': its retry policy needs")


@pytest.mark.parametrize("kind", ["human_gate", "branch"])
def test_what_decides_cannot_go_on_without_a_decision(kind: str) -> None:
    """A rejected gate that `continues` would look just like an approved one."""
    assert "drop continue_on_error" in only(node("a", kind, continue_on_error=True), edge("a", "b"))


# --- What can ---------------------------------------------------------------------------------------------------------


def test_the_order_puts_every_node_after_those_before_it() -> None:
    order = graph("a > d", "a > b > c > d").order
    assert order == ("a", "b", "c", "d")


def test_a_loops_body_is_all_that_follows_its_target() -> None:
    flow = graph("start > draft > review > publish", "draft > log", loop("review", "draft"))
    assert flow.loop_body == {"draft": {"draft", "review", "publish", "log"}}


def test_losers_are_those_of_no_use_to_anything_else() -> None:
    flow = graph("root > a > b > join", "root > c > join", "c > audit", node("join", join="any"))
    assert flow.losers(NodeName("join")) == {"a", "b"}


def test_the_hash_is_of_what_the_workflow_means() -> None:
    one = graph("a > b", node("a", options={"model": "m", "tools": ["x"]}))
    same = graph("a > b", node("a", options={"tools": ["x"], "model": "m"}))
    assert one.hash == same.hash
    assert one.hash != graph("a > b", node("a", options={"model": "n", "tools": ["x"]})).hash
    assert one.hash != graph("a > b", node("a", options={"model": "m", "tools": ["x"]}), limits={"max_steps": 9}).hash


def test_the_encoded_form_is_the_same_workflow_again() -> None:
    """Another process knows a graph only as it was stored: 3 has become 3.0 there."""
    flow = graph("a > b", node("b", join=Join("any", timeout_s=3)), loop("b", "a"), on_limit="fail")
    assert Graph(msgspec.json.decode(flow.encoded, type=Definition)).hash == flow.hash


def test_ten_thousand_nodes_compile_in_a_moment() -> None:
    ways = [f"root > n{i} > end" for i in range(9_998)]
    wide = definition(*ways)
    began = time.process_time()
    Graph(wide)
    assert time.process_time() - began < 2
