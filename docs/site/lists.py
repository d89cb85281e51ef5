"""The pages of docs/reference, written from the code: here events, modules, statuses and codes.

`make reference` writes them down; a test holds them current. Never here: a sentence about any of them; what is missing is
mended where it is declared.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import python_names
import reference
from docstrings import meanings, parsed
from reference import WRITTEN, cell, listed, sentence, texts_below

import holdfast
from holdfast import errors
from holdfast.authoring import tool
from holdfast.cli.page import exit_code
from holdfast.core.evolve import FOLDS
from holdfast.core.facts import events, graph, state
from holdfast.core.nouns import client_tools
from holdfast.core.people import gates
from holdfast.core.rules import questions
from holdfast.core.values import policies
from holdfast.core.values.payload import Payload
from holdfast.core.views import projection, status
from tests.engine.idioms.table import IDIOMS, VERDICTS

SOURCE = Path(holdfast.__file__).parent
_DOCS = Path(__file__).resolve().parents[1]


def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _module(file: Path) -> tuple[str, tuple[str, ...]]:
    """Return what a module says of itself, and the names that it imports. Its tree is not kept: to look for garbage in those of
    all modules takes twice as long as to make them."""
    tree = _parsed(file)
    return ast.get_docstring(tree) or "", tuple(name for node in ast.walk(tree) for name in _imported(node))


def pages() -> dict[str, str]:
    """The pages of docs/reference by their names."""
    return {
        "codes.md": code_list(),
        "commands.md": reference.commands(),
        "events.md": event_list(),
        "modules.md": module_list(),
        "python.md": python_names.page(),
        "settings.md": reference.settings_(),
    }


_TABLE = re.compile(r"(<!-- Written from [^\n]+ -->\n)(.*?)(<!-- The end of the table. -->)", re.DOTALL)


def with_tables() -> dict[str, str]:
    """The pages of docs/ that have a table which is written, by their names, with the table as it is to be."""
    page = "guide/what-a-flow-may-do.md"
    text = (_DOCS / page).read_text(encoding="utf-8")
    return {page: _TABLE.sub(lambda found: f"{found[1]}\n{idiom_table()}\n\n{found[3]}", text)}


def idiom_table() -> str:
    """Return what comes of each idiom of asyncio in a flow, by verdict; those with the same remark are in one line."""
    lines = []
    for verdict, meaning in VERDICTS.items():
        remarks: dict[str, list[str]] = defaultdict(list)
        for each in IDIOMS:
            if each.verdict == verdict and each.code not in remarks[each.happens]:
                remarks[each.happens].append(each.code)
        lines += ["", f"**{verdict.capitalize()}**: {meaning}.", ""]
        for remark, codes in remarks.items():
            lines += [f"- {'; '.join(codes)}: {remark}"] if remark else [f"- {code}" for code in codes]
    return "\n".join(lines[1:])


def event_list() -> str:
    """Every event: what it means, its fields, which rules write it, and what its fold makes of a step or an operation."""
    source = Path(events.__file__)
    headings = {
        number: found[1]
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines())
        if (found := re.match(r"# --- (.+?) -+$", line))
    }
    line_of = {node.name: node.lineno for node in _parsed(source).body if isinstance(node, ast.ClassDef)}
    writers = _writers()
    lines = [
        "# Events",
        "",
        WRITTEN,
        "",
        "The events of a run, in the order of [`core/facts/events.py`](../../src/holdfast/core/facts/events.py). A field with"
        " `=` is left out at that default. Each event names the modules whose rules write it. It is a fact once its append has"
        " been committed.",
        "",
        "Fields of many events:",
        "",
        *(f"- `{name}`: {meaning}" for name, meaning in parsed(events.Event.__doc__).shared.items()),
        "",
    ]
    for kind in sorted(get_args(events.AnyEvent), key=lambda kind: line_of[kind.__name__]):
        number = line_of[kind.__name__]
        for line in [line for line in sorted(headings) if line < number]:
            lines += [f"## {headings.pop(line)}", ""]
        name = kind.__name__
        lines += [f"### {name}", "", parsed(kind.__doc__).prose, "", *_fields(kind), ""]
        leads = [*_folded(kind), *_projected(kind)]
        lines += [f"Written by {', '.join(f'`{each}`' for each in writers[name])}.{''.join(f' {each}' for each in leads)}", ""]
    return "\n".join(lines)


def _fields(kind: Any) -> Iterator[str]:
    """Yield the fields with a meaning, a line each; the others, which many events have, in one line."""
    known = meanings(kind)
    shown = {field.name: _shown(field) for field in msgspec.structs.fields(kind)}
    yield from (f"- {text}: {known[name]}" for name, text in shown.items() if name in known)
    others = [text for name, text in shown.items() if name not in known]
    if others or not shown:
        yield f"{'- Also' if len(others) < len(shown) else 'Fields:'} {', '.join(others) or 'none'}."


def _shown(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return f"`{field.name}`"
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return f"`{field.name}` = {'payload of null' if isinstance(default, Payload) else msgspec.json.encode(default).decode()}"


def _writers() -> dict[str, list[str]]:
    """Of each event, the modules of core/ whose rules make one."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted((SOURCE / "core").rglob("*.py")):
        tree = _parsed(file)
        called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        names = {each.attr for each in called if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "ev"}
        for name in names | {each.id for each in called if isinstance(each, ast.Name)}:
            found[name].append(file.relative_to(SOURCE).with_suffix("").as_posix())
    return found


def _folded(kind: Any) -> Iterator[str]:
    """What the step that an event is about is after it, where the fold says so in one word."""
    fold = FOLDS[kind]
    moves = [call for call in _calls(fold) if call.func.id in ("visit", "move")]
    words = [arg.value for call in moves for arg in call.args if isinstance(arg, ast.Constant)]
    if len(moves) == len(words) == 1 and "step" in kind.__struct_fields__:
        yield f"The step is `{words[0]}`."


def _projected(kind: Any) -> Iterator[str]:
    """What the row of a gate or of the ledger says after an event, where that is one word."""
    for function in (each for each in vars(projection).values() if inspect.isfunction(each)):
        taken = " | ".join(map(str, inspect.get_annotations(function).values())).replace("ev.", "").split(" | ")
        for call in _calls(function) if kind.__name__ in taken else []:
            thing = {"GateChange": "gate", "EffectChange": "call"}.get(call.func.id)
            if thing and isinstance(call.args[1], ast.Constant):
                yield f"The {thing} is `{call.args[1].value}`."


def _calls(function: Any) -> list[Any]:
    """The calls of plain names in a function's source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]


def module_list() -> str:
    """Every room from the top, with what is never in it and what it imports; and every module in it."""
    lines = [
        "# Modules",
        "",
        WRITTEN,
        "",
        "Each room of [`src/holdfast`](../../src/holdfast) with what it is for, what is never in it and which rooms it imports,"
        " from the top down; then its modules, in their own words.",
        "",
    ]
    arrows = _arrows()
    beneath = {room: set(others) for room, others in arrows.items()}
    for _ in arrows:  # once for each floor that there may be
        beneath = {room: others.union(*(beneath[each] for each in others)) for room, others in beneath.items()}
    alone = sorted(file for file in SOURCE.glob("*.py"))
    for room in sorted(arrows, key=lambda room: (-len(beneath[room]), room)):
        if not (SOURCE / room).is_dir():
            continue
        for folder in [SOURCE / room, *sorted(each.parent for each in (SOURCE / room).rglob("*/__init__.py"))]:
            said = docstring(folder / "__init__.py")
            lines += [f"## {folder.relative_to(SOURCE)}", "", " ".join([_first(said), *_never(said)]), ""]
            if folder == SOURCE / room:
                lines += [f"Imports {', '.join(sorted(arrows[room])) or 'nothing of ours'}.", ""]
            lines += _rows(sorted(file for file in folder.glob("*.py") if file.name != "__init__.py"))
    return "\n".join([*lines, "## On the ground", "", *_rows(alone)])


def _rows(files: list[Path]) -> list[str]:
    if not files:
        return []
    rows = [f"| `{file.stem}` | {cell(_first(docstring(file)))} |" for file in files]
    return ["| module | |", "| --- | --- |", *rows, ""]


def docstring(file: Path) -> str:
    """Return what the module in a file says of itself."""
    return _module(file)[0]


def _first(text: str) -> str:
    """The first sentence."""
    (paragraph, *_) = text.split("\n\n")
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`(])", " ".join(paragraph.split()))[0]


def _never(text: str) -> list[str]:
    """The sentence that says what must never be there."""
    return re.findall(r"Never here: [^.]*(?:\.(?! |$)[^.]*)*\.", " ".join(text.split()))


def _arrows() -> dict[str, set[str]]:
    """Of each room, the rooms that it imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in SOURCE.rglob("*.py"):
        room = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        if room.startswith("__"):
            continue
        found[room] |= set()
        rooms = {name.split(".")[1] for name in _module(file)[1] if name.startswith("holdfast.")}
        found[room] |= {each for each in rooms - {room} if (SOURCE / each).is_dir() or (SOURCE / f"{each}.py").exists()}
    return found


def _imported(node: ast.AST) -> list[str]:
    """Return the names that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def code_list() -> str:
    """Every status, kind, reason, class and exit code, with what stands below it in its source."""
    lines = ["# Statuses and codes", "", WRITTEN, "", "All of them are part of the public surface.", ""]
    for title, (head, rows) in every_code().items():
        lines += [f"## {title}", "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        lines += [f"| `{code}` | {' | '.join(map(cell, cells))} |" for code, *cells in rows] + [""]
    return "\n".join(lines)


@cache
def every_code() -> dict[str, tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """The columns and the rows of each table, by its title."""

    def of_text(text: str | None) -> list[tuple[str, ...]]:
        return [(code, meaning) for code, meaning in listed(text or "")]

    def of_constants(module: Any, *names: str) -> list[tuple[str, ...]]:
        said = _below(module)
        return [(str(getattr(module, name)), said[name]) for name in names or said]

    def below(module: Any, name: str) -> list[tuple[str, ...]]:
        return of_text(_below(module)[name])

    texts = [name for name in _below(policies) if isinstance(getattr(policies, name), str)]
    asked = [name for name in _below(questions) if isinstance(getattr(questions, name), str)]
    exits = [name for name in _below(exit_code) if isinstance(getattr(exit_code, name), int)]
    reasons = [
        *of_constants(gates, "APPROVAL", "QUESTION"),
        *of_constants(state, "TOOL_APPROVAL"),
        *of_constants(client_tools, "CLIENT_TOOL"),
    ]
    reasons += of_constants(questions, *asked)
    family = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, errors.HoldfastError)]
    table = ("code", "means")
    return {
        "Statuses of a run": (table, below(status, "Status")),
        "What a run waits for": (("kind", "reasons"), of_text(inspect.getdoc(status.Wait))),
        "Statuses of a step": (table, below(state, "StepStatus")),
        "Statuses of an operation in a journal": (table, below(state, "OperationStatus")),
        "States in the ledger of effects": (table, of_text(inspect.getdoc(projection.EffectChange))),
        "Effect policies": (("policy", "a lost outcome means"), below(tool, "POLICIES")),
        "Kinds of nodes": (("kind", "what it does"), below(graph, "Kind")),
        "Joins": (("join", "starts when"), below(graph, "JoinMode")),
        "Decisions at a gate": (table, below(graph, "GATE_DECISIONS")),
        "Decisions of a check": (table, below(graph, "CHECK_DECISIONS")),
        "States of a gate": (table, of_text(inspect.getdoc(projection.GateChange))),
        "Reasons of gates": (("code", "what is asked"), [*reasons, *below(questions, "LIMITS")]),
        "Reasons of escalations and of cancellations that follow": (table, of_constants(gates, "DEADLINE", "STALE")),
        "Classes of errors": (
            ("code", "means", "retried"),
            [(code, said, _retried(code)) for code, said in of_constants(policies, *texts)],
        ),
        "Exit codes of the command line": (table, of_constants(exit_code, *exits)),
        "Exceptions": (
            ("class of `holdfast.errors`", "a kind of", "means"),
            [(each.__name__, each.__base__.__name__, sentence(each.__doc__)) for each in family],
        ),
    }


def _retried(code: str) -> str:
    return "yes" if code in policies.TRANSIENT else "never" if code in policies.NEVER_RETRIED else "only with a policy"


def _below(module: Any) -> dict[str, str]:
    """The texts that stand below the constants of a module, by their names."""
    return texts_below(ast.parse(inspect.getsource(module)).body)


if __name__ == "__main__":
    for page, text in with_tables().items():
        (_DOCS / page).write_text(text, encoding="utf-8")
    for page, text in pages().items():
        place = _DOCS / "reference" / page
        place.parent.mkdir(exist_ok=True)
        place.write_text(text.rstrip() + "\n", encoding="utf-8")
