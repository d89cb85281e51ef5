"""Types: what mypy, strict, and pyright say of users' files. In `typing/` each line that is wrong says so, with an ignore that
the checker must need."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = Path(__file__).parent / "typing"


def test_mypy_finds_each_wrong_line_of_users_files_and_no_other() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=.mypy_cache/user", *_files()]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr


def test_pyright_finds_each_wrong_line_of_users_files_and_no_other(tmp_path: Path) -> None:
    pyright = shutil.which("basedpyright") or shutil.which("pyright")
    if pyright is None:
        pytest.skip("there is no pyright here; `pip install basedpyright` brings one")
    for path in _files():
        shutil.copy(path, tmp_path)  # pyright ignores what is included by an absolute path
    config = {
        "include": ["."],
        "typeCheckingMode": "strict",
        "enableTypeIgnoreComments": True,
        "reportUnnecessaryTypeIgnoreComment": "error",
        "pythonVersion": "3.11",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [pyright, "--project", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr
    assert json.loads(said.stdout)["summary"]["filesAnalyzed"] == len(_files())


def _files() -> list[str]:
    return [str(path) for path in sorted(FILES.glob("*.py"))]
