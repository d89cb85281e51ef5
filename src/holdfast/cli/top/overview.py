"""One look at the runs, the processes and the pools: a few queries, each with a bound, and the new events of the tail.

Never here: a screen.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.cli.page import moment
from holdfast.cli.page.waiting import short
from holdfast.service.declarations import query
from holdfast.service.declarations.query import NOW, View

if TYPE_CHECKING:
    from holdfast.cli.backend import QueryBackend

MAX_RUNS: Final = 100
"""Rows of runs that are read, of those that run and of those that wait, the newest."""
_MAX_EVENTS: Final = 1_000
"""Events of one look; where more have come, the next goes on there."""
MINUTE_MS: Final = 60_000
ERRORS_MS: Final = 15 * MINUTE_MS
MAX_ERRORS: Final = 50
_RUNNING: Final = ("running",)
_WAITING: Final = ("waiting", "requires_attention", "budget_blocked", "paused")
_ERRORS: Final = ("AttemptFailed", "StepFailed", "AttemptLost", "FunctionFailed", "RunFailed", "EffectInDoubt")


class Filter(msgspec.Struct, frozen=True):
    """The runs that are shown."""

    tenant: str | None = None
    workflow: str | None = None

    def __str__(self) -> str:
        parts = [f"tenant {self.tenant}"] if self.tenant else []
        parts += [f"workflow {self.workflow}"] if self.workflow else []
        return ", ".join(parts) or "all runs"


class Overview(msgspec.Struct, frozen=True):
    """Everything that one look has found."""

    now_ms: int
    since_ms: int
    """Time from which on events were seen."""
    running: list[View]
    waiting: list[View]
    waits: list[tuple[str, int]]
    """The waits of the newest waiting runs, with their numbers, the largest first."""
    pools: list[View]
    workers: list[View]
    cost_nanousd: int
    """Cost of the calls that settled in the last minute, as far as they were seen."""
    events: int
    """Events of the last minute, likewise."""
    errors: list[tuple[int, str, str]]
    """The time, run and text of each error of the last minutes, the newest first."""


class Watch:
    """Looks one after the other, with what is kept between them."""

    def __init__(self) -> None:
        self._cursor = NOW
        self._since_ms: int | None = None
        self._costs: deque[tuple[int, int]] = deque(maxlen=100_000)
        self._seen: deque[int] = deque(maxlen=100_000)
        self._errors: deque[tuple[int, str, str]] = deque(maxlen=MAX_ERRORS)

    async def look(self, asking: QueryBackend, chosen: Filter) -> Overview:
        """Return how everything stands now. Raises what the queries raise."""
        tenant, workflow = chosen.tenant, chosen.workflow
        runs = [
            (await asking.query(query.Runs(tenant=tenant, workflow=workflow, status=each, limit=MAX_RUNS))).rows
            for each in (_RUNNING, _WAITING)
        ]
        pools = (await asking.query(query.Pools())).rows
        workers = (await asking.query(query.Workers())).rows
        await self._follow(asking, chosen)
        self._since_ms = since_ms = asking.now_ms() if self._since_ms is None else self._since_ms
        running, waiting = runs
        waits = Counter(short(wait) for run in waiting for wait in run["waiting_for"])
        now_ms = asking.now_ms()
        self._forget(now_ms)
        return Overview(
            now_ms,
            since_ms,
            running,
            waiting,
            waits.most_common(),
            pools,
            workers,
            sum(cost for _, cost in self._costs),
            len(self._seen),
            [*reversed(self._errors)],
        )

    async def _follow(self, asking: QueryBackend, chosen: Filter) -> None:
        """Read new events of the tail, up to a bound."""
        asked = query.Tail(tenant=chosen.tenant, workflow=chosen.workflow, cursor=self._cursor, limit=_MAX_EVENTS)
        page = await asking.query(asked)
        self._cursor = page.cursor or self._cursor
        for row in page.rows:
            at_ms = moment.ms(row["at"])
            self._seen.append(at_ms)
            if row["type"] == "ModelCallSettled":
                self._costs.append((at_ms, row["cost_nanousd"]))
            elif row["type"] in _ERRORS:
                error = row.get("error") or {}
                what = f"{error['error_class']}: {error['message']}" if error else row["type"]
                self._errors.append((at_ms, row["run_id"], f"{row.get('step') or row['workflow']}: {what}"))

    def _forget(self, now_ms: int) -> None:
        while self._costs and self._costs[0][0] < now_ms - MINUTE_MS:
            self._costs.popleft()
        while self._seen and self._seen[0] < now_ms - MINUTE_MS:
            self._seen.popleft()
        while self._errors and self._errors[0][0] < now_ms - ERRORS_MS:
            self._errors.popleft()
