"""What fails beside others and passes alone does not stop a landing, and is named; everything else does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.again import HEADING, MOST

ROOT = Path(__file__).parents[1]
ALONE = {
    "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    "PYTHONHASHSEED": "0",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-p xdist",
}
"""Its pytest has no plugin but that for several processes, which is soon there."""
PASSES = "def test_that_passes(): pass\n"
FAILS = "def test_that_fails(): assert False\n"
FLICKERS = """
import pathlib, pytest

@pytest.mark.parametrize("case", {cases})
def test_that_flickers(case, request):
    there = pathlib.Path(__file__).with_name(f"{{abs(hash(case))}}.{{case[:3]}}".replace("/", "_"))
    if not there.exists():
        there.touch()
        assert False, "the first time"
"""
NAMED = ["plain", "with a space", "a/b::c[d]"]


def run(folder: Path, text: str, *arguments: str, before: str = "") -> tuple[int, str, list[str]]:
    """The exit status of the run of a suite of this text in a process beside it, what was printed, and the record after it."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(text)
    record = folder / "record"
    if before:
        record.write_text(before)
    ended = subprocess.run(
        [sys.executable, "-m", "tests.again", str(record), "-n1", *arguments],
        cwd=folder,
        env=os.environ | ALONE,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ended.returncode, ended.stdout, record.read_text().splitlines() if record.exists() else []


def flickers(cases: list[str]) -> str:
    return FLICKERS.format(cases=cases)


def test_a_suite_that_passes_is_run_once(tmp_path: Path) -> None:
    code, said, record = run(tmp_path, PASSES)
    assert (code, record) == (0, [])
    assert "again:" not in said


def test_what_passes_alone_is_named_and_stops_nothing(tmp_path: Path) -> None:
    code, said, record = run(tmp_path, PASSES + flickers(NAMED))
    assert code == 0, said
    assert sorted(record) == sorted(f"test_it.py::test_that_flickers[{case}]" for case in NAMED)
    heading, *named = said.rpartition("again: ")[2].splitlines()
    assert heading == f"{HEADING}:"
    assert sorted(named) == [f"  {each}" for each in sorted(record)]


def test_what_fails_again_fails(tmp_path: Path) -> None:
    code, said, record = run(tmp_path, FAILS + flickers(["a"]))
    assert (code, record) == (1, [])
    assert said.endswith("again: failed again:\n  test_it.py::test_that_fails\n")
    assert HEADING not in said


@pytest.mark.parametrize("before", ["", "of the suite before\n"])
def test_more_than_a_few_are_not_run_again(tmp_path: Path, before: str) -> None:
    """The suites that share a record share its bound."""
    cases = [f"case {number}" for number in range(MOST + (not before))]
    code, said, record = run(tmp_path, flickers(cases), before=before)
    assert (code, record) == (1, before.splitlines())
    assert f"Not run again: {len(cases)} tests failed" in said


DIES = "import os, pathlib\ndef test_that_dies():\n    there = pathlib.Path(__file__).with_name('there')\n"
DIES += "    if not there.exists():\n        there.touch()\n        os._exit(1)\n"
SKIPS = "import pathlib, pytest\ndef test_that_skips():\n    there = pathlib.Path(__file__).with_name('there')\n"
SKIPS += "    if there.exists(): pytest.skip('not alone')\n    there.touch()\n    assert False\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import nothing_of_this_name\n", id="a module that cannot be imported"),
        pytest.param(DIES, id="a worker that dies"),
        pytest.param(SKIPS, id="a test that is skipped the second time"),
        pytest.param("", id="no test at all"),
    ],
)
def test_what_never_was_a_test_that_passed_fails(tmp_path: Path, text: str) -> None:
    code, said, record = run(tmp_path, text)
    assert code != 0, said
    assert record == []


def test_a_fixture_that_fails_is_its_test_s(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.fixture\ndef broken(): raise ValueError\ndef test_it(broken): pass\n"
    code, said, _ = run(tmp_path, text)
    assert code == 1
    assert "failed again:\n  test_it.py::test_it" in said


def test_words_that_pytest_does_not_know_fail(tmp_path: Path) -> None:
    code, _, _ = run(tmp_path, PASSES, "--no-such-option")
    assert code == 4
