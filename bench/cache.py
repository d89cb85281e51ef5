"""How many questions that mean the same a semantic cache finds, and how many others it takes for the same, by its threshold.

    python -m bench.cache

Prints a JSON line for each threshold, of pairs of questions and wordllama's vectors.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from tests.memory.recall import opened

SAME: Final = (
    ("How do I reset my password?", "How can I reset my password?"),
    ("What are your opening hours?", "When are you open?"),
    ("Where is my order?", "Where is my parcel?"),
    ("How do I cancel my subscription?", "I want to cancel my subscription, how?"),
    ("Can I pay by invoice?", "Is payment by invoice possible?"),
    ("Do you ship to Norway?", "Do you deliver to Norway?"),
    ("How long does delivery take?", "How long does the delivery take?"),
    ("What does the premium plan cost?", "How much is the premium plan?"),
    ("How do I change my email address?", "How can I change my e-mail address?"),
    ("Is there a student discount?", "Do you have a discount for students?"),
    ("How do I return an item?", "How can I send an item back?"),
    ("Please summarise the contract.", "Summarize the contract, please."),
)
OTHER: Final = (
    ("How do I reset my password?", "How do I reset my router?"),
    ("Do you ship to Norway?", "Do you ship to Sweden?"),
    ("How do I cancel my subscription?", "How do I renew my subscription?"),
    ("What does the premium plan cost?", "What does the basic plan cost?"),
    ("Can I pay by invoice?", "Can I pay by card?"),
    ("How do I change my email address?", "How do I change my postal address?"),
    ("When was order 1041 shipped?", "When was order 1042 shipped?"),
    ("Is there a student discount?", "Is there a student rate in the museum?"),
    ("How do I return an item?", "How do I review an item?"),
    ("Please summarise the contract.", "Please sign the contract."),
    ("Is the museum open on Monday?", "Is the museum closed on Monday?"),
    ("Who approved the refund?", "Who rejected the refund?"),
)
THRESHOLDS: Final = (0.8, 0.85, 0.9, 0.95, 0.97, 0.99)


def likeness(embedder: Any, one: str, other: str) -> float:
    first, second = embedder.embed([one, other])
    return float(first @ second) / math.sqrt(float(first @ first) * float(second @ second))


def main() -> None:
    embedder = opened()
    same, other = ([likeness(embedder, *pair) for pair in pairs] for pairs in (SAME, OTHER))
    for threshold in THRESHOLDS:
        found, false = (sum(each >= threshold for each in pairs) for pairs in (same, other))
        told = {"threshold": threshold, "found": found, "false": false, "of": [len(same), len(other)]}
        print(json.dumps(told))  # noqa: T201 - the line is what it is for


if __name__ == "__main__":
    main()
