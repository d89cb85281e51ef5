"""What the tests of jobs share: a file's text as a run that has ended, and a journal outside that scripts append to.

Never here: a promise.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from holdfast import Workflow
from holdfast.actions import shell
from holdfast.actions.jobs.runner import Shell
from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.syntax.load import load
from holdfast.core.facts.state import State
from holdfast.core.values.ids import is_item
from holdfast.core.views.status import status
from tests.engine.kit import opened


class Done(NamedTuple):
    """A run that has ended or waits, and the outputs of its jobs."""

    status: str
    state: State
    jobs: dict[str, Any]
    output: Any

    @property
    def results(self) -> dict[str, str]:
        return {id_: job["result"] for id_, job in self.jobs.items()}

    @property
    def error(self) -> str:
        assert self.state.error is not None
        return self.state.error.message


def workflow(text: str, name: str = "file", shell: Shell = shell.run) -> Workflow:
    return workflow_of(load(textwrap.dedent(text), name), shell)


async def ran(text: str, store: str, given: Any = None, shell: Shell = shell.run, **options: Any) -> Done:
    """Run the file to its end, or until it needs somebody. `shell` stands in for the machine's; `options` are the
    engine's."""
    made = workflow(text, shell=shell)
    async with opened(store, workflows=[made], **options) as engine:
        state = await (await engine.start(made, given)).settled()
        return await done(engine, state)


async def done(engine: Any, state: State) -> Done:
    jobs = {}
    for name, step in state.steps.items():
        if step.status == "skipped":
            jobs[str(name)] = {"result": "skipped"}
        elif step.status == "completed" and "." not in name and not is_item(name):
            jobs[str(name)] = await engine.payloads.value(step.output, state.tenant)
    output = await engine.output(state) if state.ended == "completed" else None
    return Done(status(state), state, jobs, output)


def world(file: Path) -> list[str]:
    """What scripts have appended to the journal outside."""
    return file.read_text().splitlines() if file.exists() else []
