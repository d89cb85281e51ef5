"""The count of words that plain English avoids finds them, and its ceilings hold."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.words.__main__ import in_module, problems

MODULE = """
def ends():
    \"\"\"Whether it ends.

    Nobody is told.\"\"\"
    return f"Nobody has {1}."

class Run:
    \"\"\"A run.\"\"\"
    names = ("nobody", "said")
    at: int
    \"\"\"When somebody came.\"\"\"
"""


def test_beginnings_and_words_are_found_where_a_reader_meets_them() -> None:
    found = [*in_module(Path("a.py"), "core", ast.parse(MODULE))]
    assert [(each.kind, each.text) for each in found] == [
        ("relative docstrings", "Whether it ends."),
        ("unspoken words", "Nobody has "),
    ]


def test_a_count_that_is_not_its_ceiling_is_a_problem() -> None:
    assert problems({"a: x": 2, "b: y": 1}, {"a: x": 2, "b: y": 1}) == []
    (rising,) = problems({"a: x": 3}, {"a: x": 2})
    (falling,) = problems({}, {"a: x": 2})
    assert "more than the 2 before" in rising
    assert "--lower" in falling
