"""Plays a scenario: a real run on a throwaway store, in which people decide as the scenario says.

Models and tools are those of the workflow, and are really called. Never here: judging the path (expectation).
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.compose import Engine
from holdfast.core.facts.state import State
from holdfast.core.values.ids import GateId, node_of
from holdfast.core.views.status import waiting_for
from holdfast.core.views.trajectory import Trajectory
from holdfast.errors import InvalidInput
from holdfast.evaluation.suite import Answer, Scenario, parse_part
from holdfast.settings import Settings

_ASKS: Final = "the scenario"
_PERSON: Final = "the person asked"


async def play(workflow: Workflow, scenario: Scenario | Mapping[str, Any], settings: Settings | None = None) -> Trajectory:
    """Run a scenario on a temporary store, and return its path. The run stops when it has ended, waits for an answer that the
    scenario lacks, or its time is up.

    Args:
        workflow: The workflow.
        scenario: The scenario, also as a mapping like in a file.
        settings: The settings; by default those of no file.

    Raises:
        InvalidInput: The scenario is invalid, or one of recorded runs.
    """
    scenario = parse_part(scenario, Scenario)
    if scenario.records is not None:
        raise InvalidInput(
            f"Scenario {scenario.id!r} is of recorded runs, which are not played; `holdfast eval` and"
            " holdfast.evaluation.judge replay them. Nothing was run."
        )
    left = {gate: deque(answers) for gate, answers in scenario.answers.items()}
    known = (settings or Settings()).model_copy(update={"hold_back": {}})  # no version is held back from its own scenarios
    with tempfile.TemporaryDirectory(prefix="holdfast-eval-") as folder:
        store = Path(folder) / "eval.db"
        async with Engine.open(store, workflows=[workflow], settings=known) as engine:
            run = await engine.start(workflow, scenario.input, cost_limit_usd=scenario.cost_limit_usd, by=_ASKS)
            with contextlib.suppress(TimeoutError):  # how far it has come is reported
                async with asyncio.timeout(scenario.timeout_s):
                    while await _answer_gates(engine, await run.settled(), left):
                        pass
            return await engine.trajectory(run.id)


async def _answer_gates(engine: Engine, state: State, remaining: dict[str, deque[str | Answer]]) -> bool:
    """Answer the open gates, and return True if there were any to answer."""
    asked = [
        (wait.id, remaining[node_of(wait.step)])
        for wait in waiting_for(state)
        if wait.kind == "gate" and wait.id and wait.step is not None and remaining.get(node_of(wait.step))
    ]
    for gate, answers in asked:
        said = answers.popleft()
        answer = Answer(said) if isinstance(said, str) else said
        data = {} if answer.data is msgspec.UNSET else {"data": answer.data}
        roles = state.gates[GateId(gate)].opened.reviewers  # the person who is asked answers
        await engine.decide(gate, answer.decision, by=_PERSON, roles=roles, **data)
    return bool(asked)
