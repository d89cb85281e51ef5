"""The proposal of a question: an action, the evidence for it, and its risk. People find and sort their questions by it.

It decides nothing. Never here: which answers a question takes (gates).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

RiskLevel: TypeAlias = Literal["low", "medium", "high", "critical"]
RISK_LEVELS: Final[tuple[RiskLevel, ...]] = ("low", "medium", "high", "critical")
MAX_ACTION: Final = 500
"""Characters of an action: it is a line of a list. What is shown says the rest."""
MAX_EVIDENCE: Final = 100
"""Ids of evidence of a question, and characters of one: they stand in its event and in its row."""
_MAX_ID: Final = 200


class Proposal(NamedTuple):
    """The proposal of a question, as far as it was declared."""

    proposed_action: str | None = None
    evidence_ids: tuple[str, ...] = ()
    risk_level: RiskLevel | None = None


def problems(proposed_action: object = None, evidence_ids: object = (), risk_level: object = None) -> Iterator[str]:
    """Yield what is wrong with a proposal, in words."""
    if proposed_action is not None and not (isinstance(proposed_action, str) and 0 < len(proposed_action) <= MAX_ACTION):
        yield f"proposed_action={proposed_action!r:.100} is no text of 1 to {MAX_ACTION} characters"
    if (
        not isinstance(evidence_ids, list | tuple)
        or len(evidence_ids) > MAX_EVIDENCE
        or not all(isinstance(each, str) and 0 < len(each) <= _MAX_ID for each in evidence_ids)
    ):
        yield f"evidence_ids={evidence_ids!r:.100} is no list of up to {MAX_EVIDENCE} ids, each of 1 to {_MAX_ID} characters"
    if risk_level is not None and risk_level not in RISK_LEVELS:
        yield f"risk_level={risk_level!r:.100} is none of {', '.join(RISK_LEVELS)}"


def of_shown(
    content: Any, proposed_action: str | None = None, evidence_ids: Sequence[str] = (), risk_level: str | None = None
) -> Proposal:
    """Return what a question proposes: what was declared, and of the rest what it shows in fields of these names, if it fits.
    What is declared cannot be changed by what is shown, which a model may have written."""
    declared = {"proposed_action": proposed_action, "evidence_ids": tuple(evidence_ids), "risk_level": risk_level}
    found: dict[str, Any] = {name: value for name, value in declared.items() if value}
    for name in declared.keys() - found.keys():
        given = content.get(name) if isinstance(content, dict) else None
        if given and next(problems(**{name: given}), None) is None:
            found[name] = tuple(given) if name == "evidence_ids" else given
    return Proposal(**found)


def masked(proposal: Proposal, redact: Callable[[str], str]) -> Proposal:
    """Return it without the secrets in its texts."""
    action = proposal.proposed_action
    evidence_ids = tuple(redact(each) for each in proposal.evidence_ids)
    return proposal._replace(proposed_action=None if action is None else redact(action), evidence_ids=evidence_ids)
