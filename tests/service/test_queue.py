"""The line of waiting steps, page by page, and counted by what they ask for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Demand, Engine, StateView, Workflow, task
from holdfast.core.values.access import Access
from holdfast.errors import UsageError
from holdfast.service.declarations import query
from holdfast.service.declarations.declaration import Query
from holdfast.service.principal import Principal
from holdfast.service.service import Service

IDA = Principal("ida", None, access=Access(("viewer", "admin", "operator")))
MAX_S = 20.0
MAX_PAGES = 9


def wanting(name: str, **labels: str) -> Workflow:
    """A workflow of nodes that start together, each for a label that no worker has."""
    workflow = Workflow(name)
    for node, label in labels.items():

        @workflow.node(node, demand=Demand(labels=(label,)))
        @task
        def never(state: StateView) -> str:
            raise AssertionError("nobody has the label")

    return workflow


PAIR, PAINT = wanting("pair", one="gpu", two="tpu"), wanting("paint", draw="gpu")


async def pages(engine: Engine, asked: Query[Any], who: Principal = IDA) -> list[list[dict[str, Any]]]:
    """All pages of a list."""
    service, found = Service(engine, [PAIR, PAINT]), []
    for _ in range(MAX_PAGES):
        page = await service.query(who, asked)
        found.append(list(page.rows))
        if page.cursor is None:
            return found
        asked = type(asked)(**{name: getattr(asked, name) for name in asked.__struct_fields__} | {"cursor": page.cursor})
    raise AssertionError("the list does not end")


async def test_the_line_is_read_page_by_page_each_step_once_and_in_order(tmp_path: Path) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[PAIR, PAINT]) as engine:
        runs = [await engine.start(each, tenant=tenant) for each, tenant in [(PAIR, "acme"), (PAINT, "globex"), (PAIR, "acme")]]
        async with asyncio.timeout(MAX_S):
            while len(whole := (await pages(engine, query.Queue()))[0]) < 5:
                await asyncio.sleep(0.02)
        assert [each["ahead"] for each in whole] == [0, 1, 2, 3, 4]
        assert [each["run"] for each in whole] == [runs[number].id for number in (0, 0, 1, 2, 2)]
        for limit in (1, 2, 3, 4):
            found = await pages(engine, query.Queue(limit=limit))
            assert [row for rows in found for row in rows] == whole, limit
            assert {len(rows) for rows in found[:-1]} == {limit}
        assert await pages(engine, query.Queue(demands="label gpu", limit=2)) == [
            [row for row in whole if row["demands"] == "label gpu"][:2],
            [row for row in whole if row["demands"] == "label gpu"][2:],
        ]
        acme = [row for rows in await pages(engine, query.Queue(limit=1), IDA._replace(tenant="acme")) for row in rows]
        assert acme == [row for row in whole if row["tenant"] == "acme"], "with how many are ahead, whosever they are"
        gone = await Service(engine, [PAIR, PAINT]).query(IDA, query.Queue(limit=1))
        await engine.cancel(runs[0].id, by="ida")
        async with asyncio.timeout(MAX_S):
            while len((await pages(engine, query.Queue()))[0]) > 3:
                await asyncio.sleep(0.02)
        (after,) = await pages(engine, query.Queue(cursor=gone.cursor))
        assert [each["run"] for each in after] == [runs[number].id for number in (1, 2, 2)], "the list goes on"
        with pytest.raises(UsageError):
            await pages(engine, query.Queue(cursor="nonsense"))


async def test_waiting_steps_are_counted_by_what_they_ask_for(tmp_path: Path) -> None:
    async with Engine.open(str(tmp_path / "runs.db"), workflows=[PAIR, PAINT]) as engine:
        for each, tenant in [(PAIR, "acme"), (PAINT, "globex"), (PAINT, "acme")]:
            await engine.start(each, tenant=tenant)
        async with asyncio.timeout(MAX_S):
            while len((await pages(engine, query.Queue()))[0]) < 4:
                await asyncio.sleep(0.02)
        gpu, tpu = {"demands": "label gpu", "steps": 3}, {"demands": "label tpu", "steps": 1}
        assert await pages(engine, query.QueueSummary(limit=1)) == [[gpu], [tpu]]
        assert await pages(engine, query.QueueSummary(), IDA._replace(tenant="globex")) == [[gpu | {"steps": 1}]]
        of_pair = IDA._replace(access=Access(("viewer",), workflows=("pair",)))
        assert await pages(engine, query.QueueSummary(), of_pair) == [[gpu | {"steps": 1}, tpu]]
