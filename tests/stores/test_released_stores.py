"""Stores that released versions wrote are opened, brought up to date and finished, and what they had applied never changes.

Each lies in tests/fixtures/stores as a process left it that was killed in the middle of everything; `write` there makes those
of a release.
"""

from __future__ import annotations

import asyncio
import gzip
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from holdfast import Engine, Run
from holdfast.errors import StoreUnreadable
from holdfast.stores import statement
from holdfast.stores.postgres import PostgresAdministration, PostgresStore
from holdfast.stores.postgres.address import Address
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from holdfast.testing.postgres_server import PostgresServer
from tests.conftest import say
from tests.fixtures.stores import flows

STORES = Path(flows.__file__).parent
VERSIONS = sorted(each.name.removesuffix(".sqlite.gz") for each in STORES.glob("*.sqlite.gz"))
MAX_S = 60.0
RULES = (
    Rule(user="agent", turn=1, tool_calls=(ToolCall("look_up", {"what": "one"}),)),
    Rule(user="agent", tool_calls=(ToolCall("final_result", {"subject": "done"}),)),
    Rule(user="short", text="yes"),
)

RELEASED = {
    "postgres": {
        "0001_first": "5609b60dfaed20eebbab9fc00e5a2d7c4d1971f0afeecc8cb5826f2e992e765f",
        "0003_scopes": "9c9c06b658823cf681ad2ee6d196a7e56a1fe930b99093274268ffd1cfef1a04",
        "0004_effect_keys": "8b862216bf40fe10576ab323752ccb6f90d88ba0713adfbe1641517951050926",
        "0005_costs": "1bb99c2a90ae760f0c98eff0aff614544599cc02460b28d1a84032009e7134ed",
        "0006_descriptions": "b3995923e24fcdab9e4aff982f0cc5cd1f82b2c66e6a395c774a279055d70d53",
        "0007_pools": "677b689996e748aae6cc29983d9d0ab3198e6ec6a64749879252368e265051b8",
        "0008_services": "086349c962ecfe2d57ff26e6b8ea2916346d8fd7b5d10b4f042ec8b5f05c8336",
        "0009_lines": "fdf8cd7bfc6ffd84b592303db105986db98abc32b115b01223f70bc99b17fcda",
    },
    "sqlite": {
        "0001_first": "1a99445f3c113f8459a7717c07be082481b00b3e641cf145c23ef06b54b35958",
        "0002_graphs": "d9c60180d07a791133caac42b9e57a56a10f2337ccc465f084439bf23b61b461",
        "0003_scopes": "d41548d50f8cfe284e52c8c41cedc4037d502f706ca72ec4842b6a39ce8cc3da",
        "0004_effect_keys": "7d659b2980bcc82b1003498934bee34f9d833663781394476196be1e60568636",
        "0005_costs": "5e7e761e1e977ca332d3fb8737a10dee920e57c97deadd0892a2c0b14b70a501",
        "0006_descriptions": "eaab0afa1ec9ba0c4bc8a166f69e31847bc20990d20ed0a89ab9d0a0b7a64e45",
        "0007_pools": "677d410cfbed9c29a20daca76d59987ba1bf60e426bbc974431bed5fffebfb08",
        "0008_services": "1c5a37ff2fa89c414cdb17dec9c6d2b74f27a1e7f9756d3ae3035b943cb668c0",
        "0009_lines": "ab60b0d2c670473655c136a8166365a874c0a01fd68241e3dcf8f326a2abb906",
    },
}
"""The text of every migration that a release has had, by its sha256. A line is added with a release and never changed."""


def test_the_released_migrations_are_as_they_were() -> None:
    for dialect, released in RELEASED.items():
        there = {str(each): each.sha256 for each in statement.migrations(dialect)}
        assert {name: there.get(name) for name in released} == released, "a store that has had one would be another's"


@pytest.fixture(params=[(version, kind) for version in VERSIONS for kind in ("sqlite", "postgres")], ids="-".join)
async def released(request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[str]:
    """Where a copy of a store lies that a released version wrote, with the tables that it gave it."""
    version, kind = request.param
    if kind == "sqlite":
        (tmp_path / "store.db").write_bytes(gzip.decompress((STORES / f"{version}.sqlite.gz").read_bytes()))
        yield str(tmp_path / "store.db")
        return
    name = f"released_{version.replace('.', '_')}"
    dump = tmp_path / "dump.sql"
    dump.write_bytes(gzip.decompress((STORES / f"{version}.sql.gz").read_bytes()))
    say(postgres, f"create database {name}")
    try:
        restore(postgres, name, dump)
        administration = await PostgresAdministration.connect(postgres.url_of(name), None)
        await administration.migrate(None)
        await administration.aclose()
        yield postgres.url_of(name)
    finally:
        say(postgres, f"drop database {name} with (force)")


def restore(postgres: PostgresServer, name: str, dump: Path) -> None:
    dump.parent.chmod(0o755)
    given = postgres.folder / dump.name
    shutil.copy(dump, given)
    given.chmod(0o644)
    postgres.run(
        "psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", f"--dbname={postgres.url_of(name)}", f"--file={given}"
    )


@asynccontextmanager
async def opened(store: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Engine]:
    with ModelServer(journal=folder / "calls.jsonl", rules=RULES) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        async with asyncio.timeout(MAX_S), Engine.open(store, workflows=flows.WORKFLOWS, labels=[flows.LABEL]) as engine:
            yield engine


async def decided(engine: Engine, run: Run, decision: str, data: Any = None) -> None:
    """Answer the question that the run asks now."""
    state = await run.until(lambda state: state.gates)
    given = {} if data is None else {"data": data}
    await engine.decide(next(iter(state.gates)), decision, by="anna", **given)


async def test_a_store_of_a_released_version_is_opened_and_every_run_in_it_finished(
    released: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(released, tmp_path, monkeypatch) as engine:
        given = {"subject": "you"}
        runs = {
            each.name: await engine.start(each, given, key=each.name)
            for each in flows.WORKFLOWS
            if each.name not in ("rich", "ways")
        }
        runs["rich"] = await engine.start(flows.rich, tenant="poor", key="rich")
        runs["ways"] = await engine.start(flows.ways, tenant="crowd", key="ways")
        runs["queued"] = await engine.start(flows.ways, tenant="crowd", key="queued", queue=True)
        runs["paused"] = await engine.start(flows.undoes, key="paused")
        runs["cancelled"] = await engine.start(flows.ways, key="cancelled")
        assert len(await engine.runs(limit=100)) == len(runs), "a start key did not find its run"

        await decided(engine, runs["asks"], "approve")
        await engine.signal(runs["sleeps"].id, "wake", 1)
        await decided(engine, runs["kills"], "retry")
        await decided(engine, runs["doubts"], "retry")
        await engine.raise_budget(runs["poor"].id, "1.00")
        await engine.set_budget("poor", "day", None)
        await decided(engine, runs["ways"], "answer", {"edited_body": "a door"})
        await decided(engine, runs["queued"], "answer", {"edited_body": "a door"})
        await engine.resume(runs["paused"].id)
        await decided(engine, runs["paused"], "approve")

        found = {name: (await run.until(lambda state: state.ended)).ended for name, run in runs.items()}
        assert found == dict.fromkeys(runs, "completed") | {"fails": "failed", "undoes": "cancelled", "cancelled": "cancelled"}
        assert (await runs["agent"].state()).budget.in_doubt_nanousd > 0, "the call that was killed is forgotten"


async def test_workflows_are_called_what_they_were_called(released: str) -> None:
    async with Engine.open(released, execute=False) as engine:
        stored = {row.workflow: row.graph_hash for row in await engine.runs(limit=100)}
        listed = await engine.store.graphs.workflows(tenant="default")
    assert stored == {each.name: (each.earlier or (each,))[0].hash for each in flows.WORKFLOWS}
    assert {each.name: each.graph_hash for each in listed} == stored
    assert {each.loaded_at_ms for each in listed} == {None}, "nobody has loaded one since"
    assert [each.name for each in listed if each.tenant == "default"] == ["build"], "a file is its tenant's"


EDIT = "update {}migrations set sha256 = 'edited' where version = 3"


async def test_a_store_that_had_a_migration_with_another_text_is_refused(tmp_path: Path, database: str) -> None:
    await (await SqliteStore.connect(tmp_path / "store.db")).aclose()
    apsw.Connection(str(tmp_path / "store.db")).execute(EDIT.format(""))
    with pytest.raises(StoreUnreadable, match="0003_scopes with another text"):
        await SqliteStore.connect(tmp_path / "store.db")

    await (await PostgresStore.connect(database)).aclose()
    db = await asyncpg.connect(database.partition("?")[0])
    await db.execute(EDIT.format(f"{Address.of(database).schema}."))
    await db.close()
    with pytest.raises(StoreUnreadable, match="0003_scopes with another text"):
        await PostgresStore.connect(database)


async def test_a_store_from_between_two_releases_is_refused_and_left_alone(tmp_path: Path, new_database: str) -> None:
    """Its migrations have become one."""
    store = tmp_path / "store.db"
    await (await SqliteStore.connect(store)).aclose()
    db = apsw.Connection(str(store))
    db.pragma("user_version", 37)
    with pytest.raises(StoreUnreadable, match="at version 37, which no release has"):
        await SqliteStore.connect(store)
    assert db.pragma("user_version") == 37

    await (await PostgresStore.connect(new_database)).aclose()
    there = await asyncpg.connect(new_database.partition("?")[0])
    await there.execute(f"update {Address.of(new_database).schema}.migrations set version = 37 where version > 9")
    await there.close()
    with pytest.raises(StoreUnreadable, match="at version 37, which no release has"):
        await PostgresStore.connect(new_database)
    administration = await PostgresAdministration.connect(new_database)
    with pytest.raises(StoreUnreadable, match="no release"):
        await administration.migrate(None)
    await administration.aclose()
