"""A stream without events still shows that its server lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from holdfast.service.subscription import QUIET_S, while_permitted


async def test_a_listener_hears_a_sign_of_life_within_three_seconds() -> None:
    async def silent() -> AsyncGenerator[int, None]:
        await asyncio.Event().wait()
        yield 0

    async def permitted() -> None:
        """It stays so."""

    listening = while_permitted(silent(), permitted)
    async with asyncio.timeout(2 * 3.0):
        assert [await anext(listening), await anext(listening)] == [None, None]
    assert QUIET_S < 3.0
    await listening.aclose()
