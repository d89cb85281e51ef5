"""The reference, written from the program itself: the public names, the commands, the settings. (The rest is `lists`.)

Never here: a sentence about any of them; what is missing is mended where it is declared.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import typer.main
from pydantic import BaseModel

import holdfast
from holdfast import settings
from holdfast.cli.app import app


def python() -> str:
    """A page that has mkdocstrings write down every public name."""
    lines = ["# Python", "", "Everything that `from holdfast import …` gives.", ""]
    for name in sorted(holdfast.__all__, key=str.lower):
        thing = getattr(holdfast, name)
        lines.append(f"::: {getattr(thing, '__module__', 'holdfast')}.{getattr(thing, '__qualname__', name)}\n")
    lines += ["# For tests", "", "::: holdfast.testing.node_run.run_node\n", "::: holdfast.testing.node_run.NodeOutcome\n"]
    return "\n".join(lines)


def commands() -> str:
    """Every command with its arguments and options, as the application declares them."""
    lines = ["# Commands", "", "What `holdfast` understands. Every command takes `--help`.", ""]
    for path, command in every_command():
        words = " ".join(path)
        usage = " ".join(piece for piece in command.collect_usage_pieces(_context(command, words)))
        lines += [f"## holdfast {words}", "", sentence(command.help), "", f"```text\nholdfast {words} {usage}\n```", ""]
        lines += ["For example:", "", f"```text\n{command.epilog.removeprefix('Example:').strip()}\n```", ""]
        rows = [(_flags(each), sentence(getattr(each, "help", None)), _default(each)) for each in shown(command)]
        if rows:
            lines += ["| | meaning | default |", "| --- | --- | --- |"]
            lines += [f"| {flags} | {cell(meaning)} | {default} |" for flags, meaning, default in rows] + [""]
    return "\n".join(lines)


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
    """Every setting: its key in holdfast.toml, its environment variable, its default, its meaning."""
    lines = [
        "# Settings",
        "",
        "A process reads `holdfast.toml` in its working directory and the environment, once, when it starts. The"
        " environment wins.",
        "",
        "| holdfast.toml | environment | default | meaning |",
        "| --- | --- | --- | --- |",
    ]
    tables: list[str] = []
    for name, field, meaning in every_setting(settings.Settings):
        key, model = _key(name), _model_of(field.annotation)
        if model is not None:
            tables += [f"## [{key}]", "", sentence(inspect.getdoc(model)), "", *_table(model), ""]
        else:
            lines.append(f"| `{key}` | `HOLDFAST_{name.upper()}` | {_value(field)} | {cell(meaning)} |")
    return "\n".join([*lines, "", *tables])


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
    rows = [f"| `{name}` | {_value(field)} | {cell(meaning)} |" for name, field, meaning in every_setting(model)]
    return ["| key | default | meaning |", "| --- | --- | --- |", *rows]


def _key(name: str) -> str:
    return {"pool_limits": "pools.NAME", "models": "models.NAME", "lanes": "lanes.NAME"}.get(name, name)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The model of one entry of a table, or of the table itself."""
    for inner in (annotation, *getattr(annotation, "__args__", ())):
        if inspect.isclass(inner) and issubclass(inner, BaseModel):
            return inner
    return None


def _value(field: Any) -> str:
    if field.is_required():
        return "required"
    return "" if field.default in (None, {}, ()) else f"`{field.default}`"


def sentence(text: str | None) -> str:
    return inspect.cleandoc(text or "")


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
