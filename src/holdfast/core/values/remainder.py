"""What is left of a budget above a run, as an event and a step are told it.

A leaf: events hold it. Never here: the books from which it follows (scopes), what a run has of its own (caps).
"""

from __future__ import annotations

import msgspec


class ScopeLeft(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is left in one scope above a run, of its limit on money or of that on tokens. `of` says whose it is: `tenant`,
    `team`, `tree`, `conversation` or `agent`. What calls in flight hold is not left."""

    scope: str
    of: str
    percent_used: int
    cost_usd: str | None = None
    tokens: int | None = None
