"""A backup is one moment of a store that is in use, and runs go on in it from where they were."""

from __future__ import annotations

import asyncio
import contextlib
import stat
from pathlib import Path

import pytest

from holdfast import Engine
from holdfast.errors import StoreError, UsageError
from holdfast.stores.postgres import PostgresAdministration
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.administration import SqliteAdministration
from holdfast.testing.postgres_server import PostgresServer
from tests.conftest import say
from tests.fixtures.stores import flows
from tests.stores.story import Story


async def test_a_backup_of_a_store_in_use_has_everything_that_was_acknowledged_before_it(tmp_path: Path) -> None:
    store, copy = await SqliteStore.connect(tmp_path / "store.db"), tmp_path / "copy.db"
    acknowledged: list[str] = []

    async def go_on() -> None:
        while True:
            story = Story()
            assert list(await store.log.append([story.start()])) == [None]
            acknowledged.append(story.run)

    writing = asyncio.ensure_future(go_on())
    administration = await SqliteAdministration.connect(tmp_path / "store.db")
    while len(acknowledged) < 20:
        await asyncio.sleep(0.001)
    before = set(acknowledged)
    size = await administration.back_up(str(copy))
    writing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await writing
    assert (size, stat.S_IMODE(copy.stat().st_mode)) == (copy.stat().st_size, 0o600)
    assert [file.name for file in tmp_path.glob("copy*")] == ["copy.db"], "nothing but the copy"
    with pytest.raises(UsageError, match="overwrites nothing"):
        await administration.back_up(str(copy))
    with pytest.raises(StoreError, match="could not be written"):
        await administration.back_up(str(tmp_path / "nowhere" / "copy.db"))
    restored = await SqliteStore.connect(copy)
    assert before <= {row.run for row in await restored.views.runs(limit=100_000)}
    for opened in (administration, store, restored):
        await opened.aclose()


async def test_a_dump_of_postgres_in_mid_run_goes_on_where_it_is_restored(postgres: PostgresServer, tmp_path: Path) -> None:
    """Into another database, and then into the same again: neither has anything done twice."""
    say(postgres, "create database dumped")
    url = postgres.url_of("dumped")
    try:
        async with Engine.open(url, workflows=[flows.undoes]) as engine:
            run = await engine.start(flows.undoes)
            await run.until(lambda state: state.gates)
            dump = postgres.folder / "dump"
            postgres.run("pg_dump", "--format=custom", "--schema=holdfast", f"--dbname={url}", f"--file={dump}")
        administration = await PostgresAdministration.connect(url, None)
        with pytest.raises(UsageError, match="pg_dump --format=custom --schema=holdfast"):
            await administration.back_up("copy")
        await administration.aclose()
        say(postgres, "create database restored")
        restored = postgres.url_of("restored")
        postgres.run("pg_restore", "--exit-on-error", "--no-owner", f"--dbname={restored}", dump)
        async with asyncio.timeout(60), Engine.open(restored, workflows=[flows.undoes]) as engine:
            (row,) = await engine.runs()
            state = await engine.run(row.run).state()
            await engine.decide(next(iter(state.gates)), "approve", by="anna")
            assert (await engine.run(row.run).until(lambda state: state.ended)).ended == "completed"
            history = [type(each.event).__name__ for each in await engine.run(row.run).events()]
            assert history.count("EffectIntended") == 1, "what was done before the dump was done again"
    finally:
        for name in ("dumped", "restored"):
            say(postgres, f"drop database if exists {name} with (force)")
