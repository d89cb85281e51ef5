"""Processes that stand still, are busy or have a wrong clock: their leases, and what they believe of the time."""

from __future__ import annotations

import asyncio
import signal
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from holdfast.core.values.ids import SessionId
from holdfast.stores.postgres import PostgresStore
from tests.engine.kit import bounded
from tests.engine.test_two_processes import stopped
from tests.forks import AsyncFork

LEASE_S = 1.0

Start = Callable[..., Awaitable[AsyncFork]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts processes, and ends them with the test."""
    started: list[AsyncFork] = []

    async def another(*argv: str) -> AsyncFork:
        started.append(await AsyncFork.start("tests.faults.sleeper", *argv))
        return started[-1]

    yield another
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def heard(process: AsyncFork) -> list[str]:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 30)).decode().split()


async def asked(process: AsyncFork, *words: str) -> list[str]:
    assert process.stdin is not None
    process.stdin.write(f"{' '.join(words)}\n".encode())
    return await heard(process)


async def freeze_between_transactions(process: AsyncFork, others: PostgresStore) -> None:
    """In the middle of a renewal it would hold the row of its session until the database ends the transaction, after IDLE_S."""
    while True:
        process.send_signal(signal.SIGSTOP)
        await stopped(process)
        await asyncio.sleep(0.02)  # what the database was told before, it has done by then
        if not await others.context.connections.fetch("select from pg_stat_activity where state like 'idle in transaction%'"):
            return
        process.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.02)


@bounded
async def test_a_process_that_was_frozen_past_its_lease_knows_at_once_that_it_is_dead(database: str, start: Start) -> None:
    """Before it could be told by anybody: its own clock, which counts sleep, says so. And it never lives again."""
    others = await PostgresStore.connect(database, lease_s=LEASE_S)
    process = await start("session", database, "s", str(LEASE_S))
    await heard(process)
    assert await asked(process, "alive") == ["True"]
    await freeze_between_transactions(process, others)
    assert await others.sessions.expire() == set(), "not before its lease is over"
    frozen_s = time.monotonic()
    while not await others.sessions.expire():
        await asyncio.sleep(0.02)
    assert time.monotonic() - frozen_s < 4 * LEASE_S
    process.send_signal(signal.SIGCONT)
    assert await asked(process, "alive") == ["False"]
    for _ in range(3):
        assert await asked(process, "renew") == ["False"]
        await asyncio.sleep(LEASE_S / 2)
        assert await asked(process, "alive") == ["False"]
    assert await others.sessions.expire() == {SessionId("s")}
    await others.aclose()


@bounded
async def test_a_lease_is_renewed_while_its_process_has_no_time(database: str, start: Start) -> None:
    """Three seconds in which no coroutine runs, under a lease of one."""
    others = await PostgresStore.connect(database)
    process = await start("session", database, "s", "1")
    await heard(process)
    async with asyncio.TaskGroup() as group:
        blocked = group.create_task(asked(process, "block", "3"))
        while not blocked.done():
            assert await others.sessions.expire() == set()
            await asyncio.sleep(0.05)
    assert blocked.result() == ["True"]
    await others.aclose()


@bounded
@pytest.mark.parametrize("wrong_s", [3600, -3600])
async def test_a_process_with_a_wrong_clock_neither_fires_early_nor_misplaces_ids(
    database: str, start: Start, wrong_s: int
) -> None:
    process = await start("worker", database, str(wrong_s))
    run, now_ms, believed_ms = await heard(process)
    true_ms = time.time() * 1000
    assert abs(int(believed_ms) - true_ms) > 3_000_000, "its clock is wrong indeed"
    assert abs(int(now_ms) - true_ms) < 5_000
    assert abs((uuid.UUID(run).int >> 80) - true_ms) < 5_000
    assert await asked(process, "2") == ["waiting"]
