"""Keys, the audit log, and answers under idempotency keys.

Never here: what a key allows, how links are chained.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec

from holdfast.core.values.audit import Entry, Head, Link
from holdfast.ports import OF_NONE, ApiKey, Pending, Reply
from holdfast.stores.audit import Signing
from holdfast.stores.row import decode_entry, decode_key, encode, pending_of
from holdfast.stores.sqlite.context import Bound, StoreContext, StorePort, rows, value


class Keys(StorePort):
    """Keeps ports.Keys."""

    async def put(self, key: ApiKey, before: str | None) -> bool:
        columns = (key.name, key.hash, key.tenant, encode(key).decode())
        if before is None:
            return await self._writer.write(lambda db: value(db, "add_key", columns)) is not None
        return await self._writer.write(lambda db: value(db, "replace_key", (*columns, before))) is not None

    async def found(self, hash: str) -> ApiKey | None:  # noqa: A002 - the port's word
        return next(iter(await self._all("key_of_hash", (hash,))), None)

    async def named(self, name: str, tenant: str | None, limit: int) -> Sequence[ApiKey]:
        return await self._all("keys_of_name", (name, tenant, limit))

    async def listed(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[ApiKey]:
        return await self._all("keys", (tenant, *(after or ("", "")), limit))

    async def cursor_key(self) -> bytes:
        return str(await self._reader.ask(lambda db: value(db, "cursor_key"))).encode()

    async def _all(self, statement: str, bound: Bound) -> Sequence[ApiKey]:
        return [decode_key(row[0]) for row in await self._reader.ask(lambda db: rows(db, statement, bound))]


class Audit(StorePort):
    """Keeps ports.Audit."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._signing = Signing(context.audit_keys)

    async def append(self, entry: Entry) -> Link:
        def write(db: apsw.Connection) -> tuple[Link, Head]:
            known = self._signing.known
            (found,) = rows(db, "audit_ends", (known.number,))
            added, head = self._signing.next(found, known, entry)
            text = msgspec.json.encode(entry).decode()
            rows(db, "add_link", (added.number, added.tenant, added.hash, text, added.signature))
            rows(db, "move_audit_head", head)
            return added, head

        added, head = await self._writer.write(write)
        self._signing.know(head)
        return added

    async def links(self, after: int, tenant: str | None, limit: int) -> Sequence[Link]:
        found = await self._reader.ask(lambda db: rows(db, "links", (after, tenant, limit)))
        return [Link(number, decode_entry(entry), *rest) for number, entry, *rest in found]

    async def head(self) -> Head | None:
        found = await self._reader.ask(lambda db: rows(db, "audit_head"))
        return Head(*found[0]) if found else None


class Replies(StorePort):
    """Keeps ports.Replies."""

    async def begin(self, name: str, digest: str, kept_ms: int, tenant: str = OF_NONE) -> Pending:
        now_ms = self._clock.now_ms()

        def write(db: apsw.Connection) -> Pending:
            rows(db, "forget_replies", (now_ms - kept_ms,))
            if value(db, "begin_reply", (name, self._sealing.seal_hash(tenant, digest), now_ms)) is not None:
                return Pending(digest, now_ms, is_new=True)
            ((before, begun_at_ms, reply),) = rows(db, "reply", (name,))
            return pending_of(before, begun_at_ms, reply, self._sealing)

        return await self._writer.write(write)

    async def finish(self, name: str, reply: Reply | None, tenant: str = OF_NONE) -> bool:
        if reply is None:
            return bool(await self._writer.write(lambda db: rows(db, "drop_reply", (name,))))
        kept = name, self._sealing.seal(tenant, encode(reply))
        return bool(await self._writer.write(lambda db: rows(db, "finish_reply", kept)))
