"""`holdfast doctor`: each thing that may be wrong is brought about with real parts, and found with its remedy."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import asyncpg
import msgspec
import pytest
from pydantic import ValidationError

from holdfast import Demand, Engine
from holdfast.cli.doctor import check, facts
from holdfast.cli.page import moment
from holdfast.core.values.audit import Entry
from holdfast.core.values.ids import SessionId
from holdfast.ports import Report
from holdfast.settings import Settings
from holdfast.storage import open_store
from holdfast.stores.postgres import administration
from holdfast.testing.server_process import free_port
from tests.cli.conftest import Said, Shell
from tests.engine.test_outbox import delivery
from tests.engine.test_placing import Stage, played
from tests.forks import Fork

GREET = ("run", "flow:greet", "-i", '{"customer": "Ada"}')


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(check, "_LITTLE_ROOM", 0)  # the disk of this machine is not what is tested


@pytest.fixture
def store(shell: Shell) -> str:
    """A store of one run that has completed, in which nothing is wrong."""
    assert shell(*GREET).code == 0
    assert shell("doctor").code == 0
    return "sqlite:///holdfast.db"


def found(shell: Shell, name: str, severity: str, *words: str, code: int | None = None) -> str:
    """What `doctor` says of one check: there is one finding of this severity, which goes on with a remedy."""
    said = shell("doctor", "--json", *words)
    rows = [row for row in said.data if row["check"] == name]
    assert rows, said.out
    assert rows[0]["severity"] == severity
    assert said.code == (
        code if code is not None else max({"note": 0, "warning": 1, "error": 2}[row["severity"]] for row in said.data)
    )
    assert all(re.fullmatch(r"[A-Z].*[.)\w]", row["remedy"]) for row in rows)
    return str(rows[0]["text"])


def change(statement: str, *bound: object) -> None:
    """Change the file as no Holdfast does."""
    db = apsw.Connection("holdfast.db")
    db.execute(statement, bound)
    db.close()


def test_each_check_is_seen_to_find_something() -> None:
    """By a test below, which names it."""
    source = Path(__file__).read_text(encoding="utf-8")
    assert {name for name in check.CHECKS if not re.search(rf'found(?:\(|, )shell, "{name}"', source)} == set()


def test_a_store_in_order_has_no_findings(shell: Shell, store: str) -> None:
    said = shell("doctor", "--thorough")
    assert (said.code, said.out, said.err) == (0, "", f"Nothing is wrong: {len(check.CHECKS)} checks.\n")
    assert shell("doctor", "--json").data == []


def test_findings_are_printed_with_their_remedies_in_80_columns(shell: Shell, store: str) -> None:
    change("drop index runs_by_status")
    said = shell("doctor")
    assert said.code == 2
    assert said.out.startswith("error: The index runs_by_status is missing or invalid")
    assert "\n  Create it again" in said.out
    assert all(len(line) <= 80 for line in said.out.splitlines())


# --- Settings and secrets ---------------------------------------------------------------------------------------------


def test_a_setting_that_nothing_knows_is_found(shell: Shell, store: str, home: Path) -> None:
    (home / "holdfast.toml").write_text("[speling]\na = 1\n")
    assert "nothing here knows speling" in found(shell, "settings", "error")
    (home / "holdfast.toml").write_text('[lanes.fast]\nworkflows = ["greet", "gone"]\n')
    assert "[lanes.fast] gone" in found(shell, "settings", "note")
    (home / "holdfast.toml").write_text('[hold_back.typo]\nsuite = "suite.py"\n')
    assert "[hold_back.typo] typo is a workflow" in found(shell, "settings", "note")
    (home / "holdfast.toml").write_text('[hooks.shop]\nscheme = "github"\nworkflow = "gone"\nsecrets = ["PATH"]\n')
    assert found(shell, "settings", "warning") == "holdfast.toml: [hooks.shop] gone is a workflow that no process has loaded."


def test_a_secret_that_a_setting_names_and_nobody_has_is_found(shell: Shell, store: str, home: Path) -> None:
    (home / "holdfast.toml").write_text(
        'public_url = "https://h.example"\n[sign_in]\nissuer = "https://i.example"\nclient_id = "h"\nsecret = "NOWHERE"\n'
    )
    assert (
        found(shell, "secrets", "warning") == "The setting sign_in.secret names the secret NOWHERE, which does not exist here."
    )


NAMING_SECRETS = {
    "clickhouse.secret": '[clickhouse]\nurl = "http://h:8123"\nsecret = {}\n',
    "telemetry.headers.authorization": '[telemetry]\nendpoint = "http://127.0.0.1:9"\nheaders = {{ authorization = {} }}\n',
    "channels.a.secrets": '[channels.a]\nkind = "webhook"\nurl = "https://h.example"\nsecrets = [{}]\n',
    "channels.b.url_secret": '[channels.b]\nkind = "slack"\nurl_secret = {}\n',
    "channels.c.password_secret": ('[channels.c]\nkind = "mail"\nhost = "h"\nsender = "a@b.example"\npassword_secret = {}\n'),
    "hooks.d.secrets": '[hooks.d]\nscheme = "github"\nworkflow = "w"\nsecrets = [{}]\n',
    "sign_in.secret": (
        'public_url = "https://h.example"\n[sign_in]\nissuer = "https://i.example"\nclient_id = "h"\nsecret = {}\n'
    ),
}


@pytest.mark.parametrize("setting", NAMING_SECRETS)
def test_each_setting_takes_the_name_of_a_secret_and_never_shows_a_value(
    shell: Shell, store: str, home: Path, setting: str
) -> None:
    (home / "holdfast.toml").write_text(NAMING_SECRETS[setting].format('"NOWHERE"'))
    said = found(shell, "secrets", "warning")
    assert said == f"The setting {setting} names the secret NOWHERE, which does not exist here."
    (home / "holdfast.toml").write_text(NAMING_SECRETS[setting].format('"Bearer hunter2"'))
    for words in ("doctor", "runs list", "doctor --json"):
        refused = shell(*words.split())
        assert "hunter2" not in refused.out + refused.err
    assert f"{setting}" in found(shell, "settings", "error")
    assert "the name of a secret" in found(shell, "settings", "error")
    with pytest.raises(ValidationError) as problem:
        Settings(**tomllib.loads((home / "holdfast.toml").read_text()))
    assert "hunter2" not in str(problem.value)


# --- The store --------------------------------------------------------------------------------------------------------


def test_a_store_or_server_that_is_away_is_found(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No store exists" in found(shell, "reachable", "error")
    monkeypatch.setenv("HOLDFAST_URL", f"http://127.0.0.1:{free_port()}")
    assert "127.0.0.1" in found(shell, "reachable", "error")


def test_tables_that_lack_migrations_are_found(shell: Shell, new_database: str) -> None:
    assert "The tables lack" in found(shell, "migrations", "error", "--store", new_database)


def test_clocks_that_differ_are_found(shell: Shell, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = moment.now_ms
    monkeypatch.setattr(facts, "now_ms", lambda: now_ms() + 5_000)
    assert "5.0 s behind the clock of this machine" in found(shell, "clock", "warning")
    monkeypatch.setattr(facts, "now_ms", lambda: now_ms() - 7_200_000)
    assert "2 h ahead of the clock of this machine" in found(shell, "clock", "error")


def test_a_lease_that_nobody_has_buried_is_found(shell: Shell, store: str) -> None:
    change(
        "insert into sessions (session, label, pid, hashes, opened_at_ms, lease_ms, renewed_boot_ms) values ('s', 'far:1', 1, '[]', 0, 1, 1)"
    )
    assert "The lease of far:1 ended" in found(shell, "leases", "warning")


def test_a_process_of_another_version_is_found(shell: Shell, database: str) -> None:
    async def beside() -> str:
        opened = await open_store(database)
        await opened.sessions.open(SessionId("old"), "old:1", ["x"])
        db = await asyncpg.connect(database.partition("?")[0])
        await db.execute(f"update {database.rpartition('=')[2]}.sessions set version = version - 1")
        said = await asyncio.to_thread(found, shell, "versions", "warning", "--store", database)
        await db.close()
        await opened.aclose()
        return said

    assert "old:1 is an older Holdfast" in asyncio.run(beside())


def test_an_index_that_is_gone_is_found(shell: Shell, store: str, database: str) -> None:
    change("drop index gates_open")
    assert found(shell, "indexes", "error").startswith("The index gates_open is missing")

    async def drop() -> None:
        db = await asyncpg.connect(database.partition("?")[0])
        await db.execute(f"drop index {database.rpartition('=')[2]}.gates_open")
        await db.close()

    asyncio.run(drop())
    assert found(shell, "indexes", "error", "--store", database).startswith("The index gates_open is missing")


def test_a_file_with_much_room_in_it_and_a_long_log_is_found(shell: Shell, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_MUCH_FREE", 1_000_000)
    monkeypatch.setattr(check, "_LONG_LOG", 1_000_000)

    async def beside() -> tuple[str, str]:
        opened = await open_store(store)  # while it is open, the file has a log
        reader, db = (apsw.Connection("holdfast.db") for _ in range(2))
        reader.execute("begin; select * from runs").fetchall()  # as a backup that takes long
        db.execute("create table room (content blob); insert into room values (zeroblob(20000000)); drop table room")
        room = await asyncio.to_thread(found, shell, "bloat", "note")
        log = await asyncio.to_thread(found, shell, "log", "warning")
        db.close()
        reader.close()
        await opened.aclose()
        return room, log

    room, log = asyncio.run(beside())
    assert re.match(r"\d+ of \d+ MB of the file hold nothing", room)
    assert "The write-ahead log of the file has" in log


def test_a_table_full_of_dead_rows_and_an_old_transaction_are_found(
    shell: Shell, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(administration, "_OLD_S", 0.0)
    monkeypatch.setattr(check, "_MANY_DEAD", 500)
    address, _, schema = database.partition("?schema=")

    async def beside() -> tuple[str, str]:
        db = await asyncpg.connect(address)
        table = f"{schema}.limits"
        await db.execute(f"alter table {table} set (autovacuum_enabled = false)")
        await db.execute(f"insert into {table} (family, amount) select n::text, 1 from generate_series(1, 2000) n")
        transaction = db.transaction()
        await db.execute(f"delete from {table}")
        await db.execute("select pg_stat_force_next_flush()")
        await transaction.start()
        await db.execute(f"insert into {table} (family, amount) values ('held', 1)")
        dead = await asyncio.to_thread(found, shell, "bloat", "warning", "--store", database)
        old = await asyncio.to_thread(found, shell, "transactions", "warning", "--store", database)
        await transaction.rollback()
        await db.close()
        return dead, old

    dead, old = asyncio.run(beside())
    assert "The table limits has 2000 dead rows" in dead
    assert "It holds back the tail of events" in old


def test_a_damaged_file_is_found_when_it_is_read(shell: Shell, store: str, home: Path) -> None:
    with (home / "holdfast.db").open("r+b") as file:
        file.seek(36)
        file.write((7).to_bytes(4, "big"))  # the number of free pages, of which there are none
    assert "Freelist" in found(shell, "integrity", "error", "--thorough")


def test_a_disk_without_room_is_found(shell: Shell, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_LITTLE_ROOM", 2**60)
    assert "MB left of" in found(shell, "disk", "warning")


def test_an_audit_log_that_was_cut_is_found(shell: Shell, store: str) -> None:
    async def write() -> None:
        opened = await open_store(store)
        for at_ms in (1, 2, 3):
            await opened.audit.append(Entry(at_ms, "Pause", "run", "done", "ann", False))
        await opened.aclose()

    asyncio.run(write())
    assert shell("doctor").code == 0
    change("drop trigger audit_keeps_entries")
    change("delete from audit where number = 3")
    assert found(shell, "audit", "error") == (
        "The audit log ends with entry 2, and its head says 3: entries were removed or added."
    )


# --- The fleet --------------------------------------------------------------------------------------------------------


def test_runs_that_nobody_can_work_on_are_found(shell: Shell, store: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell("run", "flow:letter", "-i", '{"customer": "Ada"}', "--detach")
    assert found(shell, "workers", "error") == "No process executes steps, and 1 run could continue."
    assert "No live process has the workflow letter" in found(shell, "runs", "error")
    monkeypatch.setenv("HOLDFAST_WORKFLOW_GRACE_S", "0")
    (home / "other.py").write_text(
        "from holdfast import Context, flow\n\n\n@flow\nasync def other(ctx: Context) -> None: ...\n"
    )
    shell("worker", "other.py:other", "--until-idle")
    assert "1 run of letter cannot continue" in found(shell, "runs", "error")


def test_a_process_that_was_lost_is_found(shell: Shell, store: str, process: Callable[..., Fork]) -> None:
    worker = process("worker", "flow:greet")
    while not asyncio.run(described(store)):
        assert worker.poll() is None
    worker.send_signal(signal.SIGKILL)
    worker.wait()
    run = shell("run", "flow:greet", "-i", '{"customer": "Bo"}')
    assert run.code == 0
    while not any(row["check"] == "workers" for row in shell("doctor", "--json").data):
        assert shell("run", "flow:greet", "-i", '{"customer": "Bo"}').code == 0
    assert "was lost at" in found(shell, "workers", "warning")


def test_a_process_that_has_had_no_news_of_itself_for_long_is_in_order(shell: Shell, store: str) -> None:
    """It says something of itself only when that changes; its lease tells that it lives."""

    async def beside() -> Said:
        opened = await open_store(store)
        report = Report(SessionId("idle"), ("x",), slots=100, free=100, at_ms=opened.clock.now_ms() - 3_600_000)
        await opened.sessions.open(SessionId("idle"), "idle:1", ["x"], msgspec.json.encode(report))
        try:
            return await asyncio.to_thread(shell, "doctor")
        finally:
            await opened.aclose()

    said = asyncio.run(beside())
    assert (said.code, said.out) == (0, "")


def test_a_process_that_stands_still_is_found(shell: Shell, store: str, process: Callable[..., Fork]) -> None:
    worker = process("worker", "flow:greet", HOLDFAST_LEASE_S="1")
    while not asyncio.run(described(store)):
        assert worker.poll() is None
    worker.send_signal(signal.SIGSTOP)
    try:
        deadline_s = time.monotonic() + 60
        while not (rows := [row for row in shell("doctor", "--json").data if row["check"] in ("leases", "workers")]):
            assert time.monotonic() < deadline_s
        assert rows[0]["severity"] == "warning"
        assert re.search("^The lease of .* ended|^The process .* was lost", rows[0]["text"]), rows
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()


async def described(store: str) -> bool:
    opened = await open_store(store)
    try:
        return bool(await opened.sessions.described())
    finally:
        await opened.aclose()


def test_a_pool_that_is_used_up_or_was_made_smaller_is_found(shell: Shell, store: str) -> None:
    stage = Stage()
    holder, waiter = (played(stage, name, Demand(pools={"API": amount})) for name, amount in (("holder", 2), ("waiter", 1)))

    async def beside() -> list[str]:
        async with Engine.open(store, workflows=[holder, waiter]) as engine:
            await engine.set_pool("API", slots=2)
            held = await engine.start(holder)
            await stage.seen("holder")
            await engine.set_pool("API", slots=1)
            waits = await engine.start(waiter)
            while not await engine.why(waits.id):
                await asyncio.sleep(0.05)
            said = await asyncio.to_thread(shell, "doctor", "--json")
            await asyncio.to_thread(found, shell, "pools", "warning")
            stage.go.set()
            await held.result()
            return [row["text"] for row in said.data if row["check"] == "pools"]

    lent, waiting = asyncio.run(beside())
    assert lent == "The pool API has lent 2 of 1: it was made smaller while it was in use."
    assert waiting == "1 step or call wait for the pool API, which is used up or closed."


def test_a_schedule_that_missed_its_time_or_has_a_problem_is_found(shell: Shell, store: str) -> None:
    assert shell("schedules", "set", "nightly", "greet", "--cron", "30 2 * * *", "--input", '{"customer": "Ada"}').code == 0
    body = "update records set body = cast(json_set(cast(body as text), '$.{}', json(?)) as blob) where kind = 'schedule'"
    change(body.format("missed"), "3")
    assert found(shell, "schedules", "warning") == "The schedule nightly of default has missed 3 times."
    change(body.format("problem"), '"no such input"')
    assert "could not start its last run: no such input" in found(shell, "schedules", "error")


def test_a_sink_that_is_behind_and_messages_that_were_given_up_are_found(shell: Shell, store: str, home: Path) -> None:
    (home / "holdfast.toml").write_text('[clickhouse]\nurl = "http://127.0.0.1:1"\n')

    async def write() -> None:
        opened = await open_store(store)
        now_ms = opened.clock.now_ms()
        row = await opened.followers.hold("clickhouse", "me", 1_000)
        assert row is not None
        late = msgspec.structs.replace(row, waiting_since_ms=now_ms - 600_000, problem="connection refused", dropped=2)
        assert await opened.followers.move(late)
        await opened.outbox.add([delivery()])
        (claimed,) = await opened.outbox.claim("ops", 1, 60_000)
        assert await opened.outbox.failed(claimed, "ops", "410 Gone", None, disable=True)
        await opened.aclose()

    asyncio.run(write())
    rows = shell("doctor", "--json").data
    said = [row["text"] for row in rows if row["check"] in ("followers", "outbox")]
    assert said[0] == "clickhouse is 10 min behind the runs: connection refused"
    assert "2 events" in said[1]
    assert any("1 message" in each and "were given up" in each for each in said)
    assert any("wants no more messages" in each for each in said)
    assert "wants no more messages" in found(shell, "outbox", "warning")
    assert "connection refused" in found(shell, "followers", "warning")


def test_a_sink_that_the_settings_no_longer_name_is_a_note(shell: Shell, store: str) -> None:
    async def hold(lease_ms: int) -> None:
        opened = await open_store(store)
        row = await opened.followers.hold("clickhouse", "me", lease_ms)
        assert row is not None
        assert await opened.followers.move(msgspec.structs.replace(row, waiting_since_ms=0, problem="connection refused"))
        await opened.aclose()

    async def release() -> None:
        opened = await open_store(store)
        await opened.followers.release("clickhouse", "me")
        await opened.aclose()

    asyncio.run(hold(600_000))  # a process elsewhere has other settings, and feeds it
    assert "connection refused" in found(shell, "followers", "error")
    asyncio.run(release())
    assert found(shell, "followers", "note", code=0) == "clickhouse is no longer in the settings, and no process feeds it."


def test_it_says_why_messages_wait_and_why_they_were_given_up(shell: Shell, store: str) -> None:
    async def write() -> None:
        opened = await open_store(store)
        runs = [f"01890000-0000-7000-8000-00000000000{number}" for number in range(2)]
        await opened.outbox.add([delivery(run) for run in runs])
        first, second = await opened.outbox.claim("ops", 2, 60_000)
        assert await opened.outbox.failed(first, "ops", "no recipient", None, disable=False)
        assert await opened.outbox.failed(second, "ops", "HTTP 503", 2**42, disable=False)
        await opened.aclose()

    asyncio.run(write())
    said = [row["text"] for row in shell("doctor", "--json").data if row["check"] == "outbox"]
    assert "1 message to ops were given up: no recipient" in said
    assert [each.endswith(": HTTP 503") for each in said if "wait, the oldest" in each] == [True]


# --- Providers --------------------------------------------------------------------------------------------------------


@pytest.fixture
def silent() -> Iterator[tuple[str, list[bytes]]]:
    """A server that takes a connection and what is sent, and answers nothing."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            kept = []
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                kept.append(connection)
                heard.append(connection.recv(65_536))

        threading.Thread(target=listen, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", heard


def test_a_provider_that_does_not_answer_is_found_in_time_and_gets_no_key(
    shell: Shell, store: str, silent: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, heard = silent
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-of-a-key")
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    monkeypatch.setattr(facts, "PROVIDER_S", 0.3)
    assert "no answer within" in found(shell, "providers", "error", "--providers")
    assert heard
    assert all(b"canary" not in each and b"uthorization" not in each for each in heard)
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{free_port()}")
    assert "cannot be reached" in found(shell, "providers", "error", "--providers")
    assert shell("doctor").code == 0, "only when it is asked for"


def test_it_works_at_a_server_as_far_as_its_queries_show(
    shell: Shell, store: str, process: Callable[..., Fork], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    worker = process("serve", "flow:greet", "--http", f"127.0.0.1:{port}", "--port", "0")
    monkeypatch.setenv("HOLDFAST_URL", f"http://127.0.0.1:{port}")
    deadline_s = time.monotonic() + 30
    while (said := shell("doctor", "--json")).code != 0:
        assert time.monotonic() < deadline_s, said
        assert worker.poll() is None
    assert json.loads(said.out) == []
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=60)
