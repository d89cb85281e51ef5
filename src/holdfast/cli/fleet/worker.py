"""`holdfast worker`: executes every run of some workflows until it is stopped, or nothing is left to do.

Never here: executing (the engine does that).
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from holdfast.cli.connect import WAIT_S, located, mask_passwords, patiently, typed
from holdfast.cli.option import (
    DEFAULT,
    SLOTS,
    THIS_MACHINE,
    AsJson,
    HealthHost,
    Lane,
    MaybeHealthPort,
    Own,
    Store,
    WaitS,
    Yaml,
    grace,
    slots_of,
)
from holdfast.cli.page import log_output, terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.exit_code import OK, WAITING
from holdfast.cli.page.worker_labels import missing_labels, options, required_labels
from holdfast.cli.process.stopping import stopped
from holdfast.errors import UsageError
from holdfast.platform.extra import needs
from holdfast.service import view

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.compose import Engine
    from holdfast.compose.metrics import ProcessMetrics
    from holdfast.core.values.demand import Resources
    from holdfast.engine.fleet.idleness import StrandedRun
    from holdfast.observe.meter import Meter
    from holdfast.ports import Observation
    from holdfast.settings import Settings

_GRACE_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.5
_MAX_SHOWN: Final = 10


def worker(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE.py:WORKFLOW",
            help="Workflows to execute: FILE.py:NAME or FILE.yaml. With --connect: FILE.py:TASKS.",
            show_default=False,
        ),
    ] = None,
    *,
    yaml: Yaml = False,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Stop when every run has ended or waits. Exits with 8 if some cannot continue.")
    ] = False,
    slots: Annotated[int, slots_of("Maximum number of concurrent steps.")] = SLOTS,
    own: Own,
    lane: Lane = DEFAULT,
    grace_s: Annotated[
        float, grace("Time that steps get to finish after a stop signal, in seconds. Then other workers continue.")
    ] = _GRACE_S,
    connect: Annotated[
        str | None,
        typer.Option("--connect", metavar="HOST:PORT[,HOST:PORT]", help="Execute tasks from this server instead of a store."),
    ] = None,
    shell: Annotated[bool, typer.Option("--shell", help="With --connect: also execute jobs of workflow files.")] = False,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of this worker at the server; by default host:pid.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="File with the token for the server.")
    ] = None,
    ca: Annotated[
        Path | None, typer.Option("--ca", metavar="FILE", help="Use TLS, with this authority of the server's certificate.")
    ] = None,
    cert: Annotated[Path | None, typer.Option("--cert", metavar="FILE", help="Client certificate for the server.")] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Private key of the client certificate.")] = None,
    host: HealthHost = THIS_MACHINE,
    port: MaybeHealthPort = None,
    wait_s: WaitS = WAIT_S,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Execute runs of workflows.

    Steps that need labels which this worker lacks are left to other workers. With --connect, the worker needs no store: it
    executes the tasks that a `holdfast serve --grpc` gives it.
    """
    log_output.begin()
    if connect is not None:
        if store is not None or until_idle or as_json or port is not None:
            raise UsageError("A worker with --connect has no store, so --store, --until-idle, --port and --json do not apply.")
        from holdfast.cli.fleet import connected
        from holdfast.wire.capabilities import WorkerCapabilities

        known_as = name or f"{socket.gethostname()}:{os.getpid()}"
        has = own.resources
        offer = WorkerCapabilities(known_as, own.labels, has.tags, slots, has.cpu_m, has.memory_mb, has.gpus)
        how = connected.Connection(connect.split(","), token_file, ca, cert, key, offer)
        connected.work(targets or (), how, shell=shell)
        return OK
    if shell:
        raise UsageError("--shell requires --connect: a worker with a store executes scripts anyway.")
    how_much = WorkerOptions(slots, grace_s, own.labels, own.resources, yaml, lane, wait_s, host, port)
    return _drive(targets or (), how_much, store, until_idle=until_idle, as_json=as_json)


def _drive(targets: Sequence[str], settings: WorkerOptions, store: str | None, *, until_idle: bool, as_json: bool) -> int:
    """Work on a store, and tell what came of it."""
    from holdfast.cli.target import load
    from holdfast.platform.machine import collect_rarely, run_quickly

    workflows = [load(target, to_run=True) for target in targets]
    if not workflows and not settings.yaml:
        raise UsageError("This worker has nothing to execute: name a workflow, or pass --yaml for all YAML workflows.")
    collect_rarely()
    tally = Tally()
    began_s = time.monotonic()
    with terminal.aside():
        left = run_quickly(_work(workflows, tally, until_idle, settings, store))
    took_s = time.monotonic() - began_s
    terminal.say(f"Worked for {took_s:.1f} s: {tally}.")
    if as_json:
        terminal.emit({"seconds": round(took_s, 3), **tally.counts, "left": [each._asdict() for each in left]})
    _tell_of(left, store)
    return WAITING if left else OK


def _tell_of(left: Sequence[StrandedRun], store: str | None) -> None:
    """The runs that are left behind, by what can be done about them."""
    from itertools import groupby

    for (why, name, version, graph_hash), found in groupby(sorted(left, key=_likeness), key=_likeness):
        runs = [each.run for each in found]
        shown_runs = "\n".join([f"  {run}" for run in runs[:_MAX_SHOWN]] + ["  ..."] * (len(runs) > _MAX_SHOWN))
        what = f"{counted(len(runs), 'run')} of {name} {version}"
        if why == "damaged":
            terminal.say(
                f"Left behind: {what}, of which the history cannot be read, or what follows not be stored:\n{shown_runs}"
            )
            continue
        if why == "stuck":
            terminal.say(f"Left behind: {what} that wait for nothing, which is a fault of Holdfast:\n{shown_runs}")
            continue
        terminal.say(
            f"Left behind: {what}, started with another definition of it ({graph_hash:.12}), which no process that lives"
            f" has:\n{shown_runs}\nStart a worker with the code that they were started with, or move each to this one:\n"
            f"  {typed('runs', 'migrate', runs[0], 'FILE.py:WORKFLOW', store=store)}"
        )


def _likeness(left: StrandedRun) -> tuple[str, str, int, str]:
    return (left.why, left.workflow, left.version, left.graph_hash)


_WORK: Final = {
    "steps": ("step", "steps"),
    "tool_calls": ("tool call", "tool calls"),
    "model_calls": ("model call", "model calls"),
    "asked": ("question asked", "questions asked"),
    "completed": ("run completed", "runs completed"),
    "failed": ("run failed", "runs failed"),
    "cancelled": ("run cancelled", "runs cancelled"),
    "handed_over": ("step handed over", "steps handed over"),
}
"""The names of what a worker counts, for one and for several."""


class Tally:
    """Counts of what happened at this worker: of a flow, its steps and calls."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(_WORK, 0)

    def __str__(self) -> str:
        return ", ".join(counted(self.counts[name], *words) for name, words in _WORK.items() if self.counts[name]) or "nothing"

    def __call__(self, observation: Observation) -> None:
        """Count what a commit did, and print what a person should know."""
        from holdfast.cli.next_steps import about
        from holdfast.cli.page.event_words import failure
        from holdfast.core.facts import events as ev
        from holdfast.core.facts.graph import FLOW
        from holdfast.core.facts.state import FUNCTION
        from holdfast.core.values.ids import node_of
        from holdfast.ports import EventsCommitted

        if not isinstance(observation, EventsCommitted):
            return
        state = observation.state
        for event in observation.events:
            match event:
                case ev.StepCompleted() if node_of(event.step) != FLOW:
                    self.counts["steps"] += 1
                case ev.ValueRecorded() if event.kind == FUNCTION:
                    self.counts["steps"] += 1
                case ev.EffectCompleted():
                    self.counts["tool_calls"] += 1
                case ev.ModelCallSettled():
                    self.counts["model_calls"] += 1
                case ev.StepSuspended(yields=True):
                    self.counts["handed_over"] += 1
                case ev.RunCompleted():
                    self.counts["completed"] += 1
                case ev.RunCancelled():
                    self.counts["cancelled"] += 1
                case ev.RunFailed():
                    self.counts["failed"] += 1
                    terminal.say(f"{state.run} failed: {failure(event.error)}")
                case ev.GateOpened():
                    self.counts["asked"] += 1
                    asked = ", ".join(event.reviewers) or "anyone"
                    terminal.say(f"{state.run} asks {asked}: {about(view.facts(event))}")
                case _:
                    pass


class WorkerOptions(NamedTuple):
    """Settings of a worker: how much it takes, and of what."""

    slots: int
    grace_s: float
    labels: Sequence[str]
    resources: Resources
    yaml: bool
    lane: str
    wait_s: float
    host: str
    port: int | None
    """Where it answers about its health; None: nowhere."""


async def _work(
    workflows: Sequence[Workflow], tally: Tally, until_idle: bool, settings: WorkerOptions, store: str | None
) -> Sequence[StrandedRun]:
    """The runs that are left behind, where it was to work until it is idle."""
    from holdfast.cli.process import job_log
    from holdfast.compose import Engine

    where, known = located(store)
    slots, grace_s, labels, own, yaml, lane, wait_s, *_ = settings
    meter = None
    if settings.port is not None or (known.telemetry is not None and known.telemetry.metrics_every_s is not None):
        from holdfast.observe.meter import Meter

        meter = Meter()
    _check_labels(workflows, settings)
    opening = partial(
        Engine.open,
        where,
        workflows=workflows,
        slots=slots,
        labels=labels,
        resources=own,
        yaml=yaml,
        lane=lane,
        settings=known,
        grace_s=grace_s,
        observers=[tally, *([] if meter is None else [meter])],
    )
    async with patiently(opening, wait_s) as engine, _metrics(engine, where, known, settings, meter):
        _greet(where, workflows, settings)
        stop = stopped(f"nothing new is taken. Steps that run get {grace_s:g} s to finish; then they are handed over")
        waits: list[asyncio.Future[Any]] = [stop]
        idle = asyncio.ensure_future(engine.idle()) if until_idle else None
        if idle is not None:
            waits.append(idle)
        with _glance() as glance, job_log.show_job_output(with_run=True):
            while not any(wait.done() for wait in waits):
                if engine.broken is not None:
                    raise engine.broken
                glance(f"running: {engine.working}; {tally}")
                await asyncio.wait(waits, timeout=_LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            if wait.done():
                wait.result()
            wait.cancel()
        await asyncio.wait(waits)
        return idle.result() if idle is not None and not idle.cancelled() else ()


@asynccontextmanager
async def _metrics(
    engine: Engine, location: str, loaded: Settings, settings: WorkerOptions, meter: Meter | None
) -> AsyncIterator[None]:
    """Push metrics and answer on the health port meanwhile, as far as each is asked for. Raises UsageError for a port that is
    taken."""
    if meter is None:
        yield
        return
    from holdfast.compose.metrics import ProcessMetrics, look_of_engine, of_engine, pushing

    metrics = ProcessMetrics(meter, [partial(of_engine, engine)], [look_of_engine(engine)])
    async with pushing(metrics, loaded, location, engine.runtime.store.clock.now_ms), _health(engine, settings, metrics):
        yield


@asynccontextmanager
async def _health(engine: Engine, settings: WorkerOptions, metrics: ProcessMetrics) -> AsyncIterator[None]:
    if settings.port is None:
        yield
        return
    with needs("fleet", "`holdfast worker --port`"):
        from holdfast.observe.health import Health
        from holdfast.observe.readiness import Readiness

    health = Health(Readiness(lambda: engine.broken, lambda: engine.runs(limit=1)), metrics.samples)
    async with health.listening(settings.host, settings.port) as port:
        terminal.say(f"Health and metrics on http://{settings.host}:{port}.")
        yield


def _check_labels(workflows: Sequence[Workflow], settings: WorkerOptions) -> None:
    """Raises UsageError where each workflow asks for a label that this worker lacks."""
    if settings.yaml or any(not missing_labels(workflow.runs_on, settings.labels) for workflow in workflows):
        return
    words = " ".join(options(label for workflow in workflows for label in missing_labels(workflow.runs_on, settings.labels)))
    raise UsageError(
        f"This worker has nothing to execute: its workflows require labels that it lacks. If it has them, pass {words}."
    )


def _greet(place: str, workflows: Sequence[Workflow], settings: WorkerOptions) -> None:
    """Say what it takes, and what it leaves to others."""
    taken, left = list[str](), list[str]()
    for workflow in workflows:
        name = f"{workflow.name} {workflow.version}"
        if missing := missing_labels(workflow.runs_on, settings.labels):
            left.append(f"{name} is left to workers with {', '.join(missing)}.")
            continue
        taken.append(name)
        if missing := missing_labels(required_labels(workflow), settings.labels):
            left.append(f"{name}: steps that ask for {', '.join(missing)} are left to other workers.")
    names = ", ".join([*taken, *["workflows in YAML"] * settings.yaml])
    terminal.say(f"Worker on {mask_passwords(place)}: {names}; {counted(settings.slots, 'slot')}. Ctrl-C or SIGTERM stops it.")
    for line in left:
        terminal.say(line)


@contextmanager
def _glance() -> Iterator[Any]:
    """A line that says how it goes, at a terminal."""
    if not terminal.is_live():
        yield lambda words: None
        return
    with terminal.messages().status("") as line:
        yield line.update


EXAMPLES: Final = {"worker": "refund.py:refund --until-idle"}
