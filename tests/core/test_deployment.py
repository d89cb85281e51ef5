"""A run whose workflow no process can run: asked about once, when something in it needs the code, and taken back."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.facts.commands import LoadedWorkflow, Tick
from holdfast.core.facts.graph import Graph
from holdfast.core.values.demand import Demand
from holdfast.core.values.payload import digest
from holdfast.errors import InvalidDecision
from tests.core.game import ANN, OTHER, TRANSIENT, WORKER, Game, cmd, definition, edge, ev, graph, kinds, node

MISSING = "workflow_missing"
GPU = Demand(labels=("gpu",))
NEWER = LoadedWorkflow("flow", 2, "f" * 64)
ANOTHER = LoadedWorkflow("another flow", 7, "a" * 64)


def stranded(*parts: Any, **more: Any) -> Game:
    """A run that could go on with its second node, had somebody its code."""
    game = Game(graph(*(parts or ("a > b",)), **more))
    game.complete("a", session=None)
    return game


def find(game: Game, *loaded: LoadedWorkflow, after_s: float = 60, dead: Any = ()) -> list[ev.Event]:
    """What a process that cannot run the workflow does about it."""
    game.now_ms += int(after_s * 1000)
    return game.do(Tick(frozenset(dead), loaded), session=None)


def test_a_run_that_no_process_can_go_on_with_asks_a_person() -> None:
    game = stranded()
    assert kinds(find(game, NEWER, ANOTHER)) == ["GateOpened"]
    assert game.status == "requires_attention"
    (wait,) = game.waits
    assert (wait.kind, wait.reason, wait.about) == ("gate", MISSING, "flow 1")
    shown = game.gate.shown.value()
    assert game.gate.shown_hash == digest(shown)
    assert (shown["workflow"], shown["version"], shown["graph_hash"]) == ("flow", 1, game.graph.hash)
    assert shown["loaded"] == [{"version": 2, "graph_hash": NEWER.graph_hash}]
    for told in ("'flow' version 1", game.graph.hash[:12], "version 2", "f" * 12, "holdfast runs migrate"):
        assert told in shown["message"]
    assert "another flow" not in shown["message"]


def test_it_says_so_when_nothing_of_that_name_is_loaded() -> None:
    game = stranded()
    find(game, ANOTHER)
    assert game.gate.shown.value()["loaded"] == []
    assert "nothing of that name is loaded" in game.gate.shown.value()["message"]


def test_two_processes_that_notice_ask_once() -> None:
    game = stranded()
    find(game, NEWER)
    assert find(game, ANOTHER) == []


def test_an_ordinary_look_asks_nothing() -> None:
    game = stranded()
    assert game.tick(10**6, session=None) == []


def test_a_process_that_has_the_code_withdraws_the_question_and_continues_the_run() -> None:
    game = stranded()
    find(game, NEWER)
    assert game.due_ms is not None, "a process that has the code must find it"
    assert kinds(game.tick(session=OTHER)) == ["GateWithdrawn", "StepStarted"]
    assert game.status == "running"
    assert game.step("b").session == OTHER


def test_a_process_that_has_the_code_but_no_free_slot_withdraws_the_question_too() -> None:
    game = stranded()
    find(game, NEWER)
    assert kinds(game.tick(slots=0)) == ["GateWithdrawn"]
    assert game.status == "running"


def test_a_look_by_who_executes_nothing_leaves_the_question_open() -> None:
    game = stranded()
    find(game, NEWER)
    assert game.tick(1, session=None) == []
    assert game.status == "requires_attention"


def test_who_can_run_it_asks_nothing_whatever_was_found_before() -> None:
    game = stranded()
    found = Tick(frozenset(), (NEWER,))
    assert game.do(found, session=OTHER, slots=0) == []
    assert kinds(game.do(found, session=OTHER)) == ["StepStarted"]


def test_a_migrated_run_is_asked_about_no_more() -> None:
    game = stranded()
    find(game, NEWER)
    changed = Graph(definition("a > b", "b > c"))
    assert kinds(game.do(cmd.MigrateRun(ANN), session=None, graph=changed)) == ["RunMigrated", "GateWithdrawn"]
    game.graph = changed
    assert kinds(game.tick(session=OTHER)) == ["StepStarted"]
    assert kinds(game.complete("b")) == ["StepCompleted", "StepStarted"]


def test_a_run_that_waits_for_a_person_needs_no_code_until_the_answer_has_come() -> None:
    game = stranded("a > ask > b", node("ask", "human_gate"))
    game.tick()
    game.human_gate("ask", timeout_ms=86_400_000)
    assert find(game, NEWER) == []
    assert game.status == "waiting"
    assert kinds(find(game, NEWER, after_s=86_400)) == ["GateEscalated"], "its deadline still counts"
    game.decide("approve")
    assert game.status == "running"
    assert kinds(find(game, NEWER)) == ["GateOpened"]
    assert game.status == "requires_attention"


def test_a_step_that_waits_for_its_place_needs_the_code_too() -> None:
    game = stranded("a > b", node("b", demand=GPU))
    assert (game.status, game.due_ms) == ("waiting", None)
    assert kinds(find(game, NEWER)) == ["GateOpened"]
    assert game.status == "requires_attention"
    assert [(wait.kind, wait.reason) for wait in game.waits] == [("gate", MISSING), ("worker", "placement")]
    assert find(game, ANOTHER) == []
    assert kinds(game.tick(session=OTHER, placed=["b#1"])) == ["GateWithdrawn", "StepStarted"]


def test_the_question_is_withdrawn_when_the_code_is_back_although_there_is_no_place() -> None:
    game = stranded("a > b", node("b", demand=GPU))
    find(game, NEWER)
    assert game.due_ms is not None, "a process that has the code must find it, and it cannot place it"
    assert kinds(game.tick(session=OTHER)) == ["GateWithdrawn"]
    assert (game.status, game.due_ms) == ("waiting", None)


def test_a_paused_run_whose_step_waits_for_its_place_waits_for_a_person_already() -> None:
    game = stranded("a > b", node("b", demand=GPU))
    game.pause()
    assert find(game, NEWER) == []
    game.resume(session=None)
    assert kinds(find(game, NEWER)) == ["GateOpened"]
    game.pause()
    assert game.due_ms is None


@pytest.mark.parametrize("wait", ["timer", "retry", "guard", "lost", "yielded"])
def test_whatever_has_come_needs_the_code(wait: str) -> None:
    game = Game(graph(edge("a", "b", guard="may")) if wait == "guard" else graph("a > b"))
    dead = ()
    match wait:
        case "timer":
            game.sleep("a", 3600)
            assert find(game, NEWER) == []
        case "retry":
            game.fail("a", TRANSIENT)
        case "guard":
            game.complete("a", session=None)
        case "lost":
            dead = (WORKER,)
        case _:
            game.do(cmd.SuspendStep(*game.at("a"), yields=True), session=None)
    assert kinds(find(game, NEWER, after_s=3600, dead=dead))[-1] == "GateOpened"
    assert game.status == "requires_attention"
    assert game.gate.reason == MISSING


def test_a_paused_run_and_one_at_its_limit_wait_for_a_person_already() -> None:
    game = stranded()
    game.pause()
    assert find(game, NEWER) == []
    game.resume(session=None)
    assert kinds(find(game, NEWER)) == ["GateOpened"]
    limited = stranded("a > b > c", limits={"max_steps": 1})
    assert kinds(find(limited, NEWER)) == []
    assert limited.gate.reason == "max_steps"


def test_the_question_takes_no_decision_but_the_run_takes_every_command() -> None:
    game = stranded("a > b > c", limits={"max_steps": 5})
    find(game, NEWER)
    for decision in ("approve", "answer", "reject", "retry"):
        with pytest.raises(InvalidDecision, match=r"takes no decision.*gates show"):
            game.decide(decision)
    for command in (cmd.RaiseLimit("steps", 10, ANN), cmd.SendSignal("news"), cmd.PauseRun(ANN)):
        assert len(game.do(command, session=None)) == 1
    assert game.status == "paused"
    game.resume(session=None)
    assert game.status == "requires_attention"
    assert "RunCancelled" in kinds(game.do(cmd.CancelRun(by=ANN), session=None))
    assert game.state.gates == {}


def test_undoing_needs_the_code_as_well() -> None:
    game = Game(graph("a > b"))
    game.effect("a", compensation="undo")
    game.complete("a", session=None)
    find(game, NEWER)
    game.do(cmd.CancelRun("no longer needed", ANN), session=None)
    assert game.state.gates == {}
    assert kinds(find(game, NEWER)) == ["GateOpened"]
    assert game.status == "requires_attention"
    assert set(kinds(game.tick(session=OTHER))) == {"StepStarted", "GateWithdrawn"}
