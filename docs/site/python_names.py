"""The Python reference, written from the code: each public name with its signature, its docstring, its parameters and errors.

A parameter's meaning stands in the docstring, or else in a declaration that has the same parameter (`_sources`). Never here: a
sentence about any of them; what is missing is mended where it is declared.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Final

import msgspec
from docstrings import meanings, node_of, parsed
from reference import WRITTEN, cell, texts_below
from sync_stub import formatted

import holdfast
from holdfast import client, errors, evaluation, http, testing, wire
from holdfast.authoring import options
from holdfast.authoring.node import NodeDefinition
from holdfast.core.views.selection import RunFilter, Selection
from holdfast.service.declarations import command, query

_FIRST: Final = ("Context", "Engine", "Run")
"""The classes that have a section of their own."""
_MADE: Final = {*_FIRST, "Flow", "Tool", "NodeView", "StateView", "Supervisor", "wire.Client", "wire.Job"}
"""The classes whose objects Holdfast makes."""
_OPTIONS: Final[Mapping[str, tuple[Any, ...]]] = {
    "llm_node": (options.AgentOptions,),
    "branch": (options.ModelOptions,),
    "child": (options.ChildOptions,),
    "map_node": (options.MapOptions,),
    "step": (holdfast.tool_node, holdfast.tool),
    "flow": (holdfast.Workflow,),
    "Context.model": (options.ModelOptions,),
    "Context.agent": (options.AgentOptions,),
    "Context.map": (options.MapOptions, holdfast.map_node),
    "Context.child": (options.ChildOptions,),
    "Context.ask": (holdfast.human_gate,),
    "Context.tool": (holdfast.tool_node,),
    "Engine.score": (command.GiveScore,),
    "Engine.resolve_effect": (command.Resolve,),
    "Engine.backfill_schedule": (command.Backfill,),
    "Engine.fork_plan": (command.Fork,),
    "Engine.bulk": (RunFilter, Selection),
    "Engine.runs": (RunFilter, Selection),
}
"""The declarations that give the parameters of an operation their meaning, where its docstring does not."""
_OF_NODES: Final = ("branch", "check", "child", "human_gate", "llm_node", "remote_task", "task", "tool_node")
_SHORTER: Final = {"run_id": "run", "gate_id": "gate"}
"""The names of parameters that a command or query has under another name."""
_COMMON: Final = parsed(NodeDefinition.__doc__).shared
"""The options that every decorator of a node takes."""
_SETTINGS: Final = ("model_config",)
"""Assignments in a class that are no fields."""
_ROOMS: Final[Mapping[str, ModuleType]] = {
    "The HTTP application": http,
    "Evaluation": evaluation,
    "Workers and gRPC": wire,
    "The test kit": testing,
}
"""The packages whose public names the page has, besides those of `holdfast` and of the HTTP client."""
_INTERNAL: Final = {
    "evaluation.Redaction.of",
    "evaluation.TrajectoryCheck.evaluate",
    "evaluation.TrajectoryCheck.get_default_evaluation_name",
    "evaluation.TrajectoryEvaluator.build_serialization_arguments",
    "evaluation.TrajectoryEvaluator.evaluate",
    "evaluation.WorkflowTrajectoryEval.judged",
    "wire.Job.break_off",
    "wire.Job.line",
    "wire.Job.next",
    "wire.Worker.call",
    "wire.Worker.line",
    "wire.Worker.progress",
}
"""Methods without an underscore that only Holdfast and Pydantic Evals call."""
_PLACE: Final = Path(__file__).resolve().parents[1] / "reference" / "python.md"
_LONGEST_DEFAULT: Final = 40


def page() -> str:
    """Return the page: functions, classes, errors, the client, the test kit."""
    public = {name: getattr(holdfast, name) for name in holdfast.__all__}
    problems = {name: thing for name, thing in public.items() if _is(thing, errors.HoldfastError)}
    classes = {name: thing for name, thing in public.items() if inspect.isclass(thing) and name not in problems}
    functions = {name: thing for name, thing in public.items() if name not in classes and name not in problems}
    others = sorted(classes.keys() - {*_FIRST}, key=str.lower)
    lines = [
        "# Python",
        "",
        WRITTEN,
        "",
        "Everything that `from holdfast import …` gives, with its signature. A default `...` is that of the operation.",
        "",
        f"Classes: {', '.join(_link(name) for name in (*_FIRST, *others))}.",
        "",
        f"Functions: {', '.join(_link(name) for name in functions)}.",
        "",
        "Also here: [errors](#errors), [the HTTP client](#the-http-client), [the HTTP application](#the-http-application),"
        " [evaluation](#evaluation), [workers and gRPC](#workers-and-grpc), [the test kit](#the-test-kit).",
        "",
    ]
    for name in _FIRST:
        lines += [f"## {name}", "", *_class(name, classes[name])]
    lines += ["## Functions and decorators", "", "### Options of every node", "", *_entries(_COMMON), ""]
    for name, function in functions.items():
        lines += [f"### {name}", "", *_routine(name, function)]
    lines += ["## Other classes", ""]
    for name in others:
        lines += [f"### {name}", "", *_class(name, classes[name])]
    rooms = (line for title, room in _ROOMS.items() for line in _room(title, room))
    return formatted("\n".join([*lines, *_errors(problems), *_client(), *rooms]), _PLACE)


def _errors(problems: dict[str, Any]) -> Iterator[str]:
    yield from ("## Errors", "", "[Exceptions](codes.md#exceptions) has those of `holdfast.errors` too.", "")
    yield from ("| error | a kind of | means |", "| --- | --- | --- |")
    yield from (f"| `{name}` | `{each.__base__.__name__}` | {cell(_first(each))} |" for name, each in problems.items())
    yield ""


def _client() -> Iterator[str]:
    yield from ("## The HTTP client", "", "`from holdfast.client import Client, AsyncClient, command, query`", "")
    yield from ("### Client", "", *_class("Client", client.Client))
    yield from ("### AsyncClient", "", parsed(client.AsyncClient.__doc__).prose, "", "Its methods are those of `Client`.", "")
    for title, module in (("Commands", client.command), ("Queries", client.query)):
        yield from (f"### {title}", "", f"| `{module.__name__.rpartition('.')[2]}.` | fields | |", "| --- | --- | --- |")
        for name, kind in vars(module).items():
            if _is(kind, msgspec.Struct) and kind.__module__ == module.__name__:
                fields = ", ".join(f"`{each}`" for each in kind.__struct_fields__)
                yield f"| `{name}` | {fields} | {cell(_first(kind))} |"
        yield ""


def _room(title: str, room: ModuleType) -> Iterator[str]:
    """Yield the public names of a package, each by the name of the package and its own."""
    yield from (f"## {title}", "", f"`from {room.__name__} import {', '.join(room.__all__[:2])}`", "")
    for name, thing in _of_room(room).items():
        described = _class(name, thing) if inspect.isclass(thing) else _routine(name, thing)
        yield from (f"### {name}", "", *described)


def _of_room(room: ModuleType) -> dict[str, Any]:
    return {f"{room.__name__.rpartition('.')[2]}.{name}": getattr(room, name) for name in room.__all__}


def _class(name: str, kind: type[Any]) -> Iterator[str]:
    """Yield a class's docstring, its parameters, fields and properties, and its methods."""
    is_made_by_users, about = _is_made_by_users(name, kind), parsed(kind.__doc__)
    if is_made_by_users:
        parameters, _ = _signature(kind)
        yield from _block("def __init__", (["self", *parameters], " -> None"), above=f"class {name.rpartition('.')[2]}:\n    ")
    yield from (about.prose, "")
    above = next((each.__name__ for each in kind.__mro__[1:] if each.__name__ in holdfast.__all__), None)
    if above is not None and not _is(kind, errors.HoldfastError):  # of which the page has no section
        yield from (f"It has all that a {_link(above)} has.", "")
    if is_made_by_users:
        yield from _explained(name, kind, {})
    fields = [*_fields(kind), *_properties(kind)]
    yield from ("Attributes:", "", *fields, "") if fields else ()
    if about.shared:
        yield from (f"#### Parameters of many methods of {name}", "", *_entries(about.shared), "")
    for member, owner in sorted(_members(kind).items()):
        found = inspect.getattr_static(owner, member)
        if f"{name}.{member}" not in _INTERNAL and (inspect.isroutine(found) or isinstance(found, classmethod | staticmethod)):
            yield from (f"#### {name}.{member}", "", *_routine(f"{name}.{member}", getattr(kind, member), about.shared))


def documented() -> Iterator[tuple[str, Any]]:
    """Yield each function and class of the page, and each method and property, by the name that it has there."""
    things = {name: getattr(holdfast, name) for name in holdfast.__all__}
    things["Client"] = client.Client
    for room in _ROOMS.values():
        things |= _of_room(room)
    for name, thing in things.items():
        yield name, thing
        if inspect.isclass(thing):
            for member, owner in _members(thing).items():
                found = inspect.getattr_static(owner, member)
                is_member = inspect.isroutine(found) or isinstance(found, classmethod | staticmethod | property)
                if is_member and f"{name}.{member}" not in _INTERNAL:
                    yield f"{name}.{member}", found if isinstance(found, property) else getattr(thing, member)


def explained() -> Iterator[tuple[str, str | None]]:
    """Yield each parameter and field with its meaning: "" where it has none, None where it is a shared parameter."""
    for name, thing in documented():
        kind, _, _ = name.rpartition(".")
        shared = parsed(getattr(holdfast, kind, None).__doc__).shared if kind else {}
        shared = parsed(client.Client.__doc__).shared if kind == "Client" else shared
        if inspect.isroutine(thing) or _is_made_by_users(name, thing):
            yield from ((f"{name}({each})", text) for each, text in parameters_of(name, thing, shared).items())
        if inspect.isclass(thing) and not _is(thing, errors.HoldfastError):
            lines = [*_fields(thing), *_properties(thing)]
            yield from ((f"{name}: {line}", line.rpartition("`")[2]) for line in lines)


def _is_made_by_users(name: str, kind: Any) -> bool:
    """True if users call the class."""
    is_class = inspect.isclass(kind) and inspect.isfunction(vars(kind).get("__init__"))
    return is_class and not getattr(kind, "_is_protocol", False) and name not in _MADE and not _is(kind, errors.HoldfastError)


def _members(kind: type[Any]) -> dict[str, type[Any]]:
    """Return the public members of a class that Holdfast defines, each with the class that has it."""
    owners = reversed(_owners(kind))
    return {name: owner for owner in owners for name in vars(owner) if not name.startswith("_")}


def _owners(kind: type[Any]) -> list[type[Any]]:
    """Return a class with the classes of Holdfast below it, up to one that has a place of its own on the page."""
    own = itertools.takewhile(lambda each: each is kind or each.__name__ not in holdfast.__all__, kind.__mro__)
    return [each for each in own if each.__module__.startswith("holdfast")]


def _fields(kind: type[Any]) -> Iterator[str]:
    """Yield the fields as the source has them, each with the text below it."""
    found: dict[str, str] = {}
    for owner in reversed(_owners(kind)):
        body = node_of(owner).body
        below = texts_below(body)
        for each in body:
            target = (
                each.target if isinstance(each, ast.AnnAssign) else each.targets[0] if isinstance(each, ast.Assign) else None
            )
            if isinstance(target, ast.Name) and not target.id.startswith("_") and target.id not in _SETTINGS:
                meaning = below.get(target.id) or meanings(kind).get(target.id)
                shown = re.sub(r"^(\w+: )Annotated\[(.*), Meta\(.*?\)\](?= =|$)", r"\1\2", " ".join(ast.unparse(each).split()))
                line = f"- `{shown}`{f': {cell(meaning)}' if meaning else ''}"
                found[target.id] = line.replace(r"\|", "|")
    yield from found.values()


def _properties(kind: type[Any]) -> Iterator[str]:
    for name, owner in sorted(_members(kind).items()):
        found = inspect.getattr_static(owner, name)
        if isinstance(found, property):
            returns = inspect.signature(found.fget).return_annotation if found.fget else "Any"
            yield f"- `{name}: {_annotation(returns)}`: {' '.join(parsed(found.__doc__).prose.split())}"


def _routine(name: str, function: Any, shared: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """Yield a function: its signature, its docstring, its parameters (without a meaning if they are `shared`), its errors."""
    is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
    yield from _block(f"{'async ' if is_async else ''}def {name.rpartition('.')[2]}", _signature(function))
    yield from (parsed(inspect.getdoc(function)).prose, "")
    yield from _explained(name, function, shared)


def _explained(name: str, function: Any, shared: Mapping[str, str]) -> Iterator[str]:
    """Yield the parameters with their meanings, then the errors."""
    about = parsed(inspect.getdoc(function))
    known = parameters_of(name, function, shared)
    if own := {each: meaning for each, meaning in known.items() if meaning}:
        yield from ("Parameters:", "", *_entries(own), "")
    if others := [f"`{each}`" for each, meaning in known.items() if meaning is None]:
        place = "Options of every node" if name in _OF_NODES else f"Parameters of many methods of {name.partition('.')[0]}"
        anchor = place.lower().replace(" ", "-")
        yield from (f"{'Also' if own else 'Parameters:'} {', '.join(others)} ([meaning](#{anchor})).", "")
    if about.errors:
        yield from ("Raises:", "", *_entries(about.errors), "")


def parameters_of(name: str, function: Any, shared: Mapping[str, str]) -> dict[str, str | None]:
    """Return each parameter of a function with its meaning, "" where nothing gives it one, None where it is a shared one."""
    own = parsed(inspect.getdoc(function)).args
    sources = [meanings(each) for each in _sources(name)]
    if name in _OF_NODES:
        shared = _COMMON
    found: dict[str, str | None] = {}
    for each in parameters(function):
        for known in (own, {} if each.name not in shared else None, *sources):
            if known is None:
                found[each.name] = None
                break
            if meaning := known.get(each.name) or known.get(_SHORTER.get(each.name, "")):
                found[each.name] = meaning
                break
        else:
            found[each.name] = ""
    if name in (*_OF_NODES, "flow", "step", "tool"):  # the function itself is given by being decorated
        found.pop("function", None)
    return found


def _sources(name: str) -> Iterator[Any]:
    yield from _OPTIONS.get(name, ())
    kind, _, member = name.rpartition(".")
    if kind in ("Engine", "Client"):
        words = "".join(each.capitalize() for each in member.split("_"))
        yield from (vars(module)[words] for module in (command, query) if words in vars(module))


def _entries(meanings: Mapping[str, str | None]) -> Iterator[str]:
    yield from (f"- `{name}`: {meaning}" for name, meaning in meanings.items())


def _block(head: str, signature: tuple[list[str], str], *, above: str = "") -> list[str]:
    """Return a definition as it stands in a file, in a block that is not run; a method stands in the class `above`."""
    parameters, returns = signature
    line = f"{head}({', '.join(parameters)}){returns}: ..."
    return [f"```python illustrative\n{above}{line}\n```", ""]


def _signature(function: Any) -> tuple[list[str], str]:
    """Return the parameters and what is returned, as they stand in a file."""
    found = inspect.signature(function)
    shown: list[str] = []
    seen_star = False
    every = parameters(function)
    for each, after in itertools.zip_longest(every, every[1:]):
        if each.kind is each.KEYWORD_ONLY and not seen_star:
            shown.append("*")
        seen_star |= each.kind in (each.VAR_POSITIONAL, each.KEYWORD_ONLY)
        shown.append(_parameter(each))
        if each.kind is each.POSITIONAL_ONLY and (after is None or after.kind is not each.POSITIONAL_ONLY):
            shown.append("/")
    is_said = found.return_annotation is not found.empty
    result = re.sub(r"^AsyncIterator(?=\[)", "AbstractAsyncContextManager", _annotation(found.return_annotation))
    return shown, f" -> {result}" if is_said else ""


def parameters(function: Any) -> list[inspect.Parameter]:
    """Return the parameters of a function, those that an unpacked TypedDict gives it by their names."""
    found = []
    for each in inspect.signature(function).parameters.values():
        unpacked = re.fullmatch(r"Unpack\[(\w+)\]", str(each.annotation))
        if unpacked:
            kind = inspect.unwrap(function).__globals__[unpacked[1]]
            found += [
                inspect.Parameter(name, each.KEYWORD_ONLY, default=Ellipsis, annotation=hint.__forward_arg__)
                for name, hint in kind.__annotations__.items()
            ]
        elif each.name != "self":
            found.append(each)
    return found


def _parameter(each: inspect.Parameter) -> str:
    star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    said = f"{star}{each.name}" + ("" if each.annotation is each.empty else f": {_annotation(each.annotation)}")
    if each.default is each.empty:
        return said
    default = "..." if each.default is Ellipsis else repr(each.default)
    if len(default) > _LONGEST_DEFAULT or default.startswith("<"):
        default = "..."
    return f"{said} = {default}" if ":" in said else f"{said}={default}"


def _annotation(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    return re.sub(r"\b(?:holdfast|typing|collections)(?:\.\w+)*\.(?=\w)", "", inspect.formatannotation(annotation))


def _first(thing: Any) -> str:
    """Return the first sentence of a docstring."""
    (paragraph, *_) = parsed(thing.__doc__).prose.split("\n\n")
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`(])", " ".join(paragraph.split()))[0]


def _link(name: str) -> str:
    return f"[`{name}`](#{name.lower()})"


def _is(thing: Any, kind: type[Any]) -> bool:
    return inspect.isclass(thing) and issubclass(thing, kind)
