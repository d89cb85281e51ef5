"""The way back: from the graph that a workflow in YAML has left in the store to the workflow, without its file.

All that a file says is in the settings of its nodes, as `identity.plain` wrote it. Never here: whether it may be run.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from holdfast.actions.expressions import Condition, ExpressionError, Template
from holdfast.actions.jobs.decision import is_decider
from holdfast.actions.jobs.identity import ENTRIES
from holdfast.actions.jobs.runner import Shell
from holdfast.actions.jobs.workflow import workflow_of
from holdfast.actions.shell import run
from holdfast.actions.syntax import matrix
from holdfast.actions.syntax.document import (
    AUTO,
    Binding,
    Document,
    Job,
    Limits,
    Output,
    PoolShare,
    Resources,
    Retry,
    Script,
    Step,
    Strategy,
    Variable,
)
from holdfast.actions.syntax.matrix import MatrixError
from holdfast.actions.syntax.mistake import Position
from holdfast.authoring.workflow import Workflow
from holdfast.core.facts.graph import Definition
from holdfast.core.views.step_result import END
from holdfast.errors import InvalidWorkflow

_NOWHERE: Final = Position(0, 0)
"""Where it stood in its file is not part of a workflow."""
_UNREADABLE: Final = (LookupError, TypeError, AttributeError, ExpressionError, MatrixError, InvalidWorkflow)
"""What reading words leads to that another version has written."""

_log = logging.getLogger(__name__)


def restored(definition: Definition, shell: Shell = run) -> Workflow | None:
    """The workflow in YAML that has this definition; None for any other, and for one that this version cannot read.

    The caller compares the hashes: what another version says may mean something else here. `shell` stands in for the
    machine's, where scripts are not to be run.
    """
    *jobs, end = definition.nodes
    jobs = [node for node in jobs if not is_decider(node.name)]  # they follow from the others
    if end.name != END or not all("job" in node.options for node in jobs):
        return None
    try:
        document = Document(definition.name, _variables(end.options), tuple(_job(node.options["job"]) for node in jobs))
        shared = [node.name for node in jobs if not node.options.get("spreads")]
        return workflow_of(document, shell, end.options.get("vars", {}), shared)
    except _UNREADABLE as problem:
        _log.warning(
            "holdfast cannot read workflow %s as it was stored (%s: %s); its runs are left to processes that can.",
            definition.name,
            type(problem).__name__,
            problem,
        )
        return None


def _job(data: dict[str, Any]) -> Job:
    strategy = data.get("strategy")
    return Job(
        at=_NOWHERE,
        id=data["id"],
        name=_text(data.get("name")),
        needs=tuple(data.get("needs", ())),
        condition=_condition(data),
        labels=_texts(data.get("labels", ())),
        strategy=None if strategy is None else _strategy(strategy),
        env=_variables(data),
        timeout_minutes=_value(data["timeout_minutes"]),
        continue_on_error=_value(data["continue_on_error"]),
        steps=tuple(_step(each) for each in data.get("steps", ())),
        outputs=tuple(_output(each) for each in data.get("outputs", ())),
        resources=_resources(data["resources"]),
        retry=Retry(**data["retry"]),
        pools=tuple(_share(each) for each in data.get("pools", ())),
        priority=data.get("priority"),
        limits=Limits(**data["limits"]) if "limits" in data else None,
    )


def _step(data: dict[str, Any]) -> Step:
    bound = data["script"].get("bindings", ())
    return Step(
        at=_NOWHERE,
        id=data.get("id"),
        name=_text(data.get("name")),
        condition=_condition(data),
        # The text has no expressions any more, whatever it looks like.
        script=Script(
            data["script"]["text"], tuple(Binding(each["name"], Template.parse(each["value"]).expressions[0]) for each in bound)
        ),
        shell=data.get("shell"),
        env=_variables(data),
        working_directory=_text(data.get("working_directory")),
        timeout_minutes=_value(data.get("timeout_minutes")),
        continue_on_error=_value(data["continue_on_error"]),
        effect=data["effect"],
    )


def _strategy(data: dict[str, Any]) -> Strategy:
    tree = _tree(data["matrix"])
    combinations = matrix.expand(tree) if matrix.is_known(tree) else None
    return Strategy(_NOWHERE, tree, combinations, _value(data["fail_fast"]), _value(data.get("max_parallel")))


def _output(data: dict[str, Any]) -> Output:
    return Output(_NOWHERE, data["name"], Template.parse(data["value"]), data["storage"])


def _resources(data: dict[str, Any]) -> Resources:
    return Resources(
        cpu_millicores=_value(data["cpu_millicores"]),
        memory_mb=_value(data["memory_mb"]),
        gpus=_value(data["gpus"]),
        tags=_texts(data.get("tags", ())),
    )


def _share(data: dict[str, Any]) -> PoolShare:
    amount = data["amount"]
    return PoolShare(_NOWHERE, data["pool"], AUTO if amount == AUTO else _value(amount))


def _variables(data: dict[str, Any]) -> tuple[Variable, ...]:
    return tuple(Variable(each["name"], Template.parse(each["value"]), _NOWHERE) for each in data.get("env", ()))


def _condition(data: dict[str, Any]) -> Condition:
    asked = data.get("condition")
    return Condition(None) if asked is None else Condition.parse(asked)


def _texts(data: Any) -> tuple[Template, ...]:
    return tuple(Template.parse(each) for each in data)


def _text(data: str | None) -> Template | None:
    return None if data is None else Template.parse(data)


def _value(data: Any) -> Any:
    """A number or a truth value; or the expression that says it."""
    return Template.parse(data) if isinstance(data, str) else data


def _tree(data: Any) -> Any:
    """JSON data, with a template in the place of each text that has an expression in it."""
    if isinstance(data, dict):
        return {key: _tree(value) for key, value in data[ENTRIES]}
    if isinstance(data, list):
        return [_tree(value) for value in data]
    return Template.parse(data) if isinstance(data, str) and "${{" in data else data
