"""The Python reference, written from the code: each public name with its signature and its docstring.

Never here: a sentence about any of them; what is missing is mended where it is declared.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from reference import WRITTEN, cell, sentence, texts_below
from sync_stub import formatted

import holdfast
from holdfast import client, errors, testing
from holdfast.authoring import options
from holdfast.service.control import command

_FIRST: Final = ("Context", "Engine", "Run")
"""The classes that have a section of their own."""
_MADE: Final = {*_FIRST, "Flow"}
"""The classes whose objects Holdfast makes."""
_OPTIONS: Final = {
    "Context": (
        ("model", options.ModelOptions),
        ("agent", options.AgentOptions),
        ("map", options.MapOptions),
        ("child", options.ChildOptions),
    ),
    "Engine": (("start", command.StartOptions),),
}
_SETTINGS: Final = ("model_config",)
"""Assignments in a class that are no fields."""
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
        "Also here: [errors](#errors), [the HTTP client](#the-http-client), [the test kit](#the-test-kit).",
        "",
    ]
    for name in _FIRST:
        lines += [f"## {name}", "", *_class(name, classes[name])]
        for operation, kind in _OPTIONS.get(name, ()):
            lines += [f"#### Options of {name}.{operation}", "", sentence(kind.__doc__), "", *_fields(kind), ""]
    lines += ["## Functions and decorators", ""]
    for name, function in functions.items():
        lines += [f"### {name}", "", *_routine(name, function)]
    lines += ["## Other classes", ""]
    for name in others:
        lines += [f"### {name}", "", *_class(name, classes[name])]
    return formatted("\n".join([*lines, *_errors(problems), *_client(), *_test_kit()]), _PLACE)


def _errors(problems: dict[str, Any]) -> Iterator[str]:
    yield from ("## Errors", "", "[Exceptions](codes.md#exceptions) has those of `holdfast.errors` too.", "")
    yield from ("| error | a kind of | means |", "| --- | --- | --- |")
    yield from (f"| `{name}` | `{each.__base__.__name__}` | {cell(_first(each))} |" for name, each in problems.items())
    yield ""


def _client() -> Iterator[str]:
    yield from ("## The HTTP client", "", "`from holdfast.client import Client, AsyncClient, command, query`", "")
    yield from ("### Client", "", *_class("Client", client.Client))
    yield from ("### AsyncClient", "", sentence(client.AsyncClient.__doc__), "", "Its methods are those of `Client`.", "")
    for title, module in (("Commands", client.command), ("Queries", client.query)):
        yield from (f"### {title}", "", f"| `{module.__name__.rpartition('.')[2]}.` | fields | |", "| --- | --- | --- |")
        for name, kind in vars(module).items():
            if _is(kind, msgspec.Struct) and kind.__module__ == module.__name__:
                fields = ", ".join(f"`{each}`" for each in kind.__struct_fields__)
                yield f"| `{name}` | {fields} | {cell(_first(kind))} |"
        yield ""


def _test_kit() -> Iterator[str]:
    yield from ("## The test kit", "", "`from holdfast.testing import run_node, VirtualTime`", "")
    for name in testing.__all__:
        thing = getattr(testing, name)
        described = _class(name, thing) if inspect.isclass(thing) else _routine(name, thing)
        yield from (f"### testing.{name}", "", *described)


def _class(name: str, kind: type[Any]) -> Iterator[str]:
    """Yield what a class says of itself, its fields and properties, and its methods."""
    if inspect.isfunction(vars(kind).get("__init__")) and not getattr(kind, "_is_protocol", False) and name not in _MADE:
        parameters, _ = _signature(kind)
        yield from _block("def __init__", (["self", *parameters], " -> None"), above=f"class {name}:\n    ")
    yield from (sentence(kind.__doc__), "")
    above = next((each.__name__ for each in kind.__mro__[1:] if each.__name__ in holdfast.__all__), None)
    if above is not None:
        yield from (f"It has all that a {_link(above)} has.", "")
    fields = [*_fields(kind), *_properties(kind)]
    yield from (*fields, "") if fields else ()
    for member, owner in sorted(_members(kind).items()):
        found = inspect.getattr_static(owner, member)
        if inspect.isroutine(found) or isinstance(found, classmethod | staticmethod):
            yield from (f"#### {name}.{member}", "", *_routine(member, getattr(kind, member)))


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
        body = _node(owner).body
        below = texts_below(body)
        for each in body:
            target = (
                each.target if isinstance(each, ast.AnnAssign) else each.targets[0] if isinstance(each, ast.Assign) else None
            )
            if isinstance(target, ast.Name) and not target.id.startswith("_") and target.id not in _SETTINGS:
                meaning = below.get(target.id)
                line = f"- `{' '.join(ast.unparse(each).split())}`{f': {cell(meaning)}' if meaning else ''}"
                found[target.id] = line.replace(r"\|", "|")
    yield from found.values()


def _properties(kind: type[Any]) -> Iterator[str]:
    for name, owner in sorted(_members(kind).items()):
        found = inspect.getattr_static(owner, name)
        if isinstance(found, property):
            returns = inspect.signature(found.fget).return_annotation if found.fget else "Any"
            yield f"- `{name}: {_annotation(returns)}`: {' '.join(sentence(found.__doc__).split())}"


def _routine(name: str, function: Any) -> Iterator[str]:
    is_async = inspect.iscoroutinefunction(inspect.unwrap(function))
    yield from _block(f"{'async ' if is_async else ''}def {name}", _signature(function))
    yield from (sentence(inspect.getdoc(function)), "")


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
    every = [each for each in found.parameters.values() if each.name != "self"]
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


def _parameter(each: inspect.Parameter) -> str:
    star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    said = f"{star}{each.name}" + ("" if each.annotation is each.empty else f": {_annotation(each.annotation)}")
    if each.default is each.empty:
        return said
    default = repr(each.default)
    if len(default) > _LONGEST_DEFAULT or default.startswith("<"):
        default = "..."
    return f"{said} = {default}" if ":" in said else f"{said}={default}"


def _annotation(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    return re.sub(r"\b(?:holdfast|typing|collections)(?:\.\w+)*\.(?=\w)", "", inspect.formatannotation(annotation))


def _first(thing: Any) -> str:
    """Return the first sentence of a docstring."""
    (paragraph, *_) = sentence(thing.__doc__).split("\n\n")
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`(])", " ".join(paragraph.split()))[0]


def _link(name: str) -> str:
    return f"[`{name}`](#{name.lower()})"


def _is(thing: Any, kind: type[Any]) -> bool:
    return inspect.isclass(thing) and issubclass(thing, kind)


@cache
def _module(name: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[name]))


def _node(kind: type[Any]) -> ast.ClassDef:
    return next(
        each for each in ast.walk(_module(kind.__module__)) if isinstance(each, ast.ClassDef) and each.name == kind.__name__
    )
