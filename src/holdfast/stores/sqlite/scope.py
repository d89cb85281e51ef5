"""The books of the scopes above runs: moved by appends, read by people, and who waits for room in them.

Never here: what a posting means, or who goes on when there is room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import apsw
import msgspec

from holdfast.core.ids import RunId
from holdfast.core.scopes import Posting, ScopeRow, Waiting, family_of
from holdfast.errors import OverLimit
from holdfast.stores.sqlite.context import SQL, StorePort, rows, value
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
            row = self._limited(posting)
            if not posting.bounded or posting.total <= 0 or row.left is None:
                continue
            ahead = self._ahead(posting.scope, new.run) if posting.in_turn else 0
            if posting.total > row.left - ahead:
                if posting.waits:
                    self._refused.append((posting.scope, new.run, posting.total, new.changes.run.graph_hash))
                return _over(new, row, ahead, posting)
        for posting in new.changes.postings:
            self._rows[posting.scope] = _moved(self._limited(posting), posting)
        self._admitted.append(new.run)
        return None

    def _limited(self, posting: Posting) -> ScopeRow:
        """The books as `posting` finds them, with the limit that it brings along."""
        row = self._rows[posting.scope]
        return row if posting.limit is None else msgspec.structs.replace(row, limit=posting.limit)

    def _ahead(self, scope: str, run: RunId) -> int:
        """What they want who wait in a scope before `run`, or at all where it does not wait."""
        asked = {"scope": scope, "run": run, "admitted": _encode(self._admitted).decode()}
        return int(value(self._db, "wanted_ahead", asked))

    def write(self, accepted: Sequence[Entry]) -> None:
        """Write the books down, and who waits now: what was taken waits where it says, what was refused where it was."""
        self._db.executemany(
            SQL["put_scope"],
            [
                (scope, self._families[scope], row.settled, row.held, row.in_doubt)
                for scope, row in sorted(self._rows.items())
            ],
        )
        limits = [
            (each.family, each.limit) for new in accepted for each in new.changes.postings if each.limit is not None
        ]  # fmt: skip
        self._db.executemany(SQL["set_limit"], limits)
        waits = {new.run: [waiter.scope for waiter in new.changes.waiters] for new in accepted}
        rows(self._db, "delete_waiters", {"runs": _encode(waits).decode()})
        taken = [
            (each.scope, new.run, each.wanted, new.changes.run.graph_hash)
            for new in accepted
            for each in new.changes.waiters
        ]
        self._db.executemany(SQL["put_waiter"], [*taken, *self._refused])


def read(db: apsw.Connection, scopes: Sequence[tuple[str, str]]) -> list[ScopeRow]:
    """The books of (scope, family) each, with the limits of their families."""
    return [ScopeRow(*row) for row in _decode_balances(value(db, "balances", (_encode(scopes).decode(),)))]


def _moved(row: ScopeRow, posting: Posting) -> ScopeRow:
    return ScopeRow(
        row.scope, row.limit, row.settled + posting.settled, row.held + posting.held, row.in_doubt + posting.in_doubt
    )


def _over(new: Entry, row: ScopeRow, ahead: int, posting: Posting) -> OverLimit:
    return OverLimit(
        f"{row.scope} has {row.left} of {row.limit} left, and run {new.run} wants {posting.total}. Nothing was written.",
        run=new.run, scope=row.scope, limit=row.limit, used=row.used + ahead, held=row.held, wanted=posting.total,
    )  # fmt: skip


class Scopes(StorePort):
    """Keeps ports.Scopes."""

    async def set_limit(self, family: str, amount: int | None) -> None:
        def write(db: apsw.Connection) -> None:
            if amount is None:
                rows(db, "delete_limit", (family,))
            else:
                rows(db, "set_limit", (family, amount))

        await self._writer.write(write)

    async def limits(self, family: str) -> Mapping[str, int]:
        return dict(await self._reader.ask(lambda db: rows(db, "limits", {"family": family})))

    async def balances(self, names: Sequence[str]) -> Sequence[ScopeRow]:
        return await self._reader.ask(lambda db: read(db, [(scope, family_of(scope)) for scope in names]))

    async def waiting(self, scopes: Sequence[str], limit: int) -> Sequence[Waiting]:
        asked = {"scopes": _encode(scopes).decode(), "most": limit}
        return [Waiting(*row) for row in await self._reader.ask(lambda db: rows(db, "waiting", asked))]

    async def headroom(self, limit: int) -> Sequence[Waiting]:
        return [Waiting(*row) for row in await self._reader.ask(lambda db: rows(db, "room", {"most": limit}))]
