"""The ready-made guards: what they let pass, and what they say where they do not."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from holdfast import Engine, Workflow, require_approval_for_high_risk, require_evidence, task
from holdfast.core.facts.events import GuardJudged
from holdfast.errors import RunFailed
from tests.engine.history import events_of


class Approval(BaseModel):
    status: Literal["pending", "approved"] = "pending"


class Case(BaseModel):
    evidence: list[str] = []
    risk_level: Literal["low", "medium", "high", "critical"]
    approval: Approval = Field(default_factory=Approval)


async def outcome(store: str, guard: Any, found: dict[str, Any], model: Any = Case) -> str | None:
    """What came of the guarded node, or why nothing did."""
    wf = Workflow("case", state=model)
    wf.node("look")(task(lambda state: found))
    wf.node("act")(task(lambda state: "done"))
    wf.edge("look", "act", guard=guard)
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        try:
            await run.result()
        except RunFailed as failed:
            return str(failed)
        (judged,) = await events_of(run, GuardJudged)
        return judged.reason


async def test_nothing_is_drafted_without_evidence(store: str) -> None:
    told = await outcome(store, require_evidence, {})
    assert told == "There is no evidence, and nothing is drafted without it."
    assert await outcome(store, require_evidence, {"evidence": ["letter"]}) is None


@pytest.mark.parametrize(
    ("found", "passes"),
    [
        ({"risk_level": "low"}, True),
        ({"risk_level": "medium"}, True),
        ({"risk_level": "high"}, False),
        ({"risk_level": "critical"}, False),
        ({}, False),
        ({"risk_level": "high", "approval": {"status": "approved"}}, True),
        ({"risk_level": "high", "approval": {"status": "pending"}}, False),
    ],
)
async def test_what_is_of_high_risk_or_of_none_that_is_known_needs_an_approval(
    store: str, found: dict[str, Any], passes: bool
) -> None:
    told = await outcome(store, require_approval_for_high_risk, found)
    assert told is None if passes else "needs an approval, and has none" in str(told)


async def test_a_state_without_the_field_is_reported_in_words(store: str) -> None:
    class Other(BaseModel):
        name: str = ""

    told = await outcome(store, require_evidence, {}, Other)
    assert "This guard reads the field 'evidence' of the state, and Other has none." in str(told)
