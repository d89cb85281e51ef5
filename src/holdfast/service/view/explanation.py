"""A run in sentences, as plain data. Never here: the sentences, times in words, commands."""

from __future__ import annotations

from typing import Annotated, TypedDict

from holdfast.core.views.status import WaitKind
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Time


class HappeningRow(TypedDict):
    """A thing that happened in a run."""

    at: Annotated[Time | None, doc("Time at which it happened; null if it went on for some time.")]
    text: Annotated[str, doc("Sentence about it.")]


class ExplainedWaitRow(TypedDict):
    """A wait of a run, in sentences."""

    id: Annotated[str, doc("The gate, step or operation that waits.")]
    kind: Annotated[WaitKind, doc("Thing that ends the wait, as in `waiting_for` of the run.")]
    reason: Annotated[str, doc("A stable code, as in `waiting_for` of the run.")]
    since: Annotated[Time, doc("Time since which it waits.")]
    due_at: Annotated[Time | None, doc("When it ends by itself; null if it does not.")]
    text: Annotated[str, doc("Sentence about the wait.")]
    action: Annotated[str, doc("The person or process that can end it, and the way.")]


class ExplanationRow(TypedDict):
    """A run in sentences: what happened, what it waits for, and what it costs."""

    run_id: field.RunId
    workflow: field.Workflow
    version: field.Version
    status: field.Status
    summary: Annotated[str, doc("Sentence about how the run stands.")]
    action: Annotated[str, doc("Actions that are possible for the run as a whole, and by whom.")]
    happened: Annotated[list[HappeningRow], doc("The start, the work so far, retries, losses, decisions and the end.")]
    waits: Annotated[list[ExplainedWaitRow], doc("Everything that the run waits for, each with who can end it.")]
    costs: Annotated[list[str], doc("Sentences about what it has cost, and what it may still cost.")]
