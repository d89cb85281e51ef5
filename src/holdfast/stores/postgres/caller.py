"""Keys, the audit log, and answers under idempotency keys.

Never here: what a key allows, how links are chained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core.values.audit import Entry, Head, Link
from holdfast.ports import OF_NONE, ApiKey, Pending, Reply
from holdfast.stores.audit import Signing
from holdfast.stores.postgres.context import StoreContext, StorePort
from holdfast.stores.row import decode_entry, decode_key, encode, pending_of


class Keys(StorePort):
    """Keeps ports.Keys."""

    async def put(self, key: ApiKey, before: str | None) -> bool:
        columns = (key.name, key.hash, key.tenant, encode(key).decode())
        async with self._db.writing() as db:
            if before is None:
                await db.execute(self._sql["lock_api_keys"])
                return await db.fetchval(self._sql["add_key"], *columns) is not None
            return await db.fetchval(self._sql["replace_key"], *columns, before) is not None

    async def found(self, hash: str) -> ApiKey | None:  # noqa: A002 - the port's word
        return next(iter(await self._all("key_of_hash", hash)), None)

    async def named(self, name: str, tenant: str | None, limit: int) -> Sequence[ApiKey]:
        return await self._all("keys_of_name", name, tenant, limit)

    async def listed(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[ApiKey]:
        return await self._all("keys", tenant, *(after or ("", "")), limit)

    async def cursor_key(self) -> bytes:
        return str((await self._db.fetch(self._sql["cursor_key"]))[0][0]).encode()

    async def _all(self, statement: str, *bound: Any) -> Sequence[ApiKey]:
        return [decode_key(row[0]) for row in await self._db.fetch(self._sql[statement], *bound)]


class Audit(StorePort):
    """Keeps ports.Audit."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._signing = Signing(context.audit_keys)

    async def append(self, entry: Entry) -> Link:
        async with self._db.writing() as db:
            await db.execute(self._sql["lock_audit"])
            known = self._signing.known
            found = await db.fetchrow(self._sql["audit_ends"], known.number)
            added, head = self._signing.next(found, known, entry)
            text = msgspec.json.encode(entry).decode()
            await db.execute(self._sql["add_link"], added.number, added.tenant, added.hash, text, added.signature)
            await db.execute(self._sql["move_audit_head"], *head)
        self._signing.know(head)
        return added

    async def links(self, after: int, tenant: str | None, limit: int) -> Sequence[Link]:
        found = await self._db.fetch(self._sql["links"], after, tenant, limit)
        return [Link(number, decode_entry(entry), *rest) for number, entry, *rest in found]

    async def head(self) -> Head | None:
        found = await self._db.fetch(self._sql["audit_head"])
        return Head(*found[0]) if found else None


class Replies(StorePort):
    """Keeps ports.Replies."""

    async def begin(self, name: str, digest: str, kept_ms: int, tenant: str = OF_NONE) -> Pending:
        now_ms = self._clock.now_ms()
        async with self._db.writing() as db:
            await db.execute(self._sql["forget_replies"], now_ms - kept_ms)
            if await db.fetchval(self._sql["begin_reply"], name, self._sealing.seal_hash(tenant, digest), now_ms) is not None:
                return Pending(digest, now_ms, is_new=True)
            before, begun_at_ms, reply = await db.fetchrow(self._sql["reply"], name)
            return pending_of(before, begun_at_ms, reply, self._sealing)

    async def finish(self, name: str, reply: Reply | None, tenant: str = OF_NONE) -> bool:
        if reply is None:
            return bool(await self._db.fetch(self._sql["drop_reply"], name))
        return bool(await self._db.fetch(self._sql["finish_reply"], name, self._sealing.seal(tenant, encode(reply))))
