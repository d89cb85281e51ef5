"""The spans of runs: derived again, they are the same; at rest nothing is missing; when a run has ended nothing is open."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given

from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import State
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import Path, Seq
from holdfast.core.values.payload import NULL
from holdfast.core.values.trace import call_span, child_span
from holdfast.core.views.span_parts import Span
from holdfast.core.views.spans import Spans, spans
from tests.core.game import RUN, Game, cmd, graph, node
from tests.core.test_properties import GRAPHS, SEEDS, Chaos, Crew, quick, some_graph
from tests.golden.record import HERE, fold, read

NAMES = sorted(file.name.removesuffix(".jsonl") for file in HERE.glob("*.jsonl"))
CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

FOUR_DAYS_MS = 4 * 24 * 3_600_000
CALLS = ("model_call", "tool_call", "outcome")


def history(game: Game) -> list[ev.Recorded]:
    return [
        ev.Recorded(Seq(number), at_ms, event)
        for number, (event, at_ms) in enumerate(zip(game.events(), game.times, strict=True), 1)
    ]


def derived_in_pieces(events: Sequence[ev.Recorded], pick: random.Random) -> list[Span]:
    """As a process derives them that is killed again and again: each begins anew with what was before."""
    found: list[Span] = []
    done = 0
    while done < len(events):
        until = min(len(events), done + pick.randint(1, 1 + len(events) // 3))
        gathered = Spans()
        for recorded in events[:done]:
            gathered.add(recorded)
        for recorded in events[done:until]:
            found += gathered.add(recorded)
        done = until
    return found


def check(events: Sequence[ev.Recorded], state: State, seed: int = 0) -> list[Span]:
    whole = spans(events)
    assert derived_in_pieces(events, random.Random(seed)) == whole
    assert [id_ for id_, count in Counter(span.span_id for span in whole).items() if count > 1] == []
    gathered, known = Spans(), {""}
    parents: set[str] = set()
    for recorded in events:
        for span in gathered.add(recorded):
            known.add(span.span_id)
            parents.add(span.parent_id)
        if gathered.is_at_rest:
            assert parents - known - {gathered.context.span_id} == set(), recorded
    if state.ended:
        assert gathered.is_at_rest
        assert gathered.open_count == 0
        last = [span for span in whole if span.kind == "run"][-1]
        assert last.outcome == state.ended
    if not gathered.open_count:
        assert sum(span.facts.get("cost_nanousd", 0) for span in whole if span.kind in CALLS) == state.budget.settled_nanousd
    assert {span.trace_id for span in whole} <= {gathered.context.trace_id}
    return whole


@pytest.mark.parametrize("name", NAMES)
def test_recorded_histories_give_whole_traces(name: str) -> None:
    golden = read(name)
    check(golden.events, fold(golden))


@pytest.mark.parametrize("seed", range(8))
def test_spans_are_the_same_wherever_a_history_is_cut(seed: int) -> None:
    for number in range(seed * 8, seed * 8 + 8):
        crew = Crew(some_graph(1 + number % 7, number), number)
        crew.play()
        check(history(crew.game), crew.game.state, number)
        if (fork := crew.fork()) is not None:
            fork.play()
            check(history(fork.game), fork.game.state, number)


@quick(60)
@given(GRAPHS, SEEDS)
def test_spans_of_any_history_are_the_same_again(graph_: Graph, seed: int) -> None:
    chaos = Chaos(graph_, random.Random(seed))
    chaos.play(60)
    check(history(chaos.game), chaos.game.state, seed)


def only(found: list[Span], kind: str) -> Span:
    (span,) = [span for span in found if span.kind == kind]
    return span


def test_calls_carry_what_they_cost_and_so_do_all_spans_around_them() -> None:
    game = Game(graph("a"), limit=1000)
    game.settle(game.held("a", 100, 50, model="m-1"), 70, tokens=(30, 5))
    game.did(game.intended("a", path="1", nanousd=9))
    game.complete("a")
    found = spans(history(game))
    model, tool, attempt = only(found, "model_call"), only(found, "tool_call"), only(found, "attempt")
    assert (model.name, model.facts["cost_nanousd"], model.facts["input_tokens"]) == ("m-1", 70, 30)
    assert (tool.name, tool.facts["cost_nanousd"]) == ("send", 9)
    assert model.parent_id == tool.parent_id == attempt.span_id
    assert model.span_id == call_span(model.facts["call"])
    assert only(found, "step").facts["cost_nanousd"] == only(found, "run").facts["run_cost_nanousd"] == 79


def test_an_outcome_that_comes_late_is_a_span_with_a_link_to_its_call() -> None:
    game = Game(graph("a"), limit=1000)
    call = game.held("a", 100)
    game.doubt_money(call)
    game.fail("a")
    game.reconcile(call, 40)
    found = spans(history(game))
    first, late = only(found, "model_call"), only(found, "outcome")
    assert (first.outcome, first.facts["in_doubt_nanousd"]) == ("in_doubt", 100)
    assert late.facts["cost_nanousd"] == 40
    assert [id_ for _, id_ in late.links] == [first.span_id]


def test_a_child_is_below_the_span_that_requested_it() -> None:
    game = Game(graph("a"), by=Actor("ann", traceparent=CALLER))
    name = game.child("a")
    game.suspend("a")
    asked = only(spans(history(game)), "child")
    assert (asked.span_id, asked.took_ms) == (child_span(RUN, name), 0)
    parent = ev.Parent(RUN, game.step("a").id, Path("0"), RUN, 1)
    child = Game(graph("b"), start=False)
    begin = cmd.StartRun(name, "acme", NULL, "h", None, by=Actor(traceparent=game.state.traceparent), parent=parent)
    child.do(begin)
    child.complete("b")
    run = only(spans(history(child)), "run")
    assert (run.trace_id, run.parent_id) == (asked.trace_id, asked.span_id)


def test_what_a_person_is_asked_is_a_wait_with_the_decision() -> None:
    game = Game(graph(node("a", "human_gate")))
    game.human_gate("a")
    game.now_ms += 5000
    game.decide("approve")
    wait = only(spans(history(game)), "wait")
    assert (wait.facts["wait"], wait.outcome, wait.facts["by"], wait.took_ms) == ("person", "approve", "ann", 5000)
