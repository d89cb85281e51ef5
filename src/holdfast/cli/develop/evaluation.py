"""`holdfast eval`: scenarios are played, recorded runs replayed, and the path of each is held against what was expected of it.

Never here: what a path misses (holdfast.evaluation), reports that were kept (evals).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from holdfast.cli import yaml_file
from holdfast.cli.connect import asking, typed
from holdfast.cli.option import AsJson, Store, Who
from holdfast.cli.page import terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.exit_code import FAILED, OK
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.cli.target import load, load_suite
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.evaluation import WorkflowTrajectoryEval
    from holdfast.evaluation.suite import Suite


class ReportPlace(NamedTuple):
    """The place where the report is kept, as whose and by whom."""

    file: str
    tenant: str
    by: str | None
    store: str | None


def eval(  # noqa: A001 - as it is typed
    file: Annotated[str, typer.Argument(metavar="FILE", help="Scenarios: FILE.yaml, or FILE.py:SUITE for a suite in Python.")],
    keep: Annotated[bool, typer.Option("--keep", help="Save the report in the store, for `holdfast evals`.")] = False,
    tenant: Annotated[str, typer.Option("--tenant", metavar="NAME", help="With --keep: tenant of the report.")] = "default",
    by: Who = None,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Evaluate scenarios or recorded runs.

    A scenario runs on a throwaway store and calls real models and tools. A recorded run is replayed and calls nothing. Exits
    with 1 if fewer pass than the suite requires.
    """
    suite = suite_of(file)
    keeping = ReportPlace(file, tenant, by, store) if keep else None
    found = asyncio.run(_evaluated(suite, load(suite.workflow, to_run=True), keeping))
    passed = sum(each.passed for each in found)
    is_enough = suite.is_met_by(passed, len(found))
    if as_json:
        from msgspec import to_builtins

        scenarios = [{**to_builtins(each), "passed": each.passed, "notes": each.notes} for each in found]
        terminal.emit({"passed": is_enough, "scenarios_passed": passed, "scenarios": scenarios})
    else:
        terminal.show(f"{passed} of {counted(len(found), 'scenario')} passed")
    return OK if is_enough else FAILED


def suite_of(file: str) -> Suite:
    from holdfast.evaluation.suite import MAX_BYTES, read

    if not yaml_file.is_meant(file):
        return load_suite(file)
    try:
        with Path(file).open("rb") as opened:
            return read(opened.read(MAX_BYTES + 1).decode(), file)
    except OSError as problem:
        raise UsageError(f"{file} cannot be read: {problem.strerror}. Nothing was run.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text. Nothing was run.") from None


async def _evaluated(suite: Suite, workflow: Workflow, keep: ReportPlace | None) -> list[WorkflowTrajectoryEval]:
    """Evaluate one after the other, report each as it ends, and then keep them. An unavailable store is reported before
    anything runs, and is closed meanwhile: as long as runs are replayed, the process is offline."""
    from holdfast import settings
    from holdfast.evaluation import judge

    if keep is not None:
        async with asking(keep.store, make=True):
            pass
    found: list[WorkflowTrajectoryEval] = []
    async for each in judge(suite, workflow, settings.load()):
        found.append(each)
        which = f"{each.scenario_id} ({each.run_id})" if each.replayed else each.scenario_id
        terminal.say("\n  ".join((f"{'ok' if each.passed else 'missed'}: {which}", *each.misses)))
    if keep is not None:
        async with asking(keep.store) as engine:
            kept = await engine.keep_evaluation(
                keep.file,
                workflow,
                [each.judged for each in found],
                min_passed=suite.min_passed,
                by=resolve_actor(keep.by).claim,
                tenant=keep.tenant,
            )
        terminal.say(f"Saved as evaluation {kept.id}: {typed('evals', 'show', kept.id, store=keep.store)}")
    return found


EXAMPLES: Final = {"eval": "scenarios.yaml --keep"}
