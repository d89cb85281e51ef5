"""Fields that commands and queries have in common, each with the description that OpenAPI shows.

Never here: a field that only one command or query has.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, UnsetType

from holdfast.core.values.money import Usd
from holdfast.service.doc import doc

# --- The subject of a command or query --------------------------------------------------------------------------------

RunId = Annotated[str, doc("Id of the run.")]
GateId = Annotated[str, doc("Id of the gate.")]
LetterId = Annotated[str, doc("Id of the dead letter, `RUN:STEP`, or `RUN` if that run has only one open.")]
ApprovalId = Annotated[str, doc("Id of the standing approval.")]
Part = Annotated[Any, Meta(extra_json_schema={"type": "object", "title": "ContentPart", "additionalProperties": True})]
"""A content part: any data, which the engine checks; an object in the description, or else generators leave the field out."""
SignalName = Annotated[str, doc("Name of the signal.")]
ScheduleName = Annotated[str, doc("Name of the schedule.")]
ConversationName = Annotated[str, doc("Name of the conversation.")]
SupervisorName = Annotated[str, doc("Name of the supervisor.")]
RuleName = Annotated[str, doc("Name of the notification rule.")]
DeliveryId = Annotated[str, doc("Id of the delivery, which is that of its message.")]
PoolName = Annotated[
    str, doc("Name of the pool, as steps ask for it, like `OPENAI_RPS`; `NAME@TENANT` for a pool of one tenant.")
]
KeyName = Annotated[str, doc("Name of the API key.")]
TeamBudgetName = Annotated[str, doc("Name of the team budget.")]
TeamOfBudget = Annotated[str | None, doc("Team of the tenant; by default the budget of the whole tenant.")]
ForkStep = Annotated[
    str, doc("Step to fork from: a visit of a node, `draft#2`, or an operation of a flow, counted from 0, `flow#1/3`.")
]
ForkOutput = Annotated[
    Any | UnsetType, doc("Output of the step, used instead of executing it; by default the step is executed again.")
]
ForkState = Annotated[dict[str, Any], doc("Outputs of other nodes to use instead of the original ones, by node name.")]
ForkCostLimit = Annotated[
    Usd | None, doc("Cost limit of the new run in dollars; by default the limit that the original run started with.")
]
Tenant = Annotated[str | None, doc("Tenant; by default the caller's own, or `default` for a caller that acts for all tenants.")]
TenantOfKey = Annotated[
    str | None, doc("Tenant of the key; by default the caller's own. Required if several tenants have a key of this name.")
]

# --- Filters and pages ------------------------------------------------------------------------------------------------

RunStatus = Annotated[str, Meta(extra_json_schema={"$ref": "#/components/schemas/RunStatus"})]
EffectState = Annotated[str, Meta(extra_json_schema={"$ref": "#/components/schemas/EffectState"})]
"""Texts, as the set itself would load the rules; the description of the API has it by its name."""
OfTenant = Annotated[
    str | None, doc("Only this tenant; by default the caller's own, or all for a caller that acts for all tenants.")
]
OfRun = Annotated[str | None, doc("Only this run, by its id.")]
OfWorkflow = Annotated[str | None, doc("Only this workflow, by its name.")]
Cursor = Annotated[str | None, doc("Cursor that the page before ended with; the list goes on after it.")]
Limit = Annotated[int, doc("Maximum number of rows, 1 to 1,000.")]

# --- What a run may spend ---------------------------------------------------------------------------------------------

Team = Annotated[str | None, doc("Team of the tenant; costs also count in the team's budgets.")]
TeamBudget = Annotated[str | None, doc("Name of a team budget in which costs also count; requires `agent`.")]
Agent = Annotated[str | None, doc("Agent to charge in the team budget when a node does not name one; requires `team_budget`.")]

RunAction: TypeAlias = Literal["cancel", "pause", "resume", "retry", "extend", "raise_budget", "signal", "fork"]
LimitName: TypeAlias = Literal["steps", "tokens", "model_calls", "tool_calls", "active", "wall", "lifespan"]

# --- How a command is carried out -------------------------------------------------------------------------------------

StartKey = Annotated[
    str | None,
    doc("Start key, which makes the start idempotent: repeated, it returns the same run; with another input, it is refused."),
]
Queue = Annotated[bool, doc("True to queue the run when too many runs are active; by default it is refused.")]
RepeatEffects = Annotated[
    bool, doc("True to make new calls of once-only tools without asking; by default a person must approve each.")
]
DryRun = Annotated[bool, doc("True to change nothing and only report what would be done.")]
Reason = Annotated[str | None, doc("Reason, kept in the run's history.")]
CancelReason = Annotated[str, doc("Reason for cancelling, kept in the run's history.")]
ShownHash = Annotated[
    str | None,
    doc("Hash of what the gate showed; if that changed, nothing is decided. Required unless the gate makes it optional."),
]
GateData = Annotated[
    Any | UnsetType, doc("Data of the decision: the fields of the form, or the value that an `answer` gives; by default none.")
]
AssignTo = Annotated[tuple[str, ...], doc("Persons or roles to ask.")]
ReadyOutput = Annotated[
    Any | UnsetType, doc("Output of the step, for a run that waits for one; without it, a run that waits fails.")
]
LinkLife = Annotated[int, doc("Lifetime of the link in seconds, up to 90 days; by default 7 days.")]
