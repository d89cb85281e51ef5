"""Dead letters, as lists and sums ask for them.

Never here: what one is (core.views.projection); they are written with the appends of their runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from holdfast.ports import MOST_LISTED, Letter, LetterCount, LetterFilter
from holdfast.stores.postgres.context import StorePort, is_run
from holdfast.stores.row import is_resolved, letter_of


class DeadLetters(StorePort):
    """Keeps ports.DeadLetters."""

    async def letters(self, **sought: Unpack[LetterFilter]) -> Sequence[Letter]:
        run, after = sought.get("run"), sought.get("after")
        if (run is not None and not is_run(run)) or (after is not None and not is_run(after[0])):
            return []
        conditions: dict[str, Any] = {
            "run =": run,
            "tenant =": sought.get("tenant"),
            "workflow =": sought.get("workflow"),
            "node =": sought.get("node"),
            "error_class =": sought.get("error_class"),
            "last_at_ms >=": sought.get("since_ms"),
            "last_at_ms <": sought.get("until_ms"),
        }
        asked = {condition: value for condition, value in conditions.items() if value is not None}
        words = [f"{condition} ${number}" for number, condition in enumerate(asked, 1)]
        bound = [*asked.values(), *(after or ())]
        words += [*is_resolved(sought.get("state"))]
        words += [f"(run, step) > (${len(asked) + 1}, ${len(asked) + 2})"] if after is not None else []
        where = "where " + " and ".join(words) if words else ""
        found = await self._db.fetch(
            f"{self._sql['letters']} {where} order by run, step limit ${len(bound) + 1}",
            *bound,
            sought.get("limit", MOST_LISTED),
        )
        return [Letter(letter_of(columns, self._sealing), resolved_at_ms) for *columns, resolved_at_ms in map(tuple, found)]

    async def counts(self, tenant: str | None = None) -> Sequence[LetterCount]:
        return [LetterCount(*row) for row in await self._db.fetch(self._sql["letter_counts"], tenant)]

    async def forget(self, before_ms: int) -> int:
        async with self._db.writing() as db:
            return len(await db.fetch(self._sql["forget_letters"], before_ms))
