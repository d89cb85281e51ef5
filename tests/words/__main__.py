"""Counts what plain English avoids, room by room, and fails where there is more of it than `ceilings.json` allows.

    python -m tests.words [--list ROOM] [--lower]

Counted are docstrings that begin with a relative clause (What, Who, Whether, …), those below attributes by themselves, texts that a user may read with words that
nobody speaks, comments and docstrings with such words, names that are a bare participle, names of tests that are too long, and the words of all pages for users, as `wc -w` counts them, code blocks
included. The target of the pages is 40,000 words in all: a count below it is taken as 40,000. A ceiling only falls: `--lower`
writes the counts of today where they are lower, and the check fails as well where a ceiling is higher than the count, so that
it is lowered in the same commit.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

ROOT: Final = Path(__file__).resolve().parents[2]
CEILINGS: Final = Path(__file__).with_name("ceilings.json")
LONGEST_NAME: Final = 80
TARGET: Final = 47_850
"""The words that the pages for users may have in all. Those of alerts are read one at a time, in the night, and count as well."""

USER_PAGES: Final = "words of pages for users: docs"
FOR_MAINTAINERS: Final = {"docs/design.md", "docs/reference/modules.md"}
WRITTEN_FROM_CODE: Final = {f"docs/reference/{each}.md" for each in ("codes", "commands", "events", "python", "settings")}

RELATIVE: Final = re.compile(r"(What|Who|Whose|Whom|Whether|How|Those|That|Whatever|Whoever|Which|Where|When)\b")
UNSPOKEN: Final = re.compile(r"\b(told|said|whoever|nobody|somebody|anybody|everybody|anew)\b", re.IGNORECASE)
BARE: Final = re.compile(
    r"_*(asked|told|made|given|said|sought|heard|taken|found|kept|known|wanted|meant|shown|lent|brought|met|handed"
    r"|what|whom?|whose|which|why|how|where)_*",
    re.IGNORECASE,
)
"""Words that name nothing by themselves: a parameter says what it is, a function what it does, a class what it stands for."""
RIGHT_NAMES: Final = {
    "cli/nouns/queue.py: why": "the command `holdfast queue why`, released",
    "service/control/run_reader.py: why": "Engine.why, released",
    "service/control/handle.py: met": "the parameter of Run.until, released",
    "tools/http.py: found": "the parameter of http_lookup, released",
}
"""Bare words that are right where they are, each with the reason."""
IN_COMMENTS: Final = re.compile(
    r"\b(told|said|whoever|nobody|somebody|anybody|everybody|anew|so (?:many|much))\b", re.IGNORECASE
)
GENERATED: Final = {"wire_pb2.py"}
EXEMPT: Final = {"_COMMON": "words of a question that a search leaves out: they are what users type"}
"""Constants whose text no user reads, each with the reason."""

_Documented: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module


class Finding(NamedTuple):
    """A place that is to be written in other words."""

    kind: str
    room: str
    file: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.text}"


def findings() -> Iterator[Finding]:
    """Yield all of them: in the package, in the order of its files, and then in the tests."""
    for file in sorted((ROOT / "src/holdfast").rglob("*.py")):
        if file.name not in GENERATED:
            room = file.relative_to(ROOT / "src/holdfast").parts[0]
            text = file.read_text("utf-8")
            yield from in_module(file, room, ast.parse(text))
            yield from in_comments(file, room, text)
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
            if is_test and len(node.name) > LONGEST_NAME:
                yield Finding("long names of tests", "tests", file, node.lineno, node.name)


def in_module(file: Path, room: str, tree: ast.Module) -> Iterator[Finding]:
    """Yield those of a module of the package. A docstring below an attribute counts as no text for users."""
    documentation: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, _Documented):
            documentation |= {id(each.value) for each in node.body if isinstance(each, ast.Expr)}
            for line, text in attribute_docstrings(node):
                if RELATIVE.match(text):
                    yield Finding("relative docstrings of attributes", room, file, line, text.partition("\n")[0])
            text = ast.get_docstring(node) or ""
            if not isinstance(node, ast.Module):
                names = (
                    each
                    for each in bare_names(node)
                    if f"{file.as_posix().rpartition('holdfast/')[2]}: {each}" not in RIGHT_NAMES
                )
                yield from (Finding("bare participles", room, file, node.lineno, name) for name in names)
            if RELATIVE.match(text):
                line = 1 if isinstance(node, ast.Module) else node.lineno
                yield Finding("relative docstrings", room, file, line, text.partition("\n")[0])
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in EXEMPT:
            documentation |= {id(each) for each in ast.walk(node)}
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation
        if is_text and " " in node.value and UNSPOKEN.search(node.value):
            yield Finding("unspoken words", room, file, node.lineno, node.value[:100])


def attribute_docstrings(node: _Documented) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each docstring below an attribute or a constant."""
    for above, below in pairwise(node.body):
        if isinstance(above, ast.Assign | ast.AnnAssign) and isinstance(below, ast.Expr):
            value = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(value, str):
                yield below.lineno, value


def in_comments(file: Path, room: str, text: str) -> Iterator[Finding]:
    """Yield the lines of comments and docstrings with words that nobody speaks."""
    starts = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and starts):
            for number, line in enumerate(token.string.split("\n"), token.start[0]):
                if IN_COMMENTS.search(line):
                    yield Finding("unspoken comments", room, file, number, line.strip())
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            starts = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def user_pages(root: Path = ROOT) -> dict[str, int]:
    """Return the words of each page for users, the longest page first. The pages of the reference that are written from code,
    and pages for maintainers, are left out."""
    found = {}
    for page in [root / "README.md", *(root / "docs").rglob("*.md")]:
        name = page.relative_to(root).as_posix()
        if name not in FOR_MAINTAINERS | WRITTEN_FROM_CODE and not name.startswith("docs/maintainers/"):
            found[name] = len(page.read_text("utf-8").split())
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def bare_names(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[str]:
    """Yield the name of a function or class, and those of its parameters, that are a bare participle or relative word."""
    names = [node.name]
    if not isinstance(node, ast.ClassDef):
        arguments = node.args
        each = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
        names += [one.arg for one in each if one is not None]
    yield from (name for name in names if BARE.fullmatch(name))


def main() -> int:
    """Compare the counts with the ceilings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="ROOM", help="print the findings of a room, like core or errors.py, or docs")
    parser.add_argument("--lower", action="store_true", help="lower the ceilings to what there is")
    given = parser.parse_args()
    pages = user_pages()
    if given.list == "docs":
        print(*(f"{words:6,} {page}" for page, words in pages.items()), sep="\n")
        return 0
    found = [*findings()]
    if given.list:
        print(*(each for each in found if each.room == given.list), sep="\n")
        return 0
    counts = Counter(f"{each.kind}: {each.room}" for each in found)
    counts[USER_PAGES] = max(sum(pages.values()), TARGET)
    ceilings: dict[str, int] = json.loads(CEILINGS.read_text("utf-8"))
    wrong = problems(counts, ceilings)
    if given.lower:
        lowered = {name: min(ceiling, counts[name]) for name, ceiling in ceilings.items() if counts[name]}
        CEILINGS.write_text(json.dumps(lowered, indent=2, sort_keys=True) + "\n", "utf-8")
        wrong = problems(counts, lowered)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


def problems(counts: Mapping[str, int], ceilings: Mapping[str, int]) -> list[str]:
    """Return a line for each count that is not its ceiling."""
    found = []
    for name in sorted({*counts, *ceilings}):
        count, ceiling = counts.get(name, 0), ceilings.get(name, 0)
        if count > ceiling and name == USER_PAGES:
            found.append(
                f"{name}: {count}, more than the {ceiling} before: cut {count - ceiling} words from the page that grew, or from"
                " another one (python -m tests.words --list docs)"
            )
        elif count > ceiling:
            found.append(f"{name}: {count}, more than the {ceiling} before: python -m tests.words --list {name.split()[-1]}")
        elif count < ceiling:
            found.append(f"{name}: {count}, fewer than the {ceiling} before: run python -m tests.words --lower, and commit")
    return found


if __name__ == "__main__":
    sys.exit(main())
