"""A place for large payloads that is missing, full, forbidden, damaged or away: what is said, and that nothing is lost."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest

from holdfast import Engine, Workflow, task
from holdfast.core.facts.state import FOLD_VERSION
from holdfast.core.values.ids import RunId
from holdfast.errors import BlobLost, NotFound, RunFailed, StoreError, StoreUnreadable, UsageError
from holdfast.service.control import process
from holdfast.settings import Settings
from holdfast.stores.blobs.bucket import Bucket
from holdfast.stores.blobs.folder import Folder
from holdfast.stores.blobs.layout import part
from holdfast.stores.sqlite import SqliteStore
from holdfast.stores.sqlite.database import MIGRATIONS
from holdfast.testing.object_server import ACCESS_KEY, SECRET_KEY, ObjectRule, ObjectServer
from tests.stores.story import fold

MONTH = "2026-11"
LARGE = "x" * 200_000


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    with ObjectServer(buckets=["payloads"]) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


def flow() -> Workflow:
    wf = Workflow("large")
    wf.node("make")(task(lambda state: {"text": LARGE, "input": state.input}))
    wf.node("read")(task(lambda state: len(state.events["make"].output.text)))
    wf.edge("make", "read")
    return wf


@asynccontextmanager
async def opened(tmp_path: Path, blobs: str, **options: object) -> AsyncIterator[Engine]:
    settings = Settings(blobs=blobs)
    async with Engine.open(tmp_path / "holdfast.db", settings=settings, **options) as engine:  # type: ignore[arg-type]
        yield engine


async def in_table(tmp_path: Path) -> int:
    store = await SqliteStore.connect(tmp_path / "holdfast.db")
    try:
        return int(await store.context.reader.ask(lambda db: db.execute("select count(*) from blobs").get))
    finally:
        await store.aclose()


# --- Going there, and moving ------------------------------------------------------------------------------------------


async def test_large_payloads_go_where_the_setting_says_and_nowhere_else(tmp_path: Path, server: ObjectServer) -> None:
    (tmp_path / "payloads").mkdir()
    for blobs in (f"file://{tmp_path}/payloads", "s3://payloads/some/prefix"):
        async with opened(tmp_path, blobs) as engine:
            assert await (await engine.start(flow(), LARGE, tenant="Acme/1")).result() == len(LARGE)
    files = {file.relative_to(tmp_path / "payloads") for file in (tmp_path / "payloads").rglob("*") if file.is_file()}
    objects = server.objects["payloads"]
    assert len(files) == 2
    assert {f"some/prefix/{file}" for file in files} == set(objects)
    assert all(name.startswith("some/prefix/%41cme%2F1/") for name in objects)
    assert await in_table(tmp_path) == 0


async def test_a_place_that_is_left_behind_is_still_read(tmp_path: Path) -> None:
    (tmp_path / "payloads").mkdir()
    async with opened(tmp_path, "store") as engine:
        run = await engine.start(flow(), LARGE)
        await run.result()
    async with opened(tmp_path, f"file://{tmp_path}/payloads") as engine:
        again = engine.run(run.id)
        output = (await again.state()).steps["make"].output
        assert (await engine.payloads.value(output, "default"))["text"] == LARGE
        assert not list((tmp_path / "payloads").iterdir())


async def test_the_folder_can_be_copied_to_a_bucket(tmp_path: Path, server: ObjectServer) -> None:
    (tmp_path / "payloads").mkdir()
    mine, theirs = Folder.open(tmp_path / "payloads"), Bucket.open("payloads", "", {})
    sha256 = await mine.put("Ä/..", MONTH, b"content")
    for file in (tmp_path / "payloads").rglob("*"):
        if file.is_file():
            server.objects["payloads"][str(file.relative_to(tmp_path / "payloads"))] = file.read_bytes()
    assert await theirs.get("Ä/..", MONTH, sha256) == b"content"


def test_no_two_names_are_one_part_of_a_path() -> None:
    names = ["", ".", "..", "%", "%2E", "a", "A", "/", "a/b", "a" * 200, "a" * 201, "a" * 202, "ä" * 100]
    names += [f"%.{'0' * 64}", part("a" * 201)]
    parts = [part(name) for name in names]
    assert len({each.lower() for each in parts}) == len(names)
    assert all(len(each) <= 255 and "/" not in each and each not in ("", ".", "..") for each in parts)


# --- What is said -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blobs", ["s4://x", "file://payloads", "s3://", "s3://payloads/../other", "nowhere", ""])
async def test_a_setting_that_names_no_place_is_reported_before_anything_is_opened(tmp_path: Path, blobs: str) -> None:
    with pytest.raises(UsageError, match=r"file:///FOLDER or s3://BUCKET/PREFIX.*Nothing was started"):
        async with opened(tmp_path, blobs):
            pass
    assert not (tmp_path / "holdfast.db").exists()


async def test_a_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreadable, match=r"There is no folder .*absent.* Make it, or mount it"):
        async with opened(tmp_path, f"file://{tmp_path}/absent"):
            pass
    assert not (tmp_path / "absent").exists()


async def test_a_folder_that_was_unmounted_is_away_and_not_empty(tmp_path: Path) -> None:
    (tmp_path / "payloads").mkdir()
    place = Folder.open(tmp_path / "payloads")
    sha256 = await place.put("acme", MONTH, b"content")
    (tmp_path / "payloads").rename(tmp_path / "unmounted")
    with pytest.raises(StoreUnreadable, match="mount it"):
        await place.get("acme", MONTH, sha256)
    with pytest.raises(StoreUnreadable, match="mount it"):
        await place.put("acme", MONTH, b"other")
    (tmp_path / "unmounted").rename(tmp_path / "payloads")
    assert await place.get("acme", MONTH, sha256) == b"content"


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "acme").write_text("a file where a folder should be")
    with pytest.raises(StoreUnreadable, match=r"cannot be used: .*see that this process may read and write"):
        await Folder.open(tmp_path).put("acme", MONTH, b"content")


FILL = """
import asyncio, resource, signal, sys
from pathlib import Path
from holdfast.stores.blobs.folder import Folder
from holdfast.errors import StoreFull
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    asyncio.run(Folder.open(Path(sys.argv[1])).put("acme", "2026-11", b"x" * 200_000))
except StoreFull as full:
    print(full.message)
"""


def test_a_folder_without_room_says_so_and_keeps_no_half(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FILL, str(tmp_path)], capture_output=True, text=True, timeout=60, check=True)
    assert f"There is no room left in {tmp_path}" in done.stdout
    assert "make room" in done.stdout
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


async def test_a_payload_is_synced_before_it_is_named_and_its_name_before_put_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "payloads").mkdir()
    place, synced = Folder.open(tmp_path / "payloads"), []
    fsync = os.fsync

    def watched(handle: int) -> None:
        named = len([file for file in tmp_path.rglob("*") if file.is_file() and len(file.name) == 64])
        synced.append((Path(f"/proc/self/fd/{handle}").readlink(), named))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    await place.put("acme", MONTH, b"content")
    (content, named), *folders = synced
    assert content.name.startswith(".unfinished-")
    assert named == 0
    payloads = tmp_path / "payloads"
    assert folders == [(folder, 1) for folder in (payloads / "acme" / MONTH, payloads / "acme", payloads)]


async def test_a_process_killed_while_it_writes_leaves_nothing_that_counts(tmp_path: Path) -> None:
    """The name appears with the whole content, or not at all."""
    code = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom holdfast.stores.blobs.folder import Folder\n"
        "place = Folder.open(Path(sys.argv[1]))\nprint('on', flush=True)\nn = 0\n"
        "while True:\n    asyncio.run(place.put('acme', '2026-11', n.to_bytes(4, 'big') * 500_000)); n += 1\n"
    )
    for _ in range(5):
        victim = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
        assert victim.stdout is not None
        await asyncio.to_thread(victim.stdout.readline)
        await asyncio.sleep(0.03)
        os.kill(victim.pid, signal.SIGKILL)
        victim.wait()
        victim.stdout.close()
    place = Folder.open(tmp_path)
    kept = [file for file in (tmp_path / "acme" / MONTH).iterdir() if not file.name.startswith(".unfinished-")]
    assert kept
    for file in kept:
        assert await place.put("acme", MONTH, await place.get("acme", MONTH, file.name)) == file.name


@pytest.mark.parametrize(
    ("bucket", "change", "told"),
    [
        ("absent", {}, "there is no such bucket"),
        ("payloads", {"AWS_ACCESS_KEY_ID": "AKIASOMEBODYELSE"}, "does not know its access key"),
        ("payloads", {"AWS_SECRET_ACCESS_KEY": "not-the-secret"}, "not the one that belongs to its access key"),
    ],
)
async def test_a_bucket_that_refuses_is_named_with_the_reason_and_no_secret(
    server: ObjectServer, bucket: str, change: dict[str, str], told: str
) -> None:
    place = Bucket.open(bucket, "prefix", change)
    for doing in (lambda: place.put("acme", MONTH, b"content"), lambda: place.get("acme", MONTH, "0" * 64)):
        with pytest.raises(StoreUnreadable, match=told) as refused:
            await doing()
        assert f"the bucket {bucket}/prefix" in str(refused.value)
        assert not any(secret in str(refused.value) for secret in (ACCESS_KEY, SECRET_KEY, *change.values()))
    assert not server.objects["payloads"]


async def test_a_bucket_without_permission_to_write_is_reported(server: ObjectServer) -> None:
    server.script.add(ObjectRule(method="PUT", status=403))
    with pytest.raises(StoreUnreadable, match=r"this process may not; it needs s3:GetObject, s3:PutObject"):
        await Bucket.open("payloads", "", {}).put("acme", MONTH, b"content")


async def test_a_bucket_that_is_busy_for_a_moment_is_asked_again_and_not_for_ever(server: ObjectServer) -> None:
    place = Bucket.open("payloads", "", {})
    server.script.add(ObjectRule(times=2, status=503))
    sha256 = await place.put("acme", MONTH, b"content")
    assert [asked.status for asked in server.asked] == [503, 503, 200]
    server.asked.clear()
    server.script.add(ObjectRule(status=503))
    with pytest.raises(StoreError):
        await place.get("acme", MONTH, sha256)
    assert len(server.asked) == 5


async def test_a_reply_that_is_lost_stores_nothing_twice(server: ObjectServer) -> None:
    place = Bucket.open("payloads", "", {})
    server.script.add(ObjectRule(method="PUT", times=1, drops_reply=True))
    try:
        sha256 = await place.put("acme", MONTH, b"content")
    except StoreError:  # nobody could know: whoever stores does it again
        sha256 = await place.put("acme", MONTH, b"content")
    assert list(server.objects["payloads"]) == [f"acme/{MONTH}/{sha256}"]
    assert await place.get("acme", MONTH, sha256) == b"content"


async def test_the_same_content_is_written_once(server: ObjectServer) -> None:
    place = Bucket.open("payloads", "", {})
    await place.put("acme", MONTH, b"content")
    await place.put("acme", MONTH, b"content")
    assert [asked.status for asked in server.asked] == [200, 412]


async def test_without_tls_nothing_is_sent_unless_it_is_allowed(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    with pytest.raises(StoreUnreadable):
        await Bucket.open("payloads", "", {}).put("acme", MONTH, b"content")
    assert not server.asked


# --- What becomes of runs ---------------------------------------------------------------------------------------------


async def test_a_start_that_cannot_be_stored_is_refused_and_nothing_has_begun(tmp_path: Path, server: ObjectServer) -> None:
    async with opened(tmp_path, "s3://absent") as engine:
        with pytest.raises(StoreUnreadable, match="no such bucket"):
            await engine.start(flow(), LARGE)
        assert await engine.runs() == []
        small = Workflow("small")
        small.node("a")(task(lambda state: 1))
        assert await (await engine.start(small)).result() == 1


async def test_a_step_waits_for_a_place_that_is_away_and_is_not_done_again(tmp_path: Path, server: ObjectServer) -> None:
    made = []
    wf = Workflow("large")
    wf.node("make")(task(lambda state: made.append(1) or LARGE))
    wf.node("read")(task(lambda state: len(state.events["make"].output)))
    wf.edge("make", "read")
    server.script.add(ObjectRule(method="PUT", times=7, status=503))
    async with opened(tmp_path, "s3://payloads") as engine:
        assert await (await engine.start(wf)).result() == len(LARGE)
    assert made == [1]


async def test_a_run_that_waits_for_a_place_says_so_and_why(
    tmp_path: Path, server: ObjectServer, caplog: pytest.LogCaptureFixture
) -> None:
    wf = Workflow("large")
    wf.node("make")(task(lambda state: LARGE))
    server.script.add(ObjectRule(method="PUT", times=1000, status=503))
    async with opened(tmp_path, "s3://payloads") as engine:
        run = await engine.start(wf)
        async with asyncio.timeout(30):
            while not (stalls := await process.stalls(engine.store, RunId(run.id))):
                await asyncio.sleep(0.05)
        assert stalls[0].run == run.id
        assert "503" in stalls[0].reason or "payloads" in stalls[0].reason
        assert f"waits to go on with run {run.id}" in caplog.text
        server.script.clear()
        assert await run.result() == LARGE
        assert "is there again" in caplog.text
        async with asyncio.timeout(10):
            while await process.stalls(engine.store, RunId(run.id)):
                await asyncio.sleep(0.05)


async def test_reading_waits_for_a_place_that_is_away_and_no_step_fails_for_it(
    tmp_path: Path, server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engine.runs.payloads._CACHE_BYTES", 0)
    server.script.add(ObjectRule(method="GET", times=7, status=503))
    async with opened(tmp_path, "s3://payloads") as engine:
        run = await engine.start(flow())
        assert await run.result() == len(LARGE)
        assert (await run.state()).steps["read"].failures == 0


@pytest.mark.parametrize("how", ["damaged", "missing"])
async def test_a_blob_that_is_lost_fails_the_step_that_needs_it_by_name_and_no_other_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("holdfast.engine.runs.payloads._CACHE_BYTES", 0)
    folder = tmp_path / "payloads"
    folder.mkdir()
    wf = Workflow("large")
    wf.node("make")(task(lambda state: LARGE))

    @wf.node("lose")
    @task
    async def lose(state):
        if state.input == "lose":
            for file in folder.rglob("*"):
                if file.is_file():
                    file.unlink() if how == "missing" else file.write_bytes(b"y" * file.stat().st_size)
        return None

    wf.node("read")(task(lambda state: len(state.events["make"].output)))
    wf.edge("make", "lose")
    wf.edge("lose", "read")
    async with opened(tmp_path, f"file://{folder}") as engine:
        bad = await engine.start(wf, "lose")
        with pytest.raises(RunFailed) as failed:
            await bad.result()
        sha256 = (await bad.state()).steps["make"].output.blob
        assert sha256 is not None
        assert sha256 in failed.value.error.message
        assert await (await engine.start(wf, "keep")).result() == len(LARGE)  # stored again, and mended
        if how == "missing":
            with pytest.raises(BlobLost, match="copy what is there"):
                await engine.payloads.value((await bad.state()).steps["make"].output, "nobody")


async def test_credentials_from_the_secrets_file_are_used_and_never_logged(
    tmp_path: Path, server: ObjectServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "secrets"
    file.write_text(f"AWS_ACCESS_KEY_ID={ACCESS_KEY}\nAWS_SECRET_ACCESS_KEY={SECRET_KEY}\n")
    file.chmod(0o600)
    settings = Settings(blobs="s3://payloads", secrets_file=file)
    wf = Workflow("tells")
    wf.node("tell")(task(lambda state: f"{SECRET_KEY} " + LARGE))
    async with Engine.open(tmp_path / "holdfast.db", settings=settings) as engine:
        assert await (await engine.start(wf)).result() == "[secret] " + LARGE
        logging.getLogger("holdfast").warning("the key is %s", SECRET_KEY)
    assert SECRET_KEY not in caplog.text
    assert all(SECRET_KEY.encode() not in content for content in server.objects["payloads"].values())


async def test_a_graph_is_found_without_the_place_of_the_payloads(tmp_path: Path) -> None:
    (tmp_path / "payloads").mkdir()
    async with opened(tmp_path, f"file://{tmp_path}/payloads") as engine:
        run = await engine.start(flow(), "small")
        await run.result()
        hash_ = flow().graph.hash
        assert await engine.runtime.store.graphs.graph(hash_) == flow().graph.encoded
        with pytest.raises(NotFound):
            await engine.runtime.store.blobs.get("", "", hash_)
    assert not list((tmp_path / "payloads").rglob(hash_))


async def test_a_store_from_before_graphs_had_a_table_keeps_them(tmp_path: Path) -> None:
    """Histories from then name no month either."""
    path = tmp_path / "holdfast.db"
    async with opened(tmp_path, "store") as engine:
        run = await engine.start(flow(), LARGE)
        await run.result()
    graph = flow().graph
    store = await SqliteStore.connect(path)

    def back(db: apsw.Connection) -> None:
        first = apsw.Connection(":memory:")
        first.execute(MIGRATIONS[0].sql)
        then = {name for (name,) in first.execute("select name from sqlite_schema where type = 'table'")}
        for (name,) in db.execute("select name from sqlite_schema where type = 'table'").fetchall():
            if name not in then and not name.startswith("shared_words_"):  # which go with the table that they are parts of
                db.execute(f"drop table {name}")
        db.execute("drop index runs_in_doubt")
        db.execute("alter table sessions drop column described")
        db.execute("alter table runs drop column started_by")
        db.execute("alter table events drop column trace_id")
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
            db.execute(f"alter table gates drop column {column}")
        db.execute("insert into blobs (sha256, content) values (?, ?)", (graph.hash, graph.encoded))
        db.execute("insert into blob_homes (sha256, tenant, month) values (?, '', '')", (graph.hash,))
        db.pragma("user_version", 1)

    await store.context.writer.write(back)
    await store.aclose()
    store = await SqliteStore.connect(path)
    try:
        assert await store.graphs.graph(graph.hash) == graph.encoded
        with pytest.raises(NotFound):
            await store.blobs.get("", "", graph.hash)
        output = fold(await store.log.load(RunId(run.id), FOLD_VERSION)).steps["make"].output
        assert output.blob is not None
        assert len(await store.blobs.get("default", "", output.blob)) > len(LARGE)
    finally:
        await store.aclose()
