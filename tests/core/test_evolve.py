"""The state is the fold of the history and of nothing else; a history that no rule can have written is called corrupt."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.decide import decide
from holdfast.core.evolve import evolve
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import MAX_DECIDED_KEPT, MAX_ERRORS_KEPT, State
from holdfast.core.values.ids import CallId, GateId, Path, SessionId, StepId
from holdfast.errors import AlreadyDecided, CorruptHistory, NotFound, StoreError
from tests.core.game import NULL, START_MS, TRANSIENT, Game, error, ev, graph, loop, node, same, snapshot


def busy() -> Game:
    """A run with a bit of everything in it."""
    game = Game(graph("a > c", "b > c", "ask > c", node("ask", "human_gate"), loop("c", "a", 2)), limit=100, by="ann")
    game.settle(game.held("a", 30, path="0"), 10)
    game.doubt_money(game.held("a", 30, path="1"))
    game.effect("a", path="2", key="k", compensation="undo")
    game.doubt(game.intended("b", path="0"))
    game.await_signal("b", "go", timeout_s=60, path="1")
    game.signal("other", {"x": 1})
    game.suspend("b")
    game.human_gate("ask")
    game.fail("a", TRANSIENT)
    game.pause()
    return game


def test_every_prefix_of_a_history_folds() -> None:
    game = busy()
    states = [game.replayed(count) for count in range(len(game.history) + 1)]
    assert [state.seq for state in states] == list(range(len(game.history) + 1))
    assert same(states[-1], game.state)


def test_a_snapshot_goes_on_like_the_history_it_stands_for() -> None:
    game = busy()
    for count in range(1, len(game.history)):
        state = snapshot(game.replayed(count))
        for data, at_ms in list(zip(game.history, game.times, strict=True))[count:]:
            evolve(state, ev.decode(data), at_ms)
        assert same(state, game.state)


def test_folding_shares_nothing_between_two_states() -> None:
    game = busy()
    events = game.events()
    one, other = State(), State()
    for event, at_ms in zip(events, game.times, strict=True):
        evolve(one, event, at_ms)
    for event, at_ms in zip(events, game.times, strict=True):
        evolve(other, event, at_ms)
    before = snapshot(other)
    evolve(one, ev.StepCompleted(StepId("b#1"), 1, NULL), START_MS)
    evolve(one, ev.RunCancelling("x"), START_MS)
    assert same(other, before)


@pytest.mark.parametrize(
    "impossible",
    [
        ev.StepCompleted(StepId("never#1"), 1, NULL),
        ev.StepSuspended(StepId("never#1"), 1),
        ev.StepStarted(StepId("no visit"), 1, SessionId("s")),
        ev.ModelCallSettled(CallId("r:a#1:0:9"), 1, 1, 1, NULL),
        ev.EffectCompleted(CallId("r:a#1:0:9"), NULL),
        ev.GateDecided(GateId("r:a#1:0"), "approve", NULL, "h"),
        ev.SignalDelivered(StepId("a#1"), Path("0"), 99),
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_history_that_cannot_be_is_corrupt(impossible: ev.Event) -> None:
    game = Game(graph("a > b"))
    with pytest.raises(CorruptHistory, match="does not follow from the events before it") as caught:
        evolve(game.replayed(), impossible, START_MS)
    assert isinstance(caught.value, StoreError)


def test_an_unknown_kind_of_event_is_corrupt() -> None:
    class Surprise(ev.Event, frozen=True):
        pass

    with pytest.raises(CorruptHistory, match="unknown kind Surprise"):
        evolve(State(), Surprise(), START_MS)


def test_the_state_keeps_the_latest_errors_only() -> None:
    state = Game(graph("a > b")).replayed()
    for number in range(MAX_ERRORS_KEPT + 20):
        evolve(state, ev.AttemptFailed(StepId("a#1"), 1, error(str(number)), START_MS), START_MS)
    assert len(state.errors) == MAX_ERRORS_KEPT
    assert state.errors[-1].error_class == str(MAX_ERRORS_KEPT + 19)


def test_the_state_keeps_the_latest_decisions_only_and_says_where_the_others_are() -> None:
    """A loop with a gate in it would otherwise make every resume as long as the run."""
    game = Game(graph("a > b"))
    state = game.replayed()
    opened = ev.GateOpened(GateId("0"), "approval", NULL, "hash", ("approve",))
    for number in range(MAX_DECIDED_KEPT + 20):
        gate = GateId(f"{state.run}:a#{number}:0")
        evolve(state, msgspec.structs.replace(opened, gate=gate), START_MS)
        evolve(state, ev.GateDecided(gate, "approve", NULL, "hash", "ann"), START_MS)
    assert len(state.decided) == MAX_DECIDED_KEPT
    with pytest.raises(AlreadyDecided, match="approve by ann"):
        decide(game.graph, state, cmd.DecideGate(gate, "reject"), START_MS)
    with pytest.raises(NotFound, match="gates show"):
        decide(game.graph, state, cmd.DecideGate(GateId(f"{state.run}:a#0:0"), "reject"), START_MS)
