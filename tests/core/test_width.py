"""What a step costs does not grow with the width of its run: counted in lines of code that are gone through, not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from holdfast.authoring.values.view import StateView
from holdfast.core.decide import decide
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.graph import Graph, Join
from holdfast.core.facts.state import State
from holdfast.core.values.payload import NULL
from holdfast.core.views.projection import project
from tests.core.game import RUN, START_MS, WORKER, error, graph, node

SLOTS = 4
"""Far fewer than there are nodes, so that most of them wait."""
GROWTH = 1.25
"""What is small beside the width: the ends of the run."""


def lines_of(work: Callable[[], Any]) -> int:
    """How many lines of Python are gone through."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def fan(width: int, join: Join) -> Graph:
    return graph(*(f"root > n{number} > join" for number in range(width)), node("join", join=join))


def play(graph: Graph, *, failing: bool) -> State:
    """The whole run as a process goes through it: each step sees its run, ends by itself, is projected and looked at."""
    state, worker = State(), cmd.Worker(WORKER, SLOTS)

    def do(command: cmd.Command, worker: cmd.Worker = worker) -> None:
        events = decide(graph, state, command, START_MS, worker)
        project(state, events, executing=True)

    do(cmd.StartRun(RUN, "acme", NULL, ""))
    while not state.ended:
        name = next(iter(state.active))
        step = state.steps[name]
        StateView(state, lambda payload: payload)
        if failing and name not in ("root", "n0", "join"):
            do(cmd.FailAttempt(step.id, step.attempt, error(), None, ()), cmd.Worker(WORKER, 1))
        else:
            do(cmd.CompleteStep(step.id, step.attempt, NULL, None, ()), cmd.Worker(WORKER, 1))
        do(cmd.Tick(), cmd.Worker(WORKER, 0))
    return state


@pytest.mark.parametrize(
    ("join", "failing"),
    [
        (Join("all"), False),
        (Join("all_required"), False),
        (Join("best_effort"), False),
        (Join("quorum", 10**9), False),
        (Join("best_effort"), True),
        (Join("quorum", 1), True),
    ],
)
def test_what_a_step_costs_does_not_grow_with_how_many_are_beside_it(join: Join, failing: bool) -> None:
    def cost(width: int) -> float:
        wide = fan(width, Join(join.mode, min(join.count, width)))
        return lines_of(lambda: play(wide, failing=failing)) / width

    few, many = cost(60), cost(240)
    assert many < GROWTH * few
