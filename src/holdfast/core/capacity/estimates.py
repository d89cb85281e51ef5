"""Estimates: what a step of some kind will take of a pool, judged by what steps of that kind have taken.

Wrong on the high side: a step that takes more than was thought makes its provider refuse others, one that takes less only
makes them wait. So a larger use counts at once, and a smaller one is believed slowly.

Never here: a store, what a job declares (demand).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from holdfast.core.capacity.lending import DeclaredPool
from holdfast.core.values.demand import MAX_AMOUNT

FIRST_TOKENS: Final = 4_000
"""A prompt of some pages and an answer of one."""
FIRST_INPUT_TOKENS: Final = 3_000
FIRST_OUTPUT_TOKENS: Final = 1_000
_FIRST: Final = {"tokens": FIRST_TOKENS, "input_tokens": FIRST_INPUT_TOKENS, "output_tokens": FIRST_OUTPUT_TOKENS}
_FORGETTING: Final = 10
"""After a large use, each smaller one takes off one in so many parts of the difference: seven halve it."""
_FINE: Final = 1_000

Kind = tuple[str, str, str]
"""Workflow, node, pool."""


class Use(msgspec.Struct, frozen=True):
    """The use of a pool by one step."""

    workflow: str
    node: str
    pool: str
    amount: int

    @property
    def kind(self) -> Kind:
        return (self.workflow, self.node, self.pool)


class Report(msgspec.Struct, frozen=True):
    """The use of a pool, as a part of a step reports it. Of the step's `branches`, `at_once` run at the same time."""

    pool: str
    amount: int
    branch: int = 0
    at_once: int = 1


class Estimate(msgspec.Struct, frozen=True):
    """An estimate of what steps of a node use of a pool, in thousandths, so that small amounts can fall too; and the number of
    steps it is made of."""

    workflow: str
    node: str
    pool: str
    amount_m: int
    samples: int

    @property
    def kind(self) -> Kind:
        return (self.workflow, self.node, self.pool)

    @property
    def amount(self) -> int:
        return -(-self.amount_m // _FINE)


def first_guess(pool: DeclaredPool) -> int:
    """Before there is any sample. Never more than the pool lets out at once: then it could be placed in no share of it."""
    guess = _FIRST.get(pool.counts or "", 1)
    return min(guess, pool.burst if pool.kind == "rate" else pool.limit)


def reported(reports: Iterable[Report], pools: Iterable[DeclaredPool]) -> Iterator[tuple[str, int]]:
    """Yield what a step has used of those of `pools` that it has reported on: of a rate all of it, of slots the most that it
    can have held at the same time."""
    said: defaultdict[str, list[Report]] = defaultdict(list)
    for report in reports:
        said[report.pool].append(report)
    for pool in pools:
        if not (of_pool := said[pool.name]):
            continue
        if pool.kind == "rate":
            yield pool.name, sum(report.amount for report in of_pool)
        else:
            most: dict[int, int] = {}
            for report in of_pool:
                most[report.branch] = max(report.amount, most.get(report.branch, 0))
            yield pool.name, sum(sorted(most.values())[-max(report.at_once for report in of_pool) :])


def learned(estimates: Mapping[Kind, Estimate], uses: Iterable[Use]) -> dict[Kind, Estimate]:
    """The estimates that `uses` change, taken in their order."""
    found: dict[Kind, Estimate] = {}
    for use in uses:
        before = found.get(use.kind) or estimates.get(use.kind) or Estimate(*use.kind, 0, 0)
        amount_m = _believed(before.amount_m, min(max(0, use.amount), MAX_AMOUNT) * _FINE)
        found[use.kind] = Estimate(*use.kind, amount_m, before.samples + 1)
    return found


def _believed(known_m: int, used_m: int) -> int:
    if used_m >= known_m:
        return used_m
    return known_m - max(1, (known_m - used_m) // _FORGETTING)
