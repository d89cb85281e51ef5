"""What is used of each limit is told at 50, 80 and 100 %, once; what is left is what no call in flight holds."""

from __future__ import annotations

from holdfast.core.rules import limits
from tests.core.game import OTHER, Game, ev, graph, kinds


def told(game: Game) -> list[tuple[str, int]]:
    return [(event.limit, event.percent) for event in game.events(ev.LimitNeared)]


def left(game: Game) -> limits.LimitsLeft:
    return limits.left(game.state, game.now_ms)


def test_each_threshold_is_reported_once_in_the_commit_that_crosses_it() -> None:
    game = Game(graph("a", limits={"max_model_calls": 10}))
    for number in range(10):
        events = game.hold("a", path=str(number))
        assert ("LimitNeared" in kinds(events)) == (number + 1 in (5, 8, 10)), number
        (held,) = [event for event in events if isinstance(event, ev.ModelCallHeld)]
        game.settle(held.call)
    assert told(game) == [("model_calls", 50), ("model_calls", 80), ("model_calls", 100)]


def test_a_jump_over_two_thresholds_is_reported_as_the_higher_one() -> None:
    game = Game(graph("a"), limit=100)
    game.settle(game.held("a", 90), 85)
    assert told(game) == [("cost", 80)]


def test_what_is_only_held_is_not_used() -> None:
    game = Game(graph("a"), limit=100)
    call = game.held("a", 90)
    assert told(game) == []
    game.settle(call, 10)
    assert told(game) == []


def test_what_is_in_doubt_counts_as_used() -> None:
    game = Game(graph("a"), limit=100)
    game.doubt_money(game.held("a", 60))
    assert told(game) == [("cost", 50)]


def test_a_limit_that_stops_the_run_is_reported_as_reached_though_a_little_is_left() -> None:
    game = Game(graph("a"), limit=100)
    game.settle(game.held("a", 40), 40)
    game.hold("a", 70, path="1")
    assert told(game) == [("cost", 100)]
    (event,) = game.events(ev.LimitNeared)
    assert (event.used, event.most) == (40, 100)


def test_a_raised_limit_is_reported_again() -> None:
    game = Game(graph("a"), limit=100)
    game.settle(game.held("a", 60), 60)
    game.raise_limit("cost", 110)
    game.raise_limit("cost", 1000)
    game.settle(game.held("a", 900, path="1"), 850)
    assert told(game) == [("cost", 50), ("cost", 50), ("cost", 80)]


def test_time_is_reported_by_the_process_that_looks_and_one_does() -> None:
    game = Game(graph("a", limits={"max_wall_s": 100}))
    game.sleep("a", 1000)
    for after_s, due_ms in ((50, 80_000), (30, 100_000), (20, 1_000_000)):
        game.tick(after_s)
        assert game.due_ms == due_ms
    assert told(game) == [("wall", 50), ("wall", 80), ("wall", 100)]


def test_what_is_left_is_what_is_not_held() -> None:
    game = Game(
        graph(
            "a > b",
            limits={
                "max_tokens": 100,
                "max_model_calls": 3,
                "max_tool_calls": 2,
                "max_steps": 10,
                "max_active_s": 50,
                "max_wall_s": 100,
            },
        ),
        limit=2_000_000_000,
    )
    assert left(game) == limits.LimitsLeft("2.00", 100, 3, 2, 9, 50.0, 100.0, 10, None, "2.00", 100)
    game.settle(game.held("a", 500_000_000, 30), 500_000_000, tokens=(10, 10))
    game.held("a", 500_000_000, 60, path="1")
    game.intended("a", path="2")
    game.now_ms += 5_000
    assert left(game) == limits.LimitsLeft("1.00", 20, 1, 1, 9, 45.0, 95.0, 80, None, "1.00", 20)
    assert left(game).wraps_up


def test_without_limits_only_steps_are_bounded() -> None:
    game = Game(graph("a"))
    assert left(game) == limits.LimitsLeft(None, None, None, None, 999, None, None, 0)
    assert not left(game).wraps_up


def test_a_lost_call_still_counts() -> None:
    game = Game(graph("a", limits={"max_model_calls": 2}))
    game.held("a")
    game.lose()
    game.session = OTHER
    assert left(game).model_calls == 1
