"""Keys, sign-ins, the audit log, and answers under idempotency keys.

A process knows the end of the log that it has seen last, and with which keys it signs. Never here: what a key allows, how links
are chained (core.values.audit).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Unpack

import msgspec

from holdfast.core.values.audit import FIRST, Entry, Head, Link, before_next, head_of, link
from holdfast.core.values.audit import Keys as SigningKeys
from holdfast.ports import MAX_LISTED, OF_NONE, ApiKey, AuditFilter, PendingRequest, Reply, SignIn
from holdfast.stores.nouns.lists import listed
from holdfast.stores.nouns.tables import Noun, Steps, StoreParts, do, lock
from holdfast.stores.row import encode

_LAST: Final = "\U0010ffff"
"""The last character: a text before it begins with what stands before it."""
_decode_key: Final = msgspec.json.Decoder(ApiKey).decode
_decode_sign_in: Final = msgspec.json.Decoder(SignIn).decode
_decode_entry: Final = msgspec.json.Decoder(Entry).decode
_decode_reply: Final = msgspec.json.Decoder(Reply).decode


class Signing:
    """The last entry that one process has seen, and the keys that it has."""

    def __init__(self, keys: SigningKeys) -> None:
        """`keys` are those of the log, the newest first; none where it is not signed."""
        self.known = Head(0, FIRST)
        self._keys = keys

    def next(self, ends: Sequence[Any], previous: Head, entry: Entry) -> tuple[Link, Head]:
        """Return the entry that follows the log's end, and the head after it. `ends` are the head, the last row, and the hash
        that the entry `previous` has there; `previous` was read with them, and may be another by now."""
        head, last = (Head(*part) if part[0] is not None else None for part in (ends[:3], ends[3:6]))
        is_known_there = previous.number == 0 or ends[6] == previous.hash
        before = before_next(head, last, previous, is_known_there, self._keys)
        key = next(iter(self._keys), b"")
        added = link(before, entry, key)
        return added, head_of(added, key)

    def know(self, head: Head) -> None:
        """Keep in mind that the log has come so far."""
        if head.number > self.known.number:
            self.known = head


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

    async def find(self, hash: str) -> ApiKey | None:  # noqa: A002 - the port's word
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


class SignIns(Noun):
    """Keeps ports.SignIns."""

    async def add(self, sign_in: SignIn, most: int) -> None:
        text, now_ms = encode(sign_in).decode(), self._clock.now_ms()

        def steps() -> Steps[None]:
            yield do("forget_sign_ins", now_ms)
            yield do("add_sign_in", sign_in.hash, sign_in.owner, sign_in.expires_at_ms, text)
            yield do("trim_sign_ins", sign_in.owner, most)

        await self._tables.transact(steps)

    async def find(self, hash: str) -> SignIn | None:  # noqa: A002 - the port's word
        for (text,) in await self._tables.ask("sign_in", hash):
            found = _decode_sign_in(text)
            return found if found.expires_at_ms > self._clock.now_ms() else None
        return None

    async def listed(
        self,
        *,
        name: str | None = None,
        tenant: str | None = None,
        session: str | None = None,
        after: str | None = None,
        limit: int,
    ) -> Sequence[SignIn]:
        criteria = {"name": name, "tenant": tenant, "id": session, "now_ms": self._clock.now_ms(), "after": after}
        return [_decode_sign_in(text) for (text,) in await listed(self._tables, "sign_ins", criteria, limit)]

    async def end(self, hash: str) -> bool:  # noqa: A002 - the port's word
        return bool(await self._tables.change("end_sign_in", hash))

    async def end_of(self, name: str, tenant: str | None) -> int:
        return len(await self._tables.change("end_sign_ins", name, tenant, self._clock.now_ms()))


class Audit(Noun):
    """Keeps ports.Audit."""

    def __init__(self, ground: StoreParts) -> None:
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

    async def links(self, **filters: Unpack[AuditFilter]) -> Sequence[Link]:
        criteria: dict[str, Any] = {**filters, "actions": list(filters.get("actions") or ()) or None}
        limit, is_newest = criteria.pop("limit", MAX_LISTED), criteria.pop("newest_first", False)
        if (name := filters.get("name")) is not None:
            criteria["name"] = name, name
        if (about := filters.get("about")) is not None:
            criteria["about"] = about, f"{about}{_LAST}"
        found = await listed(self._tables, "audit", criteria, limit, "order_newest" if is_newest else "order")
        return [Link(number, _decode_entry(entry), *rest) for number, entry, *rest in found]

    async def head(self) -> Head | None:
        found = await self._tables.ask("audit_head")
        return Head(*found[0]) if found else None


class Replies(Noun):
    """Keeps ports.Replies."""

    async def begin(self, name: str, digest: str, kept_ms: int, tenant: str = OF_NONE) -> PendingRequest:
        now_ms, kept = self._clock.now_ms(), self._sealing.seal_hash(tenant, digest)

        def steps() -> Steps[Sequence[Any] | None]:
            yield do("forget_replies", now_ms - kept_ms)
            if (yield do("begin_reply", name, kept, now_ms)):
                return None
            (before,) = yield do("reply", name)
            return before

        before = await self._tables.transact(steps)
        if before is None:
            return PendingRequest(digest, now_ms, is_new=True)
        digest, begun_at_ms, reply = before
        answer = None if reply is None else _decode_reply(self._sealing.open(reply))
        return PendingRequest(self._sealing.open_hash(digest), begun_at_ms, answer)

    async def finish(self, name: str, reply: Reply | None, tenant: str = OF_NONE) -> bool:
        if reply is None:
            return bool(await self._tables.change("drop_reply", name))
        return bool(await self._tables.change("finish_reply", name, self._sealing.seal(tenant, encode(reply))))
