"""Places of runs, pools, and steps in line. Never here: printing, who may see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal, NotRequired, TypedDict

import msgspec

from holdfast.core.capacity.lending import Kind, Life, RateUnit
from holdfast.core.values.scopes import in_words
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.core.capacity.estimates import Estimate
    from holdfast.core.capacity.lending import DeclaredPool, Share
    from holdfast.core.values.demand import Demand
    from holdfast.engine.capacity.diagnosis import PoolWaiter, StepInLine, WaitReason
    from holdfast.ports import PlacedStep, Report
    from holdfast.service.control.control import Control


class AdmissionRow(TypedDict):
    """The active runs of a tenant, or of all tenants together."""

    scope: Annotated[str, doc("Owner of the runs, in words: `active runs of tenant acme`.")]
    active: Annotated[int, doc("Number of active runs.")]
    cap: Annotated[int | None, doc("Maximum number of active runs; null for any number.")]
    waiting: Annotated[list[str], doc("The ids of the runs that wait to become active.")]


async def of_admission(control: Control, tenant: str | None) -> AdmissionRow:
    """The active runs of a tenant, or of all together, and who waits for a place among them."""
    row = await control.admission(tenant)
    waiting = await control.waiting([row.scope])
    return {"scope": in_words(row.scope), "active": row.used, "cap": row.limit, "waiting": [each.run for each in waiting]}


class PoolRow(TypedDict):
    """A pool: capacity that steps and model calls share."""

    name: Annotated[str, doc("Its name; `NAME@TENANT` is the pool of one tenant.")]
    kind: Annotated[Kind, doc("`slots` are held until a step ends; a `rate` refills with time.")]
    limit: Annotated[int, doc("Number of slots, or of units in each `per_s` seconds.")]
    per_s: Annotated[int | None, doc("The period of a rate, in seconds.")]
    burst: Annotated[int | None, doc("Units of a rate that may be used at once.")]
    counts: Annotated[RateUnit | None, doc("Unit that it counts at a model provider; null where steps name the pool.")]
    of: Annotated[str | None, doc("The model or provider whose use counts.")]
    in_use: Annotated[int, doc("Slots of it that are in use; of a rate, units of calls whose use is not known yet.")]
    wanted: Annotated[int, doc("Units that processes ask for, what is in use included.")]


class PoolShareRow(TypedDict):
    """A process's share of a pool."""

    holder: Annotated[str, doc("The name of the process.")]
    session: Annotated[str, doc("The id of the process's session.")]
    life: Annotated[Life, doc("`lingering` is the share of a process that has ended and whose steps may go on.")]
    granted: Annotated[int, doc("Units of the pool that the process may use.")]
    used: Annotated[int, doc("Units of it that are in use.")]
    wanted: Annotated[int, doc("Units that the process asks for.")]


class PoolEstimateRow(TypedDict):
    """An estimate of how much of a pool a node's steps use."""

    workflow: field.Workflow
    node: field.Node
    amount: Annotated[int, doc("The estimated units of one step.")]
    samples: Annotated[int, doc("Number of steps from which it was learned.")]


class PoolStepRow(TypedDict):
    """A step that holds something of a pool, or waits for it."""

    run: Annotated[str, doc("The id of its run.")]
    step: field.StepId
    tenant: Annotated[str, doc("Tenant of the run.")]
    workflow: Annotated[str, doc("Name of the run's workflow.")]
    amount: Annotated[int, doc("Units that it holds or asks for.")]


class PoolWaiterRow(PoolStepRow):
    """A step that waits for something of a pool, or a model call of a step that does."""

    model: Annotated[str | None, doc("The model whose call waits; null where the step itself waits, before it starts.")]
    since_ms: Annotated[int, doc("Time since which it waits, in milliseconds since 1970.")]
    starts_at: Annotated[Time | None, doc("Estimated time of its start where time alone decides: of a rate; otherwise null.")]


class PoolWhole(PoolRow):
    """A pool with its use."""

    granted: Annotated[int, doc("Units of it that are granted to processes.")]
    shares: Annotated[list[PoolShareRow], doc("The shares of processes; empty for a caller of one tenant.")]
    estimates: Annotated[list[PoolEstimateRow], doc("Estimates of what steps use, by workflow and node.")]
    holders: Annotated[list[PoolStepRow], doc("Steps that hold something of it, at most 100.")]
    waiting: Annotated[
        list[PoolWaiterRow],
        doc("Steps in line that ask for it, then model calls that wait for it, longest first, at most 100 each."),
    ]
    waiting_steps: Annotated[int, doc("Number of steps in line that ask for it.")]
    waiting_calls: Annotated[int, doc("Number of model calls, of steps under way, that wait for it.")]


MAX_POOL_STEPS: Final = 100
"""Holders of a pool, and steps that wait for it, that are shown."""


def of_pool(pool: DeclaredPool, shares: Sequence[Share]) -> PoolRow:
    is_rate, living = pool.kind == "rate", [share for share in shares if share.life != "dead"]
    return {
        "name": pool.name,
        "kind": pool.kind,
        "limit": pool.limit,
        "per_s": pool.per_s if is_rate else None,
        "burst": pool.burst if is_rate else None,
        "counts": pool.counts,
        "of": pool.of,
        "in_use": sum(share.used for share in living),
        "wanted": sum(share.wanted for share in living),
    }


async def of_pool_in_use(control: Control, name: str) -> PoolWhole:
    """A pool with its shares, and what steps are thought to take of it. Raises NotFound."""
    pool = await control.pool(name)
    shares = [share for share in await control.pool_shares(name) if share.life != "dead"]
    users = await control.pool_users(name)
    return {
        **of_pool(pool, shares),
        "granted": sum(share.granted for share in shares),
        "shares": [_share(share) for share in shares],
        "estimates": [_estimate(each) for each in await control.pool_estimates(name)],
        "holders": [_of_pool_step(each, name) for each in users.holders[:MAX_POOL_STEPS]],
        "waiting": [_of_waiter(each, name) for each in (*users.waiting[:MAX_POOL_STEPS], *users.calls[:MAX_POOL_STEPS])],
        "waiting_steps": len(users.waiting),
        "waiting_calls": users.calls_waiting,
    }


def of_pool_for_one(pool: PoolWhole, tenant: str, is_there: Callable[[str], bool]) -> PoolWhole:
    """The same for one who acts for a tenant: of processes only what they have together, of estimates and steps those of
    workflows that are there for them, and of steps the tenant's own."""
    return {
        **pool,
        "shares": [],
        "estimates": [each for each in pool["estimates"] if is_there(each["workflow"])],
        "holders": [each for each in pool["holders"] if each["tenant"] == tenant and is_there(each["workflow"])],
        "waiting": [each for each in pool["waiting"] if each["tenant"] == tenant and is_there(each["workflow"])],
    }


def _of_pool_step(step: PlacedStep, pool: str) -> PoolStepRow:
    return {
        "run": step.run,
        "step": step.step,
        "tenant": step.tenant,
        "workflow": step.workflow,
        "amount": step.demand.pools[pool] or 0,
    }


def _of_waiter(waiter: PoolWaiter, pool: str) -> PoolWaiterRow:
    return {
        **_of_pool_step(waiter.step, pool),
        "model": waiter.model,
        "since_ms": waiter.since_ms,
        "starts_at": iso(None if waiter.starts is None else waiter.starts.at_ms),
    }


def _share(share: Share) -> PoolShareRow:
    return {
        "holder": share.holder,
        "session": share.session,
        "life": share.life,
        "granted": share.granted,
        "used": share.used,
        "wanted": share.wanted,
    }


def _estimate(estimate: Estimate) -> PoolEstimateRow:
    return {"workflow": estimate.workflow, "node": estimate.node, "amount": estimate.amount, "samples": estimate.samples}


class WorkerRow(TypedDict):
    """A process that executes steps."""

    worker: Annotated[str, doc("Its name, or the id of its session.")]
    lane: Annotated[str, doc("The lane (shard) of runs that it serves.")]
    slots: Annotated[int, doc("Number of steps that it can execute at once.")]
    free: Annotated[int, doc("Number of its slots that are free.")]
    labels: Annotated[list[str], doc("Labels that steps can ask for.")]
    workflows: Annotated[list[str], doc("Graph hashes of the workflows it runs; of a connected worker its tasks.")]
    working: Annotated[int, doc("Number of steps that it executes.")]
    placed: Annotated[int, doc("Number of placed steps that it has.")]
    steps: Annotated[list[str], doc("The first steps that it executes, or executed when it was lost, as `RUN/STEP`.")]
    connected: Annotated[list[WorkerRow], doc("The remote workers that are connected to it.")]
    state: Annotated[
        Literal["live", "lost"], doc("`lost` if its process ended without a word; it then stays listed for an hour.")
    ]
    lost_at: Annotated[Time | None, doc("Time at which it was found dead; null while it lives.")]
    reported_at: Annotated[Time | None, doc("Time of its last report.")]


class WorkerCountRow(TypedDict):
    """The processes that execute steps, for a caller of one tenant."""

    workers: Annotated[int, doc("Number of processes.")]
    slots: Annotated[int, doc("Number of steps that they can execute at once.")]
    free: Annotated[int, doc("Number of their slots that are free.")]


def of_worker(report: Report, name: str | None, lost_ms: int | None = None) -> WorkerRow:
    """A process that executes steps, with the workers that are connected to it. One that was found dead at `lost_ms` has no
    slots free."""
    return {
        "worker": report.worker if name is None else name,
        "lane": report.lane,
        "slots": report.slots,
        "free": report.free if lost_ms is None else 0,
        "labels": list(report.labels),
        "workflows": list(report.hashes),
        "working": report.working,
        "placed": len(report.held),
        "steps": ["/".join(each) for each in report.steps],
        "connected": [of_worker(each, None, lost_ms) for each in report.connected],
        "state": "live" if lost_ms is None else "lost",
        "lost_at": iso(lost_ms),
        "reported_at": iso(report.at_ms or None),
    }


def of_workers(reports: Sequence[Report]) -> WorkerCountRow:
    """The processes that execute steps, for one who acts for a tenant: how many, and their slots."""
    return {"workers": len(reports), "slots": sum(each.slots for each in reports), "free": sum(each.free for each in reports)}


class QueueRow(TypedDict):
    """A step that waits for a slot, a worker or a pool."""

    run: Annotated[str, doc("The id of its run.")]
    step: field.StepId
    tenant: Annotated[str, doc("Tenant of the run.")]
    workflow: Annotated[str, doc("Name of the run's workflow.")]
    demands: Annotated[str, doc("Resources that it asks for, in words: `a slot`, `label gpu, 5 of OPENAI_RPS`.")]
    ahead: Annotated[int, doc("Number of steps ahead of it: of those that wait for a slot, or of the others.")]
    since_ms: Annotated[int, doc("Time since which it waits, in milliseconds since 1970.")]


class QueueCountRow(TypedDict):
    """The number of waiting steps that ask for the same."""

    demands: Annotated[str, doc("Resources that they ask for, in words: `a slot`, `label gpu, 5 of OPENAI_RPS`.")]
    steps: Annotated[int, doc("Number of steps.")]


def of_placed(waiting: StepInLine) -> QueueRow:
    """A step that waits for a worker or a pool, and how many are ahead of it in the line, whosever they are."""
    step = waiting.step
    return {
        "run": step.run,
        "step": step.step,
        "tenant": step.tenant,
        "workflow": step.workflow,
        "demands": demanded(step.demand),
        "ahead": waiting.ahead,
        "since_ms": waiting.since_ms,
    }


def demanded(demand: Demand) -> str:
    """A demand in a line: `label gpu, 2000 cpu_m, 5 of OPENAI_RPS`."""
    parts = [f"label {label}" for label in demand.labels] + [f"tag {tag}" for tag in demand.tags]
    sizes = (("cpu_m", demand.cpu_m), ("memory_mb", demand.memory_mb), ("gpus", demand.gpus))
    parts += [f"{amount} {what}" for what, amount in sizes if amount]
    parts += [f"{'some' if amount is None else amount} of {pool}" for pool, amount in demand.pools.items()]
    parts += [f"task {demand.task}"] if demand.is_remote else []
    parts += ["a shell"] if demand.runs_scripts and not parts else []
    return ", ".join(parts) or "a slot"


class DemandRow(TypedDict):
    """The resources that a step asks for besides one slot; a key that is missing asks for nothing."""

    labels: NotRequired[Annotated[list[str], doc("Labels that the worker must have.")]]
    tags: NotRequired[Annotated[list[str], doc("Tags that the worker must have.")]]
    cpu_m: NotRequired[Annotated[int, doc("Thousandths of a processor core.")]]
    memory_mb: NotRequired[Annotated[int, doc("Memory in MiB.")]]
    gpus: NotRequired[Annotated[int, doc("Number of graphics processors.")]]
    pools: NotRequired[
        Annotated[dict[str, int | None], doc("Units of each pool; null for the amount learned from earlier steps.")]
    ]
    priority: NotRequired[Annotated[int, doc("A step of a higher priority goes first; 0 if missing.")]]
    task: NotRequired[Annotated[str | None, doc("The task that a connected worker must offer.")]]


class QueueReasonRow(TypedDict):
    """The reason why a step waits for a slot, a worker or a pool."""

    run: Annotated[str, doc("The id of its run.")]
    step: field.StepId
    workflow: Annotated[str, doc("Name of the run's workflow.")]
    graph_hash: Annotated[str, doc("Hash of the workflow's definition, which a worker must have loaded.")]
    workers: Annotated[int, doc("Number of processes that could be given steps.")]
    since_ms: Annotated[int, doc("Time since which it waits, in milliseconds since 1970.")]
    model: Annotated[str | None, doc("The model whose call waits, within the step; null where the step itself waits.")]
    demand: Annotated[DemandRow, doc("Resources that the step asks for.")]
    waits_for: Annotated[
        Literal["turn", "slot", "pool", "worker", "nothing"],
        doc("`turn` if it was not looked at yet, `nothing` if it is placed."),
    ]
    place: Annotated[int, doc("Its place among those that wait for the same; 1 is next.")]
    possible: Annotated[bool, doc("False if it waits for ever unless you add a worker or enlarge a pool.")]
    pool: Annotated[str | None, doc("The pool it waits for.")]
    limit: Annotated[int | None, doc("The pool's limit, or the number of slots of processes with the workflow.")]
    in_use: Annotated[int | None, doc("Number of these slots that are in use.")]
    level: Annotated[float | None, doc("Units of a rate that are left; negative below empty.")]
    refills_at: Annotated[Time | None, doc("Time at which a rate has enough for the next step or call.")]
    starts_at: Annotated[Time | None, doc("Estimated time of its start if nothing changes; null if that is not known.")]
    learned_from: Annotated[int, doc("Number of earlier steps that the estimate is based on; 0 where time alone decides.")]
    holders: Annotated[list[str], doc("Steps that hold what it waits for, as `RUN/STEP`, the longest first.")]
    lacking: Annotated[str | None, doc("Resource that every worker lacks: `label gpu`; `capacity` if they are only busy.")]
    kept_for: Annotated[list[str] | None, doc("The run and step for which free capacity is reserved.")]
    worker: Annotated[str | None, doc("The worker with which it is placed.")]


def of_wait(wait: WaitReason) -> QueueReasonRow:
    """Why a step waits. The clock of the process that found that out means nothing to another."""
    reason = wait.reason
    return {
        "run": wait.step.run,
        "step": wait.step.step,
        "workflow": wait.step.workflow,
        "graph_hash": wait.step.graph_hash,
        "workers": wait.workers,
        "since_ms": wait.since_ms,
        "model": wait.model,
        "demand": msgspec.to_builtins(wait.step.demand),
        "waits_for": reason.waits_for,
        "place": reason.place,
        "possible": reason.possible,
        "pool": reason.pool,
        "limit": reason.limit,
        "in_use": reason.in_use,
        "level": reason.level,
        "refills_at": iso(wait.refills_at_ms),
        "starts_at": iso(None if wait.starts is None else wait.starts.at_ms),
        "learned_from": 0 if wait.starts is None else wait.starts.steps,
        "holders": ["/".join(key) for key in reason.holders],
        "lacking": reason.lacking,
        "kept_for": None if reason.kept_for is None else list(reason.kept_for),
        "worker": reason.worker,
    }
