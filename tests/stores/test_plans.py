"""No list that a person on call asks for sorts a whole table, or looks up its rows one by one: SQLite's own plans say so."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast import Engine, Workflow, task
from holdfast.core.facts.costs import UncountedRun
from holdfast.core.values.ids import RunId
from holdfast.engine.background.rollup import count_some
from holdfast.engine.capacity import diagnosis
from holdfast.ports import Store, Views
from holdfast.storage import open_store
from holdfast.stores.statement import statements

RUN = "01890000-0000-7000-8000-000000000001"
Asked = list[tuple[str, Sequence[Any]]]


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[tuple[Store, Asked, Path]]:
    """A store, and the statements that its lists send."""
    file = tmp_path / "plans.db"
    opened = await open_store(f"sqlite:///{file}")
    statements: Asked = []
    tables = opened.views._tables  # type: ignore[attr-defined]
    look = tables.look

    async def looking(statement: str, bound: Sequence[Any]) -> Any:
        statements.append((statement, bound))
        return await look(statement, bound)

    tables.look = looking
    yield opened, statements, file
    await opened.aclose()


LISTS: dict[str, Callable[[Views], Awaitable[Any]]] = {
    "runs": lambda views: views.runs(limit=50),
    "runs of a status": lambda views: views.runs(status="failed", limit=50),
    "runs of a tenant": lambda views: views.runs(tenant="acme", limit=50),
    "runs of a workflow": lambda views: views.runs(workflow="order", status="completed", limit=50),
    "latest runs of a workflow": lambda views: views.runs(workflow="order", limit=100),
    "runs that wait": lambda views: views.runs(waiting_for=["gate"], limit=50),
    "runs after one": lambda views: views.runs(before=RUN, limit=50),
    "open gates": lambda views: views.gates(limit=50),
    "gates of a run": lambda views: views.gates(run=RUN, open_only=False, limit=50),
    "effects": lambda views: views.effects(limit=50),
    "effects of a state": lambda views: views.effects(state="in_doubt", limit=50),
}


def plan(file: Path, statement: str, bound: Sequence[Any]) -> list[str]:
    from holdfast.stores.sqlite.context import as_bound
    from holdfast.stores.statement import for_sqlite

    with contextlib.closing(apsw.Connection(str(file))) as db:
        return [row[3] for row in db.execute(f"explain query plan {for_sqlite(statement)}", as_bound(bound))]


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_ends_with_its_limit_and_sorts_no_table(asked: tuple[Store, Asked, Path], name: str) -> None:
    store, statements, file = asked
    await LISTS[name](store.views)
    assert statements
    for each in statements:
        steps = plan(file, *each)
        assert not [step for step in steps if "TEMP B-TREE" in step], steps


async def test_the_queue_looks_its_runs_up_together(asked: tuple[Store, Asked, Path]) -> None:
    store, statements, file = asked
    wf = Workflow("plain")
    wf.node("do")(task(lambda state: 1))
    async with Engine.open(f"sqlite:///{file}", execute=False) as engine:
        for _ in range(20):
            await engine.start(wf)
    found = [each async for each in diagnosis.line(store.views, store.clock.now_ms() + 60_000)]
    assert len(found) == 20
    assert len([each for each in statements if "from runs" in each[0] or "holdfast.runs" in each[0]]) == 1
    assert all("SEARCH runs" in " ".join(plan(file, *each)) for each in statements)


async def test_counting_costs_reads_the_runs_with_new_events_and_no_others(tmp_path: Path) -> None:
    file = tmp_path / "plans.db"
    wf = Workflow("plain")
    wf.node("do")(task(lambda state: 1))
    async with Engine.open(f"sqlite:///{file}", workflows=[wf]) as engine:
        store = engine.runtime.store
        for _ in range(20):
            await (await engine.start(wf)).result()
        while not await count_some(store):
            pass
        run = await engine.start(wf)
        await run.result()
        asked: list[RunId] = []
        uncounted, store_costs = store.costs.uncounted, store.costs

        async def asking(runs: Sequence[RunId]) -> Sequence[UncountedRun]:
            asked.extend(runs)
            return await uncounted(runs)

        store_costs.uncounted = asking  # type: ignore[method-assign]
        while not await count_some(store):
            pass
        assert set(asked) == {run.id}
        await count_some(store)
        assert len(asked) == 1, "nothing is new"
    for name, bound in (("uncounted", ["[]"]), ("runs_of_tail", [7, 10])):
        with contextlib.closing(apsw.Connection(str(file))) as db:
            steps = [row[3] for row in db.execute(f"explain query plan {statements('sqlite')[name]}", bound)]
        assert not [step for step in steps if step.startswith(("SCAN runs", "SCAN events", "SCAN counted"))], steps


async def test_a_months_events_are_read_of_its_first_and_last_runs_only(tmp_path: Path) -> None:
    file = tmp_path / "plans.db"
    wf = Workflow("plain")
    wf.node("do")(task(lambda state: 1))
    async with Engine.open(f"sqlite:///{file}", execute=False) as engine:
        for _ in range(10):
            await engine.start(wf)
    with contextlib.closing(apsw.Connection(str(file))) as db:
        month, bounds = statements("sqlite")["month"], ("0", "g")
        ((events,),) = db.execute("select count(*) from events").fetchall()
        assert db.execute(month, (*bounds, 10)).fetchall() == [(10, 10, events, 10, 0, 0, 0, 1)], "exact where there are few"
        assert db.execute(month, (*bounds, 2)).fetchall() == [(10, 10, events, 4, 0, 0, 0, 1)]
        steps = [row[3] for row in db.execute(f"explain query plan {month}", (*bounds, 2))]
    assert "SCAN runs USING INDEX runs_unended" in steps, "of a month of many runs those that have not ended are looked up"
    assert not [step for step in steps if step == "SCAN runs"], steps
