"""The schemas of what may be edited for the next attempt of a dead letter.

Never here: the edit itself (service.control.repair), rows.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.authoring.workflow import Workflow
from holdfast.core.facts.state import State
from holdfast.core.rules.dead_letters import failed_call
from holdfast.core.values.ids import StepId
from holdfast.engine.runs.stored_workflow import StoredWorkflow
from holdfast.errors import Conflict, NotFound

if TYPE_CHECKING:
    from holdfast.service.control.control import Control


class LetterSchemas(NamedTuple):
    """The JSON Schemas of what may be edited for the next attempt of a dead letter; None where nothing is known of it."""

    input: dict[str, Any] | None
    """Of the run's input."""
    arguments: dict[str, Any] | None
    """Of the arguments of the tool call that failed, where the tool's code is here."""


async def schemas_of(control: Control, state: State, letter: StepId) -> LetterSchemas:
    """Return what the input of a dead letter's run and the arguments of its failed call must fit, as far as it is known."""
    code = control.runtime.catalog.workflows.get(state.graph_hash)
    known: Workflow | StoredWorkflow | None = code
    if known is None:
        with contextlib.suppress(NotFound):
            known = await control.workflow(state.workflow, state.version, tenant=state.tenant)
    step, arguments = state.step(letter), None
    if step is not None and code is not None:
        with contextlib.suppress(Conflict):
            tool = control.runtime.catalog.tools_of(state.graph_hash).get(failed_call(step)[1].name)
            arguments = None if tool is None else tool.schema
    return LetterSchemas(None if known is None else known.input_schema, arguments)
