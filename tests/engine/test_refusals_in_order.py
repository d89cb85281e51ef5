"""Operations of a flow that are refused, of which nothing else is recorded: a replay has them refused at the same moment."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast import Context, HoldfastError, flow, step
from holdfast.core.facts import events as ev
from holdfast.errors import StaleAttempt
from holdfast.ports import Append
from tests.engine.history import events_of
from tests.engine.kit import bounded, carry_by, lose_lease, opened


@flow
async def bill(ctx: Context, number: int) -> int:
    return number


@bounded
async def test_what_follows_a_refusal_comes_before_what_was_recorded_later_in_a_replay_too(store: str) -> None:
    passes: list[list[str]] = []
    is_paid = asyncio.Event()

    @step
    async def pay() -> str:
        return "paid"

    @step
    async def ship() -> str:
        await is_paid.wait()
        return "shipped"

    @flow
    async def orders(ctx: Context) -> list[str]:
        seen: list[str] = []
        passes.append(seen)
        await ctx.child(bill, 1, key="bill")

        async def refused() -> None:
            try:
                await ctx.child(bill, 2, key="bill")
            except HoldfastError:
                seen.append("refused")
            seen.append(await pay())

        async def shipped() -> None:
            seen.append(await ship())

        await asyncio.gather(refused(), shipped())
        await ctx.wait_signal("go")
        return seen

    async with opened(store, workflows=[orders, bill], execute=False) as desk:
        run = await desk.start(orders)
        async with opened(store, workflows=[orders, bill], grace_s=0) as first:
            carried, is_dead = first.runtime.runs.flush.append, asyncio.Event()

            async def append(one: Append, *, patient: bool) -> None:
                if is_dead.is_set():
                    raise StaleAttempt("This process is dead.")
                await carried(one, patient=patient)
                names = [each.event.name for each in one.events if isinstance(each.event, ev.ValueRecorded)]
                if "pay" in names:
                    is_paid.set()
                if "ship" in names:
                    is_dead.set()
                    raise StaleAttempt("This process is dead.")

            carry_by(first, append)
            await is_dead.wait()
            await lose_lease(first)
        async with opened(store, workflows=[orders, bill]):
            await desk.signal(run.id, "go", None)
            order = ["refused", "paid", "shipped"]
            assert await run.result() == order
        assert passes[-1] == order
        paths: list[Any] = [each.path for each in await events_of(run, ev.ValueRecorded)]
    assert paths == ["~0.0.refused", "~0.1", "~1.0"]
