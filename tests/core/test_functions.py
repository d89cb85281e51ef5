"""Functions that a flow calls as steps: recorded once, tried again as their own policy says, and then as nobody else's."""

from __future__ import annotations

import pytest

from holdfast.core.facts.state import FUNCTION
from holdfast.core.values import policies
from holdfast.core.values.payload import inline
from holdfast.core.values.policies import DEFAULT_RETRY, RetryPolicy
from holdfast.core.views.status import waiting_for
from holdfast.errors import NonDeterministicStep
from tests.core.game import TRANSIENT, Game, Path, cmd, error, ev, graph, kinds, node

TWICE = RetryPolicy(max_attempts=2, initial_s=10, jitter=0)
LIMITED = error(policies.RATE_LIMIT, retryable=True)


def returned(game: Game, result: object = 1, path: str = "0", args: str = "h") -> list[ev.Event]:
    value = cmd.Value(Path(path), FUNCTION, None, inline(result), "price", args)
    return game.do(cmd.RecordValues(*game.at("a"), (value,)))


def failed(game: Game, problem: policies.ErrorRecord = TRANSIENT, retry: RetryPolicy = TWICE) -> list[ev.Event]:
    return game.do(cmd.FailFunction(*game.at("a"), Path("0"), "price", "h", problem, retry))


def test_what_it_returned_stands_at_its_place_only() -> None:
    game = Game(graph("a"))
    assert kinds(returned(game, {"net": 3})) == ["ValueRecorded"]
    op = game.op("a")
    assert (op.kind, op.name, op.args_hash, op.status, op.outcome.value()) == ("step", "price", "h", "done", {"net": 3})
    for other in (lambda: returned(game, args="other"), lambda: game.intend("a"), lambda: game.sleep("a", 1)):
        with pytest.raises(NonDeterministicStep, match="the journal holds step 'price'"):
            other()


def test_one_that_failed_waits_without_a_slot_and_comes_again_when_its_time_has_come() -> None:
    game = Game(graph("a"))
    assert kinds(failed(game)) == ["FunctionFailed", "RetryScheduled"]
    game.suspend("a")
    assert (game.status, game.active, game.due_ms) == ("waiting", [], 10_001)
    (wait,) = waiting_for(game.state)
    assert (wait.kind, wait.reason, wait.about, wait.step) == ("retry", policies.TIMEOUT, "price", "a#1")
    assert game.tick(10) == []
    assert kinds(game.tick(0.001)) == ["OperationReopened", "StepStarted"]
    assert game.op("a").status == "reopened"
    returned(game)
    assert (game.op("a").status, game.op("a").error) == ("done", None)


def test_what_was_noted_before_one_that_fails_is_recorded_before_it() -> None:
    game = Game(graph("a"))
    noted = cmd.Value(Path("0"), "now", 1_000)
    failing = cmd.FailFunction(*game.at("a"), Path("1"), "price", "h", TRANSIENT, TWICE, values=(noted,))
    assert kinds(game.do(failing)) == ["ValueRecorded", "FunctionFailed", "RetryScheduled"]
    assert game.op("a", "0").outcome.value() == 1_000


def test_after_its_last_try_it_has_failed_and_a_late_word_of_it_changes_nothing() -> None:
    game = Game(graph("a"))
    failed(game)
    game.suspend("a")
    game.tick(11)
    assert kinds(failed(game)) == ["FunctionFailed"]
    assert (game.op("a").status, game.op("a").error) == ("failed", TRANSIENT)
    assert failed(game) == []
    assert game.do(cmd.RetryOperation(*game.at("a"), Path("0"), TWICE)) == []


def test_rate_limits_are_counted_apart() -> None:
    game = Game(graph("a"))
    policy = RetryPolicy(max_attempts=2, rate_limit_attempts=3, initial_s=1, jitter=0)
    seen = [failed(game, problem, policy) for problem in (LIMITED, LIMITED) if game.tick(11) is not None]
    assert [kinds(each)[-1] for each in seen] == ["RetryScheduled", "RetryScheduled"]
    game.tick(11)
    assert kinds(failed(game, TRANSIENT, policy))[-1] == "RetryScheduled", "the first failure of another kind"
    game.tick(11)
    assert kinds(failed(game, LIMITED, policy)) == ["FunctionFailed"]


@pytest.mark.parametrize(("retry", "again"), [(DEFAULT_RETRY, False), (RetryPolicy(max_attempts=2, initial_s=1), True)])
def test_only_a_nodes_own_policy_retries_a_function_that_used_up_its_policy(retry: RetryPolicy, again: bool) -> None:
    game = Game(graph(node("a", retry=retry)))
    failed(game, retry=RetryPolicy(max_attempts=1))
    events = game.do(cmd.FailAttempt(*game.at("a"), TRANSIENT, Path("0"), spent=True))
    assert kinds(events)[0] == ("AttemptFailed" if again else "StepFailed")
    if again:
        game.tick(2)
        assert kinds(failed(game)) == ["FunctionFailed", "RetryScheduled"], "its own policy begins anew"


def test_a_person_who_takes_up_the_run_gives_it_all_its_tries_again() -> None:
    game = Game(graph("a"))
    failed(game)
    game.tick(11)
    failed(game)
    game.do(cmd.FailAttempt(*game.at("a"), TRANSIENT, Path("0"), spent=True))
    assert game.state.ended == "failed"
    game.retry()
    assert game.op("a").status == "reopened"
    assert kinds(failed(game)) == ["FunctionFailed", "RetryScheduled"]


def test_a_tool_that_failed_is_tried_again_by_the_same_rule_and_under_the_same_key() -> None:
    game = Game(graph("a"))
    game.did_not(game.intended("a", "idempotent"), TRANSIENT)
    key = game.op("a").key
    assert kinds(game.do(cmd.RetryOperation(*game.at("a"), Path("0"), TWICE))) == ["RetryScheduled"]
    game.suspend("a")
    game.tick(11)
    call = game.intended("a", "idempotent")
    assert (call.rpartition(":")[2], game.op("a").key) == ("2", key)
    game.did(call)


def test_in_other_code_it_is_reused_with_what_the_step_looked_at_before_it() -> None:
    game = Game(graph("a"))
    returned(game, "old")
    game.stop("a", "0")
    game.decide("approve")
    game.tick()
    looked = cmd.Value(Path("@tax"), "version", 2, name="tax")
    asked = cmd.ReuseOperation(*game.at("a"), Path("1"), FUNCTION, "price", "h", (looked,))
    assert kinds(game.do(asked)) == ["ValueRecorded", "OperationReused"]
    assert game.op("a", "1").outcome == inline("old")


def test_deaths_count_as_long_as_the_step_does_not_get_further() -> None:
    game = Game(graph("a"))
    for round_ in range(3):
        for _ in range(policies.MAX_LOST_ATTEMPTS - 1):
            game.lose(by=game.session)
        returned(game, path=str(round_))
    assert (game.status, game.step("a").losses) == ("running", 0)
    for _ in range(policies.MAX_LOST_ATTEMPTS):
        assert game.state.ended == ""
        game.lose(by=game.session)
    assert game.state.ended == "failed"
