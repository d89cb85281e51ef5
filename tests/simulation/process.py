"""One simulated process: a real engine on a store of its own, which can crash, freeze, stop and start again.

Never here: when it does, or what others make of it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context, copy_context
from random import Random
from typing import Any, Final, TypeVar

from holdfast.actions.jobs.runner import Shell
from holdfast.authoring.workflow import Workflow
from holdfast.compose import Engine, Environment
from holdfast.core.values.demand import Resources
from holdfast.core.values.ids import AppendId, RunId, SessionId
from holdfast.errors import StoreError
from holdfast.models.prices import DeclaredPrice, Prices
from holdfast.platform.border import contained, isolated
from holdfast.platform.threads import awaited, outcome
from holdfast.ports import ForwardedCalls, Model, Observer
from holdfast.settings import Settings
from tests.simulation.chance import Chance, spread_s
from tests.simulation.fault import Faults
from tests.simulation.loop import Lane, SimulatedLoop, current_lane
from tests.simulation.store import LEASE_S, Disk, Mount, SimulatedStore
from tests.simulation.workers import SimulatedWorkers

T = TypeVar("T")

CPU_M: Final = 1000
"""What each worker has."""
SLOTS: Final = 2
"""How many there are of the pool `SLOTS`."""
MODELS: Final = ("large", "small", "tiny")
EMBEDS: Final = "vectors"
"""The model that makes vectors."""
PRICES: Final = Prices(
    {
        "large": DeclaredPrice(input_usd_per_mtok=10, output_usd_per_mtok=50),
        "small": DeclaredPrice(input_usd_per_mtok=1, output_usd_per_mtok=5),
        "tiny": DeclaredPrice(input_usd_per_mtok="0.1", output_usd_per_mtok="0.5"),  # type: ignore[arg-type]
        EMBEDS: DeclaredPrice(input_usd_per_mtok="0.02", output_usd_per_mtok=0, cache_write_usd_per_mtok="0.02"),  # type: ignore[arg-type]
    }
)
_SETTINGS: Final = tuple(Settings(resident_flows_mb=most) for most in (0, 64))
"""Of processes that keep no flow that waits in their memory, and of those that do."""
_BEFORE_RENEWAL_S: Final = 0.05
"""How long a process that stood still works on before its lease is renewed."""


class VirtualClock:
    """Keeps the Clock port on the loop's time."""

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class DrawnIds:
    """Keeps the Ids port: names from the seed."""

    def __init__(self, stream: Random) -> None:
        self._stream = stream

    def run(self, now_ms: int) -> RunId:
        return RunId(f"{now_ms:012x}-{self._stream.getrandbits(48):012x}")

    def session(self) -> SessionId:
        return SessionId(f"s{self._stream.getrandbits(40):010x}")

    def append(self) -> AppendId:
        return AppendId(f"{self._stream.getrandbits(64):016x}")

    def approval(self) -> str:
        return f"{self._stream.getrandbits(48):012x}"


class InlineThreads:
    """Keeps the Threads port without a thread: a plain function runs at once, and returns a while later."""

    def __init__(self, stream: Random) -> None:
        self._stream = stream
        self.abandoned = 0
        self.on_return: Callable[[], None] = lambda: None

    async def run(self, function: Callable[..., Any], arguments: Mapping[str, Any], context: Context | None = None) -> Any:
        if inspect.iscoroutinefunction(function):
            code = function(**arguments)
            return await contained(code if context is None else isolated(code, context))
        problem, result = (copy_context() if context is None else context).run(outcome, function, arguments)
        if problem is not None:
            raise problem
        takes_s = spread_s(self._stream, 0.0001, 5.0)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + takes_s
        try:
            await asyncio.sleep(takes_s)
        except asyncio.CancelledError:
            self.abandoned += 1
            loop.call_at(until_s, self._back)
            raise
        return await awaited(result, context) if inspect.isawaitable(result) else result

    def close(self) -> None:
        pass

    def _back(self) -> None:
        self.abandoned -= 1
        self.on_return()


def _wake_for_unknown_commits(engine: Engine, mount: Mount) -> None:
    """Have the sweep, which really looks five times a second and here sleeps until something happens, notice that a commit
    of its own process has become doubtful."""
    mark = engine.runtime.runs.unknown_commit

    def unknown_commit(run: RunId) -> None:
        mark(run)
        mount.remind()

    engine.runtime.runs.unknown_commit = unknown_commit  # type: ignore[method-assign]


class Process:
    """A place where an engine runs, and the engine that runs there at the moment, if one does."""

    def __init__(
        self,
        name: str,
        loop: SimulatedLoop,
        disk: Disk,
        chance: Chance,
        faults: Faults,
        *,
        executes: bool,
        slots: int,
        labels: Sequence[str],
        workflows: Callable[[], Sequence[Workflow]],
        model: Callable[[Process], Model],
        yaml: bool,
        shell: Shell,
        lends_shell: bool,
        observers: Sequence[Observer],
    ) -> None:
        """With `lends_shell` the workers that are connected to it run scripts too."""
        self.name = name
        self.loop = loop
        self.disk = disk
        self.faults = faults
        self.executes = executes
        self.slots = slots
        self.labels = labels
        self.engine: Engine | None = None
        self.mount: Mount | None = None
        self.lane: Lane | None = None
        self.lives = 0
        self.thawed_s = 0.0
        """When it last stood still, or will have."""
        self.on_end: Callable[[Process], None] = lambda _: None
        self._chance = chance
        self._workflows = workflows
        self._model = model
        self._yaml = yaml
        self._shell = shell
        self._lends_shell = lends_shell
        self._observers = observers
        self._stopping: asyncio.Event | None = None
        self._ids = DrawnIds(chance.stream(f"ids/{name}"))
        self._delays = chance.stream(f"delay/{name}")
        self._memory = chance.stream(f"memory/{name}")

    def __repr__(self) -> str:
        return f"<process {self.name}>"

    @property
    def up(self) -> bool:
        """Whether somebody could ask it for something."""
        return self.engine is not None and self.lane is not None and not self.lane.frozen

    # --- Its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.lives += 1
        self.lane = self.loop.lane(f"{self.name}.{self.lives}")
        self._stopping = asyncio.Event()
        self.loop.spawn(self.lane, self._live(self.lane, self._stopping))

    async def _live(self, lane: Lane, stopping: asyncio.Event) -> None:
        threads = InlineThreads(self._chance.stream(f"threads/{self.name}"))
        around = Environment(
            VirtualClock(), self._ids, threads, PRICES, lane.name, Resources(cpu_m=CPU_M), self._shell, programs=NoCalls()
        )
        workers = SimulatedWorkers(self._chance.stream(f"hands/{self.name}"), self._shell if self._lends_shell else None)
        self.mount = mount = Mount(self.disk, self, patient=True)
        store = SimulatedStore.on(mount)
        grace_s = self._delays.choice((0.0, 1.0, 30.0))
        try:
            async with Engine.open(
                store,
                workflows=self._workflows(),
                slots=self.slots,
                execute=self.executes,
                model=self._model(self),
                settings=self._memory.choice(_SETTINGS),
                grace_s=grace_s,
                labels=self.labels,
                yaml=self._yaml,
                workers=workers,
                observers=self._observers,
                environment=around,
            ) as engine:
                workers.open(engine.executor.placing)
                self.loop.at_last(engine.executor.services.residents.close)
                self.engine = engine
                _wake_for_unknown_commits(engine, mount)
                await self._until_broken(engine, stopping)
                self.engine = None
            await store.aclose()
        except StoreError:
            pass  # it could not open its store, or could not say goodbye; the machine ends it either way
        self.engine = None
        self.loop.later(0.0, self._ended, lane)

    async def _until_broken(self, engine: Engine, stopping: asyncio.Event) -> None:
        """Work until somebody asks it to stop, or it cannot go on."""
        broken = asyncio.ensure_future(self._broken(engine))
        asked = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({broken, asked}, return_when=asyncio.FIRST_COMPLETED)
        broken.cancel()
        asked.cancel()

    async def _broken(self, engine: Engine) -> None:
        async with engine.runtime.runs.watch(RunId(""), lambda _: False) as stirred:
            while engine.runtime.membership.broken is None:
                stirred.clear()
                await stirred.wait()

    def _ended(self, lane: Lane) -> None:
        if not lane.dead:
            self._vanish(lane)
            self.on_end(self)

    def crash(self) -> None:
        """It is killed: nothing of it happens any more, from now on."""
        if self.lane is not None and not self.lane.dead:
            self._vanish(self.lane)
            self.on_end(self)

    def _vanish(self, lane: Lane) -> None:
        self.loop.kill(lane)
        self.engine = None
        if self.mount is not None:
            self.disk.drop(self.mount)
        self.mount = None

    def stop(self) -> None:
        """It is asked to stop: it hands over what it cannot finish."""
        if self._stopping is not None:
            self._stopping.set()

    def freeze(self, duration_s: float) -> None:
        """It stands still, as under SIGSTOP, and notices nothing."""
        if self.lane is not None and not self.lane.dead and not self.lane.frozen:
            self.lane.frozen = True
            self.thawed_s = self.loop.time() + duration_s
            self._stall(duration_s + _BEFORE_RENEWAL_S)
            self.loop.later(duration_s, self._thaw, self.lane)

    def _thaw(self, lane: Lane) -> None:
        lane.frozen = False

    def stall(self, duration_s: float) -> None:
        """Its leases cannot be renewed for a while, though it works."""
        if self.lane is not None and not self.lane.dead:
            self._stall(duration_s)

    def _stall(self, duration_s: float) -> None:
        now_s = self.loop.time()
        for lease in self.mount.leases.values() if self.mount is not None else ():
            lease.stalls.append((now_s, now_s + duration_s))
            if duration_s > LEASE_S:
                self.loop.later(lease.over_s(now_s) - now_s + 0.001, self.disk.nudge)
        self.loop.later(duration_s + 0.001, self.disk.nudge)

    # --- The weather between it and its disk --------------------------------------------------------------------------

    async def reach(self, seam: str) -> None:
        if seam == "append" and self.faults.kills("crash_before_commit"):
            await self.die_here()
        kind = "read_refused" if seam == "read" else "commit_refused"
        if self.loop.time() < self.disk.away_until_s or self.faults.strikes(kind):
            await asyncio.sleep(self._takes_s())
            raise StoreError(f"The disk does not take this ({seam}); nothing was written.")
        await asyncio.sleep(self._takes_s())

    async def answer(self, seam: str) -> None:
        if self.faults.kills("crash_after_commit"):
            await self.die_here()
        if self.faults.kills("freeze_after_commit"):
            self.freeze(spread_s(self._delays, 0.1, 60.0))
        await asyncio.sleep(self._takes_s())

    def loses_request(self) -> bool:
        return self.faults.strikes("reply_lost_before_commit")

    def loses_reply(self) -> bool:
        return self.faults.strikes("reply_lost_after_commit")

    def _takes_s(self) -> float:
        if self.faults.strikes("slow_disk"):
            return spread_s(self._delays, 0.1, 20.0)
        return spread_s(self._delays, 0.00005, 0.01)

    async def die_here(self) -> None:
        """The process's last moment: whoever awaits this in it never comes back."""
        assert current_lane() is self.lane
        self.crash()
        await asyncio.get_running_loop().create_future()

    # --- Asking it ----------------------------------------------------------------------------------------------------

    def ask(self, what: Callable[[Engine], Awaitable[T]]) -> asyncio.Future[T]:
        """Have something done in it. If it dies, nobody ever answers."""
        told: asyncio.Future[T] = self.loop.create_future()
        engine, lane = self.engine, self.lane
        if engine is not None and lane is not None:
            self.loop.spawn(lane, self._do(engine, what, told))
        return told

    async def _do(self, engine: Engine, what: Callable[[Engine], Awaitable[T]], told: asyncio.Future[T]) -> None:
        try:
            result = await what(engine)
        except Exception as problem:
            if not told.done():
                told.set_exception(problem)
        else:
            if not told.done():
                told.set_result(result)


class NoCalls:
    """Keeps ports.ProgramGateway: simulated scripts call no models."""

    @asynccontextmanager
    async def open(self, calls: ForwardedCalls) -> AsyncIterator[Mapping[str, str | None]]:
        yield {}

    async def aclose(self) -> None:
        """Nothing is open."""
