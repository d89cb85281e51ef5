"""The knowledge of models in practice that all processes on the store share: a process writes its observations soon, and reads
those of all every few seconds, beside the calls.

A call waits for it only if nothing of its workflow was read yet, and goes without if the store cannot answer. Never here: what
an estimate is worth (core.nouns.model_estimates), which model is taken.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.core.nouns.model_estimates import EVERYWHERE, Experience, ModelEstimate, ModelUse, by_place
from holdfast.engine.capacity.learning import ObservationBuffer
from holdfast.errors import StoreError
from holdfast.platform.log_ids import outside
from holdfast.ports import Clock, ModelEstimates, StoreClock

log = logging.getLogger("holdfast")

_KNOWN_S: Final = 5.0
"""How long what the store said is believed before it is asked again."""
_MAX_WORKFLOWS: Final = 1_000
"""Of which something is kept in memory: those that were read longest ago are read again."""


class _Read(NamedTuple):
    places: Mapping[tuple[str, str], Mapping[str, ModelEstimate]]
    at_s: float


class ModelKnowledge:
    """The knowledge of one process."""

    def __init__(self, estimates: ModelEstimates, store_clock: StoreClock, clock: Clock) -> None:
        self._estimates = estimates
        self._store_clock = store_clock
        self._clock = clock
        self._learning = ObservationBuffer(clock, estimates.learn)
        self._known: dict[str, _Read] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}

    def take(self, use: ModelUse) -> None:
        """A reply was like this; it is written soon."""
        self._learning.take([use])

    async def of(self, workflow: str, node: str) -> Experience:
        """Return what is known for a node of a workflow; both empty for all of them."""
        known = self._known.get(workflow)
        if known is None or self._clock.monotonic_s() - known.at_s >= _KNOWN_S:
            reading = self._reading.get(workflow)
            if reading is None:
                reading = asyncio.create_task(self._read(workflow), name="holdfast-model-knowledge", context=outside())
                self._reading[workflow] = reading
                reading.add_done_callback(lambda _: self._reading.pop(workflow, None))
            if known is None:
                await asyncio.wait([reading])  # a waiter that stops takes it from no other
                known = self._known.get(workflow)
        places = {} if known is None else known.places
        return Experience(places.get((workflow, node), {}), places.get(EVERYWHERE, {}), self._store_clock.now_ms())

    async def _read(self, workflow: str) -> None:
        places = self._known[workflow].places if workflow in self._known else {}
        try:
            places = by_place(await self._estimates.of(workflow))
        except StoreError as problem:
            log.info("holdfast cannot ask what models are like in %s, and goes by what it knows: %s", workflow, problem)
        self._known.pop(workflow, None)  # what was read last stands at the end
        self._known[workflow] = _Read(places, self._clock.monotonic_s())
        while len(self._known) > _MAX_WORKFLOWS:
            del self._known[next(iter(self._known))]

    async def aclose(self) -> None:
        """Write what is left."""
        for reading in list(self._reading.values()):
            reading.cancel()
        await asyncio.gather(*self._reading.values(), return_exceptions=True)
        await self._learning.aclose()
