"""The names that the description of the API gives to sets of values, so that a generated client has one type of each.

Never here: values that stand at one place only, which generators name after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from holdfast.core.capacity import lending
from holdfast.core.facts.state import StepStatus
from holdfast.core.nouns import conversations, memory, schedules, scores, tool_policy
from holdfast.core.values import access, policies, proposal, scopes
from holdfast.core.views import notifications, operations, projection, status
from holdfast.core.views.selection import LetterState
from holdfast.service.declarations import field
from holdfast.service.view import conversation, run

_SETS: Final[Mapping[str, Any]] = {
    "BudgetPeriod": scopes.Period,
    "Operator": tool_policy.Operator,
    "DeadLetterState": LetterState,
    "DeliveryState": notifications.DeliveryState,
    "EffectPolicy": policies.EffectPolicy,
    "EffectState": projection.EffectState,
    "ExtendableLimit": field.LimitName,
    "GateState": projection.GateState,
    "Grant": access.Grant,
    "LimitAction": policies.OnLimit,
    "LimitName": run.LimitName,
    "MemoryKind": memory.Kind,
    "MessageStatus": conversation.MessageStatus,
    "Occasion": notifications.Occasion,
    "OnBusy": conversations.OnBusy,
    "OperationKind": operations.OperationKind,
    "OperationRowStatus": operations.RowStatus,
    "Overlap": schedules.Overlap,
    "PoolCounts": lending.RateUnit,
    "PoolKind": lending.Kind,
    "RiskLevel": proposal.RiskLevel,
    "RunStatus": status.Status,
    "ScoreSource": scores.Source,
    "SignInWay": access.SignInWay,
    "StepStatus": StepStatus,
    "WaitKind": status.WaitKind,
}
_NAMES: Final = {frozenset(get_args(values)): name for name, values in _SETS.items()}


def schemas() -> dict[str, Any]:
    """Return the schema of each set, by its name."""
    return {name: {"type": "string", "enum": sorted(get_args(values))} for name, values in _SETS.items()}


def with_names(schema: Any, ref: str) -> Any:
    """Return a schema in which the sets that have a name are referred to: `ref` with their name in it."""
    if isinstance(schema, list):
        return [with_names(each, ref) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: with_names(value, ref) for key, value in schema.items()}
    if "enum" not in schema:
        return {key: value for key, value in inner.items() if key != "type"} if "$ref" in inner else inner
    name = _NAMES.get(frozenset(schema["enum"]))
    if name is None:
        return {"type": "string", **inner}
    return {key: value for key, value in inner.items() if key not in ("enum", "type")} | {"$ref": ref.format(name=name)}
