"""The same done to all runs that a filter finds: each by itself, told before, and of one's own tenant only."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import StateView, Workflow, task
from holdfast.errors import InvalidInput, NotPermitted
from holdfast.service.declarations import command as cmd
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from tests.engine.kit import opened


async def test_a_bulk_retry_or_fork_acts_on_each_run_alone_and_a_dry_run_only_lists(store: str) -> None:
    mended: list[bool] = []
    wf = Workflow("fragile")

    @wf.node("plan")
    @task
    def plan(state: StateView) -> int:
        return state.input.get("n", 0)

    @wf.node("break")
    @task
    def break_(state: StateView) -> int:
        if not mended:
            raise RuntimeError("broken")
        return state.events["plan"].output

    wf.edge("plan", "break")
    async with opened(store, workflows=[wf]) as engine:
        service, ann = Service(engine, [wf]), Principal("ann", tenant="acme")
        runs = [await engine.start(wf, {"n": n}, tenant="acme") for n in range(3)]
        other = await engine.start(wf, tenant="other")
        for run in (*runs, other):
            await run.until(lambda state: bool(state.ended))
        would = await engine.bulk("retry", dry_run=True)
        assert ({each.run for each in would}, {each.refused for each in would}) == ({run.id for run in (*runs, other)}, {None})
        assert await runs[0].status() == "failed"
        ids = [run.id for run in reversed(runs)]
        quotes = await service.execute(ann, cmd.Bulk(action="fork", step="break#1", dry_run=True))
        assert [(row["run_id"], row["refused"], row["fork"]) for row in quotes.rows] == [(id_, None, None) for id_ in ids]
        mended.append(True)
        page = await service.execute(ann, cmd.Bulk(action="fork", step="break#1", limit=2))
        rest = await service.execute(ann, cmd.Bulk(action="fork", step="break#1", limit=2, cursor=page.cursor))
        forks = [row["fork"] for row in (*page.rows, *rest.rows)]
        assert [await engine.run(fork).result() for fork in forks] == [2, 1, 0]
        assert rest.cursor is None
        again = await service.execute(ann, cmd.Bulk(action="fork", step="break#1", dry_run=True))
        assert [row["fork"] for row in again.rows] == forks, "said again it forks nothing twice"
        again = await service.execute(ann, cmd.Bulk(action="fork", step="break#1", status=("failed", "completed")))
        own = [row["run_id"] for row in again.rows if "a fork that this has made" in (row["refused"] or "")]
        assert (sorted(own), [row["fork"] for row in again.rows if row["fork"]]) == (sorted(forks), forks)
        other_forks = await engine.bulk("fork", step="break#1", fork_key="second look", tenant="acme", limit=1)
        assert other_forks[0].fork not in (*forks, None)
        await engine.run(other_forks[0].fork or "").result()
        nowhere = await engine.bulk("fork", step="nowhere#1", tenant="acme")
        assert all("nowhere#1" in (each.refused or "") for each in nowhere)
        done = await service.execute(ann, cmd.Bulk(action="retry", workflow="fragile"))
        assert [row["run_id"] for row in done.rows] == ids
        for run in runs:
            await run.result()
        assert await other.status() == "failed"
        refused = await engine.bulk("cancel", tenant="acme", status=["completed"], limit=1, reason="late")
        assert [each.refused is not None for each in refused] == [True]
        for wrong in (cmd.Bulk(action="retry", step="break#1"), cmd.Bulk(action="fork"), cmd.Bulk(action="retry", limit=0)):
            with pytest.raises(InvalidInput):
                await service.execute(ann, wrong)
        with pytest.raises(InvalidInput, match="no status"):
            await service.execute(ann, cmd.Bulk(action="retry", status=("brokn",)))
        with pytest.raises(NotPermitted):
            await service.execute(ann, cmd.Bulk(action="retry", tenant="other"))


async def test_a_criterion_that_does_not_exist_is_refused(store: str) -> None:
    """Ignored, it would have a bulk command act on more runs than were meant."""
    misspelt: dict[str, Any] = {"tenent": "acme"}
    async with opened(store) as engine:
        for asked in (
            engine.bulk("cancel", **misspelt),
            engine.runs(**misspelt),
            engine.gates(**misspelt),
            engine.effects(**misspelt),
            engine.score_means(**misspelt),
            engine.dead_letters(**misspelt),
            engine.bulk_dead_letters("retry", **misspelt),
            engine.costs("2026-01-01", "2026-01-02", **misspelt),
        ):
            with pytest.raises(TypeError, match="no criterion 'tenent'"):
                await asked
