"""Each command and query, by each grant and each owner of what it is about, held against a table that is written by hand."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
import pytest

from holdfast import Context, Engine, WorkerAgent, Workflow, flow, tool
from holdfast.core.nouns.evaluations import ScenarioResult
from holdfast.core.values.access import GRANTS, Access
from holdfast.core.views.notifications import Happening, Rule, delivery_of
from holdfast.errors import NotFound, NotPermitted
from holdfast.http import agui, route
from holdfast.http.api import Api
from holdfast.http.route import BASE
from holdfast.http.session import Sessions
from holdfast.service.access.identity import Identity
from holdfast.service.access.key import told_by
from holdfast.service.access.permission import Permission
from holdfast.service.access.sign_in import SignIns
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.command import MakeKey
from holdfast.service.declarations.declaration import Subject, command, declaration_of, declared
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.wire import workflows as wire

TABLE = """\
# what                grants             tenant workflow limited tools transports
Start                operator           403 404 ok  ok  hg
Fork                 operator           404 404 ok  ok  h
Pause                operator           404 404 ok  ok  h
Resume               operator           404 404 ok  ok  h
Retry                operator           404 404 ok  ok  h
Cancel               operator           404 404 ok  ok  hg
Migrate              operator           404 404 ok  ok  h
ExportRun            operator           404 404 ok  ok  h
Extend               operator           404 404 ok  ok  h
RaiseBudget          admin              404 404 ok  ok  h
Signal               operator           404 404 ok  ok  hgl
LabelRun             operator           404 404 ok  ok  h
GiveScore            operator|reviewer  404 404 ok  ok  h
EditDeadLetter       operator           404 404 ok  ok  h
RetryDeadLetter     operator           404 404 ok  ok  h
ResolveDeadLetter    operator           404 404 ok  ok  h
Bulk                 operator           403 404 ok  ok  h
BulkDeadLetters      operator           403 404 ok  403 h
Decide               reviewer           404 404 ok  403 hgla
DecideTogether       reviewer           404 404 ok  403 h
Delegate             reviewer           404 404 ok  403 h
Reassign             reviewer           404 404 ok  403 h
Resolve              operator|reviewer  404 404 ok  403 h
Reconcile            admin              404 404 ok  ok  h
GrantApproval        reviewer           403 404 ok  403 h
RevokeApproval       reviewer           403 404 ok  403 h
SetBudget            admin              403 403 403 403 h
SetAdmission         admin              403 403 403 403 h
SetPool              admin              403 403 403 403 h
RemovePool           admin              403 403 403 403 h
RollUpCosts          operator           403 403 403 403 h
SetTeamBudget        admin              403 403 403 ok  h
RemoveTeamBudget     admin              403 403 403 ok  h
SetNotificationRule  admin              403 403 403 ok  h
RemoveNotificationRule admin            403 403 403 ok  h
TestNotificationRule admin              403 403 403 ok  h
ReplayDelivery       admin              404 404 404 ok  h
EnableChannel        admin              403 403 403 403 h
WriteSharedValue     operator           403 403 403 ok  h
ForgetCachedAnswer   operator           403 403 403 ok  h
SetSchedule          operator           403 404 ok  ok  h
PauseSchedule        operator           403 404 ok  ok  h
ResumeSchedule       operator           403 404 ok  ok  h
RemoveSchedule       operator           403 404 ok  ok  h
Backfill             operator           403 404 ok  ok  h
OpenConversation     operator           403 404 ok  ok  ha
Say                  operator           403 404 ok  ok  ha
DeleteConversation   operator           403 404 ok  ok  h
MakeKey              admin              403 ok  ok  ok  h
RotateKey            admin              403 404 ok  403 h
RevokeKey            operator|reviewer  403 404 ok  403 h
MakeLink             operator           404 404 ok  ok  h
MakeGateLink         reviewer           404 404 ok  403 h
Run                  viewer             404 404 ok  ok  hg
Explanation          viewer             404 404 ok  ok  h
Steps                viewer             404 404 ok  ok  h
Operations           viewer             404 404 ok  ok  h
Attempts             viewer             404 404 ok  ok  h
ModelCalls           viewer             404 404 ok  ok  h
RunCosts             viewer             404 404 ok  ok  h
RunBudget            viewer             404 404 ok  ok  h
Spending             viewer             404 404 ok  ok  h
Drawing              viewer             404 404 ok  ok  h
Trace                viewer             404 404 ok  ok  h
Spans                viewer             404 404 ok  ok  h
Logs                 viewer             404 404 ok  ok  h
Scores               viewer             404 404 ok  ok  h
Events               viewer             404 404 ok  ok  h
Event                viewer             404 404 ok  ok  h
Streams              viewer             404 404 ok  ok  h
Items                viewer             404 404 ok  ok  h
Tree                 viewer             404 404 ok  ok  h
RunQuote             viewer             404 404 ok  ok  h
Comparison           viewer             404 404 ok  ok  h
Gate                 viewer             404 404 ok  ok  hg
Gates                viewer             403 404 ok  ok  h
Effects              viewer             403 404 ok  ok  h
Doubts               viewer             403 404 ok  ok  h
DeadLetters          viewer             403 404 ok  ok  h
DeadLetter           viewer             404 404 ok  ok  h
Search               viewer             403 ok  ok  ok  h
Queue                viewer             404 404 ok  ok  h
QueueSummary         viewer             ok  ok  ok  ok  h
Conversations        viewer             403 ok  ok  ok  h
Conversation         viewer             403 404 ok  ok  h
Schedules            viewer             403 ok  ok  ok  h
Schedule             viewer             403 404 ok  ok  h
Supervisors          viewer             403 ok  ok  ok  h
Supervisor           viewer             403 404 ok  ok  h
Approvals            viewer             403 ok  ok  ok  h
Approval             viewer             403 404 ok  ok  h
Evaluation           viewer             404 404 ok  ok  h
Workflows            viewer             ok  ok  ok  ok  h
Workflow             viewer             ok  404 ok  ok  h
Runs                 viewer             403 ok  ok  ok  hg
RunLabels            viewer             403 ok  ok  ok  h
ScoreMeans           viewer             403 ok  ok  ok  h
Evaluations          viewer             403 ok  ok  ok  h
EvaluationVersions   viewer             403 ok  ok  ok  h
DeadLetterSummary    viewer             403 ok  ok  ok  h
Costs                viewer             403 ok  ok  ok  h
Tail                 viewer             403 ok  ok  ok  h
Keys                 admin              403 ok  ok  ok  h
Sessions             viewer             403 ok  ok  ok  h
EndSession           viewer             ok  ok  ok  ok  h
EndSessions          admin              403 403 403 ok  h
Audit                admin              403 403 403 ok  h
AuditHead            admin              ok  ok  ok  ok  h
SharedValues         viewer             403 403 403 ok  h
SharedVersions       viewer             403 403 403 ok  h
Memories             viewer             403 403 403 ok  h
TeamBudgets          viewer             403 403 403 ok  h
TeamBudget           viewer             403 403 403 ok  h
NotificationRules    viewer             403 403 403 ok  h
NotificationRule     viewer             403 403 403 ok  h
Deliveries           viewer             403 403 403 ok  h
Delivery             viewer             404 404 404 ok  h
Channels             viewer             ok  ok  ok  ok  h
Budget               viewer             403 403 403 ok  h
BudgetDays           viewer             403 403 403 ok  h
BurnDown             viewer             403 403 403 ok  h
BudgetLimits         viewer             403 403 403 ok  h
CostSummary          viewer             403 ok  ok  ok  h
CostliestRuns        viewer             403 ok  ok  ok  h
LabelCosts           viewer             403 ok  ok  ok  h
ExtraCosts           viewer             403 ok  ok  ok  h
CostForecast         viewer             403 403 403 ok  h
Admission            viewer             403 ok  ok  ok  h
Pools                viewer             ok  ok  ok  ok  h
Pool                 viewer             ok  ok  ok  ok  h
Workers              viewer             ok  ok  ok  ok  h
"""
"""What becomes of each: with one of these grants alone; about another tenant's thing; about another workflow's, with a token of
one; about one's own, with a token of that workflow; with a token of no tool. It is carried by HTTP (h), which the command line
of a server speaks too, gRPC (g), links (l) and AG-UI (a)."""

ACME, GLOBEX = "acme", "globex"


class Line(NamedTuple):
    """What the table says of one command or query: the grants of which one is needed, what becomes of it where it is about
    another tenant's thing, about another workflow's, and about one's own with a token of one workflow and of no tool; and the
    transports that carry it."""

    kind: str
    grants: str
    tenant: str
    workflow: str
    limited: str
    tools: str
    transports: str


LINES = {line.kind: line for line in (Line(*each.split()) for each in TABLE.splitlines()[1:])}


@tool(effect="once", approval=True)
def pay(to: str) -> str:
    """Send money."""
    return f"paid {to}"


@flow(tools=[pay])
async def mine(ctx: Context, given: Any) -> str:
    return await ctx.tool(pay, to="ann")


@flow(tools=[pay])
async def other(ctx: Context, given: Any) -> str:
    return await ctx.tool(pay, to="bob")


class World(NamedTuple):
    """An engine's store, and in it one of everything by its owner: what each kind of thing is called there."""

    permission: Permission
    things: dict[tuple[str, str], dict[Subject, Any]]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    where = str(tmp_path / "runs.db")
    async with Engine.open(where, workflows=[mine, other]) as engine:
        service, things = Service(engine, [mine, other]), {}
        for tenant, workflow in ((ACME, mine), (ACME, other), (GLOBEX, mine)):
            things[tenant, workflow.name] = await _filled(engine, service, tenant, workflow)
        yield World(service.permission, things)


async def _filled(engine: Engine, service: Service, tenant: str, workflow: Workflow[..., Any]) -> dict[Subject, Any]:
    name, admin = f"of-{tenant}-{workflow.name}", Principal("ops")
    run = (await engine.start(workflow, {}, tenant=tenant)).id
    async with asyncio.timeout(20):
        while not (gates := await engine.gates(run)):
            await asyncio.sleep(0.01)
    gate = gates[0][0].gate
    await engine.set_schedule(name, workflow, "0 9 * * *", tenant=tenant, input={})
    await engine.open_conversation(name, workflow, tenant=tenant)
    await engine.set_supervisor(name, [WorkerAgent(name, workflow, ["x"])], tenant=tenant)
    kept = await engine.keep_evaluation(name, workflow, [ScenarioResult("x", run)], min_passed=1, tenant=tenant)
    approval = await engine.grant_approval("pay", for_s=60, by="ida", workflow=workflow.name, tenant=tenant)
    await service.execute(admin, MakeKey(name=name, tenant=tenant, workflows=(workflow.name,)))
    call = f"{run}:flow#1:0"
    happening = Happening("run_failed", name, tenant, 1, {}, workflow.name, run=run)
    rule = Rule(tenant=tenant, name=name, occasions=("run_failed",), channel="ops")
    delivery = delivery_of(rule, happening, 1, None, ())
    await engine.store.outbox.add([delivery])
    return {
        Subject.RUN: run,
        Subject.FAILED: run,
        Subject.GATE: gate,
        Subject.GATES: {gate: "approve"},
        Subject.TOOL_CALL: call,
        Subject.MODEL_CALL: call,
        Subject.LETTER: f"{run}:flow#1",
        Subject.WORKFLOW: workflow.name,
        Subject.RUNS: workflow.name,
        Subject.SCHEDULE: name,
        Subject.CONVERSATION: name,
        Subject.SUPERVISOR: name,
        Subject.EVALUATION: kept.id,
        Subject.APPROVAL: approval,
        Subject.KEY: name,
        Subject.DELIVERY: delivery.id,
        Subject.TOOLS: "pay",
    }


VALUES: dict[str, Any] = {
    "labels": {"a": "b"},
    "action": "retry",
    "limit_usd": "5",
    "step": "flow#1",
    "seq": 1,
    "text": "hi",
    "value": 1,
    "name": "x",
    "decision": "reject",
    "cost_usd": "1",
    "period": "day",
    "cron": "0 9 * * *",
    "q": "quick",
    "space": "x",
    "key": "x",
    "since_ms": 0,
    "map": "x",
    "agent": "x",
    "reviewer": "ida",
    "agents": {},
    "for_s": 60,
    "limit": "steps",
    "to": ("ann",),
    "letter": "x",
    "session": "x",
    "occasions": ("run_failed",),
    "channel": "x",
}


def made(kind: Any, things: dict[Subject, Any], tenant: str | None = None, **more: Any) -> Any:
    """One that is about these things, and says no more than it must."""
    about = {field: things[thing] for field, thing in declaration_of(kind).about.items()}
    if kind is cmd.MakeKey:
        about = {"name": "another"}
    fields = msgspec.structs.fields(kind)
    needed = {each.name: VALUES[each.name] for each in fields if each.required and each.name not in {*about, "tenant"}}
    if kind is cmd.Bulk:
        needed["action"] = "cancel"
    if "tenant" in kind.__struct_fields__ and (tenant is not None or any(f.name == "tenant" and f.required for f in fields)):
        needed["tenant"] = tenant or ACME
    return kind(**needed | about | more)


async def outcome(world: World, who: Principal, asked: Any) -> str:
    try:
        await world.permission.expect(who, asked)
    except NotPermitted:
        return "403"
    except NotFound:
        return "404"
    return "ok"


def of_acme(*may: Any, **access: Any) -> Principal:
    return Principal("ann", ACME, client="clients.ann", access=Access(may or ("admin",), **access))


OWN, BESIDE, THEIRS = (ACME, "mine"), (ACME, "other"), (GLOBEX, "mine")


async def found(world: World, kind: Any) -> Line:
    """What becomes of it, as a line of the table."""
    own = made(kind, world.things[OWN], ACME)
    limited = of_acme(workflows=("mine",))
    needs = [grant for grant in GRANTS if await outcome(world, Principal("ann", access=Access((grant,))), own) == "ok"]
    alone = [grant for grant in needs if not {*needs} & ({grant} ^ IMPLIED_BY[grant])]
    return Line(
        kind.__name__,
        "|".join(alone),
        await outcome(world, of_acme(), made(kind, world.things[THEIRS], GLOBEX)),
        await outcome(world, limited, made(kind, world.things[BESIDE])),
        await outcome(world, limited, own),
        await outcome(world, of_acme(tools=()), own),
        "".join(letter for letter, kinds in CARRIED.items() if kind.__name__ in kinds),
    )


IMPLIED_BY = {grant: {each for each in GRANTS if Access((grant,)).allows(each)} for grant in GRANTS}
"""What each grant allows, itself included."""
CARRIED: dict[str, set[str]] = {
    "h": {each.what.__name__ for each in route.ROUTES},
    "g": {each.__name__ for each in wire.TAKES.values()},
    "l": {each.__name__ for each in get_args(get_type_hints(told_by)["return"])},
    "a": set(re.findall(r"command\.([A-Z]\w+)\(", Path(agui.__file__).read_text())),
}


async def test_each_command_and_query_does_for_each_caller_what_the_table_says(world: World) -> None:
    assert {kind.__name__ for kind in declared()} == {*LINES}
    for kind in declared():
        assert await found(world, kind) == LINES[kind.__name__]


async def test_each_transport_carries_what_is_in_the_table_and_nothing_else(world: World) -> None:
    assert set().union(*CARRIED.values()) == {*LINES}
    sessions = Sessions(SignIns(world.permission._control.store, Identity()), code=Path("code"))
    app = Api(Identity(), lambda: "0" * 32, sessions=sessions).application()
    known = {(each.method, BASE + each.path) for each in route.ROUTES}
    beside = {(method, each.path) for each in app.routes for method in each.methods - {"HEAD"}} - known
    assert beside == {
        ("GET", f"{BASE}/me"),
        ("GET", f"{BASE}/openapi.json"),
        ("GET", "/"),
        ("POST", f"{BASE}/session"),
        ("DELETE", f"{BASE}/session"),
        ("GET", f"{BASE}/sign-in"),
        ("POST", f"{BASE}/links/{{token}}"),
        ("POST", f"{BASE}/agui/{{workflow}}"),
    }


async def test_what_declares_nothing_is_refused(world: World) -> None:
    class DropEverything(msgspec.Struct):
        run: str

    with pytest.raises(TypeError, match="Declare what DropEverything takes"):
        await world.permission.expect(Principal(), DropEverything("x"))
    with pytest.raises(TypeError, match="Declare what DropEverything takes"):
        route.Route("POST", "/everything", DropEverything).takes  # noqa: B018 - it is a property
    with pytest.raises(TypeError, match="no field 'gate'"):
        command("POST /everything", "viewer", about={"gate": Subject.GATE})(DropEverything)
    with pytest.raises(TypeError, match="DropEverything names nothing for the audit log"):
        command("POST /everything", "admin")(DropEverything)
    with pytest.raises(TypeError, match="takes one grant at least"):
        command("POST /everything", about={"run": Subject.RUN})(DropEverything)
    with pytest.raises(TypeError, match="Name the answer of DropEverything"):
        command("POST /everything", "admin", about={"run": Subject.RUN})(DropEverything)


async def test_a_workflow_file_takes_a_grant_of_its_own(world: World) -> None:
    """To start a run of what is there is less than to say what is run."""
    file = cmd.Start(yaml="name: mine", workflow="mine")
    for may, told in (
        (("operator",), "403"),
        (("author",), "403"),
        (("operator", "author"), "ok"),
        (("admin",), "ok"),
        (("reviewer",), "403"),
    ):
        assert await outcome(world, of_acme(*may), file) == told
    assert await outcome(world, of_acme("admin", workflows=("mine",)), file) == "403", "a name in a file binds nobody"


async def test_who_reaches_some_workflows_names_one_of_them(world: World) -> None:
    limited = of_acme(workflows=("mine",))
    assert await outcome(world, limited, cmd.Bulk(action="cancel")) == "403"
    assert await outcome(world, limited, cmd.GrantApproval(tool="pay", for_s=60)) == "403"
    assert await outcome(world, of_acme(), cmd.Bulk(action="cancel")) == "ok"
    approvals = [{"approval": "x", "workflow": workflow, "run_id": None} for workflow in ("mine", "other", None)]
    seen = await world.permission.reached(limited, ask.Approvals(), approvals)
    assert [row["workflow"] for row in seen] == ["mine"], "one for all workflows is not about this one"
