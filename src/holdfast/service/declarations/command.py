"""The commands, as data. A transport makes one of its own fields; `Service.execute` does it.

Amounts of money are dollars (`"0.25"`), data is what JSON can say. Never here: what follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.core.capacity.lending import RateUnit
from holdfast.core.facts.terms import Terms
from holdfast.core.nouns.conversations import OnBusy
from holdfast.core.nouns.schedules import Overlap
from holdfast.core.nouns.team_budgets import TeamAgent
from holdfast.core.nouns.tool_policy import When
from holdfast.core.values.access import ANY, Grant
from holdfast.core.values.money import Usd
from holdfast.core.values.scopes import Period
from holdfast.core.views.notifications import Occasion
from holdfast.core.views.selection import LetterSelection, Selection
from holdfast.service.declarations import field
from holdfast.service.declarations.declaration import Command, GeneralSubject, Subject, command
from holdfast.service.doc import doc

if TYPE_CHECKING:  # answers are named in quotes
    from holdfast.service import view  # noqa: F401
    from holdfast.service.declarations.declaration import Rows  # noqa: F401

_MAX_TOGETHER: Final = 1_000
_MAX_CONDITIONS: Final = 100
"""Each is looked at with each call of such a tool."""


@command("POST /runs", "operator", about={"workflow": Subject.WORKFLOW}, also={"yaml": "author"}, key="key", creates=True)
class Start(Command["view.RunStatusRow"], Terms, frozen=True, kw_only=True):  # type: ignore[misc]  # as StartRun
    """Start a run of a workflow. Name the workflow, or pass the text of a workflow file as `yaml`."""

    workflow: Annotated[str, doc("Name of the workflow; leave it out with `yaml`.")] = ""
    version: Annotated[int, doc("Version of the workflow; 0 means the highest.")] = 0
    yaml: Annotated[str, doc("Text of a workflow file to start, instead of `workflow`; requires the grant author too.")] = ""
    input: Annotated[Any, doc("Input of the run, which must fit the workflow's input schema.")] = None
    tenant: field.Tenant = None
    team: field.Team = None
    key: field.StartKey = None
    cost_limit_usd: Annotated[
        Usd | None, doc("Cost limit in dollars, like `0.50`, for the run and all its children; by default the workflow's.")
    ] = None
    queue: field.Queue = False
    team_budget: field.TeamBudget = None
    agent: field.Agent = None


@command("POST /runs/{run}/fork", "operator", about={"run": Subject.RUN}, key="key", creates=True)
class Fork(Command["view.RunStatusRow"], frozen=True, kw_only=True):
    """Start a new run from a step of another run, with the history before that step. Calls that match the original run's calls
    reuse their outcomes. The original run must have ended or be paused."""

    run: field.RunId
    step: field.ForkStep
    input: Annotated[Any | UnsetType, doc("Input of the new run; by default the original run's.")] = UNSET
    output: field.ForkOutput = UNSET
    state: field.ForkState = msgspec.field(default_factory=dict)
    repeat_effects: field.RepeatEffects = False
    cost_limit_usd: field.ForkCostLimit = None
    key: field.StartKey = None
    queue: field.Queue = False


@command("POST /runs/{run}/labels", "operator", about={"run": Subject.RUN}, repeats=True)
class LabelRun(Command["view.RunStatusRow"], frozen=True):
    """Change labels of a run, under way or ended."""

    run: field.RunId
    labels: Annotated[dict[str, str | None], doc("Labels to set, by key; null removes one. Others stay as they are.")]


@command("POST /runs/{run}/pause", "operator", about={"run": Subject.RUN}, repeats=True)
class Pause(Command["view.RunStatusRow"], frozen=True):
    """Pause a run. Steps under way may finish, and no new step starts."""

    run: field.RunId


@command("POST /runs/{run}/resume", "operator", about={"run": Subject.RUN}, repeats=True)
class Resume(Command["view.RunStatusRow"], frozen=True):
    """Resume a paused run."""

    run: field.RunId


@command("POST /runs/{run}/retry", "operator", about={"run": Subject.FAILED})
class Retry(Command["view.RunStatusRow"], frozen=True):
    """Retry a failed run from where it failed. Completed steps and spent money stay as they are."""

    run: field.RunId


@command("POST /runs/{run}/cancel", "operator", about={"run": Subject.RUN}, repeats=True)
class Cancel(Command["view.RunStatusRow"], frozen=True):
    """Cancel a run. No new step starts, a flow cleans up, effects are compensated, and then the run ends. Cancelling again cuts
    the clean-up of the flow short."""

    run: field.RunId
    reason: field.CancelReason = "cancelled"


@command("POST /runs/{run}/migrate", "operator", about={"run": Subject.RUN}, repeats=True)
class Migrate(Command["view.RunStatusRow"], frozen=True):
    """Continue a run with another definition of its workflow."""

    run: field.RunId
    version: Annotated[int, doc("Version of the workflow to continue with; 0 means the highest.")] = 0


@command("POST /runs/{run}/record", "operator", about={"run": Subject.RUN}, keeps=False)
class ExportRun(Command["view.RecordRow"], frozen=True):
    """Export the record of an ended run, for `holdfast replay`. Personal data is replaced unless you pass `whole`. The server's
    setting `exports` limits which records may be exported."""

    run: field.RunId
    redact: Annotated[
        tuple[str, ...],
        doc("Names of fields whose values are replaced entirely, in any letter case; not together with `whole`."),
    ] = ()
    whole: Annotated[bool, doc("True to replace nothing, if the server's setting `exports` is `whole`.")] = False


@command(
    "POST /dead-letters/{letter}/edit", "operator", about={"letter": Subject.LETTER}, repeats=True, tag="/dead-letters/{letter}"
)
class EditDeadLetter(Command["view.RunStatusRow"], frozen=True):
    """Change the input or arguments with which a permanently failed step is tried again. Retry the dead letter afterwards."""

    letter: field.LetterId
    input: Annotated[Any | UnsetType, doc("New input of the run, which must fit the workflow's input schema.")] = UNSET
    arguments: Annotated[Any | UnsetType, doc("New arguments of the failed tool call, which must fit the tool's schema.")] = (
        UNSET
    )


@command("POST /dead-letters/{letter}/retry", "operator", about={"letter": Subject.LETTER}, tag="/dead-letters/{letter}")
class RetryDeadLetter(Command["view.RunStatusRow"], frozen=True):
    """Try a permanently failed step again. If its run has failed, every failed step of the run is tried again."""

    letter: field.LetterId


@command(
    "POST /dead-letters/{letter}/resolve",
    "operator",
    about={"letter": Subject.LETTER},
    repeats=True,
    tag="/dead-letters/{letter}",
)
class ResolveDeadLetter(Command["view.RunStatusRow"], frozen=True):
    """Close a dead letter without another attempt. If its run waits, give it an `output` or let it fail. Closed dead letters
    stay listed for three days."""

    letter: field.LetterId
    output: field.ReadyOutput = UNSET
    reason: field.Reason = None


@command("POST /runs/bulk", "operator", about={"workflow": Subject.RUNS}, any_tool={"action": ("retry",)}, names=("action",))
class Bulk(Command["Rows[view.OutcomeRow]"], Selection, frozen=True, kw_only=True):
    """Retry, cancel, pause, resume or fork all runs that match, newest first. Each call does one page and returns a row per
    run."""

    action: Annotated[Literal["retry", "cancel", "pause", "resume", "fork"], doc("Action to apply to each run.")]
    step: Annotated[str | None, doc("With `fork`, which requires it: step to fork from, like `draft#2` or `flow#1/3`.")] = None
    fork_key: Annotated[
        str | None,
        doc("Name of the batch of forks: repeated, it forks no run twice. By default it is derived from the request."),
    ] = None
    reason: field.CancelReason = "cancelled"
    repeat_effects: field.RepeatEffects = False
    status: Annotated[
        tuple[field.RunStatus, ...],
        doc("Only runs with one of these statuses; by default those that the action applies to, like `failed` for retry."),
    ] = ()
    cursor: field.Cursor = None
    limit: field.Limit = 100
    dry_run: field.DryRun = False


@command(
    "POST /dead-letters/bulk",
    "operator",
    about={"run": Subject.RUN, "workflow": Subject.RUNS},
    any_tool={"action": ("retry", "resolve")},
    names=("run", "action"),
)
class BulkDeadLetters(Command["Rows[view.OutcomeRow]"], LetterSelection, frozen=True, kw_only=True):
    """Retry or resolve all open dead letters that match, the oldest run's first. Each call does one page and returns a row per
    dead letter."""

    action: Annotated[Literal["retry", "resolve"], doc("Action to apply to each dead letter.")]
    output: field.ReadyOutput = UNSET
    reason: field.Reason = None
    cursor: field.Cursor = None
    limit: field.Limit = 100
    dry_run: field.DryRun = False


@command("POST /runs/{run}/scores", "reviewer", "operator", about={"run": Subject.RUN})
class GiveScore(Command["view.RunStatusRow"], frozen=True):
    """Score a run, during the run or after its end. The latest score of each name and author counts. A run takes at most 100
    scores."""

    run: field.RunId
    name: Annotated[str, doc("Name of the score, like `helpful`: a letter, then up to 63 letters, digits, `_`, `.` and `-`.")]
    value: Annotated[float | bool, doc("Value on a scale of your own, from -1e15 to 1e15; true is 1 and false is 0.")]
    source: Annotated[Literal["person", "code"], doc("Kind of author: a person or a program.")] = "person"
    comment: Annotated[str, doc("Comment, kept with the score; at most 4,096 bytes.")] = ""


@command("POST /runs/{run}/extend", "operator", about={"run": Subject.RUN}, repeats=True)
class Extend(Command["view.RunStatusRow"], frozen=True):
    """Raise a limit of a run, which must have that limit."""

    run: field.RunId
    limit: Annotated[
        field.LimitName, doc("Limit to raise; `active` is working time, `wall` is time since the start, waits included.")
    ]
    value: Annotated[int, doc("New limit, above the current one: a number, or seconds for `active`, `wall` and `lifespan`.")]


@command("POST /runs/{run}/budget", "admin", about={"run": Subject.RUN}, repeats=True)
class RaiseBudget(Command["view.RunStatusRow"], frozen=True):
    """Raise the cost limit of a run."""

    run: field.RunId
    limit_usd: Annotated[Usd, doc("New cost limit in dollars, above the current one.")]


@command("POST /runs/{run}/signals/{name}", "operator", about={"run": Subject.RUN}, key="key")
class Signal(Command["view.RunStatusRow"], frozen=True):
    """Send a signal to a run. The run keeps it until a step asks for it."""

    run: field.RunId
    name: field.SignalName
    data: Annotated[Any, doc("Data of the signal, which must fit what the run expects under this name.")] = None
    key: Annotated[
        str | None, doc("Idempotency key: repeated, it sends nothing; with another name or other data, it is refused.")
    ] = None


@command("POST /gates/{gate}/decision", "reviewer", about={"gate": Subject.GATE}, repeats=True, tag="/gates/{gate}")
class Decide(Command["view.RunStatusRow"], frozen=True):
    """Decide a gate."""

    gate: field.GateId
    decision: Annotated[str, doc("Decision that the gate allows: approve, edit, reject, answer, retry or one of its own.")] = (
        "approve"
    )
    data: field.GateData = UNSET
    reason: field.Reason = None
    shown_hash: field.ShownHash = None


class GateAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """The decision for one gate of several."""

    decision: Annotated[str, doc("Decision that the gate allows.")]
    data: field.GateData = UNSET
    reason: field.Reason = None


@command(
    "POST /gates/{gate}/together",
    "reviewer",
    about={"gate": Subject.GATE, "decisions": Subject.GATES},
    repeats=True,
    tag="/gates/{gate}",
)
class DecideTogether(Command["view.RunStatusRow"], frozen=True):
    """Decide several tool calls that one step asks about at the same time. All of the decisions take effect, or none. Gates
    that you do not name stay open."""

    gate: Annotated[str, doc("Id of one of the gates; all of them belong to its run.")]
    decisions: Annotated[
        dict[str, str | GateAnswer],
        Meta(min_length=1, max_length=_MAX_TOGETHER),
        doc("Decision of each gate, by gate id: a word like `approve`, or an object with data and reason."),
    ]
    shown_hash: Annotated[
        str | None,
        doc(
            "Hash of what the gates showed together; if that changed, nothing is decided. Required unless all make it optional."
        ),
    ] = None


@command("POST /gates/{gate}/delegate", "reviewer", about={"gate": Subject.GATE}, repeats=True, tag="/gates/{gate}")
class Delegate(Command["view.RunStatusRow"], frozen=True):
    """Ask more reviewers to decide a gate, beside the current ones. You must be one of its reviewers."""

    gate: field.GateId
    to: field.AssignTo
    reason: field.Reason = None


@command("POST /gates/{gate}/reassign", "reviewer", about={"gate": Subject.GATE}, repeats=True, tag="/gates/{gate}")
class Reassign(Command["view.RunStatusRow"], frozen=True):
    """Replace the reviewers of a gate."""

    gate: field.GateId
    to: field.AssignTo
    reason: field.Reason = None


@command("POST /effects/{call}/resolution", "reviewer", "operator", about={"call": Subject.TOOL_CALL}, repeats=True)
class Resolve(Command["view.RunStatusRow"], frozen=True):
    """Record the outcome of a tool call whose outcome is unknown. It decides the gate that asks about the call."""

    call: Annotated[str, doc("Id of the tool call.")]
    decision: Annotated[
        Literal["answer", "reject", "retry"],
        doc("`answer` if the call took effect, `reject` if it did not, `retry` to make the call again."),
    ]
    response: Annotated[Any | UnsetType, doc("Response of the tool, with `answer`.")] = UNSET
    reason: field.Reason = None
    shown_hash: field.ShownHash = None


@command("POST /doubts/{call}/reconcile", "admin", about={"call": Subject.MODEL_CALL}, repeats=True)
class Reconcile(Command["view.RunStatusRow"], frozen=True):
    """Record the actual cost of a model call whose cost is unknown."""

    call: Annotated[str, doc("Id of the model call.")]
    cost_usd: Annotated[Usd, doc("Actual cost in dollars; 0 if nothing was charged.")]


@command("POST /budgets", "admin", whole=GeneralSubject.FLEET, names=("tenant",), repeats=True, tag="/budgets")
class SetBudget(Command[None], frozen=True):
    """Limit what all runs of a tenant or team may spend in each day or month (UTC). Each call sets either the limit in dollars
    or the one in tokens."""

    tenant: Annotated[str, doc("Tenant whose budget is set.")]
    period: Annotated[Period, doc("Period of the limit: each day or each month (UTC).")]
    limit_usd: Annotated[Usd | None, doc("Limit in dollars, without `in_tokens`; by default no limit.")] = None
    team: field.TeamOfBudget = None
    in_tokens: Annotated[bool, doc("True to set the limit in tokens, `max_tokens`, instead of the one in dollars.")] = False
    max_tokens: Annotated[
        int | None, doc("Limit in tokens, input and output together, with `in_tokens`; by default no limit.")
    ] = None


@command("POST /team-budgets", "admin", names=("name",), repeats=True, tag="/team-budgets/{name}")
class SetTeamBudget(Command[None], frozen=True, kw_only=True):
    """Set a budget that agents share, once, not for each day. If the budget exists, its total is allotted again; no agent
    gets less than it has used. An agent with too little left for a call borrows from the others: longest idle first, at most
    half of what each has left; what the call does not use goes back."""

    name: field.TeamBudgetName
    agents: Annotated[
        dict[str, TeamAgent | float],
        doc("Agents that share the budget, 1 to 100, by name: a priority, or an object with priority and initial allocation."),
    ]
    total_usd: Annotated[Usd | None, doc("Total in dollars; by default dollars are not limited.")] = None
    total_tokens: Annotated[
        int | None, doc("Total in tokens, input and output together; by default tokens are not limited.")
    ] = None
    tenant: field.Tenant = None


@command("DELETE /team-budgets/{name}", "admin", names=("name",), repeats=True)
class RemoveTeamBudget(Command[None], frozen=True):
    """Remove the limits of a team budget. What its agents have used stays recorded."""

    name: field.TeamBudgetName
    tenant: field.Tenant = None


@command("POST /costs/rollup", "operator", whole=GeneralSubject.FLEET, repeats=True)
class RollUpCosts(Command["view.CostsCountedRow"], frozen=True):
    """Update the cost totals, for a few seconds at most. The row says whether they are up to date; if not, call it again."""


@command(
    "POST /approvals", "reviewer", about={"tool": Subject.TOOLS, "workflow": Subject.RUNS, "run": Subject.RUN}, creates=True
)
class GrantApproval(Command["view.ApprovalRow"], frozen=True, kw_only=True):
    """Grant a standing approval: matching tool calls are approved in advance. Calls that the workflow denies stay denied."""

    tool: Annotated[str, doc("Name of the tool, or a pattern like `mail_*`.")]
    for_s: Annotated[float, doc("Lifetime of the approval in seconds, above 0 and up to 366 days.")]
    max_calls: Annotated[int | None, doc("Maximum number of calls, 1 to 1,000,000; by default any number.")] = None
    when: Annotated[
        tuple[When, ...],
        Meta(max_length=_MAX_CONDITIONS),
        doc("Conditions on the call's arguments, all of which must hold; at most 100."),
    ] = ()
    workflow: Annotated[str | None, doc("Only calls in runs of this workflow, by its name.")] = None
    run: Annotated[str | None, doc("Only calls of this run, by its id.")] = None
    reason: Annotated[str, doc("Reason, kept with the approval.")] = ""
    tenant: Annotated[
        str | None, doc("Tenant; by default the run's, the caller's own, or `default` for a caller that acts for all tenants.")
    ] = None


@command("POST /approvals/{approval}/revoke", "reviewer", about={"approval": Subject.APPROVAL}, repeats=True)
class RevokeApproval(Command[None], frozen=True):
    """Revoke a standing approval. Calls that were already made stay made."""

    approval: field.ApprovalId
    tenant: field.Tenant = None


@command("POST /admission", "admin", whole=GeneralSubject.FLEET, names=("tenant",), repeats=True)
class SetAdmission(Command[None], frozen=True):
    """Limit how many runs may be active at once, for one tenant or for all together. Runs that are active already stay so."""

    runs: Annotated[int | None, doc("Maximum number of active runs, 0 to 1,000,000,000; by default no limit.")] = None
    tenant: Annotated[str | None, doc("Tenant to limit; by default all tenants together.")] = None


@command("POST /pools", "admin", whole=GeneralSubject.FLEET, names=("name",), repeats=True)
class SetPool(Command[None], frozen=True, kw_only=True):
    """Set a pool that steps and model calls share: slots, or a rate. An existing pool of this name is replaced. Every process
    follows within seconds; after a cut, running steps keep their slots."""

    name: field.PoolName
    slots: Annotated[int | None, doc("Slots that can be held at the same time, 1 to 10,000,000,000; instead of `rate`.")] = None
    rate: Annotated[int | None, doc("Units available in each period, 1 to 10,000,000,000; instead of `slots`.")] = None
    per_s: Annotated[int | None, doc("Period of the rate in seconds, 1 to 86,400; by default 1.")] = None
    burst: Annotated[
        int | None, doc("Units of a rate that can be taken at once after a pause; by default a tenth of the rate.")
    ] = None
    counts: Annotated[
        RateUnit | None,
        doc(
            "Unit that the pool counts at a model or provider: requests, tokens, input_tokens or output_tokens; requires `of`."
            " By default steps ask for amounts."
        ),
    ] = None
    of: Annotated[str | None, doc("Model or provider whose calls the pool counts; requires `counts`.")] = None


@command("DELETE /pools/{name}", "admin", whole=GeneralSubject.FLEET, names=("name",), repeats=True)
class RemovePool(Command[None], frozen=True):
    """Remove a pool. Steps that ask for it wait until it is set again."""

    name: field.PoolName


@command(
    "POST /schedules", "operator", about={"name": Subject.SCHEDULE, "workflow": Subject.WORKFLOW}, makes="name", repeats=True
)
class SetSchedule(Command[None], frozen=True, kw_only=True):
    """Set a schedule, which starts a run of a workflow at each time of a cron expression. An existing schedule of this name is
    replaced; if it was paused, it stays paused. Schedules start runs while a worker or a leader works on the store."""

    name: field.ScheduleName
    workflow: Annotated[str, doc("Name of the workflow.")]
    cron: Annotated[
        str,
        doc("Cron line of five fields (minute, hour, day, month, weekday), like `30 2 * * MON-FRI`; six have seconds first."),
    ]
    timezone: Annotated[str, doc("IANA time zone of the cron expression, like `Europe/Berlin`.")] = "UTC"
    input: Annotated[Any, doc("Input of each run, which must fit the workflow's input schema.")] = None
    time_field: Annotated[
        str | None, doc("Field of the input that is set to the scheduled time, like `2026-11-23T02:30:00Z`; by default none.")
    ] = None
    version: Annotated[int | None, doc("Version of the workflow; by default the highest at the time of each start.")] = None
    tenant: field.Tenant = None
    team: field.Team = None
    team_budget: field.TeamBudget = None
    agent: field.Agent = None
    cost_limit_usd: Annotated[Usd | None, doc("Cost limit of each run in dollars; by default the workflow's.")] = None
    jitter_s: Annotated[
        float, doc("Maximum delay of a start in seconds, 0 to 86,400; each scheduled time has its own constant delay.")
    ] = 0
    overlap: Annotated[
        Overlap,
        doc("Action while the previous run is active: skip this time, queue it, allow both runs, or cancel the previous run."),
    ] = "skip"
    catch_up_s: Annotated[
        float, doc("Times missed by more than this many seconds are left out; 0 to 31,622,400 (366 days).")
    ] = 3600


@command("POST /schedules/{name}/pause", "operator", about={"name": Subject.SCHEDULE}, repeats=True)
class PauseSchedule(Command[None], frozen=True):
    """Pause a schedule. It starts no runs until it is resumed."""

    name: field.ScheduleName
    tenant: field.Tenant = None


@command("POST /schedules/{name}/resume", "operator", about={"name": Subject.SCHEDULE}, repeats=True)
class ResumeSchedule(Command[None], frozen=True):
    """Resume a paused schedule from now. Times that passed while it was paused are left out; use backfill to start them."""

    name: field.ScheduleName
    tenant: field.Tenant = None


@command("DELETE /schedules/{name}", "operator", about={"name": Subject.SCHEDULE}, repeats=True)
class RemoveSchedule(Command[None], frozen=True):
    """Remove a schedule. Runs that it has started continue."""

    name: field.ScheduleName
    tenant: field.Tenant = None


@command("POST /schedules/{name}/backfill", "operator", about={"name": Subject.SCHEDULE}, repeats=True)
class Backfill(Command["Rows[view.BackfilledRow]"], frozen=True):
    """Start the runs of past times of a schedule, at most 1,000. Times that already had their run are left out."""

    name: field.ScheduleName
    since_ms: Annotated[int, doc("First time, inclusive, in Unix milliseconds.")]
    until_ms: Annotated[int | None, doc("Last time, inclusive, in Unix milliseconds; not in the future. By default now.")] = (
        None
    )
    tenant: field.Tenant = None


@command("POST /notifications/rules", "admin", names=("name",), repeats=True)
class SetNotificationRule(Command[None], frozen=True, kw_only=True):
    """Set a notification rule of a tenant, which has a channel send messages about its runs. An existing rule of this name is
    replaced, but for one of the server's settings, where channels are declared too."""

    name: field.RuleName
    occasions: Annotated[
        tuple[Occasion, ...], Meta(min_length=1), doc("Occasions to notify of, like `gate_opened`, `run_failed` or `budget`.")
    ]
    channel: Annotated[str, doc("Channel of the settings that the tenant may use.")]
    to: Annotated[
        tuple[str, ...],
        doc("Recipients by mail: names of people in the settings, addresses that the channel allows, or `@asked`."),
    ] = ()
    workflows: Annotated[tuple[str, ...], doc("Only these workflows: names, or patterns like `order*`.")] = ()
    labels: Annotated[dict[str, str], doc("Only runs with all of these labels.")] = msgspec.field(default_factory=dict)
    teams: Annotated[tuple[str, ...], doc("Only runs of these teams.")] = ()
    children: Annotated[bool, doc("True to notify of the ends of child runs too.")] = False
    digest_s: Annotated[
        float, doc("Seconds for which messages are gathered to become one, 0 to 3,600; 0 sends each by itself.")
    ] = 10.0
    title: Annotated[
        str | None, doc("Template of the title, like `{workflow}: {occasion}`; by default the occasion's own.")
    ] = None
    details: Annotated[bool, doc("True to include titles of gates and texts of errors, without secrets.")] = False
    tenant: field.Tenant = None


@command("DELETE /notifications/rules/{name}", "admin", names=("name",), repeats=True)
class RemoveNotificationRule(Command[None], frozen=True):
    """Remove a notification rule that was set. Messages that it has made are still sent."""

    name: field.RuleName
    tenant: field.Tenant = None


@command("POST /notifications/rules/{name}/test", "admin", names=("name",), creates=True)
class TestNotificationRule(Command["view.DeliveryRow"], frozen=True):
    """Have the channel of a rule send a test message. A caller that acts for all tenants and names none tests the rule of the
    settings, if one has that name."""

    name: field.RuleName
    tenant: field.Tenant = None


@command("POST /notifications/deliveries/{delivery}/replay", "admin", about={"delivery": Subject.DELIVERY}, repeats=True)
class ReplayDelivery(Command["view.DeliveryRow"], frozen=True):
    """Send a dead delivery again: the same message under the same id, with all its tries."""

    delivery: field.DeliveryId


@command("POST /notifications/channels/{channel}/enable", "admin", whole=GeneralSubject.FLEET, names=("channel",), repeats=True)
class EnableChannel(Command[None], frozen=True):
    """Resume sending to an address of a channel that was disabled because it answered HTTP 410 (Gone)."""

    channel: Annotated[str, doc("Name of the channel.")]
    address: Annotated[str, doc("Address that a start has named; by default the channel's own.")] = ""


@command(
    "POST /conversations",
    "operator",
    about={"name": Subject.CONVERSATION, "workflow": Subject.WORKFLOW},
    makes="name",
    repeats=True,
)
class OpenConversation(Command[None], frozen=True, kw_only=True):
    """Open a conversation with an agent, or continue the one of this name. An existing conversation keeps its settings, except
    for limits that you pass."""

    name: Annotated[str, doc("Name of the conversation, 1 to 128 bytes.")]
    workflow: Annotated[str, doc("Name of the agent's workflow, whose input is a chat.")]
    on_busy: Annotated[
        OnBusy, doc("Action on a message while the agent is busy: reject, enqueue, interrupt, rollback or steer.")
    ] = "enqueue"
    tenant: field.Tenant = None
    team: field.Team = None
    team_budget: field.TeamBudget = None
    agent: field.Agent = None
    cost_limit_usd: Annotated[
        Usd | None, doc("Cost limit in dollars for all runs of the conversation together; by default unchanged.")
    ] = None
    max_tokens: Annotated[
        int | None,
        doc("Maximum number of tokens, input and output together, for all runs of the conversation; by default unchanged."),
    ] = None


@command(
    "POST /conversations/{conversation}/messages",
    "operator",
    about={"conversation": Subject.CONVERSATION},
    key="key",
    creates=True,
)
class Say(Command["view.ExchangeRow"], frozen=True, kw_only=True):
    """Send a message in a conversation. The agent answers it in a run."""

    conversation: field.ConversationName
    text: Annotated[str, doc("Text of the message; may be empty if the message has parts.")]
    parts: Annotated[
        list[field.Part] | None,
        doc('Content parts, at most 20: objects like {"type": "image", "data": "BASE64"}, or with a `url` instead of data.'),
    ] = None
    after: Annotated[int | None, doc("Number of an earlier message to branch after; by default the latest.")] = None
    on_busy: Annotated[
        OnBusy | None,
        doc("Action while the agent is busy: reject, enqueue, interrupt, rollback or steer; by default the conversation's."),
    ] = None
    key: Annotated[
        str | None, doc("Idempotency key: repeated, it is the same message; with another text or other parts, it is refused.")
    ] = None
    tenant: field.Tenant = None


@command("DELETE /conversations/{name}", "operator", about={"name": Subject.CONVERSATION}, repeats=True)
class DeleteConversation(Command[None], frozen=True):
    """Delete a conversation and all its messages permanently. The histories of its runs stay. Refused while the agent is at
    work."""

    name: field.ConversationName
    tenant: field.Tenant = None


@command("POST /state", "operator", names=("space",))
class WriteSharedValue(Command[None], frozen=True, kw_only=True):
    """Write a new version of a shared value, which runs and agents of the tenant can read. Steps that wait for it continue."""

    space: Annotated[str, doc("Space of the shared value, 1 to 200 characters; it must not begin with `!`.")]
    key: Annotated[str, doc("Key of the shared value in its space, 1 to 200 characters.")]
    value: Annotated[Any, doc("Value: JSON data of at most 64 KiB.")] = None
    expected_version: Annotated[
        int | None, doc("Version to replace, 0 for none; if another is current, nothing is written. By default any version.")
    ] = None
    tenant: field.Tenant = None


@command("POST /state/forget", "operator", names=("space",), repeats=True)
class ForgetCachedAnswer(Command[None], frozen=True):
    """Remove an answer from a semantic cache. The next question of the same meaning is answered by the model."""

    space: Annotated[
        str, doc("Space of the cached answer, which begins with `!cache/`, as events of the runs that used it name it.")
    ]
    key: Annotated[str, doc("Key of the cached answer in its space.")]
    tenant: field.Tenant = None


@command("POST /keys", "admin", about={"name": Subject.KEY}, makes="name", creates=True, keeps=False)
class MakeKey(Command["view.NewKeyRow"], frozen=True, kw_only=True):
    """Create an API key for a service. Its secret is shown only once; the store keeps its hash."""

    name: Annotated[
        str, doc("Name of the key, for good: 1 to 64 of a-z, 0-9, `_`, `.` and `-`, beginning with a letter or digit.")
    ]
    tenant: Annotated[
        str | None, doc("Tenant for which the key acts; by default the caller's own, or all for a caller that acts for all.")
    ] = None
    may: Annotated[
        tuple[Grant, ...], doc("Grants of the key: viewer, operator, reviewer, author or admin; at most the caller's own.")
    ] = ("viewer",)
    roles: Annotated[tuple[str, ...], doc("Roles in which the key decides gates.")] = ()
    teams: Annotated[tuple[str, ...], doc("Teams to which the key belongs.")] = ()
    workflows: Annotated[tuple[str, ...], doc("Workflows that the key reaches: names or patterns like `order*`.")] = ANY
    tools: Annotated[tuple[str, ...], doc("Tools about whose calls the key decides: names or patterns like `mail_*`.")] = ANY
    life_s: Annotated[int | None, doc("Lifetime in seconds, up to 10 years; by default the key does not expire.")] = None


@command("POST /runs/{run}/signals/{name}/link", "operator", about={"run": Subject.RUN}, creates=True, keeps=False)
class MakeLink(Command["view.NewLinkRow"], frozen=True):
    """Create a link that sends one signal to a run, once and without a token. It is shown only in this response."""

    run: field.RunId
    name: field.SignalName
    life_s: field.LinkLife = 7 * 86_400


@command("POST /gates/{gate}/link", "reviewer", about={"gate": Subject.GATE}, creates=True, keeps=False, tag="/gates/{gate}")
class MakeGateLink(Command["view.NewLinkRow"], frozen=True):
    """Create a link that decides a gate, once and without a token. It is bound to what the gate shows now, and is shown only in
    this response."""

    gate: field.GateId
    reviewer: Annotated[str, doc("Person who decides with the link, by name.")]
    roles: Annotated[tuple[str, ...], doc("Roles in which the reviewer decides.")] = ()
    life_s: field.LinkLife = 7 * 86_400


@command("POST /keys/{name}/rotate", "admin", about={"name": Subject.KEY}, keeps=False)
class RotateKey(Command["view.NewKeyRow"], frozen=True):
    """Replace the secret of an API key. The old secret stops working at once; the new one is shown only once."""

    name: field.KeyName
    tenant: field.TenantOfKey = None


@command("POST /keys/{name}/revoke", "admin", "operator", "reviewer", about={"name": Subject.KEY}, keeps=False)
class RevokeKey(Command["view.KeyRow"], frozen=True):
    """Revoke an API key, permanently and at once. A caller without the grant admin revokes only the links that it has made."""

    name: field.KeyName
    tenant: field.TenantOfKey = None


@command("POST /sessions/{session}/end", "viewer", whole=GeneralSubject.COUNTS, names=("session",))
class EndSession(Command["view.SessionRow"], frozen=True):
    """End the session of a browser at once: it has to sign in again. Another caller's requires the grant admin."""

    session: Annotated[str, doc("Id of the session.")]


@command("POST /sessions/end", "admin", names=("name",))
class EndSessions(Command["view.SessionsEndedRow"], frozen=True, kw_only=True):
    """End all sessions of a person, token or key at once. The token or key stays valid: revoke a key to end that too."""

    name: Annotated[str, doc("Name of the person, token or key.")]
    tenant: field.OfTenant = None
