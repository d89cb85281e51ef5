"""Tenant-wide effect keys: taken with the intent that means the effect, closed with its outcome.

Never here: who may call what.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from holdfast.core.views.projection import KeyClaim
from holdfast.errors import EffectKeyTaken
from holdfast.stores.row import Owner, conflict, owners_of
from holdfast.stores.sqlite.context import rows
from holdfast.stores.sqlite.entry import Entry

_encode: Final = msgspec.json.Encoder().encode


class Keys:
    """The keys that one commit touches."""

    def __init__(self, db: apsw.Connection, entries: Sequence[Entry]) -> None:
        self._db = db
        touched = {change.key for new in entries for change in new.changes.effect_keys}
        self._owners = owners_of(rows(db, "effect_keys", (_encode(sorted(touched)).decode(),))) if touched else {}

    def find_conflict(self, new: Entry) -> EffectKeyTaken | None:
        """Return the error for the first key of `new` that another run has, or None."""
        return conflict(self._owners, new.run, new.changes.effect_keys)

    def write(self, new: Entry) -> None:
        """Take and close the keys of `new`, in its order."""
        for change in new.changes.effect_keys:
            if isinstance(change, KeyClaim):
                row = (change.key, change.tenant, change.run, change.call, change.args_hash)
                rows(self._db, "claim_effect_key", row)
                self._owners[change.key] = Owner(change.run, change.call, change.args_hash, None)
                continue
            owner = self._owners.get(change.key)
            if owner is None or owner.call != change.call:
                continue  # another call of its run has taken its place
            if change.response is None:
                rows(self._db, "free_effect_key", (change.key,))
                del self._owners[change.key]
            else:
                rows(self._db, "close_effect_key", (_encode(change.response), change.key))
                self._owners[change.key] = owner._replace(response=change.response)
