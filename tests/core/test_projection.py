"""The rows beside the history follow from it: each commit says exactly what it changes."""

from __future__ import annotations

import msgspec

from holdfast.core.values.payload import inline
from holdfast.core.views.projection import EffectChange, GateChange, StartKey
from tests.core.game import OTHER, RUN, START_MS, Game, graph, node


def test_a_run_is_one_row() -> None:
    game = Game(graph("a > b", limits={"max_lifespan_s": 60}), limit=100, key="k")
    events = game.hold("a", 30)
    row = game.rows(events).run
    assert (row.run, row.seq, row.tenant, row.workflow, row.version) == (RUN, 3, "acme", "flow", 1)
    assert (row.graph_hash, row.status, row.key) == (game.graph.hash, "running", "k")
    assert (row.limit_nanousd, row.settled_nanousd, row.held_nanousd, row.in_doubt_nanousd) == (100, 0, 30, 0)
    assert (row.started_at_ms, row.updated_at_ms, row.ended_at_ms) == (START_MS, START_MS, None)
    assert row.due_at_ms == START_MS + 60_000
    assert row.waiting_for == b"[]"


def test_the_row_says_what_the_run_waits_for() -> None:
    game = Game(graph("a > b"))
    events = game.sleep("a", 60)
    row = game.rows(events).run
    assert row.status == "waiting"
    (wait,) = msgspec.json.decode(row.waiting_for)
    assert (wait["kind"], wait["due_at_ms"]) == ("timer", START_MS + 60_000)


def test_the_row_of_an_ended_run_says_when() -> None:
    game = Game(graph("a"))
    game.now_ms += 500
    row = game.rows(game.complete("a")).run
    assert (row.status, row.ended_at_ms, row.due_at_ms) == ("completed", START_MS + 500, None)


def test_a_start_key_is_claimed_by_the_first_commit_only() -> None:
    game = Game(graph("a > b"), start=False)
    first = game.start({"n": 1}, key="order-7")
    assert game.rows(first).start_key == StartKey("acme", "order-7", RUN, game.state.input_digest)
    assert game.rows(game.complete("a")).start_key is None
    game = Game(graph("a > b"), start=False)
    assert game.rows(game.start()).start_key is None


def test_a_gate_is_a_row_and_everything_that_becomes_of_it_a_change() -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > end"))
    gate = game.human_gate("gate", timeout_ms=60_000, remind_every_ms=30_000, reviewers=("bob",))
    (row,) = game.rows(game.events()).gates
    assert (row.gate, row.run, row.step, row.reason, row.reviewers) == (gate, RUN, "gate#1", "approval", ("bob",))
    assert (row.opened_at_ms, row.due_at_ms) == (START_MS, START_MS + 60_000)
    assert game.rows(game.tick(30)).gate_changes == (GateChange(gate, "open", START_MS + 30_000, reminders=1),)
    both = game.rows(game.tick(30)).gate_changes
    assert set(both) == {GateChange(gate, "escalated", START_MS + 60_000, reminders=2)}, "a reminder takes nothing back"
    assert game.rows(game.tick(30)).gate_changes[0].state == "escalated"
    decided = game.rows(game.decide("approve", by="bob"), executing=False)
    assert decided.gate_changes == (GateChange(gate, "decided", START_MS + 90_000, decision="approve", by="bob"),)


def test_a_withdrawn_gate_is_a_change() -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > end"))
    gate = game.human_gate("gate")
    assert game.rows(game.cancel()).gate_changes == (GateChange(gate, "withdrawn", START_MS),)


def test_an_effect_is_a_line_of_the_ledger_with_its_key_and_its_request() -> None:
    game = Game(graph("a > b"))
    events = game.intend("a", "verify")
    (row,) = game.rows(events).effects
    assert (row.run, row.step, row.tool, row.policy, row.intended_at_ms) == (RUN, "a#1", "send", "verify", START_MS)
    assert row.key == game.op("a").key
    assert row.request == inline({"to": "bob"})


def states(game: Game, events: object) -> list[str]:
    return [change.state for change in game.rows(events).effect_changes]


def test_every_outcome_changes_its_line() -> None:
    game = Game(graph("a > b"))
    calls = [game.intended("a", "once", path=str(n)) for n in range(4)]
    call = game.intended("a", "idempotent", path="4")
    (change,) = game.rows(game.did(calls[0], {"id": 7})).effect_changes
    assert change == EffectChange(calls[0], "completed", START_MS, inline({"id": 7}))
    (change,) = game.rows(game.did_not(calls[1])).effect_changes
    assert (change.state, change.error) == ("failed", "it went wrong (tool)")
    assert states(game, game.never_left(calls[2])) == ["released"]
    assert states(game, game.doubt(calls[3])) == ["in_doubt"]
    assert states(game, game.doubt(call)) == ["in_doubt"], "what is not known is not said to have failed"
    gate = game.gate.gate
    game.decide("retry", gate)
    assert states(game, game.events()[-2:]) == ["repeated"]
    game.intended("a", path="3")
    assert states(game, game.did(calls[3])) == ["orphaned"]


def test_a_persons_word_about_an_effect_is_on_its_line() -> None:
    game = Game(graph("a > b"))
    call = game.intended("a")
    game.doubt(call)
    (change,) = game.rows(game.decide("answer", data={"id": 7}, by="bob")).effect_changes
    assert (change.call, change.state, change.by) == (call, "completed", "bob")


def test_the_sessions_to_watch_are_those_with_attempts_or_calls_in_flight() -> None:
    game = Game(graph("a > end", "b > end"))
    assert game.rows(game.events()).sessions == ("worker",)
    game.intended("a")
    lost = game.lose()
    assert game.rows(lost).sessions == (OTHER,)
    game.sleep("a", 60, path="1")
    assert game.rows(game.sleep("b", 60)).sessions == ()


def test_a_call_outlives_the_attempt_that_made_it() -> None:
    game = Game(graph("a > j", "b > j", node("j", join="any")))
    call = game.intended("a")
    events = game.complete("b", session=None)
    assert game.step("a").status == "cancelled"
    assert game.rows(events).sessions == ("worker",), "somebody must notice if its sender dies"
    assert game.rows(game.did(call)).sessions == ("worker",) or not game.active
