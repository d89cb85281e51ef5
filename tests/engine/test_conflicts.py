"""A decision that meets others' commits is made again, also where the store loses the lock under which that ends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest

from holdfast import Context, Engine, flow, step
from holdfast.core.facts.events import StepCompleted
from holdfast.core.values.ids import RunId
from holdfast.engine.runs.mailbox import MAX_CONFLICTS, MAX_LOST_LOCKS
from holdfast.errors import HoldfastError, SeqConflict
from holdfast.ports import Append
from holdfast.storage import open_store
from tests.engine.kit import bounded


@step
def twice(number: int) -> int:
    return 2 * number


@flow
async def doubled(ctx: Context, number: int) -> int:
    return await twice(number)


class Outrun:
    """The log of a store in which others are always first with the append that ends a run, so many times."""

    def __init__(self, log: Any, times: int) -> None:
        self._log = log
        self.left = times
        self.locked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def exclusive(self, run: RunId) -> AbstractAsyncContextManager[None]:
        self.locked += 1
        return self._log.exclusive(run)  # type: ignore[no-any-return]

    async def append(self, appends: Sequence[Append]) -> Sequence[HoldfastError | None]:
        lost = {each.run for each in appends if self.left and any(isinstance(e.event, StepCompleted) for e in each.events)}
        self.left -= bool(lost)
        taken = iter(await self._log.append([each for each in appends if each.run not in lost]))
        return [SeqConflict("others were first") if each.run in lost else next(taken) for each in appends]


@bounded
@pytest.mark.parametrize("lost", [0, 1, MAX_LOST_LOCKS - 1])
async def test_a_run_goes_on_when_the_lock_of_its_decision_is_lost(store: str, lost: int) -> None:
    opened: Any = await open_store(store)
    try:
        log = Outrun(opened.log, MAX_CONFLICTS + lost)
        async with Engine.open(msgspec.structs.replace(opened, log=log), workflows=[doubled]) as engine:
            assert await (await engine.start(doubled, 4)).result() == 8
        assert (log.left, log.locked) == (0, lost + 1)
    finally:
        await opened.aclose()
