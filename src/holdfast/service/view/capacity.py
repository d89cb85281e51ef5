"""Places of runs, pools, and steps in line. Never here: printing, who may see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.values.scopes import in_words
from holdfast.service.view.plain import iso

if TYPE_CHECKING:
    from holdfast.control.control import Control
    from holdfast.core.capacity.estimates import Estimate
    from holdfast.core.capacity.lending import DeclaredPool, Share
    from holdfast.core.values.demand import Demand
    from holdfast.engine.capacity.diagnosis import WaitReason
    from holdfast.ports import PlacedStep, Report


async def of_admission(control: Control, tenant: str | None) -> dict[str, Any]:
    """The active runs of a tenant, or of all together, and who waits for a place among them."""
    row = await control.admission(tenant)
    waiting = await control.waiting([row.scope])
    return {"scope": in_words(row.scope), "active": row.used, "cap": row.limit, "waiting": [each.run for each in waiting]}


def of_pool(pool: DeclaredPool) -> dict[str, Any]:
    is_rate = pool.kind == "rate"
    return {
        "name": pool.name,
        "kind": pool.kind,
        "limit": pool.limit,
        "per_s": pool.per_s if is_rate else None,
        "burst": pool.burst if is_rate else None,
        "counts": pool.counts,
        "of": pool.of,
    }


async def of_pool_in_use(control: Control, name: str) -> dict[str, Any]:
    """A pool with its shares, and what steps are thought to take of it. Raises NotFound."""
    pool = await control.pool(name)
    shares = [share for share in await control.pool_shares(name) if share.life != "dead"]
    return {
        **of_pool(pool),
        "granted": sum(share.granted for share in shares),
        "shares": [_share(share) for share in shares],
        "estimates": [_estimate(each) for each in await control.pool_estimates(name)],
    }


def of_pool_for_one(pool: dict[str, Any], is_there: Callable[[str], bool]) -> dict[str, Any]:
    """The same for one who acts for a tenant: of processes only what they have together, of estimates those of workflows that
    are there for them."""
    return {**pool, "shares": [], "estimates": [each for each in pool["estimates"] if is_there(each["workflow"])]}


def _share(share: Share) -> dict[str, Any]:
    return {
        "holder": share.holder,
        "session": share.session,
        "life": share.life,
        "granted": share.granted,
        "used": share.used,
        "wanted": share.wanted,
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {"workflow": estimate.workflow, "node": estimate.node, "amount": estimate.amount, "samples": estimate.samples}


def of_worker(report: Report, name: str | None) -> dict[str, Any]:
    """A process that executes steps, with the workers that are connected to it."""
    return {
        "worker": report.worker if name is None else name,
        "lane": report.lane,
        "slots": report.slots,
        "free": report.free,
        "labels": list(report.labels),
        "workflows": list(report.hashes),
        "placed": len(report.held),
        "connected": [of_worker(each, None) for each in report.connected],
        "said_at": iso(report.at_ms or None),
    }


def of_workers(reports: Sequence[Report]) -> dict[str, Any]:
    """The processes that execute steps, for one who acts for a tenant: how many, and their slots."""
    return {"workers": len(reports), "slots": sum(each.slots for each in reports), "free": sum(each.free for each in reports)}


def of_placed(step: PlacedStep, ahead: int) -> dict[str, Any]:
    """A step that waits for a worker or a pool, and how many are ahead of it in the line, whosever they are."""
    return {
        "run": step.run,
        "step": step.step,
        "tenant": step.tenant,
        "workflow": step.workflow,
        "demands": demanded(step.demand),
        "ahead": ahead,
    }


def demanded(demand: Demand) -> str:
    """A demand in a line: `label gpu, 2000 cpu_m, 5 of OPENAI_RPS`."""
    parts = [f"label {label}" for label in demand.labels] + [f"tag {tag}" for tag in demand.tags]
    sizes = (("cpu_m", demand.cpu_m), ("memory_mb", demand.memory_mb), ("gpus", demand.gpus))
    parts += [f"{amount} {what}" for what, amount in sizes if amount]
    parts += [f"{'some' if amount is None else amount} of {pool}" for pool, amount in demand.pools.items()]
    parts += [f"task {demand.task}"] if demand.is_remote else []
    parts += ["a shell"] if demand.runs_scripts and not parts else []
    return ", ".join(parts)


def of_wait(wait: WaitReason) -> dict[str, Any]:
    """Why a step waits. The clock of the process that found that out means nothing to another."""
    reason: dict[str, Any] = msgspec.to_builtins(wait.reason)
    del reason["since_s"]
    return {
        "run": wait.step.run,
        "step": wait.step.step,
        "workflow": wait.step.workflow,
        "graph_hash": wait.step.graph_hash,
        "workers": wait.workers,
        "since_ms": wait.since_ms,
        "demand": msgspec.to_builtins(wait.step.demand),
        **reason,
        "holders": ["/".join(key) for key in wait.reason.holders],
    }
