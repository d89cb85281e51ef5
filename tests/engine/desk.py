"""A project's file whose flows come to another workflow in every way that Python has. `desk_rooms` is another file of it."""

from __future__ import annotations

from typing import Any

from holdfast import Context, Workflow, flow
from tests.engine import desk_rooms
from tests.engine.desk_rooms import ROOMS, asks_elsewhere


@flow
async def kid(ctx: Context, n: int) -> str:
    return str((await ctx.ask({"n": n}, decisions=["approve"])).by)


async def helper(ctx: Context, n: int) -> str:
    return str(await ctx.child(kid, n))


KIDS = {"a": [kid]}


class Desk:
    def __init__(self) -> None:
        self.kid = kid

    async def ask(self, ctx: Context, n: int) -> str:
        return str(await ctx.child(self.kid, n))

    @flow(name="handle")
    async def handle(self, ctx: Context, n: int) -> str:
        return str((await ctx.ask({"n": n}, decisions=["approve"])).by)


desk = Desk()


@flow
async def by_method_flow(ctx: Context) -> Any:
    return await ctx.child(desk.handle, 1)


@flow
async def direct(ctx: Context) -> Any:
    return await ctx.child(kid, 1)


@flow
async def by_helper(ctx: Context) -> Any:
    return await helper(ctx, 1)


@flow
async def by_map(ctx: Context) -> Any:
    return (await ctx.map(helper, [1]))[0]


@flow
async def by_dict(ctx: Context) -> Any:
    return await ctx.child(KIDS["a"][0], 1)


@flow
async def by_method(ctx: Context) -> Any:
    return await desk.ask(ctx, 1)


@flow
async def by_module(ctx: Context) -> Any:
    return await ctx.child(desk_rooms.kid_elsewhere, 1)


@flow
async def by_import(ctx: Context) -> Any:
    return await asks_elsewhere(ctx)


@flow
async def by_imported_dict(ctx: Context) -> Any:
    return await ctx.child(ROOMS["upstairs"], 1)


@flow
async def by_closure(ctx: Context) -> Any:
    return await _asking(ctx)


def _make() -> Any:
    @flow
    async def made(ctx: Context, n: int) -> str:
        return str((await ctx.ask({"n": n}, decisions=["approve"])).by)

    async def ask(ctx: Context) -> Any:
        return await ctx.child(made, 1)

    return ask


_asking = _make()

graph = Workflow("graph")


@graph.node("one")
async def one(state: Any, ctx: Context) -> Any:
    return await helper(ctx, 1)


def _hidden() -> Workflow:
    @flow
    async def hidden(ctx: Context, n: int) -> str:
        return str((await ctx.ask({"n": n}, decisions=["approve"])).by)

    return hidden


def _unknown() -> Workflow:
    @flow
    async def unknown(ctx: Context, n: int) -> int:
        return n

    return unknown


@flow
async def by_factory(ctx: Context) -> Any:
    return await ctx.child(_unknown(), 1)


@flow(children=[_hidden()])
async def by_factory_that_says_so(ctx: Context) -> Any:
    return await ctx.child(_hidden(), 1)


@flow
async def by_late_import(ctx: Context) -> Any:
    from tests.engine import desk_late

    return await ctx.child(desk_late.late, 1)


@flow
async def pays_elsewhere(ctx: Context) -> None:
    await desk_rooms.Till().pay(1)
    await ctx.step("breaks", desk_rooms.breaks)
