"""The remainder of a budget above a run, as an event and a step get it.

A leaf: events hold it. Never here: the books from which it follows (scopes), a run's own limits (limits).
"""

from __future__ import annotations

import msgspec


class ScopeLeft(msgspec.Struct, frozen=True, omit_defaults=True):
    """The remainder of one scope above a run, of its limit on money or on tokens. `of` names the owner: `tenant`, `team`,
    `tree`, `conversation` or `agent`. Amounts held by calls in flight are not left."""

    scope: str
    of: str
    percent_used: int
    cost_usd: str | None = None
    tokens: int | None = None
