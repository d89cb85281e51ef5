"""Months leave the tables by themselves after as many days as a person has said, where nothing holds them back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.compose import open_administration, open_store
from holdfast.compose.fleet import archiving, leading
from holdfast.engine.runs.retention import Retention
from holdfast.platform.machine import MachineClock
from holdfast.ports import Administration
from holdfast.settings import RetentionRules, Settings
from tests.stores.story import BORN_MS, Story, put

DAY_MS = 24 * 3600 * 1000
ENDED, HELD = "2023-11", "2023-12"


@pytest.fixture(params=["sqlite", "postgres"])
async def old(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with a month whose only run has ended, and one whose run waits for a person."""
    where = str(tmp_path / "runs.db") if request.param == "sqlite" else request.getfixturevalue("database")
    store = await open_store(where)
    for append in Story().whole():
        await put(store, append)
    waits = Story(at_ms=BORN_MS + 30 * DAY_MS)
    for append in (waits.start(), waits.draft(), waits.ask()):
        await put(store, append)
    await store.aclose()
    return str(where)


async def months(where: str) -> dict[str, str]:
    async with administering(where) as administration:
        return {each.month: each.state for each in (await administration.standing()).months if each.runs}


@asynccontextmanager
async def administering(where: str) -> AsyncIterator[Administration]:
    administration = await open_administration(where)
    yield administration
    await administration.aclose()


async def test_a_month_goes_when_it_is_cold_and_one_that_is_held_back_is_reported_once(
    old: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    never = Retention(lambda: administering(old), 36_500, MachineClock())
    assert not await never.turn()
    assert set((await months(old)).values()) == {"open"}
    retention = Retention(lambda: administering(old), 30, MachineClock())
    assert [await retention.turn() for _ in range(3)] == [True, False, False]
    assert await months(old) == {ENDED: "archived", HELD: "open"}
    assert f"archived {ENDED}: 1 runs" in caplog.text
    assert caplog.text.count(f"{HELD} cannot be archived: 1 of its runs") == 1, "once a day"


async def test_the_leader_of_a_fleet_or_a_lone_server_archives_cold_months(old: str) -> None:
    settings = Settings(retention=RetentionRules(hot_days=30))
    serving = leading(old, settings=settings) if "://" in old else archiving(old, settings)
    async with asyncio.timeout(60), serving:
        while (await months(old))[ENDED] != "archived":
            await asyncio.sleep(0.1)
    assert (await months(old))[HELD] == "open"
