"""Figures about runs: how good they were, what their calls of models cost, what models are like in practice.

Never here: which scores count, what a call costs, what an estimate is worth.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, Unpack
from uuid import UUID

import msgspec

from holdfast.core.facts.costs import (
    BEFORE_ALL,
    Cost,
    CostField,
    CostKey,
    CostProgress,
    CostSum,
    HourCost,
    LabelCost,
    RunCost,
    UncountedRun,
)
from holdfast.core.facts.extra_costs import ExtraField, ExtraSum, RunCosts
from holdfast.core.nouns.model_estimates import MAX_ESTIMATES, ModelEstimate, ModelUse, learned
from holdfast.core.nouns.scores import Score, ScoreMean
from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import DAY_MS
from holdfast.ports import MAX_LISTED, CostFilter, CostSumFilter, ExtraFilter, ScoreFilter
from holdfast.stores.nouns.tables import UNBOUNDED, Noun, Steps, columns, do, lock, many
from holdfast.stores.row import astuple, is_run

_TIME_OF_ID: Final = 80
"""Bits behind the time in the id of a run, which has 48 bits (RFC 9562, section 5.7)."""
_LAST_MS: Final = 2**48 - 1
_EVER_MS: Final = 253_402_300_800_000
"""The end of the year 9999, the last that a day can name."""
_IS_REST: Final = CostSum._fields.index("is_rest")
"""SQLite says 0 and 1."""


def _summed(runs: Iterable[RunCosts]) -> list[HourCost]:
    """Return the sums of the costs of runs, in the one order in which all lock their rows."""
    sums: dict[tuple[CostKey, str, str], HourCost] = {}
    for each in (cost for run in runs for cost in run.costs):
        key = each.cost.key, each.hour, each.team
        sums[key] = msgspec.structs.replace(each, cost=sums[key].cost.plus(each.cost)) if key in sums else each
    return [sums[key] for key in sorted(sums)]


def _of_time(since_ms: int, until_ms: int) -> tuple[object, ...]:
    """Return the ids between which runs are that begin in a time, and the time. An id has the time of another clock."""
    ids = (UUID(int=min(max(0, at_ms), _LAST_MS) << _TIME_OF_ID) for at_ms in (since_ms - DAY_MS, until_ms + DAY_MS))
    return *map(str, ids), since_ms, until_ms


def _criteria(filters: ExtraFilter) -> tuple[object, ...]:
    workflows, limit = filters.get("workflows"), filters.get("limit")
    return (
        filters.get("tenant"),
        None if workflows is None else list(workflows),
        UNBOUNDED if limit is None else limit,
        filters.get("offset", 0),
    )


class Scores(Noun):
    """Keeps ports.Scores."""

    async def add(self, run: RunId, score: Score, most: int) -> bool:
        def steps() -> Steps[bool]:
            yield lock("lock_scores", run)
            return bool((yield do("add_score", run, most, *score)))

        return await self._tables.transact(steps)

    async def of_run(self, run: RunId) -> Sequence[Score]:
        return [Score(*row) for row in await self._tables.ask("scores", run)] if is_run(run) else []

    async def means(self, **filters: Unpack[ScoreFilter]) -> Sequence[ScoreMean]:
        asked = (filters.get("tenant"), filters.get("name"), filters.get("workflow"), filters.get("since_ms", 0))
        found = await self._tables.ask("score_means", *asked, filters.get("limit", MAX_LISTED))
        return [ScoreMean(*row) for row in found]


class Costs(Noun):
    """Keeps ports.Costs."""

    async def progress(self) -> CostProgress | None:
        found = await self._tables.ask("cost_progress")
        return CostProgress(*found[0]) if found else None

    async def move(self, before: CostProgress | None, after: CostProgress) -> bool:
        return bool(await self._tables.change("move_cost_progress", *(before or (None, None)), *after))

    async def uncounted(self, runs: Sequence[RunId]) -> Sequence[UncountedRun]:
        return [UncountedRun(*row) for row in await self._tables.ask("uncounted", list(runs))]

    async def count(self, runs: Sequence[RunCosts]) -> Sequence[RunId]:
        def steps() -> Steps[list[RunId]]:
            added: list[RunCosts] = []  # rows are locked in one order
            for each in sorted(runs, key=lambda each: each.uncounted.run):
                run = each.uncounted
                if (yield do("put_counted", run.run, run.counted, run.seq, each.total_nanousd)):
                    added.append(each)
            for cost in _summed(added):
                _, tenant, *rest = row = astuple(cost.cost)
                yield do("add_cost", *row)
                yield do("add_hour_of_cost", cost.hour, tenant, cost.team, *rest)
            for extra in sorted(astuple(one) for each in added for one in each.extra):
                yield do("add_extra_cost", *extra)
            return [each.uncounted.run for each in added]

        return await self._tables.transact(steps)

    async def rollup(self, first_day: str, last_day: str, **filters: Unpack[CostFilter]) -> Sequence[Cost]:
        after, limit = filters.get("after") or BEFORE_ALL, filters.get("limit")
        asked = (first_day, last_day, filters.get("tenant"), *after, UNBOUNDED if limit is None else limit)
        return [Cost(*row) for row in await self._tables.ask("costs", *asked)]

    async def workflows(self, first_day: str, last_day: str, tenant: str | None = None) -> Sequence[str]:
        return [name for (name,) in await self._tables.ask("workflows_of_costs", first_day, last_day, tenant, UNBOUNDED)]

    async def sums(
        self, by: Collection[CostField], first_day: str, last_day: str, **filters: Unpack[CostSumFilter]
    ) -> Sequence[CostSum]:
        team, workflows, limit = filters.get("team"), filters.get("workflows"), filters.get("limit")
        top = filters.get("top")
        asked = (
            f",{','.join(by)},",
            first_day,
            last_day,
            filters.get("tenant"),
            team,
            None if workflows is None else list(workflows),
            team is not None or not {"hour", "team"}.isdisjoint(by),
            UNBOUNDED if top is None else top,
            filters.get("largest_first", False),
            UNBOUNDED if limit is None else limit,
            filters.get("offset", 0),
        )
        found = await self._tables.ask("cost_sums", *asked)
        return [CostSum(*row)._replace(is_rest=bool(row[_IS_REST])) for row in found]

    async def extra(
        self, by: Collection[ExtraField], first_day: str, last_day: str, **filters: Unpack[ExtraFilter]
    ) -> Sequence[ExtraSum]:
        found = await self._tables.ask("extra_costs", f",{','.join(by)},", first_day, last_day, *_criteria(filters))
        return [ExtraSum(*row) for row in found]

    async def dearest(self, since_ms: int, until_ms: int, **filters: Unpack[ExtraFilter]) -> Sequence[RunCost]:
        if since_ms <= 0 and until_ms >= _EVER_MS:
            found = await self._tables.ask("dearest_runs", *_criteria(filters))
        else:
            found = await self._tables.ask("dearest_runs_of_time", *_of_time(since_ms, until_ms), *_criteria(filters))
        return [RunCost(*row) for row in found]

    async def by_label(self, key: str, since_ms: int, until_ms: int, **filters: Unpack[ExtraFilter]) -> Sequence[LabelCost]:
        found = await self._tables.ask("label_costs", key, *_of_time(since_ms, until_ms), *_criteria(filters))
        return [LabelCost(*row) for row in found]


class ModelEstimates(Noun):
    """Keeps ports.ModelEstimates."""

    async def of(self, workflow: str) -> Sequence[ModelEstimate]:
        return [ModelEstimate(*row) for row in await self._tables.ask("model_estimates", workflow, MAX_ESTIMATES)]

    async def learn(self, uses: Sequence[ModelUse]) -> None:
        kinds = sorted({kind for use in uses for kind in use.kinds})

        def steps() -> Steps[None]:
            yield lock("make_model_estimates", *columns(kinds))
            found = [ModelEstimate(*row) for row in (yield many("model_estimates_of", kinds))]
            new = learned({each.kind: each for each in found if each.samples}, uses)
            yield many("put_model_estimates", map(astuple, new.values()))

        if kinds:
            await self._tables.transact(steps)

    async def forget(self, before_ms: int) -> None:
        await self._tables.change("forget_model_estimates", before_ms)
