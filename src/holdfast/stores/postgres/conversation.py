"""Conversations, with what was said in them.

Never here: what follows from a message.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.nouns.conversations import Change, Conversation, Exchange
from holdfast.stores.postgres.context import StorePort
from holdfast.stores.row import conversation_of, conversations_of, decode_exchange, encode


class Conversations(StorePort):
    """Keeps ports.Conversations."""

    async def put(self, change: Change) -> bool:
        kept = change.conversation
        columns = (
            kept.tenant,
            kept.id,
            kept.run,
            kept.is_pending,
            self._sealing.seal(kept.tenant, encode(kept)),
            self._clock.now_ms(),
        )
        async with self._db.writing() as db:
            if kept.revision:
                found = await db.fetchval(self._sql["replace_conversation"], *columns, kept.revision)
            else:
                found = await db.fetchval(self._sql["add_conversation"], *columns)
            if found is not None:
                for each in change.exchanges:
                    await db.execute(
                        self._sql["put_exchange"],
                        kept.tenant,
                        kept.id,
                        each.number,
                        self._sealing.seal(kept.tenant, encode(each)),
                    )
        return found is not None

    async def remove(self, conversation: Conversation) -> bool:
        asked = (conversation.tenant, conversation.id, conversation.revision)
        async with self._db.writing() as db:
            return await db.fetchval(self._sql["remove_conversation"], *asked) is not None

    async def idle(self, before_ms: int, limit: int) -> Sequence[Conversation]:
        found = await self._db.fetch(self._sql["conversations_idle"], before_ms, limit)
        return conversations_of(found, self._sealing)

    async def find(self, tenant: str, conversation: str) -> Conversation | None:
        found = await self._db.fetch(self._sql["conversation"], tenant, conversation)
        return conversation_of(self._sealing, *found[0]) if found else None

    async def exchanges(self, tenant: str, conversation: str) -> Sequence[Exchange]:
        return [
            decode_exchange(self._sealing.open(body))
            for (body,) in await self._db.fetch(self._sql["exchanges"], tenant, conversation)
        ]

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Conversation]:
        asked = (tenant, *(after or ("", "")), limit)
        return conversations_of(await self._db.fetch(self._sql["conversations"], *asked), self._sealing)

    async def due(self, limit: int) -> Sequence[Conversation]:
        return conversations_of(await self._db.fetch(self._sql["conversations_due"], limit), self._sealing)
