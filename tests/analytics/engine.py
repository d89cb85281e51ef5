"""The real ClickHouse engine behind an HTTP port, as a process that can be killed, and stores full of runs to export.

The engine is `chdb-core-lite` in an environment of its own, which `make clickhouse` installs.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from holdfast.analytics.clickhouse import Address, ClickHouse
from holdfast.core.facts.costs import CostSum
from holdfast.engine.background.follower import Follower
from holdfast.engine.background.rollup import count_some
from holdfast.platform.machine import MachineClock
from holdfast.platform.spare_time import SpareTime
from holdfast.ports import Store
from tests.stores.story import BORN_MS, Story, put

PYTHON: Final = Path(sys.prefix) / "clickhouse" / "bin" / "python"
FRONT: Final = Path(__file__).with_name("front.py")
MAX_S: Final = 120

needs_engine: Final = pytest.mark.skipif(
    not PYTHON.parents[1].joinpath(".locked").exists(), reason="the engine is not installed (make clickhouse)"
)


class Engine:
    """The engine on a folder, under a port of its own. With a `mode` it stops at each insert until it is told to go on:
    `--slow` before it, `--deaf` after it and before its answer."""

    def __init__(self, folder: Path, mode: str = "") -> None:
        self.folder = folder
        words = [str(PYTHON), str(FRONT), str(folder), *([mode] if mode else [])]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = f"http://127.0.0.1:{self._line()}"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def wait(self) -> None:
        """Wait until it stops at an insert."""
        assert self._line() == "waits"

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def sink(self, batch: int = 2_000, name: str = "clickhouse", redact: Any = None) -> ClickHouse:
        return ClickHouse(name, Address(self.url, "holdfast", "default", str), batch, redact)

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        """Ask as anybody would."""
        import clickhouse_connect

        with clickhouse_connect.get_client(dsn=self.url, database="holdfast", compress=False) as client:
            return [tuple(row) for row in client.query(question).result_rows]

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Sums(NamedTuple):
    """Events, and what they say that calls have cost."""

    events: int
    cost_nanousd: int


async def fill(store: Store, runs: int, seed: int = 7) -> Sums:
    """Put histories of runs into a store, some of whose calls are lost, late or dear beyond a float; what their logs amount to."""
    chance = random.Random(seed)
    stories = [Story(tenant=f"tenant {n % 3}", at_ms=BORN_MS + n * 3_600_000) for n in range(runs)]
    events = cost = 0
    for story in stories:
        await put(store, story.start())
        for call in range(chance.randrange(1, 5)):
            path, amount = str(call), chance.choice([0, 1, 135, chance.randrange(10**9), 2**53 + 1])
            await put(store, story.hold(amount, path))
            if chance.random() < 0.2:
                await put(store, story.doubt(path))
            else:
                await put(store, story.settle(amount, path))
                cost += amount
        await put(store, story.draft())
        events += len(story.history)
    return Sums(events, cost)


async def feed(store: Store, sink: ClickHouse, events: int, tail: Any = None) -> None:
    """Follow the store until the sink has taken so many."""
    follower = Follower(store, MachineClock(), sink, "a holder", lambda: True, SpareTime().share(), tail)
    follower.start()
    try:
        while (
            not (rows := [each for each in await store.followers.listed() if each.name == sink.name]) or rows[0].taken < events
        ):
            assert not rows or not rows[0].problem, rows[0].problem
            await MachineClock().sleep(0.05)
    finally:
        await follower.aclose()


async def rolled_up(store: Store) -> list[CostSum]:
    """The roll-up of the store, up to date, by everything that it knows."""
    while not await count_some(store):
        pass
    by = ("hour", "tenant", "team", "workflow", "node", "model")
    return list(await store.costs.sums(by, "0000-01-01", "9999-12-31"))  # type: ignore[arg-type]
