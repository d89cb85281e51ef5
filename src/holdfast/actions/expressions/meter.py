"""The limits of an evaluation: how much it makes and how much it looks at. So no expression is a bomb, nor are many together.

Never here: a clock. The same expressions over the same values always end the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

MEMORY_LIMIT_BYTES = 1024 * 1024
"""Of everything that one evaluation makes: texts in UTF-8, and what is read from JSON, by the size of the JSON."""

ITEM_SIZE_BYTES = 8
"""What an item costs that `.*` collects: a reference."""

CHARACTERS_LIMIT = 16_000_000
"""Compared or read as a number by one evaluation: a second at the worst."""

ITEM_COST_CHARACTERS = 16
"""What a visited item counts, because it takes about as long: a million of them is as many as may be."""


ACCOUNT_CHARACTERS = 64_000_000
"""Looked at and made by all that draw on one account: some four seconds at the worst."""


class Refusal(Exception):
    """An evaluation cannot go on; the evaluator knows where in the text that is."""


class NotQuick(Exception):
    """An evaluation takes longer than its caller would wait. Nothing has been drawn for it."""


class Account:
    """The amount that many evaluations, for example those of one job, may look at and make in all."""

    def __init__(self) -> None:
        self._left = ACCOUNT_CHARACTERS
        self._least = 0

    @contextmanager
    def open(self, quick_characters: int | None = None) -> Iterator[None]:
        """Evaluations in this context draw on it. Raises NotQuick once they have drawn more than `quick_characters`."""
        before = self._left
        self._least = 0 if quick_characters is None else before - quick_characters
        token = _account.set(self)
        try:
            yield
        except NotQuick:
            self._left = before
            raise
        finally:
            _account.reset(token)

    def draw(self, characters: int) -> None:
        """Raises Refusal, NotQuick."""
        self._left -= characters
        if self._left < 0:
            raise Refusal(
                f"The expressions of a job may look at and make {ACCOUNT_CHARACTERS:,} characters in all, and these take"
                " more. Do it in a step and use the step's output."
            )
        if self._left < self._least:
            raise NotQuick


_account: ContextVar[Account | None] = ContextVar("holdfast_expressions_account", default=None)


class Meter:
    """The use of one evaluation. It draws on the account that is open where it is made, if one is."""

    def __init__(self) -> None:
        self._memory_bytes = 0
        self._characters = 0
        self._account = _account.get()

    def charge_text(self, text: str) -> None:
        """A text came into being, or is taken apart. Raises Refusal."""
        self._hold(len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")))

    def collected(self, items: int) -> None:
        """References to this many items came into being. Raises Refusal."""
        self._hold(items * ITEM_SIZE_BYTES)

    def looked_at(self, characters: int = 0, *, items: int = 0) -> None:
        """Characters are about to be compared, or items to be visited. Raises Refusal."""
        cost = characters + items * ITEM_COST_CHARACTERS
        self._characters += cost
        if self._account is not None:
            self._account.draw(cost)
        if self._characters > CHARACTERS_LIMIT:
            raise Refusal(
                f"This looks at more than {CHARACTERS_LIMIT:,} characters or {CHARACTERS_LIMIT // ITEM_COST_CHARACTERS:,} "
                "items, which is as many as one expression may. Do it in a step and use the step's output."
            )

    def _hold(self, size_bytes: int) -> None:
        self._memory_bytes += size_bytes
        if self._account is not None:
            self._account.draw(size_bytes + ITEM_COST_CHARACTERS)
        if self._memory_bytes > MEMORY_LIMIT_BYTES:
            raise Refusal(
                f"This makes more than {MEMORY_LIMIT_BYTES:,} bytes, which is as much as one expression may in all. "
                "Do it in a step and use the step's output."
            )
