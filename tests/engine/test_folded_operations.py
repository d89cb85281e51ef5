"""Operations are read once, and are the same as those of the whole history at each moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast import Context, Engine, flow, tool
from holdfast.core.facts.events import Recorded
from holdfast.core.values.ids import RunId
from holdfast.core.views.operations import operations
from holdfast.engine.runs.folded_operations import MAX_RUNS, FoldedOperations
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
    """A log that notes what is read of it."""

    def __init__(self, engine: Engine) -> None:
        self._log = engine.store.log
        self.read: list[int] = []

    async def events(self, run: RunId, after: int = 0, limit: int | None = None) -> Sequence[Recorded]:
        found = await self._log.events(run, after, limit)
        self.read += [each.seq for each in found]
        return found


@bounded
async def test_only_new_events_are_read_and_rows_are_those_of_the_whole_history(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(looks, {})
        await run.until(lambda state: any(step.status == "suspended" for step in state.steps.values()))
        log, folded = Reading(engine), FoldedOperations()
        for _ in range(2):
            assert await folded.of(log, run.id) == operations(await run.events())  # type: ignore[arg-type]
        before = len(log.read)
        assert log.read == [*range(1, before + 1)]
        await engine.signal(run.id, "go")
        assert await run.result() == 9
        rows = await folded.of(log, run.id)  # type: ignore[arg-type]
        assert rows == operations(await run.events())
        assert log.read == [*range(1, len(await run.events()) + 1)]
        assert await engine.operations(run.id) == rows


@bounded
async def test_few_runs_are_kept(store: str) -> None:
    async with opened(store) as engine:
        log, folded = Reading(engine), FoldedOperations()
        runs = [await engine.start(looks, {}) for _ in range(MAX_RUNS + 1)]
        for run in runs:
            await folded.of(log, run.id)  # type: ignore[arg-type]
        log.read.clear()
        await folded.of(log, runs[0].id)  # type: ignore[arg-type]
        assert log.read[0] == 1
        for run in runs:
            await engine.cancel(run.id)
