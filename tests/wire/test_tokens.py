"""What each token allows: a client's no work, a worker's no question and no decision, and of work only that which is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from holdfast import Engine, Workflow, remote_task, task
from holdfast.core.facts.events import RunCancelling
from holdfast.core.values.actor import Actor
from holdfast.errors import NotFound, NotPermitted, TooMuch, UsageError
from holdfast.service import subscription
from holdfast.service.access.identity import Identity, read_tokens
from holdfast.service.access.key import ApiKeys
from holdfast.service.concurrency_limit import ConcurrencyLimit
from holdfast.service.declarations import command
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.settings import PortBounds
from holdfast.wire import Client, Job, Tasks, Trust, Worker, credential
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import Stub
from holdfast.wire.capabilities import WorkerCapabilities
from holdfast.wire.connection import WorkerConnection
from holdfast.wire.outbox import Outbox
from holdfast.wire.registry import Bounds, WorkerRegistry
from holdfast.wire.server import Server
from tests.engine.kit import MAX_S, bounded
from tests.wire.test_bounds import registration
from tests.wire.test_refusals import TOKENS, private

CLIENT, ACME, EVERYBODYS, TENANTS, PARTLY = (Trust(letter * 32) for letter in "cabtp")
OF_ONE_WORKFLOW = f"""
[clients.partly]
token = "{"p" * 32}"
tenant = "acme"
may = "viewer"
workflows = ["echo"]
"""
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PATIENT = Bounds(lease_s=60.0, heartbeat_s=60.0, ack_s=60.0)

wf = Workflow(name="echo")


@wf.node("echo")
@remote_task(task="echo")
def echo(state: Any) -> Any:
    return state.input


broken = Workflow(name="broken")


@broken.node("fall")
@task
def fall(state: Any) -> None:
    raise ValueError("it fell")


tasks = Tasks()


@tasks.task("echo")
async def do(job: Job, arguments: Any) -> Any:
    return arguments


class Port:
    """A server with these tokens, and its engine."""

    def __init__(self, address: str, engine: Engine, registry: WorkerRegistry, identity: Identity, server: Server) -> None:
        self.address, self.engine, self.registry, self.identity = address, engine, registry, identity
        self.server = server

    def client(self, trust: Trust) -> Any:
        return Client.connect(self.address, trust)

    @asynccontextmanager
    async def worker(self, name: str, trust: Trust, tasks: Tasks = tasks, **offer: Any) -> AsyncIterator[Worker]:
        hand = Worker(tasks, [self.address], WorkerCapabilities(name, **offer), trust)
        running = asyncio.create_task(hand.run())
        try:
            while not any(each.offer.name == name for each in self.registry.connections):
                assert not running.done(), running.exception()
                await asyncio.sleep(0.005)
            yield hand
        finally:
            hand.drain()
            await running


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[Port]:
    identity = Identity(tokens=read_tokens(private(tmp_path / "tokens.toml", TOKENS + OF_ONE_WORKFLOW)), takes_keys=True)
    registry = WorkerRegistry(PATIENT, tells_tenants_apart=identity.tells_tenants_apart)
    server = Server(registry, identity, turns=ConcurrencyLimit(PortBounds(reading=8, wait_s=0.2, streams=8)))
    async with (
        asyncio.timeout(MAX_S),
        server.listening("127.0.0.1:0") as number,
        Engine.open(f"sqlite:///{tmp_path / 'runs.db'}", workflows=[wf, broken], workers=registry) as engine,
    ):
        registry.open(engine.executor.placing)
        server.service = Service(engine, [wf, broken])
        yield Port(f"127.0.0.1:{number}", engine, registry, identity, server)


async def test_calls_that_say_nothing_keep_no_other_tenant_from_being_answered(port: Port) -> None:
    silence, silent = asyncio.Event(), 0

    async def nothing() -> AsyncIterator[bytes]:
        nonlocal silent
        silent += 1
        await silence.wait()
        yield b""

    async with grpc.aio.insecure_channel(port.address) as channel, port.client(TENANTS) as acme, port.client(CLIENT) as ops:
        ask = channel.stream_unary("/holdfast.v1.Workflows/List")
        calls = [ask(nothing(), metadata=credential.metadata(TENANTS), timeout=MAX_S) for _ in range(12)]
        ended = await asyncio.wait([asyncio.ensure_future(_code(each)) for each in calls], return_when="FIRST_COMPLETED")
        assert {each.result() for each in ended[0]} == {grpc.StatusCode.RESOURCE_EXHAUSTED}, "two are read, and no more"
        assert silent == 12
        with pytest.raises(TooMuch, match="Too many bodies and messages are read: 2 for this caller"):
            await acme.list_()
        assert await ops.list_() == []
        silence.set()


async def _code(call: Any) -> Any:
    return await call.code()


async def test_those_who_watch_are_counted_by_token(port: Port) -> None:
    async with port.client(CLIENT) as ops, port.client(TENANTS) as acme:
        run = await ops.submit("echo", 1, tenant="acme")
        watching = [ops.watch(run) for _ in range(3)]
        for each in watching[:2]:
            await anext(aiter(each))
        with pytest.raises(TooMuch, match="Too many streams are listened to"):
            await anext(aiter(watching[2]))
        async for _ in acme.watch(run):
            break
        for each in watching:
            await each.aclose()  # type: ignore[attr-defined] # a generator


async def test_a_tenant_sees_no_place_in_the_code_where_something_failed(port: Port) -> None:
    async with port.client(CLIENT) as ops, port.client(TENANTS) as acme:
        run = await ops.submit("broken", 1, tenant="acme")
        told = {name: [each async for each in client.watch(run)] for name, client in (("ops", ops), ("acme", acme))}
        views = {"ops": await ops.query(run), "acme": await acme.query(run)}
    nothing = "'trace': None"
    for name, is_told in (("ops", True), ("acme", False)):
        assert (nothing in str(told[name])) == (nothing in str(views[name])) != is_told, name
        assert (".py:" in str(told[name])) == (".py:" in str(views[name])) == is_told, name
    assert views["acme"].error is not None
    assert views["acme"].error["message"] == "ValueError: it fell"


ASKED = {
    "submit": lambda client: client.submit("echo", 1),
    "query": lambda client: client.query("run"),
    "list": lambda client: client.list_(),
    "cancel": lambda client: client.cancel("run"),
    "decide": lambda client: client.decide("gate"),
    "gate": lambda client: client.gate("gate"),
    "signal": lambda client: client.signal("run", "go"),
    "watch": lambda client: client.result("run"),
}


@pytest.mark.parametrize("what", ASKED)
async def test_a_workers_token_asks_and_decides_nothing(port: Port, what: str) -> None:
    async with port.client(ACME) as client:
        with pytest.raises(UsageError, match=r"The token 'workers.acme' is a worker's: it asks and decides nothing"):
            await ASKED[what](client)
    assert await port.engine.runs() == []


async def test_a_client_of_one_tenant_reaches_what_is_its_tenants_and_nothing_else(port: Port) -> None:
    async with port.client(CLIENT) as everybodys, port.client(TENANTS) as client:
        theirs, own = await everybodys.submit("echo", 1, tenant="globex"), await client.submit("echo", 2)
        assert (await client.query(own)).tenant == "acme"
        assert [each.run for each in await client.list_()] == [own]
        assert {each.run for each in await everybodys.list_()} == {own, theirs}
        for asks in (
            client.query(theirs),
            client.cancel(theirs),
            client.result(theirs),
            client.signal(theirs, "go"),
            client.gate(f"{theirs}:echo#1:0"),
            client.decide(f"{theirs}:echo#1:0"),
        ):
            with pytest.raises(NotFound, match=f"There is no (run|gate) {theirs}"):
                await asks
        for asks in (client.submit("echo", 3, tenant="globex"), client.list_(tenant="globex")):
            with pytest.raises(NotPermitted, match="'acme'"):
                await asks
        with pytest.raises(NotFound, match="no workflow 'other' for clients"):
            await client.submit("other")
    assert {row.tenant: row.status for row in await port.engine.runs()}["globex"] != "cancelled"


@pytest.mark.parametrize("trust", [CLIENT, TENANTS, PARTLY], ids=["everybodys", "a tenants", "of one workflow"])
async def test_a_list_is_paged_by_the_cursor_of_the_page_before(port: Port, trust: Trust) -> None:
    runs = await _runs(port)
    visible = [run for run, workflow in runs if trust is not PARTLY or workflow == "echo"]
    async with grpc.aio.insecure_channel(port.address) as channel:
        listing = Stub(channel, "Workflows").List
        found, request, is_first = [], wire.ListRequest(limit=1), True
        while is_first or request.before:
            reply = await listing(request, metadata=credential.metadata(trust))
            found += [each.run for each in reply.runs]
            request.before, is_first = reply.cursor, False
    assert found == visible


@pytest.mark.parametrize("trust", [CLIENT, TENANTS, PARTLY], ids=["everybodys", "a tenants", "of one workflow"])
async def test_a_list_goes_on_from_a_run_that_the_caller_may_see(port: Port, trust: Trust) -> None:
    runs = await _runs(port)
    visible = [run for run, workflow in runs if trust is not PARTLY or workflow == "echo"]
    async with port.client(trust) as client, port.client(CLIENT) as ops:
        found: list[str] = []
        while page := await client.list_(limit=1, before=found[-1] if found else ""):
            found += [each.run for each in page]
        assert found == visible
        assert [each.run for each in await client.list_()] == visible, "without those that are hidden"
        if trust is not CLIENT:
            theirs = await ops.submit("echo", 1, tenant="globex")
            hidden = [theirs, *(run for run, _ in runs if run not in visible), "none"]
            for run in hidden:
                with pytest.raises(NotFound, match=f"There is no run {run}"):
                    await client.list_(before=run)


async def test_a_name_with_nul_is_refused_over_grpc(port: Port) -> None:
    async with port.client(TENANTS) as client:
        for asks in (
            client.submit("echo\0"),
            client.submit("echo", by="\0"),
            client.submit("echo", key="\0"),
            client.query("\0"),
            client.list_(workflow="\0"),
            client.list_(before="\0"),
            client.cancel("\0"),
            client.decide("run", by="ann", roles=["\0"]),
            client.signal("run", "\0"),
            client.gate("\0"),
            client.result("\0"),
        ):
            with pytest.raises(UsageError, match="holds the character NUL, which no store keeps in a name"):
                await asks


async def _runs(port: Port) -> list[tuple[str, str]]:
    """Runs of the tenant acme and their workflows, the newest first: it is of a hidden one."""
    async with port.client(CLIENT) as ops:
        names = ("echo", "broken", "broken", "echo", "broken")
        return [(await ops.submit(name, 1, tenant="acme"), name) for name in names][::-1]


async def test_a_watcher_hears_nothing_once_its_key_is_taken_back(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "AGAIN_S", 0.1)
    keys = port.identity.keys = ApiKeys(port.engine.store)
    made = await keys.make(Principal("ops"), command.MakeKey(name="ear", may=("operator",)))
    async with port.client(Trust(made["key"])) as client:
        watching = client.watch(await client.submit("echo", 1))
        await anext(watching)
        await keys.revoke(Principal("ops"), "ear")
        with pytest.raises(UsageError, match="The token is missing or wrong"):
            async for _ in watching:
                pass


async def test_a_run_has_the_trace_of_the_call_that_began_it(port: Port) -> None:
    async with port.client(CLIENT) as client:
        traced = await client.traced(f"00-{TRACE}-00f067aa0ba902b7-01").submit("echo", 1)
        untraced = await client.traced("00-nonsense").submit("echo", 1)
        for run, trace_id in ((traced, TRACE), (untraced, None)):
            assert {each.trace_id for each in await port.engine.run(run).events()} == {trace_id}


async def test_the_record_says_whose_token_a_name_came_with(port: Port) -> None:
    async with port.client(CLIENT) as client:
        named, unnamed = await client.submit("echo", 1, by="grace"), await client.submit("echo", 2)
        for run, who in ((named, "grace"), (unnamed, "clients.ops")):
            started = (await port.engine.run(run).events())[0].event
            assert (started.by, started.os_user, started.client) == (who, "", "clients.ops")
        await client.cancel(named, by="ada")
        events = [each.event for each in await port.engine.run(named).events()]
        (cancelled,) = [event for event in events if isinstance(event, RunCancelling)]
        assert str(Actor(cancelled.by, cancelled.os_user, cancelled.client)) == "ada (unverified, by clients.ops)"


async def test_a_clients_token_is_given_no_work(port: Port) -> None:
    with pytest.raises(UsageError, match=r"The token 'clients.ops' is a client's: it is given no work"):
        await Worker(tasks, [port.address], WorkerCapabilities("hand"), CLIENT).run()


@bounded
async def test_a_worker_is_given_the_jobs_of_its_tenants_only(port: Port) -> None:
    async with port.client(CLIENT) as client, port.worker("bound", ACME):
        others = await client.submit("echo", 1, tenant="beta")
        assert (await client.result(await client.submit("echo", 2, tenant="acme"))).output == 2
        assert (await client.query(others)).status == "waiting"
        (connection,) = port.registry.connections
        assert not connection.jobs
        async with port.worker("free", EVERYBODYS):
            assert (await client.result(others)).output == 1


@pytest.mark.parametrize(
    ("offer", "task", "said"),
    [
        ({"labels": ["gpu", "vault"]}, "echo", "allows no label 'vault'; it allows: gpu"),
        ({"tags": ["fast"]}, "echo", "allows no tag 'fast'; it allows: none"),
        ({}, "pay", "allows no task 'pay'; it allows: echo"),
    ],
)
async def test_a_worker_says_nothing_of_itself_that_its_token_does_not_allow(
    port: Port, offer: dict[str, Any], task: str, said: str
) -> None:
    other = Tasks()
    other.task(task)(do)
    with pytest.raises(UsageError, match="does not take this worker") as refused:
        await Worker(other, [port.address], WorkerCapabilities("hand", **offer), ACME).run()
    assert said in refused.value.message


async def test_another_token_cannot_take_the_place_of_a_worker_that_is_away(port: Port) -> None:
    acme, every = [await credential.holder(port.identity, credential.metadata(trust)) for trust in (ACME, EVERYBODYS)]
    assert acme is not None
    assert every is not None
    for holder in (acme, every):
        outbox = Outbox[Any](10)
        connection = port.registry.register(registration(tasks=["echo"]), outbox, holder)
        assert isinstance(connection, WorkerConnection)
        port.registry.leave(connection, outbox)
        for instance in ("hand", "another"):
            other = holder._replace(name="workers.other")
            refused = port.registry.register(registration(tasks=["echo"], instance=instance), Outbox(10), other)
            assert not isinstance(refused, WorkerConnection)
            assert refused.reason == "hand is the name of a worker that has another token."
        assert port.registry.register(registration(tasks=["echo"]), Outbox(10), holder) is connection


@bounded
async def test_the_name_of_a_worker_is_its_tenants_and_tells_nothing_of_others(port: Port) -> None:
    """Each is given the jobs of its own tenants, also where another is called the same."""
    acme = await credential.holder(port.identity, credential.metadata(ACME))
    assert acme is not None
    assert acme.works is not None
    beta = acme._replace(name="workers.beta", works=acme.works._replace(tenants=frozenset({"beta"})))
    theirs = port.registry.register(registration(tasks=["echo"], instance="theirs"), Outbox(10), beta)
    assert isinstance(theirs, WorkerConnection)
    async with port.client(CLIENT) as client, port.worker("hand", ACME):
        assert (await client.result(await client.submit("echo", 1, tenant="acme"))).output == 1
        assert not theirs.jobs
        await client.submit("echo", 2, tenant="beta")
        while not theirs.jobs:
            await asyncio.sleep(0.005)
