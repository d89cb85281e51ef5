"""What a type checker says of a flow that is started, and of what comes of its run."""

from __future__ import annotations

from typing import Any, TypedDict, assert_type

from pydantic import BaseModel

from holdfast import Context, Engine, Flow, Run, Workflow, flow


class Order(BaseModel):
    item: str
    count: int = 1


class Ticket(BaseModel):
    number: int


class Place(TypedDict):
    city: str


@flow
async def buy(ctx: Context, order: Order) -> Ticket:
    return Ticket(number=order.count)


@flow(version=2, cost_limit_usd=1)
async def count(ctx: Context, number: int) -> list[int]:
    return [number]


@flow
async def travel(ctx: Context, place: Place) -> str:
    return place["city"]


@flow
async def retry(ctx: Context, times: int = 3) -> int:
    return times


@flow
async def rest(ctx: Context) -> None:
    return None


@flow
async def ship(ctx: Context, item: str, count: int = 1) -> str:
    return item * count


@flow
async def label(ctx: Context, *, text: str) -> str:
    return text


@flow
async def wrap(ctx: Context, *, text: str = "") -> str:
    return text


@flow
async def look_up(ctx: Context, given: dict[str, Any]) -> dict[str, Any]:
    return given


class Desk:
    @flow
    async def handle(self, ctx: Context, order: Order) -> Ticket:
        return Ticket(number=order.count)

    @flow(name="open")
    async def open_up(self, ctx: Context) -> bool:
        return True


async def right(engine: Engine, data: Any, graph: Workflow) -> None:
    run = await engine.start(buy, Order(item="lamp"), key="a", tags=["spring"])
    assert_type(run, Run[Ticket])
    assert_type(await run.result(), Ticket)
    assert_type((await run.result()).number, int)
    assert_type(await (await engine.start(buy, {"item": "lamp"})).result(), Ticket)
    assert_type(await (await engine.start(buy, data)).result(), Ticket)
    assert_type(await (await engine.start(count, 3)).result(), list[int])
    assert_type(await (await engine.start(travel, {"city": "Bern"})).result(), str)
    assert_type(await (await engine.start(look_up, {"item": "lamp"})).result(), dict[str, Any])
    assert_type(await (await engine.start(retry)).result(), int)
    assert_type(await (await engine.start(retry, 5)).result(), int)
    await (await engine.start(rest)).result()
    assert_type(await (await engine.start(ship, {"item": "lamp"})).result(), str)
    assert_type(await (await engine.start(label, {"text": "fragile"})).result(), str)
    assert_type(await (await engine.start(wrap)).result(), str)
    assert_type(await (await engine.start(Desk().handle, Order(item="lamp"))).result(), Ticket)
    assert_type(await (await engine.start(Desk().open_up)).result(), bool)
    assert_type(await engine.start(graph), Run[Any])
    assert_type(await engine.start(graph, 3), Run[Any])
    assert_type(await engine.start("buy", {"item": "lamp"}), Run[Any])
    assert_type(await engine.start("rest"), Run[Any])
    assert_type(engine.run("an id"), Run[Any])


async def wrong(engine: Engine, maybe: Order | None) -> None:
    await engine.start(buy, 3)  # type: ignore[arg-type]
    await engine.start(buy, "lamp")  # type: ignore[arg-type]
    await engine.start(buy)  # type: ignore[arg-type]
    await engine.start(buy, maybe)  # type: ignore[arg-type]
    await engine.start(count, "three")  # type: ignore[arg-type]
    await engine.start(count)  # type: ignore[arg-type]
    await engine.start(travel, "Bern")  # type: ignore[arg-type]
    await engine.start(look_up, 3)  # type: ignore[arg-type]
    await engine.start(retry, "five")  # type: ignore[arg-type]
    await engine.start(rest, 3)  # type: ignore[arg-type]
    await engine.start(ship, 3)  # type: ignore[arg-type]
    await engine.start(label, "fragile")  # type: ignore[arg-type]
    await engine.start(label)  # type: ignore[arg-type]
    await engine.start(Desk().handle, 3)  # type: ignore[arg-type]
    await engine.start(buy, Order(item="lamp"), tag="spring")  # type: ignore[call-overload]
    text: str = await (await engine.start(buy, Order(item="lamp"))).result()  # type: ignore[assignment]
    print(text)


async def start_any(engine: Engine, workflow: Flow[[Order], Ticket]) -> Run[Ticket]:
    await engine.start(workflow, 3)  # type: ignore[arg-type]
    return await engine.start(workflow, Order(item="lamp"))


async def hand_over(engine: Engine, ctx: Context) -> None:
    await start_any(engine, buy)
    await start_any(engine, count)  # type: ignore[arg-type]
    assert_type(await buy(ctx, Order(item="lamp")), Ticket)
    await buy(ctx, 3)  # type: ignore[arg-type]
