"""The composition root: the only file that names every adapter; and `Engine`, which users hold.

Never here: a rule, SQL, anything that a user's test would want to replace without being able to.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from holdfast import settings as settings_
from holdfast.authoring.workflow import Workflow
from holdfast.blobs.moved import Moved
from holdfast.core import commands as cmd
from holdfast.core.costs import Cost
from holdfast.core.demand import Resources
from holdfast.core.estimates import Estimate
from holdfast.core.events import Recorded
from holdfast.core.ids import CallId, GateId, RunId, StepId, run_of
from holdfast.core.lanes import DEFAULT, Rule
from holdfast.core.lanes import Lanes as RunLanes
from holdfast.core.lending import Counted, DeclaredPool, Share
from holdfast.core.money import nanousd
from holdfast.core.payload import digest
from holdfast.core.projection import EffectChange, EffectRow, GateChange, GateRow, RunRow
from holdfast.core.questions import EFFECT_UNKNOWN, WORKFLOW_MISSING
from holdfast.core.scopes import (
    FLEET_RUNS,
    PERIODS,
    Period,
    ScopeRow,
    Waiting,
    money_family,
    owner_scopes,
    tenant_runs,
    with_room,
)
from holdfast.core.state import State
from holdfast.core.status import Wait, status
from holdfast.engine import explaining
from holdfast.engine.adoption import Adoption, Restore
from holdfast.engine.dispatch import Dispatch
from holdfast.engine.driver import Driver
from holdfast.engine.explaining import Waits
from holdfast.engine.leader import LEASE_S, Leader
from holdfast.engine.payloads import encode
from holdfast.engine.placing import in_line
from holdfast.engine.rollup import count_some
from holdfast.engine.stored_line import StoredLine
from holdfast.engine.sweep import Sweep
from holdfast.errors import Conflict, InvalidInput, KeyReused, NotFound, RunFailed, UsageError
from holdfast.machine import MachineClock, RandomIds
from holdfast.machine import resources as resources_of_machine
from holdfast.models.gateway import Gateway
from holdfast.models.prices import DeclaredPrice, Prices
from holdfast.models.providers import Providers
from holdfast.models.quota import Limits, Quotas
from holdfast.pools.book import Book
from holdfast.pools.borrower import Borrower
from holdfast.ports import (
    Administration,
    BlobPlace,
    Clock,
    Hands,
    Ids,
    Lanes,
    Model,
    PlacedStep,
    PoolAuthority,
    Queue,
    Store,
)
from holdfast.ports import Threads as ThreadsPort
from holdfast.queues.none import NoQueue
from holdfast.scheduling.job import Strategy
from holdfast.settings import RedactedLog, Secrets, Settings
from holdfast.threads import Threads
from holdfast.tools.executor import ToolExecutor

log = logging.getLogger("holdfast")

DEFAULT_SLOTS: Final = 100
NOT_GIVEN: Final = object()
"""No data, as opposed to the data null."""
DEFAULT_TENANT: Final = "default"
MOST_THREADS: Final = 64
_POSTGRES: Final = ("postgresql://", "postgres://")
_REDIS: Final = ("redis://", "rediss://", "unix://", "valkey://")
MOST_LISTED: Final = 100
_SQLITE: Final = re.compile(r"sqlite:///(?P<path>.+)\Z")
_FOLDER: Final = re.compile(r"file://(?P<path>/.+)\Z")
_BUCKET: Final = re.compile(r"s3://(?P<bucket>[^/?#]+)(/(?P<prefix>[^?#]*))?\Z")
_LOOK_AGAIN_S: Final = 30.0
_SOON_MS: Final = 30_000
"""What falls due later than this does not keep a process waiting that was asked to stop when idle."""
_MOST_SOON: Final = 100
_IDLE_LOOK_S: Final = 0.02
_BURST_PART: Final = 10
"""Of a minute's rate, what goes out at once unless said otherwise is what six seconds let out; of a second's, a tenth."""


async def open_store(
    where: str | Path, elsewhere: BlobPlace | None = None, *, lease_s: float = settings_.LEASE_S
) -> Store:
    """The store at `postgresql://…`, at `sqlite:///PATH` or at a plain path. Raises StoreError when it cannot be used.

    `elsewhere` is where archives are besides the store's own table, as `open_blobs` says. `lease_s` is how long a
    session of this process lives without renewal.
    """
    text = str(where)
    if text.startswith(_POSTGRES):
        opened: Store = await _postgres().PostgresStore.connect(text, lease_s=lease_s, elsewhere=elsewhere)
        return opened
    from holdfast.stores.sqlite import SqliteStore

    return await SqliteStore.connect(_path_of(text), lease_s=lease_s)


async def open_administration(where: str | Path, elsewhere: BlobPlace | None = None) -> Administration:
    """The administration of the store that `where` names as for `open_store`; its tables may be of another version."""
    text = str(where)
    if text.startswith(_POSTGRES):
        opened: Administration = await _postgres().PostgresAdministration.connect(text, elsewhere)
        return opened
    from holdfast.stores.sqlite.administration import SqliteAdministration

    return await SqliteAdministration.connect(_path_of(text))


def _path_of(where: str) -> Path:
    matched = _SQLITE.match(where)
    if matched is None and "://" in where:
        raise UsageError(
            f"{where!r} is no store that this Holdfast knows; use sqlite:///PATH or postgresql://USER@HOST/DATABASE."
        )
    return Path(matched["path"] if matched is not None else where)


def _postgres() -> Any:
    """What a PostgreSQL store needs, loaded when somebody names one."""
    try:
        from holdfast.stores import postgres
    except ModuleNotFoundError as problem:
        raise UsageError(
            f"{problem.name} is not installed, which a PostgreSQL store needs: pip install 'holdfast[fleet]'."
        ) from None
    return postgres


def open_queue(url: str | None, lane: str = DEFAULT) -> Queue:
    """The queue at `redis://…` for a process of `lane`; it need not be there yet. None where nothing is named. Raises
    UsageError."""
    if url is None:
        return NoQueue()
    if not url.startswith(_REDIS):
        raise UsageError(f"{url!r} is no queue that this Holdfast knows; use redis://HOST:PORT/DB.")
    try:
        from holdfast.queues.redis import RedisQueue

        return RedisQueue(url, lane=lane)
    except ModuleNotFoundError as problem:
        raise UsageError(
            f"{problem.name} is not installed, which a queue on Redis needs: pip install 'holdfast[fleet]'."
        ) from None
    except ValueError as problem:
        raise UsageError(f"The queue's URL {url!r} cannot be used: {problem}. Nothing was opened.") from None


class _Led:
    """The lane of a worker, as its sweep asks about it."""

    def __init__(self, lanes: Lanes, lane: str) -> None:
        self._lanes = lanes
        self._lane = lane

    async def is_led(self) -> bool:
        return await self._lanes.is_led(self._lane)


def open_blobs(where: str, secrets: Secrets) -> BlobPlace | None:
    """Where payloads over 64 KiB go, as settings name it; None for the store's own table.

    Raises UsageError for a place that cannot be named so, StoreError for one that cannot be used.
    """
    if where == "store":
        return None
    if (folder := _FOLDER.match(where)) is not None:
        from holdfast.blobs.folder import Folder

        return Folder.open(Path(unquote(folder["path"])))
    bucket = _BUCKET.match(where)
    parts = [part for part in (bucket["prefix"] or "").split("/") if part] if bucket is not None else []
    if bucket is None or not {".", ".."}.isdisjoint(parts):
        raise UsageError(
            f"{where!r} is no place for large payloads; HOLDFAST_BLOBS is store, file:///FOLDER or s3://BUCKET/PREFIX."
            " Nothing was started."
        )
    from holdfast.blobs.bucket import CREDENTIALS, Bucket

    credentials = {name: secrets.get(name) for name in CREDENTIALS if secrets.has(name)}
    return Bucket.open(bucket["bucket"], "/".join(parts), credentials)


class Run:
    """A handle on a run: it can be asked and waited for, from any process."""

    def __init__(self, engine: Engine, run: RunId) -> None:
        self._engine = engine
        self.id: str = run
        self._run = run

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    async def state(self) -> State:
        """The folded state, with everything committed by now."""
        return await self._engine.driver.state(self._run)

    async def status(self) -> str:
        return status(await self.state())

    async def result(self) -> Any:
        """Wait for the end; the run's output. Raises RunFailed if it failed or was cancelled (its error is attached)."""
        state = await self._until(lambda state: bool(state.ended), look=False)
        if state.ended == "completed":
            return await self._engine.output(state)
        error = state.error
        why = error.message if error is not None else state.reason
        raise RunFailed(f"Run {self.id} {state.ended}: {why}", run=self.id, status=state.ended, error=error)

    async def until(self, met: Callable[[State], bool]) -> State:
        """Wait until `met(state)` holds; the state in which it does. `met` is asked after every commit."""
        return await self._until(met, look=True)

    async def _until(self, met: Callable[[State], bool], *, look: bool) -> State:
        """`look`: what was heard here of the run may be out of date by what another process has just committed, and
        `met` may hold of it no longer."""
        driver = self._engine.driver
        async with driver.watch(self._run, met) as changed:
            changed.elsewhere = look
            while True:
                changed.clear()
                look, changed.elsewhere = changed.elsewhere, False
                state = await driver.state(self._run, look=look)
                changed.seq = state.seq
                if met(state):
                    return state
                if driver.broken is not None:
                    raise driver.broken
                try:
                    async with asyncio.timeout(_LOOK_AGAIN_S):  # wait_for may swallow that somebody cancels the wait
                        await changed.wait()
                except TimeoutError:
                    changed.elsewhere = True  # a commit elsewhere may not have been told

    async def settled(self) -> State:
        """Wait until the run has ended or waits for somebody: a person, a signal, money, a pause."""
        return await self.until(needs_somebody)

    async def events(self, after: int = 0, limit: int | None = None) -> Sequence[Recorded]:
        """The history after the event `after`, at most `limit` of it."""
        return await self._engine.driver.store.events(self._run, after, limit)


def needs_somebody(state: State) -> bool:
    """Whether the run goes no further by itself: it has ended, is paused, or waits for more than time."""
    now = status(state)
    if now in ("running", "waiting"):
        timed = any(state.steps[name].status == "retrying" for name in state.unfinished) or any(
            (op.status == "open" and op.kind == "sleep") or op.status == "deferred"
            for name in state.unfinished
            for _, op in state.steps[name].unsettled()
        )
        timed = timed or state.awaits is not None
        return now == "waiting" and not timed and not any(due is not None for due in state.joins.values())
    return True


class Surroundings(NamedTuple):
    """What a process finds around itself. The machine's own are `Surroundings.of_machine`; a simulation has others."""

    clock: Clock
    ids: Ids
    threads: ThreadsPort
    prices: Prices
    label: str
    resources: Resources = Resources()

    @classmethod
    def of_machine(cls, slots: int, declared: Mapping[str, settings_.DeclaredModel]) -> Surroundings:
        return cls(
            clock=MachineClock(), ids=RandomIds(), threads=Threads(min(slots, MOST_THREADS)),
            prices=Prices({name: _price(each) for name, each in declared.items()}),
            label=f"{socket.gethostname()}:{os.getpid()}", resources=resources_of_machine(),
        )  # fmt: skip


@asynccontextmanager
async def leading(
    store: str, *, settings: Settings | None = None, lane: str = DEFAULT
) -> AsyncIterator[Leader]:  # fmt: skip
    """A process that leads a lane of the fleet while nobody else does. It runs no steps and holds no workflow.

    Raises UsageError for a store that no fleet can share, StoreError when it cannot be used.
    """
    known = settings if settings is not None else settings_.load()
    if not store.startswith(_POSTGRES):
        raise UsageError(
            "A fleet shares a PostgreSQL store; on SQLite the workers of one machine need nobody to lead them."
        )
    lanes = _lanes(known, lane)
    queue = open_queue(known.queue, lane)
    opened: Any = await _postgres().PostgresStore.connect(store, lease_s=LEASE_S)
    secrets = Secrets(known.secrets_file)
    around = Surroundings.of_machine(1, {})
    providers = Providers({})
    driver = Driver(
        opened, opened, clock=around.clock, ids=around.ids, secrets=secrets,
        gateway=Gateway(providers, around.prices, Quotas({}, None, around.clock)),
        executor=ToolExecutor(secrets, around.threads), threads=around.threads, label=around.label, executes=True, slots=1,
        lanes=lanes, lane=lane,
    )  # fmt: skip
    leader = Leader(driver, opened, queue, strategy=known.placement, weights=known.weights)
    try:
        leader.start()
        yield leader
    finally:
        await leader.aclose()
        await driver.aclose()
        await driver.let_session_go()
        await providers.aclose()
        around.threads.close()
        await queue.aclose()
        await opened.aclose()


class Engine:
    """Starts, drives and decides runs in one process, on one store."""

    def __init__(self, driver: Driver, sweep: Sweep, providers: Model, adoption: Adoption | None) -> None:
        self.driver = driver
        self._adoption = adoption
        self._sweep = sweep
        self._providers = providers

    @classmethod
    @asynccontextmanager
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
        labels: Collection[str] = (),
        resources: Resources | None = None,
        strategy: Strategy | None = None,
        lane: str = DEFAULT,
        yaml: bool = False,
        hands: Hands | None = None,
        surroundings: Surroundings | None = None,
    ) -> AsyncIterator[Engine]:
        """An engine on `store` (`sqlite:///PATH`, a path, or an open store) that takes up the runs of `workflows`.

        At most `slots` steps run at once. A workflow whose `runs_on` names a label that is not among `labels` is left to
        other processes; so is a step whose demand asks for labels or tags that it has not. What demands CPU, memory or GPUs
        takes them of `resources` (the machine's cores and memory, unless given). Among connected workers that fit the
        `strategy` chooses (the settings' `placement`, unless given). Of the runs that others started it takes those of its
        `lane`. With `yaml` it takes up every run of a workflow in YAML
        as well: the store knows all of those. With `execute=False` it only starts, asks and decides; other processes work.
        `hands` are the workers that are connected to this process and do remote tasks.
        `model` stands in for the providers, `queue` for the one that the settings name, `surroundings` for the machine.
        At the end, steps that still run get `grace_s` to finish; the rest is handed over. Raises InvalidWorkflow, and
        StoreError when the store cannot be used.
        """
        if slots < 1:
            raise UsageError(f"slots={slots}: an engine needs at least one.")
        known = settings if settings is not None else settings_.load()
        if resources is not None and (wrong := list(resources.problems())):
            raise UsageError(f"The resources cannot be used: {'; '.join(wrong)}. Nothing was started.")
        for workflow in workflows:
            workflow.graph  # noqa: B018 - a broken workflow must be told before anything is opened
        lanes = _lanes(known, lane)
        secrets = Secrets(known.secrets_file)
        elsewhere = open_blobs(known.blobs, secrets)
        clean_log = RedactedLog(secrets)
        declared = known.models
        served_by = {name: each.provider for name, each in declared.items() if each.provider is not None}
        providers: Any = model or Providers(served_by)
        around = surroundings if surroundings is not None else Surroundings.of_machine(slots, declared)
        quotas = _quotas(known, store, served_by, around)
        opened = await open_store(store, elsewhere, lease_s=known.lease_s) if isinstance(store, str | Path) else store
        driver = Driver(
            opened, Moved(elsewhere, opened) if elsewhere is not None else opened, clock=around.clock, ids=around.ids,
            secrets=secrets, gateway=Gateway(providers, around.prices, quotas),
            executor=ToolExecutor(secrets, around.threads), threads=around.threads, label=around.label,
            executes=execute, slots=slots, labels=labels, hands=hands,
            resources=resources if resources is not None else around.resources,
            strategy=known.placement if strategy is None else strategy, weights=known.weights,
            lanes=lanes, lane=lane,
        )  # fmt: skip
        hints = queue if queue is not None else open_queue(known.queue, lane)
        is_fleet = not isinstance(hints, NoQueue)
        led = _Led(opened, lane) if is_fleet and isinstance(opened, Lanes) else None
        adoption = Adoption(driver, _restore()) if yaml and execute else None
        sweep = Sweep(driver, workflow_grace_s=known.workflow_grace_s, lane=led, adoption=adoption)
        dispatch = Dispatch(driver, hints)
        if is_fleet:
            driver.others = dispatch
        engine = cls(driver, sweep, providers, adoption)
        log.addFilter(clean_log)
        try:
            for workflow in workflows:
                await driver.add(workflow)
            await driver.hold_session()
            if execute:
                driver.desk.start(driver.give_up)
            sweep.start()
            if is_fleet:
                dispatch.start()
            yield engine
        finally:
            await sweep.aclose()
            await driver.aclose(grace_s)
            await dispatch.aclose()
            if queue is None:
                await hints.aclose()
            await driver.let_session_go()
            await quotas.aclose()
            if model is None:
                await providers.aclose()
            around.threads.close()
            if isinstance(store, str | Path):
                await opened.aclose()
            log.removeFilter(clean_log)

    # --- Starting and finding ----------------------------------------------------------------------------------------

    async def start(
        self,
        workflow: Workflow,
        input: Any = None,  # noqa: A002 - the word of the public surface
        *,
        tenant: str = DEFAULT_TENANT,
        cost_limit_usd: float | str | Decimal | None = None,
        team: str | None = None,
        key: str | None = None,
        by: str | None = None,
        queue: bool = False,
    ) -> Run:
        """Start a run, durably: when this returns it survives anything. `by` is who asks (for four eyes).

        What it spends counts in the limits of its `tenant` and, where given, of the tenant's `team` (see `set_budget`).
        The same `key` again returns the same run; with another input it raises KeyReused. Raises InvalidInput, and
        TooManyRuns (`retry_after_s`) where as many runs are active as may be; with `queue` the run is recorded instead,
        and begins when there is a place, in the order of arrival (see `set_admission`).
        """
        driver = self.driver
        valid = workflow.validated_input(input)
        try:
            encoded = encode(valid)  # refuse what cannot be stored before anything is
        except InvalidInput as problem:
            raise InvalidInput(f"The input of {workflow.name!r}: {problem.message} No run was started.") from None
        tenant, key = _word("tenant", tenant), None if key is None else _word("key", key)
        team = None if team is None else _word("team", team)
        try:
            limit = None if cost_limit_usd is None else nanousd(cost_limit_usd)
        except ValueError as problem:
            raise InvalidInput(f"The cost limit cannot be used: {problem}. No run was started.") from None
        await driver.add(workflow)
        input_digest = digest([workflow.name, encoded.decode()])
        if key is not None and (known := await driver.store.run_of_key(tenant, key)) is not None:
            return self._same(key, known, input_digest)
        mailbox = driver.new_run(workflow)
        payload = await driver.payloads.keep(valid, tenant, driver.store.now_ms())
        start = cmd.StartRun(
            mailbox.run, tenant, payload, input_digest, limit, key, self._clean(by), driver.gateway.price_fingerprint,
            team, queue,
        )  # fmt: skip
        try:
            await mailbox.send(start)
        except KeyReused as taken:
            known = await driver.store.run_of_key(tenant, key or "")
            if known is None:
                raise taken from None
            return self._same(key or "", known, input_digest)
        return Run(self, mailbox.run)

    def _same(self, key: str, known: tuple[RunId, str], input_digest: str) -> Run:
        run, digest_then = known
        if digest_then != input_digest:
            raise KeyReused(
                f"The key {key!r} has started run {run} with another input. Nothing was started: use another key.",
                run=run,
            )
        return Run(self, run)

    def run(self, run_id: str) -> Run:
        return Run(self, RunId(run_id))

    async def workers_of(self, workflow: Workflow) -> int:
        """How many living processes can run this very version of `workflow`; 0 where no fleet shares the store."""
        store = self.driver.store
        return await store.able(workflow.hash) if isinstance(store, Lanes) else 0

    async def find(self, run_id: str) -> RunRow:
        """The run's row. Raises NotFound."""
        row = await self.driver.store.run(RunId(run_id))
        if row is None:
            raise NotFound(f"There is no run {run_id} in this store; `holdfast runs list` shows those that are.")
        return row

    async def runs(self, **filters: Any) -> Sequence[RunRow]:
        return await self.driver.store.runs(**filters)

    async def gates(
        self, run_id: str | None = None, *, open_only: bool = True
    ) -> Sequence[tuple[GateRow, GateChange | None]]:
        return await self.driver.store.gates(run=RunId(run_id) if run_id else None, open_only=open_only)

    async def effects(
        self, run_id: str | None = None, *, state: str | None = None
    ) -> Sequence[tuple[EffectRow, EffectChange | None]]:
        return await self.driver.store.effects(run=RunId(run_id) if run_id else None, state=state)

    async def output(self, state: State) -> Any:
        """What a completed run returned."""
        payloads = self.driver.payloads
        if state.parts:
            return {name: await payloads.value(part, state.tenant) for name, part in state.parts.items()}
        return await payloads.value(state.output, state.tenant)

    # --- Deciding ----------------------------------------------------------------------------------------------------

    async def decide(
        self,
        gate_id: str,
        decision: str = "approve",
        data: Any = NOT_GIVEN,
        *,
        by: str | None = None,
        reason: str | None = None,
        shown_hash: str | None = None,
    ) -> None:
        """Answer a gate: `approve`, `edit`, `reject`, `answer` or `retry`. `shown_hash` binds it to what was seen.

        Raises AlreadyDecided (who was first), InvalidDecision, NotFound, Conflict when something else is shown.
        """
        gate = GateId(gate_id)
        given = data is not NOT_GIVEN
        plain = self.driver.payloads.plain(data) if given else None
        command = cmd.DecideGate(gate, decision, plain, self._clean(by), self._clean(reason), shown_hash, given)
        await self.driver.send(run_of(gate), command)

    async def signal(self, run_id: str, name: str, data: Any = None, *, by: str | None = None) -> None:
        """Send a run a signal; it is kept until a step asks for it."""
        driver = self.driver
        run = await self.find(run_id)
        payload = await driver.payloads.keep(data, run.tenant, max(driver.store.now_ms(), run.started_at_ms))
        await driver.send(run.run, cmd.SendSignal(_word("name of the signal", name), payload, self._clean(by)))

    async def pause(self, run_id: str, *, by: str | None = None) -> None:
        await self.driver.send(RunId(run_id), cmd.PauseRun(self._clean(by)))

    async def resume(self, run_id: str, *, by: str | None = None) -> None:
        await self.driver.send(RunId(run_id), cmd.ResumeRun(self._clean(by)))

    async def cancel(self, run_id: str, *, reason: str = "cancelled", by: str | None = None) -> None:
        command = cmd.CancelRun(self.driver.payloads.redact(reason), self._clean(by))
        await self.driver.send(RunId(run_id), command)

    async def extend(self, run_id: str, limit: str, value: int, *, by: str | None = None) -> None:
        """Raise a limit: `steps`, `tokens`, `active` or `lifespan` (seconds), `cost` (nano-dollars)."""
        await self.driver.send(RunId(run_id), cmd.RaiseLimit(limit, value, self._clean(by)))

    async def raise_budget(self, run_id: str, limit_usd: float | str | Decimal, *, by: str | None = None) -> None:
        try:
            value = nanousd(limit_usd)
        except ValueError as problem:
            raise InvalidInput(f"The limit cannot be used: {problem}.") from None
        await self.extend(run_id, "cost", value, by=by)

    async def set_budget(
        self, tenant: str, period: Period, limit_usd: float | str | Decimal | None, *, team: str | None = None
    ) -> None:
        """Limit what all runs of a tenant, or of one of its teams, may spend in each `day` or `month` (UTC); None: no
        limit. It holds at once and for every process; what is spent already is not taken back."""
        try:
            amount = None if limit_usd is None else nanousd(limit_usd)
        except ValueError as problem:
            raise InvalidInput(f"The limit cannot be used: {problem}. Nothing was changed.") from None
        family = money_family(_word("tenant", tenant), None if team is None else _word("team", team), period)
        await self.driver.store.set_limit(family, amount)

    async def budgets(self, tenant: str, *, team: str | None = None) -> Mapping[Period, ScopeRow]:
        """The books of a tenant, or of one of its teams: of this day and of this month."""
        store = self.driver.store
        scopes = owner_scopes(_word("tenant", tenant), None if team is None else _word("team", team), store.now_ms())
        return dict(zip(PERIODS, await store.scopes(scopes), strict=True))

    async def set_admission(self, runs: int | None, *, tenant: str | None = None) -> None:
        """Cap how many runs of a tenant, or of all together, may be active at once; None: no cap. A run is active from
        its admission to its end, also while it waits for people. What is active already stays so."""
        if runs is not None and runs < 0:
            raise InvalidInput(f"{runs} runs cannot be active; give a number from 0, or none. Nothing was changed.")
        scope = FLEET_RUNS if tenant is None else tenant_runs(_word("tenant", tenant))
        await self.driver.store.set_limit(scope, runs)

    async def admission(self, tenant: str | None = None) -> ScopeRow:
        """How many runs of a tenant, or of all together, are active (`held`), and how many may be."""
        scope = FLEET_RUNS if tenant is None else tenant_runs(_word("tenant", tenant))
        (row,) = await self.driver.store.scopes([scope])
        return row

    async def set_pool(
        self, name: str, *, slots: int | None = None, rate: int | None = None, per_s: int | None = None,
        burst: int | None = None, counts: Counted | None = None, of: str | None = None,
    ) -> DeclaredPool:  # fmt: skip
        """Declare a pool that steps ask amounts of, or replace what was said of it: `slots` at a time, or a `rate` of so
        many in `per_s` seconds (1), `burst` of them at once (a tenth). `counts` says what a unit is at the provider of the
        model, or at the provider, `of`: requests, tokens, input_tokens or output_tokens.

        It holds at once and for every process. Raises InvalidInput.
        """
        if (slots is None) == (rate is None):
            raise InvalidInput(f"Pool {name!r} needs either slots or a rate. Nothing was changed.")
        name, of = _word("name of the pool", name), None if of is None else _word("name", of)
        if rate is None:
            pool = DeclaredPool(name, "slots", slots or 0, per_s or 0, burst or 0, counts, of)
        else:
            at_once = max(1, rate // _BURST_PART) if burst is None else burst
            pool = DeclaredPool(name, "rate", rate, 1 if per_s is None else per_s, at_once, counts, of)
        if problems := list(pool.problems()):
            raise InvalidInput(f"Pool {name!r:.130} cannot be declared: {'; '.join(problems)}. Nothing was changed.")
        await self.driver.store.set_pool(pool)
        return pool

    async def remove_pool(self, name: str) -> None:
        """Remove a pool; steps that ask for it wait until it is declared again. Raises NotFound."""
        if not await self.driver.store.remove_pool(_word("name of the pool", name)):
            raise _no_pool(name)

    async def pools(self) -> Sequence[DeclaredPool]:
        """All pools that steps can ask amounts of, by name."""
        return await self.driver.store.pools()

    async def pool(self, name: str) -> DeclaredPool:
        """One of them. Raises NotFound."""
        found = next((pool for pool in await self.pools() if pool.name == name), None)
        if found is None:
            raise _no_pool(name)
        return found

    async def pool_shares(self, name: str) -> Sequence[Share]:
        """Who has how much of a pool now."""
        return await self.driver.store.pool_shares(_word("name of the pool", name))

    async def pool_estimates(self, name: str) -> Sequence[Estimate]:
        """What steps of each node are thought to take of a pool."""
        return await self.driver.store.estimates(pool=_word("name of the pool", name))

    async def line(self) -> Sequence[PlacedStep]:
        """The steps that wait for a worker or a pool, longest first."""
        return await explaining.line(self.driver.store)

    async def why(self, run_id: str, step: str | None = None) -> Sequence[Waits]:
        """What the steps of a run wait for before they can start, or one of them (`draft#1`). Raises NotFound."""
        row = await self.find(run_id)
        return await explaining.waits_of(self.driver.store, row.run, None if step is None else StepId(step))

    async def roll_up_costs(self) -> None:
        """Bring the roll-up of costs up to date, with all that is known now. Sweeps do so once a day."""
        store = self.driver.store
        after = await count_some(store, store.now_ms() + 1, None)
        while after is not None:
            after = await count_some(store, store.now_ms() + 1, after)

    async def costs(self, first_day: str, last_day: str, *, tenant: str | None = None) -> Sequence[Cost]:
        """What model calls of these days (`2026-11-21`, UTC) cost, as of the last roll-up."""
        return await self.driver.store.costs(first_day, last_day, tenant=tenant)

    async def waiting(self, scopes: Sequence[str]) -> Sequence[Waiting]:
        """The runs that wait for room in these scopes, longest first."""
        return await self.driver.store.waiting(scopes, MOST_LISTED)

    async def reconcile(self, call: str, cost_usd: float | str | Decimal, *, by: str | None = None) -> None:
        """Say what a model call in doubt really cost, as the provider's bill shows it."""
        id_ = CallId(call)
        try:
            value = nanousd(cost_usd)
        except ValueError as problem:
            raise InvalidInput(f"The cost cannot be used: {problem}. Nothing was reconciled.") from None
        await self.driver.send(run_of(id_), cmd.ReconcileCall(id_, value, self._clean(by)))

    async def resolve_effect(
        self, call: str, decision: str, response: Any = NOT_GIVEN, *, by: str | None = None, reason: str | None = None
    ) -> None:
        """Say what became of a call of unknown outcome: `answer` (it happened), `reject` (not), `retry` (again)."""
        id_ = CallId(call)
        state = await self.driver.state(run_of(id_))
        for gate_id, gate in state.gates.items():
            if gate.opened.reason == EFFECT_UNKNOWN and gate.opened.subject == call:
                await self.decide(gate_id, decision, response, by=by, reason=reason)
                return
        raise Conflict(f"Nobody asks about the call {call}: `holdfast effects list` shows what became of it.")

    async def migrate(self, run_id: str, workflow: Workflow, *, by: str | None = None) -> None:
        """Have a run go on with another definition of its workflow."""
        await self.driver.add(workflow)
        await self.driver.send(RunId(run_id), cmd.MigrateRun(self._clean(by)), workflow.graph)

    def _clean(self, text: str | None) -> str | None:
        """What a person typed, without the values of secrets."""
        return None if text is None else self.driver.payloads.redact(text)

    # --- Working -----------------------------------------------------------------------------------------------------

    async def idle(self) -> None:
        """Wait until this process has nothing to do and nothing will fall due soon: all runs have ended or wait."""
        driver = self.driver
        while True:
            if driver.broken is not None:
                raise driver.broken
            if not driver.at_work and not await self._work_soon() and not driver.at_work:
                return  # what began while the store was asked was no longer due, and is seen here
            await driver.clock.sleep(_IDLE_LOOK_S)

    async def _may_place(self) -> bool:
        """Whether a step that waits for a place could have one here, also one that the sweep has not come by yet."""
        driver = self.driver
        line = StoredLine(driver.store, driver.clock, lambda each: each.graph_hash in driver.workflows)
        found = await line.look()
        while True:
            driver.placing.find(in_line(found.runs))
            if found.all_since_s is not None:
                break
            found = await line.look()
        await asyncio.sleep(0)  # what can be placed is placed after this turn of the loop
        return driver.placing.kept > 0 or driver.placing.hopeful()

    async def _work_soon(self) -> bool:
        """Whether a step of its workflows is lost, ready, or due soon; that a person is to be reminded is no work."""
        store = self.driver.store
        await store.bury()  # what a killed process left is work, even before the sweep has come by for the first time
        soon_ms = store.now_ms() + _SOON_MS
        if self._adoption is not None:
            await self._adoption.turn(soon_ms)
        hashes = list(self.driver.workflows)
        for due in await store.due(soon_ms, hashes, _MOST_SOON):
            row = await store.run(due.run)
            if due.dead or row is None or row.status == "running":
                return True
            waits = msgspec.json.decode(row.waiting_for, type=list[Wait])
            if any(wait.reason == WORKFLOW_MISSING for wait in waits):
                return True  # asked while nobody could run it; this process can
            if any(wait.kind != "gate" and wait.due_at_ms is not None and wait.due_at_ms <= soon_ms for wait in waits):
                return True
        if await self._may_place():
            return True
        rows = [await store.run(run) for run in with_room(await store.room(_MOST_SOON))]
        return any(row is not None and row.graph_hash in hashes for row in rows)


def _restore() -> Restore:
    """How workflows are read back from their graphs, loaded when somebody wants that."""
    from holdfast.jobs.restoration import restored

    return restored


def _quotas(
    settings: Settings, store: str | Path | Store, served_by: Mapping[str, str], around: Surroundings
) -> Quotas:
    """What is known of providers' limits, and where they are counted; nothing is opened where there are none."""
    limits = {name: Limits(**each.model_dump()) for name, each in settings.pool_limits.items()}
    pools = None
    if limits:
        pools = Borrower(_authority(settings.pools, store, around.clock), around.clock, around.ids.session())
    return Quotas(limits, pools, around.clock, served_by)


def _lanes(settings: Settings, lane: str) -> RunLanes:
    """The lanes of the fleet. Raises UsageError where `lane` is none of them."""
    lanes = RunLanes({
        name: Rule(frozenset(each.workflows), frozenset(each.tenants)) for name, each in settings.lanes.items()
    })  # fmt: skip
    if lane not in lanes.names:
        raise UsageError(
            f"There is no lane {lane!r}: holdfast.toml has {', '.join(sorted(lanes.names))}. Say what belongs to it in"
            f" [lanes.{lane}], for every process of the fleet. Nothing was started."
        )
    return lanes


def _authority(where: str, store: str | Path | Store, clock: Clock) -> PoolAuthority:
    """The authority over provider pools that HOLDFAST_POOLS names."""
    if where == "process":
        return Book(clock)
    url = str(store) if where == "store" else where
    try:
        if url.startswith(_POSTGRES):
            from holdfast.pools.postgres import PostgresAuthority
            from holdfast.stores.postgres.address import Address

            address = Address.of(url)
            return PostgresAuthority(*address.dsns, schema=address.schema)
        if where != "store":
            from holdfast.pools.redis import RedisAuthority

            return RedisAuthority.connect(where)
    except ModuleNotFoundError as problem:
        raise UsageError(
            f"{problem.name} is not installed, which shared provider pools need: pip install 'holdfast[fleet]'."
        ) from None
    raise UsageError(
        "HOLDFAST_POOLS=store: this store cannot count provider pools, PostgreSQL can. Use redis://… for pools that"
        " several processes share, or process for those of one process."
    )


def _no_pool(name: str) -> NotFound:
    return NotFound(f"There is no pool {name!r:.130} in this store; `holdfast pools list` shows those that are.")


def _word(what: str, text: str) -> str:
    """`text`, which must be one that can be stored: what others would look for must be what was meant."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"The {what} {text!r} is not valid Unicode text. Nothing was done.") from None
    if "\0" in text:
        raise InvalidInput(
            f"The {what} {text!r} holds the character NUL, which no store keeps in a name. Nothing was done."
        )
    return text


def _price(model: settings_.DeclaredModel) -> DeclaredPrice:
    return DeclaredPrice(
        input_usd_per_mtok=model.input_usd_per_mtok,
        output_usd_per_mtok=model.output_usd_per_mtok,
        cache_read_usd_per_mtok=model.cache_read_usd_per_mtok,
        cache_write_usd_per_mtok=model.cache_write_usd_per_mtok,
        context_window_tokens=model.context_tokens,
    )
