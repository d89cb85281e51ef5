"""The books of the scopes above runs: moved by appends, and read.

Never here: what a posting means, or who goes on when there is room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import AgentRow, ScopeRow, budget_of, family_of
from holdfast.errors import OverLimit
from holdfast.stores import books
from holdfast.stores.nouns.scopes import BooksRead
from holdfast.stores.postgres.connection import Connection
from holdfast.stores.postgres.context import StoreContext

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
        found = await db.fetch(sql["lock_scopes"], names)
        if any(map(budget_of, names)):  # a limit that was lent while the lock was waited for is not in what it answered
            found = await db.fetch(sql["balances"], names, [touched[name] for name in names])
        rows = [ScopeRow(*row) for row in found]
        return cls(db, sql, {row.scope: row for row in rows})

    async def admit(self, new: Entry) -> bool:
        """Move the books as `new` does, if there is room in every scope."""
        for posting in new.changes.postings:
            row = books.limited(self._rows, posting)
            ahead = 0
            if posting.in_turn and row.left is not None:
                asked = (posting.scope, new.run, self._admitted)
                ahead = int(await self._db.fetchval(self._sql["wanted_ahead"], *asked))
            wanted = books.excess(row, posting, ahead)
            if wanted is not None:
                self.refused[new.run] = books.over(new.run, row, wanted, ahead, await self._team(posting.scope))
                return False
        for posting in new.changes.postings:
            row = books.limited(self._rows, posting)
            self._rows[posting.scope] = books.moved(row, posting)
        self._admitted.append(new.run)
        return True

    async def _team(self, scope: str) -> list[AgentRow]:
        """The agents of the team budget of which a scope is one's, as this flush has moved their books so far. Their rows need
        no lock: nobody moves one without that on the row of their budget."""
        budget = budget_of(scope)
        if budget is None:
            return []
        return books.team(await agents(self._db, self._sql, budget), self._rows)

    async def write(self, entries: Sequence[Entry]) -> None:
        """Write down what the appends that were written move, each scope and each limit once."""
        moved: dict[str, ScopeRow] = {}
        lent: dict[str, int] = {}
        for new in entries:
            for posting in new.changes.postings:
                if posting.limit is not None:
                    await self._db.execute(self._sql["set_limit"], posting.family, posting.limit)
                if posting.limit_change:
                    lent[posting.family] = lent.get(posting.family, 0) + posting.limit_change
                before = moved.get(posting.scope) or ScopeRow(posting.scope, None)
                moved[posting.scope] = books.moved(before, posting)
        if moved:
            of = [moved[name] for name in sorted(moved)]
            parts = ([getattr(row, part) for row in of] for part in ("scope", "settled", "held", "in_doubt"))
            times = books.moved_at_ms(new.changes for new in entries)
            await self._db.execute(self._sql["move_scopes"], *parts, [times.get(row.scope, 0) for row in of])
        if lent:
            await self._db.execute(self._sql["change_limits"], [*lent], [*lent.values()])

    async def leave_waiter(self, new: Entry, refused: OverLimit) -> None:
        if any(posting.waits for posting in new.changes.postings if posting.scope == refused.scope):
            await self._db.execute(self._sql["put_waiter"], refused.scope, new.run, refused.wanted, new.changes.run.graph_hash)


async def agents(db: Connection, sql: dict[str, str], budget: str) -> list[AgentRow]:
    """The books of the agents of a team budget."""
    return [AgentRow(*row) for row in await db.fetch(sql["agents"], f"{budget}/")]


class Scopes(BooksRead):
    """Keeps ports.Scopes."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context.ground)

    async def balances(self, names: Sequence[str]) -> Sequence[ScopeRow]:
        asked = list(names), [family_of(name) for name in names]
        return [ScopeRow(*row) for row in await self._tables.ask("balances", *asked)]
