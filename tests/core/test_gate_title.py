"""The title of a gate: what a reviewer recognises it by in a list."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.facts.events import GateOpened
from holdfast.core.values.ids import GateId
from holdfast.core.values.payload import Payload, digest, inline
from holdfast.core.views.gate_title import MAX_TITLE, title_of


def opened(shown: Any, reason: str = "question", **more: Any) -> GateOpened:
    payload = shown if isinstance(shown, Payload) else inline(shown)
    return GateOpened(gate=GateId("run:ask#1"), reason=reason, shown=payload, shown_hash=digest(None), allowed=(), **more)


@pytest.mark.parametrize(
    ("gate", "title"),
    [
        (opened({"question": "Which\n first?", "title": "Other"}), "Which first?"),
        (opened("Ship it?"), "Ship it?"),
        (opened({"title": "T-1018 double charge"}, "approval"), "T-1018 double charge"),
        (opened({"question": "Which?"}, proposed_action="Pay back $4"), "Pay back $4"),
        (
            opened({"tool": "refund"}, "tool_approval", filled=inline({"order": "A-7", "amount": 40}), proposed_action="pay"),
            'refund(order="A-7", amount=40)',
        ),
        (
            opened({"tool": "pay", "request": {"to": "ada", "secret": "[sensitive:x]"}}, "effect_unknown"),
            'Did pay(to="ada", secret=…) take effect?',
        ),
        (opened({"title": "[sensitive:x]"}, "approval"), None),
        (opened({"amount": 3}, "approval"), None),
        (opened([1, 2]), None),
        (opened(Payload(blob="a" * 64)), None),
    ],
)
def test_a_title_is_what_the_gate_proposes_asks_or_calls(gate: GateOpened, title: str | None) -> None:
    assert title_of(gate) == title


def test_a_title_is_one_short_line() -> None:
    title = title_of(opened({"question": "word " * 200}))
    assert title is not None
    assert len(title) == MAX_TITLE
    call = title_of(opened({"tool": "send"}, "tool_approval", filled=inline({"body": "x" * 500, "to": "ada"})))
    assert call == f'send(body="{"x" * 58}…, to="ada")'
