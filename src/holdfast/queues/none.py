"""A fleet without a queue: no process is notified, and the sweep of each process finds what there is to do.

Never here: state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NoReturn

from holdfast.core.capacity.lanes import DEFAULT
from holdfast.core.values.ids import RunId, Seq, SessionId
from holdfast.ports import DeliveredJob, Job, Report


class NoQueue:
    """Keeps ports.Queue by saying nothing and hearing nothing."""

    async def offer(self, jobs: Sequence[Job], lane: str = DEFAULT) -> None:
        pass

    async def report(self, report: Report) -> None:
        pass

    async def notify(self, seqs: Mapping[RunId, Seq]) -> None:
        pass

    async def news(self) -> Mapping[RunId, Seq]:
        await _never()

    async def offered(self, leader: SessionId) -> Sequence[DeliveredJob]:
        await _never()

    async def reported(self) -> Sequence[Report]:
        await _never()

    async def place(self, worker: SessionId, deliveries: Sequence[DeliveredJob]) -> None:
        pass

    async def drop(self, useless: Sequence[DeliveredJob]) -> None:
        pass

    async def placed(self, worker: SessionId) -> Sequence[DeliveredJob]:
        await _never()

    async def acknowledge(self, worker: SessionId, deliveries: Sequence[DeliveredJob]) -> None:
        pass

    async def reclaim(self, worker: SessionId) -> Sequence[Job]:
        return ()

    async def aclose(self) -> None:
        pass


async def _never() -> NoReturn:
    """Wait until the caller stops waiting."""
    await asyncio.Event().wait()
    raise AssertionError("it is never set")
