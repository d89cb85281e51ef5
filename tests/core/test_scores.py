"""The rules of scores: which count, and what one may be."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.nouns.scores import MAX_COMMENT_BYTES, Score, counting, number, problem


def score(name: str, value: float, by: str) -> Score:
    return Score(name, value, by, "person", "", 0)


def test_the_latest_of_each_name_and_giver_counts() -> None:
    given = [score("tone", 3, "bob"), score("helpful", 0, "bob"), score("helpful", 1, "ann"), score("helpful", 0.5, "bob")]
    assert counting(given) == [score("helpful", 1, "ann"), score("helpful", 0.5, "bob"), score("tone", 3, "bob")]
    assert counting([]) == []


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (0.8, 0.8),
        (-1, -1.0),
        (True, 1.0),
        (False, 0.0),
        (float("nan"), None),
        (float("-inf"), None),
        (10**400, None),
        (-1e15, -1e15),
        (1.1e15, None),
        ("1", None),
    ],
)
def test_a_value_is_a_finite_number_or_yes_or_no(value: Any, found: float | None) -> None:
    assert number(value) == found


@pytest.mark.parametrize("name", ["helpful", "a", "answer.tone-2_b", "x" * 64])
def test_a_plain_identifier_names_a_score(name: str) -> None:
    assert problem(name, "é" * (MAX_COMMENT_BYTES // 2)) is None


@pytest.mark.parametrize("name", ["", "2x", "a b", "é", "a\n", "x" * 65, "-a"])
def test_anything_else_does_not(name: str) -> None:
    assert (problem(name, "") or "").endswith("'_', '.' and '-'")


@pytest.mark.parametrize(
    ("comment", "said"), [("a\0b", "NUL"), ("\ud800", "Unicode"), ("é" * (MAX_COMMENT_BYTES // 2) + "x", "4097 bytes")]
)
def test_a_comment_that_cannot_be_kept_is_refused(comment: str, said: str) -> None:
    assert said in (problem("helpful", comment) or "")
