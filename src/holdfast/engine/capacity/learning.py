"""Observations of steps and calls on their way to the store: gathered, and written soon, many in one transaction.

Nothing waits for it, and nothing is wrong without it: what cannot be written is dropped. Never here: what is learned from it
(core.capacity.estimates, core.nouns.model_estimates), reading it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, Generic, TypeVar

from holdfast.engine.runs.background_loop import BackgroundLoop
from holdfast.errors import StoreError
from holdfast.ports import Clock

log = logging.getLogger("holdfast")

Seen = TypeVar("Seen")

_EVERY_S: Final = 1.0
_MOST: Final = 10_000
"""That wait to be written; of more the latest count."""


class ObservationBuffer(Generic[Seen]):
    """The observations of one process that the store does not have yet."""

    def __init__(self, clock: Clock, write: Callable[[Sequence[Seen]], Awaitable[None]]) -> None:
        self._clock = clock
        self._write = write
        self._unlearned: list[Seen] = []
        self._loop = BackgroundLoop(
            "holdfast-learning", self._turn, clock, fault="holdfast can no longer note what it has seen"
        )

    def take(self, seen: Iterable[Seen]) -> None:
        """It is written soon."""
        self._unlearned.extend(seen)
        del self._unlearned[:-_MOST]
        if self._unlearned:
            self._loop.start()

    async def aclose(self) -> None:
        """Write what is left."""
        await self._loop.aclose()
        await self._write_all()

    async def _turn(self) -> float | None:
        await self._clock.sleep(_EVERY_S)
        await self._write_all()
        return 0.0 if self._unlearned else None

    async def _write_all(self) -> None:
        seen, self._unlearned = self._unlearned, []
        if not seen:
            return
        try:
            await self._write(seen)
        except StoreError as problem:
            log.info("holdfast could not note what it has seen of %d steps or calls: %s", len(seen), problem)
