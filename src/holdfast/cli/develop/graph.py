"""`holdfast validate` and `holdfast graph`: what is wrong with a workflow, what should be thought about before it is run
here, and what it looks like.

Never here: running it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import yaml_file
from holdfast.cli.option import AsJson, Store, Target
from holdfast.cli.page import terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.exit_code import OK, USAGE
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.authoring.workflow import Workflow
    from holdfast.core.facts.graph import Definition, Edge
    from holdfast.core.nouns.evaluations import Evaluation
    from holdfast.core.views.trajectory import Trajectory
    from holdfast.settings import Settings


_SHAPES = {
    "task": '["{}"]',
    "llm_node": '(["{}"])',
    "tool_node": '[["{}"]]',
    "remote_task": '>"{}"]',
    "child": '[/"{}"\\]',
    "human_gate": '{{{{"{}"}}}}',
    "branch": '{{"{}"}}',
    "check": '[/"{}"/]',
    "map": '[\\"{}"/]',
}
"""A kind's shape in a Mermaid flowchart."""


_MAX_REVIEWED: Final = 50
"""Runs whose paths a review looks at, the latest."""

_Checked = Annotated[
    str | None, typer.Argument(metavar="FILE", help="Workflow: FILE.yaml, FILE.py:NAME or PACKAGE.MODULE:NAME.")
]
_Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors: exit with 2.")]
_Schema = Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of YAML workflows instead.")]


_Review = Annotated[
    bool,
    typer.Option(
        "--review", help="Print a design report, which answers the sixteen questions of a design review from code and runs."
    ),
]
_Evals = Annotated[
    str | None, typer.Option("--evals", metavar="FILE", help="With --review: scenarios that the workflow must pass.")
]


def validate(
    target: _Checked = None,
    schema: _Schema = False,
    strict: _Strict = False,
    review: _Review = False,
    evals: _Evals = None,
    as_json: AsJson = False,
    store: Store = None,
) -> int:
    """Check a workflow and report every error and warning."""
    if schema:
        return yaml_file.schema()
    if target is None:
        raise UsageError("Name a workflow: FILE.yaml, FILE.py:WORKFLOW or PACKAGE.MODULE:NAME. Nothing was done.")
    if yaml_file.is_meant(target):
        if review:
            raise UsageError("--review needs a workflow in Python. Check a YAML file without it.")
        return yaml_file.validate(target, as_json=as_json, strict=strict, store=store)
    if review:
        return _review(target, evals, as_json=as_json, strict=strict, store=store)
    return _validate_python(target, as_json=as_json, strict=strict, store=store)


def _review(target: str, evals: str | None, *, as_json: bool, strict: bool, store: str | None) -> int:
    import msgspec

    from holdfast.cli.develop.evaluation import suite_of
    from holdfast.cli.target import load
    from holdfast.evaluation.review import review

    workflow = load(target)
    suite = None if evals is None else suite_of(evals)
    paths, kept = asyncio.run(_seen(workflow.name, store))
    found = review(workflow, paths, suite, kept)
    open_ = [each for each in found.findings if each.holds == "no"]
    if as_json:
        terminal.emit(msgspec.to_builtins(found))
    else:
        terminal.show(f"# {found.workflow} {found.version}: design review\n")
        for number, each in enumerate(found.findings, 1):
            terminal.show(f"{number:2}. {each.question} {each.holds}: {each.because}")
        for number, (title, lines) in enumerate(found.report.items(), 1):
            terminal.show(f"\n## {number}. {title}\n")
            for line in lines:
                terminal.show(f"- {line}")
        terminal.say(f"{len(found.findings) - len(open_)} of {len(found.findings)} questions hold.")
    return USAGE if strict and open_ else OK


async def _seen(workflow: str, store: str | None) -> tuple[list[Trajectory], Sequence[Evaluation]]:
    """The paths of the latest runs, and the results of suites, the newest first; where there is a store with any."""
    from holdfast.cli.connect import is_there, located, opened
    from holdfast.engine.runs.version_gate import MAX_COMPARED
    from holdfast.service.control.run_reader import RunReader

    if not is_there(located(store)[0]):
        return [], ()
    async with opened(store) as found:
        runs = RunReader(found)
        rows = await runs.runs(workflow=workflow, limit=_MAX_REVIEWED)
        paths = [await runs.trajectory(row.run) for row in rows]
        return paths, await found.evaluations.listed(None, workflow, None, MAX_COMPARED)


def _validate_python(target: str, *, as_json: bool, strict: bool, store: str | None) -> int:
    from holdfast import settings
    from holdfast.cli.target import load
    from holdfast.cli.yaml_file import undeclared
    from holdfast.errors import InvalidWorkflow

    workflow = load(target)
    problems: tuple[str, ...] = ()
    warnings: list[str] = []
    size = ""
    try:
        size = f"{counted(len(workflow.graph.nodes), 'node')}, {counted(len(workflow.graph.definition.edges), 'edge')}"
        known = settings.load()
        asked = {pool for demand in workflow.graph.demands for pool in demand.pools}
        warnings = [*warnings_of(workflow, known), *asyncio.run(undeclared(asked, known, store))]
    except InvalidWorkflow as invalid:
        problems = invalid.problems
    if as_json:
        terminal.emit(
            {
                "workflow": workflow.name,
                "version": workflow.version,
                "valid": not problems,
                "problems": list(problems),
                "warnings": warnings,
            }
        )
        return USAGE if problems or (strict and warnings) else OK
    for problem in problems:
        terminal.show(f"problem: {problem}")
    for words in warnings:
        terminal.show(f"warning: {words}")
    if problems:
        terminal.say(f"{workflow.name} {workflow.version} cannot be run; {counted(len(problems), 'error')} to fix.")
        return USAGE
    terminal.say(f"{workflow.name} {workflow.version} is valid: {size}.")
    return USAGE if strict and warnings else OK


def graph(target: Target, as_json: AsJson = False) -> None:
    """Print a workflow as a Mermaid flowchart."""
    import msgspec

    from holdfast.cli.target import load

    compiled = load(target).graph
    if as_json:
        terminal.emit({"hash": compiled.hash, **msgspec.to_builtins(compiled.definition)})
    else:
        terminal.show_text(mermaid(compiled.definition))


def mermaid(definition: Definition) -> str:
    """A flowchart: a shape for each kind, and on each edge what it takes to go that way."""
    ids = {node.name: f"n{number}" for number, node in enumerate(definition.nodes, 1)}
    lines = ["flowchart TD"]
    lines += [f"    {ids[node.name]}{_SHAPES[node.kind].format(node.name)}" for node in definition.nodes]
    for edge in definition.edges:
        arrow = "-.->" if edge.on == "error" or edge.optional else "==>" if edge.max_visits is not None else "-->"
        words = ", ".join(_labels(edge))
        label = f'|"{words}"|' if words else ""
        lines.append(f"    {ids[edge.source]} {arrow}{label} {ids[edge.target]}")
    return "\n".join(lines)


def _labels(edge: Edge) -> list[str]:
    found = [
        edge.when,
        f"if {edge.guard}" if edge.guard is not None else None,
        "error" if edge.on == "error" else None,
        "optional" if edge.optional else None,
        f"loop ×{edge.max_visits}" if edge.max_visits is not None else None,
    ]
    return [label for label in found if label is not None]


_KEYS: Final = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}


def warnings_of(workflow: Workflow, settings: Settings) -> list[str]:
    """Everything, in words, for a workflow that can be run."""
    from holdfast.authoring import unknown_children

    return [
        *workflow.warnings(),
        *_of_models(workflow, settings, os.environ),
        *_unused(workflow),
        *unknown_children.warnings(workflow),
    ]


def _of_models(workflow: Workflow, settings: Settings, environment: Mapping[str, str]) -> Iterator[str]:
    from holdfast.compose import prices_of
    from holdfast.errors import ModelRefused, UnknownPrice
    from holdfast.models.family import provider_of

    prices = prices_of(settings)
    served_by = {name: each.provider for name, each in settings.models.items() if each.provider is not None}
    for model, nodes in _models(workflow).items():
        who = f"model {model!r} of {', '.join(map(repr, nodes))}"
        try:
            prices.of(model)
        except UnknownPrice:
            yield f"{who}: its price is unknown, so its calls are refused; declare it in holdfast.toml, [models.{model!r}]"
        try:
            key = _KEYS[provider_of(model, served_by)[0]]
        except ModelRefused as problem:
            yield f"{who}: {problem.message}"
        else:
            if not environment.get(key):
                yield f"{who}: {key} is not set here; the process that runs it needs it"


def _models(workflow: Workflow) -> dict[str, list[str]]:
    """The models that nodes name, each with the nodes."""
    found: dict[str, list[str]] = {}
    for name, made in workflow.nodes.items():
        node = made.each or made
        named = [node.settings.get("model"), *node.settings.get("cheaper_models", ()), node.settings.get("compact_with")]
        for model in named:
            if isinstance(model, str):
                found.setdefault(model, []).append(name)
    return found


def _unused(workflow: Workflow) -> Iterator[str]:
    """Tools that stand in the modules of the workflow's own functions, and that no workflow there lists. A flow need not list
    what it calls as itself."""
    from holdfast.authoring.flow import Flow
    from holdfast.authoring.tool import Tool
    from holdfast.authoring.workflow import Workflow

    modules = {node.handler.__module__ for node in workflow.nodes.values()}
    for module in (sys.modules[name] for name in sorted(modules) if name in sys.modules):
        things = vars(module).values()
        if any(isinstance(thing, Flow) for thing in things):
            continue
        used: set[int] = set()
        for each in (thing for thing in things if isinstance(thing, Workflow)):
            for node in each.nodes.values():
                used |= {id(tool) for tool in (*node.tools.values(), *node.compensations.values())}
        tools = {id(thing): thing for thing in things if isinstance(thing, Tool)}
        for tool in tools.values():
            if id(tool) not in used and tool.function.__module__ == module.__name__:
                yield f"tool {tool.name!r}: no node lists it, so nothing can call it"


EXAMPLES: Final = {"validate": "refund.py:refund --strict", "graph": "refund.py:refund"}
