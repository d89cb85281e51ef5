"""Flows: a function as a workflow. What its steps came to is recorded once, and nothing else of it need be."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import decimal
import gc
import sys
import threading
import types
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from holdfast import Context, OperationFailed, OutcomeUnknown, RetryPolicy, RunFailed, ToolFailed, flow, step
from holdfast.cli.target import _from_file
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION
from holdfast.engine.flow.loop import FlowTask, OperationCall, Outcome
from holdfast.engine.flow.operations import Operation
from holdfast.errors import InvalidInput, UsageError
from holdfast.testing import run_node
from tests.engine.history import events_of
from tests.engine.kit import Time, call_of, die, divergence, engine_at, eventually, gate_of, lose_lease, opened

SOON = RetryPolicy(max_attempts=3, initial_s=0.001)


class Order(BaseModel):
    item: str
    count: int = 1


@dataclasses.dataclass
class Price:
    net: float
    parts: tuple[int, ...] = ()


class Receipt(msgspec.Struct):
    number: int


@pytest.fixture
def world() -> list[Any]:
    return []


async def recorded(run: Any) -> list[str]:
    """The functions of which a result was recorded, in order."""
    return [each.name for each in await events_of(run, ev.ValueRecorded) if each.kind == FUNCTION]


@pytest.mark.usefixtures("replays")
async def test_what_a_flow_has_looked_at_before_a_step_that_fails_is_the_same_on_a_replay(store: str) -> None:
    seen: list[Any] = []

    @step
    async def breaks() -> None:
        raise ToolFailed("closed")

    @flow
    async def handle(ctx: Context) -> None:
        looked_at = [ctx.now(), ctx.uuid()]
        with contextlib.suppress(OperationFailed):
            await breaks()
        seen.append(looked_at)
        await ctx.sleep(0.01)

    async with opened(store) as engine:
        await (await engine.start(handle)).result()
    assert len(seen) > 1
    assert seen == [seen[0]] * len(seen)


# --- What is promised ---------------------------------------------------------------------------------------------------


async def test_a_flow_whose_process_dies_goes_on_where_it_was(store: str, world: list[Any]) -> None:
    @step
    async def look_up(item: str) -> dict[str, float]:
        world.append(f"looked up {item}")
        return {"net": 3.5}

    @step
    def compute(net: float, count: int) -> float:
        world.append("computed")
        return net * count

    @flow
    async def handle(ctx: Context, order: Order) -> float:
        world.append("begins")
        found = await look_up(order.item)
        if world.count("begins") == 1:
            await asyncio.Event().wait()  # and here the process dies
        return await compute(found["net"], order.count)

    async with opened(store) as first, opened(store, workflows=[handle]) as second:
        run = await first.start(handle, {"item": "tea", "count": 2})
        await eventually(lambda: "looked up tea" in world)
        await run.until(lambda state: bool(state.steps["flow"].journal))
        await die(first)
        assert await second.run(run.id).result() == 7.0
        assert await recorded(run) == ["look_up", "compute"]
    assert world == ["begins", "looked up tea", "begins", "computed"]


async def test_a_step_that_was_interrupted_runs_again_and_only_one_result_counts(store: str, world: list[Any]) -> None:
    """At least once: nothing of it was recorded, so how far it got cannot be known."""
    held = asyncio.Event()

    @step
    async def work() -> int:
        world.append("works")
        if world.count("works") == 1:
            try:
                await held.wait()
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                raise
        return world.count("works")

    @flow
    async def handle(ctx: Context) -> int:
        return await work()

    async with opened(store) as first, opened(store, workflows=[handle]) as second:
        run = await first.start(handle)
        await eventually(lambda: world)
        await lose_lease(first)
        assert await second.run(run.id).result() == 2
        held.set()  # the frozen process goes on, and what it says comes too late
        await asyncio.sleep(0.02)
        assert await recorded(run) == ["work"]


@pytest.mark.usefixtures("replays")
async def test_what_a_flow_gets_is_what_the_function_says_that_it_returns_each_time(store: str) -> None:
    seen: list[Any] = []
    results = [Price(3.5, (1, 2)), Order(item="tea"), Receipt(7), [Price(1.0)], {"a": (1,)}, (1, "x"), None]
    told: list[Any] = [Price, Order, Receipt, list[Price], dict[str, Any], tuple[int, str], None]

    def returning(result: Any, hint: Any) -> Any:
        async def function() -> Any:
            return result

        function.__annotations__["return"] = hint
        return step(function)

    steps = [returning(result, hint) for result, hint in zip(results, told, strict=True)]

    @flow
    async def handle(ctx: Context) -> str:
        seen.append([await each() for each in steps])
        await ctx.sleep(0)
        return "done"

    async with opened(store) as engine:
        await (await engine.start(handle)).result()
    expected = [*results[:4], {"a": [1]}, (1, "x"), None]
    assert seen == [expected, expected]
    assert seen[0][4].a == [1], "plain data is what it is everywhere"


async def test_a_failed_try_waits_without_a_slot_and_the_other_branches_go_on(store: str, world: list[Any]) -> None:
    @step(retry=SOON)
    async def flaky() -> int:
        world.append("tries")
        if world.count("tries") < 3:
            raise ValueError("not yet")
        return world.count("tries")

    @step
    async def other(n: int) -> int:
        world.append(n)
        return n

    async def branch() -> list[int]:
        await asyncio.sleep(0.001)
        return [await other(1), await other(2)]

    @flow
    async def handle(ctx: Context) -> Any:
        return await ctx.gather(flaky(), branch())

    async with opened(store, slots=1) as engine:
        run = await engine.start(handle)
        assert await run.result() == [3, [1, 2]]
        assert len(await events_of(run, ev.FunctionFailed)) == len(await events_of(run, ev.RetryScheduled)) == 2
        first = (await events_of(run, ev.FunctionFailed))[0].error
        assert (first.error_class, first.message.partition(" (")[0]) == ("error", "ValueError: not yet")
    assert sorted(map(str, world)) == ["1", "2", "tries", "tries", "tries"]


@pytest.mark.usefixtures("replays")
async def test_an_error_that_the_flow_lives_with_is_the_same_on_every_replay(store: str, world: list[Any]) -> None:
    @step
    async def refuse() -> None:
        world.append("refuses")
        raise ToolFailed("no such thing")

    @flow
    async def handle(ctx: Context) -> str:
        try:
            await refuse()
        except OperationFailed as failed:
            world.append((failed.error.error_class, failed.message.partition(" (")[0]))
        await ctx.sleep(0)
        return "done"

    async with opened(store) as engine:
        await (await engine.start(handle)).result()
    assert world[0] == "refuses"
    assert len(world) == 3
    assert world[1] == world[2]


async def test_a_transient_failure_of_a_step_is_tried_three_times_and_not_by_its_flow(store: str, world: list[Any]) -> None:
    @step(retry=RetryPolicy(initial_s=0.001, only_transient=True))
    async def slow() -> None:
        world.append("tries")
        raise ConnectionError("nobody there")

    @flow
    async def handle(ctx: Context) -> None:
        await slow()

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match="nobody there"):
            await (await engine.start(handle)).result()
    assert len(world) == 3


async def test_a_retry_of_the_flow_itself_gives_its_steps_their_tries_again(store: str, world: list[Any]) -> None:
    @step(retry=RetryPolicy(max_attempts=2, initial_s=0.001))
    async def work() -> int:
        world.append("tries")
        if len(world) < 4:
            raise ValueError("not yet")
        return len(world)

    @flow(retry=RetryPolicy(max_attempts=2, initial_s=0.001))
    async def handle(ctx: Context) -> int:
        return await work()

    async with opened(store) as engine:
        assert await (await engine.start(handle)).result() == 4


@pytest.mark.parametrize("is_plain", [False, True])
async def test_a_step_that_takes_too_long_says_so(store: str, is_plain: bool) -> None:
    over = threading.Event()

    async def slow() -> None:
        await asyncio.Event().wait()

    def plainly_slow() -> None:
        over.wait(10)

    limited: Any = step(timeout_s=0.02, retry=1, name="slow")(plainly_slow if is_plain else slow)

    @flow
    async def handle(ctx: Context) -> None:
        await limited()

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match=r"the step 'slow' took longer than its timeout_s=0\.02") as failed:
            await (await engine.start(handle)).result()
        over.set()
    assert failed.value.error.error_class == "timeout"


async def cannot_close() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise ValueError("Cannot close")


@pytest.mark.parametrize("limited", ["step", "flow"])
async def test_a_step_that_takes_too_long_has_done_so_whatever_its_clean_up_raises(store: str, limited: str) -> None:
    work = step(timeout_s=0.02 if limited == "step" else None, retry=1)(cannot_close)

    @flow(timeout_s=0.2 if limited == "flow" else None, retry=1)
    async def handle(ctx: Context) -> None:
        if limited == "step":
            await work()
        await cannot_close()

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match=r"took longer than its timeout_s=[\d.]+; .*ValueError: Cannot close") as failed:
            await (await engine.start(handle)).result()
    assert failed.value.error.error_class == "timeout"


@pytest.mark.parametrize("is_step", [True, False])
async def test_what_a_clean_up_raises_while_the_process_stops_is_no_failure(
    store: str, world: list[Any], is_step: bool
) -> None:
    async def slow() -> int:
        world.append("begun")
        if len(world) == 1:
            await cannot_close()
        return 5

    work = step(retry=1)(slow) if is_step else slow

    @flow(retry=1)
    async def handle(ctx: Context) -> int:
        return await work()

    async with opened(store) as engine:
        run = await engine.start(handle)
        await eventually(lambda: world)
    async with opened(store, workflows=[handle]) as engine:
        assert await engine.run(run.id).result() == 5
    assert world == ["begun"] * 2


async def test_a_thousand_steps_at_once_run_two_hundred_at_a_time(store: str) -> None:
    under_way, most = 0, 0

    @step
    async def one(n: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return n

    @flow
    async def handle(ctx: Context) -> int:
        return sum(await ctx.gather(*(one(n) for n in range(1000))))

    async with opened(store) as engine:
        run = await engine.start(handle)
        assert await run.result() == 499_500
        assert len(await recorded(run)) == 1000
    assert 1 < most <= 200


async def test_a_paused_run_begins_no_step_and_keeps_what_was_under_way(store: str, world: list[Any]) -> None:
    go = asyncio.Event()

    @step
    async def one(n: int) -> int:
        world.append(n)
        if n == 1:
            await go.wait()
        return n

    @flow
    async def handle(ctx: Context) -> list[int]:
        return [await one(1), await one(2)]

    async with opened(store) as engine:
        run = await engine.start(handle)
        await eventually(lambda: world)
        await engine.pause(run.id)
        go.set()
        await run.until(lambda state: state.steps["flow"].status != "active")
        assert (await recorded(run), world) == (["one"], [1])
        await engine.resume(run.id)
        assert await run.result() == [1, 2]
    assert world == [1, 2]


async def test_cancelling_a_run_stops_its_step_in_the_middle(store: str, world: list[Any]) -> None:
    @step
    async def work() -> None:
        world.append("begins")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            world.append("stops")
            raise

    @flow
    async def handle(ctx: Context) -> None:
        await work()

    async with opened(store) as engine:
        run = await engine.start(handle)
        await eventually(lambda: world)
        await engine.cancel(run.id)
        await eventually(lambda: "stops" in world)
        assert await run.status() == "cancelled"
        assert await recorded(run) == []


# --- What is called, and where ------------------------------------------------------------------------------------------


async def test_outside_of_a_flow_and_inside_another_step_it_is_the_plain_function(store: str) -> None:
    @step
    async def double(n: int) -> int:
        return 2 * n

    @step
    def plus_one(n: int) -> int:
        return n + 1

    @step
    async def both(n: int) -> Any:
        return [await double(n), plus_one(n)]

    @step(effect="idempotent")
    async def told(n: int) -> Any:
        return [await double(n), plus_one(n)]

    @flow
    async def handle(ctx: Context) -> Any:
        return [await both(1), await told(n=2), await ctx.step("once more", double, 3)]

    assert (await double(4), plus_one(4), await both(4), await told(4)) == (8, 5, [8, 5], [8, 5])
    assert double.function(4).close() is None
    async with opened(store) as engine:
        run = await engine.start(handle)
        assert await run.result() == [[2, 2], [4, 3], 6]
        assert await recorded(run) == ["both", "once more"]


async def test_methods_lambdas_and_what_is_not_json_are_steps_and_arguments_like_others(store: str) -> None:
    class Shop:
        @step
        async def price(self, item: str) -> int:
            return len(item)

    shop, client = Shop(), object()

    @step
    def fetch(client: object, path: str = "/") -> str:
        return f"{path} of {type(client).__name__}"

    @flow
    async def handle(ctx: Context) -> Any:
        return [await shop.price("tea"), await ctx.step("twice", lambda n: 2 * n, 4), await fetch(client, path="/a")]

    async with opened(store) as engine:
        run = await engine.start(handle)
        assert await run.result() == [3, 8, "/a of object"]
        assert await recorded(run) == ["price", "twice", "fetch"]


CLIENT = """
from holdfast import Context, flow, step

class Client: ...

@step
async def fetch(client: object) -> str:
    return "fetched"

@flow
async def handle(ctx: Context) -> str:
    got = await fetch(Client())
    await ctx.wait_signal("on")
    return got + await fetch(Client())
"""


async def test_a_flow_goes_on_where_its_file_lies_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client counts by its type; that a file was loaded by its path is nothing of its name."""
    monkeypatch.setattr("sys.path", [*sys.path])
    made = []
    for folder in ("a", "elsewhere"):
        (tmp_path / folder).mkdir()
        (file := tmp_path / folder / "shop.py").write_text(CLIENT)
        made.append(_from_file(file).handle)
    store = str(tmp_path / "runs.db")
    async with opened(store, workflows=made[:1]) as engine:
        run = await engine.start(made[0])
        await run.settled()
        await die(engine)
    async with opened(store, workflows=made[1:]) as engine:
        await engine.signal(run.id, "on")
        assert await engine.run(run.id).result() == "fetchedfetched"


@pytest.mark.usefixtures("replays")
@pytest.mark.parametrize(
    ("old", "new", "differs"),
    [
        (datetime.date(2026, 11, 22), datetime.date(2026, 11, 23), True),
        ({"b", "a", "c"}, {"c", "a", "b"}, False),
        (decimal.Decimal("1.0"), decimal.Decimal("1.5"), True),
        (object(), object(), False),
        ({"x": object()}, {"y": object()}, False),
        ([1, (2,)], [1, [2]], False),
    ],
)
async def test_what_a_step_was_given_says_whether_it_is_still_the_same(
    tmp_path: Any, old: Any, new: Any, differs: bool
) -> None:
    given = [old]

    @step
    async def look_at(what: Any) -> int:
        return 1

    @flow
    async def handle(ctx: Context) -> str:
        await look_at(given[0])
        await ctx.wait_signal("go")
        return "done"

    async with engine_at(tmp_path, Time()) as engine:
        run = await engine.start(handle)
        await waiting(run, "go")
        given[0] = new
        await engine.signal(run.id, "go")
        state = await run.settled()
        assert [gate.opened.reason for gate in state.gates.values()] == ["code_changed"] * differs
        assert state.ended == ("" if differs else "completed")


async def test_a_step_has_no_journal_and_says_so(store: str) -> None:
    @flow
    async def handle(ctx: Context) -> None:
        async def wrong() -> None:
            await ctx.sleep(1)

        await ctx.step("wrong", wrong)

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match="The step 'wrong' uses ctx while it runs"):
            await (await engine.start(handle)).result()


async def test_steps_run_side_by_side_in_a_gather_of_asyncio_and_are_named_after_its_tasks(store: str) -> None:
    @step
    async def one(n: int) -> int:
        await asyncio.sleep(0.01)
        return n

    @flow
    async def handle(ctx: Context) -> Any:
        return await asyncio.gather(one(1), one(2))

    async with opened(store) as engine:
        run = await engine.start(handle)
        assert await run.result() == [1, 2]
        recorded = {each.path: each.value for each in await events_of(run, ev.ValueRecorded)}
    assert set(recorded) == {"~0.0", "~1.0"}


@pytest.mark.parametrize("result", [{1, 2}, object(), float("nan"), "half \ud800"])
async def test_what_cannot_be_kept_fails_the_step_in_words_and_is_not_tried_again(
    store: str, result: Any, world: list[Any]
) -> None:
    @step(retry=SOON)
    async def wrong() -> Any:
        world.append("ran")
        return result

    @flow
    async def handle(ctx: Context) -> None:
        await wrong()

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match="The result of 'wrong' cannot be stored: the value") as failed:
            await (await engine.start(handle)).result()
    assert (failed.value.error.error_class, world) == ("validation", ["ran"])


async def test_a_large_result_is_kept_beside_the_history_and_is_there_on_a_replay(store: str) -> None:
    @step
    async def large() -> str:
        return "x" * 100_000

    @flow
    async def handle(ctx: Context) -> int:
        found = await large()
        await ctx.sleep(0)
        return len(found)

    async with opened(store) as engine:
        run = await engine.start(handle)
        assert await run.result() == 100_000
        (value,) = [each for each in await events_of(run, ev.ValueRecorded) if each.kind == FUNCTION]
        assert value.payload is not None
        assert value.payload.blob is not None


# --- Steps that touch the world -----------------------------------------------------------------------------------------


async def test_a_step_with_an_effect_is_a_tool_with_an_intent_a_key_and_a_ledger(store: str, world: list[Any]) -> None:
    @step(effect="once", key="order:{order}")
    async def charge(order: str, amount: float, key: str = "") -> Receipt:
        world.append((order, amount, key))
        return Receipt(len(world))

    @flow
    async def handle(ctx: Context) -> Any:
        first = await charge("18", 3.5)
        again = await charge("18", amount=3.5)
        by_name = await ctx.tool(charge, order="18", amount=3.5, key="order:18")
        await ctx.sleep(0)
        return [first, again.number, by_name.number]

    async with opened(store) as engine:
        run = await engine.start(handle)
        assert await run.result() == [{"number": 1}, 1, 1]
        ((effect, _),) = await engine.effects(run.id)
        (intent,) = await events_of(run, ev.EffectIntended)
    assert world == [("18", 3.5, intent.key)]
    assert effect.tool == "charge"


async def test_what_became_of_it_unknown_a_person_is_asked(store: str, world: list[Any]) -> None:
    @step(effect="once")
    async def send(to: str) -> str:
        world.append(to)
        raise OutcomeUnknown("no answer")

    @flow
    async def handle(ctx: Context) -> str:
        return await send("ada")

    async with opened(store) as engine:
        run = await engine.start(handle)
        gate = await gate_of(run)
        assert call_of(await run.state())
        await engine.decide(gate, "answer", "it arrived")
        assert await run.result() == "it arrived"
    assert world == ["ada"]


async def test_its_retries_are_its_own_under_one_key(store: str, world: list[Any]) -> None:
    @step(effect="idempotent", retry=SOON)
    async def put(n: int, key: str = "") -> int:
        world.append(key)
        if world.count(key) < 3:
            raise ConnectionError("gone")
        return n

    @step(effect="once")
    async def refuse() -> None:
        world.append("refused")
        raise ToolFailed("no")

    @flow
    async def handle(ctx: Context) -> Any:
        try:
            await refuse()
        except OperationFailed:
            return await put(7)

    async with opened(store) as engine:
        run = await engine.start(handle)
        assert await run.result() == 7
        assert len(await events_of(run, ev.RetryScheduled)) == 2
    assert world.pop(0) == "refused"
    assert len(world) == 3
    assert len(set(world)) == 1


async def test_what_it_did_is_undone_though_no_list_names_its_undoing(store: str, world: list[Any]) -> None:
    @step(effect="once")
    async def refund(amount: float) -> None:
        world.append(f"refunds {amount}")

    @step(effect="once", compensation=refund)
    async def charge(amount: float) -> str:
        world.append(f"charges {amount}")
        return "done"

    @flow
    async def handle(ctx: Context) -> None:
        await charge(5.0)
        raise ValueError("no way on")

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match="no way on"):
            await (await engine.start(handle)).result()
    assert world == ["charges 5.0", "refunds 5.0"]


def test_an_undoing_is_found_in_the_module_of_the_tool_that_the_flow_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    shop: Any = types.ModuleType("shop")
    exec("from holdfast import step\n@step(effect='once')\ndef shops_refund(): ...\n", vars(shop))
    exec("@step(effect='once', compensation='shops_refund')\ndef shops_charge(): ...\n", vars(shop))
    monkeypatch.setitem(globals(), "shop", shop)

    @flow
    async def handle(ctx: Context) -> None: ...

    definition: Any = handle.nodes["flow"]
    assert definition.undoing("shops_charge", "shops_refund") is shop.shops_refund
    assert definition.undoing("nobody", "nobody's undoing") is None


async def test_a_person_approves_a_call_that_no_list_names(store: str, world: list[Any]) -> None:
    @step(effect="once", approval=True)
    async def pay(amount: int) -> str:
        world.append(amount)
        return "paid"

    @flow
    async def handle(ctx: Context) -> str:
        return await pay(500)

    async with opened(store) as engine:
        run = await engine.start(handle)
        await engine.decide(await gate_of(run), "edit", {"amount": 50})
        assert await run.result() == "paid"
    assert world == [50]


# --- Changed code -------------------------------------------------------------------------------------------------------


async def test_an_unannounced_change_stops_and_asks_and_equal_operations_are_reused(store: str, world: list[Any]) -> None:
    def shop(*, is_new: bool) -> Any:
        @step
        async def price(item: str) -> int:
            world.append(f"price of {item}")
            return len(item)

        @step
        async def stock(item: str) -> int:
            world.append(f"stock of {item}")
            return 1

        @flow
        async def handle(ctx: Context) -> list[int]:
            found = [await stock("tea")] if is_new else []
            found.append(await price("tea"))
            await ctx.wait_signal("go")
            return found

        return handle

    async with opened(store) as first:
        run = await first.start(shop(is_new=False))
        await run.until(lambda state: len(state.steps["flow"].journal) == 2)
    async with opened(store, workflows=[shop(is_new=True)]) as second:
        run = second.run(run.id)
        await second.signal(run.id, "go")
        shown = await divergence(run)
        assert shown["journal"] == {"operation": "step 'price'"}
        assert shown["code"] == {"operation": "step 'stock'", "arguments": '{"item":"tea"}'}
        await second.decide(shown["gate"], "approve")
        assert await run.result() == [1, 3]
    assert world == ["price of tea", "stock of tea"]


def tax(world: list[Any], latest: int, *, steps: int = 2, loops: int = 1) -> Any:
    """A flow whose second step came with version 2, and whose third with version 3."""

    @step
    async def net(n: int) -> int:
        world.append("net")
        return n

    @step
    async def added(version: int) -> int:
        world.append(version)
        return version

    @flow
    async def handle(ctx: Context) -> list[int]:
        found = []
        for number in range(loops):
            if latest > 1 and (version := ctx.version("tax", latest)) > 1:
                found.append(await added(version))
            await ctx.wait_signal(f"go {number}")
            found.append(await net(number))
        return found

    return handle


async def waiting(run: Any, signal: str) -> None:
    def waits(state: Any) -> bool:
        step = state.steps.get("flow")
        return step is not None and step.status == "suspended" and any(op.name == signal for op in step.journal.values())

    await run.until(waits)


async def test_a_run_begun_with_old_code_stays_with_it_and_a_new_one_gets_the_latest(store: str, world: list[Any]) -> None:
    """The old run waits in the very operation behind the place. Runs begun with 2 stay with it when 3 comes."""
    runs = []
    for latest in (1, 2, 3):
        async with opened(store, workflows=[tax(world, latest)]) as engine:
            runs.append(await engine.start("handle"))
            await waiting(runs[-1], "go 0")
    assert world == [2, 3]
    async with opened(store, workflows=[tax(world, 3)]) as engine:
        for run in runs:
            await engine.signal(run.id, "go 0")
        ends = [await engine.run(run.id).settled() for run in runs]
        assert [end.output.value() for end in ends] == [[0], [2, 0], [3, 0]]
    assert world == [2, 3, "net", "net", "net"]


async def test_in_a_loop_a_version_is_one_for_all_its_rounds(store: str, world: list[Any]) -> None:
    async with opened(store, workflows=[tax(world, 1, loops=3)]) as engine:
        run = await engine.start("handle")
        await engine.signal(run.id, "go 0")
        await waiting(run, "go 1")
    async with opened(store, workflows=[tax(world, 2, loops=3)]) as engine:
        for number in (1, 2):
            await engine.signal(run.id, f"go {number}")
        assert await engine.run(run.id).result() == [0, 1, 2]
    assert world == ["net"] * 3


async def test_code_that_knows_no_such_version_yet_stops_and_asks(store: str, world: list[Any]) -> None:
    async with opened(store, workflows=[tax(world, 3)]) as engine:
        run = await engine.start("handle")
        await waiting(run, "go 0")
    async with opened(store, workflows=[tax(world, 2)]) as engine:
        await engine.signal(run.id, "go 0")
        shown = await divergence(engine.run(run.id))
        assert (shown["journal"]["operation"], shown["code"]["operation"]) == ("version 'tax 3'", "version 'tax 2'")


# --- What a flow is -----------------------------------------------------------------------------------------------------


async def test_a_start_must_fit_the_flows_input(store: str) -> None:
    @flow
    async def handle(ctx: Context, order: Order) -> Any:
        return [order.item, order.count]

    async with opened(store) as engine:
        with pytest.raises(InvalidInput, match="does not fit Order of workflow 'handle'"):
            await engine.start(handle, {"count": 2})
        assert await (await engine.start(handle, {"item": "tea"})).result() == ["tea", 1]


async def test_a_flow_is_tested_by_its_function_or_by_run_node() -> None:
    @step(effect="once")
    async def charge(amount: float) -> str:
        raise AssertionError("the bank is not called")

    @flow
    async def handle(ctx: Context, given: dict[str, float]) -> str:
        await ctx.sleep(days=30)
        return await charge(given["amount"])

    outcome = await run_node(handle, "flow", input={"amount": 5.0}, tools={"charge": lambda amount: f"charged {amount}"})
    assert (outcome.status, outcome.output) == ("completed", "charged 5.0")
    assert [call.name for call in outcome.tool_calls] == ["charge"]


def test_neither_the_functions_name_nor_its_steps_count_for_what_a_flow_is() -> None:
    @step
    async def one() -> None: ...

    @flow(name="shop")
    async def before(ctx: Context) -> None: ...

    @flow(name="shop")
    async def after(context: Context, given: Any) -> None:
        await one()

    assert before.hash == after.hash
    assert before.hash != flow(name="shop", version=2)(before.function).hash


async def _plain(ctx: Any) -> None: ...


def _generator() -> Any:
    yield 1


async def _takes_any_number(ctx: Any, *a: Any) -> None: ...


async def _swapped(given: Any, ctx: Any) -> None: ...


async def _takes_a_thread(ctx: Any, given: threading.Thread) -> None: ...


class _Shop:
    @step(effect="once")
    def pay(self, amount: int) -> None: ...


_tool_step: Any = step(effect="read")(_plain)
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: flow(lambda ctx: None), "`async def handle"),
    (lambda: flow(step(_plain)), "`async def handle"),
    (lambda: flow(_takes_any_number), r"takes \(ctx: 'Any', \*a: 'Any'\)"),
    (lambda: flow(_swapped), "with its operations and its input"),
    (
        lambda: flow(_takes_a_thread),
        "takes 'given' as Thread, which cannot be stored: a value of the type Thread has no form in JSON",
    ),
    (lambda: flow(_plain).node("n")(_plain), "is one function, and has no graph"),
    (lambda: step(_generator), "has no one result"),
    (lambda: step(Price), "it is a class"),
    (lambda: step(step(_plain)), "it is a step already"),
    (lambda: step(_tool_step), "it is a tool already"),
    (lambda: step(3), "it is no function"),
    (lambda: step(lambda: 3), "say name='...'"),
    (lambda: step(name="x" * 300)(_plain), "a name of 1 to 256 bytes"),
    (lambda: step(retry=0)(_plain), "a number of attempts"),
    (lambda: step(retry=RetryPolicy(jitter=2))(_plain), "a jitter between 0 and 1"),
    (lambda: step(timeout_s=0)(_plain), "above zero, and finite"),
    (lambda: step(approval=True)(_plain), "effect='read', 'idempotent', 'verify' or 'once'"),
    (lambda: step(effect="twice")(_plain), "is none of read, idempotent, verify, once"),
    (lambda: step(effect="verify")(_plain), "belong together"),
    (lambda: step(effect="once", unique="tenant")(_plain), "where one is given"),
    (lambda: _Shop().pay(1), "is a method of _Shop, whose object no other process has"),
]


@pytest.mark.parametrize(("make", "words"), WRONG)
def test_what_cannot_be_a_flow_or_a_step_is_reported_where_it_is_written(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()


DOINGS: list[tuple[Callable[[Context], Awaitable[Any]], str]] = [
    (lambda ctx: ctx.step("x", _tool_step), r"await _plain\(\.\.\.\)"),
    (lambda ctx: ctx.step("", _plain), "is called by a name"),
    (lambda ctx: ctx.step("x", 3), "is no function"),
    (lambda ctx: asyncio.sleep(ctx.version("a.b", 2)), "names no place"),
    (lambda ctx: asyncio.sleep(ctx.version("a", 0)), "numbers from 1"),
    (lambda ctx: sys.exit(3), r"failed: its code asked the process to exit with 3 \(test_flows.py"),
]


@pytest.mark.parametrize(("doing", "words"), DOINGS)
async def test_what_a_flow_does_wrong_fails_it_in_words(
    tmp_path: Any, doing: Callable[[Context], Awaitable[Any]], words: str
) -> None:
    @flow
    async def handle(ctx: Context) -> None:
        await doing(ctx)

    async with engine_at(tmp_path, Time()) as engine:
        with pytest.raises(RunFailed, match=words):
            await (await engine.start(handle)).result()


async def test_operations_leave_nothing_to_pythons_collector(store: str) -> None:
    """What hangs in a circle takes memory until the collector comes past, which is to be rarely."""

    @step
    async def take(number: int) -> int:
        return number

    async def branch(number: int) -> int:
        return await take(number)

    def kept_objects() -> list[Any]:
        return [each for each in gc.get_objects() if type(each) in (Operation, Outcome, OperationCall, FlowTask)]

    @flow
    async def takes(ctx: Context) -> int:
        await take(0)
        await asyncio.gather(*map(take, range(10)))
        async with asyncio.timeout(3600):
            return sum(await ctx.gather(*map(take, range(10)), *map(branch, range(10))))

    async with opened(store, workflows=[takes]) as engine:
        gc.collect()
        before = {id(each): each for each in kept_objects()}
        gc.disable()
        try:
            assert await (await engine.start(takes)).result() == 90
            left = [each for each in kept_objects() if id(each) not in before]
        finally:
            gc.enable()
        assert left == []
