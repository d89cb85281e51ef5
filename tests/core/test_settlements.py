"""The outcomes of a step are numbered in the order of the history, and each knows when it came."""

from __future__ import annotations

import pytest

from holdfast.core.values.ids import Path
from holdfast.core.values.payload import inline
from holdfast.core.values.policies import RetryPolicy
from holdfast.errors import NonDeterministicStep
from tests.core.game import START_MS, TRANSIENT, Game, cmd, ev, graph, kinds, node


def numbers(game: Game) -> dict[str, int]:
    return {str(path): op.settled for path, op in game.step("flow").journal.items()}


def a_flow() -> Game:
    return Game(graph(node("flow")), naming=2)


def test_outcomes_are_numbered_as_they_come() -> None:
    game = a_flow()
    game.await_signal("flow", "go", path="0")
    first, second = game.held("flow", path="~0.0"), game.held("flow", path="~1.0")
    game.now_ms += 1_000
    game.settle(second)
    game.now_ms += 1_000
    game.do(cmd.RecordValues(*game.at("flow"), (cmd.Value(Path("1"), "now", 7),)))
    game.settle(first)
    game.now_ms += 1_000
    game.signal("go")
    assert numbers(game) == {"~1.0": 1, "1": 2, "~0.0": 3, "0": 4}
    times = {str(path): op.settled_ms - START_MS for path, op in game.step("flow").journal.items()}
    assert times == {"~1.0": 1_000, "1": 2_000, "~0.0": 2_000, "0": 3_000}
    assert game.step("flow").settlements == 4


def test_what_is_tried_again_has_another_number() -> None:
    game = a_flow()
    policy = RetryPolicy(initial_s=1, jitter=0)
    game.do(cmd.FailFunction(*game.at("flow"), Path("0"), "price", "args", TRANSIENT, policy))
    assert (game.op("flow").status, game.op("flow").settled, game.op("flow").settled_ms) == ("retrying", 0, 0)
    game.do(cmd.RecordValues(*game.at("flow"), (cmd.Value(Path("1"), "now", 7),)))
    game.suspend("flow")
    game.tick(2)
    value = cmd.Value(Path("0"), "step", 3, None, "price", "args")
    game.do(cmd.RecordValues(*game.at("flow"), (value,)))
    assert numbers(game) == {"0": 3, "1": 2}


def test_a_retry_of_the_step_takes_the_number_away() -> None:
    game = a_flow()
    game.did_not(game.intended("flow", "idempotent"))
    assert numbers(game) == {"0": 1}
    game.fail("flow", TRANSIENT, "0")
    assert numbers(game) == {"0": 0}


def test_an_outcome_that_came_too_late_has_its_number_when_it_counts() -> None:
    """Its code saw it fail; a retry finds what it came to."""
    game = a_flow()
    call = game.intended("flow", "idempotent")
    game.do(cmd.DoubtEffect(call, TRANSIENT))
    assert (game.op("flow").status, numbers(game)) == ("failed", {"0": 1})
    game.did(call)
    assert numbers(game) == {"0": 1}
    game.fail("flow", TRANSIENT, "0")
    assert (game.op("flow").status, numbers(game)) == ("done", {"0": 2})


def test_a_number_is_given_once_also_where_the_journal_was_dropped() -> None:
    game = a_flow()
    game.effect("flow", path="0")
    game.do(cmd.RecordValues(*game.at("flow"), (cmd.Value(Path("1"), "now", 7),)))
    game.stop("flow", "1")
    game.decide("answer", data="restart")
    game.tick()
    game.intend("flow", path="0")
    assert numbers(game) == {"0": 3}


# --- When the code went on with an outcome ----------------------------------------------------------------------------------


def heard(game: Game) -> list[float]:
    """When the code went on with each outcome, from its beginning, in seconds since the run began."""
    step = game.step("flow")
    return [(step.heard_ms(each) - START_MS) / 1_000 for each in range(step.settlements + 1)]


def lost(game: Game, after_s: float) -> None:
    """So much later the process of the attempt is gone, and another goes on."""
    game.now_ms += int(after_s * 1_000)
    session = game.step("flow").session
    assert session is not None
    assert kinds(game.lose(session, by=cmd.SessionId(f"after {session}"))) == ["AttemptLost", "StepStarted"]


def test_code_goes_on_with_what_came_while_it_was_away_when_it_is_back() -> None:
    game = a_flow()
    game.await_signal("flow", "go", path="0")
    game.suspend("flow")
    game.pause()
    game.signal("go")
    game.tick(60)
    assert kinds(game.resume()) == ["RunResumed", "StepStarted"]
    assert heard(game) == [0, 60]


def test_an_attempt_that_is_lost_may_have_gone_on_with_what_had_come() -> None:
    game = a_flow()
    lost(game, 60)
    assert heard(game) == [0]
    game.do(cmd.RecordValues(*game.at("flow"), (cmd.Value(Path("0"), "now", 7),)))
    game.await_signal("flow", "go", path="1")
    game.suspend("flow")
    game.now_ms += 60_000
    game.signal("go")
    lost(game, 60)
    lost(game, 60)
    assert heard(game) == [0, 0, 120]


def test_code_that_waits_again_has_gone_on_with_what_had_come() -> None:
    game = a_flow()
    game.await_signal("flow", "go", path="0")
    game.await_signal("flow", "on", path="~0.0")
    game.suspend("flow")
    game.now_ms += 60_000
    game.signal("go")
    game.suspend("flow")
    game.now_ms += 60_000
    game.signal("on")
    assert heard(game) == [0, 60, 120]


def test_code_that_begins_again_begins_at_another_time() -> None:
    game = a_flow()
    for number in range(3):
        game.do(cmd.RecordValues(*game.at("flow"), (cmd.Value(Path(str(number)), "now", 7),)))
    game.stop("flow", "2")
    game.tick(60)
    game.decide("answer", data="restart")
    game.tick()
    assert heard(game)[0] == 60


# --- Timers of asyncio ----------------------------------------------------------------------------------------------------

HOUR = cmd.Timer(Path("@0"), "an hour", 3_600_000)


def test_a_step_is_left_with_its_timers_in_one_commit() -> None:
    game = a_flow()
    assert kinds(game.do(cmd.SuspendStep(*game.at("flow"), timers=(HOUR,)))) == ["TimerStarted", "StepSuspended"]
    assert (game.op("flow", "@0").name, game.due_ms) == ("timer", 3_600_000)
    assert kinds(game.tick(3_600)) == ["TimerFired", "StepStarted"]
    assert kinds(game.do(cmd.SuspendStep(*game.at("flow"), timers=(HOUR,), yields=True))) == ["StepSuspended", "StepStarted"]


def test_a_timer_that_fires_in_the_process_settles_whether_it_was_started_or_not() -> None:
    game = a_flow()
    fired = cmd.Value(Path("@0"), "sleep", None, None, "timer", "an hour")
    game.await_signal("flow", "go", path="0")
    game.do(cmd.SuspendStep(*game.at("flow"), timers=(HOUR,)))
    game.signal("go")
    game.now_ms += 3_600_000
    game.do(cmd.RecordValues(*game.at("flow"), (fired, cmd.Value(Path("@1"), "sleep", None, None, "timer", "more"))))
    assert numbers(game) == {"0": 1, "@0": 2, "@1": 3}
    assert game.due_ms is None
    assert game.tick() == []


def test_a_timer_that_has_fired_meanwhile_is_not_recorded_again() -> None:
    game = a_flow()
    game.await_signal("flow", "go", path="0")
    game.do(cmd.SuspendStep(*game.at("flow"), timers=(HOUR,)))
    game.signal("go")
    assert kinds(game.tick(3_600)) == ["TimerFired"]
    fired = cmd.Value(Path("@0"), "sleep", None, None, "timer", "an hour")
    assert game.do(cmd.RecordValues(*game.at("flow"), (fired,))) == []
    assert numbers(game) == {"0": 1, "@0": 2}
    with pytest.raises(NonDeterministicStep):
        game.do(cmd.RecordValues(*game.at("flow"), (cmd.Value(Path("0"), "sleep", None, None, "timer", "x"),)))


def test_timers_are_started_after_a_pause() -> None:
    game = a_flow()
    game.pause()
    assert kinds(game.do(cmd.SuspendStep(*game.at("flow"), timers=(HOUR,)))) == ["StepSuspended"]
    assert kinds(game.resume()) == ["RunResumed", "StepStarted"]


def test_a_timer_of_a_journal_that_was_dropped_does_not_run_again() -> None:
    game = a_flow()
    game.do(cmd.SuspendStep(*game.at("flow"), timers=(HOUR,)))
    game.tick(3_600)
    game.do(cmd.RecordValues(*game.at("flow"), (cmd.Value(Path("0"), "now", 7),)))
    game.stop("flow", "@0")
    game.decide("approve")
    game.tick()
    for path, reused in (("@1", []), ("@0", ["OperationReused"])):  # all timers are equal: only that at its place is its own
        again = cmd.ReuseOperation(*game.at("flow"), Path(path), "sleep", "timer", "an hour")
        assert kinds(game.do(again)) == reused


# --- Which rule names the operations ----------------------------------------------------------------------------------------


def test_a_run_knows_by_which_rule_its_operations_are_named() -> None:
    assert a_flow().state.naming == 2
    early = ev.decode(ev.encode(a_flow().events(ev.RunStarted)[0]).replace(b',"naming":2', b""))
    assert isinstance(early, ev.RunStarted)
    assert early.naming == 1


def test_what_stands_in_a_fork_is_numbered_in_the_order_in_which_it_came() -> None:
    game = Game(graph(node("flow")), start=False)
    stands = [
        ev.OperationInherited(cmd.StepId("flow#1"), Path(path), "step", "price", path, inline(1), None, None, None, True)
        for path in ("~1.0", "~0.0")
    ]
    more = ev.OperationInherited(cmd.StepId("flow#1"), Path("0"), "step", "price", "0", inline(1), None, None, None, False)
    forked = ev.RunForked(cmd.RunId("origin"), 9, cmd.StepId("flow#1"), None, {}, (), {}, False)
    start = cmd.StartRun(cmd.RunId("fork"), "acme", inline(None), "digest", inherits=(forked, *stands, more), naming=2)
    game.do(start)
    assert numbers(game) == {"~1.0": 1, "~0.0": 2}
    game.do(cmd.ReuseOperation(*game.at("flow"), Path("0"), "step", "price", "0"))
    assert numbers(game) == {"~1.0": 1, "~0.0": 2, "0": 3}
