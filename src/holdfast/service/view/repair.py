"""Forks, bulk and dead letters. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.values.money import nanousd, usd
from holdfast.core.views import status
from holdfast.service.view.effect import MOST_EFFECTS
from holdfast.service.view.plain import error_of, iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.control.bulk import BulkOutcome
    from holdfast.control.control import Control
    from holdfast.core.facts.state import State
    from holdfast.core.rules.forking import Done, Fork
    from holdfast.ports import Letter, LetterCount


def of_fork(fork: Fork, cost_limit_usd: str | int | float | None = None) -> dict[str, Any]:
    """What a fork would be. `most_usd` is its limit, `anew_usd` the most that the origin's calls could have cost, were they all
    made again."""
    limit = fork.began.limit_nanousd if cost_limit_usd is None else nanousd(cost_limit_usd)
    return {
        "run_id": fork.began.run,
        "workflow": fork.began.workflow,
        "begins_at": fork.begins_at if fork.path is None else f"{fork.begins_at}/{fork.path}",
        "why": fork.why or None,
        "kept": list(fork.kept),
        "again": list(fork.again),
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
        "policy": done.policy or None,
        "stands": done.stands,
        "why": done.why or None,
        "cost_usd": usd(done.settled_nanousd),
    }


def of_cancel(state: State) -> dict[str, Any]:
    """What would be called off, what is in flight and may have happened, and what would be undone, in that order."""
    calls = [
        {
            "call": id_,
            "kind": call.kind,
            "name": call.name,
            "step": call.step,
            "doubted": call.doubted,
            "policy": call.policy if call.kind == "effect" else None,
        }
        for id_, call in state.calls.items()
    ]
    ended = bool(state.ended)
    return {
        "run_id": state.run,
        "status": status.status(state),
        "called_off": [] if ended else [state.steps[name].id for name in state.unfinished],
        "in_flight": [] if ended else calls,
        "compensated": []
        if ended
        else [
            {"call": each.child or each.call, "tool": each.tool, "with": each.compensation or None}
            for each in reversed(state.compensable)
        ],
        "asked": [] if ended else [call["call"] for call in calls if call["kind"] == "effect" and call["policy"] == "once"],
    }


def of_outcome(outcome: BulkOutcome) -> dict[str, Any]:
    """What became of one of many runs, or dead letters."""
    return {
        "run_id": outcome.run,
        "status": outcome.status,
        "refused": outcome.refused,
        "fork": outcome.fork,
        "letter": outcome.letter,
        "quote": None if outcome.plan is None else of_fork(outcome.plan),
    }


def of_letter(found: Letter) -> dict[str, Any]:
    """A dead letter as lists show it."""
    letter = found.letter
    return {
        "letter": found.id,
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
    failed = None if step is None or step.failed_path is None else step.journal.get(step.failed_path)
    calls = [] if failed is None or failed.call is None else await control.effects(state.run, limit=MOST_EFFECTS)
    sent = next((row for row, _ in calls if failed is not None and row.call == failed.call), None)
    edit = None if step is None or step.failed_path is None else step.edits.get(step.failed_path)
    return {
        **of_letter(found),
        "status": status.status(state),
        "input": await control.payloads.value(state.input, state.tenant),
        "error": None if step is None else error_of(step.error),
        "failed_at": None if step is None else step.failed_path,
        "arguments": None if sent is None else await control.payloads.value(sent.request, state.tenant),
        "edited_arguments": None if edit is None else await control.payloads.value(edit.arguments, state.tenant),
        "operations": []
        if step is None
        else [
            {"path": path, "kind": op.kind, "name": op.name, "status": op.status, "key": op.key, "error": error_of(op.error)}
            for path, op in step.journal.items()
        ],
        "gate": next((id_ for id_, gate in state.gates.items() if gate.opened.subject == found.letter.step), None),
    }


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
