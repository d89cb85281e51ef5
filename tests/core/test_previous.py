"""A loop carries something back: its later visit sees what the visit before came to, that one alone, and the last at its end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.authoring.values.view import StateView
from holdfast.core.facts.state import State
from holdfast.core.values.payload import inline
from tests.core.game import Game, edge, graph, loop, node


def view(game: Game) -> StateView:
    """What a handler would see now, of a state that was written down and read again."""
    state = msgspec.json.decode(msgspec.json.encode(game.state), type=State)
    assert state == game.state
    return StateView(state, lambda payload: payload.value())


def reviewed(*more: object, **options: Any) -> Game:
    """draft → critique, and back until the critique passes."""
    review = (node("critique", "check"), loop("critique", "draft", 3), "draft > critique > publish")
    return Game(graph(*review, *more, **options))


def critique(game: Game, draft: str, decision: str, why: str) -> None:
    game.complete("draft", draft)
    game.complete("critique", {"decision": decision, "reason": why}, decision)
    game.tick()


def test_a_later_visit_sees_what_the_visit_before_came_to() -> None:
    game = reviewed()
    seen = view(game)
    assert (seen.previous["draft"], seen.previous["critique"], seen.previous["no such node"]) == (None, None, None)
    critique(game, "rough", "retry", "too rough")
    seen = view(game)
    draft, told = seen.previous["draft"], seen.previous["critique"]
    assert draft is not None
    assert told is not None
    assert (draft.output, draft.visit, draft.status) == ("rough", 1, "completed")
    assert (told.output.reason, told.decision) == ("too rough", "retry")
    assert list(seen.events) == [], "what a loop has gone back over is no output of the run"
    assert set(seen.previous) == {"draft", "critique"}


def test_only_the_visit_before_is_kept() -> None:
    game = reviewed()
    for number in (1, 2):
        critique(game, f"draft {number}" + "x" * 1000, "retry", f"no {number}")
    draft = view(game).previous["draft"]
    assert draft is not None
    assert (draft.output[:7], draft.visit) == ("draft 2", 2)
    assert b"draft 1" not in msgspec.json.encode(game.state)
    critique(game, "draft 3", "pass", "")
    assert view(game).events["draft"].output == "draft 3"
    assert draft.output[:7] == "draft 2", "after the loop as well"


def test_a_node_that_the_last_time_round_did_not_reach_has_no_visit_before() -> None:
    """Else a draft would be mended by what was said of the one before it."""
    ways = ("draft > slow > advice > good", "draft > good", "advice > archive")
    game = Game(graph(*ways, node("good", "check", join="any"), loop("good", "draft", 4)))
    for reached in (True, False):
        game.complete("draft")
        if reached:
            game.complete("slow")
            game.complete("advice", "name the price")
        game.complete("good", None, "retry")
        game.tick()
        advice = view(game).previous["advice"]
        assert (advice.output if advice is not None else None) == ("name the price" if reached else None)
    assert set(view(game).previous) == {"draft", "good"}


def test_a_node_that_was_skipped_has_no_visit_before() -> None:
    """Else whoever asks whether there was one reads an output that there never was."""
    ways = (node("judge", "branch"), edge("judge", "ask", when="ask"), edge("judge", "draft", when="draft"))
    game = Game(graph("read > judge", *ways, node("ask", "human_gate"), loop("ask", "read", 3, when="retry")))
    game.complete("read")
    game.complete("judge", None, "ask")
    game.human_gate("ask")
    game.decide("retry")
    game.tick()
    seen = view(game)
    assert (seen.previous["draft"], set(seen.previous)) == (None, {"read", "judge", "ask"})


def test_a_step_that_a_loop_has_interrupted_is_no_visit_before() -> None:
    game = Game(graph("a > check > end", "a > slow > end", node("check", "check"), loop("check", "a", 3)))
    game.complete("a")
    game.complete("check", None, "retry")
    game.tick()
    assert view(game).previous["slow"] is None
    assert view(game).previous["a"] is not None


@pytest.mark.parametrize("reason", ["name the price", None])
def test_a_gate_that_goes_back_says_why(reason: str | None) -> None:
    game = Game(graph("draft > gate > publish", node("gate", "human_gate"), loop("gate", "draft", 2, when="retry")))
    game.complete("draft", "a letter")
    game.human_gate("gate", shown="a letter")
    game.decide("retry", by="bob", reason=reason)
    game.tick()
    gate = view(game).previous["gate"]
    assert gate is not None
    assert (gate.decision, gate.reason, gate.payload["reason"], gate.output) == ("retry", reason, reason, None)


def test_a_rejection_gives_its_reason_to_the_next_attempt() -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > publish", edge("gate", "sorry", when="reject")))
    game.human_gate("gate")
    game.decide("reject", data={"tone": "rude"}, reason="not like this")
    game.tick()
    assert view(game).events["gate"].payload == {"reason": "not like this", "tone": "rude"}
    assert view(game).events["gate"].output == {"tone": "rude"}, "the output is what the person gave"


def test_an_approval_is_the_data_of_its_form_and_nothing_besides() -> None:
    form = {"type": "object", "properties": {"n": {}}}
    game = Game(graph(node("gate", "human_gate"), "gate > publish"))
    game.human_gate("gate", form=form, filled=inline({"n": 1}))
    game.decide("approve", reason="well done")
    gate = view(game).events["gate"]
    assert (gate.payload, gate.reason) == ({"n": 1}, "well done")


# --- A loop that is used up ---------------------------------------------------------------------------------------------


def test_the_exit_of_a_used_up_loop_sees_the_last_draft_and_its_critique() -> None:
    game = reviewed(edge("critique", "editor", on="error"))
    for number in (1, 2, 3):
        critique(game, f"draft {number}", "retry", f"no {number}")
    assert game.active == ["editor"]
    seen = view(game)
    assert seen.events["draft"].output == "draft 3"
    assert seen.events["critique"].status == "failed"
    assert seen.events["critique"].output.reason == "no 3"
    before = seen.previous["draft"]
    assert before is not None
    assert before.output == "draft 2"


def test_a_dead_letter_of_a_loop_that_is_used_up_shows_the_last_draft() -> None:
    game = reviewed(on_exhausted="dead_letter")
    for number in (1, 2, 3):
        critique(game, f"draft {number}" + "x" * (40_000 if number == 3 else 0), "retry", f"no {number}")
    shown = game.gate.shown.value()
    assert shown["step"] == "critique#3"
    assert shown["at_hand"]["critique"] == {"decision": "retry", "reason": "no 3"}
    assert shown["at_hand"]["draft"] == "(40009 bytes, too much to be shown here)"


def test_a_conversation_goes_with_the_visit_that_had_it() -> None:
    game = reviewed()
    turns = inline([{"type": "user", "text": "begin"}])
    game.complete("draft", "rough", conversation=turns)
    game.complete("critique", None, "retry")
    game.tick()
    assert game.state.previous["draft"].conversation == turns
    critique(game, "other", "retry", "no")
    assert game.state.previous["draft"].conversation is None
