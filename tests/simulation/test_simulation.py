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
from tests.simulation.simulation import Mode, simulate

SELECTED = 225
MOST = 1500
RARE = {"OutcomeOrphaned", "OperationReused", "EffectDeferred"}
"""Events that so few programs may miss: about one in three thousand sees an orphan, one in a thousand an effect deferred."""


def test_no_program_breaks_a_promise() -> None:
    """Nor is there a kind of event, fault, node, join or fate of a job that none of them has seen: it would prove nothing."""
    report = Report()
    for seed in range(MOST):
        report.add(simulate(seed))
        if report.programs >= SELECTED and _is_rare(report.unseen()):
            break
    assert [(failed.seed, failed.mode, failed.violations) for failed in report.failed] == []
    assert _is_rare(report.unseen())


def _is_rare(unseen: dict[str, list[str]]) -> bool:
    return set(unseen) <= {"events"} and RARE.issuperset(unseen.get("events", ()))


@pytest.mark.parametrize(
    "seed", [
        1567, 1928, 2398, 2417, 2473, 2521, 3001764, 3004300, 4227, 21112, 50796, 61832, 65022, 111029, 112853, 122278, 124312, 204937, 220983, 299149, 5000335,
        7000060, 20876, 39041, 40131, 7100389, 7100612, 8000089, 8001364,
    ],
)  # fmt: skip
def test_what_once_broke_a_promise_keeps_it(seed: int) -> None:
    """A run at its limit that was looked at for ever; a decision refused because it came with a migration; a lookup's
    error that no replay saw; a step whose start nobody here knew of; an outcome lost with the time of its attempt; a part
    of a pool that nobody gave back; a place that was given away while its step began; an effect that other code did again; a
    pool that was held for the dead until a clock came to where another had been, or closed until then; a debt that nobody
    looked at again once it was paid; a part that an heir had no use for, and kept; the refusal of an append that nobody
    had heard when its process was killed, of which asyncio complained; a turn that came while a snapshot was written, so
    that two appends were under way; an effect of which a step waited to hear whose own step had failed, so that nobody looked it
    up; a task that was forgotten, by a clock that had jumped, while somebody had its end to write down; a time
    of a schedule that was missed while another waited, and counted at each look; an agent that gave back a loan in the append of
    its next hold, and was refused it for ever; a person who answered in a tool's place over what the journal had there; an
    approval that was used after its end, by a process whose clock was behind; gates that expired at one moment, of which one
    took back the others, so that nobody looked at their run any more. Or seemed to: a visit that had not begun
    when its run was taken up again, and that came again under its name; new ids that other code gathered, of which no journal tells."""
    assert simulate(seed, made_of="python").violations == []


@pytest.mark.parametrize(
    ("seed", "mode"),
    [
        (223, None),
        (256, None),
        (301012, None),
        (12386, "progress"),
        (49153, "safety"),
        (901698, "safety"),
        (40244, "safety"),
    ],
)
def test_what_a_file_once_broke_it_keeps(seed: int, mode: Mode | None) -> None:
    """The error of a script that was broken off, of which nobody was told but asyncio; a pool's share that a process went on
    using under its next session. Or seemed to: a script that was begun by a process which had stood still, while its run
    had failed elsewhere and been taken up again; a line in which others waited for hours for a script that hung;
    a step that runs once and had not run, whose name another combination took."""
    assert simulate(seed, mode, made_of="file").violations == []


# --- A seed repeats itself --------------------------------------------------------------------------------------------

TELL = (
    "import holdfast, sys\n"
    "from tests.simulation import simulation\n"
    "for module in (holdfast, simulation):\n"
    "    assert module.__file__.startswith(sys.argv[1]), module.__file__\n"
    "for seed in range(300, 312):\n"
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
            "PYTHONPATH": os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])]), "PYTHONHASHSEED": str(number), "HOME": str(place / "home"), "USER": f"user{number}",
            "LOGNAME": f"user{number}", "TMPDIR": str(place / "home" / "tmp"), "TZ": ("UTC", "Asia/Kolkata")[number],
            "LC_ALL": ("C", "C.UTF-8")[number],
        }  # fmt: skip
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
    for seed in (311, 303):
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
        gc.collect()
    assert said == []
