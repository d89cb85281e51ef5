"""What the store is told of the workflows whose code a process loads."""

from __future__ import annotations

import contextlib
from pathlib import Path

import apsw
import msgspec
import pytest
from pydantic import BaseModel

from holdfast import Workflow
from holdfast.engine.runs.catalog import Catalog
from holdfast.errors import StoreBusy
from holdfast.stores.sqlite import SqliteStore
from tests.engine.kit import bounded


class Order(BaseModel):
    item: str
    count: int = 1


def flow(node: str, *, labels: tuple[str, ...] = ()) -> Workflow:
    wf = Workflow("flow", input=Order, runs_on=labels)

    @wf.node(node)
    async def work(state):  # type: ignore[no-untyped-def]
        return None

    return wf


@bounded
async def test_loading_writes_a_definition_only_if_the_stored_one_differs(tmp_path: Path) -> None:
    mine, theirs = [await SqliteStore.connect(tmp_path / "holdfast.db") for _ in range(2)]
    first, second, third = flow("a"), flow("b"), flow("c", labels=("gpu",))
    catalog = Catalog(mine.graphs)

    async def loaded(into: Catalog, workflow: Workflow, *, is_news: bool) -> None:
        await into.add(workflow)
        assert await theirs.watch.changed(10 if is_news else 0) == is_news
        assert (await theirs.graphs.workflow("flow", tenant="default")).graph_hash == workflow.hash

    await loaded(catalog, first, is_news=True)
    await loaded(catalog, first, is_news=False)
    await loaded(catalog, second, is_news=True)
    await loaded(catalog, first, is_news=True)  # this process has both, and the one that was loaded last counts
    await loaded(Catalog(mine.graphs), first, is_news=False)
    await catalog.forget(first.hash)
    await loaded(catalog, first, is_news=False)
    await loaded(catalog, third, is_news=True)
    assert third.hash not in catalog, "what it cannot run it can tell of"

    await Catalog(mine.graphs).adopt(second)  # some run follows it still
    assert not await theirs.watch.changed(0)
    record = await theirs.graphs.workflow("flow", tenant="default")
    assert record.graph_hash == third.hash
    assert msgspec.json.decode(record.input_schema or b"") == first.input_schema
    for store in (mine, theirs):
        await store.aclose()


@bounded
async def test_code_that_the_store_knows_is_loaded_without_the_write_lock(tmp_path: Path) -> None:
    """Workers start together, and each would wait for all others."""
    store = await SqliteStore.connect(tmp_path / "holdfast.db", wait_s=0.2)
    await Catalog(store.graphs).add(flow("a"))
    with contextlib.closing(apsw.Connection(str(tmp_path / "holdfast.db"))) as other:
        other.execute("begin immediate")
        await Catalog(store.graphs).add(flow("a"))
        with pytest.raises(StoreBusy):
            await Catalog(store.graphs).add(flow("b"))
    await store.aclose()
