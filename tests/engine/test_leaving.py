"""A process that ends hands over what it has begun."""

from __future__ import annotations

import asyncio

from holdfast.engine.steps import executor


async def test_an_attempt_that_has_not_begun_is_told_that_its_process_ends() -> None:
    """A task that is cancelled before its first step runs nothing of its code: its step would stay active without a process."""
    heard: list[str] = []

    async def attempt() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append("handed over")
            raise

    await executor._cancel([asyncio.create_task(attempt())])
    assert heard == ["handed over"]
