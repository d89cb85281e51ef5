"""What should be thought about before a workflow is run here: it can be run, and may not do what its writer meant.

Never here: what keeps it from being run (core.graph, authoring).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.settings import Settings

_KEYS: Final = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}


def of(workflow: Workflow, known: Settings) -> list[str]:
    """Everything, in words, for a workflow that can be run."""
    return [*workflow.warnings(), *_of_models(workflow, known, os.environ), *_unused(workflow)]


def _of_models(workflow: Workflow, known: Settings, environment: Mapping[str, str]) -> Iterator[str]:
    from holdfast.compose import prices_of
    from holdfast.errors import ModelRefused, UnknownPrice
    from holdfast.models.family import provider_of

    prices = prices_of(known)
    served_by = {name: each.provider for name, each in known.models.items() if each.provider is not None}
    for model, nodes in _models(workflow).items():
        who = f"model {model!r} of {', '.join(map(repr, nodes))}"
        try:
            prices.of(model)
        except UnknownPrice:
            yield f"{who}: its price is not known, so no call of it is made; declare it in holdfast.toml, [models.{model!r}]"
        try:
            key = _KEYS[provider_of(model, served_by)[0]]
        except ModelRefused as problem:
            yield f"{who}: {problem.message}"
        else:
            if not environment.get(key):
                yield f"{who}: {key} is not set here; whoever runs it needs it"


def _models(workflow: Workflow) -> dict[str, list[str]]:
    """The models that nodes name, each with the nodes."""
    found: dict[str, list[str]] = {}
    for name, node in workflow.nodes.items():
        named = [node.settings.get("model"), *node.settings.get("cheaper_models", ())]
        for model in named:
            if isinstance(model, str):
                found.setdefault(model, []).append(name)
    return found


def _unused(workflow: Workflow) -> Iterator[str]:
    """Tools that stand in the modules of the workflow's own functions, and that no workflow there lists."""
    from holdfast.authoring.tool import Tool
    from holdfast.authoring.workflow import Workflow

    modules = {node.handler.__module__ for node in workflow.nodes.values()}
    for module in (sys.modules[name] for name in sorted(modules) if name in sys.modules):
        things = vars(module).values()
        used: set[int] = set()
        for each in (thing for thing in things if isinstance(thing, Workflow)):
            for node in each.nodes.values():
                used |= {id(tool) for tool in (*node.tools.values(), *node.compensations.values())}
        tools = {id(thing): thing for thing in things if isinstance(thing, Tool)}
        for tool in tools.values():
            if id(tool) not in used and tool.function.__module__ == module.__name__:
                yield f"tool {tool.name!r}: no node lists it, so nothing can call it"
