"""Queries, as data, with pages. `cursor` is the end of the page before; a list goes on after that row, so rows that arrive
meanwhile do no harm.

Never here: finding the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec

from holdfast.core.facts.extra_costs import ExtraField
from holdfast.core.nouns.memory import Kind
from holdfast.core.values.actor import Asked
from holdfast.core.values.proposal import RiskLevel
from holdfast.core.values.scopes import Period
from holdfast.core.views.notifications import DeliveryState
from holdfast.core.views.selection import GateOrder, LetterSelection, Selection
from holdfast.service.declarations import field
from holdfast.service.declarations.declaration import GeneralSubject, ListQuery, Query, Rows, Subject, query
from holdfast.service.doc import doc

if TYPE_CHECKING:  # answers are named in quotes
    from holdfast.service import view  # noqa: F401

View: TypeAlias = dict[str, Any] | Any
"""A row, as --json prints it: a typed dict of service.view, or the same as a server has sent it."""

CostKind: TypeAlias = Literal["total", "month", "day", "hour", "tenant", "team", "workflow", "node", "model"]

USUAL: Final = 100
MOST: Final = 1_000
"""Rows of a page."""
Page: TypeAlias = Rows[Any]
"""Rows of any list."""


@query(("GET /runs", "GET /runs/{parent}/children"), "viewer", rows="workflow")
class Runs(ListQuery["view.RunRow"], Selection, frozen=True, kw_only=True):
    """List runs, newest first."""

    status: Annotated[tuple[field.RunStatus, ...], doc("Only runs with one of these statuses; by default any.")] = ()
    in_doubt: Annotated[bool, doc("True to list only runs with money in doubt: model calls whose cost is unknown.")] = False
    parent: Annotated[str | None, doc("Only children of this run, by its id.")] = None
    prefix: Annotated[str | None, doc("Only runs whose id begins with this.")] = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /runs/labels", "viewer", rows="workflow")
class RunLabels(ListQuery["view.LabelRow"], frozen=True, kw_only=True):
    """Count the newest 50,000 runs by label, workflow and status."""

    key: Annotated[str | None, doc("Only labels with this key.")] = None
    tenant: field.OfTenant = None
    workflow: field.OfWorkflow = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /runs/{run}", "viewer", about={"run": Subject.RUN})
class Run(Query["view.RunWhole"], frozen=True):
    """Show a run with its steps, effects, budget and scores."""

    run: field.RunId


@query("GET /runs/{run}/explanation", "viewer", about={"run": Subject.RUN})
class Explanation(Query["view.ExplanationRow"], frozen=True):
    """Explain a run in sentences: what happened, what it waits for, who can end that, and what it costs."""

    run: field.RunId


@query("GET /runs/{run}/steps", "viewer", about={"run": Subject.RUN})
class Steps(ListQuery["view.StepRow"], frozen=True):
    """List the latest visit of each node of a run, in the order in which they began."""

    run: field.RunId


@query("GET /runs/{run}/operations", "viewer", about={"run": Subject.RUN})
class Operations(ListQuery["view.OperationRow"], frozen=True, kw_only=True):
    """List the operations of a run, in the order in which they began: calls, questions, waits and recorded functions."""

    run: field.RunId
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /runs/{run}/attempts", "viewer", about={"run": Subject.RUN})
class Attempts(ListQuery["view.AttemptRow"], frozen=True, kw_only=True):
    """List the attempts of a run's steps, in the order in which they began, lost ones too."""

    run: field.RunId
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /runs/{run}/calls", "viewer", about={"run": Subject.RUN})
class ModelCalls(ListQuery["view.ModelCallRow"], frozen=True, kw_only=True):
    """List the model calls of a run, in their order: what was asked, as far as it is kept, and what came back."""

    run: field.RunId
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /runs/{run}/costs", "viewer", about={"run": Subject.RUN})
class RunCosts(ListQuery["view.NodeCostRow"], frozen=True):
    """List what a run's calls have cost so far, by node."""

    run: field.RunId


@query("GET /runs/{run}/budget", "viewer", about={"run": Subject.RUN})
class RunBudget(Query["view.RunBudgetRow"], frozen=True):
    """Show the budget of a run, with its model calls whose cost is unknown."""

    run: field.RunId


@query("GET /runs/{run}/spending", "viewer", about={"run": Subject.RUN})
class Spending(ListQuery["view.SpendingRow"], frozen=True, kw_only=True):
    """List what a run has spent, holds and has in doubt over time: a row after each change."""

    run: field.RunId
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /runs/{run}/graph", "viewer", about={"run": Subject.RUN})
class Drawing(Query["view.DrawingRow"], frozen=True):
    """Show the graph of a run: its nodes with status and cost, and its edges, taken or not."""

    run: field.RunId


@query("GET /runs/{run}/trace", "viewer", about={"run": Subject.RUN})
class Trace(ListQuery["view.TraceRow"], frozen=True, kw_only=True):
    """List trace events of a run: what happened at each node, how long it took and what it cost, without data."""

    run: field.RunId
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /runs/{run}/spans", "viewer", about={"run": Subject.RUN})
class Spans(ListQuery["view.SpanRow"], frozen=True, kw_only=True):
    """List the spans of a run in the order in which they ended: what took time, within what. Open ones come last."""

    run: field.RunId
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /runs/{run}/logs", "viewer", about={"run": Subject.RUN})
class Logs(ListQuery["view.LogRow"], frozen=True, kw_only=True):
    """List the kept output of a run's jobs, in pieces, by job and attempt."""

    run: field.RunId
    job: Annotated[
        str | None, doc("Only this job, by its id; that of a matrix job includes its combination, `greet (Ada)`.")
    ] = None
    attempt: Annotated[int | None, doc("Only this attempt, counted from 1.")] = None
    first_byte: Annotated[int | None, doc("Only the piece that begins at this byte of the attempt's output.")] = None
    text: Annotated[bool, doc("False to leave out the text and only list how many bytes each piece has.")] = True


@query("GET /runs/{run}/scores", "viewer", about={"run": Subject.RUN})
class Scores(ListQuery["view.ScoreRow"], frozen=True):
    """List the scores of a run: the latest of each name and author."""

    run: field.RunId
    all: Annotated[bool, doc("True to list every score, in the order in which they were given.")] = False


@query("GET /scores", "viewer", rows="workflow")
class ScoreMeans(ListQuery["view.ScoreMeanRow"], frozen=True, kw_only=True):
    """List mean scores of runs by version of their workflow and name of the score. The latest score of each author counts. The
    list has one page."""

    tenant: field.OfTenant = None
    name: Annotated[str | None, doc("Only scores of this name.")] = None
    workflow: field.OfWorkflow = None
    since_ms: Annotated[int, doc("Only scores given at this time or later, in Unix milliseconds.")] = 0
    limit: field.Limit = USUAL


@query("GET /evals", "viewer", rows="workflow")
class Evaluations(ListQuery["view.EvaluationRow"], frozen=True, kw_only=True):
    """List saved results of evaluation suites, as `holdfast eval --keep` saves them, newest first."""

    tenant: field.OfTenant = None
    workflow: field.OfWorkflow = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /evals/versions", "viewer", rows="workflow")
class EvaluationVersions(ListQuery["view.EvaluationVersionRow"], frozen=True, kw_only=True):
    """List the results of evaluation suites by version of their workflow, of the latest 1,000 results, the highest version
    first. The list has one page."""

    tenant: field.OfTenant = None
    workflow: field.OfWorkflow = None
    suite: Annotated[str | None, doc("Only this suite, by its file as it was named.")] = None
    limit: field.Limit = USUAL


@query("GET /evals/{evaluation}", "viewer", about={"evaluation": Subject.EVALUATION})
class Evaluation(Query["view.EvaluationWhole"], frozen=True):
    """Show the saved result of an evaluation suite, with each of its runs."""

    evaluation: Annotated[str, doc("Id of the evaluation.")]


@query("GET /gates/{gate}", "viewer", about={"gate": Subject.GATE})
class Gate(Query["view.GateWhole"], frozen=True):
    """Show a gate: what it asks, whom it asks, what it shows, and its decision."""

    gate: field.GateId


@query("GET /gates", "viewer", about={"run": Subject.RUN}, rows="workflow", beyond="below")
class Gates(ListQuery["view.GateRow"], frozen=True, kw_only=True):
    """List gates: open ones, or every one."""

    run: field.OfRun = None
    below: Annotated[bool, doc("With `run`: true to list the gates of its child runs too, at any depth.")] = False
    tenant: field.OfTenant = None
    all: Annotated[bool, doc("True to list decided, expired and withdrawn gates too.")] = False
    asks: Annotated[
        tuple[Asked, ...],
        doc("Only gates that ask the caller by name (`me`), a role or team of theirs (`team`), or `anyone`; by default any."),
    ] = ()
    order: Annotated[
        GateOrder,
        doc("`opened`: oldest first. `due`: by deadline. `closed`: only those that are no longer open, closed last first."),
    ] = "opened"
    risk_level: Annotated[tuple[RiskLevel, ...], doc("Only gates with one of these risk levels; by default any.")] = ()
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /effects", "viewer", about={"run": Subject.RUN}, rows="run_id")
class Effects(ListQuery["view.EffectRow"], frozen=True, kw_only=True):
    """List tool calls, oldest first, with their requests and responses."""

    run: field.OfRun = None
    tenant: field.OfTenant = None
    state: Annotated[
        field.EffectState | None,
        doc("Only calls in this state: intended, completed, failed, released, in_doubt, repeated or orphaned."),
    ] = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /runs/{run}/events", "viewer", about={"run": Subject.RUN})
class Events(ListQuery["view.EventRow"], frozen=True, kw_only=True):
    """List the events of a run, from its beginning."""

    run: field.RunId
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /runs/{run}/events/{seq}", "viewer", about={"run": Subject.RUN})
class Event(Query["view.EventRow"], frozen=True):
    """Show an event of a run with all of its data, also what is too large for a list."""

    run: field.RunId
    seq: Annotated[int, doc("Number of the event in the run; the first has 1.")]


@query("POST /runs/{run}/quote", "viewer", about={"run": Subject.RUN})
class RunQuote(Query["view.RunQuoteRow"], frozen=True, kw_only=True):
    """Show what a command would do to a run, without doing it: the engine decides about it and stores nothing. Of a fork, show
    what it would keep, reuse and do again, and the most it can cost."""

    run: field.RunId
    action: Annotated[field.RunAction, doc("Command to preview.")]
    fields: Annotated[
        dict[str, Any], doc("Fields of the command, as the body of its own route takes them, like `limit` and `value`.")
    ] = msgspec.field(default_factory=dict)


@query("GET /runs/{run}/comparison", "viewer", about={"run": Subject.RUN, "other": Subject.RUN})
class Comparison(Query["view.ComparisonRow"], frozen=True):
    """Compare two runs: their nodes and operations beside one another, and other differences."""

    run: field.RunId
    other: Annotated[str, doc("Id of the run to compare with, like a fork.")]


@query("GET /runs/{run}/tree", "viewer", about={"run": Subject.RUN}, runs="runs")
class Tree(Query["view.TreeRow"], frozen=True, kw_only=True):
    """Show a run with everything below it: the status of each run, and what all of them have cost."""

    run: field.RunId


@query("GET /runs/{run}/items", "viewer", about={"run": Subject.RUN})
class Items(ListQuery["view.ItemRow"], frozen=True, kw_only=True):
    """List the ended items of a map, in the order in which they ended."""

    run: field.RunId
    map: Annotated[str, doc("Map, by the name of its node, `review`, or in a flow with its place, `flow/2`.")]
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /runs/{run}/stream", "viewer", about={"run": Subject.RUN})
class Streams(ListQuery["view.StreamRow"], frozen=True, kw_only=True):
    """List what models say in a run, and what user code writes to streams. The list goes on until the run has ended."""

    run: field.RunId
    name: Annotated[
        str | None, doc("Only this stream, `model` for what models say, or one model call, like `draft#1:0:1`.")
    ] = None
    wait_s: Annotated[float, doc("Maximum time to wait for a first row when there is none yet, in seconds, 0 to 30.")] = 0.0
    cursor: Annotated[
        str | None,
        doc("Cursor, `start` or `now`. With `name` also a number: of the first value or character; -5 is the last 5 values."),
    ] = None
    limit: field.Limit = USUAL


@query("GET /dead-letters", "viewer", about={"run": Subject.RUN}, rows="workflow")
class DeadLetters(ListQuery["view.DeadLetterRow"], LetterSelection, frozen=True, kw_only=True):
    """List dead letters: steps that failed permanently. The oldest run's come first."""

    state: Annotated[
        Literal["open", "resolved", "any"], doc("Only open dead letters, only resolved ones (listed for three days), or any.")
    ] = "open"
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /dead-letters/{letter}", "viewer", about={"letter": Subject.LETTER})
class DeadLetter(Query["view.DeadLetterWhole"], frozen=True):
    """Show a dead letter with all its details."""

    letter: field.LetterId


@query("GET /dead-letters/summary", "viewer", rows="workflow")
class DeadLetterSummary(ListQuery["view.DeadLetterCountRow"], frozen=True):
    """Count dead letters by workflow, node and error class, with the age of the oldest open one."""

    tenant: field.OfTenant = None


@query("GET /costs", "viewer", rows="workflow")
class Costs(ListQuery["view.CostRow"], frozen=True, kw_only=True):
    """List what models cost, by day, tenant, workflow, node and model."""

    first_day: Annotated[str, doc("First day (UTC), inclusive, like `2026-11-21`; by default the earliest.")] = "0000-01-01"
    last_day: Annotated[str, doc("Last day (UTC), inclusive, like `2026-11-21`; by default the latest.")] = "9999-12-31"
    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /costs/summary", "viewer", whole=GeneralSubject.ROWS)
class CostSummary(ListQuery["view.CostSummaryRow"], frozen=True, kw_only=True):
    """Sum up the costs of models by any of month, day, hour, tenant, team, workflow, node and model. Only workflows that you
    may read count."""

    by: Annotated[
        tuple[CostKind, ...],
        doc("Fields to sum up by, each with a row per value; by default the day. `total` alone is one row of everything."),
    ] = ("day",)
    first_day: Annotated[str, doc("First day (UTC), inclusive, like `2026-11-21`; by default the earliest.")] = "0000-01-01"
    last_day: Annotated[str, doc("Last day (UTC), inclusive, like `2026-11-21`; by default the latest.")] = "9999-12-31"
    tenant: field.OfTenant = None
    team: Annotated[str | None, doc("Only runs that count in budgets of this team.")] = None
    top: Annotated[
        int | None, doc("Only so many rows of each time, the largest in all, 1 to 100; the others are one row, the `rest`.")
    ] = None
    order: Annotated[Literal["name", "cost"], doc("By times and names, or the largest first and the rest last.")] = "name"
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /costs/runs", "viewer", rows="workflow")
class CostliestRuns(ListQuery["view.RunCostRow"], frozen=True, kw_only=True):
    """List the runs that have cost the most, the most expensive first. What child runs cost is theirs."""

    first_day: Annotated[str, doc("First day (UTC) on which the runs began, like `2026-11-21`.")] = "0000-01-01"
    last_day: Annotated[str, doc("Last day (UTC) on which they began, like `2026-11-21`.")] = "9999-12-31"
    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = 20


@query("GET /costs/labels", "viewer", whole=GeneralSubject.ROWS)
class LabelCosts(ListQuery["view.LabelCostRow"], frozen=True, kw_only=True):
    """Sum up what runs have cost by their tags, or by the values of a label. A run with two tags counts for both."""

    key: Annotated[str, doc("Key of the label; by default the tags.")] = ""
    first_day: Annotated[str, doc("First day (UTC) on which the runs began, like `2026-11-21`.")] = "0000-01-01"
    last_day: Annotated[str, doc("Last day (UTC) on which they began, like `2026-11-21`.")] = "9999-12-31"
    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /costs/extra", "viewer", whole=GeneralSubject.ROWS)
class ExtraCosts(ListQuery["view.ExtraCostRow"], frozen=True, kw_only=True):
    """Sum up what retries, lost replies and misses of caches have cost, and what hits of semantic caches have saved."""

    by: Annotated[tuple[ExtraField, ...], doc("Fields to sum up by, beside the cause.")] = ()
    first_day: Annotated[str, doc("First day (UTC), inclusive, like `2026-11-21`; by default the earliest.")] = "0000-01-01"
    last_day: Annotated[str, doc("Last day (UTC), inclusive, like `2026-11-21`; by default the latest.")] = "9999-12-31"
    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /costs/forecast", "viewer")
class CostForecast(ListQuery["view.ForecastRow"], frozen=True, kw_only=True):
    """List the limits of tenants and teams with what their current day or month is expected to use, and when each is reached.
    A day is expected to use what the same weekday of the last 28 days used on average."""

    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /doubts", "viewer", about={"run": Subject.RUN}, rows="workflow")
class Doubts(ListQuery["view.DoubtRow"], frozen=True, kw_only=True):
    """List model calls whose cost is unknown, the newest run's first. A page may exceed the limit, to end with all calls of a
    run."""

    run: field.OfRun = None
    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /conversations", "viewer", rows="agent")
class Conversations(ListQuery["view.ConversationRow"], frozen=True, kw_only=True):
    """List conversations by tenant and name."""

    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /conversations/{name}", "viewer", about={"name": Subject.CONVERSATION})
class Conversation(Query["view.ConversationWhole"], frozen=True):
    """Show a conversation with all its messages."""

    name: field.ConversationName
    tenant: field.Tenant = None


@query("GET /schedules", "viewer", rows="workflow")
class Schedules(ListQuery["view.ScheduleRow"], frozen=True, kw_only=True):
    """List schedules by tenant and name."""

    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /schedules/{name}", "viewer", about={"name": Subject.SCHEDULE})
class Schedule(Query["view.ScheduleRow"], frozen=True):
    """Show a schedule, with its next times and the status of its last run."""

    name: field.ScheduleName
    tenant: field.Tenant = None


@query("GET /notifications/rules", "viewer")
class NotificationRules(ListQuery["view.NotificationRuleRow"], frozen=True, kw_only=True):
    """List notification rules by tenant and name: those that were set, and those of the server's settings. A caller that acts
    for one tenant gets those of the tenant."""

    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /notifications/rules/{name}", "viewer")
class NotificationRule(Query["view.NotificationRuleRow"], frozen=True):
    """Show a notification rule. A caller that acts for all tenants and names none gets the rule of the settings, if one has
    that name."""

    name: field.RuleName
    tenant: field.Tenant = None


@query("GET /notifications/deliveries", "viewer")
class Deliveries(ListQuery["view.DeliveryRow"], frozen=True, kw_only=True):
    """List deliveries: messages on their way to channels, the latest first. Sent ones are listed for a week, dead ones for 30
    days."""

    run: field.OfRun = None
    channel: Annotated[str | None, doc("Only messages of this channel.")] = None
    state: Annotated[DeliveryState | None, doc("Only messages in this state: `waiting`, `sent` or `dead`.")] = None
    prefix: Annotated[str | None, doc("Only deliveries whose id begins with this.")] = None
    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /notifications/deliveries/{delivery}", "viewer", about={"delivery": Subject.DELIVERY})
class Delivery(Query["view.DeliveryWhole"], frozen=True):
    """Show a delivery with its message."""

    delivery: field.DeliveryId


@query("GET /notifications/channels", "viewer", whole=GeneralSubject.COUNTS)
class Channels(ListQuery["view.ChannelRow"], frozen=True):
    """List channels by name, with how many messages were sent, failed and wait. A caller that acts for one tenant gets the
    channels that the tenant may use, without figures."""


@query("GET /state", "viewer")
class SharedValues(ListQuery["view.SharedValueRow"], frozen=True, kw_only=True):
    """List the latest versions of shared values by tenant, space and key."""

    space: Annotated[str | None, doc("Only values of this space.")] = None
    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /state/{space}/{key}", "viewer")
class SharedVersions(ListQuery["view.SharedValueRow"], frozen=True):
    """List all kept versions of a shared value, the latest last."""

    space: Annotated[str, doc("Space of the shared value.")]
    key: Annotated[str, doc("Key of the shared value in its space.")]
    tenant: field.Tenant = None


@query("GET /memory", "viewer")
class Memories(ListQuery["view.MemoryRow"], frozen=True, kw_only=True):
    """List what an agent remembers, the most relevant first. Reading does not count as use. The list has one page."""

    agent: Annotated[str, doc("Name of the agent, 1 to 64 characters.")]
    user: Annotated[str | None, doc("Only memories about this user, 1 to 64 characters; by default those about no user.")] = (
        None
    )
    words: Annotated[str | None, doc("Only memories with any of these words, the best match first.")] = None
    kind: Annotated[tuple[Kind, ...], doc("Only memories of these kinds; by default any.")] = ()
    tenant: field.Tenant = None
    limit: field.Limit = USUAL


@query("GET /pools", "viewer", whole=GeneralSubject.COUNTS)
class Pools(ListQuery["view.PoolRow"], frozen=True):
    """List pools by name."""


@query("GET /pools/{name}", "viewer", whole=GeneralSubject.COUNTS)
class Pool(Query["view.PoolWhole"], frozen=True):
    """Show a pool, with how much of it each process holds."""

    name: field.PoolName


@query("GET /budgets", "viewer")
class Budget(Query["view.BudgetRow"], frozen=True):
    """Show what a tenant or team has spent today and this month (UTC), and its limits."""

    tenant: Annotated[str, doc("Tenant whose budget is shown.")]
    team: field.TeamOfBudget = None


@query("GET /budgets/limits", "viewer")
class BudgetLimits(ListQuery["view.BudgetLimitRow"], frozen=True, kw_only=True):
    """List the limits on what tenants and teams may spend in each day or month (UTC), with the use of the current one."""

    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /budgets/days", "viewer")
class BudgetDays(ListQuery["view.BudgetDayRow"], frozen=True, kw_only=True):
    """List what a tenant or team has spent on each day (UTC) up to today, the oldest first. The list has one page."""

    tenant: Annotated[str, doc("Tenant whose budget is shown.")]
    team: field.TeamOfBudget = None
    days: Annotated[int, doc("Number of days, 1 to 366.")] = 30


@query("GET /budgets/burn-down", "viewer")
class BurnDown(ListQuery["view.BurnDownRow"], frozen=True, kw_only=True):
    """List spending and the rest of the limit of a tenant or team by hour (today, UTC) or by day (this month). The list has
    one page."""

    tenant: Annotated[str, doc("Tenant whose budget is shown.")]
    team: field.TeamOfBudget = None
    period: Annotated[Period, doc("Period of the limit, in UTC: `day` by hour, `month` by day.")] = "day"


@query("GET /team-budgets", "viewer")
class TeamBudgets(ListQuery["view.TeamBudgetRow"], frozen=True, kw_only=True):
    """List the team budgets of a tenant by name."""

    tenant: field.Tenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /team-budgets/{name}", "viewer")
class TeamBudget(Query["view.TeamBudgetWhole"], frozen=True):
    """Show a team budget with each of its agents."""

    name: field.TeamBudgetName
    tenant: field.Tenant = None


@query("GET /approvals", "viewer", rows="workflow")
class Approvals(ListQuery["view.ApprovalRow"], frozen=True, kw_only=True):
    """List the standing approvals of a tenant by id, including those that are expired, used up or revoked."""

    tenant: field.Tenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /approvals/{approval}", "viewer", about={"approval": Subject.APPROVAL})
class Approval(Query["view.ApprovalRow"], frozen=True):
    """Show a standing approval, also one that is expired, used up or revoked."""

    approval: field.ApprovalId
    tenant: field.Tenant = None


@query("GET /supervisors", "viewer", rows="workflows")
class Supervisors(ListQuery["view.SupervisorRow"], frozen=True, kw_only=True):
    """List supervisors by tenant and name, with their load."""

    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /supervisors/{name}", "viewer", about={"name": Subject.SUPERVISOR})
class Supervisor(Query["view.SupervisorWhole"], frozen=True):
    """Show a supervisor with each of its workers."""

    name: field.SupervisorName
    tenant: field.Tenant = None


@query("GET /admission", "viewer", whole=GeneralSubject.COUNTS)
class Admission(Query["view.AdmissionRow"], frozen=True):
    """Show how many runs are active and how many may be, for one tenant or for all together."""

    tenant: Annotated[
        str | None, doc("Tenant to show; by default the caller's own, or all together for a caller that acts for all tenants.")
    ] = None


@query("GET /workflows", "viewer", rows="workflow", offers=True)
class Workflows(ListQuery["view.WorkflowRow"], frozen=True, kw_only=True):
    """List workflows that a process has loaded or the tenant has submitted, by name, the highest version first. Each row says
    how many live processes can run it."""

    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /workflows/{name}", "viewer", about={"name": Subject.WORKFLOW})
class Workflow(Query["view.WorkflowWhole"], frozen=True):
    """Show a workflow with its definition and input schema, and how many live processes can run it."""

    name: Annotated[str, doc("Name of the workflow.")]
    version: Annotated[int | None, doc("Version of the workflow; by default the highest.")] = None


@query("GET /queue", "viewer", about={"run": Subject.RUN}, rows="workflow")
class Queue(ListQuery["view.QueueRow | view.QueueReasonRow"], frozen=True):
    """List steps that wait for a slot, a worker or a pool, longest first; or why the steps of one run wait."""

    run: Annotated[str | None, doc("Only steps of this run, by its id, each with the reason why it waits.")] = None
    step: Annotated[str | None, doc("Only this step of the run, like `draft#1`; with `run`.")] = None
    demands: Annotated[str | None, doc("Only steps that ask for this, in the words of their rows: `label gpu`.")] = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /queue/summary", "viewer", whole=GeneralSubject.ROWS)
class QueueSummary(ListQuery["view.QueueCountRow"], frozen=True, kw_only=True):
    """Count the steps that wait for a slot, a worker or a pool, by their request. Only workflows that you may read count. The
    largest count comes first."""

    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /search", "viewer", rows="workflow")
class Search(ListQuery["view.SearchRow"], frozen=True, kw_only=True):
    """Find what an id names: a run, step, event, gate, call or dead letter; or else what has a text in its name. The list has
    one page."""

    q: Annotated[str, doc("Id, beginning of a run's id, or text in the name of a run, conversation, schedule or workflow.")]
    tenant: field.OfTenant = None
    limit: field.Limit = 20


START: Final = "start"
NOW: Final = "now"


@query("GET /events", "viewer", rows="workflow", ends=False)
class Tail(ListQuery["view.TailRow"], frozen=True, kw_only=True):
    """List the committed events of all runs, each once, in order within a run. Each event has the cursor after it. The list
    never ends, unless you pass `ends`."""

    tenant: field.OfTenant = None
    workflow: field.OfWorkflow = None
    ends: Annotated[bool, doc("True to end the list when it has reached the newest event.")] = False
    cursor: Annotated[
        str, doc("Cursor to go on after; `start` is before the oldest known event, `now` is after the newest one.")
    ] = START
    limit: field.Limit = USUAL


@query("GET /workers", "viewer", whole=GeneralSubject.COUNTS)
class Workers(ListQuery["view.WorkerRow | view.WorkerCountRow"], frozen=True):
    """List processes that execute steps, with their workflows and slots: live ones, then those that were lost in the last hour.
    A caller that acts for one tenant gets only totals of the live ones, in one row."""


@query("GET /keys", "admin", rows="workflows", reach=True)
class Keys(ListQuery["view.KeyRow"], frozen=True, kw_only=True):
    """List API keys by name, including revoked ones, without their secrets."""

    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /sessions", "viewer", whole=GeneralSubject.COUNTS, also={"name": "admin"})
class Sessions(ListQuery["view.SessionRow"], frozen=True, kw_only=True):
    """List the sessions of browsers that are signed in, the last begun first: the caller's own, or those of others."""

    name: Annotated[
        str | None,
        doc("Only sessions of this person, token or key, or `*` for all; requires admin. By default the caller's own."),
    ] = None
    tenant: field.OfTenant = None
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /audit", "admin")
class Audit(ListQuery["view.AuditRow"], frozen=True, kw_only=True):
    """List the audit log: who did what from outside, from where and with what result. Each entry is chained to the one
    before."""

    tenant: field.OfTenant = None
    name: Annotated[str | None, doc("Only entries of this person or program, or of the token or key of this name.")] = None
    action: Annotated[tuple[str, ...], doc("Only entries of these commands, like `Decide`; by default any.")] = ()
    about: Annotated[
        str | None,
        doc("Only entries about a thing whose id or name begins with this; a run's id finds its gates, calls and steps too."),
    ] = None
    since_ms: Annotated[int | None, doc("Only entries made at this time or later, in Unix milliseconds.")] = None
    until_ms: Annotated[int | None, doc("Only entries made before this time, in Unix milliseconds.")] = None
    order: Annotated[Literal["oldest", "newest"], doc("`oldest` or `newest` first.")] = "oldest"
    cursor: field.Cursor = None
    limit: field.Limit = USUAL


@query("GET /audit/head", "admin", whole=GeneralSubject.COUNTS)
class AuditHead(ListQuery["view.AuditHeadRow"], frozen=True):
    """Show the last entry of the audit log: its number (0 before the first), hash and signature. A caller that acts for one
    tenant gets no row."""
