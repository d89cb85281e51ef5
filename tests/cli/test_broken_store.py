"""A store that is read-only, damaged, emptied, taken away or on a full disk, as a person sees it: what, why, what to do."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Shell, spelled
from tests.cli.test_interruption import PATIENCE_S, Start, began

GREET = ("run", "flow:greet", "-i", '{"customer": "Ada"}')


def cut(path: Path) -> None:
    os.truncate(path, 4096)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def filled(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def foreign(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("breaking", "told", "do"),
    [
        (cut, "is damaged", "restore it from a backup"),
        (emptied, "something has emptied the file", "Restore it from a backup; to start with an empty store, remove it"),
        (filled, "not even a SQLite database. It was not touched", "restore it from a backup"),
        (foreign, "is a directory", "name a file in it"),
    ],
)
@pytest.mark.parametrize("words", [GREET, ("runs", "list"), ("worker", "flow:greet", "--until-idle")])
def test_an_unusable_store_is_reported_in_one_paragraph(
    shell: Shell, home: Path, words: tuple[str, ...], breaking: Callable[[Path], None], told: str, do: str
) -> None:
    assert shell(*GREET).code == 0
    path = home / "holdfast.db"
    breaking(path)
    before = path.read_bytes() if path.is_file() else None
    said = shell(*words)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"Error: {path}")
    assert told in said.err
    assert do in said.err
    assert said.err.count("\n") == 1
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize("command", ["run", "worker"])
def test_a_missing_store_is_reported_once_and_its_run_resumes_after_it_returns(
    shell: Shell, process: Start, home: Path, command: str
) -> None:
    run = shell("run", "flow:slow", "--detach").out.strip() if command == "worker" else None
    working = process(command, "flow:slow", STEP_S="30")
    began(home, working)
    files = [home / f"holdfast.db{end}" for end in ("", "-wal", "-shm")]
    for file in files:
        file.rename(f"away-{file.name}")
    _, err = working.communicate(timeout=PATIENCE_S)
    assert working.returncode == 1
    assert err.count("was deleted or replaced while it was in use") == 1
    assert "Traceback" not in err
    assert "move the file back" in err
    assert "No store exists" in shell("runs", "list").err
    for file in files:
        Path(f"away-{file.name}").rename(file)
    assert shell("worker", "flow:slow", "--until-idle").code == 0
    (ended,) = shell("runs", "list", "--json").data
    assert (ended["run_id"], ended["status"]) == (run or ended["run_id"], "completed")


def test_a_disk_without_room_starts_nothing_and_what_was_there_is_read(shell: Shell, home: Path) -> None:
    assert shell("run", "flow:wordy").code == 0
    most = (home / "holdfast.db").stat().st_size
    (home / "large.json").write_text('{"customer": "' + os.urandom(most).hex() + '"}')

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    command = [sys.executable, "-m", "holdfast", *map(spelled, GREET[:2]), "-i", "@large.json"]
    done = subprocess.run(command, preexec_fn=small, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert "There is no room left for" in done.stderr
    assert "what was written before is safe" in done.stderr
    assert "Traceback" not in done.stderr
    (run,) = shell("runs", "list", "--json").data
    assert run["status"] == "completed"
    assert shell("run", "flow:greet", "-i", "@large.json").code == 0
