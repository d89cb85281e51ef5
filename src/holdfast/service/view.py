"""Runs, gates, effects and money as plain data: what --json prints and what clients are answered, part of the public surface.

Never here: printing, who may see it.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core import status
from holdfast.core.claim import Claim
from holdfast.core.events import StepCompleted
from holdfast.core.ids import node_of
from holdfast.core.money import nanousd, usd
from holdfast.core.payload import Payload
from holdfast.core.schedules import nominal_times
from holdfast.core.scopes import in_words
from holdfast.ports import WorkflowRecord

if TYPE_CHECKING:
    from holdfast.control.bulk import BulkOutcome
    from holdfast.control.control import Control
    from holdfast.control.conversation import Talk
    from holdfast.control.tree import Tree
    from holdfast.core.conversations import Conversation, Exchange
    from holdfast.core.costs import Cost
    from holdfast.core.demand import Demand
    from holdfast.core.estimates import Estimate
    from holdfast.core.events import Event, Recorded
    from holdfast.core.forking import Done, Fork
    from holdfast.core.ids import SessionId
    from holdfast.core.lending import DeclaredPool, Share
    from holdfast.core.policies import ErrorRecord
    from holdfast.core.projection import EffectChange, EffectRow, GateChange, GateRow, RunRow
    from holdfast.core.schedules import Schedule
    from holdfast.core.state import Map, State, Step
    from holdfast.core.streams import Told
    from holdfast.engine.diagnosis import WaitReason
    from holdfast.engine.doubt import Doubt
    from holdfast.engine.stored_workflow import StoredWorkflow
    from holdfast.ports import Letter, LetterCount, PlacedStep


MOST_EFFECTS: Final = 1000
"""Calls of tools that are shown with their run; `effects list --run` has all."""


_NEXT_TIMES: Final = 5
"""Of a schedule, that are shown."""


def iso(at_ms: int | None) -> str | None:
    """A time in UTC: `2026-03-01T09:30:00.250Z`."""
    if at_ms is None:
        return None
    moment = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def of_run(control: Control, state: State) -> dict[str, Any]:
    """A run. `held_usd` is all that is set aside: for calls in flight, and for those whose cost is unknown."""
    budget = state.budget
    return {
        "run_id": state.run,
        "workflow": state.workflow,
        "version": state.version,
        "status": status.status(state),
        "output": await control.output(state) if state.ended == "completed" else None,
        "cost_usd": usd(budget.settled_nanousd),
        "held_usd": usd(budget.held_nanousd + budget.in_doubt_nanousd),
        "limit_usd": maybe_usd(budget.limit_nanousd),
        "error": _error(state.error),
        "waiting_for": [status.describe(wait) for wait in status.waiting_for(state)],
    }


async def of_run_whole(control: Control, state: State) -> dict[str, Any]:
    """A run with its steps, its effects and its books."""
    workers = await control.names_of({step.worker for step in state.steps.values() if step.worker is not None})
    row = await control.store.views.run(state.run)
    effects = await control.effects(state.run, limit=MOST_EFFECTS)
    return {
        **await of_run(control, state),
        "tenant": state.tenant,
        "team": state.team,
        "key": state.key,
        "parent": None
        if state.parent is None
        else {"run_id": state.parent.run, "step": state.parent.step, "root_id": state.parent.root},
        "forked_from": None
        if state.origin is None
        else {
            "run_id": state.origin.run,
            "step": state.origin.place,
        },
        "started_by": state.by,
        "started_by_os_user": state.os_user or None,
        "started_by_client": state.client or None,
        "started_at": iso(state.started_at_ms),
        "updated_at": iso(state.at_ms),
        "ended_at": iso(state.ended_at_ms) if state.ended else None,
        "settled_usd": usd(state.budget.settled_nanousd),
        "in_doubt_usd": usd(state.budget.in_doubt_nanousd),
        "workflow_missing_since": None if row is None else iso(await control.missing_since_ms(row)),
        "hindered": [{"why": each.why, "since": iso(each.since_ms)} for each in await control.hindered(state.run)],
        "tokens": state.tokens_used,
        "steps_started": state.steps_started,
        "steps": [of_step(step, workers) for step in state.steps.values()],
        "maps": [await of_map(control, state, map_) for map_ in state.maps.values()],
        "effects": [await of_effect(control, *each, tenant=state.tenant) for each in effects],
    }


def of_fork(fork: Fork, cost_limit_usd: str | int | float | None = None) -> dict[str, Any]:
    """What a fork would be. `most_usd` is its limit, `anew_usd` the most that the origin's calls could have cost, were they all
    made again."""
    limit = fork.began.limit_nanousd if cost_limit_usd is None else nanousd(cost_limit_usd)
    return {
        "run_id": fork.began.run,
        "workflow": fork.began.workflow,
        "begins_at": fork.begins_at,
        "why": fork.why or None,
        "kept": list(fork.kept),
        "reused": [_done(each) for each in fork.reused],
        "anew": [_done(each) for each in fork.anew],
        "reused_usd": usd(sum(each.settled_nanousd for each in fork.reused)),
        "anew_usd": usd(sum(each.held_nanousd for each in (*fork.reused, *fork.anew))),
        "most_usd": maybe_usd(limit),
    }


def _done(done: Done) -> dict[str, Any]:
    return {
        "step": done.step,
        "path": done.path,
        "kind": done.kind,
        "name": done.name,
        "cost_usd": usd(done.settled_nanousd),
    }


def of_outcome(outcome: BulkOutcome) -> dict[str, Any]:
    """What became of one of many runs."""
    return {
        "run_id": outcome.run,
        "status": outcome.status,
        "refused": outcome.refused,
        "fork": outcome.fork,
    }


def of_letter(found: Letter) -> dict[str, Any]:
    """A dead letter as lists show it."""
    letter = found.letter
    return {
        "letter": f"{letter.run}:{letter.step}",
        "run_id": letter.run,
        "step": letter.step,
        "tenant": letter.tenant,
        "workflow": letter.workflow,
        "node": letter.node,
        "error_class": letter.error_class,
        "message": letter.message,
        "attempts": letter.attempts,
        "first_at": iso(letter.first_at_ms),
        "last_at": iso(letter.last_at_ms),
        "asked": letter.asked,
        "edited": letter.edited,
        "state": "open" if found.resolved_at_ms is None else "resolved",
        "resolved_at": iso(found.resolved_at_ms),
    }


async def of_letter_whole(control: Control, found: Letter, state: State) -> dict[str, Any]:
    """A dead letter with what its step had come to: its error, the operations of its journal, the input of the run."""
    step = state.step(found.letter.step)
    return {
        **of_letter(found),
        "status": status.status(state),
        "input": await control.payloads.value(state.input, state.tenant),
        "error": None if step is None else _error(step.error),
        "failed_at": None if step is None else step.failed_path,
        "operations": [] if step is None else [
            {"path": path, "kind": op.kind, "name": op.name, "status": op.status, "key": op.key, "error": _error(op.error)}
            for path, op in step.journal.items()
        ],
        "gate": next((id_ for id_, gate in state.gates.items() if gate.opened.subject == found.letter.step), None),
    }  # fmt: skip


def of_letters(count: LetterCount, now_ms: int) -> dict[str, Any]:
    return {
        "workflow": count.workflow,
        "node": count.node,
        "error_class": count.error_class,
        "open": count.open,
        "resolved": count.resolved,
        "oldest_open_at": iso(count.oldest_open_ms),
        "oldest_open_s": None if count.oldest_open_ms is None else (now_ms - count.oldest_open_ms) // 1000,
    }


def of_step(step: Step, workers: Mapping[SessionId, str]) -> dict[str, Any]:
    """The latest visit of a node. It began with its first attempt; it changed when it became what it is."""
    return {
        "step": step.id,
        "status": step.status,
        "attempts": step.attempt,
        "began_at": iso(step.began_ms or None),
        "changed_at": iso(step.since_ms),
        "retry_at": iso(step.retry_at_ms),
        "worker": None if step.worker is None else workers.get(step.worker, step.worker),
        "decisions": None if step.decisions is None else list(step.decisions),
        "error": _error(step.error),
        "reason": step.reason,
    }


async def of_map(control: Control, state: State, map_: Map) -> dict[str, Any]:
    """A list that is done item by item. `failures` are the first of the items that failed and might; `runs items` has all."""
    run, opened = control.run(state.run), map_.opened
    failures = [each for seq in map_.failures for each in await run.events(seq - 1, 1)]
    return {
        "map": opened.map,
        "step": opened.step,
        "status": {"": "running", "met": "completed", "failed": "failed"}[map_.ended],
        "items": opened.count,
        "completed": map_.completed,
        "failed": map_.failed + sum(state.steps[name].status == "failed" for name in map_.stuck),
        "under_way": len(map_.items),
        "failures": [await of_item(control, each, state.tenant) for each in failures],
    }


async def of_item(control: Control, recorded: Recorded, tenant: str) -> dict[str, Any]:
    """How an item of a map has ended."""
    event: Any = recorded.event
    return {
        "item": node_of(event.step),
        "step": event.step,
        "status": _ENDS[type(event).__name__],
        "attempts": event.attempt,
        "ended_at": iso(recorded.at_ms),
        "output": await control.payloads.value(event.output, tenant) if isinstance(event, StepCompleted) else None,
        "error": _error(getattr(event, "error", None)),
        "reason": getattr(event, "reason", None),
        "seq": recorded.seq,
    }


_ENDS: Final = {"StepCompleted": "completed", "StepFailed": "failed", "StepCancelled": "cancelled"}


def of_row(row: RunRow) -> dict[str, Any]:
    """A run as lists show it."""
    return {
        "run_id": row.run,
        "workflow": row.workflow,
        "version": row.version,
        "status": row.status,
        "tenant": row.tenant,
        "key": row.key,
        "started_at": iso(row.started_at_ms),
        "updated_at": iso(row.updated_at_ms),
        "ended_at": iso(row.ended_at_ms),
        "cost_usd": usd(row.settled_nanousd),
        "held_usd": usd(row.held_nanousd + row.in_doubt_nanousd),
        "limit_usd": maybe_usd(row.limit_nanousd),
        "waiting_for": json.loads(row.waiting_for),
    }


def of_tree(tree: Tree) -> dict[str, Any]:
    """A run and all below it. `cost_usd` and `held_usd` are of all of them together, the limit that of the one at the top."""
    top = tree.members[0].row
    return {
        "run_id": tree.members[0].run,
        "root_id": tree.root,
        "cost_usd": usd(tree.settled_nanousd),
        "held_usd": usd(tree.outstanding_nanousd),
        "limit_usd": None if top is None else maybe_usd(top.limit_nanousd),
        "is_whole": tree.is_whole,
        "runs": [
            {
                "parent_id": each.parent,
                "depth": each.depth,
                **({"run_id": each.run, "status": "requested"} if each.row is None else of_row(each.row)),
            }
            for each in tree.members
        ],
    }


def maybe_usd(nanousd: int | None) -> str | None:
    return None if nanousd is None else usd(nanousd)


def _error(error: ErrorRecord | None) -> dict[str, Any] | None:
    if error is None:
        return None
    return {
        "node": error.node or None,
        "error_class": error.error_class,
        "message": error.message,
        "retryable": error.retryable,
        "at": iso(error.at_ms),
        "tool": error.tool,
        "trace": error.trace,
    }


def of_event(recorded: Recorded) -> dict[str, Any]:
    """An event in its place: what it says about the run, under the names of its fields."""
    return {
        "seq": recorded.seq,
        "at": iso(recorded.at_ms),
        "type": type(recorded.event).__name__,
        "trace_id": recorded.trace_id,
        **facts(recorded.event),
        **({"verified": False} if getattr(recorded.event, "by", None) is not None else {}),
    }


def of_told(told: Told) -> dict[str, Any]:
    """What is told of a stream of a run: only what its kind has."""
    found: dict[str, Any] = {
        "run_id": told.run, "stream": told.stream, "kind": told.kind, "source": told.source, "offset": told.offset,
    }  # fmt: skip
    if told.kind == "text":
        found["text"] = told.text
    elif told.kind == "value":
        found["value"] = told.value
    elif told.kind == "end":
        found["outcome"] = told.outcome
    return {**found, "cursor": told.cursor}


def facts(event: Event) -> dict[str, Any]:
    """An event's fields as plain data. A payload is its value, or names the blob that holds it."""
    return {name: _plain(getattr(event, name)) for name in event.__struct_fields__}


def news(event: Event) -> dict[str, Any]:
    """The same without the fields that say no more than their default does."""
    usual = {field.name: field.default for field in msgspec.structs.fields(event)}
    return {name: value for name, value in facts(event).items() if value not in (usual[name], [], {})}


def by_whom(event: Any) -> Claim:
    """Who acted, of an event or a state that has `by`."""
    return Claim(event.by, event.os_user, event.client)


def _plain(value: Any) -> Any:
    if isinstance(value, Payload):
        if value.blob is None:
            return value.value()
        return {"blob": value.blob, "size_bytes": value.size_bytes, "month": value.month}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return msgspec.to_builtins(value)


def of_gate(row: GateRow, change: GateChange | None) -> dict[str, Any]:
    return {
        "gate_id": row.gate,
        "run_id": row.run,
        "step": row.step,
        "reason": row.reason,
        "subject": row.subject,
        "state": change.state if change is not None else "open",
        "reviewers": list(row.reviewers),
        "opened_at": iso(row.opened_at_ms),
        "due_at": iso(row.due_at_ms),
        "reminders": (change.reminders if change is not None else None) or 0,
        "decision": change.decision if change is not None else None,
        "by": change.by if change is not None else None,
    }


async def of_effect(
    control: Control, row: EffectRow, change: EffectChange | None, tenant: str | None = None
) -> dict[str, Any]:
    """A line of the ledger; `tenant` is its run's, where that is known already."""
    value, tenant = control.payloads.value, tenant or (await control.find(row.run)).tenant
    response = change.response if change is not None else None
    return {
        "call": row.call,
        "run_id": row.run,
        "step": row.step,
        "tool": row.tool,
        "policy": row.policy,
        "key": row.key,
        "state": change.state if change is not None else "intended",
        "request": await value(row.request, tenant),
        "response": await value(response, tenant) if response is not None else None,
        "error": change.error if change is not None else None,
        "by": change.by if change is not None else None,
        "intended_at": iso(row.intended_at_ms),
        "updated_at": iso(change.updated_at_ms if change is not None else row.intended_at_ms),
    }


async def of_owner(control: Control, tenant: str, team: str | None) -> dict[str, Any]:
    """The books of a tenant's, or a team's, day and month, with who waits there."""
    books = (await control.budgets(tenant, team=team)).items()
    waiting = await control.waiting([row.scope for _, row in books])
    return {
        "tenant": tenant,
        "team": team,
        "books": [
            {
                "scope": in_words(row.scope),
                "period": period,
                "limit_usd": maybe_usd(row.limit),
                "settled_usd": usd(row.settled),
                "held_usd": usd(row.held),
                "in_doubt_usd": usd(row.in_doubt),
                "left_usd": maybe_usd(row.left),
                "waiting": [
                    {"run_id": each.run, "wanted_usd": usd(each.wanted)} for each in waiting if each.scope == row.scope
                ],
            }
            for period, row in books
        ],
    }


async def of_admission(control: Control, tenant: str | None) -> dict[str, Any]:
    """The active runs of a tenant, or of all together, and who waits for a place among them."""
    row = await control.admission(tenant)
    waiting = await control.waiting([row.scope])
    return {
        "scope": in_words(row.scope),
        "active": row.used,
        "cap": row.limit,
        "waiting": [each.run for each in waiting],
    }


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


def of_conversation(conversation: Conversation) -> dict[str, Any]:
    """A conversation as lists show it."""
    return {
        "name": conversation.id,
        "tenant": conversation.tenant,
        "agent": conversation.workflow,
        "on_busy": conversation.on_busy,
        "messages": conversation.said,
        "active": conversation.active,
        "run": conversation.run,
        "waiting": list(conversation.waiting),
        "latest": conversation.tip,
        "by": conversation.by,
        "begun_at": iso(conversation.made_at_ms),
    }


def of_talk(talk: Talk) -> dict[str, Any]:
    """A conversation with all that was said in it, and what it has spent."""
    return {
        **of_conversation(talk.conversation),
        "limit_usd": maybe_usd(talk.books.limit),
        "spent_usd": usd(talk.books.settled + talk.books.in_doubt),
        "held_usd": usd(talk.books.held),
        "exchanges": [of_exchange(each) for each in talk.exchanges.values()],
    }


def of_exchange(exchange: Exchange) -> dict[str, Any]:
    """A message and what came of it."""
    return {
        "number": exchange.number,
        "after": exchange.parent,
        "status": exchange.status,
        "text": exchange.text,
        "by": exchange.by,
        "key": exchange.key,
        "said_at": iso(exchange.at_ms),
        "run": exchange.run,
        "reply": exchange.reply,
        "left": exchange.left,
        "problem": exchange.problem,
    }


async def of_schedule(control: Control, schedule: Schedule) -> dict[str, Any]:
    """A schedule, with how the run stands that it has started last, and what comes next."""
    last = None if schedule.last_run is None else await control.store.views.run(schedule.last_run)
    soon = [] if schedule.paused else islice(nominal_times(schedule, control.store.clock.now_ms()), _NEXT_TIMES)
    return {
        "name": schedule.name,
        "tenant": schedule.tenant,
        "workflow": schedule.workflow,
        "version": schedule.version,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "input": msgspec.json.decode(schedule.input),
        "time_field": schedule.time_field,
        "team": schedule.team,
        "cost_limit_usd": maybe_usd(schedule.limit_nanousd),
        "jitter_s": schedule.jitter_s,
        "overlap": schedule.overlap,
        "catch_up_s": schedule.catch_up_s,
        "paused": schedule.paused,
        "by": schedule.by.name,
        "created_at": iso(schedule.created_ms),
        "next_times": [iso(at_ms) for at_ms in soon],
        "queued_time": iso(schedule.queued_ms),
        "last_time": iso(schedule.last_nominal_ms),
        "last_run_id": schedule.last_run,
        "last_status": None if last is None else last.status,
        "fired": schedule.fired,
        "skipped": schedule.skipped,
        "missed": schedule.missed,
        "problem": schedule.problem,
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


def of_workflow(workflow: WorkflowRecord | StoredWorkflow, processes: int) -> dict[str, Any]:
    """A workflow as lists show it; `processes` are those that live and can run it."""
    return {
        "workflow": workflow.name,
        "version": workflow.version,
        "graph_hash": workflow.graph_hash if isinstance(workflow, WorkflowRecord) else workflow.hash,
        "loaded_at": iso(workflow.loaded_at_ms),
        "processes": processes,
    }


def of_workflow_whole(workflow: StoredWorkflow, processes: int) -> dict[str, Any]:
    """A workflow with its definition and what its input must fit."""
    return {
        **of_workflow(workflow, processes),
        "input_schema": workflow.input_schema,
        "definition": msgspec.to_builtins(workflow.graph.definition),
    }


def of_placed(step: PlacedStep) -> dict[str, Any]:
    """A step that waits for a worker or a pool."""
    return {
        "run": step.run,
        "step": step.step,
        "tenant": step.tenant,
        "workflow": step.workflow,
        "demands": demanded(step.demand),
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
        "since_ms": wait.since_ms,
        "demand": msgspec.to_builtins(wait.step.demand),
        **reason,
        "holders": ["/".join(key) for key in wait.reason.holders],
    }


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
    return {
        "workflow": estimate.workflow,
        "node": estimate.node,
        "amount": estimate.amount,
        "samples": estimate.samples,
    }


def of_cost(cost: Cost) -> dict[str, Any]:
    return {
        "day": cost.day,
        "tenant": cost.tenant,
        "workflow": cost.workflow,
        "node": cost.node,
        "model": cost.model,
        "calls": cost.calls,
        "input_tokens": cost.input_tokens,
        "output_tokens": cost.output_tokens,
        "cost_usd": usd(cost.cost_nanousd),
    }


def of_budget(state: State) -> dict[str, Any]:
    """The books of a run, with the calls whose cost nobody knows yet."""
    budget = state.budget
    return {
        "run_id": state.run,
        "limit_usd": maybe_usd(budget.limit_nanousd),
        "settled_usd": usd(budget.settled_nanousd),
        "held_usd": usd(budget.held_nanousd),
        "in_doubt_usd": usd(budget.in_doubt_nanousd),
        "available_usd": maybe_usd(budget.available_nanousd),
        "in_doubt": [
            {
                "call": id_,
                "model": call.name,
                "step": call.step,
                "hold_usd": usd(call.hold_nanousd),
                "at": iso(call.at_ms),
            }
            for id_, call in state.calls.items()
            if call.kind == "model" and call.doubted
        ],
    }


def of_doubt(doubt: Doubt) -> dict[str, Any]:
    """A model call of which nobody knows what it cost, and what is known of it."""
    return {
        "call": doubt.call,
        "run_id": doubt.run,
        "tenant": doubt.tenant,
        "workflow": doubt.workflow,
        "step": doubt.step,
        "attempt": doubt.attempt,
        "model": doubt.model,
        "hold_usd": usd(doubt.hold_nanousd),
        "sent_at": iso(doubt.sent_at_ms),
        "in_doubt_since": iso(doubt.in_doubt_since_ms),
        "session": doubt.session,
        "error_class": doubt.error_class,
        "error": doubt.error,
    }
