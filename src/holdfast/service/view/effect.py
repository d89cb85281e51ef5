"""The ledger of tool calls. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, TypedDict

from msgspec import Meta

from holdfast.core.views.projection import EffectState
from holdfast.service.view.plain import Time, iso

if TYPE_CHECKING:
    from holdfast.core.views import projection
    from holdfast.service.control.control import Control


MOST_EFFECTS: Final = 1000
"""Calls of tools that are shown with their run; `effects list --run` has all."""


class EffectRow(TypedDict):
    """A tool call, as the ledger keeps it."""

    call: Annotated[str, Meta(description="Its id.")]
    run_id: str
    step: str
    tool: str
    policy: Annotated[str, Meta(description="Whether the tool may be called again: `read`, `idempotent`, `verify` or `once`.")]
    key: Annotated[str, Meta(description="The effect key that is sent to the tool, the same for each attempt.")]
    state: Annotated[EffectState, Meta(description="What is known of its outcome.")]
    request: Annotated[Any, Meta(description="The arguments.")]
    response: Annotated[Any, Meta(description="What the tool returned.")]
    error: Annotated[str | None, Meta(description="The error that it ended with.")]
    by: Annotated[str | None, Meta(description="The person who stated the outcome.")]
    intended_at: Annotated[Time, Meta(description="When it was written down, before the call was made.")]
    updated_at: Time


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
