"""Judges a suite: its scenarios are played, its recorded runs replayed, and each path is held against what is expected of it.

Never here: what a path misses (expectation), how a run is played (playing) or replayed (replaying).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.errors import HoldfastError, UsageError
from holdfast.evaluation.expectation import WorkflowTrajectoryEval, evaluate
from holdfast.evaluation.playing import play
from holdfast.evaluation.record import RunRecord
from holdfast.evaluation.recording import load_records
from holdfast.evaluation.replaying import replay
from holdfast.evaluation.suite import Scenario, Suite
from holdfast.settings import Settings


async def judge(
    suite: Suite, workflow: Workflow, settings: Settings | None = None
) -> AsyncGenerator[WorkflowTrajectoryEval, None]:
    """Yield the evaluation of each scenario of a suite, in order; of recorded runs, that of each run.

    A request without a recorded answer is a miss. Files of records are read first.

    Args:
        suite: The scenarios.
        workflow: Their workflow.
        settings: The settings; by default those of no file.

    Raises:
        UsageError: A file or a scenario cannot be used.
    """
    records = _records(suite)
    for scenario in suite.scenarios:
        try:
            if scenario.records is None:
                path = await play(workflow, scenario, settings)
                yield evaluate(path, scenario.expect, scenario.id)
                continue
            async for replayed in replay(records[scenario.id], [workflow], settings=settings):
                found = evaluate(replayed.path, scenario.expect, scenario.id)
                missing = (f"Not in its record: {each.removesuffix('.')}." for each in replayed.missing)
                yield msgspec.structs.replace(found, misses=(*missing, *found.misses), replayed=True)
        except HoldfastError as problem:
            raise UsageError(f"Scenario {scenario.id!r}: {problem}") from problem


def _records(suite: Suite) -> Mapping[str, Sequence[RunRecord]]:
    """The recorded runs by the scenario that they are of. Raises UsageError."""
    files = {each.records: load_records(each.records) for each in suite.scenarios if each.records is not None}
    return {each.id: _records_of(each, files[each.records]) for each in suite.scenarios if each.records is not None}


def _records_of(scenario: Scenario, records: Sequence[RunRecord]) -> Sequence[RunRecord]:
    known = {record.run for record in records}
    if unknown := next((run for run in scenario.runs if run not in known), None):
        raise UsageError(f"Scenario {scenario.id!r}: there is no run {unknown!r:.100} in {scenario.records}. Nothing was run.")
    found = [record for record in records if not scenario.runs or record.run in scenario.runs]
    if not found:
        raise UsageError(f"Scenario {scenario.id!r}: there is no record in {scenario.records}. Nothing was run.")
    return found
