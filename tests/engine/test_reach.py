"""Loading: a process that has loaded a file executes everything that the file defines, and starts what was named."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from holdfast import Context, RunFailed, Workflow, flow
from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.syntax.load import load
from holdfast.authoring import unknown_children
from holdfast.errors import NotFound, UsageError
from tests.engine import desk, desk_rooms
from tests.engine.kit import die, gate_of, opened
from tests.engine.test_children import children_of, started_child

REACHED = [
    desk.direct,
    desk.by_helper,
    desk.by_map,
    desk.by_dict,
    desk.by_method,
    desk.by_method_flow,
    desk.by_module,
    desk.by_import,
    desk.by_imported_dict,
    desk.by_closure,
    desk.graph,
    desk.by_factory_that_says_so,
]


@pytest.mark.parametrize("parent", REACHED, ids=lambda each: each.name)
async def test_a_child_goes_on_in_a_process_that_has_loaded_the_file_of_its_parent(store: str, parent: Workflow) -> None:
    async with opened(store, execute=False) as asking, opened(store, workflows=[parent]) as first:
        run = await first.start(parent)
        child = await started_child(run, first)
        gate = await gate_of(child)
        await die(first)
        await asking.decide(gate, "approve", by="grace")
        async with opened(store, workflows=[parent]) as second:
            assert await second.run(run.id).result() == "grace"


@pytest.mark.parametrize("how", desk_rooms.HELD)
async def test_a_child_is_found_in_whatever_holds_it(store: str, how: str) -> None:
    async with opened(store, workflows=[desk_rooms.by_what_holds_it]) as engine:
        run = await engine.start(desk_rooms.by_what_holds_it, how)
        await engine.decide(await gate_of(await started_child(run, engine)), "approve", by="grace")
        assert await run.result() == "grace"


async def test_a_child_whose_stored_definition_says_all_about_it_is_started(store: str) -> None:
    @flow
    async def plans(ctx: Context) -> Any:
        plan = workflow_of(load("jobs: {a: {runs-on: any, steps: [{run: 'true'}]}}", "plan"))
        return await ctx.child(plan)

    async with opened(store, workflows=[plans]) as engine:
        run = await engine.start(plans)
        await run.result()
        (child,) = await children_of(run, engine)
        assert (await child.state()).ended == "completed"


async def test_what_a_file_defines_besides_is_executed_and_not_offered(store: str) -> None:
    async with opened(store, workflows=[desk.by_helper]) as engine:
        assert desk.kid.hash in engine.runtime.catalog
        assert desk_rooms.kid_elsewhere.hash in engine.runtime.catalog
        with pytest.raises(NotFound):
            await engine.start("kid", 1)
        with pytest.raises(NotFound):
            await engine.runtime.store.graphs.workflow("upstairs", tenant="default")


@pytest.mark.parametrize("parent", [desk.by_factory, desk.by_late_import], ids=lambda each: each.name)
async def test_a_child_that_no_later_process_would_find_is_refused_with_the_way_out(store: str, parent: Workflow) -> None:
    async with opened(store, workflows=[parent]) as engine:
        run = await engine.start(parent)
        with pytest.raises(RunFailed) as failed:
            await run.result()
        message = failed.value.error.message
        assert message.startswith("Define ")
        assert "@flow(children=[...])" in message
        assert "No child was started." in message
        assert not failed.value.error.retryable
        assert not (await run.state()).children


def test_a_child_that_no_later_process_would_find_is_a_warning() -> None:
    found = unknown_children.warnings(desk.direct)
    assert [each.partition(" makes")[0].rpartition(" ")[2] for each in found] == ["by_factory", "by_late_import"]
    assert all(each.startswith("desk.py:") and "children=" in each for each in found)


async def test_a_process_that_loaded_the_file_undoes_an_effect_of_its_imported_step(store: str) -> None:
    desk_rooms.books.clear()
    async with opened(store, workflows=[desk.pays_elsewhere]) as engine:
        run = await engine.start(desk.pays_elsewhere)
        with pytest.raises(RunFailed, match="stuck"):
            await run.result()
    assert desk_rooms.books == ["paid 1", "paid back 1"]


async def test_of_two_versions_in_one_file_the_one_that_was_named_is_loaded(store: str) -> None:
    project = types.ModuleType("tests_two_versions")
    exec(TWO, vars(project))
    with loaded(project):
        async with opened(store, workflows=[project.new]) as engine:
            assert project.old.hash not in engine.runtime.catalog
        async with opened(store, workflows=[project.other]) as engine:
            assert {project.old.hash, project.new.hash}.isdisjoint(engine.runtime.catalog.workflows)
        async with opened(store, workflows=[project.other, project.old]) as engine:
            assert project.old.hash in engine.runtime.catalog


@contextmanager
def loaded(module: types.ModuleType) -> Iterator[None]:
    """As if it had been imported from a file of the project."""
    module.__file__ = __file__
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        del sys.modules[module.__name__]


# --- One name, two workflows -------------------------------------------------------------------------------------------


def process(name: str, result: str) -> Workflow:
    """A flow `process` of a module of that name."""
    module = types.ModuleType(name)
    exec(PROCESS.format(result=result), vars(module))
    found: Workflow = module.process
    return found


async def test_two_workflows_of_one_name_and_shape_are_refused_by_name_and_module(store: str) -> None:
    orders, refunds = process("orders", "orders"), process("refunds", "refunds")
    assert orders.hash == refunds.hash
    with pytest.raises(UsageError, match=r"another name.*'process'.*refunds.*orders") as refused:
        async with opened(store, workflows=[orders, refunds]):
            pass
    assert str(refused.value).startswith("Give one of two workflows another name")
    async with opened(store, workflows=[orders]) as engine:
        with pytest.raises(UsageError, match="refunds"):
            await engine.start(refunds)
        assert await (await engine.start(orders)).result() == "orders"


async def test_a_child_whose_name_another_workflow_has_is_refused(store: str) -> None:
    orders, others = process("orders", "orders"), [[process("refunds", "refunds")]]

    @flow(children=[orders])
    async def parent(ctx: Context) -> Any:
        return await ctx.child(others[0][0])

    async with opened(store, workflows=[parent]) as engine:
        with pytest.raises(RunFailed, match="refunds"):
            await (await engine.start(parent)).result()


async def test_two_graphs_of_one_name_and_shape_are_refused(store: str) -> None:
    first, second = Workflow("graph"), Workflow("graph")

    @first.node("one")
    def of_the_first(state: Any) -> str:
        return "first"

    @second.node("one")
    def of_the_second(state: Any) -> str:
        return "second"

    async with opened(store, workflows=[first]) as engine:
        with pytest.raises(UsageError, match="'graph'"):
            await engine.start(second)


async def test_one_flow_of_two_objects_is_refused(store: str) -> None:
    async with opened(store, workflows=[desk.desk.handle]) as engine:
        with pytest.raises(UsageError, match="another name"):
            await engine.start(desk.Desk().handle, 1)


async def test_a_flow_that_is_defined_again_takes_over(store: str) -> None:
    """A cell of a notebook is run again."""
    first, second = process("__main__", "old code"), process("__main__", "new code")
    async with opened(store, workflows=[first]) as engine:
        assert await (await engine.start(first)).result() == "old code"
        assert await (await engine.start(second)).result() == "new code"


PROCESS = """
from holdfast import flow

@flow
async def process(ctx):
    return {result!r}
"""

TWO = """
from holdfast import Workflow, flow, task

old, new = Workflow("letter"), Workflow("letter")
old.node("a")(task(lambda state: None))
new.node("b")(task(lambda state: None))

@flow
async def other(ctx):
    return None
"""
