"""Programs that are built, not drawn, for the tests of those who judge: each has the steps that show one fault, at any seed.

Never here: a judgement; what drawn programs are made of (program).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

import msgspec

from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.syntax.load import load
from holdfast.authoring import node as kinds
from holdfast.authoring.agents.chat import Chat
from holdfast.authoring.workflow import Workflow
from tests.simulation import script
from tests.simulation.approval import Rule
from tests.simulation.file import File, Job
from tests.simulation.program import Op, Program, perform
from tests.simulation.toolbox import TOOLS

NAME: Final = "built"


class Fixed(Random):
    """Chance that always draws the same: this number, and of several things the one at this place."""

    def __init__(self, value: float = 0.0, place: int = 0) -> None:
        super().__init__()
        self._value = value
        self._place = place

    def random(self) -> float:
        return self._value

    def choice(self, seq: Any) -> Any:
        return seq[self._place]


def draws(name: str, fixed: Fixed) -> Callable[[Any], None]:
    """Have everything that is drawn under a name be the same."""

    def arrange(simulation: Any) -> None:
        stream = simulation.chance.stream
        simulation.chance.stream = lambda each: fixed if each == name else stream(each)

    return arrange


class Scenario(msgspec.Struct, frozen=True):
    """A program in its surroundings."""

    program: Callable[[], Program]
    faults: Mapping[str, float] = {}
    """How likely each is at each occasion; what is not named does not happen."""
    processes: int = 2
    arrange: Callable[[Any], None] = lambda _: None
    """Changes what is drawn besides, in the simulation before it begins."""


def program_of(
    *ops: Op,
    cost_limit_usd: float | None = None,
    rules: tuple[Rule, ...] = (),
    retry: int | None = None,
    arrange: Callable[[Workflow], None] = lambda _: None,
) -> Callable[[], Program]:
    """A workflow with one step that does all of this in its order."""

    def make() -> Program:
        workflow = Workflow(NAME, tool_rules=[rule.told for rule in rules])
        workflow.node("work")(kinds.task(_doing(ops), tools=TOOLS, retry=retry))
        arrange(workflow)
        return Program(workflow, None, {"about": NAME}, cost_limit_usd, f"start-{NAME}", rules=rules)

    return make


def program_of_jobs(*jobs: Job) -> Callable[[], Program]:
    """A workflow file with these jobs."""

    def make() -> Program:
        file = File(NAME, jobs, {"about": NAME, "numbers": "[1, 2]", "yes": True}, {"word": "word"})
        workflow = workflow_of(load(file.text, NAME), script.run, file.variables)
        return Program(workflow, None, file.given, None, f"start-{NAME}", file=file)

    return make


def program_of_agent(*ops: Op) -> Callable[[], Program]:
    """A workflow that does nothing, and an agent that does this for each message."""

    def make() -> Program:
        agent = Workflow(f"{NAME} answers", input=Chat)
        agent.node("work")(kinds.task(_doing(ops), tools=TOOLS, retry=3))
        program = program_of()()
        program.agent, program.children = agent, (agent,)
        return program

    return make


def _doing(ops: Sequence[Op]) -> Any:
    async def handler(state: Any, ctx: Any) -> Any:
        return {"step": ctx.step_id, "got": await perform(state, ctx, ops)}

    return handler
