"""What may be told, as data. A transport makes one of its own fields; `Service.tell` does it.

Amounts of money are dollars (`"0.25"`), data is what JSON can say. Never here: what follows.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from holdfast.core.capacity.lending import Counted
from holdfast.core.nouns.conversations import OnBusy
from holdfast.core.nouns.schedules import Overlap
from holdfast.core.nouns.team_budgets import TeamAgent
from holdfast.core.nouns.tool_policy import When
from holdfast.core.values.access import ANY, Grant
from holdfast.core.values.money import Usd
from holdfast.core.values.policies import OnLimit
from holdfast.core.values.scopes import Period
from holdfast.service.declaration import Thing, Whole, command

_MOST_TOGETHER: Final = 1_000
_MOST_CONDITIONS: Final = 100
"""Each is looked at with each call of such a tool."""


@command("operator", about={"workflow": Thing.WORKFLOW}, also={"yaml": "author"}, key="key")
class Start(Struct, frozen=True, kw_only=True):
    """Start a run: of the workflow of that name (the highest version, unless `version` says), or of the workflow file whose
    text `yaml` is. The same `key` again is the same run. With `queue` it waits for a place where there is none."""

    workflow: str = ""
    version: int = 0
    yaml: str = ""
    input: Any = None
    tenant: str | None = None
    team: str | None = None
    key: str | None = None
    cost_limit_usd: Usd | None = None
    queue: bool = False
    max_tokens: int | None = None
    max_model_calls: int | None = None
    max_tool_calls: int | None = None
    max_wall_s: float | None = None
    on_limit: OnLimit | None = None
    team_budget: str | None = None
    agent: str | None = None
    tags: tuple[str, ...] = ()


@command("operator", about={"run": Thing.RUN}, key="key")
class Fork(Struct, frozen=True, kw_only=True):
    """Start a run that has the history of `run` before `step`: `draft#2`, or in a flow the operation at a place, `flow#1/3`.
    What it asks for as that run did takes the outcome that it had; see `Engine.fork`."""

    run: str
    step: str
    input: Any | UnsetType = UNSET
    output: Any | UnsetType = UNSET
    state: dict[str, Any] = {}
    repeat_effects: bool = False
    cost_limit_usd: Usd | None = None
    key: str | None = None
    queue: bool = False


@command("operator", about={"run": Thing.RUN}, repeats=True)
class Pause(Struct, frozen=True):
    """What has begun may finish, nothing new begins."""

    run: str


@command("operator", about={"run": Thing.RUN}, repeats=True)
class Resume(Struct, frozen=True):
    """Let a paused run go on."""

    run: str


@command("operator", about={"run": Thing.FAILED})
class Retry(Struct, frozen=True):
    """Take up a failed run where it failed."""

    run: str


@command("operator", about={"run": Thing.RUN}, repeats=True)
class Cancel(Struct, frozen=True):
    """Nothing new begins, a flow cleans up, what the run did is compensated, then it ends. Cancelled again, the clean-up is cut
    short."""

    run: str
    reason: str = "cancelled"


@command("operator", about={"run": Thing.RUN}, repeats=True)
class Migrate(Struct, frozen=True):
    """Have a run go on with the definition of its workflow that the store knows now, of its highest version or of this one."""

    run: str
    version: int = 0


@command("operator", about={"run": Thing.RUN})
class ExportRun(Struct, frozen=True):
    """The record of a run that has ended, for `holdfast replay`, as far as the server's setting `exports` lets it leave:
    personal data is replaced, also the whole values of the fields that `redact` names; with `whole` nothing is."""

    run: str
    redact: tuple[str, ...] = ()
    whole: bool = False


@command("operator", about={"letter": Thing.LETTER}, repeats=True)
class EditDeadLetter(Struct, frozen=True):
    """Give a run another input, or the call of a tool that failed other arguments, for its step that has failed for good
    (`RUN:STEP`) to be tried again with."""

    letter: str
    input: Any | UnsetType = UNSET
    arguments: Any | UnsetType = UNSET


@command("operator", about={"letter": Thing.LETTER})
class ReplayDeadLetter(Struct, frozen=True):
    """Try a step that has failed for good again; in a run that has failed, all that failed."""

    letter: str


@command("operator", about={"letter": Thing.LETTER}, repeats=True)
class ResolveDeadLetter(Struct, frozen=True):
    """Say what is to become of a step that has failed for good: this output, the failure of a run that waits for the answer, or
    nothing more."""

    letter: str
    output: Any | UnsetType = UNSET
    reason: str | None = None


@command("operator", about={"workflow": Thing.RUNS}, any_tool={"deed": ("retry",)})
class Bulk(Struct, frozen=True, kw_only=True):
    """Do the same to all runs that are found, newest first; with `dry_run` only say what would become of it.
    `Service.tell_many` does it, a page at a time. Times are those of a run's start; `step` says from where runs are forked.
    Said again it forks nothing twice, unless under another `fork_key`."""

    deed: Literal["retry", "cancel", "pause", "resume", "fork"]
    step: str | None = None
    fork_key: str | None = None
    reason: str = "cancelled"
    repeat_effects: bool = False
    tenant: str | None = None
    workflow: str | None = None
    status: tuple[str, ...] = ()
    key: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    tag: tuple[str, ...] = ()
    text: str | None = None
    min_cost_usd: Usd | None = None
    max_cost_usd: Usd | None = None
    cursor: str | None = None
    limit: int = 100
    dry_run: bool = False


@command("operator", about={"run": Thing.RUN, "workflow": Thing.RUNS}, any_tool={"deed": ("replay", "resolve")})
class BulkDeadLetters(Struct, frozen=True, kw_only=True):
    """Replay or resolve all open dead letters that are found, the oldest run's first; with `dry_run` only say what would become
    of it. `Service.tell_many` does it, a page at a time. Times are those of the latest failure."""

    deed: Literal["replay", "resolve"]
    output: Any | UnsetType = UNSET
    reason: str | None = None
    run: str | None = None
    tenant: str | None = None
    workflow: str | None = None
    node: str | None = None
    error_class: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    cursor: str | None = None
    limit: int = 100
    dry_run: bool = False


@command("reviewer", "operator", about={"run": Thing.RUN})
class GiveScore(Struct, frozen=True):
    """Say what a run was worth, also days after its end, as a person or a piece of code; see `Engine.score`."""

    run: str
    name: str
    value: float | bool
    source: Literal["person", "code"] = "person"
    comment: str = ""


@command("operator", about={"run": Thing.RUN}, repeats=True)
class Extend(Struct, frozen=True):
    """Raise a limit of a run: on its steps, its tokens, its calls, its active time, its wall time or its lifespan, these in
    seconds."""

    run: str
    limit: Literal["steps", "tokens", "model_calls", "tool_calls", "active", "wall", "lifespan"]
    value: int


@command("admin", about={"run": Thing.RUN}, repeats=True)
class RaiseBudget(Struct, frozen=True):
    """Raise what a run may spend."""

    run: str
    limit_usd: Usd


@command("operator", about={"run": Thing.RUN}, key="key")
class Signal(Struct, frozen=True):
    """Send a run a signal; it is kept until a step asks for it. The same `key` again sends nothing."""

    run: str
    name: str
    data: Any = None
    key: str | None = None


@command("reviewer", about={"gate": Thing.GATE}, repeats=True)
class Decide(Struct, frozen=True):
    """Answer a gate. `shown_hash` binds the decision to what was seen."""

    gate: str
    decision: str = "approve"
    data: Any | UnsetType = UNSET
    reason: str | None = None
    shown_hash: str | None = None


class GateAnswer(Struct, frozen=True, forbid_unknown_fields=True):
    """What is decided of one of several gates."""

    decision: str
    data: Any | UnsetType = UNSET
    reason: str | None = None


@command("reviewer", about={"gate": Thing.GATE, "decisions": Thing.GATES}, repeats=True)
class DecideTogether(Struct, frozen=True):
    """Answer calls of tools that a step asks about at the same time as `gate`, each by its gate, with a word or more: all of
    the answers are taken, or none. Those that are not named stay open. `shown_hash` binds it to what is asked together."""

    gate: str
    decisions: Annotated[dict[str, str | GateAnswer], Meta(min_length=1, max_length=_MOST_TOGETHER)]
    shown_hash: str | None = None


@command("reviewer", about={"gate": Thing.GATE}, repeats=True)
class Delegate(Struct, frozen=True):
    """Have a gate ask others, persons or roles, beside those whom it asks: whoever says so is one of them."""

    gate: str
    to: tuple[str, ...]
    reason: str | None = None


@command("reviewer", about={"gate": Thing.GATE}, repeats=True)
class Reassign(Struct, frozen=True):
    """Have a gate ask others, persons or roles, in the place of those whom it asks."""

    gate: str
    to: tuple[str, ...]
    reason: str | None = None


@command("reviewer", "operator", about={"call": Thing.TOOL_CALL}, repeats=True)
class Resolve(Struct, frozen=True):
    """Say what became of a tool's call of unknown outcome: `answer` (it happened, and this is its response), `reject` (it did
    not), `retry` (call again). It is a decision of the gate that asks, and `shown_hash` binds it to what that shows."""

    call: str
    decision: Literal["answer", "reject", "retry"]
    response: Any | UnsetType = UNSET
    reason: str | None = None
    shown_hash: str | None = None


@command("admin", about={"call": Thing.MODEL_CALL}, repeats=True)
class Reconcile(Struct, frozen=True):
    """Say what a model call in doubt really cost."""

    call: str
    cost_usd: Usd


@command("admin", whole=Whole.FLEET, repeats=True)
class SetBudget(Struct, frozen=True):
    """Limit what all runs of a tenant, or of a team of it, may spend in each day or month (UTC): in dollars, or with
    `in_tokens` in tokens, `max_tokens`. None: no limit. The other one stays as it is."""

    tenant: str
    period: Period
    limit_usd: Usd | None = None
    team: str | None = None
    in_tokens: bool = False
    max_tokens: int | None = None


@command("admin", repeats=True)
class SetTeamBudget(Struct, frozen=True, kw_only=True):
    """Give agents a budget together, once and not for each day, or allot it anew; a number is an agent's priority. See
    `Engine.set_team_budget`."""

    name: str
    agents: dict[str, TeamAgent | float]
    total_usd: Usd | None = None
    total_tokens: int | None = None
    tenant: str | None = None


@command("admin", repeats=True)
class RemoveTeamBudget(Struct, frozen=True):
    """Have a team budget limit nothing any more; what was used stays known."""

    name: str
    tenant: str | None = None


@command("operator", whole=Whole.FLEET, repeats=True)
class RollUpCosts(Struct, frozen=True):
    """Bring the costs up to date, as far as that takes some seconds; the row says whether they are. Said again it goes on."""


@command("reviewer", about={"tool": Thing.TOOLS, "workflow": Thing.RUNS, "run": Thing.RUN})
class GrantApproval(Struct, frozen=True, kw_only=True):
    """Say that calls of the tools that `tool` names (`mail_*`) need not be asked about for so many seconds, `most` times at
    most; see `Engine.grant_approval`."""

    tool: str
    for_s: float
    most: int | None = None
    when: Annotated[tuple[When, ...], Meta(max_length=_MOST_CONDITIONS)] = ()
    workflow: str | None = None
    run: str | None = None
    reason: str = ""
    tenant: str | None = None


@command("reviewer", about={"approval": Thing.APPROVAL}, repeats=True)
class RevokeApproval(Struct, frozen=True):
    """Have an approval stand for nothing more. Calls that were made by it stay made."""

    approval: str
    tenant: str | None = None


@command("admin", whole=Whole.FLEET, repeats=True)
class SetAdmission(Struct, frozen=True):
    """Cap how many runs of a tenant, or of all together, are active at once; None: no cap."""

    runs: int | None = None
    tenant: str | None = None


@command("admin", whole=Whole.FLEET, repeats=True)
class SetPool(Struct, frozen=True, kw_only=True):
    """Declare a pool, or replace what was said of it; see `Engine.set_pool`."""

    name: str
    slots: int | None = None
    rate: int | None = None
    per_s: int | None = None
    burst: int | None = None
    counts: Counted | None = None
    of: str | None = None


@command("admin", whole=Whole.FLEET, repeats=True)
class RemovePool(Struct, frozen=True):
    """Remove a pool; steps that ask for it wait until it is declared again."""

    name: str


@command("operator", about={"name": Thing.SCHEDULE, "workflow": Thing.WORKFLOW}, makes="name", repeats=True)
class SetSchedule(Struct, frozen=True, kw_only=True):
    """Start a run of a workflow at each time of a cron line, or replace what was said under this name; see
    `Engine.set_schedule`."""

    name: str
    workflow: str
    cron: str
    timezone: str = "UTC"
    input: Any = None
    time_field: str | None = None
    version: int | None = None
    tenant: str | None = None
    team: str | None = None
    team_budget: str | None = None
    agent: str | None = None
    cost_limit_usd: Usd | None = None
    jitter_s: float = 0
    overlap: Overlap = "skip"
    catch_up_s: float = 3600


@command("operator", about={"name": Thing.SCHEDULE}, repeats=True)
class PauseSchedule(Struct, frozen=True):
    """Let it start nothing until it is resumed."""

    name: str
    tenant: str | None = None


@command("operator", about={"name": Thing.SCHEDULE}, repeats=True)
class ResumeSchedule(Struct, frozen=True):
    """Let it go on from now."""

    name: str
    tenant: str | None = None


@command("operator", about={"name": Thing.SCHEDULE}, repeats=True)
class RemoveSchedule(Struct, frozen=True):
    """Remove it; what it has started goes on."""

    name: str
    tenant: str | None = None


@command("operator", about={"name": Thing.SCHEDULE}, repeats=True)
class Backfill(Struct, frozen=True):
    """Start the runs of a schedule's times from `since_ms` to `until_ms`, or to now, of those that have had none."""

    name: str
    since_ms: int
    until_ms: int | None = None
    tenant: str | None = None


@command("operator", about={"name": Thing.CONVERSATION, "workflow": Thing.WORKFLOW}, makes="name", repeats=True)
class OpenConversation(Struct, frozen=True, kw_only=True):
    """Begin a conversation with an agent, or go on with the one of that name; see `Engine.open_conversation`."""

    name: str
    workflow: str
    on_busy: OnBusy = "enqueue"
    tenant: str | None = None
    team: str | None = None
    team_budget: str | None = None
    agent: str | None = None
    cost_limit_usd: Usd | None = None
    max_tokens: int | None = None


@command("operator", about={"conversation": Thing.CONVERSATION}, key="key")
class Say(Struct, frozen=True, kw_only=True):
    """Say something in a conversation. The same `key` again is the same message. `parts` are content parts as JSON has them:
    `{"type": "image", "data": "BASE64"}`, or a `url`."""

    conversation: str
    text: str
    parts: list[Any] | None = None
    after: int | None = None
    on_busy: OnBusy | None = None
    key: str | None = None
    tenant: str | None = None


@command("operator", about={"name": Thing.CONVERSATION}, repeats=True)
class DeleteConversation(Struct, frozen=True):
    """Delete a conversation with all that was said in it, for good; see `Engine.delete_conversation`."""

    name: str
    tenant: str | None = None


@command("operator")
class WriteSharedValue(Struct, frozen=True, kw_only=True):
    """Write a version of a shared value; with `expected_version` only in the place of that one, 0 for none."""

    space: str
    key: str
    value: Any = None
    expected_version: int | None = None
    tenant: str | None = None


@command("operator", repeats=True)
class ForgetCachedAnswer(Struct, frozen=True):
    """Take an answer out of a semantic cache; see `Engine.forget_cached_answer`."""

    space: str
    key: str
    tenant: str | None = None


@command("admin", about={"name": Thing.KEY}, makes="name")
class MakeKey(Struct, frozen=True, kw_only=True):
    """Make a key for a service, which is shown once. It acts for a tenant, or everybody, may do so much (viewer, operator,
    reviewer, author, admin), with workflows and tools whose names fit a pattern; after `life_s` it is over."""

    name: str
    tenant: str | None = None
    may: tuple[Grant, ...] = ("viewer",)
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    workflows: tuple[str, ...] = ANY
    tools: tuple[str, ...] = ANY
    life_s: int | None = None


@command("operator", about={"run": Thing.RUN})
class MakeLink(Struct, frozen=True):
    """Make a link with which somebody who has no token sends a run one signal, once, within `life_s`. It is shown once."""

    run: str
    name: str
    life_s: int = 7 * 86_400


@command("reviewer", about={"gate": Thing.GATE})
class MakeGateLink(Struct, frozen=True):
    """Make a link with which somebody who has no token decides a gate, once, within `life_s`: as `reviewer`, in these `roles`,
    about what it shows now. It is shown once."""

    gate: str
    reviewer: str
    roles: tuple[str, ...] = ()
    life_s: int = 7 * 86_400


@command("admin", about={"name": Thing.KEY})
class RotateKey(Struct, frozen=True):
    """Give a key another secret, which is shown once; the one before is over at once. Callers that act for all tenants say
    whose it is where several tenants have a key of the name."""

    name: str
    tenant: str | None = None


@command("admin", about={"name": Thing.KEY})
class RevokeKey(Struct, frozen=True):
    """Take a key back, for good and at once. Callers that act for all tenants say whose it is where several tenants have a key
    of the name."""

    name: str
    tenant: str | None = None


OfKey: TypeAlias = MakeKey | MakeLink | MakeGateLink | RotateKey | RevokeKey
OfRow: TypeAlias = OfKey | GrantApproval | RollUpCosts | ExportRun
"""What is answered with a row of its own."""
OfLetter: TypeAlias = EditDeadLetter | ReplayDeadLetter | ResolveDeadLetter
OfGate: TypeAlias = Decide | DecideTogether | Delegate | Reassign
OfOne: TypeAlias = Pause | Resume | Retry | Migrate | Cancel | Extend | RaiseBudget | Signal | Resolve | Reconcile | GiveScore
OfRun: TypeAlias = OfOne | OfGate | OfLetter
OfMany: TypeAlias = Bulk | BulkDeadLetters | Backfill
OfAll: TypeAlias = SetBudget | SetAdmission | SetPool | RemovePool
OfTenant: TypeAlias = WriteSharedValue | ForgetCachedAnswer | SetTeamBudget | RemoveTeamBudget | RevokeApproval
OfSchedule: TypeAlias = SetSchedule | PauseSchedule | ResumeSchedule | RemoveSchedule
OfConversation: TypeAlias = OpenConversation | Say | DeleteConversation
Command: TypeAlias = Start | Fork | OfRun | OfAll | OfTenant | OfSchedule | OfConversation
