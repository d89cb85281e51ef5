"""What is asked of a state costs the same however much it holds, and is true."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.decide import decide
from holdfast.core.facts import commands as cmd
from holdfast.core.values.ids import NodeName, Path, StepId
from holdfast.core.views.projection import project
from tests.core.game import NULL, START_MS, WORKER, Game, ev, graph, loop


class Sealed(dict[Any, Any]):
    """A journal in which one place after the other can be looked up, and that nobody may go through."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("what is asked of a long step goes through all that it ever did")

    __iter__ = keys = values = items = _refuse


def test_an_operation_of_a_step_costs_the_same_however_many_came_before_it() -> None:
    game = Game(graph("a > b"), limit=100)
    for number in range(20):
        game.settle(game.held("a", 1, path=str(number)), 1)
    game.await_signal("a", "go", timeout_s=60, path="20")
    state, events = game.replayed(), []

    def do(command: cmd.Command, now_ms: int = START_MS) -> None:
        events.extend(found := decide(game.graph, state, command, now_ms, cmd.Worker(WORKER, 9)))
        project(state, found, executing=True)

    step = state.steps[NodeName("a")]
    step.journal = Sealed(step.journal)
    do(cmd.SendSignal("go", NULL))
    do(cmd.HoldModelCall(step.id, 1, Path("21"), "m", "args", (cmd.CallCandidate("m", 1000, 0),)))
    do(cmd.StartTimer(step.id, 1, Path("22"), "args", 1000))
    do(cmd.RaiseLimit("cost", 2000))
    do(cmd.HoldModelCall(step.id, 1, Path("21"), "m", "args", (cmd.CallCandidate("m", 1000, 0),)))
    do(cmd.Tick(), START_MS + 1000)
    do(cmd.Tick(frozenset({WORKER})), START_MS + 1000)
    happened = {type(event) for event in events}
    assert happened >= {ev.SignalDelivered, ev.HoldDeferred, ev.TimerStarted, ev.ModelCallHeld, ev.TimerFired}
    assert happened >= {ev.AttemptLost, ev.ModelCallInDoubt}


def test_a_step_is_found_only_while_it_is_its_nodes_current_visit() -> None:
    game = Game(graph("a > b", loop("b", "a", 2)))
    assert game.state.step(StepId("a#1")) is not None
    assert game.state.step(StepId("a#2")) is None
    game.complete("a")
    game.complete("b")
    assert game.state.step(StepId("a#1")) is None
    assert game.state.step(StepId("a#2")) is not None


@pytest.mark.parametrize(
    ("money", "tokens", "room"),
    [(10, 10, "now"), (30, 10, "later"), (10, 30, "later"), (30, 30, "later"), (61, 10, "never"), (10, 61, "never")],
)
def test_room_is_there_now_or_later_or_never(money: int, tokens: int, room: str) -> None:
    game = Game(graph("a > b", limits={"cost_nanousd": 100, "max_tokens": 100}))
    game.settle(game.held("a", 20, 20, path="0"), 20, tokens=(10, 10))
    game.doubt_money(game.held("a", 20, 20, path="1"))
    game.held("a", 40, 40, path="2")
    assert game.state.headroom(money, tokens) == room
