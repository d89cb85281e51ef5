"""Composes an engine, of everything that it stands on.

Never here: a rule, SQL, the commands and queries of an engine (control), anything that a user's test would want to replace
without being able to.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from holdfast import settings as settings_
from holdfast.authoring.user_arguments import workflows_of
from holdfast.authoring.workflow import Workflow
from holdfast.compose.following import following
from holdfast.compose.from_settings import (
    declared_prices,
    doubt_rule_of,
    hold_back_of,
    lanes_of,
    open_queue,
    payloads_of,
    pools_of,
    secrets_of,
    seed_pools,
)
from holdfast.compose.notifying import notifications_of
from holdfast.compose.opening import opening
from holdfast.core.capacity.lanes import DEFAULT
from holdfast.core.facts.graph import Definition
from holdfast.core.values.demand import Resources
from holdfast.core.values.ids import SessionId
from holdfast.core.values.trace import Propagation
from holdfast.engine.attempts.kept_requests import RequestKeeping
from holdfast.engine.attempts.residents import Residents
from holdfast.engine.attempts.step_services import StepServices
from holdfast.engine.attempts.value_turn import ValueTurns
from holdfast.engine.background.follow_ups import FollowUps
from holdfast.engine.background.rounds import Rounds
from holdfast.engine.background.supervising import Supervising
from holdfast.engine.background.workflow_loader import Restore, WorkflowLoader
from holdfast.engine.capacity.call_pools import CallPools
from holdfast.engine.capacity.model_knowledge import ModelKnowledge
from holdfast.engine.capacity.pool_client import PoolClient
from holdfast.engine.fleet.dispatch import Dispatch
from holdfast.engine.fleet.idleness import Idleness, StrandedRun
from holdfast.engine.fleet.sweep import Sweep
from holdfast.engine.flow.loop_watch import LoopWatch
from holdfast.engine.flow.task_factory import TaskFactory
from holdfast.engine.runs.blocked_runs import BlockedRuns
from holdfast.engine.runs.catalog import Catalog
from holdfast.engine.runs.content import Contents
from holdfast.engine.runs.job_log import JobLogWriter
from holdfast.engine.runs.observing import Observers
from holdfast.engine.runs.outside_calls import GRACE_S, OutsideCalls
from holdfast.engine.runs.runtime import Runtime
from holdfast.engine.runs.stream_hub import StreamHub
from holdfast.engine.runs.stream_writer import StreamWriter
from holdfast.engine.steps.executor import Executor
from holdfast.errors import UsageError
from holdfast.gateway import LoopbackGateway
from holdfast.models.gateway import Gateway
from holdfast.models.prices import Prices
from holdfast.models.providers import Providers
from holdfast.models.quota import Quotas
from holdfast.platform.current_span import load_api
from holdfast.platform.log_filter import LogFilter
from holdfast.platform.machine import MachineClock, RandomIds
from holdfast.platform.machine import resources as resources_of_machine
from holdfast.platform.threads import Threads
from holdfast.ports import (
    Blobs,
    Clock,
    DeadLettered,
    Ids,
    Leadership,
    Model,
    Observation,
    Observer,
    ProgramGateway,
    Queue,
    ReplayResponder,
    Store,
    WorkerGateway,
)
from holdfast.ports import Threads as ThreadsPort
from holdfast.queues.none import NoQueue
from holdfast.scheduling.job import Strategy
from holdfast.scheduling.placement import Scheduler
from holdfast.service.control.control import Control
from holdfast.settings import Secrets, Settings
from holdfast.storage import open_blobs, open_store, sealing_of
from holdfast.tools.executor import ToolExecutor

if TYPE_CHECKING:
    from holdfast.actions.jobs.runner import Shell

log = logging.getLogger("holdfast")

DEFAULT_SLOTS: Final = 100
MAX_THREADS: Final = 64


class _Led:
    """The lane of a worker, as its sweep asks about it."""

    def __init__(self, lanes: Leadership, lane: str) -> None:
        self._lanes = lanes
        self._lane = lane

    async def is_led(self) -> bool:
        return await self._lanes.is_led(self._lane)


class Environment(NamedTuple):
    """A process's surroundings. `Environment.of_machine` returns those of the machine; a simulation has others."""

    clock: Clock
    ids: Ids
    threads: ThreadsPort
    prices: Prices
    label: str
    resources: Resources = Resources()
    shell: Shell | None = None
    """Who runs the scripts of workflows that are read back from the store, where the machine is not to."""
    stand_in: ReplayResponder | None = None
    """Who answers in the place of models, tools and users' code."""
    programs: ProgramGateway | None = None
    """The gateway of programs, in the place of a port of this machine."""

    @classmethod
    def of_machine(cls, slots: int, models: Mapping[str, settings_.DeclaredModel]) -> Environment:
        return cls(
            clock=MachineClock(),
            ids=RandomIds(),
            threads=Threads(min(slots, MAX_THREADS)),
            prices=declared_prices(models),
            label=label(),
            resources=resources_of_machine(),
        )


def label() -> str:
    """Return the name of this process for people."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Engine(Control):
    """An engine: it starts, executes and decides runs in one process, on one store.

    Shared args:
        by: Name of the caller, or an `Actor` with roles. It is recorded in the run's history.
        roles: Roles in which `by` acts.
        tenant: Tenant, by default `default`. In lists: only rows of this tenant, by default of all.
        run_id: Id of the run.
        after: Last row of the page before; the list goes on after it.
        limit: Maximum number of rows.
    """

    def __new__(cls, executor: Any = None, *_: Any, **__: Any) -> Self:
        if not isinstance(executor, Executor):
            raise UsageError("Write `async with Engine.open(...) as engine:`, or holdfast.sync.open(...). Nothing was opened.")
        return super().__new__(cls)

    def __init__(self, executor: Executor, sweep: Sweep, idleness: Idleness, adoption: WorkflowLoader | None = None) -> None:
        super().__init__(executor)
        if adoption is not None:
            executor.borrow = adoption.borrow
        self._sweep = sweep
        self._idleness = idleness

    @classmethod
    @opening
    async def open(
        cls,
        store: str | Path | Store,
        *,
        workflows: Sequence[Workflow] = (),
        slots: int = DEFAULT_SLOTS,
        execute: bool = True,
        model: Model | None = None,
        settings: Settings | None = None,
        queue: Queue | None = None,
        grace_s: float = 0.0,
        call_grace_s: float = GRACE_S,
        labels: Collection[str] = (),
        resources: Resources | None = None,
        strategy: Strategy | None = None,
        lane: str = DEFAULT,
        yaml: bool = False,
        workers: WorkerGateway | None = None,
        shell: bool = True,
        observers: Sequence[Observer] = (),
        on_dead_letter: Callable[[DeadLettered], None] | None = None,
        environment: Environment | None = None,
    ) -> AsyncIterator[Engine]:
        """Open an engine on a store, for an `async with` block. It executes runs of `workflows`.

        At the end of the block, running steps get `grace_s` to finish and are then handed over to other processes.

        Args:
            store: `sqlite:///PATH`, a path, a PostgreSQL URL, or an open store.
            workflows: Workflows whose runs it executes.
            slots: Maximum number of steps in progress.
            execute: False to only start, query and decide; other processes execute.
            model: Model in the place of the providers, for tests.
            settings: Settings; by default those of `holdfast.toml` and the environment.
            queue: Queue in the place of the one that the settings name.
            grace_s: Seconds that running steps get at the end of the block.
            call_grace_s: Seconds that calls in flight then get to record their outcomes.
            labels: Labels of this process. It takes workflows whose `runs_on`, and steps whose demand, name no other label.
            resources: CPU, memory and GPUs that steps may reserve; by default the machine's cores and memory.
            strategy: Rule that chooses among connected workers; by default the setting `placement`.
            lane: Lane from which it takes runs that others started.
            yaml: True to execute runs of all workflows in YAML that the store knows.
            workers: Gateway to connected workers, which do remote tasks and run the scripts of workflow files.
            shell: False to run no scripts in this process itself.
            observers: Observers, called one after the other about what happens in this process. Their errors are logged.
            on_dead_letter: Function that is called after a step has failed for good in this process.
            environment: Clock, ids and shell in the place of the machine's, for tests.

        Raises:
            InvalidWorkflow: A workflow cannot be run.
            StoreError: The store cannot be used.
        """
        workflows = workflows_of(workflows)
        _check(slots, resources, workflows)
        known = settings if settings is not None else settings_.load()
        lanes, secrets = lanes_of(known, lane), secrets_of(known, store)
        log_filter = LogFilter()
        around = environment if environment is not None else Environment.of_machine(slots, known.models)
        elsewhere = open_blobs(known.blobs, secrets)
        opened = (
            store
            if not isinstance(store, str | Path)
            else await open_store(
                store, elsewhere, lease_s=known.lease_s, audit_keys=secrets.audit_keys(), sealing=sealing_of(known)
            )
        )
        providers: Any = model or Providers(_served_by(known))
        catalog = Catalog(
            opened.graphs,
            labels=labels,
            lanes=lanes,
            lane=lane,
            runs_scripts=shell,
            adopts=yaml and execute,
            restore=_restore(around.shell),
        )
        runtime = Runtime.of(
            opened,
            around.clock,
            around.ids,
            catalog,
            around.label,
            works=execute,
            observers=Observers((*observers, *_alerted(on_dead_letter))),
            hold_back=hold_back_of(known),
        )
        scheduler = Scheduler(
            known.strategy(lane) if strategy is None else strategy,
            tenants_apart=workers is not None and workers.tells_tenants_apart,
        )
        for tenant, weight in known.weights.items():
            scheduler.set_weight(tenant, weight)
        services = _services(known, runtime, around, scheduler, secrets, providers, elsewhere, workers)
        executor = Executor(services, scheduler, slots, resources if resources is not None else around.resources, known.weights)
        follow_ups = FollowUps(runtime, services.payloads, services.gateway, services.supervising)
        hints = queue if queue is not None else open_queue(known.queue, lane)
        dispatch = Dispatch(executor, hints)
        is_fleet = not isinstance(hints, NoQueue)
        if is_fleet:
            executor.fleet = dispatch
        adoption = WorkflowLoader(runtime, around.threads, _restore(around.shell)) if yaml and execute else None
        sweep = Sweep(
            executor,
            workflow_grace_s=known.workflow_grace_s,
            lane=_Led(opened.leadership, lane) if is_fleet and opened.leadership is not None else None,
            adoption=adoption,
            rounds=Rounds(runtime, follow_ups, doubt_rule_of(known) if execute else None),
            conversations_days=known.retention.conversations_days if known.retention is not None else None,
        )
        log.addFilter(log_filter)
        guards = _loop_guards(is_watched=environment is None) if execute else nullcontext()
        guards.__enter__()
        try:
            for workflow in workflows:
                await catalog.add(workflow)
            await runtime.membership.hold()
            if execute:
                await seed_pools(opened.lending, pools_of(known))
                services.pool_client.start(runtime.membership.give_up)
                services.call_pools.start(runtime.membership.give_up)
            sweep.start()
            if is_fleet:
                dispatch.start()
            async with following(known, runtime, secrets, lambda: not sweep.is_led) if execute else nullcontext():
                yield cls(executor, sweep, Idleness(executor, adoption), adoption)
        finally:
            await sweep.aclose()
            await follow_ups.aclose()
            await executor.aclose(grace_s, call_grace_s)
            await runtime.loop.close()
            await dispatch.aclose()
            if queue is None:
                await hints.aclose()
            await _close(services)
            await runtime.membership.aclose()
            if model is None:
                await providers.aclose()
            around.threads.close()
            guards.__exit__(None, None, None)
            if isinstance(store, str | Path):
                await opened.aclose()
            log.removeFilter(log_filter)

    @property
    def broken(self) -> BaseException | None:
        """Error after which this process can no longer work; None while it can."""
        return self.runtime.membership.broken

    @property
    def working(self) -> int:
        """Number of steps in progress."""
        return self.executor.working

    async def idle(self) -> list[StrandedRun]:
        """Wait until its runs have ended or wait, here and in other processes. Return the runs with work that no living process
        can do."""
        return await self._idleness.reached()


@contextmanager
def _loop_guards(*, is_watched: bool) -> Iterator[None]:
    """Keep what user code does to the running event loop from the rest of the process."""
    with TaskFactory.of_loop(), LoopWatch() if is_watched else nullcontext():
        yield


def _alerted(on_dead_letter: Callable[[DeadLettered], None] | None) -> Sequence[Observer]:
    """Return an observer that passes dead letters to the callback; none if there is no callback."""

    def alert(observation: Observation, /) -> None:
        if on_dead_letter is not None and isinstance(observation, DeadLettered):
            on_dead_letter(observation)

    return () if on_dead_letter is None else (alert,)


def _check(slots: int, resources: Resources | None, workflows: Sequence[Workflow]) -> None:
    """Raises UsageError and InvalidWorkflow for what must be reported before anything is opened."""
    if slots < 1:
        raise UsageError(f"slots={slots}: an engine needs at least one.")
    if resources is not None and (wrong := list(resources.problems())):
        raise UsageError(f"The resources cannot be used: {'; '.join(wrong)}. Nothing was started.")
    for workflow in workflows:
        workflow.graph  # noqa: B018 - a broken workflow says so


def _served_by(settings: Settings) -> dict[str, str]:
    """The providers of the declared models."""
    return {name: each.provider for name, each in settings.models.items() if each.provider is not None}


def _services(
    settings: Settings,
    runtime: Runtime,
    around: Environment,
    scheduler: Scheduler,
    secrets: Secrets,
    model: Model,
    elsewhere: Blobs | None,
    workers: WorkerGateway | None,
) -> StepServices:
    """Return the services that attempts may use. `elsewhere`: where large payloads go, if not into the store's own table."""
    store, table = runtime.store, runtime.store.blobs

    def session() -> SessionId | None:
        return runtime.membership.session

    payloads = payloads_of(table, elsewhere, secrets, store.sealing)
    gateway = Gateway(model, around.prices, Quotas(_served_by(settings)), names_calls=settings.send_call_ids)
    listening = StreamHub(store, payloads, around.clock)
    return StepServices(
        runtime=runtime,
        payloads=payloads,
        contents=Contents(payloads, settings.fetch),
        secrets=secrets,
        gateway=gateway,
        programs=around.programs or LoopbackGateway(),
        requests=RequestKeeping(settings.keep_requests or "redacted", settings.keep_requests_of),
        tools=ToolExecutor(secrets, around.threads),
        threads=around.threads,
        workers=workers,
        pool_client=PoolClient(store.lending, store.sessions, around.clock, around.ids.session(), session, scheduler),
        call_pools=CallPools(store.lending, store.sessions, around.clock, around.ids.session(), session, settings.weights),
        models=ModelKnowledge(store.model_estimates, store.clock, around.clock),
        value_turns=ValueTurns(),
        hindrances=BlockedRuns(around.clock, store.clock.now_ms, runtime.membership.describe),
        calls=OutsideCalls(around.clock, runtime.membership.give_up),
        job_logs=JobLogWriter(store.job_logs, around.clock),
        streams=StreamWriter(store.streams, around.clock, listening.nudge),
        listening=listening,
        supervising=Supervising(runtime, payloads, gateway),
        residents=Residents(settings.resident_flows_mb * 1024 * 1024),
        stand_in=around.stand_in,
        script_limits=settings.limits,
        notifications=notifications_of(settings),
        propagation=_propagation(settings),
    )


async def _close(services: StepServices) -> None:
    await services.programs.aclose()
    await services.listening.aclose()
    await services.pool_client.aclose()
    await services.call_pools.aclose()
    await services.models.aclose()


def _propagation(settings: Settings) -> Propagation:
    if settings.telemetry is None:
        return Propagation()
    load_api()
    return Propagation(True, settings.telemetry.sampling)


def _restore(shell: Shell | None) -> Restore:
    """Return the function that reads workflows back from their graphs. The reader is loaded when it is first needed."""

    def restore(definition: Definition) -> Workflow | None:
        from holdfast.actions.jobs.restoration import restored

        return restored(definition) if shell is None else restored(definition, shell)

    return restore
