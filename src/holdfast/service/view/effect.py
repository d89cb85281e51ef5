"""The ledger of tool calls. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict, cast

from holdfast.core.values.policies import EffectPolicy
from holdfast.core.views.projection import EffectState
from holdfast.service.doc import doc
from holdfast.service.view import field
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.core.views import projection
    from holdfast.service.control.control import Control


MAX_EFFECTS: Final = 1000
"""Calls of tools that are shown with their run; `effects list --run` has all."""


class EffectRow(TypedDict):
    """A tool call, as the ledger keeps it."""

    call: Annotated[str, doc("Its id.")]
    run_id: Annotated[str, doc("Id of the run that made the call.")]
    step: Annotated[str, doc("Id of the step that made the call.")]
    tool: field.Tool
    policy: Annotated[
        EffectPolicy,
        doc("Effect policy. After a lost outcome, `read` and `idempotent` repeat the call and `once` asks a person."),
    ]
    key: Annotated[str, doc("The effect key that is sent to the tool, the same for each attempt.")]
    state: Annotated[EffectState, doc("State of the call: what is known of its outcome.")]
    request: Annotated[Any, doc("The arguments.")]
    response: Annotated[Any, doc("Response of the tool; null before there is one.")]
    error: Annotated[str | None, doc("The error that it ended with.")]
    by: Annotated[str | None, doc("The person who stated the outcome.")]
    intended_at: Annotated[Time, doc("When it was written down, before the call was made.")]
    updated_at: Annotated[Time, doc("Time at which its state last changed.")]


async def of_effect(
    control: Control, row: projection.EffectRow, change: projection.EffectChange | None, tenant: str | None = None
) -> EffectRow:
    """A line of the ledger; `tenant` is its run's, where that is known already."""
    value, tenant = control.payloads.value, tenant or (await control.find(row.run)).tenant
    response = change.response if change is not None else None
    return {
        "call": row.call,
        "run_id": row.run,
        "step": row.step,
        "tool": row.tool,
        "policy": cast("EffectPolicy", row.policy),
        "key": row.key,
        "state": change.state if change is not None else "intended",
        "request": await value(row.request, tenant),
        "response": await value(response, tenant) if response is not None else None,
        "error": change.error if change is not None else None,
        "by": change.by if change is not None else None,
        "intended_at": iso(row.intended_at_ms),
        "updated_at": iso(change.updated_at_ms if change is not None else row.intended_at_ms),
    }
