"""The demand of a job on the place where it runs, for its node or for each of its combinations.

Each combination is a step, and takes its own. In older runs they share one step, which takes the job's amounts as many times as
combinations run at once. Never here: who has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from holdfast.actions.expressions import ExpressionError, Template, to_text, whole_text
from holdfast.actions.jobs import context
from holdfast.actions.jobs.context import Contexts
from holdfast.actions.syntax.document import AUTO, Amount, Job, Resources, Strategy, asks_for_label
from holdfast.core.values.demand import MAX_AMOUNT, SHELL, Demand

MAX_AT_ONCE: Final = 32
"""Combinations that run at once in one step, whatever the file allows: each is a process, and all are on one machine."""


def demand_of(job: Job) -> Demand:
    """Return the demand of its node, as far as the file writes it out."""
    return _demand_of(job, at_once(job.strategy) or 1)


def spread_demand(job: Job) -> dict[str, Any] | bool:
    """Return the demand of each of its combinations, as JSON data; True if an expression decides it."""
    if is_asked_late(job):
        return True
    found: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(_demand_of(job, 1), task=SHELL))
    return found


def _demand_of(job: Job, times: int) -> Demand:
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


def is_spread(job: Job) -> bool:
    """Return True if its combinations are steps, each placed by itself. They are if it has a matrix, or if its demand is known
    only when it begins."""
    return job.strategy is not None or is_asked_late(job)


def is_asked_late(job: Job) -> bool:
    """Return True if its demand is known only when it begins."""
    said = (*_amounts(job.resources).values(), *(share.amount for share in job.pools))
    asked = any(each.expressions for each in (*job.labels, *job.resources.tags))
    takes = bool(job.pools) or any(_amounts(job.resources).values())
    return asked or any(isinstance(each, Template) for each in said) or (takes and at_once(job.strategy) is None)


def demand_at(job: Job, contexts: Contexts) -> Demand:
    """Return the demand of one combination. Raises ExpressionError."""
    amounts = {name: _amount(name, amount, contexts) for name, amount in _amounts(job.resources).items()}
    found = Demand(
        labels=tuple(sorted(set(filter(asks_for_label, _names(job.labels, contexts))))),
        tags=tuple(sorted(set(_names(job.resources.tags, contexts)))),
        cpu_m=amounts["cpu"],
        memory_mb=amounts["memory"],
        gpus=amounts["gpus"],
        pools={
            share.pool: None if share.amount == AUTO else _amount(share.pool, share.amount, contexts) for share in job.pools
        },
        priority=job.priority or 0,
        task=SHELL,
    )
    for wrong in found.problems():
        raise ExpressionError(f"its demand is invalid: {wrong}", 0)
    return found


def _names(data: Iterable[Template], contexts: Contexts) -> Iterator[str]:
    """Each label or tag. An expression that gives a list gives each of its items, as on GitHub. Raises ExpressionError."""
    for each in data:
        value = each.evaluate(contexts)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, list | dict):
                kind = "mapping" if isinstance(item, dict) else "list in a list"
                raise ExpressionError(f"its demand is invalid: a label is a {kind}. Use a text, or a list of texts.", 0)
            yield whole_text(to_text(item))


def _amount(name: str, value: Amount, contexts: Contexts) -> int:
    return context.count(value, contexts, name, MAX_AMOUNT) if isinstance(value, Template) else value


def at_once(strategy: Strategy | None) -> int | None:
    """Return the maximum number of combinations that run at the same time; None if an expression decides it."""
    if strategy is None:
        return 1
    literal_amount = [] if strategy.combinations is None else [len(strategy.combinations)]
    if isinstance(strategy.max_parallel, int):
        literal_amount.append(strategy.max_parallel)
    return min(*literal_amount, MAX_AT_ONCE) if literal_amount else None


def literal_amount(amount: Amount) -> int:
    """Return the amount if it is written without an expression, else 0."""
    return amount if isinstance(amount, int) else 0


def _amounts(value: Resources) -> dict[str, Amount]:
    return {"cpu": value.cpu_millicores, "memory": value.memory_mb, "gpus": value.gpus}
