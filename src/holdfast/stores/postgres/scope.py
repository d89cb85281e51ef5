"""The books of the scopes above runs: moved by appends, read by people, and who waits for room in them.

Never here: what a posting means, or who goes on when there is room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.ids import RunId
from holdfast.core.scopes import Posting, ScopeRow, Waiting, family_of
from holdfast.errors import OverLimit
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.context import StorePort

if TYPE_CHECKING:
    from holdfast.stores.postgres.append import Entry


class ScopeBalances:
    """The books of the scopes that one flush touches, their rows locked in the order of their keys."""

    def __init__(self, db: Connection, sql: dict[str, str], rows: dict[str, ScopeRow]) -> None:
        self._db = db
        self._sql = sql
        self._rows = rows
        self._admitted: list[RunId] = []
        self.refused: dict[RunId, OverLimit] = {}
        """What the appends would be told that do not fit, if they are at their places."""

    @classmethod
    async def locked(cls, db: Connection, sql: dict[str, str], entries: Sequence[Entry]) -> ScopeBalances:
        touched = {posting.scope: posting.family for new in entries for posting in new.changes.postings}
        if not touched:
            return cls(db, sql, {})
        names = sorted(touched)
        await db.execute(sql["make_scopes"], names, [touched[name] for name in names])
        rows = [ScopeRow(*row) for row in await db.fetch(sql["lock_scopes"], names)]
        return cls(db, sql, {row.scope: row for row in rows})

    async def admit(self, new: Entry) -> bool:
        """Move the books as `new` does, if there is room in every scope."""
        for posting in new.changes.postings:
            row = self._limited(posting)
            if not posting.bounded or posting.total <= 0 or row.left is None:
                continue
            ahead = 0
            if posting.in_turn:
                asked = (posting.scope, new.run, self._admitted)
                ahead = int(await self._db.fetchval(self._sql["wanted_ahead"], *asked))
            if posting.total > row.left - ahead:
                self.refused[new.run] = _over(new, row, ahead, posting)
                return False
        for posting in new.changes.postings:
            before = self._limited(posting)
            self._rows[posting.scope] = ScopeRow(
                before.scope, before.limit, before.settled + posting.settled, before.held + posting.held,
                before.in_doubt + posting.in_doubt,
            )  # fmt: skip
        self._admitted.append(new.run)
        return True

    def _limited(self, posting: Posting) -> ScopeRow:
        """The books as `posting` finds them, with the limit that it brings along."""
        row = self._rows[posting.scope]
        return row if posting.limit is None else msgspec.structs.replace(row, limit=posting.limit)

    async def write(self, written: Sequence[Entry]) -> None:
        """Write down what the appends that were written move, each scope once."""
        moved: dict[str, tuple[int, int, int]] = {}
        for new in written:
            for posting in new.changes.postings:
                if posting.limit is not None:
                    await self._db.execute(self._sql["set_limit"], posting.family, posting.limit)
                settled, held, in_doubt = moved.get(posting.scope, (0, 0, 0))
                moved[posting.scope] = settled + posting.settled, held + posting.held, in_doubt + posting.in_doubt
        if moved:
            names = sorted(moved)
            parts = ([moved[name][part] for name in names] for part in range(3))
            await self._db.execute(self._sql["move_scopes"], names, *parts)

    async def leave_waiter(self, new: Entry, refused: OverLimit) -> None:
        if any(posting.waits for posting in new.changes.postings if posting.scope == refused.scope):
            await self._db.execute(
                self._sql["put_waiter"], refused.scope, new.run, refused.wanted, new.changes.run.graph_hash
            )


def _over(new: Entry, row: ScopeRow, ahead: int, posting: Posting) -> OverLimit:
    return OverLimit(
        f"{row.scope} has {row.left} of {row.limit} left, and run {new.run} wants {posting.total}. Nothing was written.",
        run=new.run, scope=row.scope, limit=row.limit, used=row.used + ahead, held=row.held, wanted=posting.total,
    )  # fmt: skip


class Scopes(StorePort):
    """Keeps ports.Scopes."""

    async def set_limit(self, family: str, amount: int | None) -> None:
        if amount is None:
            await self._db.execute(self._sql["delete_limit"], family)
        else:
            await self._db.execute(self._sql["set_limit"], family, amount)

    async def limits(self, family: str) -> Mapping[str, int]:
        return dict(await self._db.fetch(self._sql["limits"], family))

    async def balances(self, names: Sequence[str]) -> Sequence[ScopeRow]:
        asked = list(names), [family_of(name) for name in names]
        return [ScopeRow(*row) for row in await self._db.fetch(self._sql["balances"], *asked)]

    async def waiting(self, scopes: Sequence[str], limit: int) -> Sequence[Waiting]:
        return [Waiting(*row) for row in await self._db.fetch(self._sql["waiting"], list(scopes), limit)]

    async def headroom(self, limit: int) -> Sequence[Waiting]:
        return [Waiting(*row) for row in await self._db.fetch(self._sql["room"], limit)]
