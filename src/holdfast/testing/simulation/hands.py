"""Connected workers of a simulated process, without a connection: they do what they are given, or are lost over it.

Never here: what a real worker says, and when (wire).
"""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import PlaceLost
from holdfast.ports import Calls, Work
from holdfast.scheduling.job import Capacity
from holdfast.scheduling.roster import able_to
from holdfast.testing.simulation.chance import spread_s

if TYPE_CHECKING:
    from holdfast.engine.placing import Placing

TASK: Final = "remote"
"""The one task that they offer."""
GPU: Final = "gpu"
"""A label that they have, and the first process, and perhaps others."""
_NAMES: Final = ("left", "right")
_LOST: Final = 0.1
"""How often a worker is lost over a job, before or after what it asks for."""


class SimulatedHands:
    """Keeps ports.Hands: workers that call one tool of the node and answer with their step's name."""

    def __init__(self, stream: Random) -> None:
        self._stream = stream

    def open(self, placing: Placing) -> None:
        """Have steps placed with them."""
        for name in _NAMES:
            able, labels = frozenset({able_to(TASK)}), frozenset({GPU})
            placing.join(Capacity(worker=name, able=able, labels=labels, tags=frozenset(), slots=2, cpu_m=2_000))

    async def perform(self, place: str, work: Work, calls: Calls) -> Any:
        arguments = json.loads(work.arguments_json)
        await self._work(place)
        asked = {"item": arguments["item"], "step": calls.step}
        await calls.tool(1, arguments["tool"], asked, key=None)
        await self._work(place)
        return {"step": calls.step}

    def break_off(self, place: str, job: str, number: int) -> None:
        """What they do comes in one piece."""

    async def _work(self, place: str) -> None:
        await asyncio.sleep(spread_s(self._stream, 0.0001, 5.0))
        if self._stream.random() < _LOST / 2:
            raise PlaceLost(f"The worker {place} is gone.")
