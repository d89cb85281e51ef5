"""The example of a flow does what it says."""

from __future__ import annotations

from pathlib import Path

from examples.order_flow import order
from holdfast.core.facts import events as ev
from tests.engine.history import events_of
from tests.engine.kit import gate_of, opened


async def test_a_dear_order_is_approved_charged_and_sent(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path / 'orders.db'}") as engine:
        run = await engine.start(order, {"customer": "ada", "item": "chandelier", "count": 2})
        await engine.decide(await gate_of(run), "approve")
        receipt = await run.result()
        assert receipt.parcel == "parcel for ada"
        assert [each.tool for each in await events_of(run, ev.EffectIntended)] == ["charge", "send"]
