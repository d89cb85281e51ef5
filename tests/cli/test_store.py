"""`holdfast store`: what an operator sees of the store, and what may be done to it as a whole."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from pathlib import Path

import pytest

from holdfast.compose import open_store
from holdfast.core.values.ids import SessionId
from holdfast.ports import Append, WorkflowRecord
from holdfast.stores.postgres.schema import LATEST
from tests.cli.conftest import Shell
from tests.conftest import say as in_psql
from tests.stores.story import TINY, Story

GREET = ("run", "flow:greet", "-i", '{"customer": "Ada"}')
MONTH, NEXT = "2023-11", "2023-12"


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The store that the commands use."""
    found = "runs.db" if request.param == "sqlite" else request.getfixturevalue("database")
    monkeypatch.setenv("HOLDFAST_STORE", found)
    return str(found)


@pytest.fixture
def stories(where: str) -> list[Story]:
    """Two runs of November 2023 in it: one has ended, one waits for a person."""
    ended, waits = Story(), Story()
    say(where, *ended.whole(), waits.start(), waits.draft(), waits.ask())
    return [ended, waits]


def say(where: str, *appends: Append) -> None:
    async def put() -> None:
        store = await open_store(where)
        for append in appends:
            assert list(await store.log.append([append])) == [None]
        await store.graphs.put_workflow(WorkflowRecord("tiny", 1, TINY.hash), TINY.encoded)
        await store.aclose()

    asyncio.run(put())


def test_the_standing_of_a_file(shell: Shell) -> None:
    assert shell("store", "status").code == 3
    shell(*GREET)
    shell("run", "flow:letter", "-i", '{"customer": "Ada"}')
    found = shell("store", "status", "--json").data
    ((month, unended),) = [(month["runs"], month["unended"]) for month in found["months"]]
    assert (month, unended, found["pending"], found["oldest_unended"]["workflow"]) == (2, 1, [], "letter")
    told = shell("store", "status").out
    assert re.search(r"Oldest unended +\S+ of letter 1, waiting, started .* ago", told)
    assert "No process has a lease" in told
    assert shell("store", "migrate").err == "There was nothing to do: the tables are up to date.\n"


@pytest.mark.parametrize("where", ["postgres"], indirect=True)
def test_the_standing_of_a_database(shell: Shell, stories: list[Story], where: str) -> None:
    async def lease() -> None:
        store = await open_store(where)
        await store.sessions.open(SessionId("s"), "a host:1", [TINY.hash])
        found = await asyncio.to_thread(shell, "store", "status")
        assert re.search(r"2023-11 +2 +1 +\d+ +\S+ kB +open", found.out), found
        assert re.search(rf"a host:1 .* ago\) +{LATEST}", found.out), found
        assert f"{stories[1].run} of tiny 1, waiting" in found.out
        await store.aclose()

    asyncio.run(lease())
    found = shell("store", "status", "--json").data
    assert [(month["month"], month["state"], month["runs"]) for month in found["months"]] == [(MONTH, "open", 2)]
    assert found["months"][0]["events"] == sum(len(story.history) for story in stories)
    assert (found["sessions"], found["oldest_unended"]["run_id"]) == ([], stories[1].run)


def test_a_month_is_archived_when_nothing_holds_it_back_and_is_read_as_before(
    shell: Shell, stories: list[Story], where: str
) -> None:
    ended, waits = stories
    before = [shell("runs", "events", story.run, "--json").out for story in stories]
    said = shell("store", "archive", "--before", NEXT)
    assert (said.code, said.out) == (4, "")
    assert f"{waits.run} (waiting; it has not ended)" in said.err
    (held,) = shell("store", "archive", "--before", NEXT, "--json").data["held"]
    assert (held["month"], [run["run_id"] for run in held["runs"]]) == (MONTH, [waits.run])
    assert shell("store", "archive", "--before", MONTH).code == 0  # no month before it

    say(where, waits.answer("reject"))
    said = shell("store", "archive", "--before", NEXT)
    assert re.search(r"2023-11  2 runs, \d+ events, .* compressed", said.out), said
    assert "nothing to archive" in shell("store", "archive", "--before", NEXT).err
    assert shell("runs", "events", ended.run, "--json").out == before[0]
    assert shell("runs", "events", waits.run, "--json").out.startswith(before[1])
    assert [run["run_id"] for run in shell("runs", "list", "--json").data] == [waits.run, ended.run]
    assert shell("effects", "list", "--run", ended.run, "--json").data != []
    assert "It costs nothing more." in shell("runs", "explain", ended.run).out
    assert shell("store", "status", "--json").data["months"][0]["state"] == "archived"


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
def test_old_is_what_the_settings_say(shell: Shell, stories: list[Story], monkeypatch: pytest.MonkeyPatch) -> None:
    said = shell("store", "archive")
    assert (said.code, "HOLDFAST_RETENTION_DAYS" in said.err) == (2, True)
    for days, code in (("100000", 0), ("30", 4)):
        monkeypatch.setenv("HOLDFAST_RETENTION_DAYS", days)
        assert shell("store", "archive").code == code
    monkeypatch.setenv("HOLDFAST_RETENTION_DAYS", "0")
    assert shell("store", "archive").code == 2


def test_nothing_is_removed_without_a_yes(shell: Shell, stories: list[Story], where: str) -> None:
    ended, waits = stories
    said = shell("store", "prune", "--before", NEXT, "--yes")
    assert (said.code, f"{MONTH} is not archived yet" in said.err) == (4, True)
    say(where, waits.answer("reject"))
    shell("store", "archive", "--before", NEXT)
    said = shell("store", "prune", "--before", NEXT)
    assert (said.code, "2 histories (2023-11)" in said.err) == (2, True)
    assert shell("runs", "events", ended.run).code == 0
    said = shell("store", "prune", "--before", NEXT, "--yes")
    assert (said.code, "Removed for good: 2 histories" in said.err) == (0, True)
    said = shell("runs", "events", ended.run)
    assert (said.code, "removed for good" in said.err) == (3, True)
    assert shell("runs", "show", ended.run).code == 3
    assert len(shell("runs", "list", "--json").data) == 2


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
@pytest.mark.parametrize("words", [("archive", "--before"), ("prune", "--yes", "--before")])
@pytest.mark.parametrize("month", ["", "2023", "2023-13", "yesterday"])
def test_what_is_no_month_is_reported(shell: Shell, stories: list[Story], words: tuple[str, ...], month: str) -> None:
    said = shell("store", *words, month)
    assert (said.code, "is not a month" in said.err) == (2, True)


def test_tables_are_made_by_migrate(shell: Shell, new_database: str) -> None:
    told = shell("store", "status", "--store", new_database).out
    assert "none yet" in told
    assert "store migrate" in told
    assert shell("store", "migrate", "--before", "--json", "--store", new_database).data["migrations"][0] == "0001_first"
    assert shell("store", "migrate", "--json", "--store", new_database).data == {"migrations": []}
    assert json.loads(shell("store", "status", "--json", "--store", new_database).out)["version"] == LATEST


def test_a_file_is_backed_up_and_the_copy_is_a_store(shell: Shell, tmp_path: Path) -> None:
    shell(*GREET)
    copy = tmp_path / "copy.db"
    told = shell("store", "backup", str(copy), "--json").data
    assert (told["file"], told["size_bytes"], told["large_payloads"]) == (str(copy), copy.stat().st_size, "store")
    assert shell("runs", "list", "--json", "--store", str(copy)).data == shell("runs", "list", "--json").data
    again = shell("store", "backup", str(copy))
    assert (again.code, "overwrites nothing" in again.err) == (2, True)


def test_tables_are_guarded_where_there_is_a_database_to_do_so(
    where: str, stories: list[Story], shell: Shell, request: pytest.FixtureRequest
) -> None:
    if where == "runs.db":
        assert "PostgreSQL database only. Nothing was done." in shell("store", "guard", "holdfast_cli").err
        return
    assert "create role holdfast_cli nologin" in shell("store", "guard", "holdfast_cli").err
    in_psql(request.getfixturevalue("postgres"), "create role holdfast_cli nologin")
    assert (
        shell("store", "guard", "holdfast_cli").err
        == "holdfast_cli sees the rows of one tenant at a time; postgres all of them.\n"
    )
    assert shell("store", "guard", "holdfast_cli", "--json").data == {"read_role": "holdfast_cli", "work_roles": ["postgres"]}
    assert shell("store", "guard", "x;drop").code == 2


def test_lost_keys_are_forgotten_after_a_confirmation(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_ENCRYPT", "payloads")
    for number in range(2):
        file = Path(f"keys-{number}.toml")
        file.write_text(f'default = "{base64.b64encode(bytes([number]) * 32).decode()}"')
        file.chmod(0o600)
    monkeypatch.setenv("HOLDFAST_KEY_FILE", "keys-0.toml")
    assert shell(*GREET).code == 0
    monkeypatch.setenv("HOLDFAST_KEY_FILE", "keys-1.toml")
    assert "`holdfast store forget-keys`" in shell(*GREET).err
    warned = shell("store", "forget-keys")
    assert warned.code == 2
    assert "stays unreadable" in warned.err
    assert "`holdfast store forget-keys`" in shell(*GREET).err
    assert "says which keys count" in shell("store", "forget-keys", "--yes").err
    assert shell(*GREET).code == 0
    monkeypatch.setenv("HOLDFAST_KEY_FILE", "keys-0.toml")
    assert "are not those of" in shell(*GREET).err
    assert shell("store", "forget-keys", "--yes", "--json").data == {"forgotten": 1}
    assert shell("store", "forget-keys", "--yes").err == "There was nothing to forget: the store accepts any keys.\n"
