"""Histories are read and folded once, and read models are those of the whole history at each moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from holdfast import Context, Engine, flow, tool
from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import RunId
from holdfast.core.views.attempts import attempts
from holdfast.core.views.model_calls import model_calls
from holdfast.core.views.operations import Operations, operations
from holdfast.core.views.read_model import ReadModel
from holdfast.core.views.spending import spending
from holdfast.core.views.trajectory import RunPath, trace, trajectory
from holdfast.engine.runs.read_models import EVENT_BYTES, IDLE_S, MAX_MODELS, ReadModels
from holdfast.errors import KeyMissing
from tests.engine.kit import bounded, opened


@tool(effect="idempotent")
def look(at: int) -> int:
    """Look."""
    return at


@flow(tools=[look])
async def looks(ctx: Context, given: Any) -> int:
    for number in range(3):
        await ctx.tool(look, at=number)
    await ctx.wait_signal("go")
    return int(await ctx.tool(look, at=9))


class Reading:
    """A log that notes what is read of it, and may have lost the key of what is in it."""

    def __init__(self, engine: Engine) -> None:
        self._log = engine.store.log
        self.read: list[int] = []
        self.is_erased = False

    async def events(self, run: RunId, after: int = 0, limit: int | None = None) -> Sequence[Recorded]:
        found = await self._log.events(run, after, limit)
        if self.is_erased and found:
            raise KeyMissing("The key was deleted.")
        self.read += [each.seq for each in found]
        return found


async def at_rest(engine: Engine) -> Any:
    run = await engine.start(looks, {})
    await run.until(lambda state: any(step.status == "suspended" for step in state.steps.values()))
    return run


@bounded
async def test_only_new_events_are_read_and_rows_are_those_of_the_whole_history(store: str) -> None:
    async with opened(store) as engine:
        run = await at_rest(engine)
        log, models = Reading(engine), ReadModels()
        first: Any = log
        model = await models.of(first, run.id, ReadModel)
        assert model.operations.rows() == operations(await run.events())
        before = len(log.read)
        assert log.read == [*range(1, before + 1)]
        assert await models.of(first, run.id, ReadModel) is model
        assert log.read[before:] == [before]
        await engine.signal(run.id, "go")
        assert await run.result() == 9
        log.read.clear()
        await models.of(first, run.id, ReadModel)
        history = await run.events()
        assert log.read == [*range(before, len(history) + 1)]
        assert model.operations.rows() == operations(history) == await engine.operations(run.id)
        assert model.attempts.rows == attempts(history) == await engine.attempts(run.id)
        assert model.model_calls.rows == model_calls(history) == await engine.model_calls(run.id)
        assert model.spending.rows == spending(history) == await engine.spending(run.id)
        graph = await engine.graph_of((await run.state()).graph_hash)
        path = await models.of(first, run.id, lambda: RunPath(graph))
        assert path.lines == trace(history, graph)
        assert path.trajectory() == trajectory(history, graph)


@bounded
async def test_callers_at_the_same_time_share_one_reading(store: str) -> None:
    async with opened(store) as engine:
        run = await at_rest(engine)
        log: Any = Reading(engine)
        models = ReadModels()
        found = await asyncio.gather(*(models.of(log, run.id, ReadModel) for _ in range(5)))
        assert len({id(each) for each in found}) == 1
        last = len(await run.events())
        assert log.read == [*range(1, last + 1), *[last] * 4]
        await engine.cancel(run.id)


@bounded
async def test_a_page_of_operations_describes_its_own_rows_only(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(store) as engine:
        run = await at_rest(engine)
        whole = await engine.operations(run.id)
        described: list[int] = []
        describe: Callable[..., None] = Operations._describe

        def noted(self: Operations, place: Any, row: Any) -> None:
            described.append(row.seq)
            describe(self, place, row)

        monkeypatch.setattr(Operations, "_describe", noted)
        assert await engine.operations(run.id, after=whole[0].seq, limit=2) == whole[1:3]
        assert described == [row.seq for row in whole[1:3]]
        await engine.cancel(run.id)


@bounded
async def test_read_models_are_bounded_in_number_and_in_bytes(store: str) -> None:
    async with opened(store) as engine:
        log: Any = Reading(engine)
        models = ReadModels()
        runs = [await engine.start(looks, {}) for _ in range(MAX_MODELS + 1)]
        for run in runs:
            await models.of(log, run.id, ReadModel)  # type: ignore[arg-type]
        assert len(models) == MAX_MODELS
        log.read.clear()
        await models.of(log, runs[0].id, ReadModel)  # type: ignore[arg-type]
        assert log.read[0] == 1
        small = ReadModels(max_bytes=EVENT_BYTES)
        model = await small.of(log, runs[0].id, ReadModel)  # type: ignore[arg-type]
        assert model.operations.state.run == runs[0].id
        assert (len(small), small.size_bytes) == (0, 0)
        for run in runs:
            await engine.cancel(run.id)


@bounded
async def test_what_was_erased_or_is_not_looked_at_is_dropped(store: str) -> None:
    async with opened(store) as engine:
        run = await at_rest(engine)
        log: Any = Reading(engine)
        models = ReadModels()
        await models.of(log, run.id, ReadModel)
        log.is_erased = True
        with pytest.raises(KeyMissing):
            await models.of(log, run.id, ReadModel)
        assert (len(models), models.size_bytes) == (0, 0)
        log.is_erased = False
        await models.of(log, run.id, ReadModel)
        now_s = asyncio.get_running_loop().time()
        models.let_go(now_s)
        assert len(models) == 1
        models.let_go(now_s + IDLE_S + 1)
        assert (len(models), models.size_bytes) == (0, 0)
        await engine.cancel(run.id)
