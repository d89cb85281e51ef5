"""The reference is written from the program: so every name, option, setting and code of the program says what it means."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

import docstrings
import lists
import pytest
import python_names
import reference
from rich.text import Text

import holdfast
from holdfast import errors, settings
from holdfast.authoring import tool
from holdfast.core.facts import events, graph, state
from holdfast.core.nouns import client_tools
from holdfast.core.people import gates
from holdfast.core.rules import questions
from holdfast.core.values import policies
from holdfast.core.views import projection, status

_DOCS = Path(__file__).resolve().parents[2] / "docs"


COMMANDS = dict(reference.every_command())
PYTHON = python_names.page()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_option_says_what_it_means(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help, f"holdfast {' '.join(path)} has no help"
    silent = [each.name for each in reference.shown(command) if not getattr(each, "help", None)]
    assert silent == [], f"holdfast {' '.join(path)}"
    texts = [command.help, *(each.help for each in reference.shown(command))]
    assert [each for each in texts if Text.from_markup(each).plain != each] == [], "a terminal shows no word in brackets"


def test_the_reference_has_every_command_with_its_options() -> None:
    page = reference.commands()
    for path, command in COMMANDS.items():
        section = page.partition(f"### holdfast {' '.join(path)}\n")[2].partition("\n### ")[0]
        options = {flag for each in reference.shown(command) for flag in each.opts if flag.startswith("--")}
        assert all(f"`{flag}`" in section for flag in options), path
        assert f"\nholdfast {' '.join([*path, *command.epilog.split()[2 + len(path) :][:1]])}" in section, path


@pytest.mark.parametrize("name", holdfast.__all__)
def test_every_public_name_says_what_it_means(name: str) -> None:
    meaning = inspect.getdoc(getattr(holdfast, name))
    assert meaning, name
    assert f"`{name}`" in PYTHON
    if not isinstance(getattr(holdfast, name), type) or not issubclass(getattr(holdfast, name), errors.HoldfastError):
        assert docstrings.parsed(meaning).prose in PYTHON.partition(f"## {name}\n")[2], name


def test_the_python_reference_has_each_operation_with_its_options() -> None:
    for operation, option in (("agent", "max_turns: int"), ("map", "max_parallel: int"), ("child", "key: str | None")):
        section = PYTHON.partition(f"#### Context.{operation}\n")[2].partition("\n#### ")[0]
        assert f"    {option} = ...,\n" in section
    assert "#### Engine.start\n\n```python illustrative\nasync def start(\n" in PYTHON
    assert "| `MakeKey` | `name`, " in PYTHON


def test_every_parameter_and_field_of_python_has_a_meaning() -> None:
    assert [name for name, meaning in python_names.explained() if meaning == ""] == []


def test_no_sentence_of_a_public_docstring_has_more_than_25_words() -> None:
    long = []
    for name, thing in python_names.documented():
        about = docstrings.parsed(inspect.getdoc(thing))
        prose = re.sub(r"(?m)^ {4}.*$", "", about.prose)
        for text in [*re.split(r"\n\s*\n|\n- ", prose), *about.args.values(), *about.shared.values(), *about.errors.values()]:
            sentences = re.split(r"(?<=[.!?:;])\s+(?=[A-Z`(\[])", " ".join(text.split()))
            long += [f"{name}: {each}" for each in sentences if len(each.split()) > 25]
    assert long == []


def test_a_docstring_describes_only_what_there_is() -> None:
    known = {name for name, value in vars(errors).items() if isinstance(value, type)} | {
        "ValueError",
        "OSError",
        "TimeoutError",
        "CallFailed",
    }
    for name, thing in python_names.documented():
        about = docstrings.parsed(inspect.getdoc(thing))
        if about.args:
            assert about.args.keys() <= {each.name for each in python_names.parameters(thing)}, name
        assert {each for listed in about.errors for each in listed.split(", ")} <= known, name


def test_every_setting_says_what_it_means() -> None:
    silent = []
    for name, field, meaning in reference.every_setting(settings.Settings):
        model = reference._model_of(field.annotation)
        inner = reference.every_setting(model) if model is not None else [(name, field, meaning)]
        silent += [f"{name}.{each}" for each, _, said in inner if not said]
    assert silent == []
    page = reference.settings_()
    assert "| `queue` | `HOLDFAST_QUEUE` | string |  |" in page
    assert '| `grants` | list of strings | `["viewer"]` |' in page
    assert {
        name for name in settings.IN_FILE if f"| `{name}` |" in page or f"| [{name}](#{name}) |" in page
    } == settings.IN_FILE


def test_every_variable_of_the_environment_is_on_a_page() -> None:
    """Those that scripts of a workflow file get are on its page."""
    texts = [file.read_text("utf-8") for file in Path(holdfast.__file__).parent.rglob("*.py")]
    named = {each for text in texts for each in re.findall(r"""["'](HOLDFAST_[A-Z_]*[A-Z])["']""", text)}
    pages = reference.settings_() + (_DOCS / "howto" / "yaml.md").read_text("utf-8")
    assert named >= {"HOLDFAST_URL", "HOLDFAST_RUN", "HOLDFAST_AUDIT_KEY"}
    assert {name for name in named if name not in pages} == {"HOLDFAST_ENDS_WITH_PARENT"}


def test_the_site_has_every_page() -> None:
    listed = set(re.findall(r"- (?:[^:\n]+: )?([\w/-]+\.md)$", (_DOCS.parent / "mkdocs.yml").read_text(), re.MULTILINE))
    written = {"index.md", "changelog.md", "contributing.md"}
    assert listed - written == {str(page.relative_to(_DOCS)) for page in _DOCS.rglob("*.md")}


# --- Lists ------------------------------------------------------------------------------------------------------------


def test_every_event_has_a_meaning_and_a_rule_that_writes_it() -> None:
    sections = lists.event_list().split("\n### ")[1:]
    assert {section.partition("\n")[0] for section in sections} == {kind.__name__ for kind in get_args(events.AnyEvent)}
    for section in sections:
        _, meaning, *_ = section.split("\n\n")
        assert len(meaning) > 10, section
        assert re.search(r"^Written by `core/", section, re.MULTILINE), section
    known = docstrings.parsed(events.Event.__doc__).shared
    silent = {
        f"{kind.__name__}.{name}"
        for kind in get_args(events.AnyEvent)
        for name in {*kind.__struct_fields__} - docstrings.meanings(kind).keys() - known.keys()
    }
    assert silent == set()


def test_every_room_says_what_is_never_in_it_and_every_module_what_it_is_for() -> None:
    source = Path(holdfast.__file__).parent
    silent = [str(file) for file in source.rglob("*.py") if not lists.docstring(file)]
    assert silent == []
    loose = [str(file.parent) for file in source.glob("*/__init__.py") if "Never here" not in file.read_text()]
    assert loose == []


def constants(module: Any) -> set[str]:
    """The codes of a module: the public constants made there that are one lower-case word."""
    made = {node.target for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.AnnAssign)}
    names = {target.id for target in made if isinstance(target, ast.Name) and target.id.isupper()}
    values = {getattr(module, name) for name in names if isinstance(getattr(module, name), str)}
    return {value for value in values if re.fullmatch(r"[a-z_]+", value)}


def literals(module: Any, function: str, position: int) -> set[str]:
    """The strings that calls of `function` in a module pass at `position`, themselves or by a variable."""
    tree = ast.parse(inspect.getsource(module))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > position]
    named = [call for call in calls if function in (getattr(call.func, "id", ""), getattr(call.func, "attr", ""))]
    arguments = [call.args[position] for call in named]
    variables = {arg.id for arg in arguments if isinstance(arg, ast.Name)}
    assigned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign) and _names(node) & variables]
    chosen = [way for value in assigned if isinstance(value, ast.IfExp) for way in (value.body, value.orelse)]
    found = [*arguments, *chosen]
    return {arg.value for arg in found if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}


def _names(assignment: ast.Assign) -> set[str]:
    return {target.id for target in assignment.targets if isinstance(target, ast.Name)}


@cache
def codes() -> dict[str, set[str]]:
    """What there is of each kind, as the code has it."""
    exit_code = importlib.import_module("holdfast.cli.page.exit_code")
    asked = {gates.APPROVAL, gates.QUESTION, state.TOOL_APPROVAL, client_tools.CLIENT_TOOL}
    return {
        "Statuses of a run": set(get_args(status.Status)),
        "What a run waits for": set(get_args(status.WaitKind)),
        "Statuses of a step": set(get_args(state.StepStatus)),
        "Statuses of an operation in a journal": set(get_args(state.OperationStatus)),
        "States in the ledger of effects": {"intended"} | literals(projection, "EffectChange", 1),
        "Effect policies": set(tool.POLICIES),
        "Kinds of nodes": set(get_args(graph.Kind)),
        "Joins": set(get_args(graph.JoinMode)),
        "Decisions at a gate": set(graph.GATE_DECISIONS),
        "Decisions of a check": set(graph.CHECK_DECISIONS),
        "States of a gate": set(get_args(projection.GateState)),
        "Reasons of gates": constants(questions) | set(questions.LIMITS.values()) | asked,
        "Reasons of escalations and of cancellations that follow": constants(gates) - asked,
        "Classes of errors": constants(policies),
        "Exit codes of the command line": {str(value) for value in vars(exit_code).values() if isinstance(value, int)},
        "Exceptions": {
            name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.HoldfastError)
        },
    }


@pytest.mark.parametrize("kind", sorted(codes()))
def test_every_code_says_what_it_means(kind: str) -> None:
    _, rows = lists.every_code()[kind]
    assert {code for code, *_ in rows} == codes()[kind]
    assert len(rows) > 1
    assert all(all(cells) for cells in rows)


def test_every_reason_of_a_wait_is_named() -> None:
    _, rows = lists.every_code()["What a run waits for"]
    said = {word for _, meaning in rows for word in re.findall(r"`(\w+)`", meaning)}
    assert said >= literals(status, "Wait", 1) > {"sleep"}
