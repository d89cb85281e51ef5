"""`holdfast validate FILE.yaml` and `holdfast validate --schema`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Shell

GOOD = """\
name: nightly
jobs:
  fetch:
    runs-on: any
    steps:
      - run: fetch
      - run: check
  report:
    runs-on: any
    needs: fetch
    strategy:
      matrix:
        lang: [de, en]
    steps:
      - run: report --lang ${{ matrix.lang }}
"""

BAD = "on: push\njobs:\n  a:\n    runs-on: any\n    needs: b\n    steps:\n      - uses: x\n"


@pytest.fixture
def nightly(home: Path) -> Path:
    path = home / "nightly.yaml"
    path.write_text(GOOD)
    return path


def test_a_correct_file_is_reported_with_its_jobs(nightly: Path, shell: Shell) -> None:
    said = shell("validate", "nightly.yaml")
    assert (said.code, said.err) == (0, "")
    assert said.out == ("ok: nightly, 2 jobs\n  fetch   2 steps\n  report  1 step, 2 combinations, after fetch\n")
    assert shell("validate", "nightly.yaml", "--json").data == {
        "workflow": "nightly",
        "valid": True,
        "problems": [],
        "mistakes": [],
        "warnings": [],
        "jobs": [{"id": "fetch", "needs": [], "steps": 2}, {"id": "report", "needs": ["fetch"], "steps": 1}],
    }


def test_all_mistakes_are_reported_with_their_places(home: Path, shell: Shell) -> None:
    (home / "bad.yml").write_text(BAD)
    said = shell("validate", "bad.yml")
    assert said.code == 2
    assert [line.partition(" ")[0] for line in said.out.splitlines()] == ["bad.yml:1:1:", "bad.yml:5:12:", "bad.yml:7:9:"]
    assert said.err == "bad.yml cannot be run; 3 errors to fix.\n"
    found = shell("validate", "bad.yml", "--json")
    assert found.code == 2
    assert [(each["line"], each["column"], each["path"]) for each in found.data["mistakes"]] == [
        (1, 1, "on"),
        (5, 12, "jobs.a.needs"),
        (7, 9, "jobs.a.steps[0].uses"),
    ]
    assert not found.data["valid"]
    assert found.data["complete"]
    assert len(found.data["problems"]) == 3


def test_the_schema_is_printed(shell: Shell) -> None:
    said = shell("validate", "--schema")
    assert said.code == 0
    assert json.loads(said.out)["required"] == ["jobs"]


@pytest.mark.parametrize(("content", "told"), [(b"\xff\xfe", "it is not UTF-8 text"), (None, "No such file or directory")])
def test_a_file_that_cannot_be_read_is_one_clear_error(home: Path, shell: Shell, content: bytes | None, told: str) -> None:
    if content is not None:
        (home / "x.yaml").write_bytes(content)
    said = shell("validate", "x.yaml")
    assert (said.code, said.out) == (2, "")
    assert told in said.err
    assert said.err.endswith("Nothing was done.\n")


def test_a_file_that_is_too_large_is_not_read_whole(home: Path, shell: Shell) -> None:
    (home / "x.yaml").write_bytes("é".encode() * 1024 * 1024)
    said = shell("validate", "x.yaml")
    assert said.code == 2
    assert "more than 1,048,576 bytes" in said.out


def test_a_file_may_begin_with_the_mark_of_its_encoding(nightly: Path, shell: Shell) -> None:
    nightly.write_bytes(b"\xef\xbb\xbf" + nightly.read_bytes())
    assert shell("validate", "nightly.yaml").code == 0


def test_what_is_to_be_checked_has_to_be_named(shell: Shell) -> None:
    assert "Name a workflow" in shell("validate").err
    assert shell("validate").code == 2


def test_undeclared_pools_are_warned_of_with_or_without_a_store(home: Path, shell: Shell) -> None:
    (home / "p.yaml").write_text("jobs: {a: {runs-on: any, pools: {API: 1, GPU: 2}, steps: [{run: echo}]}}")
    (home / "p.py").write_text(
        "from holdfast import Demand, Workflow, task\nwf = Workflow('p')\n"
        "wf.node('a', demand=Demand(pools={'API': 1, 'GPU': 2}))(task(lambda state: 1))\n"
    )

    def warned(*more: str) -> list[str]:
        yaml, python = (shell("validate", file, "--json", *more) for file in ("p.yaml", "p.py"))
        assert yaml.data["warnings"] == [each for each in python.data["warnings"] if "pool" in each]
        assert (yaml.code, python.code) == (0, 0)
        return [each.removeprefix("No pool ") for each in yaml.data["warnings"]]

    api, gpu = (f"{name} is declared here: holdfast pools set {name} --slots N" for name in ("API", "GPU"))
    assert warned() == [api, gpu]
    assert {each.name for each in home.iterdir()} <= {"p.yaml", "p.py", "__pycache__"}  # no store was made
    (home / "holdfast.toml").write_text("[pools.API]\nslots = 1\n")
    assert warned() == [gpu]
    assert f"warning: No pool {gpu}" in shell("validate", "p.yaml").out.splitlines()
    assert shell("validate", "p.yaml", "--strict").code == 2
    assert shell("pools", "set", "GPU", "--slots", "2").code == 0
    assert warned() == []
    assert warned("--store", "elsewhere.db") == [f"{gpu} --store elsewhere.db"]
