"""What lies on the disk is this account's alone, and a secret that others may read is none."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Engine, Workflow, task
from holdfast.errors import UsageError
from holdfast.platform import privacy
from holdfast.service.access.identity import Identity, read_token
from holdfast.settings import Secrets, Settings
from holdfast.testing.journal_file import JournalFile
from holdfast.wire import credential


@pytest.fixture(autouse=True)
def _hides_nothing() -> Iterator[None]:
    """A process that leaves everything open which it does not close itself."""
    before = os.umask(0)
    yield
    os.umask(before)


def opened_to_others(folder: Path) -> list[str]:
    return [
        f"{path.relative_to(folder)} {stat.S_IMODE(path.stat().st_mode):o}"
        for path in sorted(folder.rglob("*"))
        if path.stat().st_mode & 0o077
    ]


def large() -> Workflow:
    wf = Workflow("large")
    wf.node("make")(task(lambda state: "x" * 100_000))
    return wf


async def test_whatever_a_store_makes_is_its_account_s_alone(tmp_path: Path) -> None:
    where = tmp_path / "odd name?#%41.db"
    payloads = tmp_path / "payloads"
    payloads.mkdir(0o700)
    async with Engine.open(where, settings=Settings(blobs=f"file://{payloads}")) as engine:
        await (await engine.start(large())).result()
        names = {path.name.removeprefix(where.name) for path in tmp_path.iterdir()}
        assert {"", "-wal", "-shm", "-locks"} <= names
        assert any(path.is_file() for path in payloads.rglob("*"))
        assert len(list((tmp_path / f"{where.name}-locks").iterdir())) >= 4  # two locks, the mark, a session
        assert opened_to_others(tmp_path) == []
    JournalFile(tmp_path / "journal").close()
    assert opened_to_others(tmp_path) == []


async def test_a_store_that_was_made_open_is_closed_when_it_is_opened_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = tmp_path / "holdfast.db"
    async with Engine.open(where) as kept, Engine.open(where):
        await (await kept.start(large())).result()
        for path in tmp_path.iterdir():
            path.chmod(0o755 if path.is_dir() else 0o644)
        caplog.clear()
        async with Engine.open(where):
            assert opened_to_others(tmp_path) == []
    said = {record.getMessage().partition(" was open to other users")[0] for record in caplog.records}
    assert said == {f"{where}{kind}" for kind in ("", "-wal", "-shm", "-locks")}


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o640, 0o660, 0o602], ids=oct)
def test_a_secret_that_others_may_read_or_write_is_refused_with_the_way_to_close_it(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "secret"
    file.write_text("TOKEN=s3cret-value")
    file.chmod(mode)
    readers = (
        lambda: Secrets(file, {}),
        lambda: read_token(file),
        lambda: credential.server_credentials("127.0.0.1:0", Identity(), credential.Tls(file, file)),
    )
    for read in readers:
        with pytest.raises(UsageError, match=rf"open to other users .*mode {mode:o}.*chmod 600 {file}"):
            read()
    file.chmod(0o400)
    assert Secrets(file, {}).get("TOKEN") == "s3cret-value"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that is root's and read it as another")
def test_root_may_give_a_secret_to_a_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text("s3cret")
    file.chmod(0o440)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # the file is root's, and we are its group
    assert privacy.read_secret(file, "token") == b"s3cret"
    file.chmod(0o444)
    with pytest.raises(UsageError, match="mode 444"):
        privacy.read_secret(file, "token")


def test_a_secret_may_come_through_a_pipe() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"s3cret\n")
    os.close(writing)
    try:
        assert read_token(Path(f"/dev/fd/{reading}")) == "s3cret"
    finally:
        os.close(reading)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes what is another's")
def test_what_root_makes_beside_another_s_store_is_that_other_s(tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 1234)
    os.close(privacy.open_file(tmp_path / "lock"))
    found = (tmp_path / "lock").stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 1234, 0o600)
