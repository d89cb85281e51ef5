"""Composes the processes of a fleet: one that leads a lane, one that serves clients and workers over gRPC or HTTP, or all in
one.

Never here: what an engine is made of (engine), what is printed and how (cli).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast import settings as settings_
from holdfast.compose.api import HttpPort, answering
from holdfast.compose.engine import DEFAULT_SLOTS, Engine, label
from holdfast.compose.following import following
from holdfast.compose.from_settings import doubt_rule_of, hold_back_of, lanes_of, open_queue, payloads_of, secrets_of
from holdfast.compose.metrics import ProcessMetrics, look_of_engine, look_of_leader, of_engine, of_leader, of_registry, pushing
from holdfast.core.capacity.lanes import DEFAULT
from holdfast.core.values.demand import Resources
from holdfast.engine.background.follow_ups import FollowUps
from holdfast.engine.background.rounds import Rounds
from holdfast.engine.fleet.leader import LEASE_S, Leader
from holdfast.engine.runs.catalog import Catalog
from holdfast.engine.runs.observing import Observers
from holdfast.engine.runs.retention import Retention
from holdfast.engine.runs.runtime import Runtime
from holdfast.errors import UsageError
from holdfast.observe.meter import Meter
from holdfast.observe.readiness import Readiness
from holdfast.platform.extra import needs
from holdfast.platform.machine import MachineClock, RandomIds
from holdfast.platform.masking import without_passwords
from holdfast.ports import Administration, Observer
from holdfast.service.access.identity import Identity
from holdfast.service.concurrency_limit import ConcurrencyLimit
from holdfast.service.records import Recorder
from holdfast.service.service import Service
from holdfast.settings import Secrets, Settings
from holdfast.storage import is_postgres, open_administration, open_blobs, postgres, sealing_of

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.wire.registry import WorkerRegistry
    from holdfast.wire.server import Server


# --- Leading ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def leading(
    store: str, *, settings: Settings | None = None, lane: str = DEFAULT, observers: Sequence[Observer] = ()
) -> AsyncIterator[Leader]:
    """Open a process that leads a lane of the fleet while no other process does. It runs no steps and holds no workflow;
    `observers` are called about what it commits.

    Raises UsageError for a store that no fleet can share, StoreError when it cannot be used.
    """
    known = settings if settings is not None else settings_.load()
    if not is_postgres(store):
        raise UsageError(
            "A fleet shares a PostgreSQL store; on SQLite the workers of one machine need no leader. To execute"
            " workflows and archive old months there, say --grpc HOST:PORT; a timer may run `holdfast store archive`."
        )
    lanes = lanes_of(known, lane)
    queue = open_queue(known.queue, lane)
    secrets = secrets_of(known, store)
    elsewhere, sealing = open_blobs(known.blobs, secrets), sealing_of(known)
    opened: Any = await postgres().PostgresStore.connect(store, lease_s=LEASE_S, elsewhere=elsewhere, sealing=sealing)
    runtime = Runtime.of(
        opened,
        MachineClock(),
        RandomIds(),
        Catalog(opened.graphs, lanes=lanes, lane=lane),
        label(),
        works=True,
        observers=Observers(observers),
        hold_back=hold_back_of(known),
    )
    follow_ups = FollowUps(runtime, payloads_of(opened.blobs, elsewhere, secrets, opened.sealing))
    leader = Leader(
        runtime,
        opened.leadership,
        queue,
        strategy=known.strategy(lane),
        weights=known.weights,
        rounds=Rounds(runtime, follow_ups, doubt_rule_of(known)),
    )
    try:
        leader.start()
        async with AsyncExitStack() as stack:
            if lane == DEFAULT:  # the leaders of other lanes leave to this one's what one process does for all
                await stack.enter_async_context(archiving(store, known, leader.leads))
                await stack.enter_async_context(following(known, runtime, secrets, leader.leads.is_set))
            yield leader
    finally:
        await leader.aclose()
        await follow_ups.aclose()
        await runtime.runs.aclose()
        await runtime.membership.aclose()
        await queue.aclose()
        await opened.aclose()


@asynccontextmanager
async def archiving(store: str, settings: Settings, leads: asyncio.Event | None = None) -> AsyncIterator[None]:
    """Archive months of `store` as `[retention]` says, inside a block, for as long as `leads` is set. Without `leads`, always:
    several processes do not disturb each other."""
    if settings.retention is None or settings.retention.hot_days is None:
        yield
        return
    if leads is None:
        leads = asyncio.Event()
        leads.set()
    administering = partial(_administering, store, settings, secrets_of(settings, store))
    retention = Retention(administering, settings.retention.hot_days, MachineClock())
    cooling = asyncio.create_task(retention.keep(leads), name="holdfast-retention")
    try:
        yield
    finally:
        cooling.cancel()
        await asyncio.gather(cooling, return_exceptions=True)


@asynccontextmanager
async def _administering(store: str, settings: Settings, secrets: Secrets) -> AsyncIterator[Administration]:
    administration = await open_administration(store, open_blobs(settings.blobs, secrets), sealing_of(settings))
    try:
        yield administration
    finally:
        await administration.aclose()


# --- Taking clients and workers ---------------------------------------------------------------------------------------


class Port(NamedTuple):
    """A gRPC port: its address, the callers that it admits, and the work behind it."""

    address: str
    identity: Identity
    certificate: Path | None
    key: Path | None
    client_ca: Path | None
    yaml: bool
    """Whether workflow files are taken."""
    shell: bool
    """Whether their jobs run here too."""
    lease_s: float
    slots: int
    grace_s: float
    labels: Sequence[str]
    resources: Resources


class WorkerEndpoint(NamedTuple):
    """The engine behind a gRPC port, and the workers that are connected to it."""

    engine: Engine
    service: Service
    registry: WorkerRegistry
    server: Server
    address: str
    """`host:port`, where it listens."""


@asynccontextmanager
async def taking(
    address: str,
    settings: Settings,
    workflows: Sequence[Workflow],
    http: Port,
    lane: str,
    say: Callable[[str], None],
    recorder: Recorder | None = None,
    observers: Sequence[Observer] = (),
) -> AsyncIterator[WorkerEndpoint]:
    """An engine that executes `workflows` and takes clients and workers. At the end, jobs that run get their grace."""
    wire = _wire()
    identity = http.identity
    files = wire.submission.Submissions(settings.blobs, settings.vars) if http.yaml else None
    bounds = wire.registry.Bounds(lease_s=http.lease_s, heartbeat_s=http.lease_s / 3, ack_s=min(2.0, http.lease_s))
    registry = wire.registry.WorkerRegistry(bounds, say, tells_tenants_apart=identity.tells_tenants_apart)
    tls, turns = wire.credential.Tls(http.certificate, http.key, http.client_ca), ConcurrencyLimit(settings.bounds)
    server = wire.server.Server(registry, identity, tls, turns)
    async with (
        server.listening(http.address) as port,  # it outlives the engine: what runs at its end is finished by the workers
        Engine.open(
            address,
            workflows=workflows,
            yaml=http.yaml,
            slots=http.slots,
            labels=http.labels,
            resources=http.resources,
            settings=settings,
            grace_s=http.grace_s,
            workers=registry,
            shell=http.shell,
            lane=lane,
            observers=observers,
        ) as engine,
    ):
        registry.open(engine.executor.placing)
        server.service = Service(
            engine,
            workflows,
            files.take if files is not None else None,
            recorder,
            has_shells_of=lambda tenant: not http.shell and identity.has_shells_of(tenant),
            turns=turns,
        )
        identity.keys, identity.failures = server.service.keys, server.service.failed_log_ins
        host = http.address.rpartition(":")[0]
        names = ", ".join(f"{workflow.name} {workflow.version}" for workflow in workflows) or "no workflow by name"
        say(f"gRPC on {host}:{port}, store {without_passwords(address)}: {names}.")
        try:
            yield WorkerEndpoint(engine, server.service, registry, server, f"{host}:{port}")
        finally:
            server.service = None
            registry.drain()


def _wire() -> Any:
    """Return the package that a port needs, loaded when a port is first used."""
    with needs("fleet", "A gRPC port"):
        from holdfast import wire
        from holdfast.wire import credential, registry, server, submission  # noqa: F401 - as attributes of the package
    return wire


# --- Both -------------------------------------------------------------------------------------------------------------


class ServedProcess(NamedTuple):
    """A process that leads or stands by, or answers on ports, or both."""

    leader: Leader | None
    engine: Engine | None
    taking: WorkerEndpoint | None
    http: str | None
    """Where it answers over HTTP: `http://127.0.0.1:8000`."""
    readiness: Readiness
    metrics: ProcessMetrics

    @property
    def leads(self) -> bool:
        return self.leader is not None and self.leader.leads.is_set()


def _readiness(leader: Leader | None, engine: Engine | None) -> Readiness:
    """Return the readiness of a process that leads, or answers on ports, or both."""

    def broken() -> BaseException | None:
        problem = leader.broken if leader is not None else None
        return problem if problem is not None or engine is None else engine.broken

    async def reach() -> None:
        if leader is not None:
            await leader.reach()
        elif engine is not None:
            await engine.runs(limit=1)

    return Readiness(broken, reach)


@asynccontextmanager
async def serving(
    location: str,
    settings: Settings,
    workflows: Sequence[Workflow],
    listener: Port | None,
    http: HttpPort | None,
    lane: str,
    say: Callable[[str], None],
    recorder: Recorder | None = None,
    slots: int = DEFAULT_SLOTS,
) -> AsyncIterator[ServedProcess]:
    """Open a process that leads `lane` while no other does, if a fleet shares the store. With `listener` it serves clients and
    workers, with `http` it answers over HTTP, and with either it executes `workflows`, `slots` steps at once. `say` prints
    where it listens, and who comes and goes; `recorder` makes records of runs on request. Raises UsageError, StoreError."""
    async with AsyncExitStack() as stack:
        leader = taken = engine = service = address = None
        meter = Meter()
        if is_postgres(location) or (listener is None and http is None):
            leader = await stack.enter_async_context(leading(location, settings=settings, lane=lane, observers=[meter]))
        else:
            await stack.enter_async_context(archiving(location, settings))
        if listener is not None:
            taken = await stack.enter_async_context(
                taking(location, settings, workflows, listener, lane, say, recorder, [meter])
            )
            engine, service = taken.engine, taken.service
        elif http is not None:
            engine = await stack.enter_async_context(
                Engine.open(
                    location,
                    workflows=workflows,
                    execute=bool(workflows),
                    slots=slots,
                    settings=settings,
                    lane=lane,
                    observers=[meter],
                )
            )
            service = Service(engine, workflows, recorder=recorder, turns=ConcurrencyLimit(settings.bounds))
        if http is not None and service is not None:
            address = await stack.enter_async_context(answering(service, http, say))
        readiness = _readiness(leader, engine)
        if taken is not None:
            taken.server.readiness = readiness
        parts = [partial(of_registry, taken.registry)] if taken is not None else []
        parts += [partial(of_engine, engine)] if engine is not None else []
        parts += [partial(of_leader, leader)] if leader is not None else []
        look, now_ms = None, leader.store.clock.now_ms if leader is not None else engine.runtime.store.clock.now_ms  # type: ignore[union-attr]
        if leader is not None and lane == DEFAULT:
            look = look_of_leader(leader)
        elif leader is None and engine is not None:
            look = look_of_engine(engine)
        metrics = ProcessMetrics(meter, parts, [] if look is None else [look])
        await stack.enter_async_context(pushing(metrics, settings, location, now_ms))
        yield ServedProcess(leader, engine, taken, address, readiness, metrics)
