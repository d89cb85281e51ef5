"""Fields that rows have in common, each with the description that OpenAPI shows.

Never here: a field that only one row has.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from holdfast.core.values.policies import EffectPolicy
from holdfast.core.views import status
from holdfast.service.doc import doc
from holdfast.service.view.plain import Dollars, ErrorRow, Time

Policy: TypeAlias = Annotated[EffectPolicy | None, doc("Effect policy of the tool that is called; null for anything else.")]
OperationKind: TypeAlias = Annotated[str, doc("Kind of operation, like `model`, `effect` (of a tool) or `step` (a function).")]
RunId: TypeAlias = Annotated[str, doc("Id of the run.")]
StepId: TypeAlias = Annotated[str, doc("Id of the step, `NODE#VISIT`: `draft#2` is the second visit of the node `draft`.")]
GateId: TypeAlias = Annotated[str, doc("Id of the gate.")]
CallId: TypeAlias = Annotated[str, doc("Id of the call.")]
Workflow: TypeAlias = Annotated[str, doc("Name of the workflow.")]
Version: TypeAlias = Annotated[int, doc("Version of the workflow.")]
GraphHash: TypeAlias = Annotated[str, doc("Hash of the workflow's definition, which tells two definitions of a version apart.")]
Node: TypeAlias = Annotated[str, doc("Name of the node.")]
Tool: TypeAlias = Annotated[str, doc("Name of the tool.")]
Model: TypeAlias = Annotated[str, doc("Name of the model.")]
Tenant: TypeAlias = Annotated[str, doc("Name of the tenant to which it belongs.")]
Team: TypeAlias = Annotated[str | None, doc("Team of the tenant, in whose budgets what it spends counts too; null for none.")]
Tags: TypeAlias = Annotated[list[str], doc("Tags of the run, by which lists find it.")]
Labels: TypeAlias = Annotated[dict[str, str], doc("Labels of the run by key, by which lists find and count it.")]
Key: TypeAlias = Annotated[str | None, doc("Start key of the run: a start with the same key returns this run.")]
Status: TypeAlias = Annotated[status.Status, doc("Status of the run.")]
Output: TypeAlias = Annotated[Any, doc("Output of the run; null unless it is completed.")]
Error: TypeAlias = Annotated[ErrorRow | None, doc("Error that it failed with; null if it has not failed.")]
ErrorClass: TypeAlias = Annotated[str, doc("Kind of the error, stable across versions: `timeout`, `rate_limit`, `tool`.")]
Attempts: TypeAlias = Annotated[int, doc("Number of attempts so far.")]
Seq: TypeAlias = Annotated[int, doc("Number of the event in the history of the run.")]
StartedAt: TypeAlias = Annotated[Time, doc("Time at which the run was started.")]
UpdatedAt: TypeAlias = Annotated[Time, doc("Time of the latest event of the run.")]
EndedAt: TypeAlias = Annotated[Time | None, doc("Time at which the run ended; null if it has not ended.")]
MissingSince: TypeAlias = Annotated[
    Time | None, doc("Time since which no living process has the code of the workflow; null if one has it, or none is needed.")
]
CostUsd: TypeAlias = Annotated[Dollars, doc("Dollars that the calls of the run have cost.")]
HeldUsd: TypeAlias = Annotated[Dollars, doc("Dollars that are reserved for calls in flight and for calls of unknown cost.")]
LimitUsd: TypeAlias = Annotated[Dollars | None, doc("Cost limit of the run in dollars; null for none.")]
