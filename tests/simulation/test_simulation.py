"""Random programs among random faults in virtual time: a selection of those that `make simulate` runs for longer.

Every seed is a promise to itself: what fails here fails again with
`python -m tests.simulation --seed N --mode MODE`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.simulation.loop import SimulatedLoop
from tests.simulation.report import Report
from tests.simulation.simulation import simulate

SELECTED = 100
PARTS = 4
"""Tests among which they are divided, so that no process is still at them when the others have nothing left."""
MAX_MISSED = 75
"""In each part, of the kinds of event, fault, node, join, fate of a job and so on, of which there are some two hundred. What none of
1,500 programs sees `make simulate` fails for."""


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))])
def test_no_program_breaks_a_promise(part: int) -> None:
    """Nor do they miss much of what there is to be seen: they would prove nothing."""
    report = Report()
    for seed in range(part, SELECTED, PARTS):
        report.add(simulate(seed))
    assert [(failed.seed, failed.mode, failed.violations) for failed in report.failed] == []
    missed = [each for missing in report.unseen().values() for each in missing]
    assert len(missed) <= MAX_MISSED, missed


# --- A seed repeats itself --------------------------------------------------------------------------------------------

TELL = (
    "import holdfast, sys\n"
    "from tests.simulation import simulation\n"
    "for module in (holdfast, simulation):\n"
    "    assert module.__file__.startswith(sys.argv[1]), module.__file__\n"
    "for seed in range(300, 304):\n"
    "    told = simulation.simulate(seed)\n"
    "    print(seed, told.history, told.steps, told.status)\n"
)
REPOSITORY = Path(__file__).parents[2]


def test_a_seed_repeats_itself_anywhere(tmp_path: Path) -> None:
    """Neither what was simulated before nor the process, its folder, its user and its surroundings change what a seed does."""
    told = []
    for number, folder in enumerate(("a", "another place/of a much longer näme")):
        place = tmp_path / folder
        (place / "home" / "tmp").mkdir(parents=True)
        (place / "holdfast").symlink_to(REPOSITORY / "src" / "holdfast")
        (place / "tests").symlink_to(REPOSITORY / "tests")
        surroundings = {
            "PYTHONPATH": os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PYTHONHASHSEED": str(number),
            "HOME": str(place / "home"),
            "USER": f"user{number}",
            "LOGNAME": f"user{number}",
            "TMPDIR": str(place / "home" / "tmp"),
            "TZ": ("UTC", "Asia/Kolkata")[number],
            "LC_ALL": ("C", "C.UTF-8")[number],
        }
        told.append(
            subprocess.run(
                [sys.executable, "-c", TELL, str(place)],
                env=os.environ | surroundings,
                cwd=(place, "/")[number],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    assert told[0] == told[1]
    for seed in (303, 301):
        outcome = simulate(seed)
        assert f"{seed} {outcome.history} {outcome.steps} {outcome.status}" in told[0]


def test_nothing_is_said_of_what_a_killed_process_had_not_begun() -> None:
    """That is no fault of the program: a process that is killed has branches that were never begun, and asyncio tells."""
    loop = SimulatedLoop(Random(1))  # type: ignore[abstract]
    process = loop.lane("process")

    async def branch() -> None: ...

    async def in_turn(branch: Coroutine[Any, Any, None]) -> None:
        await branch

    async def step() -> None:
        begun = [asyncio.ensure_future(in_turn(branch())) for _ in range(2)]
        loop.kill(process)
        loop.halt()
        await asyncio.wait(begun)

    loop.spawn(process, step())
    loop.run()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loop.dissolve()
        gc.collect()  # which finds what the tests before have left, too
    assert [told for each in said if "never awaited" in (told := str(each.message)) and "had_not_begun" in told] == []
