"""The invariants about telling every event once, and about what retention may take away.

Never here: a promise that has no number.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import asyncpg
import pytest

from holdfast.compose import open_administration, open_store
from holdfast.core.facts import commands as cmd
from holdfast.core.values.payload import inline
from holdfast.core.views.sealing import PLAIN
from holdfast.errors import MonthHeld
from holdfast.ports import Store
from holdfast.stores.month import Month
from holdfast.stores.postgres import PostgresStore
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.append import entry, write
from holdfast.stores.postgres.context import sql
from holdfast.stores.postgres.partition import make
from tests.forks import AsyncFork
from tests.stores.story import BORN_MS, Story, put

WRITERS = 12
APPENDS = 30
DAY_MS = 24 * 3600 * 1000
DELAYED = 6
"""Commits that take long: their transactions have low numbers and become visible late."""
AHEAD = 100
LATER = 30
PATIENCE_S = 30


class Export:
    """What an exporter has dealt with, and how far those who append are ahead of it."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int]] = []
        self.appended = 0
        self.writing = WRITERS

    async def keep_up(self) -> None:
        """Wait until the exporter has nearly caught up: what is to be missed must be under way while it looks."""
        while self.appended - len(self.found) > AHEAD:
            await asyncio.sleep(0.005)

    async def go_on(self) -> None:
        """Wait until the exporter has dealt with what was committed later."""
        seen = len(self.found)
        while self.writing and len(self.found) < seen + LATER:
            await asyncio.sleep(0.005)


async def writer(database: str, stories: list[Story], export: Export) -> None:
    store = await PostgresStore.connect(database, connections=2)
    await put(store, *(story.start() for story in stories))
    for _ in range(APPENDS):
        assert set(await store.log.append([story.does(cmd.SendSignal("more", inline("x"))) for story in stories])) == {None}
        export.appended += len(stories)
        await export.keep_up()
    export.writing -= 1
    await store.aclose()


async def late_committer(database: str, story: Story, export: Export) -> None:
    """Commit appends after others that were begun later have been committed and told."""
    address = Address.of(database)
    db = await asyncpg.connect(database.partition("?")[0])
    process = await db.fetchval("select gen_random_uuid()")
    for number in range(DELAYED):
        append = story.does(cmd.SendSignal("late")) if number else story.start()
        async with db.transaction():
            written = await write(db, sql(address), process, [entry(append, PLAIN)], charging=False)
            assert written.runs == {story.run}
            await export.go_on()
    await db.close()


async def exporter(database: str, export: Export, wanted: int) -> None:
    """Deal with every event, in processes that are killed again and again; the next goes on after the last line kept."""
    cursor, lines, found = "start", 1, export.found
    while len(found) < wanted:
        words = ("runs", "tail", "--follow", "--json", "--from", cursor, "--store", database)
        tail = await AsyncFork.start("holdfast", *words)
        try:
            for _ in range(min(lines, wanted - len(found))):
                line = json.loads(await asyncio.wait_for(tail.stdout.readline(), PATIENCE_S))
                found.append((line["run_id"], line["seq"]))
                cursor = line["cursor"]
        finally:
            tail.kill()
            await tail.communicate()
        lines = lines * 3 + 1


async def test_invariant_04_a_tailer_sees_every_committed_event_once_in_order_within_a_run(database: str) -> None:
    store = await PostgresStore.connect(database)
    async with store.context.connections.writing() as db:
        await make(db, Address.of(database), {Month.at(BORN_MS)})
    stories = [[Story(), Story()] for _ in range(WRITERS)]
    late = [Story() for _ in range(4)]
    wanted = WRITERS * 2 * (APPENDS + 2) + len(late) * (DELAYED + 1)
    export = Export()
    await asyncio.gather(
        exporter(database, export, wanted),
        *(writer(database, each, export) for each in stories),
        *(late_committer(database, each, export) for each in late),
    )
    found = export.found
    everything = [story for each in stories for story in each] + late
    assert sum(len(story.history) for story in everything) == wanted
    for story in everything:
        assert [seq for run, seq in found if run == story.run] == [each.seq for each in story.history]
    assert Counter(found).most_common(1)[0][1] == 1
    told, _ = await store.tail.after(None, 10 * wanted)
    assert {(each.run, each.recorded.seq) for each in told} == set(found)
    await store.aclose()


class Kept:
    """A run, what of it is still to come, and the large payloads that it refers to."""

    def __init__(self, at_ms: int) -> None:
        self.story = Story(at_ms=at_ms, tenant="acme")
        self.month = Month.at(at_ms)
        self.rest = self.story.whole()
        self.blobs: set[tuple[str, str]] = set()

    async def check(self, store: Store) -> None:
        """Raises where anything is gone that the run refers to."""
        assert await store.log.events(self.story.run) == tuple(self.story.history)
        assert len(await store.views.effects(run=self.story.run)) == ("EffectIntended" in self.kinds)
        for month, sha256 in self.blobs:
            await store.blobs.get("acme", month, sha256)

    @property
    def kinds(self) -> set[str]:
        return {type(each.event).__name__ for each in self.story.history}

    @property
    def has_ended(self) -> bool:
        return bool(self.story.state.ended)


@pytest.mark.parametrize(("seed", "kind"), [(0, "postgres"), (1, "sqlite")])
async def test_invariant_25_retention_never_removes_what_a_live_run_refers_to(
    request: pytest.FixtureRequest, tmp_path: Path, seed: int, kind: str
) -> None:
    """Runs of five months begin, refer to payloads that others refer to as well, and end; months are archived and removed
    whenever anybody likes. Whatever has not been removed for good is whole, and so are all runs that live."""
    chance = random.Random(seed)
    where = request.getfixturevalue("database") if kind == "postgres" else str(tmp_path / "runs.db")
    store, administration = await open_store(where), await open_administration(where)
    months = [Month.at(BORN_MS)]
    for _ in range(4):
        months.append(months[-1].next)
    runs: list[Kept] = []
    refused = archived = pruned = 0
    for number in range(300):
        deed = chance.choice(["begin", "refer", "refer", "go on", "go on", "go on", "end", "archive", "prune"])
        living = [run for run in runs if not run.has_ended]
        month = chance.choice(months)
        if deed == "begin" and number < 200:
            runs.append(Kept(BORN_MS + months.index(month) * 30 * DAY_MS + chance.randrange(DAY_MS)))
            await put(store, next(runs[-1].rest))
        elif deed == "refer" and living:
            run = chance.choice(living)
            content = b"large %d" % chance.randrange(6)
            kept = str(max(month, run.month))
            run.blobs.add((kept, await store.blobs.put("acme", kept, content)))
        elif deed == "go on" and living:
            await put(store, next(chance.choice(living).rest))
        elif deed == "end" and living:
            await put(store, *chance.choice(living).rest)
        elif deed in ("archive", "prune"):
            try:
                if deed == "archive":
                    archived += (await administration.archive(str(month))).runs
                else:
                    pruned += (await administration.prune(str(month))).runs
                    runs = [run for run in runs if run.month >= month or not run.has_ended]
            except MonthHeld:
                refused += 1
            await asyncio.gather(*(run.check(store) for run in runs))
    assert min(refused, archived, pruned) > 2
    await administration.aclose()
    await store.aclose()
