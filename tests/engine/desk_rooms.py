"""Another file of the project of `desk`."""

from __future__ import annotations

import functools
from collections import ChainMap, deque
from collections.abc import Callable
from types import MappingProxyType, SimpleNamespace
from typing import Any

from holdfast import Context, Workflow, flow
from tests.engine import desk_till

books = desk_till.books


@flow
async def kid_elsewhere(ctx: Context, n: int) -> str:
    return str((await ctx.ask({"n": n}, decisions=["approve"])).by)


@flow
async def upstairs(ctx: Context, n: int) -> str:
    return str((await ctx.ask({"n": n}, decisions=["approve"])).by)


ROOMS = {"upstairs": upstairs}


async def asks_elsewhere(ctx: Context) -> Any:
    return await ctx.child(kid_elsewhere, 1)


class Till:
    async def pay(self, n: int) -> None:
        await desk_till.pay(n)


def breaks() -> None:
    raise ValueError("the till is stuck")


# --- The same flow, each time another that nothing else leads to ---------------------------------------------------------


def _room(name: str) -> Workflow:
    @flow(name=name)
    async def room(ctx: Context, n: int) -> str:
        return str((await ctx.ask({"n": n}, decisions=["approve"])).by)

    return room


async def by_default(ctx: Context, room: Workflow = _room("default")) -> Any:  # noqa: B008
    return await ctx.child(room, 1)


async def by_keyword(ctx: Context, *, room: Workflow = _room("keyword")) -> Any:  # noqa: B008
    return await ctx.child(room, 1)


async def by_attribute(ctx: Context) -> Any:
    return await ctx.child(by_attribute.room, 1)  # type: ignore[attr-defined]


by_attribute.room = _room("attribute")  # type: ignore[attr-defined]


class Slotted:
    __slots__ = ("missing", "room")

    def __init__(self) -> None:
        self.room = _room("slot")


_slotted, _space, _queue = Slotted(), SimpleNamespace(room=_room("namespace")), deque([_room("deque")])
_chained, _proxy = ChainMap({}, {"room": _room("chain")}), MappingProxyType({"room": _room("proxy")})
_priced = {_room("key"): 1}


def _asking(find: Callable[[], Workflow]) -> Any:
    async def ask(ctx: Context) -> Any:
        return await ctx.child(find(), 1)

    return ask


async def _given(room: Workflow, ctx: Context) -> Any:
    return await ctx.child(room, 1)


HELD: dict[str, Any] = {
    "default": by_default,
    "keyword": by_keyword,
    "attribute": by_attribute,
    "partial": functools.partial(_given, _room("partial")),
    "slot": _asking(lambda: _slotted.room),
    "namespace": _asking(lambda: _space.room),
    "deque": _asking(lambda: _queue[0]),
    "chain": _asking(lambda: _chained["room"]),
    "proxy": _asking(lambda: _proxy["room"]),
    "key": _asking(lambda: next(iter(_priced))),
}


@flow
async def by_what_holds_it(ctx: Context, how: str) -> Any:
    return await HELD[how](ctx)
