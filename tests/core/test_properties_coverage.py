"""How strong the random histories are: what never comes up in them is held by nothing.

Never here: a promise about a run.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import get_args

import pytest

from holdfast.core.decide import _RULES
from holdfast.core.facts.events import AnyEvent
from holdfast.core.facts.graph import Graph, JoinMode, Kind
from tests.core.test_properties import Chaos, Crew, Record, some_graph

CHAOTIC, ORDERLY, MOVES = 500, 500, 60
REFUSALS = (
    "AlreadyClosed",
    "AlreadyDecided",
    "Conflict",
    "InvalidDecision",
    "InvalidInput",
    "KeyReused",
    "NonDeterministicStep",
    "NotFound",
    "RunEnded",
    "StaleAttempt",
    "Suspended",
)
"""Every error that `decide` refuses a command with."""


@cache
def seen() -> Counter[str]:
    """What came up in a few hundred histories, by kind and name."""
    found: Counter[str] = Counter()
    for seed in range(CHAOTIC + ORDERLY):
        graph = some_graph(1 + seed % 7, seed)
        if seed < CHAOTIC:
            chaos = Chaos(graph, random.Random(seed))
            chaos.play(MOVES)
            game = chaos.game
        else:
            crew = Crew(graph, seed)
            crew.play()
            game = crew.game
            if seed % 3 == 0 and (fork := crew.fork()) is not None:
                fork.play()
                _count(found, graph, fork.game)
        _count(found, graph, game)
    return found


def _count(found: Counter[str], graph: Graph, game: Record) -> None:
    for node in graph.nodes.values():
        found[f"kind {node.kind}"] += 1
        if graph.incoming[node.name]:
            found[f"join {node.join.mode}"] += 1
            found["join with a time-out"] += node.join.timeout_s is not None
        found["guarded node"] += node.guard is not None
        found["continue_on_error"] += node.continue_on_error
    for edge in graph.definition.edges:
        found["loop"] += edge.max_visits is not None
        found["error edge"] += edge.on == "error"
        found["optional edge"] += edge.optional
        found["named edge"] += edge.when is not None
        found["guarded edge"] += edge.guard is not None
    found[f"on_limit {graph.definition.on_limit}"] += 1
    found[f"on_exhausted {graph.definition.on_exhausted}"] += 1
    for event in game.events():
        found[f"event {type(event).__name__}"] += 1
    for name, times in game.sent.items():
        found[f"command {name}"] += times
    for name, times in game.refused.items():
        found[f"refusal {name}"] += times
    found[f"end {game.state.ended or 'open'}"] += 1


EVERYTHING = [
    *(f"kind {kind}" for kind in get_args(Kind)),
    *(f"join {mode}" for mode in get_args(JoinMode)),
    "join with a time-out",
    "guarded node",
    "continue_on_error",
    "loop",
    "error edge",
    "optional edge",
    "named edge",
    "guarded edge",
    "on_limit ask",
    "on_limit fail",
    "on_limit record",
    "on_exhausted fail",
    "on_exhausted dead_letter",
    *(f"event {event.__name__}" for event in get_args(AnyEvent)),
    *(f"command {command.__name__}" for command in _RULES),
    *(f"refusal {name}" for name in REFUSALS),
    "end completed",
    "end failed",
    "end cancelled",
]


@pytest.mark.long
def test_every_kind_of_thing_comes_up_in_the_random_histories(record_property: Callable[[str, object], None]) -> None:
    found = seen()
    for name in EVERYTHING:
        record_property(name, found[name])
    rare = {name: found[name] for name in EVERYTHING if found[name] < 3}
    assert not rare, f"the generator is too weak, this hardly comes up: {rare}"
