"""`holdfast eval`: scenarios are played, recorded runs replayed, and the path of each is held against what was expected of it.

Never here: what a path misses (holdfast.evaluation).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli import terminal, yaml_file
from holdfast.cli.exit_code import FAILED, OK
from holdfast.cli.option import AsJson
from holdfast.cli.target import load, load_suite
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.evaluation import WorkflowTrajectoryEval
    from holdfast.evaluation.suite import Suite


def eval(  # noqa: A001 - as it is typed
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Scenarios in FILE.yaml, or FILE.py:SUITE for a suite made in Python.")
    ],
    as_json: AsJson = False,
) -> int:
    """Play scenarios, each on a throwaway store, or replay recorded runs, and say what their paths miss. Models and tools are
    really called where a scenario is played, and never where a run is replayed.

    Exits with 1 where fewer pass than the suite asks for.
    """
    suite = suite_of(file)
    found = asyncio.run(_judged(suite, load(suite.workflow, to_run=True)))
    passed = sum(each.passed for each in found)
    is_enough = suite.is_met_by(passed, len(found))
    if as_json:
        from msgspec import to_builtins

        scenarios = [{**to_builtins(each), "passed": each.passed, "notes": each.notes} for each in found]
        terminal.emit({"passed": is_enough, "scenarios_passed": passed, "scenarios": scenarios})
    else:
        terminal.show(f"{passed} of {len(found)} scenarios passed")
    return OK if is_enough else FAILED


def suite_of(file: str) -> Suite:
    from holdfast.evaluation.suite import MOST_BYTES, read

    if not yaml_file.is_meant(file):
        return load_suite(file)
    try:
        with Path(file).open("rb") as opened:
            return read(opened.read(MOST_BYTES + 1).decode(), file)
    except OSError as problem:
        raise UsageError(f"{file} cannot be read: {problem.strerror}. Nothing was run.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no UTF-8 text. Nothing was run.") from None


async def _judged(suite: Suite, workflow: Workflow) -> list[WorkflowTrajectoryEval]:
    """One after the other, each told as it ends."""
    from holdfast import settings
    from holdfast.evaluation import judge

    replayed = {scenario.id for scenario in suite.scenarios if scenario.records is not None}
    found: list[WorkflowTrajectoryEval] = []
    async for each in judge(suite, workflow, settings.load()):
        found.append(each)
        which = f"{each.scenario_id} ({each.run_id})" if each.scenario_id in replayed else each.scenario_id
        terminal.say("\n  ".join((f"{'ok' if each.passed else 'missed'}: {which}", *each.misses)))
    return found
