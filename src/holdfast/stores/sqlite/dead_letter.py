"""Dead letters, as lists and sums ask for them.

Never here: what one is (core.views.projection); they are written with the appends of their runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from holdfast.ports import MOST_LISTED, Letter, LetterCount, LetterFilter
from holdfast.stores.row import is_resolved, letter_of
from holdfast.stores.sqlite.context import SQL, StorePort, rows, value


class DeadLetters(StorePort):
    """Keeps ports.DeadLetters."""

    async def letters(self, **sought: Unpack[LetterFilter]) -> Sequence[Letter]:
        conditions: dict[str, Any] = {
            "run = ?": sought.get("run"),
            "tenant = ?": sought.get("tenant"),
            "workflow = ?": sought.get("workflow"),
            "node = ?": sought.get("node"),
            "error_class = ?": sought.get("error_class"),
            "last_at_ms >= ?": sought.get("since_ms"),
            "last_at_ms < ?": sought.get("until_ms"),
        }
        asked = {condition: value for condition, value in conditions.items() if value is not None}
        after = sought.get("after")
        words = [*asked, *is_resolved(sought.get("state")), *(["(run, step) > (?, ?)"] if after is not None else [])]
        where = "where " + " and ".join(words) if words else ""
        bound = (*asked.values(), *(after or ()), sought.get("limit", MOST_LISTED))
        sql = " ".join((SQL["letters"], where, "order by run, step limit ?"))
        found = await self._reader.ask(lambda db: db.execute(sql, bound).fetchall())
        return [self._letter(*row) for row in found]

    async def counts(self, tenant: str | None = None) -> Sequence[LetterCount]:
        found = await self._reader.ask(lambda db: rows(db, "letter_counts", (tenant,)))
        return [LetterCount(*row) for row in found]

    async def forget(self, before_ms: int) -> int:
        # Who is frozen while it writes keeps others from writing: nobody writes for nothing.
        if await self._reader.ask(lambda db: value(db, "any_old_letter", (before_ms,))) is None:
            return 0
        return len(await self._writer.write(lambda db: rows(db, "forget_letters", (before_ms,))))

    def _letter(self, *row: Any) -> Letter:
        *said, asked, edited, resolved_at_ms = row
        columns: list[Any] = [*said, bool(asked), bool(edited)]
        return Letter(letter_of(columns, self._sealing), resolved_at_ms)
