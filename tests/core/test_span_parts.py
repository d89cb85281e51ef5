"""Runs and steps are cut into parts where they rest; each attempt, item and remote job is a span of its own."""

from __future__ import annotations

from holdfast.core.rules.forking import ForkRequest, forked
from holdfast.core.values.actor import Actor
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import RunId, StepId
from holdfast.core.values.payload import NULL
from holdfast.core.values.policies import RetryPolicy
from holdfast.core.values.trace import attempt_span
from holdfast.core.views.spans import spans
from tests.core.game import RUN, TRANSIENT, Game, cmd, graph, node
from tests.core.test_spans import CALLER, FOUR_DAYS_MS, history, only
from tests.golden.record import read


def test_a_wait_of_four_days_is_one_span_between_two_parts_of_its_run() -> None:
    game = Game(graph("a"), by=Actor("ann", traceparent=CALLER))
    game.await_signal("a", "go")
    game.suspend("a")
    at_rest = spans(history(game))
    assert [span.kind for span in at_rest] == ["attempt", "step", "run"], "nothing is missing while it waits"
    game.now_ms += FOUR_DAYS_MS
    game.signal("go")
    game.complete("a")
    attempt, step, run, wait, *rest = spans(history(game))
    assert (wait.kind, wait.name, wait.took_ms, wait.outcome) == ("wait", "go", FOUR_DAYS_MS, "delivered")
    assert wait.facts["wait"] == "signal"
    assert (run.parent_id, run.outcome) == (CALLER.split("-")[2], "waiting")
    assert (step.parent_id, attempt.parent_id, wait.parent_id) == (run.span_id, step.span_id, attempt.span_id)
    second, part, last = rest
    assert {span.trace_id for span in (run, last)} == {CALLER.split("-")[1]}
    assert (last.kind, last.outcome, last.parent_id) == ("run", "completed", run.span_id)
    assert [id_ for _, id_ in last.links] == [run.span_id]
    assert [id_ for _, id_ in part.links] == [step.span_id, wait.span_id]
    assert second.parent_id == part.span_id
    assert last.facts["run_ms"] == FOUR_DAYS_MS > last.took_ms


def test_attempts_that_are_retried_or_lost_are_spans_of_one_step() -> None:
    game = Game(graph(node("a", retry=RetryPolicy(max_attempts=3, initial_s=1, jitter=0))))
    game.fail("a", TRANSIENT)
    game.tick(2)
    game.lose()
    game.complete("a")
    found = spans(history(game))
    attempts = [span for span in found if span.kind == "attempt"]
    step = only(found, "step")
    assert [span.outcome for span in attempts] == ["failed", "lost", "completed"]
    assert {span.parent_id for span in attempts} == {step.span_id}
    assert [span.span_id for span in attempts] == [attempt_span(RUN, step.facts["step"], n) for n in (1, 2, 3)]
    assert attempts[0].error == TRANSIENT.error_class
    retry = only(found, "wait")
    assert (retry.facts["wait"], retry.took_ms) == ("retry", 2000)


def test_a_step_that_is_tried_again_much_later_rests_meanwhile() -> None:
    hour = RetryPolicy(max_attempts=3, initial_s=3600, max_s=3600, jitter=0)
    game = Game(graph(node("a", retry=hour)))
    game.fail("a", TRANSIENT)
    assert [span.kind for span in spans(history(game))] == ["attempt", "step", "run"]


def test_a_fork_has_a_link_to_its_original_run() -> None:
    first = Game(graph("a"), by=Actor("ann", traceparent=CALLER))
    first.complete("a")
    found = forked(first.graph, history(first), ForkRequest(StepId("a#1")))
    fork = Game(first.graph, start=False)
    fork.do(cmd.StartRun(RunId("0190-fork"), "acme", NULL, "fork", None, inherits=found.events))
    fork.complete("a")
    run = only(spans(history(fork)), "run")
    original = only(spans(history(first)), "run")
    assert run.links == ((original.trace_id, original.span_id),)
    assert run.trace_id != original.trace_id


def test_the_work_of_a_connected_worker_is_a_span_in_its_attempt() -> None:
    game = Game(graph(node("a", demand=Demand(task="resize"), retry=RetryPolicy(max_attempts=2))))
    game.tick(placed=["a#1"])
    game.fail("a", TRANSIENT)
    game.now_ms += 10_000
    game.tick(placed=["a#1"])
    game.now_ms += 5_000
    game.complete("a")
    found = spans(history(game))
    first, second = [span for span in found if span.kind == "remote_job"]
    attempts = [span for span in found if span.kind == "attempt"]
    assert [first.parent_id, second.parent_id] == [span.span_id for span in attempts]
    assert (first.name, first.error, second.outcome, second.took_ms) == ("resize", TRANSIENT.error_class, "completed", 5_000)
    assert [span.outcome for span in found if span.kind == "placement"] == ["placed"]


def test_items_of_a_map_are_spans_below_its_request() -> None:
    found = spans(read("map").events)
    requests = {span.span_id for span in found if span.kind == "map"}
    items = [span for span in found if span.kind == "map_item"]
    assert items
    assert {span.parent_id for span in items} <= requests
    assert not [span for span in found if span.kind == "step" and "[" in span.name]
