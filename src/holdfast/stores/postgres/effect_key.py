"""Tenant-wide effect keys: taken with the intent that means the effect, closed with its outcome.

Never here: who may call what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.core.values.ids import CallId, EffectKey, RunId
from holdfast.core.values.payload import Payload
from holdfast.core.views.projection import KeyClaim
from holdfast.errors import EffectKeyTaken
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.row import encode

if TYPE_CHECKING:
    from holdfast.stores.postgres.append import Entry

_decode_payload = msgspec.json.Decoder(Payload).decode


class Owner(NamedTuple):
    """The owner of a key, with its call and the response to it."""

    run: RunId
    call: CallId
    args_hash: str
    response: Payload | None


class Keys:
    """The keys that one flush touches, locked in their order until its end: a free one is no row to lock."""

    def __init__(self, db: Connection, sql: dict[str, str], owners: dict[EffectKey, Owner]) -> None:
        self._db = db
        self._sql = sql
        self._owners = owners
        self.taken: dict[RunId, EffectKeyTaken] = {}
        """What the appends would be told whose effect is another run's, if they are at their places."""

    @classmethod
    async def locked(cls, db: Connection, sql: dict[str, str], entries: Sequence[Entry]) -> Keys:
        touched = sorted({change.key for new in entries for change in new.changes.effect_keys})
        if not touched:
            return cls(db, sql, {})
        await db.execute(sql["lock_effect_keys"], touched)
        found = {
            EffectKey(key): Owner(run, call, args_hash, None if response is None else _decode_payload(response))
            for key, run, call, args_hash, response in await db.fetch(sql["effect_keys"], touched)
        }
        return cls(db, sql, found)

    def admit(self, new: Entry) -> bool:
        """Return True if no key that `new` would take is another run's."""
        for change in new.changes.effect_keys:
            owner = self._owners.get(change.key) if isinstance(change, KeyClaim) else None
            if owner is not None and owner.run != new.run:
                self.taken[new.run] = EffectKeyTaken(
                    f"The effect that run {new.run} means is call {owner.call}. Nothing was written.",
                    key=change.key,
                    call=owner.call,
                    args_hash=owner.args_hash,
                    response=owner.response,
                )
                return False
        for change in new.changes.effect_keys:
            if isinstance(change, KeyClaim):
                self._owners[change.key] = Owner(change.run, change.call, change.args_hash, None)
        return True

    async def write(self, entries: Sequence[Entry]) -> None:
        """Take and close the keys of the appends that were written, in their order."""
        for new in entries:
            for change in new.changes.effect_keys:
                if isinstance(change, KeyClaim):
                    row = (change.key, change.tenant, change.run, change.call, change.args_hash)
                    await self._db.execute(self._sql["claim_effect_key"], *row)
                elif change.response is None:
                    await self._db.execute(self._sql["free_effect_key"], change.key, change.call)
                else:
                    given = (change.key, change.call, encode(change.response))
                    await self._db.execute(self._sql["close_effect_key"], *given)
