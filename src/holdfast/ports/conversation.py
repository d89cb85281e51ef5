"""Where conversations are kept, with their exchanges.

Never here: an implementation, a default, what follows from a message (core.nouns.conversations).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.nouns.conversations import Change, Conversation, Exchange


class Conversations(Protocol):
    """Those of the store, each known by its tenant and its id."""

    async def put(self, change: Change) -> bool:
        """Keep a conversation with what was said, in one transaction, in the place of the one of its revision (0: there is
        none); it has the next revision afterwards. False, and nothing is changed, where another stands there."""
        ...

    async def remove(self, conversation: Conversation) -> bool:
        """Remove one with all that was said in it, in one transaction. False, and nothing is removed, where it has changed
        since it was seen, or somebody is at it."""
        ...

    async def idle(self, before_ms: int, limit: int) -> Sequence[Conversation]:
        """Those at which nobody is, and that have not changed since `before_ms`, by the time of their last change."""
        ...

    async def find(self, tenant: str, conversation: str) -> Conversation | None: ...

    async def exchanges(self, tenant: str, conversation: str) -> Sequence[Exchange]:
        """All that was said, by number."""
        ...

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Conversation]:
        """By tenant and id; `after` are those of the last one before."""
        ...

    async def due(self, limit: int) -> Sequence[Conversation]:
        """Those at which somebody must look: whose run has ended, or is still to be started or cancelled."""
        ...
