"""The ledger of tool calls. Never here: printing, who may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.service.view.plain import iso

if TYPE_CHECKING:
    from holdfast.control.control import Control
    from holdfast.core.views.projection import EffectChange, EffectRow


MOST_EFFECTS: Final = 1000
"""Calls of tools that are shown with their run; `effects list --run` has all."""


async def of_effect(control: Control, row: EffectRow, change: EffectChange | None, tenant: str | None = None) -> dict[str, Any]:
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
