"""The books of the scopes above runs: moved by appends, and read.

Never here: what a posting means, or who goes on when there is room.
"""

from __future__ import annotations

from collections.abc import Sequence

import apsw
import msgspec

from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import AgentRow, ScopeRow, budget_of, family_of
from holdfast.errors import OverLimit
from holdfast.stores import books
from holdfast.stores.nouns.scopes import BooksRead
from holdfast.stores.sqlite.context import SQL, StoreContext, rows, value
from holdfast.stores.sqlite.entry import Entry

_encode = msgspec.json.Encoder().encode
_decode_balances = msgspec.json.Decoder(list[tuple[str, int | None, int, int, int]]).decode


class ScopeBalances:
    """The books of the scopes that one commit touches: read once, moved append by append, written once."""

    def __init__(self, db: apsw.Connection, entries: Sequence[Entry]) -> None:
        self._db = db
        asked = {posting.scope: posting.family for new in entries for posting in new.changes.postings}
        self._families = asked
        self._rows = {row.scope: row for row in read(db, list(asked.items()))} if asked else {}
        self._admitted: list[RunId] = []
        self._refused: list[tuple[str, str, int, str]] = []

    def admit(self, new: Entry) -> OverLimit | None:
        """Move the books as `new` does, or say which scope has no room for it: then nothing is moved."""
        for posting in new.changes.postings:
            row = books.limited(self._rows, posting)
            ahead = self._ahead(posting.scope, new.run) if posting.in_turn and row.left is not None else 0
            wanted = books.excess(row, posting, ahead)
            if wanted is not None:
                if posting.waits:
                    self._refused.append((posting.scope, new.run, wanted, new.changes.run.graph_hash))
                return books.over(new.run, row, wanted, ahead, self._team(posting.scope))
        for posting in new.changes.postings:
            row = books.limited(self._rows, posting)
            self._rows[posting.scope] = books.moved(row, posting)
        self._admitted.append(new.run)
        return None

    def _team(self, scope: str) -> list[AgentRow]:
        """The agents of the team budget of which a scope is one's, as this commit has moved their books so far."""
        budget = budget_of(scope)
        return [] if budget is None else books.team(agents(self._db, budget), self._rows)

    def _ahead(self, scope: str, run: RunId) -> int:
        """Return the amount that waiters in a scope want before `run`, or in all if it does not wait."""
        asked = {"scope": scope, "run": run, "admitted": _encode(self._admitted).decode()}
        return int(value(self._db, "wanted_ahead", asked))

    def write(self, accepted: Sequence[Entry]) -> None:
        """Write the books down, and who waits now: what was taken waits where it says, what was refused where it was."""
        times = books.moved_at_ms(new.changes for new in accepted)
        self._db.executemany(
            SQL["put_scope"],
            [
                (scope, self._families[scope], row.settled, row.held, row.in_doubt, times.get(scope, 0))
                for scope, row in sorted(self._rows.items())
            ],
        )
        limits = [(each.family, each.limit) for new in accepted for each in new.changes.postings if each.limit is not None]
        self._db.executemany(SQL["set_limit"], limits)
        lent = [(each.limit_change, each.family) for new in accepted for each in new.changes.postings if each.limit_change]
        self._db.executemany(SQL["change_limit"], lent)
        waits = {new.run: [waiter.scope for waiter in new.changes.waiters] for new in accepted}
        rows(self._db, "delete_waiters", {"runs": _encode(waits).decode()})
        taken = [
            (each.scope, new.run, each.wanted, new.changes.run.graph_hash) for new in accepted for each in new.changes.waiters
        ]
        self._db.executemany(SQL["put_waiter"], [*taken, *self._refused])


def read(db: apsw.Connection, scopes: Sequence[tuple[str, str]]) -> list[ScopeRow]:
    """The books of (scope, family) each, with the limits of their families."""
    return [ScopeRow(*row) for row in _decode_balances(value(db, "balances", (_encode(scopes).decode(),)))]


def agents(db: apsw.Connection, budget: str) -> list[AgentRow]:
    """The books of the agents of a team budget."""
    return [AgentRow(*row) for row in rows(db, "agents", (f"{budget}/",))]


class Scopes(BooksRead):
    """Keeps ports.Scopes."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context.ground)
        self._reader = context.reader

    async def balances(self, names: Sequence[str]) -> Sequence[ScopeRow]:
        return await self._reader.ask(lambda db: read(db, [(scope, family_of(scope)) for scope in names]))
