"""Maps: a list that is known only at run time, each of whose items is a step."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import (
    Context,
    Demand,
    Join,
    OperationFailed,
    RetryPolicy,
    RunFailed,
    Workflow,
    child,
    flow,
    map_node,
    step,
    task,
    tool,
)
from holdfast.core.facts import events as ev
from holdfast.core.views.status import waiting_for
from holdfast.errors import UsageError
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer
from tests.engine.history import events_of
from tests.engine.kit import die, eventually, opened

SOON = RetryPolicy(max_attempts=3, initial_s=0.001)
MODEL = "claude-sonnet-5"


class Size(BaseModel):
    of: str
    letters: int


@step(retry=SOON)
def measure(word: str) -> Size:
    return Size(of=word, letters=len(word))


@pytest.fixture
def world() -> list[Any]:
    return []


async def started(run: Any) -> list[str]:
    return sorted({each.step for each in await events_of(run, ev.StepStarted)})


async def test_a_flow_has_a_list_done_item_by_item_and_gets_the_results_in_its_order(store: str) -> None:
    @flow
    async def handle(ctx: Context, words: list[str]) -> Any:
        sizes = await ctx.map(measure, words, max_parallel=2)
        assert all(isinstance(size, Size) for size in sizes)
        return [size.letters for size in sizes] + await ctx.map(measure, [])

    async with opened(store) as engine:
        run = await engine.start(handle, ["tea", "coffee", "water", "ox"])
        assert await run.result() == [3, 6, 5, 2]
        assert await started(run) == ["flow#1", *[f"flow/0[{n}]#1" for n in range(4)]]
        state = await run.state()
        assert list(state.steps) == ["flow"], "a finished item is no step any more"


async def test_a_map_node_does_an_item_as_any_node_would(store: str) -> None:
    wf = Workflow("reviews")

    @wf.node("review")
    @map_node(lambda state: state.input["documents"], key="id", max_parallel=2)
    @task(retry=SOON)
    async def review(state: Any, ctx: Context, item: Any) -> Any:
        if item.id == "b" and not ctx.failures:
            raise RuntimeError("once")
        return f"{item.id}: {len(item.text)} of {len(state.input.documents)}"

    @wf.node("sum")
    def total(state: Any) -> Any:
        return state.events["review"].output

    wf.edge("review", "sum")
    documents = [{"id": "a", "text": "x"}, {"id": "b", "text": "xy"}, {"id": "c/d", "text": ""}]
    async with opened(store) as engine:
        run = await engine.start(wf, {"documents": documents})
        assert await run.result() == ["a: 1 of 3", "b: 2 of 3", "c/d: 0 of 3"]
        assert {each.step for each in await events_of(run, ev.AttemptFailed)} == {"review[b]#1"}
        assert await started(run) == ["review#1", "review[a]#1", "review[b]#1", "review[c%2Fd]#1", "sum#1"]


async def test_a_process_that_dies_loses_no_item_that_was_done_and_no_other_is_left_out(store: str, world: list[Any]) -> None:
    async def visit(ctx: Context, item: int) -> int:
        world.append(item)
        if item == 3 and world.count(3) == 1:
            await asyncio.Event().wait()  # and here the process dies
        return item * item

    @flow
    async def handle(ctx: Context) -> Any:
        return await ctx.map(visit, list(range(6)), max_parallel=2)

    async with opened(store) as first, opened(store, workflows=[handle]) as second:
        run = await first.start(handle)
        await eventually(lambda: 5 in world)
        await run.until(lambda state: state.maps["flow/0"].completed == 5)
        await die(first)
        assert await second.run(run.id).result() == [n * n for n in range(6)]
    assert sorted(world) == [0, 1, 2, 3, 3, 4, 5]


async def test_an_item_has_money_and_a_journal_of_its_own(store: str, server: ModelServer, model: Providers) -> None:
    async def ask(ctx: Context, item: str) -> Any:
        told = await ctx.model(MODEL, item, max_tokens=50)
        return [item, bool(told), await measure(item)]

    @flow(cost_limit_usd="1.00")
    async def handle(ctx: Context, words: list[str]) -> Any:
        return await ctx.map(ask, words, key=lambda word: word)

    async with opened(store, model=model) as engine:
        run = await engine.start(handle, ["tea", "ox"])
        assert await run.result() == [["tea", True, {"of": "tea", "letters": 3}], ["ox", True, {"of": "ox", "letters": 2}]]
        held = {each.call.split(":")[1] for each in await events_of(run, ev.ModelCallHeld)}
        assert held == {"flow/0[tea]#1", "flow/0[ox]#1"}


async def test_effects_are_done_once_an_item_and_undone_with_their_run(store: str, world: list[Any]) -> None:
    @tool(effect="idempotent")
    def unbook(seat: str, response: Any) -> None:
        world.append(f"-{seat}")

    @step(effect="idempotent", compensation=unbook)
    def book(seat: str) -> str:
        world.append(f"+{seat}")
        return seat

    @tool(effect="read")
    def price(seat: str) -> int:
        return len(seat)

    @flow(tools=[price])
    async def handle(ctx: Context, seats: list[str]) -> Any:
        found = await ctx.map(price, [{"seat": seat} for seat in seats])
        await ctx.map(book, seats)
        raise RuntimeError(f"too dear: {found}")

    async with opened(store) as engine:
        run = await engine.start(handle, ["1a", "2bc"])
        with pytest.raises(RunFailed, match=r"too dear: \[2, 3\]"):
            await run.result()
        assert sorted(world[:2]) == ["+1a", "+2bc"]
        assert sorted(world[2:]) == ["-1a", "-2bc"]


@step
def fails_on(word: str) -> str:
    if word.startswith("x"):
        raise ValueError(f"{word} is wrong")
    return word


@pytest.mark.parametrize(
    ("terms", "result"),
    [
        ({"tolerated_failures": 2}, ["a", None, "b", None]),
        ({"tolerated_failures": 0.5}, ["a", None, "b", None]),
        ({"collect": "best_effort"}, ["a", None, "b", None]),
        ({"min_successful": 1, "max_parallel": 1}, ["a", None, None, None]),
        ({"collect": "any", "max_parallel": 1}, ["a", None, None, None]),
        ({"collect": Join("quorum", 2), "max_parallel": 1}, ["a", None, "b", None]),
        ({"tolerated_failures": 1, "max_parallel": 1}, "2 of 4 items of 'flow/0' have failed, and 1 may"),
        ({"min_successful": 3, "max_parallel": 1}, "2 of 4 items of 'flow/0' have failed, and 1 may"),
        ({"collect": "all_required"}, "1 of 4 items of 'flow/0' have failed, and none may"),
    ],
    ids=str,
)
async def test_how_many_must_succeed_is_said_in_numbers_or_as_a_join(tmp_path: Any, terms: dict[str, Any], result: Any) -> None:
    @flow
    async def handle(ctx: Context) -> Any:
        try:
            return await ctx.map(fails_on, ["a", "x1", "b", "x2"], **terms)
        except OperationFailed as failed:
            return str(failed)

    async with opened(f"sqlite:///{tmp_path / 'db'}") as engine:
        found = await (await engine.start(handle)).result()
    assert found == result if isinstance(result, list) else found.startswith(result)


async def test_a_failed_run_is_taken_up_with_the_items_that_came_to_nothing(store: str, world: list[Any]) -> None:
    @step
    def work(number: int) -> int:
        world.append(number)
        if world.count(2) == 1 and number == 2:
            raise ValueError("not yet")
        return number

    @flow
    async def handle(ctx: Context) -> Any:
        return await ctx.map(work, [0, 1, 2], max_parallel=1)

    async with opened(store) as engine:
        run = await engine.start(handle)
        with pytest.raises(RunFailed, match="items of 'flow/0' have failed"):
            await run.result()
        await engine.retry(run.id)
        assert await run.result() == [0, 1, 2]
    assert world == [0, 1, 2, 2]


async def test_a_list_and_its_results_may_be_larger_than_an_event(store: str) -> None:
    @step
    def shout(text: str) -> str:
        return text.upper()

    @flow
    async def handle(ctx: Context) -> Any:
        texts = [f"{n}" * 9_000 for n in range(30)] + ["small", "large" * 20_000]
        return [len(text) for text in await ctx.map(shout, texts)]

    async with opened(store) as engine:
        run = await engine.start(handle)
        assert await run.result() == [len(f"{n}") * 9_000 for n in range(30)] + [5, 100_000]
        (mapped,) = await events_of(run, ev.ItemsMapped)
        assert len(mapped.pages) > 3
        assert all(page.blob is not None for page in mapped.pages)
        assert len(ev.encode(mapped)) < 10_000


async def test_maps_in_a_gather_and_in_items_do_not_meet(store: str) -> None:
    async def row(ctx: Context, numbers: list[int]) -> Any:
        return await ctx.map(double, numbers)

    async def double(ctx: Context, number: int) -> int:
        return 2 * number

    @flow
    async def handle(ctx: Context) -> Any:
        assert row
        assert double
        return await ctx.gather(ctx.map(row, [[1, 2], [3]]), ctx.map(double, [7]))

    async with opened(store) as engine:
        run = await engine.start(handle)
        assert await run.result() == [[[2, 4], [6]], [14]]


async def test_cancelling_a_run_reaches_its_items(store: str, world: list[Any]) -> None:
    async def wait(ctx: Context, item: int) -> None:
        world.append(item)
        await ctx.sleep(days=1)

    @flow
    async def handle(ctx: Context) -> Any:
        return await ctx.map(wait, [1, 2, 3], max_parallel=2)

    async with opened(store) as engine:
        run = await engine.start(handle)
        state = await run.until(lambda state: len(world) == 2 and not state.active)
        assert {*state.unfinished} == {"flow", "flow/0[0]", "flow/0[1]"}
        await engine.cancel(run.id)
        state = await run.until(lambda state: bool(state.ended))
        assert (state.ended, state.unfinished) == ("cancelled", {})


async def test_items_that_are_children_have_runs_of_their_own(store: str) -> None:
    @flow
    async def square(ctx: Context, number: int) -> int:
        return number * number

    wf = Workflow("squares")
    wf.node("all")(map_node(lambda state: state.input)(child(workflow=square)(lambda state, item: item)))

    async def one(ctx: Context, number: int) -> Any:
        return await ctx.child(square, number)

    @flow
    async def handle(ctx: Context) -> Any:
        assert square
        return await ctx.map(one, [1, 2, 3], max_parallel=2)

    async with opened(store, workflows=[square]) as engine:
        assert await (await engine.start(wf, [2, 3])).result() == [4, 9]
        run = await engine.start(handle)
        assert await run.result() == [1, 4, 9]
        assert [each.status for each in await engine.runs(workflow="square")] == ["completed"] * 5


async def test_an_item_is_placed_by_what_it_asks_for_itself(tmp_path: Path) -> None:
    def asks(item: Any) -> Demand:
        return Demand(labels=("gpu",)) if item == "large" else Demand()

    @flow
    async def handle(ctx: Context) -> Any:
        return await ctx.map(fails_on, ["small", "large"], demand=asks)

    store = f"sqlite:///{tmp_path / 'db'}"
    async with opened(store) as small:
        run = await small.start(handle)
        state = await run.until(lambda state: state.maps.get("flow/0") is not None and state.maps["flow/0"].completed == 1)
        assert [wait.demand.labels for wait in waiting_for(state) if wait.demand is not None] == [("gpu",)]
    async with opened(store, workflows=[handle], labels=["gpu"]) as large:
        assert await large.run(run.id).result() == ["small", "large"]


def local() -> Any:
    async def nowhere(ctx: Context, item: Any) -> None: ...

    return nowhere


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((measure, "text"), "What is to be mapped is str, and no list"),
        ((measure, 7), "What is to be mapped is int, and no list"),
        ((measure, ["a"] * 100_001), "a map takes 100000 at most"),
        ((measure, ["a"], {"min_successful": 2}), "2 items are to succeed, and the list has 1"),
        ((measure, ["a"], {"max_parallel": 0}), "max_parallel=0"),
        ((measure, ["a"], {"tolerated_failures": 1.5}), "tolerated_failures=1.5"),
        ((measure, ["a"], {"collect": "some"}), "collect='some' is none of 'all'"),
        ((measure, ["a"], {"collect": "any", "min_successful": 1}), "says already how many"),
        ((measure, ["a", "b", "a"], {"key": str}), "Two items of this list are called 'a'"),
        ((measure, [{}], {"key": "id"}), "Item 0 has no 'id'"),
        ((measure, ["a"], {"key": lambda word: None}), "Item 0 would be called None"),
        ((measure, [object()]), "JSON"),
        ((measure, ["a"], {"demand": lambda item: "gpu"}), "it has the type str, not Demand"),
        ((len, ["a"]), r"each item is done by a step \(@step\), a tool, or a function"),
        ((local(), ["a"]), "has to find 'nowhere' by its name"),
    ],
    ids=lambda each: "" if isinstance(each, tuple) else None,
)
async def test_what_cannot_be_mapped_is_refused_in_words(tmp_path: Any, arguments: Any, message: str) -> None:
    @flow
    async def handle(ctx: Context) -> Any:
        return await ctx.map(*arguments[:2], **dict(*arguments[2:]))

    async with opened(f"sqlite:///{tmp_path / 'db'}") as engine:
        run = await engine.start(handle)
        with pytest.raises(RunFailed, match=message):
            await run.result()
        assert not await events_of(run, ev.ItemsMapped)


def test_what_cannot_be_a_map_node_is_refused_where_it_is_written() -> None:
    with pytest.raises(UsageError, match="must take `item`"):
        map_node(lambda state: [])(lambda state: None)
    with pytest.raises(UsageError, match="is given a function of the state"):
        map_node([1, 2])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="takes the state alone"):
        map_node(lambda state, ctx: [])
    wf = Workflow("w")
    with pytest.raises(UsageError, match="only those of a map have"):

        @wf.node("n")
        def review(state: Any, item: Any) -> None: ...


# --- A step with a place of its own -------------------------------------------------------------------------------------


@step(demand=Demand(labels=("gpu",)), retry=SOON)
async def render(scene: str, *, frames: int = 1) -> Size:
    if scene == "broken":
        raise LookupError("no such scene")
    return Size(of=scene, letters=frames)


@step(effect="idempotent", demand=Demand(labels=("gpu",)))
async def publish(scene: str) -> str:
    return scene.upper()


@flow(name="film")
async def film(ctx: Context, scenes: list[str]) -> Any:
    rendered = await ctx.gather(*(render(scene, frames=3) for scene in scenes))
    return [[each.of, each.letters] for each in rendered], await publish(scenes[0])


@flow(name="spoilt")
async def spoilt(ctx: Context) -> Any:
    try:
        await render("broken")
    except OperationFailed as failed:
        return failed.error.error_class, failed.error.message


async def test_a_step_with_a_demand_runs_in_its_place_and_returns_its_result_to_the_flow(store: str) -> None:
    async with opened(store, workflows=[film], labels=["cpu"]) as here, opened(store, workflows=[film], labels=["gpu"]):
        run = await here.start(film, ["sea", "sky"])
        assert await run.result() == [[["sea", 3], ["sky", 3]], "SEA"]
        assert await started(run) == ["flow#1", "flow/0.0.0[0]#1", "flow/0.1.0[0]#1", "flow/1[0]#1"]
        demands = [each.demand for each in await events_of(run, ev.ItemsMapped)]
        assert [demand and demand.labels for demand in demands] == [("gpu",)] * 3
        (intent,) = await events_of(run, ev.EffectIntended)
        assert intent.tool == "publish"


async def test_a_step_with_a_demand_fails_as_itself_after_its_own_attempts(store: str) -> None:
    async with opened(store, workflows=[spoilt], labels=["gpu"]) as engine:
        run = await engine.start(spoilt)
        error_class, message = await run.result()
        assert error_class == "error"
        assert message.startswith("LookupError: no such scene")
        assert len(await events_of(run, ev.AttemptFailed)) == 2


def test_a_step_with_a_demand_is_no_method_and_its_demand_can_be_met() -> None:
    class Studio:
        @step(demand=Demand(gpus=1))
        def cut(self, scene: str) -> str:
            return scene

    with pytest.raises(UsageError, match="a method of Studio"):
        _ = Studio().cut
    with pytest.raises(UsageError, match="gpus is -1"):
        step(demand=Demand(gpus=-1))(len)
    with pytest.raises(UsageError, match="it is dict"):
        step(demand={"gpus": 1})(len)  # type: ignore[call-overload]
