"""What the code of a flow holds is measured, and all of it is free as soon as its flow is let go of."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Context, flow
from holdfast.core.views.status import status
from holdfast.engine.flow.held_memory import held_bytes
from holdfast.settings import Settings
from tests.engine.kit import Time, engine_at, eventually

MB = 1_000_000


class Page(BaseModel):
    number: int
    text: str


class Odd:
    """An object that cannot be measured."""

    def __sizeof__(self) -> int:
        raise ValueError("no size")


async def waits(what: Any) -> None:
    kept = what  # noqa: F841 - held by the frame
    await asyncio.get_running_loop().create_future()


async def waits_below(what: Any) -> None:
    await waits(what)


async def waits_in_a_generator(what: Any) -> None:
    async def pages() -> AsyncIterator[int]:
        kept = what  # noqa: F841 - held by the frame
        yield 1

    async for _ in pages():
        await asyncio.get_running_loop().create_future()


def closed_over(what: Any) -> Any:
    return lambda: what


HELD: dict[str, tuple[Any, float]] = {
    "text": ("x" * MB, 1),
    "bytes": (bytearray(MB), 1),
    "numbers": (list(range(1000, 101_000)), 3.6),
    "rows": ([{"a": number, "b": str(number) * 10} for number in range(10_000)], 2.8),
    "models": ([Page(number=number, text=str(number) * 10) for number in range(5_000)], 2.9),
    "nested": ({str(one): {str(two): [one * 1000, two * 1000] for two in range(100)} for one in range(100)}, 2.2),
    "closure": (closed_over(bytearray(MB)), 1),
    "odd": ([Odd(), bytearray(MB)], 1),
    "nothing": (None, 0.001),
    "module": ([asyncio, str, len, Page], 0.001),
}
"""What is held, and how many MB that is."""


@pytest.mark.parametrize("code", [waits, waits_below, waits_in_a_generator], ids=lambda each: each.__name__)
@pytest.mark.parametrize("what", HELD)
async def test_what_code_holds_is_measured(what: str, code: Any) -> None:
    held, mb = HELD[what]
    coroutine = code(held)
    task = asyncio.ensure_future(coroutine)
    await asyncio.sleep(0)
    assert mb / 2 <= held_bytes([coroutine]) / MB <= mb * 2 + 0.01
    task.cancel()


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Large:
    def __init__(self) -> None:
        self.data = bytearray(3 * MB)


@pytest.mark.parametrize("kept_mb", [2, 64])
async def test_a_flow_that_holds_more_than_fits_is_let_go_of_and_leaves_nothing(
    tmp_path: Path, kept_mb: int, no_collector: None
) -> None:
    held: list[weakref.ref[Large]] = []

    @flow
    async def buy(ctx: Context) -> int:
        large = Large()
        held.append(weakref.ref(large))

        async def beside() -> int:
            other = Large()
            held.append(weakref.ref(other))
            await ctx.wait_signal("go")
            return len(other.data)

        task = asyncio.create_task(beside())
        try:
            async with asyncio.timeout(3600):
                await ctx.wait_signal("go")
        finally:
            large.data.append(1)
        return len(large.data) + await task

    async with engine_at(tmp_path, Time(), workflows=[buy], settings=Settings(resident_flows_mb=kept_mb)) as engine:
        run = await engine.start(buy)
        await run.until(lambda state: status(state) == "waiting")
        assert len(held) == 2
        if kept_mb > 6:
            residents = engine.executor.services.residents
            await eventually(lambda: len(residents))
            assert all(each() is not None for each in held)
            residents.close()
        await eventually(lambda: all(each() is None for each in held))
