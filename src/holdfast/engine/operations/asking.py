"""A question of a step's code, as what is asked of its journal.

Never here: which answers count (core.people.gates), a gate that is a node (nodes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from pydantic import BaseModel

from holdfast.authoring.user_arguments import decisions_of, reviewers_of
from holdfast.authoring.values.form import form_of
from holdfast.authoring.values.plain import encode
from holdfast.core.people.gates import QUESTION
from holdfast.core.values.ids import Path, gate_id
from holdfast.core.values.payload import digest
from holdfast.core.values.proposal import RiskLevel, of_shown
from holdfast.engine.attempts.journal import StepJournal


async def ask(
    journal: StepJournal,
    path: Path,
    question: Any,
    *,
    form: type[BaseModel] | None = None,
    reviewers: Sequence[str] = (),
    timeout_s: float | None = None,
    remind_every_s: float | None = None,
    cancel_after_s: float | None = None,
    expires_after_s: float | None = None,
    decisions: Sequence[str] = ("answer", "approve", "edit", "reject"),
    four_eyes: bool = False,
    not_by: Sequence[str | None] = (),
    quorum: int = 1,
    hash_optional: bool = False,
    proposed_action: str | None = None,
    evidence_ids: Sequence[str] = (),
    risk_level: RiskLevel | None = None,
) -> Any:
    """Wait for a person's answer and return it. Raises OperationFailed; see Context.ask."""
    shown, others = msgspec.json.decode(encode(question)), tuple(name or "" for name in not_by)
    shape, filled, shown = form_of(form, shown) if form is not None else (None, {}, shown)
    answer: dict[str, Any] = await journal.ask(
        path,
        QUESTION,
        digest(["question", shown, *others]),
        content=shown,
        allowed=decisions_of(decisions),
        form=shape,
        filled=filled,
        reviewers=reviewers_of(reviewers),
        four_eyes=four_eyes,
        timeout_s=timeout_s,
        quorum=quorum,
        not_by=others,
        remind_every_s=remind_every_s,
        cancel_after_s=cancel_after_s,
        expires_after_s=expires_after_s,
        hash_optional=hash_optional,
        proposal=of_shown(shown, proposed_action, evidence_ids, risk_level),
    )
    journal.rejection = _rejection(journal, path, answer) if answer["decision"] == "reject" else ""
    return {"approvers": _alone(answer), **answer}


def _rejection(journal: StepJournal, path: Path, answer: dict[str, Any]) -> str:
    """Return the words for a rejection, for the error of code that overlooks it."""
    gate = gate_id(journal.run, journal.step, journal.before.named(path))
    why = f": {answer['reason'].rstrip('.')}" if answer["reason"] else ""
    return f"Gate {gate} was rejected by {answer['by'] or 'a person without a name'}{why}."


def _alone(answer: dict[str, Any]) -> list[str]:
    """Return who approved where one person is enough."""
    approved = answer["decision"] in ("approve", "edit") and answer["by"] is not None
    return [answer["by"]] if approved else []
