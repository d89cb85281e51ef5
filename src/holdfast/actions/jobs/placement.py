"""What a job asks of the place where it runs, as the demand of its node; and what of it only an expression would say.

A job's combinations run in one step, so it takes what it says as many times as combinations run at once. Never here:
who has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.actions.expressions import Template
from holdfast.actions.syntax.document import AUTO, Amount, Job, Resources, Strategy
from holdfast.core.demand import Demand

MOST_AT_ONCE: Final = 32
"""Combinations of one job that run at once, whatever the file allows: each is a process, and all are on one machine."""
_TOO_EARLY: Final = "and a place is sought before any of that is worked out"


def demand_of(job: Job) -> Demand:
    """What its node asks for, without what `unknown` tells of."""
    times = at_once(job.strategy) or 1
    amounts = {name: times * amount for name, amount in _amounts(job.resources).items() if isinstance(amount, int)}
    return Demand(
        labels=tuple(label.render({}) for label in job.labels if not label.expressions),
        tags=tuple(tag.render({}) for tag in job.resources.tags if not tag.expressions),
        cpu_m=amounts.get("cpu", 0),
        memory_mb=amounts.get("memory", 0),
        gpus=amounts.get("gpus", 0),
        pools={
            share.pool: None if share.amount == AUTO else times * share.amount
            for share in job.pools
            if not isinstance(share.amount, Template)
        },
        priority=job.priority or 0,
    )


def unknown(job: Job) -> Iterator[str]:
    """What it asks for that nobody knows when it is to be placed, and what may be written instead."""
    if any(label.expressions for label in job.labels):
        yield f"runs-on asks for labels by an expression, {_TOO_EARLY}. Write them out."
    amounts = _amounts(job.resources)
    computed = [name for name, amount in amounts.items() if isinstance(amount, Template)]
    computed += ["tags"] if any(tag.expressions for tag in job.resources.tags) else []
    if computed:
        yield f"resources says {', '.join(computed)} by an expression, {_TOO_EARLY}. Write what it takes at most."
    shares = [share.pool for share in job.pools if isinstance(share.amount, Template)]
    if shares:
        yield f"what it takes of {', '.join(shares)} is said by an expression, {_TOO_EARLY}. Write what it takes at most."
    if (job.pools or any(amounts.values())) and at_once(job.strategy) is None:
        yield (
            f"each combination takes of resources or pools, and how many there are is said by an expression, {_TOO_EARLY}."
            " Write how many run at once: max-parallel: 4"
        )


def at_once(strategy: Strategy | None) -> int | None:
    """How many combinations run at the same time at most; None where an expression decides it."""
    if strategy is None:
        return 1
    known = [] if strategy.combinations is None else [len(strategy.combinations)]
    if isinstance(strategy.max_parallel, int):
        known.append(strategy.max_parallel)
    return min(*known, MOST_AT_ONCE) if known else None


def known(amount: Amount) -> int:
    """What is said of it without an expression, else nothing."""
    return amount if isinstance(amount, int) else 0


def _amounts(given: Resources) -> dict[str, Amount]:
    return {"cpu": given.cpu_millicores, "memory": given.memory_mb, "gpus": given.gpus}
