"""The tests, and those of them that have failed once more, each alone: `python -m tests.again RECORD [what pytest takes]`.

A test that fails beside others and passes alone shows a fault all the same, most often of Holdfast. It does not stop a
landing, it is named in RECORD, and it is the next thing to be worked on. Several suites share a record, and its bound.

Never here: a second look at what did not get as far as a test: a collection that fails, a crash of pytest or of a worker.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

import pytest

MOST: Final = 3
"""Tests that may need it. Where there are more, something is broken, or the machine cannot say whether something is."""
HEADING: Final = "passed only when run again"
_FAILED: Final = 1
_PARTS: Final = ("setup", "call", "teardown")
"""What a test consists of; a report of anything else says that a worker crashed over it."""


class Failures:
    """What has failed in a run of pytest, as its plugin."""

    def __init__(self) -> None:
        self.tests: list[str] = []
        self.is_broken = False
        """True if something failed that is no test."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and report.nodeid not in self.tests:
            self.tests.append(report.nodeid)
        self.is_broken |= report.failed and report.when not in _PARTS

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.is_broken |= report.failed


def main(arguments: Sequence[str]) -> int:
    record, *given = arguments
    before = _lines(Path(record))
    failures = Failures()
    code = int(pytest.main(given, plugins=[failures]))
    if code != _FAILED:
        return code
    if failures.is_broken or not failures.tests:
        _say("Not run again: something failed that is no test.")
        return code
    if len(before) + len(failures.tests) > MOST:
        _say(f"Not run again: {len(failures.tests)} tests failed, {len(before)} before; {MOST} may.")
        return code
    _say(f"{len(failures.tests)} failed; each is run again, alone")
    if failed := [test for test in failures.tests if not _passes(test)]:
        _say("failed again:", *failed)
        return code
    with Path(record).open("a") as file:
        file.writelines(f"{test}\n" for test in failures.tests)
    _say(f"{HEADING}:", *before, *failures.tests)
    return 0


def _passes(test: str) -> bool:
    """True if the test, alone in a process, really runs and passes."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-n0", f"--junitxml={report}", test]
        if subprocess.run(command, check=False).returncode != 0:
            return False
        (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    return suite.get("tests") == "1" and suite.get("skipped") == "0"


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def _say(head: str, *lines: str) -> None:
    print(f"again: {head}", *(f"  {line}" for line in lines), sep="\n", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
