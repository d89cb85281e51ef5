"""A nightly report: the number of orders of the day before, for each shop.

    holdfast schedules set nightly examples/nightly_report.py:report --cron '30 2 * * *' \
        --timezone Europe/Berlin --input '{"shops": ["berlin", "lyon"]}' --time-field scheduled_at
    holdfast worker examples/nightly_report.py:report

Each night has one run, whichever process starts it. `holdfast schedules backfill nightly --since 7d` starts runs for earlier
nights.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from pydantic import AwareDatetime, BaseModel

from holdfast import Context, flow, step

ZONE = ZoneInfo("Europe/Berlin")


class Night(BaseModel):
    """What the schedule starts a run with."""

    scheduled_at: AwareDatetime
    shops: list[str]


@step(retry=5)
async def count_orders(shop_day: dict[str, str]) -> int:
    """It may run again, so it only looks something up."""
    return sum(map(ord, shop_day["shop"] + shop_day["day"])) % 100


@flow
async def report(ctx: Context, night: Night) -> dict[str, object]:
    """The day before, in the shops' own time."""
    day = (_local(night.scheduled_at) - timedelta(days=1)).date().isoformat()
    counts = await ctx.map(count_orders, [{"shop": shop, "day": day} for shop in night.shops])
    return {"day": day, "orders": dict(zip(night.shops, counts, strict=True))}


def _local(moment: datetime) -> datetime:
    return moment.astimezone(ZONE)
