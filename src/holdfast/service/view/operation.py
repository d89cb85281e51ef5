"""The operations of runs, and their model calls. Never here: printing, who may see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict, cast

from holdfast.core.values.ids import SessionId
from holdfast.core.values.model_request import AFTER, SAME
from holdfast.core.values.money import usd
from holdfast.core.views import attempts, model_calls, operations, status
from holdfast.service.doc import doc
from holdfast.service.view.plain import Dollars, ErrorRow, Time, error_of, iso
from holdfast.service.view.run import WaitRow


class FailedTryRow(TypedDict):
    """A try of an operation that failed."""

    at: Annotated[Time, doc("Time at which it failed.")]
    retry_at: Annotated[Time | None, doc("Time at which the next try is due; null if none follows, or its step decides.")]
    error_class: Annotated[str, doc("The kind of error.")]


class OperationRow(TypedDict):
    """An operation of a step: a call, a question, a wait, or a function whose result is recorded."""

    step: Annotated[str, doc("Id of its step, `NODE#VISIT`; empty for the engine's questions about the run.")]
    path: Annotated[str | None, doc("Place in the code of the step; null for a question about the step as a whole.")]
    kind: Annotated[operations.OperationKind, doc("Kind of operation: `function` is a `@step`, `question` asks a person.")]
    name: Annotated[str, doc("Name of the function, model, tool, signal or workflow; the reason of a question.")]
    seq: Annotated[int, doc("Number of the event with which it began.")]
    status: Annotated[operations.RowStatus, doc("Status: `waiting` for a person, time, another run, money or pools.")]
    began_at: Annotated[Time, doc("Time at which it began.")]
    ended_at: Annotated[Time | None, doc("Time at which it ended; null if it has not ended.")]
    ended_seq: Annotated[int | None, doc("Number of the event with its outcome; null if it has none.")]
    tries: Annotated[int, doc("Number of calls that left, or of calls of the function.")]
    waited_ms: Annotated[int, doc("Time until its first call left, in milliseconds.")]
    cost_usd: Annotated[Dollars, doc("Dollars that it has cost, those of unknown outcome included.")]
    held_usd: Annotated[Dollars, doc("Dollars that are reserved for its call in flight.")]
    input_tokens: Annotated[int, doc("Tokens that the model has read.")]
    output_tokens: Annotated[int, doc("Tokens that the model has written.")]
    max_tokens: Annotated[
        int | None, doc("Maximum of output tokens that was bought, as the limit could not pay for more; null if it could.")
    ]
    about: Annotated[str | None, doc("Id of the gate, of the child run or of the call.")]
    due_at: Annotated[Time | None, doc("Time at which its wait ends by itself, or its next try is due.")]
    waits_for: Annotated[list[str], doc("The pools, or the limit, for which the call waits.")]
    waiting_for: Annotated[WaitRow | None, doc("Its wait, as in `waiting_for` of the run; null if it waits for nothing.")]
    reused: Annotated[bool, doc("True if its outcome was known from an earlier call.")]
    decision: Annotated[str | None, doc("Decision of a question; null before there is one.")]
    by: Annotated[str | None, doc("The person who decided.")]
    error: Annotated[ErrorRow | None, doc("Its last error.")]
    failed_tries: Annotated[list[FailedTryRow], doc("Its tries that failed, the latest twenty.")]


class AttemptRow(TypedDict):
    """An attempt of a step: a piece of work from its start to its end or its wait."""

    step: Annotated[str, doc("Id of the step, `NODE#VISIT`.")]
    attempt: Annotated[int, doc("Number of the attempt; a step that continues after a wait stays in its attempt.")]
    status: Annotated[
        attempts.AttemptStatus, doc("Status: `lost` with its process; `suspended` if it waits; `stopped` by changed code.")
    ]
    ready_at: Annotated[Time | None, doc("Time since which it waited for a slot or a worker; null if it did not wait.")]
    began_at: Annotated[Time, doc("Time at which it began.")]
    ended_at: Annotated[Time | None, doc("Time at which it ended or was suspended; null if it runs.")]
    retry_at: Annotated[Time | None, doc("Time at which the next attempt is due.")]
    worker: Annotated[str | None, doc("The process that executed it; hidden from callers of one tenant.")]
    seq: Annotated[int, doc("Number of the event with which it began.")]
    ended_seq: Annotated[int | None, doc("Number of the event with which it ended, which has the output.")]
    error: Annotated[ErrorRow | None, doc("Error with which it ended.")]


class KeptTurnRow(TypedDict, total=False):
    """A turn of a request to a model."""

    type: Annotated[
        str,
        doc(
            "`user`, `model` (an earlier reply), `tools` (the answers to its tool requests) or `forwarded` (a message of a"
            " program's own request)."
        ),
    ]
    role: Annotated[str, doc("Role of a forwarded message.")]
    text: Annotated[str, doc("Text of a turn of the user.")]
    parts: Annotated[Any, doc("Content parts of a turn of the user, with the words between them.")]
    replay: Annotated[Any, doc("An earlier reply or a forwarded message, in the form of its provider.")]
    replies: Annotated[Any, doc("Answers of tools, each with its `id`, `name` and `content`.")]


class KeptToolRow(TypedDict):
    """A tool as a model sees it."""

    name: Annotated[str, doc("Name of the tool.")]
    description: Annotated[str, doc("Description of the tool.")]
    parameters: Annotated[dict[str, Any], doc("JSON Schema of its arguments.")]


class KeptRequestRow(TypedDict, total=False):
    """The kept part of a request to a model. A field that equals that of the call before it is left out."""

    model: Annotated[str, doc("Name of the model that the step asked for.")]
    system: Annotated[str, doc("System prompt.")]
    turns: Annotated[list[KeptTurnRow], doc("New turns.")]
    max_tokens: Annotated[int, doc("Maximum number of tokens of the reply.")]
    tools: Annotated[list[KeptToolRow], doc("Tools that the model may call.")]
    answer: Annotated[Any, doc("JSON Schema of the answer; null for text.")]
    temperature: Annotated[float | None, doc("Sampling temperature; null for the provider's default.")]
    timeout_s: Annotated[float, doc("Time limit of the request in seconds.")]
    format: Annotated[str, doc("Wire format of a program's own request, such as `openai.chat`.")]
    request: Annotated[Any, doc("A program's own request without its conversation.")]


class ModelCallRow(TypedDict):
    """A model call. An agent sends the whole conversation with each call: a row has what is new in it."""

    call: Annotated[str, doc("Id of the call.")]
    step: Annotated[str, doc("Id of its step, `NODE#VISIT`.")]
    path: Annotated[str, doc("Place in the code of the step.")]
    model: Annotated[str, doc("Name of the model that was asked.")]
    seq: Annotated[int, doc("Number of the event with which it left.")]
    status: Annotated[model_calls.CallStatus, doc("Status: `in_doubt` if the call may have been billed without a reply.")]
    at: Annotated[Time, doc("Time at which it left.")]
    ended_at: Annotated[Time | None, doc("Time of its outcome; null before there is one.")]
    after: Annotated[str | None, doc("The earlier call with whose request this one begins; null if it is given in full.")]
    same_turns: Annotated[int, doc("Number of turns that it has in common with that call, which are left out here.")]
    request: Annotated[
        KeptRequestRow | None,
        doc("The request (`system`, `tools`, `turns`, …), without what equals that of `after`; null if only its hash is kept."),
    ]
    reply: Annotated[Any, doc("The reply; null if there is none.")]
    error: Annotated[ErrorRow | None, doc("Error with which it ended.")]
    cost_usd: Annotated[Dollars, doc("Dollars that it has cost; of a call in doubt, what is reserved for it.")]
    input_tokens: Annotated[int, doc("Tokens that the model has read.")]
    output_tokens: Annotated[int, doc("Tokens that the model has written.")]
    agent: Annotated[str | None, doc("The agent to whose allotment of a team budget it is charged.")]


def of_model_call(row: model_calls.ModelCallRow, request: dict[str, Any] | None, reply: Any) -> ModelCallRow:
    """A model call, with its request as it is kept and its reply."""
    kept = dict(request or {})
    after, same = kept.pop(AFTER, None), kept.pop(SAME, 0)
    return {
        "call": row.call,
        "step": row.step,
        "path": row.path,
        "model": row.model,
        "seq": row.seq,
        "status": row.status,
        "at": iso(row.at_ms),
        "ended_at": iso(row.ended_at_ms),
        "after": after,
        "same_turns": same,
        "request": None if request is None else cast("KeptRequestRow", kept),
        "reply": reply,
        "error": error_of(row.error),
        "cost_usd": usd(row.cost_nanousd),
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "agent": row.agent,
    }


def of_operation(row: operations.OperationRow) -> OperationRow:
    return {
        "step": row.step,
        "path": row.path,
        "kind": row.kind,
        "name": row.name,
        "seq": row.seq,
        "status": row.status,
        "began_at": iso(row.began_at_ms),
        "ended_at": iso(row.ended_at_ms),
        "ended_seq": row.ended_seq,
        "tries": row.tries,
        "waited_ms": row.waited_ms,
        "cost_usd": usd(row.cost_nanousd),
        "held_usd": usd(row.held_nanousd),
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "max_tokens": row.max_tokens,
        "about": row.about,
        "due_at": iso(row.due_at_ms),
        "waits_for": [*row.waits_for],
        "waiting_for": None if row.wait is None else cast("WaitRow", status.describe(row.wait)),
        "reused": row.reused,
        "decision": row.decision,
        "by": row.by,
        "error": error_of(row.error),
        "failed_tries": [
            {"at": iso(each.at_ms), "retry_at": iso(each.retry_at_ms), "error_class": each.error_class}
            for each in row.failed_tries
        ],
    }


def of_attempt(row: attempts.AttemptRow, workers: Mapping[SessionId, str]) -> AttemptRow:
    return {
        "step": row.step,
        "attempt": row.attempt,
        "status": row.status,
        "ready_at": iso(row.ready_at_ms),
        "began_at": iso(row.began_at_ms),
        "ended_at": iso(row.ended_at_ms),
        "retry_at": iso(row.retry_at_ms),
        "worker": workers.get(row.session, row.session),
        "seq": row.seq,
        "ended_seq": row.ended_seq,
        "error": error_of(row.error),
    }
