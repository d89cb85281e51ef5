"""Migrations in two parts around a deployment: old and new code work side by side in between, and a crash leaves nothing half.

The newer Holdfast is this one with more migrations: a copy of its code, run as a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import pytest

import holdfast
from holdfast import Engine, Workflow, task
from holdfast.core.facts import commands as cmd
from holdfast.core.values.ids import SessionId
from holdfast.errors import StillInUse, StoreError, StoreTooNew, StoreUnreadable
from holdfast.stores.month import Month
from holdfast.stores.postgres import PostgresAdministration, PostgresStore
from holdfast.stores.postgres.address import Address
from holdfast.stores.postgres.partition import make, part
from holdfast.stores.postgres.schema import LATEST
from holdfast.testing.postgres_server import PostgresServer
from tests.conftest import say
from tests.stores.story import ASKS, TINY, Story, put

BEFORE = """
alter table holdfast.runs add column note text;
create table holdfast.notes (run uuid primary key, note text not null);
"""
AFTER = "alter table holdfast.runs drop column waiting_for;"
HANGING = "create table holdfast.half (x integer); select pg_sleep(60);"
BROKEN = "create table holdfast.half (x integer); select 1 / 0;"
PATIENCE_S = 60
NEXT = LATEST + 1


class Newer:
    """A Holdfast that knows more migrations than this one, from its command line."""

    def __init__(self, folder: Path, database: str, **migrations: str) -> None:
        self.database = database
        self.source = folder / "newer"
        shutil.copytree(Path(holdfast.__file__).parent, self.source / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
        self.have(**migrations)

    def have(self, **migrations: str) -> None:
        for name, text in migrations.items():
            place = self.source / "holdfast/stores/sql/postgres/migrations" / f"{NEXT:04d}_{name}.sql"
            place.write_text(text)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words, "--store", self.database],
            env=os.environ | {"PYTHONPATH": str(self.source)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> tuple[int, str]:
        """The exit code, and everything that was said."""
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out + err


@pytest.fixture
def database(new_database: str) -> str:
    """A store that no other test has had: here its tables change."""
    return new_database


@pytest.fixture
def newer(tmp_path: Path, database: str) -> Newer:
    return Newer(tmp_path, database, note=BEFORE, note_after=AFTER)


async def tables(database: str) -> set[str]:
    address = Address.of(database)
    db = await asyncpg.connect(database.partition("?")[0])
    rows = await db.fetch("select tablename from pg_tables where schemaname = $1", address.schema)
    await db.close()
    return {row["tablename"] for row in rows}


async def test_old_and_new_code_work_on_the_same_tables_between_the_two_parts(newer: Newer, database: str) -> None:
    old, story = await PostgresStore.connect(database), Story()
    await old.sessions.open(SessionId("old"), "an old process", [TINY.hash])
    await put(old, story.start())

    code, said = newer.run("runs", "list")  # the new code waits for its tables
    assert (code, "holdfast store migrate --before" in said) == (1, True), said
    code, said = newer.run("store", "migrate", "--after")
    assert (code, "--before" in said) == (1, True), said
    code, said = newer.run("store", "status")
    assert (code, f"{NEXT:04d}_note, {NEXT:04d}_note_after" in said) == (0, True), said

    assert newer.run("store", "migrate", "--before") == (0, f"{NEXT:04d}_note\nApplied 1 migration.\n")
    assert "notes" in await tables(database)
    code, said = newer.run("runs", "list")
    assert (code, story.run in said) == (0, True), said
    await put(old, story.draft(), story.ask())
    another, more = await PostgresStore.connect(database), Story()  # an old process may still be started
    await put(another, *more.whole())
    assert await another.log.events(story.run) == tuple(story.history)
    administration = await PostgresAdministration.connect(database)
    assert (await administration.standing()).pending == ()
    assert await administration.migrate(None) == []

    code, said = newer.run("store", "migrate")  # as long as the old process lives
    assert (code, "an old process" in said) == (4, True), said
    assert await old.views.run(story.run) is not None
    await old.sessions.close(SessionId("old"))
    assert newer.run("store", "migrate", "--after") == (0, f"{NEXT:04d}_note_after\nApplied 1 migration.\n")
    assert newer.run("store", "migrate")[0] == 0

    with pytest.raises(StoreTooNew, match="upgrade"):
        await PostgresStore.connect(database)
    with pytest.raises(StoreTooNew, match="upgrade"):
        await administration.migrate(None)
    assert (await administration.standing()).version == NEXT
    with pytest.raises(StoreUnreadable, match="store migrate"):
        await old.views.run(story.run)  # one that was overlooked is told at its next word
    await administration.aclose()
    for store in (old, another):
        await store.aclose()


async def test_a_migration_that_fails_or_is_killed_between_two_statements_leaves_nothing(tmp_path: Path, database: str) -> None:
    store, story = await PostgresStore.connect(database), Story()
    await put(store, story.start())
    there = await tables(database)
    newer = Newer(tmp_path, database, half=BROKEN)
    code, said = newer.run("store", "migrate", "--before")
    assert (code, "division by zero" in said) == (1, True), said
    assert await tables(database) == there

    newer.have(half=HANGING)
    migrating = newer.start("store", "migrate", "--before")
    await until_sleeping(database)
    migrating.kill()
    assert migrating.wait() == -signal.SIGKILL
    await put(store, story.draft())  # nothing waits for it meanwhile
    await terminate_sleeping(database)
    assert await tables(database) == there
    newer.have(half=BEFORE)
    assert newer.run("store", "migrate", "--before")[0] == 0
    assert "notes" in await tables(database)
    await store.aclose()


async def until_sleeping(database: str) -> None:
    db = await asyncpg.connect(database.partition("?")[0])
    until_s = time.monotonic() + PATIENCE_S
    while not await db.fetchval("select count(*) from pg_stat_activity where wait_event = 'PgSleep'"):
        assert time.monotonic() < until_s
        await asyncio.sleep(0.02)
    await db.close()


async def terminate_sleeping(database: str) -> None:
    """The server notices at its next word that the client is gone; here that would take a minute."""
    db = await asyncpg.connect(database.partition("?")[0])
    await db.execute("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'")
    while await db.fetchval("select count(*) from pg_stat_activity where wait_event = 'PgSleep'"):
        await asyncio.sleep(0.02)
    await db.close()


async def test_processes_that_migrate_at_the_same_instant_all_succeed(tmp_path: Path, database: str) -> None:
    newer = Newer(tmp_path, database, note=BEFORE)
    every = [newer.start("store", "migrate") for _ in range(4)]
    told = [process.communicate(timeout=PATIENCE_S) for process in every]
    assert [process.returncode for process in every] == [0] * 4, told
    assert sum(out.count(f"{NEXT:04d}_note") for out, _ in told) == 1
    assert sum(out.count("0001_first") for out, _ in told) == 1


async def test_a_migration_waits_for_a_table_without_holding_others_up_for_long(newer: Newer, database: str) -> None:
    store, story = await PostgresStore.connect(database), Story()
    await put(store, story.start())
    address = Address.of(database)
    db = await asyncpg.connect(database.partition("?")[0])
    reading = db.transaction()
    await reading.start()
    await db.fetch(f"select * from {address.schema}.runs")
    migrating = newer.start("store", "migrate", "--before")
    longest_s = 0.0
    for _ in range(40):
        began_s = time.monotonic()
        await put(store, story.does(cmd.SendSignal("more")))
        longest_s = max(longest_s, time.monotonic() - began_s)
        await asyncio.sleep(0.1)
    assert migrating.poll() is None
    assert longest_s < 5
    await reading.rollback()
    assert await asyncio.to_thread(migrating.wait, PATIENCE_S) == 0
    await db.close()
    await store.aclose()


def greeting() -> Workflow:
    wf = Workflow("greeting")

    @wf.node("greet")
    @task
    async def greet(state, ctx):  # type: ignore[no-untyped-def]
        return f"hello {state.input['name']}"

    return wf


async def test_a_user_without_rights_gets_advice(
    postgres: PostgresServer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    schema = Address.of(database).schema
    say(postgres, f"create role poor_{schema} login")
    poor = database.replace("postgres@", f"poor_{schema}@")
    administration = await PostgresAdministration.connect(poor)
    with pytest.raises(StoreUnreadable, match="right to create"):
        await administration.migrate(None)
    assert (await administration.standing()).version == 0

    owner, story = await PostgresAdministration.connect(database), Story()
    await owner.migrate(None)
    async with owner._db.writing() as db:
        await make(db, Address.of(database), {Month.at(story.at_ms)})
    say(
        postgres,
        f"grant usage on schema {schema} to poor_{schema}; grant select, insert, update, delete on all tables in"
        f" schema {schema} to poor_{schema}; grant usage on all sequences in schema {schema} to poor_{schema}",
    )
    store = await PostgresStore.connect(poor)
    await put(store, story.start())  # whoever may write but make no tables works on those that are there
    assert [each.run for each in (await store.tail.after(None, 100))[0]] == [story.run] * len(story.history)
    async with Engine.open(poor, workflows=[greeting()]) as engine:
        assert await (await engine.start(greeting(), {"name": "Ada"})).result() == "hello Ada"
    assert [words for words in caplog.messages if "fsync=off" not in words] == []  # that of the server, known to be so
    month = Month.at(store.clock.now_ms()).next
    say(postgres, f"drop table {schema}.{part('events', month)}")
    async with Engine.open(poor):
        while "could not look after its store" not in caplog.text:  # somebody with rights must, once in two months
            await asyncio.sleep(0.02)
    stranger = Story(at_ms=story.at_ms + 90 * 24 * 3600 * 1000)
    with pytest.raises(StoreError, match="rights"):
        await store.log.append([stranger.start()])
    for opened in (administration, store, owner):
        await opened.aclose()
    say(postgres, f"drop owned by poor_{schema}; drop role poor_{schema}")


async def test_after_is_refused_by_name_of_who_still_needs_what_goes(newer: Newer, database: str) -> None:
    """Also where the part before is done in the same breath."""
    old = await PostgresStore.connect(database)
    await old.sessions.open(SessionId("old"), "host:7", [TINY.hash])
    code, said = newer.run("store", "migrate")
    assert (code, "host:7" in said) == (4, True), said
    assert "notes" in await tables(database)
    assert StillInUse.__name__ not in said
    await old.aclose()
    assert newer.run("store", "migrate", "--after")[0] == 0


async def test_runs_of_an_earlier_version_are_found_and_tell_who_started_them(database: str) -> None:
    store, story = await PostgresStore.connect(database), Story(graph=ASKS)
    await put(store, story.start(by="shop"))
    await store.aclose()
    schema = Address.of(database).schema
    db = await asyncpg.connect(database.partition("?")[0])
    await db.execute(f"alter table {schema}.runs drop column started_by")
    await db.execute(f"alter table {schema}.waiters drop column graph")
    await db.execute(f"alter table {schema}.events drop column trace_id")
    await db.execute(f"alter table {schema}.lent_pools drop column closed_ms")
    for column in (
        "expires_at_ms",
        "quorum",
        "risk_level",
        "proposed_action",
        "evidence_ids",
        "approved_by",
        "workflow",
        "title",
    ):
        await db.execute(f"alter table {schema}.gates drop column {column}")
    await db.execute(f"alter table {schema}.migrations drop column sha256")
    await db.execute(f"alter table {schema}.limits drop column priority")
    await db.execute(f"alter table {schema}.scopes drop column moved_at_ms")
    await db.execute(
        f"drop table {schema}.job_logs, {schema}.workflows, {schema}.streams, {schema}.chunks,"
        f" {schema}.records, {schema}.record_parts, {schema}.shared_values, {schema}.shared_waits, {schema}.shared_locks,"
        f" {schema}.scores, {schema}.run_labels, {schema}.evaluations, {schema}.costs_by_hour, {schema}.extra_costs, {schema}.cost_progress,"
        f" {schema}.model_estimates, {schema}.submitted_workflows,"
        f" {schema}.api_keys, {schema}.audit, {schema}.audit_head, {schema}.canaries, {schema}.cursor_keys, {schema}.replies, {schema}.sign_ins,"
        f" {schema}.shared_entries,"
        f" {schema}.followers, {schema}.deliveries, {schema}.channels,"
        f" {schema}.dead_letters, {schema}.children"
    )
    await db.execute(f"alter table {schema}.counted drop column cost_nanousd")
    await db.execute(f"drop index {schema}.runs_in_doubt, {schema}.archives_by_time")
    await db.execute(f"drop type {schema}.given_run, {schema}.given_event, {schema}.given_charge")
    await db.execute(f"delete from {schema}.migrations where version > 7")
    await db.close()
    with pytest.raises(StoreUnreadable, match="store migrate"):
        await PostgresStore.connect(database)
    administration = await PostgresAdministration.connect(database)
    await administration.migrate("before")
    again = await PostgresStore.connect(database)
    assert [(each.run, each.started_by) for each in await again.views.stranded(2**62, 10)] == [(story.run, None)]
    await put(again, story.does(cmd.SendSignal("news")))
    assert [(each.run, each.started_by) for each in await again.views.unplaced(0, 10)] == [(story.run, "shop")]
    for opened in (administration, again):
        await opened.aclose()
