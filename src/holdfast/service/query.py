"""What may be asked for a page at a time, as data. `cursor` is what the page before ended with; a list goes on after that row,
so rows that come meanwhile are no trouble.

Never here: finding the answer.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from holdfast.core.nouns.memory import Kind
from holdfast.core.values.money import Usd
from holdfast.core.values.proposal import RiskLevel
from holdfast.service.declaration import Thing, Whole, query

View: TypeAlias = dict[str, Any]
"""Plain data, as --json prints it (service.view)."""

USUAL: Final = 100
MOST: Final = 1_000
"""Rows of a page."""


class Page(NamedTuple):
    """Some rows of a list, and where it goes on; `cursor` is None at its end."""

    rows: list[View]
    cursor: str | None


@query("viewer", rows="workflow")
class Runs(Struct, frozen=True, kw_only=True):
    """Runs, newest first. Times are those of a run's start."""

    tenant: str | None = None
    workflow: str | None = None
    status: tuple[str, ...] = ()
    key: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    in_doubt: bool = False
    parent: str | None = None
    """Only those that this run has asked for."""
    prefix: str | None = None
    """How the run's id begins."""
    tag: tuple[str, ...] = ()
    """All of which they have."""
    text: str | None = None
    """Letters in their workflow's name, their key, who started them, or a tag."""
    min_cost_usd: Usd | None = None
    max_cost_usd: Usd | None = None
    """What they have spent, inclusively."""
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"run": Thing.RUN})
class Run(Struct, frozen=True):
    """A run with its steps, its effects, its books and the scores that count, in one row."""

    run: str


@query("viewer", about={"run": Thing.RUN})
class Steps(Struct, frozen=True):
    """The latest visits of a run's nodes, in the order in which they began."""

    run: str


@query("viewer", about={"run": Thing.RUN})
class RunCosts(Struct, frozen=True):
    """What the calls of a run have cost so far, by node."""

    run: str


@query("viewer", about={"run": Thing.RUN})
class RunBudget(Struct, frozen=True):
    """The books of a run, with its calls whose cost nobody knows, in one row."""

    run: str


@query("viewer", about={"run": Thing.RUN})
class Drawing(Struct, frozen=True):
    """The graph of a run in one row: its nodes, how each stands and what it has cost, and its edges, taken or not."""

    run: str


@query("viewer", about={"run": Thing.RUN})
class Trace(Struct, frozen=True, kw_only=True):
    """What happened at the nodes of a run, how long it took and what it cost, without what its data says."""

    run: str
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"run": Thing.RUN})
class Logs(Struct, frozen=True, kw_only=True):
    """What the jobs of a run have printed, as far as it is kept: by job and attempt, each piece from its first byte; or of one
    job, attempt or piece. Without `text` it is told how much there is."""

    run: str
    job: str | None = None
    attempt: int | None = None
    first_byte: int | None = None
    text: bool = True


@query("viewer", about={"run": Thing.RUN})
class Scores(Struct, frozen=True):
    """What a run was said to be worth: the latest of each name and giver, or all."""

    run: str
    all: bool = False


@query("viewer", rows="workflow")
class ScoreMeans(Struct, frozen=True, kw_only=True):
    """What runs were said to be worth, by version of their workflow, as the mean of what counts of what was given since
    `since_ms`; at most `limit` rows, all of one page."""

    tenant: str | None = None
    name: str | None = None
    workflow: str | None = None
    since_ms: int = 0
    limit: int = USUAL


@query("viewer", rows="workflow")
class Evaluations(Struct, frozen=True, kw_only=True):
    """What suites of scenarios came to, as `holdfast eval --keep` kept it, newest first."""

    tenant: str | None = None
    workflow: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"evaluation": Thing.EVALUATION})
class Evaluation(Struct, frozen=True):
    """One of them in one row, with what each of its runs missed."""

    evaluation: str


@query("viewer", about={"gate": Thing.GATE})
class Gate(Struct, frozen=True):
    """All about a gate in one row: whom it asks what, what they see, and what they decided."""

    gate: str


@query("viewer", about={"run": Thing.RUN}, rows="run_id")
class Gates(Struct, frozen=True, kw_only=True):
    """Open gates, or with `all` every one, oldest first. Those that are `mine` ask the caller, by name, role or team, or
    anybody. With `risk_level` those of one of these: low, medium, high, critical."""

    run: str | None = None
    tenant: str | None = None
    all: bool = False
    mine: bool = False
    risk_level: tuple[RiskLevel, ...] = ()
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"run": Thing.RUN}, rows="run_id")
class Effects(Struct, frozen=True, kw_only=True):
    """Calls of tools, oldest first, with their requests and responses."""

    run: str | None = None
    tenant: str | None = None
    state: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"run": Thing.RUN})
class Events(Struct, frozen=True, kw_only=True):
    """A run's history from its beginning."""

    run: str
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"run": Thing.RUN})
class ForkQuote(Struct, frozen=True, kw_only=True):
    """What a fork of a run would be, in one row: what is kept, what is reused, what is done anew, and the most it can cost."""

    run: str
    step: str
    output: Any | UnsetType = UNSET
    state: dict[str, Any] = {}
    cost_limit_usd: str | int | float | None = None


@query("viewer", about={"run": Thing.RUN})
class CancelQuote(Struct, frozen=True):
    """What cancelling a run would do, in one row: what is called off, what is in flight and may have happened, and what is
    undone, in that order."""

    run: str


@query("viewer", about={"run": Thing.RUN})
class Tree(Struct, frozen=True, kw_only=True):
    """A run with everything below it, in one row: how each of them stands, and what all of them have cost."""

    run: str


@query("viewer", about={"run": Thing.RUN})
class Items(Struct, frozen=True, kw_only=True):
    """How the items of a map (`review`; in a flow `flow/2`) have ended, in the order in which they did."""

    run: str
    map: str
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"run": Thing.RUN})
class Streams(Struct, frozen=True, kw_only=True):
    """What is said in a run while it goes on: what models say, and what user code writes. The list goes on until the run has
    ended and all is told; a page comes when there is something, or after `wait_s` (30 at most)."""

    run: str
    name: str | None = None
    """Only this stream, or this call (`draft#1:0:1`)."""
    wait_s: float = 0.0
    cursor: str | None = None
    """Also `start`, `now`, and with a name the number of the value, or of the character of the call, that comes first; a
    negative one counts the last values."""
    limit: int = USUAL


@query("viewer", about={"letter": Thing.LETTER, "run": Thing.RUN}, rows="workflow")
class DeadLetters(Struct, frozen=True, kw_only=True):
    """Steps that have failed for good, of which nobody has said what is to become, or those that are `resolved`, or any,
    the oldest run's first. Times are those of the latest failure."""

    letter: str | None = None
    """Only this one, `RUN:STEP`, with all about it."""
    run: str | None = None
    tenant: str | None = None
    workflow: str | None = None
    node: str | None = None
    error_class: str | None = None
    state: Literal["open", "resolved", "any"] = "open"
    since_ms: int | None = None
    until_ms: int | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", rows="workflow")
class DeadLetterSummary(Struct, frozen=True):
    """How many there are by workflow, node and class of error, with the age of the oldest open one."""

    tenant: str | None = None


@query("viewer", rows="workflow")
class Costs(Struct, frozen=True, kw_only=True):
    """What models cost on the days from `first_day` to `last_day` (`2026-11-21`), by day, tenant, workflow, node and model."""

    first_day: str = "0000-01-01"
    last_day: str = "9999-12-31"
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"run": Thing.RUN}, rows="workflow")
class Doubts(Struct, frozen=True, kw_only=True):
    """Model calls of which nobody knows what they cost, of the newest run first. A page ends with the calls of a whole run."""

    run: str | None = None
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"name": Thing.CONVERSATION}, rows="agent")
class Conversations(Struct, frozen=True, kw_only=True):
    """Conversations by tenant and name; or the one of that `name`, with all that was said in it."""

    name: str | None = None
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"name": Thing.SCHEDULE}, rows="workflow")
class Schedules(Struct, frozen=True, kw_only=True):
    """Schedules by tenant and name, or the one of that `name`."""

    name: str | None = None
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer")
class SharedValues(Struct, frozen=True, kw_only=True):
    """The latest versions of shared values by tenant, space and key; or, with `key`, all that are kept of one, the latest
    last."""

    space: str | None = None
    key: str | None = None
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer")
class Memories(Struct, frozen=True, kw_only=True):
    """What an agent of a tenant remembers, or of it and one `user`, the most relevant first; with `words` what has any of them,
    the likest first. Looking counts as no use."""

    agent: str
    user: str | None = None
    words: str | None = None
    kind: tuple[Kind, ...] = ()
    """Only of these."""
    tenant: str | None = None
    limit: int = USUAL


@query("viewer", whole=Whole.COUNTS)
class Pools(Struct, frozen=True):
    """The pools that steps can ask amounts of, by name."""

    name: str | None = None
    """Only this one, with who has how much of it."""


@query("viewer")
class Budget(Struct, frozen=True):
    """What a tenant, or a team of it, has spent this day and this month."""

    tenant: str
    team: str | None = None


@query("viewer")
class TeamBudgets(Struct, frozen=True, kw_only=True):
    """The team budgets of a tenant by name; or the one of that `name`, with how each agent stands."""

    name: str | None = None
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"approval": Thing.APPROVAL}, rows="workflow")
class Approvals(Struct, frozen=True, kw_only=True):
    """The standing approvals of a tenant by their ids, or that `approval`, also those that stand for nothing more."""

    approval: str | None = None
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"name": Thing.SUPERVISOR}, rows="workflows")
class Supervisors(Struct, frozen=True, kw_only=True):
    """Supervisors by tenant and name, how much they have to do; or the one of that `name`, with how its workers stand."""

    name: str | None = None
    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", whole=Whole.COUNTS)
class Admission(Struct, frozen=True):
    """How many runs of a tenant, or of all together, are active, and how many may be."""

    tenant: str | None = None


@query("viewer", about={"name": Thing.WORKFLOW}, rows="workflow")
class Workflows(Struct, frozen=True, kw_only=True):
    """The workflows whose code some process has loaded, by name, the highest version first, with how many living processes can
    run each."""

    name: str | None = None
    """Only this one, in `version` or the highest, with its definition and what its input must fit."""
    version: int | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("viewer", about={"run": Thing.RUN}, rows="workflow")
class Queue(Struct, frozen=True):
    """The steps that wait for a worker or a pool, longest first; with `run` why those of one run do. Who acts for a tenant sees
    its own, and of each how many are `ahead`."""

    run: str | None = None
    step: str | None = None


START: Final = "start"
NOW: Final = "now"


@query("viewer", rows="workflow")
class Tail(Struct, frozen=True, kw_only=True):
    """Every committed event of all runs, once, in order within a run; each has the cursor after it. The list goes on for ever,
    or with `ends` until there is nothing more now: `start` is the oldest event that is known, `now` the end."""

    tenant: str | None = None
    workflow: str | None = None
    ends: bool = False
    cursor: str = START
    limit: int = USUAL


@query("viewer", whole=Whole.COUNTS)
class Workers(Struct, frozen=True):
    """The living processes that execute steps: what they can run, how many slots they have, how many are free. Who acts for a
    tenant is told their number and slots, in one row."""


@query("admin", rows="workflows", reach=True)
class Keys(Struct, frozen=True, kw_only=True):
    """The keys of services, by name, also those that were taken back; of none what it is."""

    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("admin")
class Audit(Struct, frozen=True, kw_only=True):
    """What was done from outside, by whom, from where and with what result, in its order, each chained to the one before."""

    tenant: str | None = None
    cursor: str | None = None
    limit: int = USUAL


@query("admin", whole=Whole.COUNTS)
class AuditHead(Struct, frozen=True):
    """Which entry of the audit log is the last, with its hash and its signature if it has one; number 0 before the first.
    No row for a caller who acts for a tenant, who sees only some of them."""


Query: TypeAlias = (
    Run
    | Runs
    | Steps
    | RunCosts
    | RunBudget
    | Drawing
    | Trace
    | Logs
    | Scores
    | ScoreMeans
    | Gate
    | Gates
    | Effects
    | Events
    | Evaluations
    | Evaluation
    | Streams
    | ForkQuote
    | CancelQuote
    | Items
    | Tree
    | DeadLetters
    | DeadLetterSummary
    | Costs
    | Doubts
    | Schedules
    | Conversations
    | SharedValues
    | Memories
    | Pools
    | Budget
    | Admission
    | Workflows
    | Queue
    | Tail
    | Workers
    | Keys
    | Audit
    | AuditHead
    | TeamBudgets
    | Approvals
    | Supervisors
)
