"""Steps that demand something wait for a place, start nowhere else, and wait again where they have to start again."""

from __future__ import annotations

import pytest

from holdfast.core.facts.graph import Join
from holdfast.core.values.demand import Demand, variable_of
from holdfast.core.values.policies import RetryPolicy
from holdfast.core.values.scopes import PLACEMENT
from tests.core.game import OTHER, TRANSIENT, WORKER, Game, cmd, graph, kinds, node, problems

GPU = Demand(labels=("gpu",), pools={"OPENAI_RPS": 5})


def game(*, start: bool = True, **given: object) -> Game:
    return Game(graph(node("a", demand=GPU, **given), "a > b"), start=start)


def waits(game: Game) -> list[tuple[str, str, str | None, Demand | None]]:
    return [(wait.kind, wait.reason, wait.step, wait.demand) for wait in game.waits]


def test_a_step_with_a_demand_becomes_ready_and_waits_for_its_place() -> None:
    begun = game(start=False)
    assert kinds(begun.start()) == ["RunStarted", "StepReady"]
    assert begun.status == "waiting"
    assert waits(begun) == [("worker", "placement", "a#1", GPU)]
    assert begun.due_ms is None, "who places finds it by its place in line, not by a time"
    assert list(begun.state.unplaced) == ["a"]


def test_it_starts_where_it_was_placed_and_nowhere_else() -> None:
    begun = game()
    assert begun.tick() == []
    assert begun.tick(session=OTHER, placed=["b#1"]) == []
    assert kinds(begun.tick(placed=["a#1"], slots=0)) == ["StepStarted"], "its slot came with its place"
    assert begun.step("a").session == WORKER
    assert not begun.state.unplaced
    assert kinds(begun.complete("a")) == ["StepCompleted", "StepStarted"], "what demands nothing goes straight on"


def test_slots_of_placed_steps_are_not_taken_from_the_others() -> None:
    begun = Game(graph(node("a", demand=GPU), "b"), slots=0)
    assert kinds(begun.tick(placed=["a#1"], slots=1)) == ["StepStarted", "StepStarted"]


def test_placed_steps_start_in_the_order_in_which_they_became_ready() -> None:
    names = [f"n{number}" for number in (3, 1, 4, 0, 5, 9, 2, 6)]
    begun = Game(graph(*(node(name, demand=GPU) for name in names)))
    events = begun.tick(placed=[f"{name}#1" for name in names])
    assert [event.step for event in events] == [f"{name}#1" for name in begun.graph.order]


@pytest.mark.parametrize("how", ["lost", "yielded"])
def test_a_step_that_has_to_start_again_is_placed_again(how: str) -> None:
    begun = game()
    begun.tick(placed=["a#1"])
    if how == "lost":
        begun.tick(dead=frozenset({WORKER}), session=OTHER)
    else:
        begun.do(cmd.SuspendStep(*begun.at("a"), yields=True))
    assert waits(begun) == [("worker", "placement", "a#1", GPU)]
    assert kinds(begun.tick(session=OTHER, placed=["a#1"])) == ["StepStarted"]


def test_a_retry_is_placed_when_its_time_has_come() -> None:
    begun = game(retry=RetryPolicy(max_attempts=2))
    begun.tick(placed=["a#1"])
    begun.fail("a", TRANSIENT)
    assert not begun.state.unplaced
    begun.now_ms += 3_600_000
    assert kinds(begun.tick()) == ["StepReady"]
    assert waits(begun) == [("worker", "placement", "a#1", GPU)]


def test_who_is_paused_or_cancelled_waits_for_no_place() -> None:
    begun = game()
    begun.do(cmd.PauseRun())
    assert begun.tick(placed=["a#1"]) == []
    begun.do(cmd.ResumeRun())
    assert list(begun.state.unplaced) == ["a"]
    begun.do(cmd.CancelRun())
    assert begun.state.ended == "cancelled"
    assert not begun.state.unplaced


def test_a_run_stands_in_line_for_as_long_as_a_step_of_it_is_unplaced() -> None:
    begun = game(start=False)
    (waiter,) = begun.rows(begun.start()).waiters
    assert (waiter.scope, waiter.family, waiter.wanted) == (PLACEMENT, PLACEMENT, 1)
    assert begun.rows(begun.tick(placed=["a#1"])).waiters == ()


def test_a_demand_is_checked_when_the_workflow_is_made() -> None:
    wrong = Demand(labels=("a b",), tags=("",), cpu_m=-1, memory_mb=10**13, gpus=-2, pools={"p": 0, "q,": None}, priority=5000)
    found = problems(node("a", demand=wrong))
    for text in (
        "labels has 'a b'",
        "tags has ''",
        "cpu_m is -1",
        "memory_mb is",
        "gpus is -2",
        "pool 'p' it wants 0",
        "pools has 'q,'",
        "priority is 5000",
    ):
        assert any(text in problem for problem in found), text


def test_a_workflow_without_demands_is_the_same_as_before_there_were_any() -> None:
    assert b"demand" not in graph("a > b").encoded


def test_a_step_whose_join_timed_out_is_placed_too_when_it_is_taken_up_again() -> None:
    join = Join("quorum", 2, timeout_s=1)
    begun = Game(graph(node("c", demand=GPU, join=join), "a > c", "b > c", on_exhausted="dead_letter"))
    begun.complete("a")
    begun.tick(after_s=2)
    (gate,) = begun.state.gates
    assert "StepStarted" not in kinds(begun.do(cmd.DecideGate(gate, "retry")))
    assert list(begun.state.unplaced) == ["c"]


@pytest.mark.parametrize(
    ("pool", "variable"),
    [
        ("OPENAI_TPM", "OPENAI_TPM"),
        ("claude-haiku-4-5/requests", "CLAUDE_HAIKU_4_5_REQUESTS"),
        ("zone=eu", "ZONE_EU"),
        ("Lizenzen-größe", "LIZENZEN_GR_SSE"),
    ],
)
def test_a_pool_has_a_variable_whatever_its_name_is(pool: str, variable: str) -> None:
    assert variable_of(pool) == f"HOLDFAST_POOL_{variable}"
