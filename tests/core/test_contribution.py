"""Everybody who contributed to a run is known, and none of them decides a question that needs a second pair of eyes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
import pytest

from holdfast.core.facts import contribution
from holdfast.core.facts.contribution import authors, contributors
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import OTHERS
from holdfast.core.values.ids import GateId, Path, RunId, StepId
from holdfast.core.values.payload import inline
from holdfast.errors import Conflict, DecisionRefused, InvalidDecision, InvalidInput
from tests.core.game import NULL, Actor, Game, cmd, edge, ev, graph, kinds, node

BOB, EVE = Actor("bob"), Actor("eve")
Makers: TypeAlias = dict[str, tuple[str, ...]]
FORM = {"type": "object", "properties": {"to": {"type": "string"}, "note": {"type": "string"}}, "required": ["to"]}
FILLED = inline({"to": "ann"})


def started(**more: object) -> Game:
    """A run of ann's with a step that has come to nothing, and a gate with four eyes to come."""
    return Game(graph("work", node("gate", "human_gate"), on_exhausted="dead_letter"), by="ann", **more)


def asked(game: Game, **more: object) -> None:
    game.human_gate("gate", **{"four_eyes": True, "form": FORM, "filled": FILLED, **more})


def _signals(game: Game) -> None:
    game.do(cmd.SendSignal("go", inline({"to": "bob"}), BOB), session=None)


def _message(game: Game) -> None:
    game.do(cmd.SendMessage(1, inline("to bob"), BOB), session=None)


def _edits(game: Game) -> None:
    game.fail("work")
    game.do(cmd.EditDeadLetter(StepId("work#1"), inline({"to": "bob"}), BOB), session=None)
    game.do(cmd.RetryDeadLetter(StepId("work#1"), Actor("ann")), session=None)


def _replays(game: Game) -> None:
    game.fail("work")
    game.do(cmd.RetryDeadLetter(StepId("work#1"), BOB), session=None)


def _says_what_it_came_to(game: Game) -> None:
    game.fail("work")
    game.decide("answer", by=BOB, data={"to": "bob"})


def _resolves(game: Game) -> None:
    game.doubt(game.intended("work"))
    game.tick()
    game.decide("answer", by=BOB, data={"to": "bob"}, given=True)


def _migrates(game: Game) -> None:
    changed = Graph(msgspec.structs.replace(game.graph.definition, version=2))
    game.do(cmd.MigrateRun(BOB), session=None, graph=changed)
    game.graph = changed


def _ends_a_child(game: Game) -> None:
    child = game.child("work")
    game.do(cmd.EndChild(child, "completed", inline("to bob"), contributors=("bob",)))


def _acts_with_a_key_of_his(game: Game) -> None:
    game.do(cmd.SendSignal("go", NULL, Actor("keys.k", "", "keys.k", maker="bob")), session=None)


WAYS = (
    _signals,
    _message,
    _edits,
    _replays,
    _says_what_it_came_to,
    _resolves,
    _migrates,
    _ends_a_child,
    _acts_with_a_key_of_his,
)


@pytest.mark.parametrize("way", WAYS)
def test_no_contributor_decides_a_gate_with_four_eyes(way: Callable[[Game], None]) -> None:
    game = started()
    way(game)
    assert "bob" in contributors(game.state)
    asked(game)
    for decision in ("approve", "edit", "reject"):
        with pytest.raises(DecisionRefused, match="' Bob' contributed to the run"):
            game.decide(decision, by=" Bob", data={"to": "eve"} if decision == "edit" else None)
    game.decide("approve", by="eve")


def test_who_contributes_while_a_question_is_open_does_not_decide_it() -> None:
    game = started()
    asked(game)
    _signals(game)
    with pytest.raises(DecisionRefused, match="'bob' contributed to the run"):
        game.decide("approve", by="bob")


def test_who_started_with_a_key_acts_along_with_who_made_it() -> None:
    game = Game(graph(node("gate", "human_gate")), by=Actor("keys.k", "", "keys.k", maker="bob"))
    asked(game)
    for by in (BOB, Actor("eve", "", "keys.other", maker="bob"), Actor("keys.k", "", "keys.k")):
        with pytest.raises(DecisionRefused, match="second pair of eyes"):
            game.decide("approve", by=by)
    game.decide("approve", by="eve")


def test_what_it_was_started_with_may_have_more_than_one_author() -> None:
    game = Game(graph(node("gate", "human_gate")), by="ann", contributors=("bob",))
    asked(game)
    with pytest.raises(DecisionRefused, match="'bob' contributed"):
        game.decide("approve", by="bob")


@pytest.mark.parametrize("four_eyes", [True, False])
def test_an_approval_clears_no_person_and_is_no_contribution(four_eyes: bool) -> None:
    """What the question has shown of what was contributed is not known: it may be about something else."""
    game = Game(graph(node("one", "human_gate"), node("two", "human_gate"), "one > two"), by="ann", contributors=("dan",))
    _signals(game)
    game.human_gate("one", four_eyes=four_eyes, form=FORM, filled=FILLED)
    game.do(cmd.SendSignal("go", NULL, Actor("cyd")), session=None)
    game.decide("approve", by="eve")
    assert contributors(game.state) == ("dan", "bob", "cyd")
    game.tick()
    game.human_gate("two", four_eyes=True)
    for by in ("ann", "bob", "cyd", "dan"):
        with pytest.raises(DecisionRefused, match="second pair of eyes"):
            game.decide("approve", by=by)
    game.decide("approve", by="eve")


def test_an_edit_that_another_person_has_approved_is_cleared() -> None:
    """It is what the question has shown."""
    game = Game(graph(node("one", "human_gate"), node("two", "human_gate"), "one > two"), by="ann")
    asked_first = {"four_eyes": True, "form": FORM, "filled": FILLED}
    game.human_gate("one", **asked_first)
    game.decide("edit", by="bob", data={"to": "bob"})
    with pytest.raises(DecisionRefused, match="'bob' contributed"):
        game.decide("approve", by="bob")
    game.decide("approve", by="eve")
    assert contributors(game.state) == ()
    game.tick()
    game.human_gate("two", four_eyes=True)
    game.decide("approve", by="bob")


@pytest.mark.parametrize(("decision", "data"), [("edit", {"to": "eve"}), ("answer", {"to": "eve"}), ("approve", {"note": "x"})])
def test_who_says_more_than_yes_or_no_contributes(decision: str, data: dict[str, str]) -> None:
    game = Game(graph(node("one", "human_gate"), node("two", "human_gate"), "one > two"), by="ann")
    game.human_gate("one", form=FORM, filled=FILLED)
    game.decide(decision, by="eve", data=data)
    assert contributors(game.state) == ("eve",)


WORDS = ("approve", "to_legal", "reject", "retry")


def asks_in_words(game: Game, path: str = "0", reason: str = "question", **more: object) -> None:
    game.do(cmd.OpenGate(*game.at("work"), Path(path), reason, "h", inline(5), "h", WORDS, **more))


@pytest.mark.parametrize(
    ("decision", "data", "reason", "contributes"),
    [
        ("to_legal", {"to": "bob"}, None, True),
        ("to_legal", None, "pay bob", True),
        ("to_legal", None, None, False),
        ("reject", {"to": "bob"}, None, True),
        ("reject", None, "pay bob", True),
        ("reject", None, None, False),
        ("retry", None, "pay bob", True),
        ("retry", None, None, False),
        ("approve", None, "pay bob", True),
        ("approve", None, None, False),
    ],
)
def test_who_gives_data_or_a_reason_with_whatever_word_contributes(
    decision: str, data: object, reason: str | None, contributes: bool
) -> None:
    game = Game(graph("work"), by="ann")
    asks_in_words(game)
    game.decide(decision, by=Actor("keys.k", maker="bob"), data=data, reason=reason)
    assert contributors(game.state) == (("keys.k", "bob") if contributes else ())
    asks_in_words(game, "1", four_eyes=True)
    for by in (BOB, Actor("keys.k")) if contributes else ():
        with pytest.raises(DecisionRefused, match="second pair of eyes"):
            game.decide("approve", by=by)
    game.decide("approve", by="eve")


def test_who_gives_content_in_the_starter_s_name_contributes() -> None:
    """By a key that says for whom it speaks, its maker does."""
    game = Game(graph("work"), by="ann")
    asks_in_words(game)
    game.decide("to_legal", by=Actor("ann", "", "keys.k", maker="bob"), data={"to": "bob"})
    assert contributors(game.state) == ("bob",)


def test_a_reason_why_a_call_is_made_is_not_sent_and_is_no_content() -> None:
    game = Game(graph("work"), by="ann")
    asks_in_words(game, reason="tool_approval")
    game.decide("approve", by="bob", reason="as agreed")
    assert contributors(game.state) == ()


@pytest.mark.parametrize("more", [{"four_eyes": True}, {"quorum": 2}])
@pytest.mark.parametrize("decision", ["to_legal", "reject", "retry"])
def test_data_that_no_other_would_see_is_refused_beside_another_word(decision: str, more: dict[str, object]) -> None:
    game = Game(graph("work"), by="ann")
    allowed = tuple(each for each in WORDS if "four_eyes" in more or each != "to_legal")
    game.do(cmd.OpenGate(*game.at("work"), Path("0"), "question", "h", inline(5), "h", allowed, **more))
    if decision not in allowed:
        return
    for data in ({"to": "bob"}, "bob", 0):
        with pytest.raises(InvalidDecision, match="no other person would see the data"):
            game.decide(decision, by="bob", data=data)
    assert len(game.state.gates) == 1
    game.decide(decision, by="bob", reason="no")
    assert contributors(game.state) == ("bob",)


def test_a_reassigned_gate_is_not_given_to_a_contributor() -> None:
    for four_eyes in (True, False):
        game = started()
        _signals(game)
        asked(game, four_eyes=four_eyes, reviewers=("eve",))
        with pytest.raises(DecisionRefused, match="'bob' contributed to, and is not given"):
            game.do(cmd.AssignGate(game.gate.gate, ("BOB", "zoe"), False, Actor("kim")), session=None)
        game.do(cmd.AssignGate(game.gate.gate, ("zoe",), False, Actor("kim")), session=None)


def test_a_contributor_gives_a_gate_to_no_role_of_their_own() -> None:
    for name in ("ann", "bob"):
        game = started()
        _signals(game)
        asked(game, four_eyes=False, reviewers=("eve",))
        for to in ("sales", "role:sales"):
            with pytest.raises(DecisionRefused, match=f"'{name}' asked for or contributed to, and is not given to a role"):
                game.do(cmd.AssignGate(game.gate.gate, (to,), False, Actor(name, roles=("sales",))), session=None)
        game.do(cmd.AssignGate(game.gate.gate, ("legal",), False, Actor(name, roles=("sales",))), session=None)


def test_another_question_is_for_another_person_and_not_for_another_key() -> None:
    game = Game(graph("work"), by="ann")
    one, two, three = (Actor(f"keys.{each}", maker=maker) for each, maker in (("1", "bob"), ("2", "bob"), ("3", "eve")))
    for path, quorum, not_by in (("0", 1, ()), ("1", 1, ("keys.1",))):
        game.do(
            cmd.OpenGate(
                *game.at("work"), Path(path), "question", "h", inline(5), "h", ("approve",), quorum=quorum, not_by=not_by
            )
        )
        for by in (two, BOB, Actor("Keys.1")) if not_by else ():
            with pytest.raises(DecisionRefused, match=r"anyone but keys\.1, bob"):
                game.decide("approve", by=by)
        game.decide("approve", by=three if not_by else one)


def _of_a_child(game: Game, makers: Makers) -> None:
    game.do(cmd.EndChild(game.child("work"), "completed", inline("zed"), makers=makers))


def _of_a_sender(game: Game, makers: Makers) -> None:
    game.do(cmd.SendSignal("go", inline("zed"), sender=RunId("other"), makers=makers), session=None)


def _of_a_parent(game: Game, makers: Makers) -> None:
    game.fail("work")
    game.do(cmd.RetryRun(makers=makers))


def asks_another(game: Game, name: str) -> None:
    at = game.at("work")
    game.do(cmd.OpenGate(*at, Path("8"), "question", "h", inline(5), "h", ("approve",), not_by=(name,)))


@pytest.mark.parametrize("hears", [_of_a_child, _of_a_sender, _of_a_parent])
def test_a_run_knows_who_made_the_keys_that_others_decided_with(hears: Callable[[Game, Makers], None]) -> None:
    """Whoever decides with a key, here or in a run that this one has heard of, is its maker too."""
    game = Game(graph("work", on_exhausted="fail"), by="ann", makers={"yan": ("kim",)})
    hears(game, {"zed": ("bob",)})
    hears_again = cmd.SendSignal("go", NULL, key="k", makers={"zed": ("dan", "bob"), "yan": ()})
    assert kinds(game.do(hears_again, session=None)) == ["SignalReceived", "MakersLearned"]
    asks_another(game, "Zed")
    for by in ("zed", "bob", "dan", Actor("keys.k", "", "keys.k", maker="bob")):
        with pytest.raises(DecisionRefused, match="anyone but Zed, bob, dan"):
            game.decide("approve", by=by)
    game.decide("approve", by="kim")


def test_where_not_all_makers_of_keys_are_kept_no_other_person_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contribution, "MAX_DECIDED_KEPT", 2)
    game = Game(graph("work"), by="ann", makers={"zed": ("bob",), "yan": ("kim",)})
    game.do(cmd.SendSignal("go", NULL, makers={"zed": ("dan",)}), session=None)
    assert game.state.makers == {"zed": ("bob", "dan"), "yan": ("kim",)}
    game.do(cmd.SendSignal("go", NULL, makers={"xia": ("eve",)}), session=None)
    with pytest.raises(InvalidInput, match="Ask without not_by"):
        asks_another(game, "zed")


def test_a_reviewer_who_made_the_key_of_the_one_before_is_no_reviewer() -> None:
    game = Game(graph("work"), by="ann", makers={"zed": ("bob",)})
    at = game.at("work")
    with pytest.raises(InvalidInput, match="bob can never be 2 different persons"):
        game.do(
            cmd.OpenGate(*at, Path("8"), "q", "h", NULL, "h", ("approve",), reviewers=("eve", "bob"), not_by=("zed",), quorum=2)
        )


def test_a_reason_is_content_and_a_draft_sent_back_without_one_is_not() -> None:
    """A model that writes the next draft goes by the reason; the refusal says that."""
    for reason in (None, "pay bob"):
        game = Game(
            graph(node("first", "human_gate"), node("next", "human_gate"), "first > next", edge("first", "next", when="retry")),
            by="ann",
        )
        game.human_gate("first", allowed=("approve", "retry"), four_eyes=True)
        game.decide("retry", by="bob", reason=reason)
        game.tick()
        game.human_gate("next", four_eyes=True)
        if reason is not None:
            with pytest.raises(DecisionRefused, match="answered an earlier question of it with data or a reason"):
                game.decide("approve", by="bob")
        game.decide("approve", by="bob" if reason is None else "eve")


# --- Shared values, and the runs above and below ----------------------------------------------------------------------


def _reads(game: Game) -> None:
    read = cmd.Value(Path("9"), "shared_read", None, NULL, "board/case", authors=("bob", "ann"))
    game.do(cmd.RecordValues(*game.at("work"), (read,)))


def _waits(game: Game) -> None:
    game.do(cmd.AwaitSharedValue(*game.at("work"), Path("9"), "board", "case", "h", 0))
    game.do(cmd.BringSharedValue(StepId("work#1"), Path("9"), NULL, ("bob",)), session=None)


def _changes(game: Game) -> None:
    place = (*game.at("work"), Path("9"), "board", "case", "h", 1)
    game.do(cmd.WriteSharedValue(*place, is_written=True, outcome=NULL, authors=("bob",)))


@pytest.mark.parametrize("way", [_reads, _waits, _changes])
def test_who_wrote_what_a_run_has_read_contributes_and_has_no_hand_in_what_it_writes(way: Callable[[Game], None]) -> None:
    game = Game(graph("work", node("gate", "human_gate")), by="ann", contributors=("cyd",))
    way(game)
    (named,) = game.events(ev.ContributorNamed)
    assert (named.name, named.read, authors(game.state)) == ("bob", "board/case", ("ann", "cyd"))
    asked(game)
    with pytest.raises(DecisionRefused, match="'bob' contributed"):
        game.decide("approve", by="bob")
    _signals(game)
    assert authors(game.state) == ("ann", "cyd", "bob")


def test_what_a_step_has_read_as_it_asks_counts_for_the_question() -> None:
    game = Game(graph("work"), by="ann")
    read = cmd.Value(Path("0"), "shared_read", None, NULL, "board/case", authors=("bob",))
    question = cmd.OpenGate(
        *game.at("work"),
        Path("1"),
        "question",
        "h",
        inline(5),
        "h",
        ("approve",),
        four_eyes=True,
        values=(read,),
        reviewers=("bob",),
    )
    with pytest.raises(InvalidInput, match="Name a reviewer who did not contribute"):
        game.do(question)
    game.do(msgspec.structs.replace(question, reviewers=()))
    assert game.gate.contributors == ("bob",)


def test_contributors_to_related_runs_neither_decide_nor_become_reviewers() -> None:
    game = started()
    asked(game)
    decide = cmd.DecideGate(game.gate.gate, "approve", None, BOB, kin=("bob",))
    with pytest.raises(DecisionRefused, match="'bob' contributed to the run"):
        game.do(decide, session=None)
    with pytest.raises(DecisionRefused, match="too many runs are under way"):
        game.do(msgspec.structs.replace(decide, by=EVE, kin=None), session=None)
    with pytest.raises(DecisionRefused, match="'bob' contributed to, and is not given"):
        game.do(cmd.AssignGate(game.gate.gate, ("bob",), False, Actor("kim"), kin=("bob",)), session=None)
    game.do(msgspec.structs.replace(decide, by=EVE), session=None)


def test_who_contributed_to_a_parent_contributes_to_a_child_that_it_has_tried_again() -> None:
    game = started()
    game.fail("work")
    game.decide("reject", by="eve")
    game.do(cmd.RetryRun(contributors=("bob", "ann")), session=None)
    assert contributors(game.state) == ("bob",)


# --- Edits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", ["edit", "answer"])
def test_an_edit_at_a_gate_with_four_eyes_is_a_question_to_another_person(decision: str) -> None:
    game = started()
    asked(game)
    before = game.gate
    events = game.decide(decision, by="bob", data={"to": "bob"})
    assert kinds(events) == ["GateEdited"]
    assert game.gate.filled.value() == {"to": "bob"}
    for by in ("ann", "bob"):
        with pytest.raises(DecisionRefused, match="second pair of eyes"):
            game.decide("approve", by=by)
    with pytest.raises(Conflict, match="shows something else"):
        game.decide("approve", by="eve", shown_hash=before.shown_hash)
    with pytest.raises(DecisionRefused, match="would be something else"):
        game.decide("approve", by="eve", data={"to": "ann"})
    game.decide("approve", by="eve", shown_hash=game.gate.shown_hash)
    assert game.step("gate").output.value() == {"to": "bob"}


def asked_of_two_calls(game: Game) -> list[GateId]:
    allowed = ("approve", "edit", "reject", "answer")
    for path in ("0.approval", "1.approval"):
        game.do(cmd.OpenGate(*game.at("work"), Path(path), "tool_approval", "h", inline(5), "h", allowed, four_eyes=True))
    return [*game.state.gates]


def test_who_answers_for_one_call_does_not_decide_the_next_of_the_same_message() -> None:
    """One after the other it would be refused, and it is no way around that to send both at once."""
    game = Game(graph("work"), by="ann")
    first, second = asked_of_two_calls(game)
    answer = cmd.DecideGate(first, "answer", {"done": "by hand"}, BOB)
    approve = cmd.DecideGate(second, "approve", None, BOB)
    with pytest.raises(DecisionRefused, match=f"'bob' contributes to the run by answering {first}. Nothing was decided"):
        game.do(cmd.DecideTogether((answer, approve)), session=None)
    assert [*game.state.gates] == [first, second]
    other = msgspec.structs.replace(approve, by=EVE)
    assert kinds(game.do(cmd.DecideTogether((answer, other)), session=None)) == ["GateDecided", "GateDecided"]


def test_who_approves_one_call_may_answer_for_the_next_of_the_same_message() -> None:
    game = Game(graph("work"), by="ann")
    first, second = asked_of_two_calls(game)
    answer = cmd.DecideGate(second, "answer", {"done": "by hand"}, BOB)
    approve = cmd.DecideGate(first, "approve", None, BOB)
    assert kinds(game.do(cmd.DecideTogether((approve, answer)), session=None)) == ["GateDecided", "GateDecided"]


def test_who_edits_one_call_decides_another_that_is_asked_about_beside_it() -> None:
    game = Game(graph("work"), by="ann")
    gates = asked_of_two_calls(game)
    edit, approve = (
        cmd.DecideGate(gate, said, data, BOB)
        for gate, said, data in zip(gates, ("edit", "approve"), ({"amount": 7}, None), strict=True)
    )
    assert kinds(game.do(cmd.DecideTogether((edit, approve)), session=None)) == ["GateEdited", "GateDecided"]
    with pytest.raises(DecisionRefused, match="'bob' contributed"):
        game.decide("approve", by="bob")


@pytest.mark.parametrize("decision", ["edit", "answer"])
def test_an_edit_without_a_form_is_what_another_person_approves(decision: str) -> None:
    game = Game(graph("work"), by="ann")
    allowed = ("approve", "edit", "answer", "reject")
    game.do(cmd.OpenGate(*game.at("work"), Path("0"), "question", "h", inline("5?"), "h", allowed, four_eyes=True))
    assert kinds(game.decide(decision, by="bob", data={"amount": 7})) == ["GateEdited"]
    with pytest.raises(DecisionRefused, match="second pair of eyes"):
        game.decide("approve", by="bob")
    game.decide("approve", by="eve")
    outcome = game.step("work").journal[Path("0")].outcome
    assert outcome is not None
    assert outcome.value() == {"decision": "approve", "data": {"amount": 7}, "by": "eve", "reason": None}


def test_an_answer_to_what_takes_only_answers_is_one() -> None:
    game = Game(graph("work"), by="ann")
    game.do(cmd.OpenGate(*game.at("work"), Path("0"), "question", "h", inline("?"), "h", ("answer", "reject"), four_eyes=True))
    assert kinds(game.decide("answer", by="bob", data=7))[0] == "GateDecided"


def test_an_answer_that_fills_in_what_was_open_is_none() -> None:
    game = started()
    asked(game)
    game.decide("answer", by="bob", data={"note": "fine"})
    assert game.step("gate").output.value() == {"to": "ann", "note": "fine"}


def test_an_edit_after_which_no_person_could_decide_is_refused() -> None:
    game = started()
    asked(game, reviewers=("bob",))
    with pytest.raises(DecisionRefused, match="Reassign gate"):
        game.decide("edit", by="bob", data={"to": "bob"})
    game.decide("approve", by="bob")


# --- What nobody could decide -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reviewers", [("Ann",), ("bob",), ("ann", "bob"), ("zoe", "bob")])
def test_four_eyes_whose_reviewers_all_contributed_ask_no_person(reviewers: tuple[str, ...]) -> None:
    game = started()
    _signals(game)
    with pytest.raises(InvalidInput, match="Name a reviewer who did not contribute"):
        asked(game, reviewers=reviewers, not_by=("zoe",))
    assert game.state.gates == {}
    asked(game, reviewers=(*reviewers, "legal"))


def test_an_incomplete_list_of_contributors_stops_gates_and_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contribution, "MAX_CONTRIBUTORS", 3)
    game = started()
    asked(game)
    for number in range(4):
        game.do(cmd.SendMessage(number + 1, NULL, Actor(f"p{number}")), session=None)
    assert contributors(game.state) == ("p0", "p1", "p2", OTHERS)
    with pytest.raises(DecisionRefused, match="not all who contributed to the run are known"):
        game.decide("approve", by="eve")
    with pytest.raises(InvalidInput, match="not all who contributed to the run are known"):
        game.do(cmd.OpenGate(*game.at("work"), Path("0"), "question", "h", NULL, "h", ("approve",), four_eyes=True))


def test_of_names_that_are_not_kept_it_is_known_that_there_were_some() -> None:
    kept = contribution.bounded([f"p{number}" for number in range(101)])
    assert (len(kept), kept[0], kept[-1]) == (100, "p2", OTHERS)
    later = contribution.bounded([*kept, "q"])
    assert (len(later), later.count(OTHERS), later[-2:]) == (100, 1, ("q", OTHERS))
    assert contribution.bounded(["a", *(f"p{number}" for number in range(98)), "a", OTHERS]) == (
        "a",
        *(f"p{each}" for each in range(98)),
        OTHERS,
    )


@pytest.mark.parametrize("starter", ["ann", OTHERS])
def test_a_run_with_unknown_contributors_has_no_certain_second_pair_of_eyes(starter: str) -> None:
    game = Game(graph("work", node("gate", "human_gate")), by=starter)
    asked(game)
    game.do(cmd.EndChild(game.child("work"), "completed", inline("to bob"), contributors=("bob", OTHERS)))
    for by in ("eve", OTHERS):
        with pytest.raises(DecisionRefused, match="second pair of eyes"):
            game.decide("approve", by=by)
    assert OTHERS in authors(game.state)


def test_an_old_history_has_its_starter_only() -> None:
    old = ev.decode(b'{"type":"StepReplayed","step":"work#1"}')
    assert old == ev.StepReplayed(StepId("work#1"))
    assert ev.encode(old) == b'{"type":"StepReplayed","step":"work#1"}'
