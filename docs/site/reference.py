"""The reference, written from the program itself: the commands and the settings. (The rest is `lists` and `python_names`.)

Never here: a sentence about any of them; what is missing is mended where it is declared.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

import typer.main
from pydantic import BaseModel

from holdfast import settings
from holdfast.cli import variable
from holdfast.cli.app import GROUPS, app
from holdfast.models import providers
from holdfast.settings import secrets

WRITTEN: Final = "<!-- Written from the code by `make reference`; a test holds it current. -->"
_COMMON: Final = 30
"""An option that so many commands have in the same words stands once on the page."""
Row: TypeAlias = tuple[str, str, str]
"""The flags of a parameter, its meaning, its default."""


def commands() -> str:
    """Return the page of every command: its arguments, its options, an example."""
    every = dict(every_command())
    counts = Counter(_row(each) for command in every.values() for each in shown(command) if each.param_type_name == "option")
    common = [row for row, count in counts.most_common() if count >= _COMMON]
    lines = ["# Commands", "", WRITTEN, "", "Every command takes `--help`.", ""]
    lines += ["## Options of many commands", "", *_options(common)]
    for group, names in GROUPS.items():
        lines += [f"## {group}", ""]
        for path, command in every.items():
            if path[0] in names:
                lines += _command(" ".join(path), command, common)
    return "\n".join(lines)


def _command(words: str, command: Any, common: Sequence[Row]) -> Iterator[str]:
    usage = " ".join(piece for piece in command.collect_usage_pieces(_context(command, words)))
    example = "\n".join(command.epilog.removeprefix("Example:").strip().split("\n\n"))
    yield from (f"### holdfast {words}", "", sentence(command.help), "")
    yield from (f"```text\nholdfast {words} {usage}\n```", "", "For example:", "", f"```text\n{example}\n```", "")
    rows = [_row(each) for each in shown(command)]
    also = [flags for flags, *_ in (row for row in rows if row in common)]
    if own := [row for row in rows if row not in common]:
        yield from _options(own)
    if also:
        yield from (f"{'Also' if own else 'Options:'} {', '.join(also)}.", "")


def _options(rows: Sequence[Row]) -> list[str]:
    lines = [f"| {flags} | {cell(meaning)} | {default} |" for flags, meaning, default in rows]
    return ["| | meaning | default |", "| --- | --- | --- |", *lines, ""]


def _row(parameter: Any) -> Row:
    return _flags(parameter), sentence(getattr(parameter, "help", None)), _default(parameter)


def every_command() -> Iterator[tuple[tuple[str, ...], Any]]:
    """The commands of the application by their words, in the order of `holdfast --help`."""

    def walk(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        if not hasattr(command, "list_commands"):
            yield path, command
            return
        context = _context(command, " ".join(path))
        for name in command.list_commands(context):
            yield from walk((*path, name), command.get_command(context, name))

    yield from walk((), typer.main.get_command(app))


def shown(command: Any) -> list[Any]:
    """The arguments and options of a command that its help shows."""
    return [each for each in command.params if not getattr(each, "hidden", False) and each.name != "help"]


def _context(command: Any, words: str) -> Any:
    return command.make_context(words or "holdfast", [], resilient_parsing=True)


def _flags(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{(parameter.metavar or parameter.name).upper()}`"
    return ", ".join(f"`{flag}`" for flag in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    found = parameter.default
    if parameter.required:
        return "required"
    return "" if found in (None, False, (), []) or callable(found) else f"`{found}`"


def settings_() -> str:
    """Return the page of every setting and variable: its type, its default, its meaning."""
    lines = [
        "# Settings",
        "",
        WRITTEN,
        "",
        "A process reads `holdfast.toml` in its working directory and the environment, once, when it starts. The"
        " environment wins. A table is JSON there.",
        "",
        "| holdfast.toml | environment | type | default | meaning |",
        "| --- | --- | --- | --- | --- |",
    ]
    tables: list[str] = []
    in_file = {*settings.IN_FILE}
    for name, field, meaning in every_setting(settings.Settings):
        model = _model_of(field.annotation)
        key = f"[{name}](#{name})" if model is not None else f"`{name}`"
        default = "" if model is not None else _value(field)
        if model is not None:
            tables += [f"## {name}", "", sentence(inspect.getdoc(model)), "", *_table(model), ""]
        said = cell(meaning or sentence(inspect.getdoc(model)))
        key = key if name in in_file else ""
        is_variable = model is None or isinstance(field.default, dict)
        environment = f"`HOLDFAST_{name.upper()}`" if is_variable else ""
        lines.append(f"| {key} | {environment} | {_type(field)} | {default} | {said} |")
    lines += ["", "## Other variables", "", "| environment | meaning |", "| --- | --- |"]
    lines += [f"| `{name}` | {cell(meaning)} |" for name, meaning in variables().items()]
    return "\n".join([*lines, "", *tables])


def variables() -> dict[str, str]:
    """Return the variables of the environment that are no settings, each with its meaning."""
    ours = {getattr(module, name): text for module in (variable, secrets) for name, text in _constants(module).items()}
    return ours | dict(listed(_constants(providers)["VARIABLES"]))


def _constants(module: Any) -> dict[str, str]:
    """Return the texts below the public constants of a module that are words."""
    texts = texts_below(ast.parse(inspect.getsource(module)).body)
    return {
        name: text for name, text in texts.items() if re.fullmatch("[A-Z][A-Z_]*", name) and _is_name(getattr(module, name))
    }


def _is_name(value: Any) -> bool:
    return isinstance(value, tuple) or re.fullmatch("[A-Z][A-Z_]+", str(value)) is not None


def listed(text: str) -> Iterator[tuple[str, str]]:
    """Yield the items of a list in a docstring: "- `code`: its meaning", over as many lines as it takes."""
    for found in re.finditer(r"^- `(\w+)`: (.+(?:\n  +\S.*)*)", inspect.cleandoc(text), re.MULTILINE):
        yield found[1], " ".join(found[2].split())


def every_setting(model: type[BaseModel]) -> Iterator[tuple[str, Any, str]]:
    """The fields of a settings model with the text that stands below each in its source."""
    meanings = _meanings(model)
    for name, field in model.model_fields.items():
        yield name, field, field.description or meanings.get(name, "")


def _meanings(model: type[BaseModel]) -> dict[str, str]:
    """The strings below the fields; of a model that shares a subject, that of the field is its class's."""
    (source,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(source, ast.ClassDef)
    return texts_below(source.body)


def texts_below(body: Sequence[ast.stmt]) -> dict[str, str]:
    """The texts that stand below assignments, by the names that are assigned to."""
    found = {}
    for named, after in itertools.pairwise(body):
        targets = [named.target] if isinstance(named, ast.AnnAssign) else getattr(named, "targets", [])
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if is_text and targets and isinstance(targets[0], ast.Name):
            found[targets[0].id] = inspect.cleandoc(after.value.value)  # type: ignore[attr-defined]
    return found


def _table(model: type[BaseModel]) -> list[str]:
    rows = [
        f"| `{name}` | {_type(field)} | {_value(field)} | {cell(meaning)} |" for name, field, meaning in every_setting(model)
    ]
    return ["| key | type | default | meaning |", "| --- | --- | --- | --- |", *rows]


def _type(field: Any) -> str:
    """Return the type of a value as TOML names it, with its bounds."""
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    bounds = [
        f"{sign} {getattr(each, name):g}" for each in field.metadata for name, sign in signs.items() if hasattr(each, name)
    ]
    return cell(", ".join([_word(field.annotation), *bounds]))


def _word(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _word(args[0])
    if origin is Literal:
        return " or ".join(f'`"{each}"`' for each in args)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_word(each) for each in args if each is not NoneType))
    if origin in (tuple, list):
        return f"list of {_word(args[0])}s"
    words = {str: "string", int: "integer", float: "number", Decimal: "number", bool: "boolean", Path: "path"}
    return words.get(annotation, "table")


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The model of one entry of a table, or of the table itself."""
    for inner in (annotation, *getattr(annotation, "__args__", ())):
        if inspect.isclass(inner) and issubclass(inner, BaseModel):
            return inner
    return None


def _value(field: Any) -> str:
    """Return a default as TOML writes it."""
    if field.is_required():
        return "required"
    if field.default in (None, {}, ()):
        return ""
    return f"`{json.dumps(field.default, default=str)}`"


def sentence(text: str | None) -> str:
    return inspect.cleandoc(text or "")


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
