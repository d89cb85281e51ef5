"""The pages tell the truth: their blocks run, their links lead somewhere, and every code of the program is explained.

Marks after a block's language, as CONTRIBUTING.md explains them: `file=NAME` (written down for a later block),
`exit=8` (the status that a shell block ends with), `output` (what the block before it printed; `…` stands for anything)
and `illustrative` (not run). `<!-- a fresh directory -->` parts a page into chapters that run each by itself.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

from holdfast import errors
from holdfast.authoring import tool
from holdfast.core import events, gates, graph, policies, projection, questions, state, status

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("**/*.md"))]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")

RUN = {"python", "sh"}
NOT_RUN = {"text", "toml", "json", "yaml", "mermaid"}
MARKS = {"illustrative", "output"}
PAGE_LIMIT_S = 60

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")


CHAPTER = "<!-- a fresh directory -->"


class Block(NamedTuple):
    """A fenced block: its language, its marks, and where it stands."""

    page: str
    line: int
    chapter: int
    language: str
    marks: frozenset[str]
    body: str

    def value(self, mark: str) -> str | None:
        """What a mark like `exit=8` says."""
        return next((each.partition("=")[2] for each in self.marks if each.startswith(f"{mark}=")), None)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        language, *marks = match["info"].split() or [""]
        line = text.count("\n", 0, match.start()) + 1
        chapter = text.count(CHAPTER, 0, match.start())
        found.append(Block(page.name, line, chapter, language, frozenset(marks), match["body"]))
    return found


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def explained(page: str) -> set[str]:
    """Everything that stands as code in the text of a page."""
    return set(_CODE.findall(page))


# --- Blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in blocks(page):
        assert block.language in RUN | NOT_RUN, f"{block}: a block of language {block.language!r}"
        unknown = {mark for mark in block.marks if mark not in MARKS and not re.match(r"(file|exit)=.+", mark)}
        assert not unknown, f"{block}: nobody knows the marks {unknown}"
        if block.language == "python":
            ast.parse(block.body, filename=str(block))


def chapters() -> dict[str, list[Block]]:
    """What runs by itself, by the place where it begins."""
    found: dict[str, list[Block]] = {}
    for page in PAGES:
        every = blocks(page)
        for number in sorted({block.chapter for block in every}):
            chapter = [block for block in every if block.chapter == number and "illustrative" not in block.marks]
            if any(block.language in RUN for block in chapter):
                found[str(chapter[0])] = chapter
    return found


@pytest.mark.parametrize("chapter", chapters().values(), ids=chapters().keys())
def test_every_block_runs(chapter: list[Block], tmp_path: Path) -> None:
    """In order, in one empty directory, as a reader would type them."""
    reader = Reader(tmp_path)
    printed = ""
    try:
        for number, block in enumerate(chapter):
            name = block.value("file")
            if name is not None:
                (tmp_path / name).write_text(block.body, encoding="utf-8")
                later = "".join(each.body for each in chapter[number + 1 :])
                assert Path(name).stem in later or name == "holdfast.toml", f"{block}: nothing uses {name}"
            elif "output" in block.marks:
                assert matches(block.body, printed), f"{block}: it printed\n{printed}"
            elif block.language in RUN:
                printed = reader.run(block)
    finally:
        reader.leave()


class Reader:
    """Somebody who types a page's blocks into one terminal: variables and servers stay until the page is read."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._session = directory / ".session"
        self._session.touch()
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HOLDFAST_", "ANTHROPIC_", "OPENAI_", "PYTEST_", "COV_"))
        }
        self._environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._groups: list[int] = []

    def run(self, block: Block) -> str:
        """What the block printed. Fails where it ends otherwise than its page says."""
        if block.language == "python":
            script = self._directory / ".block.py"
            script.write_text(block.body, encoding="utf-8")
            text = f"PYTHONPATH=.${{PYTHONPATH:+:$PYTHONPATH}} exec python {script.name}"
        else:
            text = block.body
        shell = f"set -a; . ./.session; trap 'declare -px > .session' EXIT; set -eu\n{text}"
        said, complained = self._directory / ".stdout", self._directory / ".stderr"
        with said.open("w") as stdout, complained.open("w") as stderr:
            process = subprocess.Popen(
                ["bash", "-c", shell], cwd=self._directory, env=self._environment, stdin=subprocess.DEVNULL,
                stdout=stdout, stderr=stderr, start_new_session=True,
            )  # fmt: skip
            self._groups.append(process.pid)
            status = process.wait(PAGE_LIMIT_S)
        expected = int(block.value("exit") or 0)
        assert status == expected, (
            f"{block} ended with {status}, not {expected}\n{said.read_text()}{complained.read_text()}"
        )
        return said.read_text(encoding="utf-8")

    def leave(self) -> None:
        for group in self._groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                continue


def matches(pattern: str, text: str) -> bool:
    """Whether `text` is what a page shows, line by line; `…` stands for anything on its line, alone for any lines."""
    lines = [
        ".*" if line.strip() == "…" else r"[^\n]*".join(map(re.escape, line.split("…"))) for line in _lines(pattern)
    ]
    return re.fullmatch(r"\n".join(lines), "\n".join(_lines(text)), re.DOTALL) is not None


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_every_make_command_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)) <= targets, page.name


def test_every_command_that_is_named_exists() -> None:
    """`holdfast gates approve` in the text of a page is one that the command line knows."""
    known = set(commands())
    groups = {path[0] for path in known if len(path) > 1}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for line in re.findall(r"(?:^|`|\$\(|\| )holdfast ([a-z][^`\n]*)", text, re.MULTILINE):
            words = line.split()
            for first in words[0].split("|"):
                seconds = words[1].split("|") if first in groups and len(words) > 1 else [None]
                for second in seconds:
                    path = (first,) if second is None else (first, second)
                    assert path in known or path in {(group,) for group in groups}, f"{page.name}: holdfast {line}"


def commands() -> Iterator[tuple[str, ...]]:
    import typer.main

    command: Any = typer.main.get_command(importlib.import_module("holdfast.cli.app").app)
    for name, inner in command.commands.items():
        if hasattr(inner, "commands"):
            yield from ((name, second) for second in inner.commands)
        else:
            yield (name,)


# --- Links ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for match in _LINK.finditer(prose(page)):
        target, _, anchor = match["target"].partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page.name}: {match['target']} is not there"
        if anchor:
            assert anchor in anchors(there), f"{page.name}: {match['target']} has no such heading"
        if there.suffix == ".py" and "tests" in there.relative_to(ROOT).parts:
            name = match["text"].strip("`")
            assert re.search(
                rf"^\s*(async )?def {re.escape(name)}\(", there.read_text(encoding="utf-8"), re.MULTILINE
            ), f"{page.name}: {there.name} has no test {name}"


def anchors(page: Path) -> set[str]:
    """A page's headings as the addresses that forges give them."""
    found = set()
    for heading in _HEADING.findall(prose(page)):
        kept = re.sub(r"[^\w\s-]", "", heading.lower().replace("`", ""))
        found.add(kept.strip().replace(" ", "-"))
    return found


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md":
            continue
        reached.add(page)
        targets = [match["target"].partition("#")[0] for match in _LINK.finditer(prose(page))]
        todo.extend((page.parent / target).resolve() for target in targets if target and "://" not in target)
    assert reached >= set(PAGES)


def test_pages_name_no_machine_and_no_registry() -> None:
    for page in PAGES:
        found = re.search(r"pypi\.|(?<!\w)/(?:work|root|home|tmp)/", page.read_text(encoding="utf-8"))
        assert found is None, f"{page.name}: {found}"


# --- Words ------------------------------------------------------------------------------------------------------------


def constants(module: Any) -> set[str]:
    """The codes of a module: its public constants that are one lower-case word."""
    values = {value for name, value in vars(module).items() if name.isupper() and isinstance(value, str)}
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


def codes() -> dict[str, set[str]]:
    context = importlib.import_module("holdfast.engine.context")
    return {
        "class of errors": constants(policies),
        "reason of a gate": constants(questions) | set(questions.LIMITS.values())
        | literals(context, "ask", 1) | literals(context, "open_gate", 1),
        "reason of an escalation": constants(gates),
        "kind of a wait": literals(status, "Wait", 0) | {"model"},
        "reason of a wait": literals(status, "Wait", 1),
        "status of a run": set(get_args(status.Status)),
        "status of a step": set(get_args(state.StepStatus)),
        "status of an operation": set(get_args(state.OperationStatus)),
        "state of a gate": {"open"} | literals(projection, "GateChange", 1),
        "state of an effect": {"intended"} | literals(projection, "EffectChange", 1),
        "effect policy": set(tool.POLICIES),
        "kind of nodes": set(get_args(graph.Kind)),
        "join": set(get_args(graph.JoinMode)),
        "decision": {*graph.GATE_DECISIONS, *graph.CHECK_DECISIONS},
        "exception": {
            name for name, value in vars(errors).items()
            if isinstance(value, type) and issubclass(value, errors.HoldfastError)
        },
    }  # fmt: skip


@pytest.mark.parametrize("kind", sorted(codes()))
def test_every_code_is_in_the_glossary(kind: str) -> None:
    wanted = codes()[kind]
    assert len(wanted) > 1, f"the test no longer finds any {kind}"
    assert wanted <= explained(GLOSSARY), f"docs/glossary.md does not explain every {kind}"


def test_the_glossary_names_no_error_class_that_is_gone() -> None:
    table = GLOSSARY.partition("## Classes of errors")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == constants(policies)
    table = GLOSSARY.partition("## Exceptions")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == codes()["exception"]


def test_the_glossary_says_which_errors_are_tried_again() -> None:
    table = GLOSSARY.partition("## Classes of errors")[2].partition("\n## ")[0]
    retried = dict(re.findall(r"^\| `(\w+)` \| .+ \| (yes|never|only)[^|]* \|$", table, re.MULTILINE))
    assert {code for code, how in retried.items() if how == "yes"} == policies.TRANSIENT
    assert {code for code, how in retried.items() if how == "never"} == policies.NEVER_RETRIED


def known_events() -> set[str]:
    return {kind.__name__ for kind in get_args(events.AnyEvent)}


def test_the_design_lists_exactly_the_events_that_there_are() -> None:
    section = DESIGN.partition("## 11. The events")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
    assert {name for row in rows for name in _CODE.findall(row)} == known_events()


def test_every_event_that_a_page_names_exists() -> None:
    """A name in two or more words, in code, is an event, an exception, a command or query, or a public name."""
    holdfast = importlib.import_module("holdfast")
    told = [importlib.import_module(f"holdfast.{name}") for name in ("ports", "service.command", "service.query")]
    allowed = {"AnyEvent", *known_events(), *vars(errors), *holdfast.__all__, *vars(builtins)}.union(*map(vars, told))
    for page in PAGES:
        names = {name for name in explained(prose(page)) if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", name)}
        assert names <= allowed, f"{page.name}: {names - allowed}"


def test_every_module_that_the_design_lists_exists_and_none_is_missing() -> None:
    section = DESIGN.partition("## 13. The house")[2].partition("### What it stands on")[0]
    package = ROOT / "src" / "holdfast"
    drawn = set(re.findall(r"^      (\w+(?:\.py|/))", section, re.MULTILINE))
    there = {path.name if path.is_file() else f"{path.name}/" for path in package.iterdir() if path.name[0] not in ".p"}
    assert drawn >= {name for name in there if not name.startswith("__py")}
    assert all((package / name).exists() for name in drawn)
    rooms = re.findall(r"^In `([\w/]+)/`,(.*?)(?=^In `|\Z)", section, re.MULTILINE | re.DOTALL)
    assert {room for room, _ in rooms} >= {"core", "actions/expressions"}
    for room, table in rooms:
        listed = {name for row in re.findall(r"^\| (`.+?) \|", table, re.MULTILINE) for name in _CODE.findall(row)}
        assert listed == {path.stem for path in (package / room).glob("*.py")} - {"__init__"}, room


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = DESIGN.partition("### What it stands on")[2].partition("\n### ")[0].lower()
    for requirement in project["dependencies"]:
        name = re.match(r"[\w-]+", requirement)
        assert name is not None
        assert name[0].replace("-", " ") in table.replace("-", " "), f"docs/design.md gives no reason for {requirement}"


def test_the_package_shows_the_readme() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["readme"] == "README.md"


def test_the_exit_codes_are_those_of_the_command_line() -> None:
    exit_code = importlib.import_module("holdfast.cli.exit_code")
    known = sorted(value for name, value in vars(exit_code).items() if name.isupper() and isinstance(value, int))
    table = GLOSSARY.partition("## Exit codes")[2].partition("\n## ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == known
