"""The workflow `exec`: a graph of one step, which is a program.

Each run has a workflow of its own, known by a unique name (`seat`), so that no other process which runs a program
takes it up and prints into another terminal. Never here: an engine, how a run is started.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec

from holdfast.actions.program.environment import environment_of
from holdfast.actions.program.foreground import Foreground
from holdfast.actions.program.process import Program, run
from holdfast.authoring.node import NodeDefinition
from holdfast.authoring.values.view import StateView
from holdfast.authoring.workflow import Workflow
from holdfast.core.values.ids import RunId
from holdfast.errors import StepError

NAME: Final = "exec"
STEP: Final = "program"
OUTPUT: Final = "output"
"""The name under which its output is kept."""

CALLS: Final = "calls"
"""The place of its model calls in the journal."""

OnChange: TypeAlias = Literal["stop", "live"]


class KeptLog(Protocol):
    """The stored output of a step."""

    def add(self, line: str) -> None:
        """A line without secrets."""
        ...


class Attempt(Protocol):
    """One try of the step. The engine's StepContext is such an attempt."""

    run_id: RunId

    def redact(self, text: str) -> str: ...

    def kept_log(self, job: str) -> KeptLog: ...

    def program_variables(
        self, name: str, *, on_change: OnChange, on_difference: Callable[[], None] | None = None
    ) -> AbstractAsyncContextManager[Mapping[str, str | None]]:
        """Inside, a program may make model calls: yields the variables that lead it to the gateway, None for those that would
        lead it past. `on_difference` is called when its calls are refused as they differ from the recorded ones. Leaving waits
        for calls under way, and raises what the step has to wait for, or stops for."""
        ...


class Start(msgspec.Struct, frozen=True):
    """The input of a run: the program, and the name of its workflow."""

    command: tuple[str, ...]
    folder: str
    seat: str

    def as_input(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {"command": [*self.command], "folder": self.folder, "seat": self.seat}

    @staticmethod
    def of_input(value: Any) -> Start | None:
        """Return the start that an input describes, None for an input of something else."""
        try:
            return msgspec.convert(value, Start)
        except msgspec.ValidationError:
            return None

    @property
    def program(self) -> Program:
        """Return the program that it starts."""
        return Program(self.command, self.folder)


class ProgramStep:
    """The handler of the step, in the process whose terminal the program has."""

    def __init__(self, program: Program, foreground: Foreground, on_change: OnChange, environment: Mapping[str, str]) -> None:
        self._program = program
        self._foreground = foreground
        self._on_change: OnChange = on_change
        self._environment = environment

    async def run(self, state: StateView, ctx: Attempt) -> dict[str, Any]:
        """Return the program's exit code, 0. Raises StepError for another."""
        on_line: Callable[[str], None] = ctx.kept_log(OUTPUT).add
        differs = asyncio.Event()
        async with ctx.program_variables(CALLS, on_change=self._on_change, on_difference=differs.set) as variables:
            environment = environment_of(self._environment, {"HOLDFAST_RUN": ctx.run_id, **variables})
            end = await run(self._program, environment, self._foreground, differs, redact=ctx.redact, on_line=on_line)
        if end.exit_code != 0:
            raise StepError(f"The program ended with {end}.")
        return {"exit_code": 0}


def workflow_of(
    start: Start, foreground: Foreground, *, on_change: OnChange = "stop", environment: Mapping[str, str] | None = None
) -> Workflow:
    """Return the workflow of the run that begins with `start`. The program has `environment`, by default this process's."""
    variables = dict(os.environ) if environment is None else environment
    step = ProgramStep(start.program, foreground, on_change, variables)
    made = Workflow(NAME)
    made.node(STEP)(
        NodeDefinition(
            step.run,
            "task",
            retry=None,
            timeout_s=None,
            join=None,
            guard=None,
            continue_on_error=False,
            settings={"seat": start.seat},
        )
    )
    return made
