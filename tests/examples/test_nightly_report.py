"""The example of a schedule does what it says."""

from __future__ import annotations

from pathlib import Path

from examples.nightly_report import report
from tests.engine.kit import Time, engine_at


async def test_each_night_has_one_report_of_the_day_before(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=[report]) as engine:
        given = {"shops": ["berlin", "lyon"]}
        await engine.set_schedule(
            "nightly", report, "30 2 * * *", timezone="Europe/Berlin", input=given, time_field="scheduled_at"
        )
        first = (await engine.schedule("nightly")).due_at_ms
        assert first is not None
        now.ms = first + 4 * 24 * 3_600_000  # nobody was there for some nights
        made = await engine.backfill_schedule("nightly", first, now.ms)
        found = [await engine.run(each.run).result() for each in made]
        assert [len(report["orders"]) for report in found] == [2] * 5
        assert len({report["day"] for report in found}) == 5
