"""What one evaluation may use: how much it makes and how much it looks at, so that no expression is a bomb.

Never here: a clock. The same expression over the same values always ends the same way.
"""

from __future__ import annotations

MEMORY_LIMIT_BYTES = 1024 * 1024
"""Of everything that one evaluation makes: texts in UTF-8, and what is read from JSON, by the size of the JSON."""

ITEM_SIZE_BYTES = 8
"""What an item costs that `.*` collects: a reference."""

CHARACTERS_LIMIT = 16_000_000
"""Compared or read as a number by one evaluation: a second at the worst."""

ITEM_COST_CHARACTERS = 16
"""What a visited item counts, because it takes about as long: a million of them is as many as may be."""


class Refusal(Exception):
    """An evaluation cannot go on; the evaluator knows where in the text that is."""


class Meter:
    """The account of one evaluation."""

    def __init__(self) -> None:
        self._memory_bytes = 0
        self._characters = 0

    def made(self, text: str) -> None:
        """A text came into being, or is taken apart. Raises Refusal."""
        self._hold(len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))

    def collected(self, items: int) -> None:
        """References to this many items came into being. Raises Refusal."""
        self._hold(items * ITEM_SIZE_BYTES)

    def looked_at(self, characters: int = 0, *, items: int = 0) -> None:
        """Characters are about to be compared, or items to be visited. Raises Refusal."""
        self._characters += characters + items * ITEM_COST_CHARACTERS
        if self._characters > CHARACTERS_LIMIT:
            raise Refusal(
                f"This looks at more than {CHARACTERS_LIMIT:,} characters or {CHARACTERS_LIMIT // ITEM_COST_CHARACTERS:,} "
                "items, which is as many as one expression may. Do it in a step and use the step's output."
            )

    def _hold(self, size_bytes: int) -> None:
        self._memory_bytes += size_bytes
        if self._memory_bytes > MEMORY_LIMIT_BYTES:
            raise Refusal(
                f"This makes more than {MEMORY_LIMIT_BYTES:,} bytes, which is as much as one expression may in all. "
                "Do it in a step and use the step's output."
            )
