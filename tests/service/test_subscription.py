"""A stream without events still shows that its server lives, and ends with its port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from holdfast.service.subscription import QUIET_S, Ending, while_permitted


async def silent() -> AsyncGenerator[int, None]:
    await asyncio.Event().wait()
    yield 0


async def permitted() -> None:
    """It stays so."""


async def test_at_the_end_of_a_port_open_streams_end_and_later_ones_too() -> None:
    ending = Ending()
    opened = [asyncio.create_task(anext(while_permitted(silent(), permitted, ending), "over")) for _ in range(3)]
    await asyncio.sleep(0)
    ending.come()
    assert await asyncio.gather(*opened) == ["over"] * 3
    assert await anext(while_permitted(silent(), permitted, ending), "over") == "over"


async def test_a_listener_hears_a_sign_of_life_within_three_seconds() -> None:
    listening = while_permitted(silent(), permitted)
    async with asyncio.timeout(2 * 3.0):
        assert [await anext(listening), await anext(listening)] == [None, None]
    assert QUIET_S < 3.0
    await listening.aclose()
