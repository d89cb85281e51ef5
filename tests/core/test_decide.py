"""What is refused before any rule is asked: a run that has not begun, another graph, a run that has ended."""

from __future__ import annotations

import pytest

from holdfast.core.decide import _RULES
from holdfast.errors import Conflict, NotFound, RunEnded
from tests.core.game import Game, cmd, graph


def test_nothing_happens_to_a_run_before_it_starts() -> None:
    game = Game(graph("a"), start=False)
    with pytest.raises(NotFound):
        game.tick()


def test_a_graph_that_is_not_the_runs_decides_nothing() -> None:
    game = Game(graph("a > b"))
    with pytest.raises(Conflict, match="follows the graph"):
        game.do(cmd.Tick(), graph=graph("a > c"))


def test_a_run_that_has_ended_changes_no_more() -> None:
    game = Game(graph("a"))
    game.complete("a")
    for command in (game.pause, game.resume, game.cancel, lambda: game.signal("x"), lambda: game.raise_limit("steps", 9999)):
        with pytest.raises(RunEnded, match="has ended \\(completed\\)"):
            command()
    assert game.tick(10**6, dead=["worker"]) == []


def test_the_old_graph_decides_nothing_after_the_move() -> None:
    game = Game(graph("a > b"))
    game.do(cmd.MigrateRun(), graph=graph("a > b > c"))
    with pytest.raises(Conflict, match="follows the graph"):
        game.tick()


def test_every_command_has_one_rule() -> None:
    """Those with others below them only say what these have in common."""

    def leaves(kind: type[cmd.Command]) -> set[type[cmd.Command]]:
        below = kind.__subclasses__()
        return set().union(*map(leaves, below)) if below else {kind}

    assert leaves(cmd.Command) == set(_RULES)
