"""Tenant-wide effect keys: taken with the intent that means the effect, closed with its outcome.

Never here: who may call what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.core.values.ids import EffectKey, RunId
from holdfast.core.views.projection import KeyClaim
from holdfast.errors import EffectKeyTaken
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.row import Owner, conflict, encode, owners_of

if TYPE_CHECKING:
    from holdfast.stores.postgres.append import Entry


class Keys:
    """The keys that one flush touches, locked in their order until its end: a free one is no row to lock."""

    def __init__(self, db: Connection, sql: dict[str, str], owners: dict[EffectKey, Owner]) -> None:
        self._db = db
        self._sql = sql
        self._owners = owners
        self.conflicts: dict[RunId, EffectKeyTaken] = {}
        """What the appends would be told whose effect is another run's, if they are at their places."""

    @classmethod
    async def locked(cls, db: Connection, sql: dict[str, str], entries: Sequence[Entry]) -> Keys:
        touched = sorted({change.key for new in entries for change in new.changes.effect_keys})
        if not touched:
            return cls(db, sql, {})
        await db.execute(sql["lock_effect_keys"], touched)
        return cls(db, sql, owners_of(await db.fetch(sql["effect_keys"], touched)))

    def admit(self, new: Entry) -> bool:
        """Return True if no key that `new` would take is another run's."""
        if (problem := conflict(self._owners, new.run, new.changes.effect_keys)) is not None:
            self.conflicts[new.run] = problem
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
