"""A gate with a quorum is decided by so many different persons, of whom one is enough to reject."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.values.actor import is_among
from holdfast.core.values.ids import Path
from holdfast.core.values.payload import inline
from holdfast.errors import Conflict, DecisionRefused, InvalidDecision, InvalidInput
from tests.core.game import Actor, Game, cmd, ev, graph, kinds, loop, node, problems

FORM = {"type": "object", "properties": {"to": {"type": "string"}, "note": {"type": "string"}}, "required": ["to"]}


def asked(quorum: int = 2, **more: Any) -> Game:
    game = Game(graph(node("gate", "human_gate"), "gate > publish"), by="ann")
    game.human_gate("gate", **{"quorum": quorum, "form": FORM, "filled": inline({"to": "ann"}), **more})
    return game


def approved_by(game: Game) -> list[str]:
    return [each.by for each in game.state.gates[game.gate.gate].approvals]


def test_so_many_different_persons_approve_and_the_last_decides() -> None:
    game = asked(3)
    assert kinds(game.decide("approve", by="ann", reason="fine")) == ["GateApproved"]
    game.decide("approve", by="bob")
    assert (approved_by(game), game.status) == (["ann", "bob"], "waiting")
    assert "GateDecided" in kinds(game.decide("approve", by="eve"))
    assert game.step("gate").by == "eve"
    assert game.step("publish").status == "ready"


def test_persons_are_distinguished_by_who_they_are_and_not_by_their_keys() -> None:
    game = asked()
    game.decide("approve", by=Actor("keys.one", "", "keys.one", maker="bob"))
    for by in (
        Actor("Keys.One", "", "keys.other"),
        Actor("bob"),
        Actor("keys.two", "", "keys.two", maker=" BOB"),
        Actor("keys.three", "", "keys.three", maker="keys.one"),
    ):
        with pytest.raises(DecisionRefused, match="has approved it already"):
            game.decide("approve", by=by)
    with pytest.raises(DecisionRefused, match="must be known who decides"):
        game.decide("approve", by=None)
    game.decide("approve", by="eve")
    assert game.step("publish").status == "ready"


def test_one_rejection_is_enough_also_of_who_has_approved() -> None:
    for by in ("eve", "bob"):
        game = asked()
        game.decide("approve", by="bob")
        game.decide("reject", by=by)
        assert game.status == "failed"


def test_a_draft_is_sent_back_by_one() -> None:
    game = Game(graph("draft > gate > publish", node("gate", "human_gate"), loop("gate", "draft", 2, when="retry")))
    game.complete("draft", "one")
    game.tick()
    game.human_gate("gate", quorum=2)
    game.decide("approve", by="bob")
    game.decide("retry", by="eve")
    assert game.step("draft").id == "draft#2"


@pytest.mark.parametrize("four_eyes", [True, False])
def test_an_edit_is_approved_by_as_many_others_again(four_eyes: bool) -> None:
    game = asked(four_eyes=four_eyes)
    before = game.gate.shown_hash
    game.decide("approve", by="bob")
    assert kinds(game.decide("edit", by="eve", data={"to": "eve"})) == ["GateEdited"]
    assert approved_by(game) == []
    with pytest.raises(DecisionRefused, match="cannot decide it"):
        game.decide("approve", by="eve")
    with pytest.raises(Conflict, match="shows something else"):
        game.decide("approve", by="bob", shown_hash=before)
    game.decide("approve", by="bob")
    game.decide("approve", by="zoe")
    assert game.step("gate").output.value() == {"to": "eve"}


def test_who_made_the_key_of_an_edit_does_not_approve_it() -> None:
    game = asked()
    game.decide("edit", by=Actor("keys.k", "", "keys.k", maker="ann"), data={"to": "eve"})
    for by in (Actor("ann"), Actor("keys.k"), Actor("keys.other", maker="Ann")):
        with pytest.raises(DecisionRefused, match="cannot decide it"):
            game.decide("approve", by=by)
    game.decide("approve", by="bob")
    game.decide("approve", by="zoe")
    assert game.step("gate").output.value() == {"to": "eve"}


def test_of_several_none_fills_in_what_the_others_have_not_seen() -> None:
    game = asked()
    with pytest.raises(DecisionRefused, match="note would be something else"):
        game.decide("approve", by="bob", data={"note": "for me"})
    assert "answer" not in game.gate.allowed
    with pytest.raises(InvalidDecision, match="not 'answer'"):
        game.decide("answer", by="bob", data={"to": "bob"})


def test_four_eyes_and_a_quorum_are_both_kept() -> None:
    game = asked(four_eyes=True)
    with pytest.raises(DecisionRefused, match="second pair of eyes"):
        game.decide("approve", by="ann")
    game.decide("approve", by="bob")
    game.decide("approve", by="eve")
    assert game.step("publish").status == "ready"


@pytest.mark.parametrize(
    ("reviewers", "more", "may"),
    [
        (("bob", "eve"), {}, True),
        (("bob", "Bob "), {}, False),
        (("bob",), {}, False),
        (("legal",), {}, False),
        (("role:legal",), {}, True),
        (("ann", "bob"), {"four_eyes": True}, False),
        (("ann", "bob"), {}, True),
        (("bob", "eve"), {"not_by": ("eve",)}, False),
        ((), {}, True),
    ],
)
def test_a_quorum_that_reviewers_can_never_be_is_refused(reviewers: tuple[str, ...], more: dict[str, Any], may: bool) -> None:
    if may:
        asked(reviewers=reviewers, **more)
        return
    with pytest.raises(InvalidInput, match=r"Name 2 reviewers .* role:NAME"):
        asked(reviewers=reviewers, **more)


@pytest.mark.parametrize(
    ("quorum", "allowed"), [(0, ("approve",)), (101, ("approve",)), (2, ("reject",)), (2, ("approve", "to_legal"))]
)
def test_what_cannot_be_counted_is_not_asked(quorum: int, allowed: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="No question was asked"):
        asked(quorum, allowed=allowed)


def test_a_workflow_with_a_quorum_that_can_never_be_met_is_none() -> None:
    def of(**options: Any) -> Any:
        return node("gate", "human_gate", options=options)

    assert "can never be met by the reviewers bob, eve" in problems(of(quorum=3, reviewers=["bob", "eve"]))[0]
    assert "its decisions are approve" in problems(of(quorum=2, decisions=["reject"]))[0]
    assert "is no number of persons" in problems(of(quorum=0))[0]
    graph(of(quorum=3, reviewers=["bob", "role:legal"]))


def test_a_gate_is_given_to_enough_others_or_not_at_all() -> None:
    game = asked(reviewers=("bob", "eve"))
    game.decide("approve", by="bob")
    gate = game.gate.gate
    with pytest.raises(DecisionRefused, match="Name more persons"):
        game.do(cmd.AssignGate(gate, ("zoe",), False, Actor("kim")), session=None)
    game.do(cmd.AssignGate(gate, ("zoe", "bob"), False, Actor("kim")), session=None)
    game.decide("approve", by="zoe")
    assert game.step("publish").status == "ready"


def test_only_approvals_of_those_who_are_asked_now_count() -> None:
    kim = Actor("kim")
    game = asked(reviewers=("bob", "role:legal", "eve"))
    game.decide("approve", by="bob")
    gate = game.gate.gate
    game.do(cmd.AssignGate(gate, ("role:legal", "eve"), False, kim), session=None)
    assert approved_by(game) == []
    game.do(cmd.DecideGate(gate, "approve", None, Actor("lea"), roles=("legal",)), session=None)
    assert approved_by(game) == ["lea"]
    row = game.do(cmd.AssignGate(gate, ("lea", "eve", "role:legal"), False, kim), session=None)
    assert approved_by(game) == ["lea"]
    assert game.rows(row).gate_changes[0].approved_by == ("lea",)
    row = game.do(cmd.AssignGate(gate, ("role:sales", "bob", "eve"), False, kim), session=None)
    assert (approved_by(game), game.rows(row).gate_changes[0].approved_by) == ([], ())
    game.decide("approve", by="eve")
    assert game.status == "waiting"
    game.decide("approve", by="bob")
    assert game.step("gate").approvers == ["eve"]


def test_an_approval_of_who_contributes_afterwards_does_not_count() -> None:
    game = asked(four_eyes=True)
    game.decide("approve", by=Actor("keys.k", maker="bob"))
    game.do(cmd.SendSignal("go", inline({}), Actor("bob")), session=None)
    assert approved_by(game) == []
    game.decide("approve", by="eve")
    assert game.status == "waiting"
    game.decide("approve", by="zoe")
    assert game.step("gate").approvers == ["eve"]


def test_an_edit_that_too_few_others_could_decide_is_refused() -> None:
    game = asked(reviewers=("bob", "eve"))
    with pytest.raises(DecisionRefused, match="Reassign gate"):
        game.decide("edit", by="bob", data={"to": "bob"})


def test_a_reviewer_that_is_a_role_is_no_person() -> None:
    assert is_among(["role:legal"], "bob", ["Legal"])
    assert not is_among(["role:legal"], "legal", ())
    assert not is_among(["role:legal"], "role:legal", ())


def test_a_call_needs_as_many() -> None:
    game = Game(graph("work"), by="ann")
    allowed = ("approve", "edit", "reject", "answer")
    game.do(cmd.OpenGate(*game.at("work"), Path("0.approval"), "tool_approval", "h", inline(5), "h", allowed, quorum=2))
    game.decide("approve", by="bob")
    assert game.step("work").journal[Path("0.approval")].status == "open"
    game.decide("approve", by="eve")
    assert game.step("work").journal[Path("0.approval")].status == "done"
    assert len(game.events(ev.GateApproved)) == 1


def test_an_answer_names_all_who_have_approved() -> None:
    game = asked()
    game.decide("approve", by="ann")
    game.decide("approve", by="bob")
    assert (game.step("gate").approvers, game.step("gate").by) == (["ann"], "bob")


def test_a_row_has_the_approvals_of_what_is_shown_now() -> None:
    game = asked(3)
    for name in ("ann", "bob"):
        (change,) = game.rows(game.decide("approve", by=name)).gate_changes
    assert change.approved_by == ("ann", "bob")
    (change,) = game.rows(game.decide("edit", data={"to": "eve"}, by="eve")).gate_changes
    assert (change.state, change.approved_by) == ("open", ())
