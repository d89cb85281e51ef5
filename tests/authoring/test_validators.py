"""Validators: what each finds in a draft, and what it lets pass."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Engine, Workflow, task, validators
from holdfast.errors import InvalidInput, RunFailed, UsageError
from holdfast.validators import Claim, Validator, citation, claims, grounding, prohibited_action, risk, schema, validated

POLICY = "Refunds are paid within 30 days of the purchase, against the receipt."
EVIDENCE = [
    {"evidence_id": "policy-7", "summary": POLICY},
    {"evidence_id": "case-2", "summary": "The customer bought the lamp on 3 May and keeps the receipt."},
]


def found(validator: Validator, **state: Any) -> list[str]:
    return [*validator(SimpleNamespace(**{"evidence": EVIDENCE, **state}))]


def of(name: str) -> Callable[[Any], Any]:
    return lambda state: getattr(state, name)


DRAFT, KNOWN = of("draft"), of("evidence")


def test_a_text_is_cut_into_claims_with_the_evidence_that_each_names() -> None:
    draft = "Refunds take 30 days [policy-7]. The lamp was bought in May. [case-2, policy-7]\nYes!\n\n[case-2]"
    assert claims(draft) == [
        Claim("Refunds take 30 days.", ("policy-7",)),
        Claim("The lamp was bought in May.", ("case-2", "policy-7")),
        Claim("Yes!", ()),
    ]


def test_claims_may_be_objects() -> None:
    class Said(BaseModel):
        text: str
        evidence_ids: list[str] = []

    assert claims([Said(text="It is so."), {"text": "And so.", "evidence_ids": ["x"]}]) == [
        Claim("It is so.", ()),
        Claim("And so.", ("x",)),
    ]
    with pytest.raises(InvalidInput, match="not int"):
        claims(7)


# --- Citation ---------------------------------------------------------------------------------------------------------


def test_each_claim_names_evidence_that_is_there() -> None:
    draft = "Refunds are paid [policy-7]. The lamp is old. It is blue [case-9]."
    assert found(citation(DRAFT, KNOWN), draft=draft) == [
        "'The lamp is old.' names no evidence.",
        "'It is blue.' names the evidence 'case-9', which is not there.",
    ]
    assert len(found(citation(DRAFT, KNOWN, required=False), draft=draft)) == 1
    assert found(citation(DRAFT, KNOWN), draft="Refunds are paid [policy-7].") == []


# --- Grounding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draft", "words"),
    [
        ("Refunds are paid within 30 days [policy-7].", None),
        ("A refund is paid in 30 days of purchasing [policy-7].", None),
        ("Refunds are paid within 60 days [policy-7].", "says 60, which its evidence does not"),
        ("Refunds are paid within 30 days [case-2].", "says 30, which its evidence does not"),
        ("The manager promised a free holiday [case-2].", "is not supported: 0 of its 4 words"),
        ("The customer keeps the receipt.", None),
        ("Yes.", None),
    ],
)
def test_the_words_of_a_claim_come_from_its_evidence(draft: str, words: str | None) -> None:
    told = found(grounding(DRAFT, KNOWN), draft=draft)
    assert [words in each for each in told] == [True] if words else told == []


def test_no_claim_is_supported_without_evidence() -> None:
    assert len(found(grounding(DRAFT, KNOWN), draft="Refunds are paid.", evidence=[])) == 1


def test_what_a_claim_denies_is_not_noticed_as_the_page_says() -> None:
    assert found(grounding(DRAFT, KNOWN), draft="Refunds are never paid within 30 days [policy-7].") == []


# --- Schema -----------------------------------------------------------------------------------------------------------


class Verdict(BaseModel):
    amount: int


@pytest.mark.parametrize("shape", [Verdict, {"type": "object", "properties": {"amount": {"type": "integer"}}}])
def test_what_does_not_fit_is_found(shape: Any) -> None:
    assert found(schema(DRAFT, shape), draft={"amount": 7}) == []
    (told,) = found(schema(DRAFT, shape), draft={"amount": "much"})
    assert "amount" in told


# --- Risk -------------------------------------------------------------------------------------------------------------

WORDS = {"high": ["issue a sanction"], "critical": ["delete evidence"]}


@pytest.mark.parametrize(
    ("text", "level", "findings"),
    [
        ("We wait.", "low", 0),
        ("We issue a sanction.", "low", 1),
        ("We issue a sanction.", "high", 0),
        ("We ISSUE a Sanction, then delete-evidence.", "medium", 2),
        ("We delete evidence.", "high", 1),
        ("We wait.", "none", 1),
        ("We wait.", None, 1),
    ],
)
def test_a_risk_is_declared_as_its_words_call_for(text: str, level: Any, findings: int) -> None:
    assert len(found(risk(DRAFT, of("level"), WORDS), draft=text, level=level)) == findings


# --- Prohibited actions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "close_case(7)",
        "Now CLOSE   the Case",
        "then close-case.",
        "clo\u200bse case",
        "сlоsе case",
        "ｃｌｏｓｅ case",
        "clóse cásé",
        "cl0se c4se",
    ],
)
def test_a_prohibited_action_is_found_however_it_is_written(text: str) -> None:
    assert found(prohibited_action(DRAFT, ["close case", "close the case"]), draft=text)


@pytest.mark.parametrize("text", ["disclose case law", "The case is close to being solved.", "we end the matter"])
def test_other_words_are_not(text: str) -> None:
    assert not found(prohibited_action(DRAFT, ["close case"]), draft=text)


# --- Mistakes in words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: validated(), "at least one"),
        (lambda: grounding(DRAFT, KNOWN, support=0), "support=0"),
        (lambda: prohibited_action(DRAFT, "close case"), "a list of phrases"),
        (lambda: prohibited_action(DRAFT, ["..."]), "with letters in it"),
        (lambda: risk(DRAFT, KNOWN, {"huge": ["x"]}), "There is no risk 'huge'"),
        (lambda: schema(DRAFT, {"type": "nothing"}), "no JSON Schema"),
    ],
)
def test_a_validator_that_could_not_work_is_refused_when_it_is_made(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()


# --- In a workflow ----------------------------------------------------------------------------------------------------


async def test_a_draft_goes_back_with_what_was_found_until_it_passes(store: str) -> None:
    wf = Workflow("review")

    @wf.node("draft")
    @task
    def draft(state: Any) -> str:
        before = state.previous["draft"]
        return "Refunds are paid within 30 days [policy-7]." if before else "Refunds take a year."

    read = lambda state: state.events["draft"].output  # noqa: E731 - as a user would write it
    wf.node("validate")(validated(citation(read, lambda _: EVIDENCE), grounding(read, lambda _: EVIDENCE)))
    wf.node("done")(task(lambda state: (state.visits("draft"), state.previous["validate"].output["reason"])))
    wf.edge("draft", "validate")
    wf.loop("validate", "draft", max_visits=2)
    wf.edge("validate", "done")
    async with Engine.open(store) as engine:
        visits, reason = await (await engine.start(wf)).result()
    assert visits == 2
    assert reason == (
        "'Refunds take a year.' names no evidence. 'Refunds take a year.' is not supported: 1 of its 3 words are in its"
        " evidence."
    )


async def test_without_a_way_back_the_run_fails_with_what_was_found(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validators, "_MAX_FINDINGS", 2)
    wf = Workflow("review")
    wf.node("validate")(validated(citation(lambda _: "One. Two. Three.", lambda _: [])))
    async with Engine.open(store) as engine:
        with pytest.raises(RunFailed, match=r"'One.' names no evidence. 'Two.' names no evidence. and 1 more"):
            await (await engine.start(wf)).result()
