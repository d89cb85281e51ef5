"""Conversations, with what was said in them.

Never here: what follows from a message.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from holdfast.core.nouns.conversations import Change, Conversation, Exchange
from holdfast.stores.row import conversation_of, conversations_of, decode_exchange, encode
from holdfast.stores.sqlite.context import SQL, StorePort, rows, value


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
        said = [(kept.tenant, kept.id, each.number, self._sealing.seal(kept.tenant, encode(each))) for each in change.exchanges]

        def write(db: apsw.Connection) -> bool:
            if kept.revision:
                found = value(db, "replace_conversation", (*columns, kept.revision))
            else:
                found = value(db, "add_conversation", columns)
            if found is not None and said:
                db.executemany(SQL["put_exchange"], said)
            return found is not None

        return await self._writer.write(write)

    async def remove(self, conversation: Conversation) -> bool:
        place = (conversation.tenant, conversation.id)

        def write(db: apsw.Connection) -> bool:
            found = value(db, "remove_conversation", (*place, conversation.revision))
            if found is not None:
                rows(db, "remove_exchanges", place)
            return found is not None

        return await self._writer.write(write)

    async def idle(self, before_ms: int, limit: int) -> Sequence[Conversation]:
        asked = (before_ms, limit)
        found = await self._reader.ask(lambda db: rows(db, "conversations_idle", asked))
        return conversations_of(found, self._sealing)

    async def find(self, tenant: str, conversation: str) -> Conversation | None:
        found = await self._reader.ask(lambda db: rows(db, "conversation", (tenant, conversation)))
        return conversation_of(self._sealing, *found[0]) if found else None

    async def exchanges(self, tenant: str, conversation: str) -> Sequence[Exchange]:
        found = await self._reader.ask(lambda db: rows(db, "exchanges", (tenant, conversation)))
        return [decode_exchange(self._sealing.open(body)) for (body,) in found]

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Conversation]:
        asked = (tenant, *(after or ("", "")), limit)
        found = await self._reader.ask(lambda db: rows(db, "conversations", asked))
        return conversations_of(found, self._sealing)

    async def due(self, limit: int) -> Sequence[Conversation]:
        found = await self._reader.ask(lambda db: rows(db, "conversations_due", (limit,)))
        return conversations_of(found, self._sealing)
