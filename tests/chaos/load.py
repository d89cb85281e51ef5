"""Those who use the fleet: one starts runs, one truthful person answers what they ask. Both keep what was acknowledged.

What is refused is tried again under the same key, and the second is counted. Never here: what Holdfast believes about
the world: the person looks at the journals outside before saying what has happened.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from holdfast import Engine, Workflow
from holdfast.core.facts.events import ModelCallHeld, ModelCallReconciled, ModelCallSettled
from holdfast.core.rules.questions import EFFECT_UNKNOWN
from holdfast.core.values.ids import CallId, RunId, node_of
from holdfast.core.values.money import usd
from holdfast.core.views.projection import GateRow
from holdfast.errors import Conflict, DecisionRefused, NotFound, StoreError
from tests.chaos.flows import CASE
from tests.crash.person import price_nanousd
from tests.crash.world import Seen, World

NAME = "ann"
PATIENCE_S = 5.0
LAST_STARTS_S = 30.0
"""What starts that were refused so far get to be acknowledged, when no more are begun."""
_LOOK_S = 0.15


class Load:
    """What was asked of the fleet, and what it has acknowledged."""

    def __init__(self, engine: Engine, world: World, *, seed: int, starts_per_s: float, flows: Sequence[Workflow]) -> None:
        self._engine = engine
        self._world = world
        self._seed = seed
        self._every_s = 1 / starts_per_s
        self._flows = itertools.cycle(flows)
        self.started: dict[str, RunId] = {}
        """The run of each key, once it was acknowledged."""
        self.decided: dict[str, str] = {}
        """By whom each gate was decided, once it was acknowledged."""
        self.wrong: list[str] = []
        self.ended: dict[RunId, str] = {}
        self._began_s = time.monotonic()
        self._refused: set[int] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self.most_s = 0.0
        """How long the slowest start or decision took that was not refused."""

    @property
    def seconds(self) -> int:
        return int(time.monotonic() - self._began_s) + 1

    @property
    def refused_s(self) -> int:
        """In how many seconds a start or a decision was refused, or not answered within `PATIENCE_S`."""
        return len(self._refused)

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        """Inside, runs are started and answered."""
        starting = asyncio.create_task(self._start_for_ever())
        try:
            yield
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            if self._starting:
                await asyncio.wait(self._starting, timeout=LAST_STARTS_S)
            for task in self._starting:
                task.cancel()

    async def _start_for_ever(self) -> None:
        while True:
            key = f"{self._seed}-{len(self.started) + len(self._starting)}-{time.monotonic_ns()}"
            task = asyncio.create_task(self._start(key, next(self._flows)))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)
            await asyncio.sleep(self._every_s)

    async def _start(self, key: str, flow: Workflow) -> None:
        """Start a run, however long it takes."""
        while True:
            run = None
            async with self._asking():
                run = await self._engine.start(flow, key=key)
            if run is not None:
                self.started[key] = RunId(run.id)
                return
            await asyncio.sleep(0.2)

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[None]:
        """Note the seconds in which something was asked in vain."""
        asked_s = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield
        except (StoreError, TimeoutError):
            from_s, until_s = (int(each - self._began_s) for each in (asked_s, time.monotonic()))
            self._refused.update(range(from_s, until_s + 1))
        else:
            self.most_s = max(self.most_s, time.monotonic() - asked_s)

    async def answer(self) -> None:
        """Be the person, for ever."""
        while True:
            async with self._asking():
                for gate, _ in await self._engine.gates():
                    await self._answer(gate)
            await asyncio.sleep(_LOOK_S)

    async def _answer(self, gate: GateRow) -> None:
        try:
            match gate.reason:
                case "approval" | "question":
                    await self._engine.decide(gate.gate, "approve", by=NAME)
                    self.decided[gate.gate] = NAME
                case reason if reason == EFFECT_UNKNOWN:
                    await self._tell_effect(gate.run, gate.subject or "")
                case "budget":
                    await self._tell_costs(gate.run)
                case reason:
                    self.wrong.append(f"{gate.run}: nobody expected to be asked about {reason}")
        except DecisionRefused:
            raise  # whoever is asked may answer
        except (Conflict, NotFound):
            pass  # answered before, by somebody whose reply was lost, or nobody asks any more

    async def _tell_effect(self, run: RunId, call: str) -> None:
        state = await self._engine.run(run).state()
        await asyncio.to_thread(self._world.catch_up)
        asked = state.calls.get(CallId(call))
        if asked is None:
            return  # its outcome came home meanwhile
        answer = self._seen().answer(asked.key or "")
        if answer is not None:
            await self._engine.resolve_effect(call, "answer", answer, by=NAME)
            return
        gate = next((each.opened for each in state.gates.values() if each.opened.subject == call), None)
        # Not where its step has been called off, or is another by now.
        again = gate is not None and "retry" in gate.allowed
        await self._engine.resolve_effect(call, "retry" if again else "reject", by=NAME)

    def _seen(self) -> Seen:
        return Seen(self._world.directory, CASE)

    async def _tell_costs(self, run: RunId) -> None:
        """Reconcile each call in doubt with the provider's bill: those that are not on it never arrived."""
        handle = self._engine.run(run)
        state, events = await handle.state(), [each.event for each in await handle.events()]
        held = {event.call: event for event in events if isinstance(event, ModelCallHeld)}
        paid = Counter(
            held[event.call].step
            for event in events
            if isinstance(event, ModelCallSettled | ModelCallReconciled) and event.cost_nanousd
        )
        for call, hold in held.items():
            if call in state.calls and state.calls[call].doubted:
                bills = bills_of(self._world, f"{run}: {node_of(hold.step)}")[paid[hold.step] :]
                await self._engine.reconcile(call, usd(bills[0] if bills else 0), by=NAME)
                paid[hold.step] += bool(bills)

    async def see_through(self, within_s: float) -> None:
        """Answer until every run that was acknowledged has ended. What has not by then stays out of `ended`."""
        late_s = time.monotonic() + within_s
        while time.monotonic() < late_s and len(self.ended) < len(self.started):
            async with self._asking():
                for run in set(self.started.values()) - set(self.ended):
                    row = await self._engine.find(run)
                    if row.ended_at_ms is not None:
                        self.ended[run] = row.status
            await asyncio.sleep(_LOOK_S)


def bills_of(world: World, prompt: str) -> list[int]:
    """What the provider charges for each request of this prompt that it answered."""
    return [price_nanousd(call) for call in Seen(world.directory, prompt.partition(":")[0]).calls if call.user == prompt]
