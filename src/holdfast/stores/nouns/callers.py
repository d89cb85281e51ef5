"""Keys, the audit log, and answers under idempotency keys.

Never here: what a key allows, how links are chained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.core.values.audit import Entry, Head, Link
from holdfast.ports import OF_NONE, ApiKey, Pending, Reply
from holdfast.stores.audit import Signing
from holdfast.stores.nouns.tables import Ground, Noun, Steps, do, lock
from holdfast.stores.row import encode

_decode_key: Final = msgspec.json.Decoder(ApiKey).decode
_decode_entry: Final = msgspec.json.Decoder(Entry).decode
_decode_reply: Final = msgspec.json.Decoder(Reply).decode


class Keys(Noun):
    """Keeps ports.Keys."""

    async def put(self, key: ApiKey, before: str | None) -> bool:
        row = (key.name, key.hash, key.tenant, encode(key).decode())

        def steps() -> Steps[bool]:
            if before is not None:
                return bool((yield do("replace_key", *row, before)))
            yield lock("lock_api_keys")
            return bool((yield do("add_key", *row)))

        return await self._tables.transact(steps)

    async def found(self, hash: str) -> ApiKey | None:  # noqa: A002 - the port's word
        return next(iter(await self._all("key_of_hash", hash)), None)

    async def named(self, name: str, tenant: str | None, limit: int) -> Sequence[ApiKey]:
        return await self._all("keys_of_name", name, tenant, limit)

    async def listed(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[ApiKey]:
        return await self._all("keys", tenant, *(after or ("", "")), limit)

    async def cursor_key(self) -> bytes:
        ((secret,),) = await self._tables.ask("cursor_key")
        return str(secret).encode()

    async def _all(self, statement: str, *bound: Any) -> Sequence[ApiKey]:
        return [_decode_key(key) for (key,) in await self._tables.ask(statement, *bound)]


class Audit(Noun):
    """Keeps ports.Audit."""

    def __init__(self, ground: Ground) -> None:
        super().__init__(ground)
        self._signing = Signing(ground.audit_keys)

    async def append(self, entry: Entry) -> Link:
        text = msgspec.json.encode(entry).decode()

        def steps() -> Steps[tuple[Link, Head]]:
            yield lock("lock_audit")
            known = self._signing.known
            (ends,) = yield do("audit_ends", known.number)
            added, head = self._signing.next(ends, known, entry)
            yield do("add_link", added.number, added.tenant, added.hash, text, added.signature)
            yield do("move_audit_head", *head)
            return added, head

        added, head = await self._tables.transact(steps)
        self._signing.know(head)
        return added

    async def links(self, after: int, tenant: str | None, limit: int) -> Sequence[Link]:
        found = await self._tables.ask("links", after, tenant, limit)
        return [Link(number, _decode_entry(entry), *rest) for number, entry, *rest in found]

    async def head(self) -> Head | None:
        found = await self._tables.ask("audit_head")
        return Head(*found[0]) if found else None


class Replies(Noun):
    """Keeps ports.Replies."""

    async def begin(self, name: str, digest: str, kept_ms: int, tenant: str = OF_NONE) -> Pending:
        now_ms, kept = self._clock.now_ms(), self._sealing.seal_hash(tenant, digest)

        def steps() -> Steps[Sequence[Any] | None]:
            yield do("forget_replies", now_ms - kept_ms)
            if (yield do("begin_reply", name, kept, now_ms)):
                return None
            (before,) = yield do("reply", name)
            return before

        before = await self._tables.transact(steps)
        if before is None:
            return Pending(digest, now_ms, is_new=True)
        digest, begun_at_ms, reply = before
        answer = None if reply is None else _decode_reply(self._sealing.open(reply))
        return Pending(self._sealing.open_hash(digest), begun_at_ms, answer)

    async def finish(self, name: str, reply: Reply | None, tenant: str = OF_NONE) -> bool:
        if reply is None:
            return bool(await self._tables.change("drop_reply", name))
        return bool(await self._tables.change("finish_reply", name, self._sealing.seal(tenant, encode(reply))))
