"""Messages as the outbox hands them to channels."""

from __future__ import annotations

from typing import Any

from holdfast.ports.channel import Message, Question

AT_MS = 1_764_320_000_123
QUESTION = Question(run="r-1", gate="r-1:approve#1", shown_hash="5f" * 16, allowed=("approve", "reject", "edit"))


def message(**more: Any) -> Message:
    known: dict[str, Any] = {
        "id": "msg_0001",
        "at_ms": AT_MS,
        "tenant": "acme",
        "occasion": "gate_opened",
        "title": "Pay invoice 7?",
        "facts": (("Run", "r-1"), ("Amount", "12.50 EUR")),
        "link": "https://holdfast.example.com/inbox/r-1?a=1&b=2",
        "body": b'{"type":"gate_opened","data":{"run":"r-1"}}',
    }
    return Message(**{**known, **more})
