"""What a question proposes: what is declared of it counts, and the rest is found in what is shown."""

from __future__ import annotations

import re

import pytest

from holdfast.core.values.proposal import Proposal, masked, of_shown
from holdfast.errors import InvalidInput
from tests.core.game import Game, graph, node


def test_what_a_question_proposes_is_kept_with_it() -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > publish"))
    game.human_gate("gate", proposal=Proposal("pay", ("e1", "e2"), "high"))
    opened = game.state.gates[game.gate.gate].opened
    assert (opened.proposed_action, opened.evidence_ids, opened.risk_level) == ("pay", ("e1", "e2"), "high")


@pytest.mark.parametrize(
    ("proposal", "told"),
    [
        (Proposal(""), "proposed_action=''"),
        (Proposal("x" * 501), "1 to 500 characters"),
        (Proposal(evidence_ids=("",)), "no list of up to 100 ids"),
        (Proposal(evidence_ids=("e",) * 101), "no list of up to 100 ids"),
        (Proposal(evidence_ids=("x" * 201,)), "no list of up to 100 ids"),
        (Proposal(risk_level="grave"), "risk_level='grave' is none of low, medium, high, critical"),  # type: ignore[arg-type]
    ],
)
def test_a_proposal_that_people_could_not_find_is_refused(proposal: Proposal, told: str) -> None:
    game = Game(graph(node("gate", "human_gate"), "gate > publish"))
    with pytest.raises(InvalidInput, match=re.escape(told)):
        game.human_gate("gate", proposal=proposal)
    assert game.state.gates == {}


def test_what_is_declared_of_a_proposal_is_not_changed_by_what_is_shown() -> None:
    shown = {"proposed_action": "pay", "evidence_ids": ["e1"], "risk_level": "low"}
    assert of_shown(shown) == ("pay", ("e1",), "low")
    assert of_shown(shown, "pay out", ["e2"], "high") == ("pay out", ("e2",), "high")
    assert of_shown({"risk_level": "severe", "evidence_ids": "e1", "proposed_action": 3}) == Proposal()
    assert of_shown("text") == of_shown(None) == Proposal()


def test_no_secret_is_in_a_proposal() -> None:
    proposal = Proposal("pay with s3cret", ("s3cret",), "low")
    assert masked(proposal, lambda text: text.replace("s3cret", "***")) == ("pay with ***", ("***",), "low")
    assert masked(Proposal(), str.upper) == Proposal()
