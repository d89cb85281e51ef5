"""A mutant: Holdfast with one rule broken on purpose, and the test that is expected to notice.

A patch file says both: comment lines first, of which those that name a test are its killers, then a unified diff. Never
here: choosing what to run when a killer fails to kill (`__main__`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PATCHES: Final = Path(__file__).parent / "patches"

_LEFT_OUT: Final = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "*.db*", "build", "dist", "node_modules")
"""What was compiled comes along: of what a patch touches it no longer fits, and to compile the rest again is most of a hunt."""
LONGEST_S: Final = 600.0
"""What the tests of one mutant get, on a machine that does other things besides."""
_TEST: Final = re.compile(r"`(test_\w+)`")
_TESTS_FAILED: Final = 1
_INTERRUPTED: Final = 2
"""pytest's exit status when tests ran and some failed, or it stopped at the first that did. It is also that of a suite
that cannot be collected: what a mutant makes unimportable has not been noticed by a test."""


class Unusable(Exception):
    """A mutant that says nothing: its patch does not apply, or its tests cannot even be run."""


@dataclass(frozen=True)
class Mutant:
    """`what` is broken in it, in words; `killers` are the tests expected to fail."""

    name: str
    what: str
    killers: tuple[str, ...]
    patch: Path


@dataclass(frozen=True)
class Outcome:
    """How a test run ended. `failed` names the first test that did."""

    killed: bool
    failed: str
    output: str


def all_mutants() -> list[Mutant]:
    return [read(path) for path in sorted(PATCHES.glob("*.patch"))]


def read(path: Path) -> Mutant:
    """Raises Unusable for a patch that names no test."""
    remarks = []
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            break
        remarks.append(line.removeprefix("#").strip())
    killers = tuple(remark for remark in remarks if remark.startswith("tests/"))
    if not killers:
        raise Unusable(f"{path.name}: no line says which test kills it; begin it with `# tests/...::test_...`.")
    what = " ".join(remark for remark in remarks if not remark.startswith("tests/"))
    return Mutant(path.stem, what or path.stem.replace("-", " "), killers, path)


def name_of(test: str) -> str:
    """What a test is called, of `tests/core/test_calls.py::test_it[case]`."""
    return test.rpartition("::")[2].partition("[")[0]


def named_tests(text: str) -> set[str]:
    """The tests that a page names."""
    return set(_TEST.findall(text))


def copy(to: Path) -> Path:
    """A copy of this checkout, with everything that tests read."""
    shutil.copytree(ROOT, to, ignore=_LEFT_OUT)
    return to


def apply(mutant: Mutant, tree: Path) -> None:
    """Break `tree`. Raises Unusable when the code has moved on."""
    # Nothing above the copy is its repository, whatever it lies in.
    env = os.environ | {"GIT_CEILING_DIRECTORIES": str(tree.parent), "GIT_DIR": str(tree / "none")}
    command = ["git", "apply", "-C1", "--recount", str(mutant.patch)]
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
    if done.returncode:
        raise Unusable(f"{mutant.name}: the code has moved on, so the patch no longer applies: {done.stderr.strip()}")


def run(tree: Path, *tests: str, workers: int = 0, longest_s: float = LONGEST_S) -> Outcome:
    """Run `tests` against the code of `tree`. Raises Unusable when they could not be run."""
    return run_command(
        tree,
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        f"-n{workers}",
        "-p",
        "no:cacheprovider",
        "--no-header",
        "--timeout=180",
        *tests,
        longest_s=longest_s,
    )


def run_command(tree: Path, *command: str, longest_s: float = LONGEST_S) -> Outcome:
    """Run a command that ends with 0 when it finds nothing wrong, and with 1 when it does; one that takes longer than
    `longest_s` has found that nothing ends."""
    env = os.environ | {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("PYTEST_XDIST_WORKER", None)
    try:
        done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=longest_s)
    except subprocess.TimeoutExpired:
        return Outcome(True, f"longer than {longest_s:g} s", "")
    output = done.stdout + done.stderr
    failures = [line.split()[1].partition("[")[0] for line in output.splitlines() if line.startswith("FAILED ")]
    if done.returncode not in (0, _TESTS_FAILED) and not (done.returncode == _INTERRUPTED and failures):
        raise Unusable(f"{tree.name}: {' '.join(command[1:])} ended with {done.returncode}:\n{output[-2000:]}")
    return Outcome(done.returncode != 0, failures[0] if failures else "", output)
