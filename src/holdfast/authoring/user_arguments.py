"""Arguments of users that must be workflows, decisions or reviewers, with the remedy where they are something else.

Never here: what is done with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final

from holdfast.authoring.flow import FlowMethod
from holdfast.authoring.node import NodeDefinition
from holdfast.authoring.step import EffectStep, Step
from holdfast.authoring.workflow import Workflow
from holdfast.core.facts.graph import EXPIRED, MAX_OF_DECISION
from holdfast.core.people.reviewers import MAX_REVIEWERS
from holdfast.errors import InvalidInput, UsageError

_NOT_ASKED: Final = "The question was not asked."


def workflows_of(value: Any) -> list[Workflow]:
    """Return the workflows of a list. Raises UsageError for what is no list of them."""
    if isinstance(value, Workflow | FlowMethod | str) or not hasattr(value, "__iter__"):
        raise UsageError(f"Give a list: workflows=[...], not {_describe(value)}. Nothing was opened.")
    return [workflow_of(each) for each in value]


def workflow_of(value: Any) -> Workflow:
    """Return a workflow. Raises UsageError for what is none."""
    if isinstance(value, Workflow):
        return value
    raise UsageError(f"{_way_out(value)}: {_describe(value)} is no workflow. Nothing was done.")


def _way_out(value: Any) -> str:
    if isinstance(value, FlowMethod):
        return "Give the flow of an object, as in desk.handle"
    if isinstance(value, Step | EffectStep):
        return "Give the flow that calls the step"
    if isinstance(value, NodeDefinition):
        return "Give the Workflow in which the node is"
    if isinstance(getattr(value, "__wrapped__", None), Workflow):
        return "Put @flow above all other decorators"
    if inspect.iscoroutine(value):
        value.close()  # it is not to be awaited
        return "Give the flow and its input apart, as in start(flow, input)"
    if callable(value):
        return "Put @flow above the function"
    return "Give a flow or a Workflow"


def _describe(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return f"the {type(value).__name__} {name:.200}" if isinstance(name, str) else f"{value!r:.200}"


def decisions_of(value: Any) -> tuple[str, ...]:
    """Return the decisions that a question takes. Raises InvalidInput where no answer could be one of them."""
    if isinstance(value, str) or not isinstance(value, Sequence | set | frozenset) or not value:
        raise InvalidInput(
            f'Name the answers in a list, as in decisions=["approve", "reject"]; not {value!r:.200}. {_NOT_ASKED}'
        )
    found = tuple(value)
    for each in found:
        if not isinstance(each, str) or not each.strip() or len(each) > MAX_OF_DECISION or each == EXPIRED:
            raise InvalidInput(
                f"Make each of the decisions a text of 1 to {MAX_OF_DECISION} characters other than {EXPIRED!r};"
                f" {each!r:.200} is none. {_NOT_ASKED}"
            )
    if twice := [each for number, each in enumerate(found) if each in found[:number]]:
        raise InvalidInput(f"Name each decision once; {twice[0]!r} is named twice. {_NOT_ASKED}")
    return found


def reviewers_of(value: Any) -> tuple[str, ...]:
    """Return the persons and roles whom a question asks. Raises InvalidInput for an empty list: it would ask every user."""
    found = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence | set | frozenset) else (value,)
    if value != () and not found:
        raise InvalidInput(
            f"Name at least one person in reviewers=, or leave it out: without reviewers, any user may decide. {_NOT_ASKED}"
        )
    for each in found:
        if not isinstance(each, str) or not each.strip():
            raise InvalidInput(f"Make each of the reviewers the name of a person or role; {each!r:.200} is none. {_NOT_ASKED}")
    if len(found) > MAX_REVIEWERS:
        raise InvalidInput(f"Name at most {MAX_REVIEWERS} reviewers, or a role; these are {len(found)}. {_NOT_ASKED}")
    return found
