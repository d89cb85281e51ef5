"""The public face as text, a line for each thing that somebody may depend on: so that a change of it shows as changed lines.

`make reference` writes the files.

Never here: whether a change is right.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, get_overloads

import msgspec
import typer.main
from pydantic import BaseModel

from holdfast.cli.app import app
from holdfast.http import openapi

HERE: Final = Path(__file__).parent
MODULES: Final = ("holdfast", "holdfast.client", "holdfast.sync", "holdfast.testing", "holdfast.errors", "holdfast.ports")
"""Whose names are public."""
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
_FORWARD: Final = re.compile(r"""ForwardRef\((['"])(.*?)\1\)""")


def python() -> Iterator[str]:
    """Each public name with its signature, and each public member of a class."""
    for module in map(importlib.import_module, MODULES):
        for name in sorted(_names(module)):
            value = getattr(module, name)
            yield from (
                f"{module.__name__}.{name}{_signature(each)}"
                for each in _overloads(getattr(value, "__module__", module.__name__), name) or [value]
            )
            if inspect.isclass(value):
                yield from (f"{module.__name__}.{name}.{member}" for member in _members(value))


def _names(module: Any) -> list[str]:
    """What a module offers; without `__all__`, the classes that it defines."""
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    return getattr(module, "__all__", None) or [name for name in own if not name.startswith("_")]


def _members(kind: type) -> Iterator[str]:
    owners = [each for each in reversed(kind.__mro__) if each.__module__.startswith("holdfast")]
    for name, owner in sorted({name: each for each in owners for name in vars(each) if not name.startswith("_")}.items()):
        value = inspect.getattr_static(kind, name)
        if isinstance(value, property):
            yield f"{name} -> {inspect.signature(value.fget).return_annotation if value.fget else '?'}"
        elif isinstance(value, classmethod | staticmethod) or inspect.isroutine(value):
            forms = _overloads(owner.__module__, f"{owner.__qualname__}.{name}")
            yield from (f"{name}{_signature(each)}" for each in forms or [getattr(kind, name)])
        elif not inspect.ismodule(value):
            yield name


def _overloads(module: str, name: str) -> Sequence[Any]:
    """Those of a function by its name: a protocol keeps none that could be asked."""
    return get_overloads(SimpleNamespace(__module__=module, __qualname__=name))  # type: ignore[arg-type]


def _signature(value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, BaseModel):
        value.model_rebuild()  # it is made whole at its first use, which another test may be
    try:
        return _FORWARD.sub(r"\2", _ADDRESS.sub("", str(inspect.signature(value))))
    except (TypeError, ValueError):
        return ""


def commands() -> Iterator[str]:
    """Each command of the command line with its help, and each of its arguments and options."""
    yield from _commands("holdfast", typer.main.get_command(app))


def _commands(words: str, command: Any) -> Iterator[str]:
    yield f"{words}: {_one_line(command.help)}"
    if command.epilog:
        yield f"{words} {_one_line(command.epilog)}"
    context = command.make_context(words, [], resilient_parsing=True)
    for each in command.params:
        if each.name != "help":
            names = "/".join((*each.opts, *each.secondary_opts)) if each.param_type_name == "option" else each.name.upper()
            kind = "" if each.param_type_name == "option" else " argument"
            facts = {
                "takes": "nothing" if getattr(each, "is_flag", False) else each.metavar,
                "at least": each.min,
                "at most": each.max,
                "default": None if callable(each.default) else each.default,
                "required": each.required,
                "repeats": each.multiple if each.param_type_name == "option" else each.nargs != 1,
                "hidden": getattr(each, "hidden", False),
            }
            told = ", ".join(f"{key} {value}" for key, value in facts.items() if value not in (None, False, "", (), []))
            yield f"{words}{kind} {names} ({told}): {_one_line(getattr(each, 'help', None))}"
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _commands(f"{words} {name}", command.get_command(context, name))


def http() -> Iterator[str]:
    """Each operation of the HTTP API with what it takes and answers, and each field of each schema."""
    described = openapi.document()
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            yield from _operation(f"{method.upper()} {path}", operation)
    for part, named in described["components"].items():
        for name, schema in named.items():
            fields = schema.get("properties")
            rest = {key: value for key, value in schema.items() if key != "properties"}
            yield f"{part} {name} {_json(rest)}"
            yield from (f"{part} {name}.{field} {_json(value)}" for field, value in (fields or {}).items())


def _operation(words: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"{words} {_json({key: operation[key] for key in operation if key not in ('parameters', 'responses')})}"
    yield from (f"{words} takes {_json(each)}" for each in operation.get("parameters", ()))
    yield from (f"{words} answers {status} {_json(each)}" for status, each in operation["responses"].items())


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


FACES: Final = {"python": python, "commands": commands, "http": http}


def write() -> None:
    """Write each face to its file."""
    for name, face in FACES.items():
        (HERE / f"{name}.txt").write_text("\n".join(face()) + "\n")


if __name__ == "__main__":
    write()
