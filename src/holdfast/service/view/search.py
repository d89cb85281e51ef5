"""The results of a search. Never here: searching (handlers)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypedDict

from holdfast.service.doc import doc

FoundKind: TypeAlias = Literal[
    "run", "step", "event", "gate", "effect", "model_call", "dead_letter", "conversation", "schedule", "workflow"
]


class SearchRow(TypedDict):
    """A thing that a search has found."""

    kind: Annotated[FoundKind, doc("Kind of thing; `effect` is the call of a tool.")]
    id: Annotated[str, doc("Its id or name; of a step `RUN/STEP`, of an event `RUN/NUMBER`.")]
    run_id: Annotated[str | None, doc("The run that it belongs to; null for none.")]
    title: Annotated[str, doc("Its name in lists: of a run the workflow, of a gate its reason, of a call the tool.")]
    status: Annotated[str | None, doc("Status of a run, a step, a gate or a dead letter; null for others.")]
    workflow: Annotated[str, doc("Name of the workflow that it belongs to.")]
    tenant: Annotated[str | None, doc("Tenant that it belongs to; null for code, which all tenants share.")]
