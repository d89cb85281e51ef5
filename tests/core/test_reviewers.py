"""Reviewers bind, four eyes are two persons, and a question is handed on by whom it asks."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.people.reviewers import MAX_REVIEWERS, check_person
from holdfast.errors import AlreadyDecided, DecisionRefused, InvalidInput
from tests.core.game import Actor, Game, cmd, ev, graph, node


def approval(**options: object) -> Game:
    """A gate before `publish`."""
    game = Game(graph(node("gate", "human_gate"), "gate > publish"), by="ann")
    game.human_gate("gate", **options)
    return game


@pytest.mark.parametrize("name", ["ann", "Ann", " ANN ", "\uff21nn", "a\u200bnn", "ann\u00ad"])
def test_four_eyes_refuse_who_asked(name: str) -> None:
    """Whatever its case, its blanks, its width or what nobody sees in it: it is the same name."""
    game = approval(four_eyes=True)
    with pytest.raises(DecisionRefused, match="is who asked for the run"):
        game.decide("approve", by=name)
    game.decide("approve", by="bob")
    assert game.step("gate").status == "completed"


@pytest.mark.parametrize("unnamed", [None, "", "  ", "\u200b"])
def test_four_eyes_refuse_a_caller_without_a_name(unnamed: str | None) -> None:
    game = approval(four_eyes=True)
    with pytest.raises(DecisionRefused, match="say who you are"):
        game.decide("approve", by=unnamed)
    assert len(game.state.gates) == 1


def test_four_eyes_with_an_unknown_starter_ask_no_person() -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > publish"))
    with pytest.raises(InvalidInput, match="Say who asks for the run"):
        game.human_gate("gate", four_eyes=True)
    assert game.state.gates == {}


def test_four_eyes_of_an_older_run_with_an_unknown_starter_let_no_person_decide() -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > publish"), by="ann")
    game.human_gate("gate", four_eyes=True)
    (gate,) = game.state.gates.values()
    with pytest.raises(DecisionRefused, match="runs cancel 0190-run"):
        check_person(msgspec.structs.replace(gate.opened, requester=None), "bob", ())


@pytest.mark.parametrize(
    ("reviewers", "by", "roles", "may"),
    [
        (("bob", "cyd"), "bob", (), True),
        (("bob", "cyd"), "BOB ", (), True),
        (("bob", "cyd"), "eve", (), False),
        (("bob", "cyd"), None, (), False),
        (("legal@",), "eve", ("sales",), False),
        (("legal@",), None, ("legal@",), False),  # somebody, not just anybody
        (("legal@",), "eve", ("sales", "Legal@"), True),
        ((), None, (), True),
    ],
)
def test_reviewers_bind(reviewers: tuple[str, ...], by: str | None, roles: tuple[str, ...], may: bool) -> None:
    game = approval(reviewers=reviewers)
    if may:
        game.decide("approve", by=by, roles=roles)
        assert game.events(ev.GateDecided)[0].roles == roles
        return
    with pytest.raises(DecisionRefused, match="It is still open"):
        game.decide("approve", by=by, roles=roles)
    assert len(game.state.gates) == 1


def assign(game: Game, *to: str, delegates: bool = True, by: str | None = "ann", roles: tuple[str, ...] = ()) -> None:
    game.do(cmd.AssignGate(game.gate.gate, to, delegates, Actor(by), "on holiday", roles), session=None)


def test_who_is_asked_has_others_asked_too() -> None:
    game = approval(reviewers=("ann", "legal"))
    assign(game, "eve", "ann")
    (assigned,) = game.events(ev.GateAssigned)
    assert (assigned.reviewers, assigned.delegated, assigned.by, assigned.reason) == (
        ("ann", "legal", "eve"),
        True,
        "ann",
        "on holiday",
    )
    assign(game, "eve")
    assert len(game.events(ev.GateAssigned)) == 1, "what changes nothing is no event"
    game.decide("approve", by="eve")


def test_a_gate_is_not_given_to_the_person_who_asked_for_its_run_unless_it_asks_them() -> None:
    """Also without four eyes: reviewers bind, and nobody makes themselves one for what they have started."""
    game = approval(reviewers=("eve",))
    with pytest.raises(DecisionRefused, match="'ann' asked for, and is not given to them"):
        assign(game, "bob", " ANN", delegates=False, by="bob")
    asks_them = approval(reviewers=("eve", "ann"))
    assign(asks_them, "ann", delegates=False, by="bob")
    assert [each.reviewers for each in asks_them.events(ev.GateAssigned)] == [("ann",)]


def test_a_reviewer_hands_on_to_no_person_who_asked_for_the_run() -> None:
    game = approval(reviewers=("ida",))
    with pytest.raises(DecisionRefused, match="'ann' asked for, and is not given to them"):
        assign(game, "Ann", by="ida")
    game.do(cmd.SendSignal("go", by=Actor("bob")), session=None)
    with pytest.raises(DecisionRefused, match="'bob' contributed to, and is not given to them"):
        assign(game, "bob", by="ida")


@pytest.mark.parametrize("delegates", [True, False])
@pytest.mark.parametrize("four_eyes", [True, False])
def test_a_gate_cannot_be_given_to_contributors_of_the_run(delegates: bool, four_eyes: bool) -> None:
    """In no key of theirs, also one that they make afterwards, and in no role of theirs."""
    game = approval(reviewers=("ida",), four_eyes=four_eyes)
    assign(game, "keys.k", "fin", delegates=delegates, by="ida")
    for by, roles in ((Actor("keys.k", maker="ann"), ()), (Actor("ann"), ("fin",)), (Actor("zed", maker="ann"), ("fin",))):
        with pytest.raises(DecisionRefused, match=r"was not asked before|second pair of eyes"):
            game.decide("approve", by=by, roles=roles)
    game.decide("approve", by=Actor("keys.k", maker="eve"))
    assert game.step("gate").status == "completed"


def test_who_made_a_key_has_a_gate_given_to_no_role_of_that_key() -> None:
    game = approval(reviewers=("ida",))
    for to in ("keys.k", "fin"):
        with pytest.raises(DecisionRefused, match="'ann' asked for or contributed to, and is not given to a role"):
            game.do(cmd.AssignGate(game.gate.gate, (to,), False, Actor("keys.k", maker="ann", roles=("fin",))), session=None)


def test_whom_a_gate_asked_first_it_may_ask_again() -> None:
    game = approval(reviewers=("ann", "fin"))
    for to in ("eve", "fin"):
        assign(game, to, delegates=False, by="bob")
    game.decide("approve", by="ann", roles=("fin",))


def test_a_gate_that_asked_any_person_is_given_back_to_any_person() -> None:
    """Four eyes and `not_by` hold all the same."""
    for to, by in (("ann", "bob"), ("bob", "bob"), ("role:fin", "ann")):
        game = approval()
        game.do(cmd.SendSignal("go", by=Actor("bob")), session=None)
        assign(game, "eve", delegates=False, by="cyd")
        game.do(cmd.AssignGate(game.gate.gate, (to,), False, Actor(by, roles=("fin",))), session=None)
        game.decide("approve", by="ann" if to == "role:fin" else to, roles=("fin",))
    four_eyes, others = approval(four_eyes=True), approval(not_by=("ann",))
    for game in (four_eyes, others):
        assign(game, "eve", delegates=False, by="cyd")
        with pytest.raises(DecisionRefused, match=r"second pair of eyes|cannot be decided by ann"):
            assign(game, "ann", delegates=False, by="cyd")


def test_whom_a_gate_asked_first_it_is_given_back_to() -> None:
    game = approval(reviewers=("ann",))
    assign(game, "eve", delegates=False, by="bob")
    assign(game, "ann", delegates=False, by="bob")
    game.decide("approve", by="ann")


def test_others_are_asked_in_the_place_of_those_who_were() -> None:
    game = approval(reviewers=("ann",))
    assign(game, "eve", delegates=False, by="bob")
    with pytest.raises(DecisionRefused, match="asks eve, and 'ann' is not among them"):
        game.decide("approve", by="ann")
    game.decide("approve", by="eve")


@pytest.mark.parametrize(
    ("options", "to", "by", "roles", "problem"),
    [
        ({"reviewers": ("ann",)}, ("eve",), "bob", (), "not theirs to hand on"),
        ({"reviewers": ("ann",)}, ("eve",), None, (), "not theirs to hand on"),
        ({"reviewers": ("legal",)}, ("eve",), "bob", ("sales",), "not theirs to hand on"),
        ({}, ("eve",), "ann", (), "asks anyone"),
        ({"reviewers": ("eve",), "four_eyes": True}, ("Ann",), "eve", (), "second pair of eyes"),
    ],
)
def test_a_caller_who_may_not_hand_on_learns_why(
    options: dict[str, object], to: tuple[str, ...], by: str | None, roles: tuple[str, ...], problem: str
) -> None:
    game = approval(**options)
    with pytest.raises(DecisionRefused, match=problem):
        assign(game, *to, by=by, roles=roles)
    assert not game.events(ev.GateAssigned)


@pytest.mark.parametrize("to", [(), ("",), ("eve", " "), tuple(f"r{number}" for number in range(MAX_REVIEWERS + 1))])
def test_a_gate_is_given_to_one_person_and_not_to_all(to: tuple[str, ...]) -> None:
    game = approval(reviewers=("ann",))
    with pytest.raises(InvalidInput, match="It still asks ann"):
        assign(game, *to, delegates=False)


def test_a_decided_gate_cannot_be_given_to_others() -> None:
    game = approval(reviewers=("ann",))
    gate = game.gate.gate
    game.decide("approve", by="ann")
    with pytest.raises(AlreadyDecided):
        game.do(cmd.AssignGate(gate, ("eve",), delegates=False), session=None)
