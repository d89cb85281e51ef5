"""Forks, bulk and dead letters. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, cast

from holdfast.core.facts.state import OperationStatus
from holdfast.core.values.money import usd
from holdfast.core.views import status
from holdfast.core.views.status import Status
from holdfast.ports import LetterState
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.effect import MAX_EFFECTS
from holdfast.service.view.plain import Dollars, ErrorRow, Time, error_of, iso, maybe_usd

if TYPE_CHECKING:
    from holdfast.core.facts.state import State
    from holdfast.core.rules.forking import Fork, ForkedOperation
    from holdfast.core.values.policies import EffectPolicy
    from holdfast.ports import Letter, LetterCount
    from holdfast.service.control.bulk import BulkOutcome
    from holdfast.service.control.control import Control


class ForkedOperationRow(TypedDict):
    """An operation of a run that is to be forked."""

    step: field.StepId
    path: Annotated[str, doc("Its place in the step.")]
    kind: field.OperationKind
    name: Annotated[str, doc("The model, tool or function.")]
    policy: field.Policy
    stands: Annotated[bool, doc("True if it comes before the place where the fork begins.")]
    reason: Annotated[str | None, doc("Reason why its outcome cannot be reused; null if it can.")]
    cost_usd: Annotated[Dollars, doc("Dollars that it has cost in the original run.")]


class ForkQuoteRow(TypedDict):
    """The part of a quote that only a fork has: what it would keep, do again and cost."""

    run_id: Annotated[str, doc("The run that would be forked.")]
    workflow: Annotated[str, doc("Name of the run's workflow.")]
    begins_at: Annotated[str, doc("The first step, or `STEP/OPERATION`, that would be done again.")]
    reason: Annotated[str | None, doc("Reason why it begins earlier than asked; null if it does not.")]
    kept_steps: Annotated[list[str], doc("The steps that would not be done again.")]
    repeated_steps: Annotated[list[str], doc("The steps that would be done again.")]
    reused_operations: Annotated[list[ForkedOperationRow], doc("The operations whose outcomes would be reused.")]
    repeated_operations: Annotated[list[ForkedOperationRow], doc("The operations that would be done again.")]
    reused_usd: Annotated[Dollars, doc("Dollars that the reused operations have cost.")]
    worst_case_usd: Annotated[Dollars, doc("The most that all operations could cost if none were reused.")]
    limit_usd: Annotated[Dollars | None, doc("The cost limit of the fork; null for none.")]


def of_fork(fork: Fork, limit_nanousd: int | None = None) -> ForkQuoteRow:
    """Return a fork's part of its quote. `worst_case_usd` is the most that the calls of the original run could
    have cost, if all were made again."""
    limit = fork.began.limit_nanousd if limit_nanousd is None else limit_nanousd
    return {
        "run_id": fork.began.run,
        "workflow": fork.began.workflow,
        "begins_at": fork.begins_at if fork.path is None else f"{fork.begins_at}/{fork.path}",
        "reason": fork.reason or None,
        "kept_steps": list(fork.kept_steps),
        "repeated_steps": list(fork.repeated_steps),
        "reused_operations": [_done(each) for each in fork.reused_operations],
        "repeated_operations": [_done(each) for each in fork.repeated_operations],
        "reused_usd": usd(sum(each.settled_nanousd for each in fork.reused_operations)),
        "worst_case_usd": usd(sum(each.held_nanousd for each in (*fork.reused_operations, *fork.repeated_operations))),
        "limit_usd": maybe_usd(limit),
    }


def _done(done: ForkedOperation) -> ForkedOperationRow:
    return {
        "step": done.step,
        "path": done.path,
        "kind": done.kind,
        "name": done.name,
        "policy": cast("EffectPolicy | None", done.policy or None),
        "stands": done.stands,
        "reason": done.reason or None,
        "cost_usd": usd(done.settled_nanousd),
    }


class CallInFlightRow(TypedDict):
    """A call whose outcome is not known yet."""

    call: Annotated[str, doc("Its id.")]
    kind: Annotated[Literal["model", "effect"], doc("Kind of call: `model`, or `effect` for a tool.")]
    name: Annotated[str, doc("The model or tool.")]
    step: Annotated[str, doc("Id of the step that made the call.")]
    doubted: Annotated[bool, doc("True if its outcome cannot be known without a person.")]
    policy: field.Policy


# `with` is a word of the language.
CompensatedRow = TypedDict(
    "CompensatedRow",
    {
        "call": Annotated[str, doc("The id of the call, or of the child run.")],
        "tool": Annotated[str, doc("The tool that was called.")],
        "with": Annotated[str | None, doc("The tool that undoes it; null where the child run undoes itself.")],
    },
)
CompensatedRow.__doc__ = "An effect that would be undone."


class RunQuoteRow(TypedDict):
    """A quote of an action on a run: what it would do."""

    run_id: field.RunId
    action: Annotated[str, doc("The action.")]
    status: Annotated[Status, doc("The run's status now.")]
    status_after: Annotated[Status | None, doc("The run's status right after the command; null if it would be refused.")]
    refused: Annotated[str | None, doc("Reason why it would be refused; null if it would not.")]
    called_off: Annotated[list[str], doc("The steps that would be cancelled.")]
    goes_on: Annotated[list[str], doc("The steps that would start, or go on where they failed.")]
    calls_again: Annotated[list[CallInFlightRow], doc("Tool calls that would be made again, under the same effect key.")]
    in_flight: Annotated[list[CallInFlightRow], doc("The calls that may have happened and have no outcome yet.")]
    compensated: Annotated[list[CompensatedRow], doc("The effects that would be undone, in this order.")]
    asked: Annotated[list[str], doc("The calls about which a person would be asked if their outcome is lost.")]
    gates_withdrawn: Annotated[list[str], doc("Gates that would be withdrawn, by their ids.")]
    delivered_to: Annotated[list[str], doc("Steps that would get the signal at once; without one the run keeps it.")]
    spendable_usd: Annotated[
        Dollars | None, doc("The most that the run could spend afterwards under its cost limit; null if it has none.")
    ]
    fork: Annotated[ForkQuoteRow | None, doc("The parts of a fork; null for another action, and where it would be refused.")]


class OutcomeRow(TypedDict):
    """The result of a command for one of many runs or dead letters."""

    run_id: field.RunId
    status: Annotated[Status, doc("The run's status afterwards.")]
    refused: Annotated[str | None, doc("Reason why it was not done; null if it was.")]
    fork: Annotated[str | None, doc("The id of the run that was forked from it.")]
    letter: Annotated[str | None, doc("The id of the dead letter.")]
    quote: Annotated[RunQuoteRow | None, doc("Quote of a command to a run, in a dry run; null otherwise.")]


def of_outcome(outcome: BulkOutcome) -> OutcomeRow:
    """Return the row of one run or dead letter in a bulk action."""
    return {
        "run_id": outcome.run,
        "status": cast("Status", outcome.status),
        "refused": outcome.refused,
        "fork": outcome.fork,
        "letter": outcome.letter,
        "quote": None,
    }


class DeadLetterRow(TypedDict):
    """A dead letter: a step that has failed permanently."""

    letter: Annotated[str, doc("Its id, `RUN:STEP`.")]
    run_id: Annotated[str, doc("Id of the run that has failed or waits.")]
    step: Annotated[str, doc("Id of the step that has failed, `NODE#VISIT`.")]
    tenant: Annotated[str, doc("Tenant of the run.")]
    workflow: Annotated[str, doc("Name of the run's workflow.")]
    node: Annotated[str, doc("Name of the node that has failed.")]
    error_class: Annotated[str, doc("The kind of the last error.")]
    message: Annotated[str, doc("The last error.")]
    attempts: Annotated[int, doc("Number of attempts that have failed.")]
    first_at: Annotated[Time, doc("When it failed first.")]
    last_at: Annotated[Time, doc("When it failed last.")]
    asked: Annotated[bool, doc("True if the run goes on and a gate asks about the step.")]
    edited: Annotated[bool, doc("True if its input was edited since.")]
    state: Annotated[LetterState, doc("State of the dead letter: `resolved` ones stay listed for three days.")]
    resolved_at: Annotated[Time | None, doc("Time at which it was replayed or closed; null while it is open.")]


class LetterOperationRow(TypedDict):
    """An operation of a step that has failed permanently."""

    path: Annotated[str, doc("Its place in the step.")]
    kind: field.OperationKind
    name: Annotated[str, doc("The model, tool or function.")]
    status: Annotated[OperationStatus, doc("Status of the operation.")]
    key: Annotated[str | None, doc("The effect key of a tool call.")]
    error: field.Error


class DeadLetterWhole(DeadLetterRow):
    """A dead letter with its input, its error and its operations."""

    status: Annotated[Status, doc("The run's status.")]
    input: Annotated[Any, doc("The run's input.")]
    error: Annotated[ErrorRow | None, doc("Last error of the step, in full.")]
    failed_at: Annotated[str | None, doc("The operation that failed.")]
    arguments: Annotated[Any, doc("The arguments of the tool call that failed.")]
    edited_arguments: Annotated[Any, doc("The arguments of the next attempt, where they were edited.")]
    operations: Annotated[list[LetterOperationRow], doc("Operations of the step, in the order in which they began.")]
    gate: Annotated[str | None, doc("The gate that asks about the step.")]
    input_schema: Annotated[Any, doc("The JSON Schema of the run's input; null for anything.")]
    arguments_schema: Annotated[
        Any, doc("The JSON Schema of the arguments; null if no tool call failed, or its code is not here.")
    ]


def of_letter(dead_letter: Letter) -> DeadLetterRow:
    """A dead letter as lists show it."""
    letter = dead_letter.letter
    return {
        "letter": dead_letter.id,
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
        "state": "open" if dead_letter.resolved_at_ms is None else "resolved",
        "resolved_at": iso(dead_letter.resolved_at_ms),
    }


async def of_letter_whole(
    control: Control, letter: Letter, state: State, input_schema: dict[str, Any] | None, arguments_schema: dict[str, Any] | None
) -> DeadLetterWhole:
    """A dead letter with what its step had come to: its error, the operations of its journal, the input of the run."""
    step = state.step(letter.letter.step)
    failed = None if step is None or step.failed_path is None else step.journal.get(step.failed_path)
    calls = [] if failed is None or failed.call is None else await control.effects(state.run, limit=MAX_EFFECTS)
    sent = next((row for row, _ in calls if failed is not None and row.call == failed.call), None)
    edit = None if step is None or step.failed_path is None else step.edits.get(step.failed_path)
    return {
        **of_letter(letter),
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
        "gate": next((id_ for id_, gate in state.gates.items() if gate.opened.subject == letter.letter.step), None),
        "input_schema": input_schema,
        "arguments_schema": arguments_schema,
    }


class DeadLetterCountRow(TypedDict):
    """The dead letters of a node and a kind of error."""

    workflow: field.Workflow
    node: field.Node
    error_class: field.ErrorClass
    open: Annotated[int, doc("Number of open ones.")]
    resolved: Annotated[int, doc("Number of resolved ones that are still listed.")]
    oldest_open_at: Annotated[Time | None, doc("Time at which the oldest open one failed first; null if none is open.")]
    oldest_open_s: Annotated[int | None, doc("The age of the oldest open one, in seconds.")]


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
