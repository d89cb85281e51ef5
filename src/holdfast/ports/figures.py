"""Figures about runs: how good they were, what their calls of models cost, what models are like in practice.

Never here: an implementation, a default, what a figure is worth (core.nouns).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypedDict, Unpack

from holdfast.core.facts.costs import Cost, CostField, CostKey, CostProgress, CostSum, LabelCost, RunCost, UncountedRun
from holdfast.core.facts.extra_costs import ExtraField, ExtraSum, RunCosts
from holdfast.core.nouns.model_estimates import ModelEstimate, ModelUse
from holdfast.core.nouns.scores import Score, ScoreMean
from holdfast.core.values.ids import RunId


class ScoreFilter(TypedDict, total=False):
    """The criteria by which scores are selected. A criterion that is missing matches any."""

    tenant: str | None
    name: str | None
    workflow: str | None
    since_ms: int
    limit: int


class CostFilter(TypedDict, total=False):
    """The criteria by which rows of the roll-up are selected. A criterion that is missing matches any."""

    tenant: str | None
    after: CostKey | None
    """Only those that come after this one."""
    limit: int | None


class CostSumFilter(TypedDict, total=False):
    """The criteria by which costs are selected that are summed up, and the order of the sums. A criterion that is missing
    matches any."""

    tenant: str | None
    team: str | None
    workflows: Sequence[str] | None
    top: int | None
    """The number of sums by anything but time that stand alone, the largest; the others are one sum."""
    largest_first: bool
    limit: int | None
    offset: int


class ExtraFilter(TypedDict, total=False):
    """The criteria by which rows about costs are selected. A criterion that is missing matches any."""

    tenant: str | None
    workflows: Sequence[str] | None
    limit: int | None
    offset: int


MAX_COUNTED: Final = 100_000
"""A count stops there: a look at a large store takes no longer."""
MAX_READ: Final = 1_000
"""Runs of each status whose waits are read; of more, the counts are estimated from these."""


class GateCount(NamedTuple):
    """The open gates of a reason and an age (`under_1h`, `under_1d`, `under_4d`, `over_4d`), and when the first was opened."""

    reason: str
    age: str
    gates: int
    oldest_at_ms: int


class StoreCounts(NamedTuple):
    """The state of a store in numbers. Each count stops at `MAX_COUNTED`."""

    runs: Mapping[str, int]
    """Runs that have not ended, by status."""
    waits: Mapping[str, int]
    """Runs by the kind of what they wait for. A run may wait for several."""
    queue: Mapping[str, int]
    """Runs in line for a `slot`, a `worker`, `admission`, `money`, `tokens` or an `effect` of another run."""
    gates: Sequence[GateCount]
    held_nanousd: int
    in_doubt_nanousd: int
    doubts: Mapping[str, int]
    """Runs with `model` calls in doubt, and `effect` calls in doubt."""
    dead_letters: int


class Census(Protocol):
    """Counts of the rows of a store, for metrics. Each is bounded, and none is exact while others write."""

    async def counts(self) -> StoreCounts: ...


class Scores(Protocol):
    """The scores of runs. A score goes when its run is removed for good, and not before."""

    async def add(self, run: RunId, score: Score, limit: int) -> bool:
        """Keep one more. False, and nothing is kept, where the run has `limit` already."""
        ...

    async def of_run(self, run: RunId) -> Sequence[Score]:
        """All of a run, in the order in which they were given."""
        ...

    async def means(self, **filters: Unpack[ScoreFilter]) -> Sequence[ScoreMean]:
        """The means of those that count and were given since then, by workflow and name, the highest version first."""
        ...


class Costs(Protocol):
    """The roll-up of what model calls cost (core.facts.costs), and up to which event each run is in it."""

    async def progress(self) -> CostProgress | None:
        """Return how far it has come; None where it has not begun."""
        ...

    async def move(self, before: CostProgress | None, after: CostProgress) -> bool:
        """Keep how far it has come. Return False, with nothing kept, if it is not at `before`: another process was first."""
        ...

    async def uncounted(self, runs: Sequence[RunId]) -> Sequence[UncountedRun]:
        """Return those of these runs that have events that are not in the roll-up yet, in the order of their ids; without those
        whose histories were removed for good."""
        ...

    async def count(self, runs: Sequence[RunCosts]) -> Sequence[RunId]:
        """Add what the events of runs after `counted` up to `seq` have cost, and remember that, with the cost of the whole run,
        in one transaction. Return the runs whose costs were added: not those that are not counted up to `counted`, because
        another process was first."""
        ...

    async def rollup(self, first_day: str, last_day: str, **filters: Unpack[CostFilter]) -> Sequence[Cost]:
        """The roll-up of the days from `first_day` to `last_day` (`2026-11-21`), in order, after the row `after`."""
        ...

    async def workflows(self, first_day: str, last_day: str, tenant: str | None = None) -> Sequence[str]:
        """The workflows in the roll-up of these days."""
        ...

    async def sums(
        self, by: Collection[CostField], first_day: str, last_day: str, **filters: Unpack[CostSumFilter]
    ) -> Sequence[CostSum]:
        """The sums of these days by some fields, in the order of these; of times first. Costs that 0.1.0 counted have no hour
        and no team."""
        ...

    async def extra(
        self, by: Collection[ExtraField], first_day: str, last_day: str, **filters: Unpack[ExtraFilter]
    ) -> Sequence[ExtraSum]:
        """The sums of extra costs by cause and some fields, the largest first."""
        ...

    async def dearest(self, since_ms: int, until_ms: int, **filters: Unpack[ExtraFilter]) -> Sequence[RunCost]:
        """The runs that began in that time and have cost something, the dearest first."""
        ...

    async def by_label(self, key: str, since_ms: int, until_ms: int, **filters: Unpack[ExtraFilter]) -> Sequence[LabelCost]:
        """The cost of the runs that began in that time, by their values of a label, the largest first; of tags with an empty
        key. A run with two tags counts for both."""
        ...


class ModelEstimates(Protocol):
    """By workflow, node and model, and by model in all workflows."""

    async def of(self, workflow: str) -> Sequence[ModelEstimate]:
        """Return the estimates of a workflow and those of all workflows: the latest of each, `MAX_ESTIMATES` at most."""
        ...

    async def learn(self, uses: Sequence[ModelUse]) -> None:
        """Take into account what replies were like, in one transaction."""
        ...

    async def forget(self, before_ms: int) -> None:
        """Remove the estimates whose last reply came before that."""
        ...
