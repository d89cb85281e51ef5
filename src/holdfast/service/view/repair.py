"""Forks, bulk and dead letters. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from msgspec import Meta

from holdfast.core.facts.state import OperationStatus
from holdfast.core.values.money import nanousd, usd
from holdfast.core.views import status
from holdfast.core.views.status import Status
from holdfast.ports import LetterState
from holdfast.service.view.effect import MOST_EFFECTS
from holdfast.service.view.plain import Dollars, ErrorRow, Time, error_of, iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.core.facts.state import State
    from holdfast.core.rules.forking import Done, Fork
    from holdfast.ports import Letter, LetterCount
    from holdfast.service.control.bulk import BulkOutcome
    from holdfast.service.control.control import Control


class ForkedOperationRow(TypedDict):
    """An operation of a run that is to be forked."""

    step: str
    path: Annotated[str, Meta(description="Its place in the step.")]
    kind: Annotated[str, Meta(description="`model`, `effect`, `step` and others.")]
    name: Annotated[str, Meta(description="The model, tool or function.")]
    policy: Annotated[str | None, Meta(description="The policy of a tool: `read`, `idempotent`, `verify` or `once`.")]
    stands: Annotated[bool, Meta(description="True if it comes before the place where the fork begins.")]
    why: Annotated[str | None, Meta(description="Why its outcome cannot be reused.")]
    cost_usd: Dollars


class ForkQuoteRow(TypedDict):
    """What a fork of a run would do and cost."""

    run_id: Annotated[str, Meta(description="The run that would be forked.")]
    workflow: str
    begins_at: Annotated[str, Meta(description="The first step, or `STEP/OPERATION`, that would be done again.")]
    why: Annotated[str | None, Meta(description="Why it begins earlier than asked.")]
    kept: Annotated[list[str], Meta(description="The steps that would not be done again.")]
    again: Annotated[list[str], Meta(description="The steps that would be done again.")]
    reused: Annotated[list[ForkedOperationRow], Meta(description="The operations whose outcomes would be reused.")]
    anew: Annotated[list[ForkedOperationRow], Meta(description="The operations that would be done again.")]
    reused_usd: Annotated[Dollars, Meta(description="What the reused operations have cost.")]
    anew_usd: Annotated[Dollars, Meta(description="The most that all operations could cost if none were reused.")]
    most_usd: Annotated[Dollars | None, Meta(description="The cost limit of the fork; null for none.")]


def of_fork(fork: Fork, cost_limit_usd: str | int | float | None = None) -> ForkQuoteRow:
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


def _done(done: Done) -> ForkedOperationRow:
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


class CallInFlightRow(TypedDict):
    """A call whose outcome is not known yet."""

    call: Annotated[str, Meta(description="Its id.")]
    kind: Literal["model", "effect"]
    name: Annotated[str, Meta(description="The model or tool.")]
    step: str
    doubted: Annotated[bool, Meta(description="True if its outcome cannot be known without a person.")]
    policy: Annotated[str | None, Meta(description="The policy of a tool: `read`, `idempotent`, `verify` or `once`.")]


# `with` is a word of the language.
CompensatedRow = TypedDict(
    "CompensatedRow",
    {
        "call": Annotated[str, Meta(description="The id of the call, or of the child run.")],
        "tool": Annotated[str, Meta(description="The tool that was called.")],
        "with": Annotated[str | None, Meta(description="The tool that undoes it; null where the child run undoes itself.")],
    },
)
CompensatedRow.__doc__ = "An effect that would be undone."


class CancelQuoteRow(TypedDict):
    """What cancelling a run would do."""

    run_id: str
    status: Status
    called_off: Annotated[list[str], Meta(description="The steps that would be cancelled.")]
    in_flight: Annotated[list[CallInFlightRow], Meta(description="The calls that may have happened.")]
    compensated: Annotated[list[CompensatedRow], Meta(description="The effects that would be undone, in this order.")]
    asked: Annotated[list[str], Meta(description="The calls about which a person would be asked.")]


def of_cancel(state: State) -> CancelQuoteRow:
    """What would be called off, what is in flight and may have happened, and what would be undone, in that order."""
    calls: list[CallInFlightRow] = [
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


class OutcomeRow(TypedDict):
    """The result of a command for one of many runs or dead letters."""

    run_id: str
    status: Annotated[str, Meta(description="The run's status afterwards.")]
    refused: Annotated[str | None, Meta(description="Why it was not done.")]
    fork: Annotated[str | None, Meta(description="The id of the run that was forked from it.")]
    letter: Annotated[str | None, Meta(description="The id of the dead letter.")]
    quote: Annotated[ForkQuoteRow | None, Meta(description="What the fork would do, in a dry run.")]


def of_outcome(outcome: BulkOutcome) -> OutcomeRow:
    """What became of one of many runs, or dead letters."""
    return {
        "run_id": outcome.run,
        "status": outcome.status,
        "refused": outcome.refused,
        "fork": outcome.fork,
        "letter": outcome.letter,
        "quote": None if outcome.plan is None else of_fork(outcome.plan),
    }


class DeadLetterRow(TypedDict):
    """A dead letter: a step that has failed permanently."""

    letter: Annotated[str, Meta(description="Its id, `RUN:STEP`.")]
    run_id: str
    step: str
    tenant: str
    workflow: str
    node: str
    error_class: Annotated[str, Meta(description="The kind of the last error.")]
    message: Annotated[str, Meta(description="The last error.")]
    attempts: int
    first_at: Annotated[Time, Meta(description="When it failed first.")]
    last_at: Annotated[Time, Meta(description="When it failed last.")]
    asked: Annotated[bool, Meta(description="True if the run goes on and a gate asks about the step.")]
    edited: Annotated[bool, Meta(description="True if its input was edited since.")]
    state: LetterState
    resolved_at: Time | None


class LetterOperationRow(TypedDict):
    """An operation of a step that has failed permanently."""

    path: Annotated[str, Meta(description="Its place in the step.")]
    kind: Annotated[str, Meta(description="`model`, `effect`, `step` and others.")]
    name: Annotated[str, Meta(description="The model, tool or function.")]
    status: OperationStatus
    key: Annotated[str | None, Meta(description="The effect key of a tool call.")]
    error: ErrorRow | None


class DeadLetterWhole(DeadLetterRow):
    """A dead letter with its input, its error and its operations."""

    status: Annotated[Status, Meta(description="The run's status.")]
    input: Annotated[Any, Meta(description="The run's input.")]
    error: ErrorRow | None
    failed_at: Annotated[str | None, Meta(description="The operation that failed.")]
    arguments: Annotated[Any, Meta(description="The arguments of the tool call that failed.")]
    edited_arguments: Annotated[Any, Meta(description="The arguments of the next attempt, where they were edited.")]
    operations: list[LetterOperationRow]
    gate: Annotated[str | None, Meta(description="The gate that asks about the step.")]


def of_letter(found: Letter) -> DeadLetterRow:
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


async def of_letter_whole(control: Control, found: Letter, state: State) -> DeadLetterWhole:
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


class DeadLetterCountRow(TypedDict):
    """The dead letters of a node and a kind of error."""

    workflow: str
    node: str
    error_class: str
    open: Annotated[int, Meta(description="How many are open.")]
    resolved: Annotated[int, Meta(description="How many were resolved and are still listed.")]
    oldest_open_at: Time | None
    oldest_open_s: Annotated[int | None, Meta(description="The age of the oldest open one, in seconds.")]


def of_letters(count: LetterCount, now_ms: int) -> DeadLetterCountRow:
    return {
        "workflow": count.workflow,
        "node": count.node,
        "error_class": count.error_class,
        "open": count.open,
        "resolved": count.resolved,
        "oldest_open_at": iso(count.oldest_open_ms),
        "oldest_open_s": None if count.oldest_open_ms is None else (now_ms - count.oldest_open_ms) // 1000,
    }
