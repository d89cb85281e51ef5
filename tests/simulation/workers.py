"""Connected workers of a simulated process, without a connection: they do what they are given, or are lost over it.

Never here: what a real worker says, and when (wire).
"""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.actions.jobs.remote import Order, ScriptOutcome
from holdfast.actions.jobs.runner import Shell
from holdfast.core.values.demand import SHELL
from holdfast.errors import OutcomeUnknown, PlaceLost, ToolFailed
from holdfast.platform.machine import MachineClock
from holdfast.ports import Calls, Work
from holdfast.scheduling.job import Capacity
from holdfast.scheduling.lane_workers import able_to
from tests.simulation.chance import spread_s

if TYPE_CHECKING:
    from holdfast.engine.capacity.placing import StepPlacer

TASK: Final = "remote"
"""The one task that they offer."""
GPU: Final = "gpu"
"""A label that they have, and the first process, and perhaps others."""
_NAMES: Final = ("left", "right")
_LOST: Final = 0.1
"""How often a worker is lost over a job, before or after what it asks for."""


class SimulatedWorkers:
    """Keeps ports.WorkerGateway: workers that call one tool of the node and answer with their step's name; and, where they are given
    a shell, run scripts one after the other."""

    tells_tenants_apart = False

    def __init__(self, stream: Random, shell: Shell | None) -> None:
        self._stream = stream
        self._shell = shell
        self._pieces: dict[str, tuple[int, asyncio.Task[ScriptOutcome]]] = {}
        """What is at work by its job, and in the answer to which question it was told."""

    def open(self, placing: StepPlacer) -> None:
        """Have steps placed with them."""
        able = frozenset({able_to(TASK), *([able_to(SHELL)] if self._shell is not None else [])})
        for name in _NAMES:
            labels = frozenset({GPU})
            placing.join(Capacity(worker=name, able=able, labels=labels, tags=frozenset(), slots=2, cpu_m=2_000))

    async def perform(self, place: str, work: Work, calls: Calls) -> Any:
        if work.task == SHELL:
            return await self._run_scripts(place, work.job, calls)
        arguments = json.loads(work.arguments_json)
        await self._work(place)
        asked = {"item": arguments["item"], "step": calls.step}
        await calls.tool(1, arguments["tool"], asked, key=None)
        await self._work(place)
        return {"step": calls.step}

    def break_off(self, place: str, job: str, number: int) -> None:
        told, piece = self._pieces.get(job, (0, None))
        if piece is not None and told == number:
            piece.cancel()

    async def _work(self, place: str) -> None:
        await asyncio.sleep(spread_s(self._stream, 0.0001, 5.0))
        if self._stream.random() < _LOST / 2:
            raise PlaceLost(f"The worker {place} is gone.")

    # --- Scripts ------------------------------------------------------------------------------------------------------

    async def _run_scripts(self, place: str, job: str, calls: Calls) -> None:
        number, done = 1, None
        while (order := await calls.next(number, msgspec.to_builtins(done))) is not None:
            piece = asyncio.ensure_future(self._run(msgspec.convert(order, Order), calls))
            self._pieces[job] = number, piece
            done = await self._done(place, piece)
            number += 1

    async def _done(self, place: str, piece: asyncio.Task[ScriptOutcome]) -> ScriptOutcome:
        """What came of it. Raises PlaceLost: the worker was killed, and its script with it, or could not say how it ended."""
        try:
            if self._stream.random() < _LOST / 2:
                await asyncio.wait((piece,), timeout=spread_s(self._stream, 0.0001, 5.0))
                raise PlaceLost(f"The worker {place} is gone, and has not said what it was at.")
            await asyncio.wait((piece,))
            await self._work(place)
        finally:
            piece.cancel()
        return ScriptOutcome(lines=1) if piece.cancelled() else piece.result()

    async def _run(self, order: Order, calls: Calls) -> ScriptOutcome:
        assert self._shell is not None
        try:
            ending = await self._shell(order.script, order.limits, clock=MachineClock(), on_line=calls.line, redact=str)
        except (ToolFailed, OutcomeUnknown) as problem:
            return ScriptOutcome.failed(problem, lines=1)
        return ScriptOutcome(ending=ending, lines=1)
