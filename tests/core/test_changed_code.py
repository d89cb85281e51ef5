"""A step whose code no longer asks for what its journal holds: it stops, asks, and does nothing twice, whatever is answered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.facts.state import FUNCTION, MAP
from holdfast.core.people.changed_code import MAX_STOPS
from holdfast.core.values.ids import comes_from, gathers_around
from holdfast.core.values.payload import inline
from holdfast.errors import InvalidDecision
from tests.core.game import Game, Path, cmd, edge, graph, kinds

LONG_S = 600


def stopped() -> Game:
    """It has paid, asked and been answered; then something else was put before the question."""
    game = Game(graph("a > b"))
    game.effect("a", "0")
    game.open_gate("a", "1")
    game.suspend("a")
    game.decide("approve")
    game.tick()
    game.stop("a", "1")
    return game


def test_it_stops_and_asks_and_the_run_fails_of_nothing() -> None:
    game = stopped()
    assert (game.status, game.gate.reason, game.gate.subject) == ("requires_attention", "code_changed", "a#1")
    assert (game.step("a").status, game.active) == ("retrying", [])
    shown = game.gate.shown.value()
    assert "At 1 the journal holds gate 'question', and the code now asks for sleep" in shown["message"]
    assert set(shown["answers"]) == set(game.gate.allowed) == {"retry", "approve", "answer", "reject"}
    assert "gate 'question' at 1" in shown["answers"]["approve"]
    assert "tool" not in shown["answers"]["answer"]


def test_with_the_old_code_back_it_goes_on_by_itself_and_the_question_is_withdrawn() -> None:
    game = stopped()
    assert game.due_ms == 5_000
    assert kinds(game.tick(5)) == ["StepStarted"]
    assert kinds(game.complete("a")) == ["GateWithdrawn", "StepCompleted", "StepStarted"] or not game.state.gates
    game.complete("b")
    assert game.status == "completed"


def test_it_tries_by_itself_ever_more_rarely_and_only_so_often() -> None:
    game = stopped()
    waits, gate = [], game.gate.gate
    for _ in range(MAX_STOPS - 1):
        before = game.now_ms
        game.tick((game.due_ms or 0) / 1000)
        assert game.active == ["a"]
        waits.append(game.now_ms - before)
        game.stop("a", "1")
    assert (game.gate.gate, game.due_ms, game.step("a").status) == (gate, None, "suspended")
    assert game.tick(86_400) == []
    game.decide("retry")
    game.tick()
    assert game.active == ["a"]
    game.stop("a", "1")
    assert game.gate.gate != gate
    assert game.step("a").stops == 1


def test_another_difference_is_another_question() -> None:
    game = stopped()
    first = game.gate.gate
    game.tick(5)
    game.stop("a", "1", asked="signal 'go'")
    assert game.gate.gate != first


def test_approved_divergence_reuses_only_the_same_completed_operations() -> None:
    game = stopped()
    assert kinds(game.decide("approve")) == ["GateDecided", "JournalDropped"]
    game.tick()
    assert [game.op("a", "0").status, *game.step("a").kept] == ["done", "1"]
    game.sleep("a", 0, "1")
    game.tick(1)
    assert kinds(game.open_gate("a", "2")) == ["OperationReused"]
    assert (game.op("a", "2").status, game.step("a").kept) == ("done", {})
    assert kinds(game.open_gate("a", "3")) == ["GateOpened"], "it had been asked once"


def test_of_equal_calls_each_keeps_what_became_of_it_at_its_place() -> None:
    """Whichever the new code asks for first: what a person decided about one call is not the other's."""
    game = Game(graph("a"))
    game.sleep("a", 0, "0")
    game.tick(1)
    for path, response in (("1.0.0", "edited"), ("1.2.0", "done by hand")):
        game.did(game.intended("a", path=path), response)
    game.stop("a", "0")
    game.decide("approve")
    game.tick()
    for path, response in (("1.2.0", "done by hand"), ("1.0.0", "edited")):
        assert kinds(game.intend("a", path=path)) == ["OperationReused"]
        outcome = game.op("a", path).outcome
        assert outcome is not None
        assert outcome.value() == response


def test_an_effect_is_not_done_twice_wherever_the_new_code_asks_for_it() -> None:
    game = stopped()
    assert kinds(game.decide("answer", data="restart")) == ["GateDecided", "JournalDropped"]
    game.tick()
    assert game.step("a").journal == {}
    game.sleep("a", 0, "0")
    game.tick(1)
    assert kinds(game.intend("a", path="1")) == ["OperationReused"]
    assert kinds(game.open_gate("a", "2")) == ["GateOpened"], "answers are asked for again"


@pytest.mark.parametrize(("decision", "data"), [("approve", None), ("answer", "restart")])
def test_other_code_does_not_repeat_an_effect_whose_outcome_came_too_late(decision: str, data: str | None) -> None:
    game = Game(graph("a"))
    call = game.intended("a", policy="idempotent")
    game.doubt(call)
    assert game.op("a").status == "failed"
    game.did(call, "late")
    game.stop("a")
    answers = game.gate.shown.value()["answers"]
    assert "gets what is there: tool 'send' at 0." in answers["approve"]
    game.decide(decision, data=data)
    game.tick()
    assert kinds(game.intend("a", policy="idempotent")) == ["OperationReused"]
    op = game.op("a")
    assert (op.status, op.error, op.outcome and op.outcome.value()) == ("done", None, "late")


def test_what_the_new_code_asks_for_otherwise_has_a_name_of_its_own() -> None:
    game = stopped()
    game.decide("answer", data="restart")
    game.tick()
    call = game.intended("a", path="0", args="other")
    (first, second) = [event for event in game.events() if type(event).__name__ == "EffectIntended"]
    assert first.call != call == second.call
    assert first.key != second.key


def test_nothing_of_unknown_outcome_is_dropped() -> None:
    game = Game(graph("a"))
    game.doubt(game.intended("a", path="1"))
    game.tick()
    game.do(cmd.StopStep(*game.at("a"), Path("1"), {"operation": "tool"}, {"operation": "sleep"}))
    (gate,) = [id_ for id_, each in game.state.gates.items() if each.opened.reason == "code_changed"]
    for decision, data in (("approve", None), ("answer", "restart")):
        with pytest.raises(InvalidDecision, match="it is not known yet what became of the call"):
            game.decide(decision, gate, data)
    with pytest.raises(InvalidDecision, match="the only answer"):
        game.decide("answer", gate, {"yes": 1})


def test_rejected_it_fails_like_any_other_step_and_can_be_taken_up() -> None:
    game = stopped()
    game.decide("reject")
    assert game.status == "failed"
    assert game.state.error is not None
    assert game.state.error.error_class == "non_deterministic"
    game.retry()
    assert (game.active, game.op("a", "0").status) == (["a"], "done")
    game = Game(graph(edge("a", "mend", on="error")))
    game.effect("a")
    game.stop("a")
    game.decide("reject")
    game.tick()
    assert game.active == ["mend"]


def test_an_unanswered_gate_is_withdrawn_with_its_journal() -> None:
    game = Game(graph("a"))
    game.open_gate("a", "0")
    (asked,) = game.state.gates
    game.stop("a", "0")
    (changed,) = [id_ for id_ in game.state.gates if id_ != asked]
    game.decide("approve", changed)
    assert game.state.gates == {}
    game.tick()
    game.open_gate("a", "0")
    assert list(game.state.gates) != [asked]


@pytest.mark.parametrize(
    ("path", "first", "comes"),
    [
        ("1", "1", True),
        ("2", "1", True),
        ("0", "1", False),
        ("10", "9", True),
        ("1.approval", "1", True),
        ("1.0.0", "1", True),
        ("2.0.1", "2.0.0", True),
        ("2.1.0", "2.0.0", False),
        ("3", "2.1.0", True),
        ("2", "2.0.0", False),
        ("call-2.0", "call-1.0", False),
        ("~0.2", "~0.1", True),
        ("~1.0", "~0.0", False),
        ("~0.~1.0", "~0.0", False),
        ("~0.1-0", "~0.5", True),
        ("~0.1-2", "~0.1-1", True),
        ("~0.2-0", "~0.1-9", True),
        ("~0.5", "~0.1-0", False),
        ("0", "~0.0", False),
        ("1-0.1.0", "1-0.0.0", False),
        ("1-1", "1-0.0.0", True),
        ("~0.@2", "~0.@1", False),
        ("~0.@1", "~0.0", False),
        ("~10.0", "~1", False),
        ("call-1.1", "call-1.0", True),
        ("1", "call-1.0", False),
    ],
)
def test_what_comes_after_a_place(path: str, first: str, comes: bool) -> None:
    assert comes_from(Path(path), Path(first)) is comes


def test_the_gathers_around_a_place() -> None:
    assert list(gathers_around(Path("2.0.1.3.0"))) == ["2", "2.0.1"]
    assert list(gathers_around(Path("~0.1-2.0.1"))) == ["~0.1-2"]
    assert list(gathers_around(Path("~0.~1.2"))) == list(gathers_around(Path("~0.@1"))) == []
    assert list(gathers_around(Path("call-1.0"))) == list(gathers_around(Path("2.approval"))) == []


# --- Where tasks have rows of their own -----------------------------------------------------------------------------------


def returned(game: Game, path: str) -> None:
    value = cmd.Value(Path(path), FUNCTION, None, inline(path), f"step {path}", "args")
    game.do(cmd.RecordValues(*game.at("a"), (value,)))


def accepted(game: Game, path: str) -> set[str]:
    """What is left of the journal after the code as it is was accepted from `path` on."""
    game.stop("a", path)
    (changed,) = [id_ for id_, gate in game.state.gates.items() if gate.opened.reason == "code_changed"]
    game.decide("approve", changed)
    game.tick()
    return {str(each) for each in game.step("a").journal}


def test_what_came_before_in_other_tasks_stays_and_what_came_after_goes() -> None:
    game = Game(graph("a"), naming=2)
    for path in ("~1.0", "~0.0", "~2.0", "0"):
        returned(game, path)
    game.await_signal("a", "go", path="1")
    assert accepted(game, "~0.0") == {"~1.0"}
    assert set(game.step("a").kept) == {"~0.0", "~2.0", "0"}
    game.do(cmd.ReuseOperation(*game.at("a"), Path("~2.0"), FUNCTION, "step ~2.0", "args"))
    assert (game.op("a", "~1.0").settled, game.op("a", "~2.0").settled) == (1, 5)


def test_what_has_no_outcome_decides_nothing_about_what_has_one() -> None:
    game = Game(graph("a"), naming=2)
    returned(game, "~1.0")
    game.open_gate("a", "~0.0")
    returned(game, "~1.1")
    assert accepted(game, "~0.0") == {"~1.0", "~1.1"}
    assert not game.state.gates, "the question is asked anew"


def test_the_items_of_a_later_map_go_with_it_and_those_of_an_earlier_one_stay() -> None:
    game = Game(graph("a"), naming=2)
    returned(game, "~0.0")
    for path in ("~1.0", "~2.0"):
        game.do(cmd.MapItems(*game.at("a"), Path(path), "check", "list", 1, 1, 1))
    game.complete("a/~1.0[0]")
    game.do(cmd.RecordValues(*game.at("a"), (cmd.Value(Path("~1.0"), MAP, None, inline([]), "check", "list"),)))
    returned(game, "~0.1")
    assert accepted(game, "~0.1") == {"~0.0", "~1.0"}
    assert [*game.state.maps] == ["a/~1.0"]


@given(st.lists(st.sampled_from(["step", "gate", "signal", "child"]), min_size=1, max_size=6), st.data())
def test_a_flow_that_does_one_thing_after_another_drops_the_same_by_either_rule(kinds_: list[str], data: st.DataObject) -> None:
    """Each operation but the last has its outcome before the next begins."""
    dropped = []
    first = str(data.draw(st.integers(0, len(kinds_) - 1)))
    for naming in (1, 2):
        game = Game(graph("a"), naming=naming)
        for number, kind in enumerate(kinds_):
            is_last = number + 1 == len(kinds_)
            if kind == "step":
                returned(game, str(number))
            elif kind == "gate":
                game.open_gate("a", str(number))
                if not is_last:
                    game.decide("approve")
            elif kind == "signal":
                game.await_signal("a", "go", path=str(number))
                if not is_last:
                    game.signal("go")
            else:
                child = game.child("a", str(number))
                if not is_last:
                    game.end_child(child)
        dropped.append((accepted(game, first), set(game.step("a").kept), set(game.state.gates)))
    assert dropped[0] == dropped[1]


@given(st.permutations(["0", "1", "~0.0", "~0.1", "~1.0", "~1.1-0", "~0.~0.0"]), st.data())
def test_nothing_stays_that_may_have_come_of_what_goes(order: list[str], data: st.DataObject) -> None:
    """What stays is what came before in the history, and nothing in the row of what goes."""
    rows = {"1": 1, "~0.1": 1, "~1.1-0": 1}
    order = sorted(order, key=lambda path: (rows.get(path, 0), order.index(path)))
    game = Game(graph("a"), naming=2)
    open_ = data.draw(st.integers(0, 2))
    for path in order[: len(order) - open_]:
        returned(game, path)
    for path in order[len(order) - open_ :]:
        game.await_signal("a", "go", path=path)
    first = data.draw(st.sampled_from(order[: len(order) - open_]))
    assert accepted(game, first) == set(order[: order.index(first)])
