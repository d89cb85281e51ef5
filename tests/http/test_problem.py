"""Problems speak of fields and routes, never of arguments of Python or of commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import holdfast
from holdfast.http.problem import neutral

ROOMS: Final = ("core", "service", "engine")
"""Whose errors reach a caller of HTTP in their own words."""
SYNTAX: Final = re.compile(
    r"`holdfast |`[a-z]+_[a-z_]+`|\b\w+=(?:NAME|JSON|True\b|\[ROLE\])|(?<![\w-])--(?!yaml\b|no-shell\b)[a-z]"
)
"""Of the two options the operator of the server is told, not its caller."""


def messages() -> Iterator[tuple[str, str]]:
    """Yield each text that an error of these rooms is made with, with its place."""
    root = Path(holdfast.__file__).parent
    for path in sorted(each for room in ROOMS for each in (root / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.func.id[:1].isupper():
                continue
            for text in filter(None, map(text_of, node.args)):
                yield f"{path.relative_to(root)}:{node.lineno}", text


def text_of(node: ast.expr) -> str:
    """Return a text with X for each value in it; empty for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(each) or "X" for each in node.values)
    return ""


def test_no_problem_names_an_argument_of_python_or_a_command() -> None:
    found = [*messages()]
    assert len([each for _, each in found if SYNTAX.search(each)]) > 20
    assert {place: neutral(each) for place, each in found if SYNTAX.search(neutral(each))} == {}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("There is no run X in this store; `holdfast runs list` shows those that are.", "There is no run X in this store."),
        ("Decide as one who is, or in a role that is (by=NAME, roles=[ROLE]).", "Decide as one who is, or in a role that is."),
        ("Settle that call first (`holdfast effects list`), or wait.", "Settle that call first, or wait."),
        ("Set the team budget first (`set_team_budget`).", "Set the team budget first."),
        ("Nothing is open. `holdfast runs list` shows the runs.", "Nothing is open."),
        ("The name (in brackets) stays; so does a=b.", "The name (in brackets) stays; so does a=b."),
    ],
)
def test_what_other_interfaces_call_it_is_left_out(message: str, expected: str) -> None:
    assert neutral(message) == expected
