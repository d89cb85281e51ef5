"""A timer fires once and not early; a signal is kept, and reaches who asked first."""

from __future__ import annotations

import pytest

from holdfast.core.rules.waits import MAX_SIGNALS_KEPT
from holdfast.core.values import policies
from holdfast.core.values.ids import Path
from holdfast.core.values.payload import inline
from holdfast.errors import InvalidInput, KeyReused, RunEnded
from tests.core.game import START_MS, Game, cmd, ev, graph, kinds, node

MONTH_S = 30 * 86_400

# --- Timers -----------------------------------------------------------------------------------------------------------


def test_a_timer_of_thirty_days_fires_once_and_not_early() -> None:
    game = Game(graph("a > b"))
    game.sleep("a", MONTH_S)
    assert game.due_ms == MONTH_S * 1000
    assert [(wait.kind, wait.due_at_ms) for wait in game.waits] == [("timer", START_MS + MONTH_S * 1000)]
    assert game.status == "waiting"
    assert game.tick(MONTH_S - 0.001) == []
    assert kinds(game.tick(0.001)) == ["TimerFired", "StepStarted"]
    assert game.tick(MONTH_S) == []
    assert game.op("a").status == "done"


def test_a_clock_that_runs_backwards_neither_fires_nor_moves_a_timer() -> None:
    game = Game(graph("a > b"))
    game.sleep("a", 60)
    game.now_ms -= 3_600_000
    assert game.tick() == []
    game.signal("anything")
    assert game.state.at_ms == START_MS, "time within a run never runs backwards"
    assert game.due_ms == 60_000


def test_a_replay_finds_its_timer_where_it_left_it() -> None:
    game = Game(graph("a > b"))
    game.sleep("a", 60)
    game.pause()
    game.resume()
    game.now_ms += 30_000
    game.tick()
    assert game.do(cmd.StartTimer(*game.at("a"), Path("0"), "sleep 60", 60_000)) == [] if game.active else True
    assert game.due_ms == 60_000


def test_timers_of_a_step_that_are_due_together_fire_in_the_order_of_their_times() -> None:
    game = Game(graph("a > b"))
    for number, seconds in enumerate((30, 10, 20, 10)):
        game.do(cmd.StartTimer(*game.at("a"), Path(f"0.{number}.0"), "x", seconds * 1000))
    game.suspend("a")
    game.tick(60)
    assert [event.path for event in game.events(ev.TimerFired)] == ["0.1.0", "0.3.0", "0.2.0", "0.0.0"]


def test_timers_that_are_written_when_they_are_overdue_keep_their_order() -> None:
    game = Game(graph("a > b"))
    timers = [cmd.Timer(Path(f"@{number}"), "x", ms) for number, ms in enumerate((-10_000, -30_000, 5_000))]
    game.do(cmd.RecordValues(*game.at("a"), (), tuple(timers)))
    assert game.events(ev.TimerStarted)[-1].name == "timer"
    assert game.do(cmd.RecordValues(*game.at("a"), (), tuple(timers))) == [], "they stand in the journal"
    game.suspend("a")
    game.tick(10)
    assert [event.path for event in game.events(ev.TimerFired)] == ["@1", "@0", "@2"]


def test_several_timers_of_a_step_fire_each_in_its_time() -> None:
    game = Game(graph("a > b"))
    for number, seconds in enumerate((30, 10, 20)):
        game.do(cmd.StartTimer(*game.at("a"), Path(f"0.{number}.0"), "x", seconds * 1000))
    game.suspend("a")
    order = []
    for _ in range(3):
        game.tick(10)
        order += [event.path for event in game.events(ev.TimerFired)[len(order) :]]
        game.suspend("a")
    assert order == ["0.1.0", "0.2.0", "0.0.0"]


def test_a_timer_fires_in_a_paused_run_and_the_step_goes_on_after_the_pause() -> None:
    game = Game(graph("a > b"))
    game.sleep("a", 60)
    game.pause()
    assert kinds(game.tick(60)) == ["TimerFired"]
    assert game.due_ms is None
    assert kinds(game.resume()) == ["RunResumed", "StepStarted"]


# --- Signals ----------------------------------------------------------------------------------------------------------


def test_a_signal_wakes_the_step_that_waits_for_it() -> None:
    game = Game(graph("a > b"))
    game.await_signal("a", "go")
    game.suspend("a")
    assert [(wait.kind, wait.reason) for wait in game.waits] == [("signal", "go")]
    assert kinds(game.signal("go", {"n": 1})) == ["SignalReceived", "SignalDelivered", "StepStarted"]
    assert game.op("a").outcome == inline({"n": 1})


def test_a_signal_that_came_too_early_is_kept() -> None:
    game = Game(graph("a > b"))
    game.signal("go", 1)
    assert kinds(game.await_signal("a", "go")) == ["SignalAwaited", "SignalDelivered"]
    assert not game.state.signals


def test_signals_are_delivered_in_the_order_they_came() -> None:
    game = Game(graph("a > b"))
    for number in range(3):
        game.signal("go", number)
        game.signal("other", -number)
    got = []
    for path in ("0", "1", "2"):
        game.await_signal("a", "go", path=path)
        got.append(game.op("a", path).outcome.value())
    assert got == [0, 1, 2]
    assert len(game.state.signals) == 3


def test_who_asked_first_is_served_first() -> None:
    game = Game(graph("a > end", "b > end"))
    game.await_signal("b", "go")
    game.now_ms += 1
    game.await_signal("a", "go")
    game.signal("go", 1)
    game.signal("go", 2)
    assert (game.op("b").outcome, game.op("a").outcome) == (inline(1), inline(2))


def test_a_signal_is_delivered_to_one_step_only() -> None:
    game = Game(graph("a > end", "b > end"))
    game.await_signal("a", "go")
    game.await_signal("b", "go")
    game.signal("go", 1)
    assert [game.op("a").status, game.op("b").status] == ["done", "open"]


def test_a_wait_for_a_signal_can_be_bounded() -> None:
    game = Game(graph("a > b"))
    game.await_signal("a", "go", timeout_s=60)
    game.suspend("a")
    assert game.due_ms == 60_000
    assert kinds(game.tick(60)) == ["SignalTimedOut", "StepStarted"]
    failure = game.op("a").error
    assert failure is not None
    assert failure.error_class == policies.TIMEOUT
    game.signal("go", "late")
    assert len(game.state.signals) == 1, "kept for who asks next"


def test_a_retry_waits_for_the_signal_again() -> None:
    game = Game(graph("a > b"))
    game.await_signal("a", "go", timeout_s=60)
    game.suspend("a")
    game.tick(60)
    failure = game.op("a").error
    assert failure is not None
    game.fail("a", cmd.ErrorRecord("a", failure.error_class, failure.message, True, game.now_ms), path="0")
    game.tick(10)
    game.await_signal("a", "go", timeout_s=60)
    assert game.op("a").due_at_ms == game.now_ms + 60_000


def test_a_step_that_is_over_takes_no_signal_from_others() -> None:
    game = Game(graph("a > j", "b > j", "c > j2", node("j", join="any"), "j > j2"))
    game.await_signal("b", "go")
    game.suspend("b")
    game.complete("a")
    game.now_ms += 1
    game.await_signal("c", "go")
    game.signal("go", 1)
    assert game.op("c").outcome == inline(1)


def test_a_sender_that_only_sends_hears_of_it() -> None:
    game = Game(graph("a > b"))
    for number in range(3):
        game.signal("go", number)
    game.state.signals *= MAX_SIGNALS_KEPT // 3 + 1
    with pytest.raises(InvalidInput, match="already keeps 1000 signals"):
        game.signal("go")


def test_a_replayed_step_receives_a_signal_that_came_while_it_was_parked() -> None:
    game = Game(graph("a", on_exhausted="dead_letter"))
    game.await_signal("a", "go", path="0.1.0")
    game.fail("a")
    assert game.signal("go", "now") == game.events(ev.SignalReceived)
    gate = game.gate.gate
    game.decide("retry", gate)
    assert [event.path for event in game.events(ev.SignalDelivered)] == ["0.1.0"]
    assert game.op("a", "0.1.0").status == "done"


# --- Keys and types ---------------------------------------------------------------------------------------------------


def keyed(game: Game, key: str, data: int, name: str = "go") -> list[ev.Event]:
    return game.do(cmd.SendSignal(name, inline(data), key=key, digest=f"{name} {data}"))


def test_a_signal_under_a_key_is_received_once_also_after_the_end() -> None:
    game = Game(graph("a"))
    assert kinds(keyed(game, "k", 1)) == ["SignalReceived"]
    assert keyed(game, "k", 1) == []
    with pytest.raises(KeyReused, match=r"^Use another key: 'k'"):
        keyed(game, "k", 2)
    game.complete("a")
    assert keyed(game, "k", 1) == []
    with pytest.raises(KeyReused):
        keyed(game, "k", 1, "other")
    with pytest.raises(RunEnded):
        keyed(game, "l", 1)


def test_a_run_remembers_the_latest_keys_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.core.facts.folding.operation.MAX_SIGNAL_KEYS", 2)
    game = Game(graph("a > b"))
    for number in range(3):
        keyed(game, f"k{number}", number)
    assert list(game.state.signal_keys) == ["k1", "k2"]


def test_data_is_held_against_the_wait_that_would_get_it() -> None:
    game = Game(graph("a > end", "b > end"))
    for step, schema in (("a", {"type": "integer"}), ("b", {"type": "string"})):
        game.do(cmd.AwaitSignal(*game.at(step), Path("0"), "go", "signal go", schema=schema))
        game.now_ms += 1
    with pytest.raises(
        InvalidInput, match=r"^Send the signal 'go' with data that fits what run .* waits for: data: 'x' is not"
    ):
        game.do(cmd.SendSignal("go", inline("x"), plain="x"))
    game.do(cmd.SendSignal("go", inline(1), plain=1))
    game.do(cmd.SendSignal("go", inline("x"), plain="x"))
    assert (game.op("a").outcome, game.op("b").outcome) == (inline(1), inline("x"))
    game.do(cmd.SendSignal("go", inline(None), plain=None))
    assert len(game.state.signals) == 1, "nobody waits, so anything is kept"
