"""The pages tell the truth: their blocks run, their links lead somewhere, and its names are right.

Marks after a block's language, as CONTRIBUTING.md explains them: `file=NAME` (written down for a later block),
`exit=8` (the status that a shell block ends with), `output` (what the block before it printed; `…` stands for anything)
and `illustrative` (not run). `<!-- a fresh directory -->` parts a page into chapters that run each by itself.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import importlib
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, get_args

import blocking_client
import lists
import pydantic
import pytest
import sync_stub

from holdfast import __version__, errors
from holdfast.core.facts import events
from tests.engine.idioms.table import IDIOMS
from tests.forks import Typed

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("**/*.md"))]
DESIGN = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")

RUN = {"python", "sh"}
NOT_RUN = {"text", "toml", "json", "yaml", "mermaid"}
MARKS = {"illustrative", "output"}
PAGE_LIMIT_S = 60

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)")
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


LONG = frozenset(
    {
        "deploy.md",
        "evaluation.md",
        "failure-and-repair.md",
        "flows.md",
        "people.md",
        "quickstart.md",
        "replay.md",
        "semantic-cache.md",
        "supervisor.md",
        "team-budgets.md",
        "testing.md",
        "threads-and-notebooks.md",
    }
)
"""Pages of which a chapter takes more than five seconds of a processor."""


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


@pytest.mark.parametrize(
    "chapter",
    [
        pytest.param(chapter, id=place, marks=[pytest.mark.long] if chapter[0].page in LONG else [])
        for place, chapter in chapters().items()
    ],
)
def test_every_block_runs(chapter: list[Block], tmp_path: Path) -> None:
    """In order, in one empty directory, as a reader would type them. Those of the quickstart start an interpreter for each
    `holdfast`; those of the other pages fork one that has imported what it needs."""
    with ExitStack() as around:
        folders = [] if chapter[0].page == "quickstart.md" else [around.enter_context(Typed()).folder]
        reader = Reader(tmp_path, folders)
        around.callback(reader.leave)
        printed = ""
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


class Reader:
    """Somebody who types a page's blocks into one terminal: variables and servers stay until the page is read."""

    def __init__(self, directory: Path, folders: Sequence[Path]) -> None:
        """`folders` come first on the PATH."""
        self._directory = directory
        self._session = directory / ".session"
        self._session.touch()
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HOLDFAST_", "ANTHROPIC_", "OPENAI_", "PYTEST_", "COV_"))
        }
        self._environment["PATH"] = os.pathsep.join([*map(str, (*folders, Path(sys.executable).parent)), os.environ["PATH"]])
        # It leads the group of all that is typed, and ends it when its input does: also when the tests are killed.
        self._keeper = subprocess.Popen(["sh", "-c", "cat > /dev/null; kill -9 0"], stdin=subprocess.PIPE, process_group=0)

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
                ["bash", "-c", shell],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                process_group=self._keeper.pid,
            )
            status = process.wait(PAGE_LIMIT_S)
        expected = int(block.value("exit") or 0)
        assert status == expected, f"{block} ended with {status}, not {expected}\n{said.read_text()}{complained.read_text()}"
        return said.read_text(encoding="utf-8")

    def leave(self) -> None:
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait(PAGE_LIMIT_S)


KILLED = """
import os, sys
from pathlib import Path
from tests.docs import conftest
from tests.docs.test_documentation import Block, Reader

reader = Reader(Path(sys.argv[1]), [])
print(reader.run(Block("page.md", 1, 0, "sh", frozenset(), "sleep 600 & echo $!")), end="", flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_server_that_a_page_started_ends_also_when_the_tests_are_killed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    deadline_s = time.monotonic() + PAGE_LIMIT_S
    while _lives(int(done.stdout)) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not _lives(int(done.stdout))


def _lives(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False


def matches(pattern: str, text: str) -> bool:
    """Whether `text` is what a page shows, line by line; `…` stands for anything on its line, alone for any lines."""
    lines = [".*" if line.strip() == "…" else r"[^\n]*".join(map(re.escape, line.split("…"))) for line in _lines(pattern)]
    return re.fullmatch(r"\n".join(lines), "\n".join(_lines(text)), re.DOTALL) is not None


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_every_make_command_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert set(re.findall(r"(?:^|`)make ([a-z0-9]+)", text, re.MULTILINE)) <= targets, page.name


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
            assert re.search(rf"^\s*(async )?def {re.escape(name)}\(", there.read_text(encoding="utf-8"), re.MULTILINE), (
                f"{page.name}: {there.name} has no test {name}"
            )


def test_pages_for_users_leave_tests_to_the_pages_for_maintainers() -> None:
    docs = ROOT / "docs"
    ours = {docs / "design.md", docs / "reference" / "modules.md", *(docs / "maintainers").iterdir()}
    assert len(ours) == 6
    users = [page for page in PAGES if page.is_relative_to(docs) and page not in ours]
    assert [page.name for page in users if re.search(r"\]\((\.\./)+tests/", prose(page))] == []
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("- For maintainers:\n")[2]
    assert {docs / page for page in re.findall(r"[\w/-]+\.md", listed)} == ours | {docs / "contributing.md"}


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


# --- Lists ------------------------------------------------------------------------------------------------------------


def test_the_lists_are_those_of_the_code() -> None:
    place = ROOT / "docs" / "reference"
    stale = [page for page, text in lists.pages().items() if text.rstrip() != (place / page).read_text("utf-8").rstrip()]
    assert stale == [], "run `make reference`"


def test_the_types_of_an_engine_that_blocks_are_those_of_one_that_awaits() -> None:
    assert sync_stub.PLACE.read_text("utf-8") == sync_stub.text(), "run `make reference`"


def test_the_client_that_blocks_is_written_from_the_one_that_awaits() -> None:
    assert blocking_client.PLACE.read_text("utf-8") == blocking_client.text(), "run `make reference`"


def test_the_table_of_idioms_is_that_of_their_tests() -> None:
    stale = [page for page, text in lists.with_tables().items() if text != (ROOT / "docs" / page).read_text("utf-8")]
    assert stale == [], "run `make reference`"
    assert len(IDIOMS) > 40


# --- Words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("page", "most"), [("design.md", 5_300), ("glossary.md", 800)])
def test_what_all_processes_read_stays_short(page: str, most: int) -> None:
    assert len((ROOT / "docs" / page).read_text(encoding="utf-8").split()) <= most


def known_events() -> set[str]:
    return {kind.__name__ for kind in get_args(events.AnyEvent)}


def test_every_event_that_a_page_names_exists() -> None:
    """A name in two or more words, in code, is an event, an exception, a command or query or its row, or a public name."""
    faces = [
        importlib.import_module(name).__all__
        for name in ("holdfast", "holdfast.client", "holdfast.evaluation", "holdfast.wire")
    ]
    told = [
        importlib.import_module(f"holdfast.{name}")
        for name in ("ports", "service.declarations.command", "service.declarations.query", "service.view")
    ]
    used = {*vars(asyncio), *pydantic.__all__}  # what users name in their own code
    allowed = {"AnyEvent", *known_events(), *vars(errors), *vars(builtins), *used}.union(*faces, *map(vars, told))
    for page in PAGES:
        ours, _, _ = prose(page).partition("## Other names")  # in habits.md, names of other systems
        names = {name for name in explained(ours) if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", name)}
        assert names <= allowed, f"{page.name}: {names - allowed}"


def test_every_module_that_the_design_names_exists() -> None:
    package = ROOT / "src" / "holdfast"
    named = {name for name in explained(DESIGN) if re.fullmatch(r"[a-z_]+(/[a-z_]+)*/[a-z_]*", name)}
    assert len(named) > 20
    assert [
        name
        for name in sorted(named)
        if not (package / f"{name}.py").exists() and not (package / name).is_dir() and not (ROOT / name).is_dir()
    ] == []


def test_the_design_has_every_table_of_the_stores() -> None:
    text = "\n".join(file.read_text("utf-8") for file in (ROOT / "src").rglob("migrations/*.sql"))
    tables = set(re.findall(r"^create (?:unlogged )?table (?:if not exists )?(?:holdfast\.)?(\w+)", text, re.MULTILINE))
    tables -= set(re.findall(r"^alter table (\w+) rename to", text, re.MULTILINE))
    assert len(tables) > 20
    assert tables - explained(DESIGN) == set()


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = DESIGN.partition("What it stands on\n")[2].partition("\n## ")[0].lower()
    assert table.count("|") > 10
    for requirement in project["dependencies"]:
        name = re.match(r"[\w-]+", requirement)
        assert name is not None
        assert name[0].replace("-", " ") in table.replace("-", " "), f"docs/design.md gives no reason for {requirement}"


LONGEST_ENTRY = 320
"""Characters of an entry, with the page and the test that it names: two thirds are for the reader."""


def test_every_test_that_the_changelog_names_exists_and_is_named_once() -> None:
    page = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+)`", page)
    assert sorted({name for name in named if named.count(name) > 1}) == [], "what a merge kept twice?"
    text = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("test_*.py"))
    text += "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "tests").rglob("conformance.py"))
    assert sorted(set(named) - set(re.findall(r"def (test_\w+)\(", text))) == []


def test_an_entry_of_the_changelog_is_one_line() -> None:
    """In the version to come: what else there is to say stands on a page, or in the commit."""
    page = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = page.partition("\n## [")[2].partition("\n## [")[0]
    assert [line for line in newest.splitlines() if line.startswith("  ")] == [], "join the lines of the entry"
    assert [line for line in newest.splitlines() if line.startswith("- ") and len(line) > LONGEST_ENTRY] == []


def test_the_program_is_of_the_version_that_the_changelog_begins_with() -> None:
    page = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(\S+)\] - (\S+)$", page, re.MULTILINE)
    assert newest is not None
    version, date = newest.groups()
    assert __version__ == (f"{version}.dev0" if date == "Unreleased" else version)


def test_the_package_shows_the_readme() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["readme"] == "README.md"


def test_every_picture_is_small_and_of_a_page_of_the_console() -> None:
    table = (ROOT / "console" / "src" / "pages.ts").read_text(encoding="utf-8")
    lists = {f"console-{path}.png" for path in re.findall(r'path: "/([\w-]+)"', table)} - {"console-sign-in.png"}
    pictures = {each.name: each.read_bytes() for each in (ROOT / "docs" / "images").iterdir()}
    assert lists <= pictures.keys()
    for name, picture in pictures.items():
        assert picture.startswith(b"\x89PNG"), name
        assert len(picture) <= 200_000, name
        assert int.from_bytes(picture[16:20], "big") == (390 if "-narrow" in name else 1280), name
