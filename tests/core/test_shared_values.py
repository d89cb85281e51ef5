"""Shared values: what becomes of a write, by the version that its writer knows and the strategy that he named."""

from __future__ import annotations

import math

import pytest

from holdfast.core.nouns.shared_values import (
    MAX_NAME,
    SharedValue,
    expect_name,
    expect_size,
    expect_space,
    merged,
    packed,
    query_words,
    resolve,
    unpacked,
    words_of,
)
from holdfast.core.values.payload import INLINE_BYTES
from holdfast.errors import InvalidInput

HERE = SharedValue({"a": 1, "deep": {"x": 1}}, 3, 1000, "ann")


@pytest.mark.parametrize("expected", [None, 3])
@pytest.mark.parametrize("strategy", ["reject", "first_write", "last_write", "merge"])
def test_a_write_that_knows_the_version_or_names_none_counts(expected: int | None, strategy) -> None:
    made = resolve(HERE, {"b": 2}, expected, strategy)
    assert (made.value, made.is_written, made.is_conflict) == ({"b": 2}, True, False)


def test_a_write_that_expects_none_where_there_is_none_counts() -> None:
    assert resolve(None, 7, 0, "reject").is_written


@pytest.mark.parametrize(
    ("strategy", "value"),
    [("reject", None), ("first_write", None), ("last_write", {"b": 2}), ("merge", {"a": 1, "deep": {"x": 1}, "b": 2})],
)
def test_a_write_that_expects_another_version_goes_by_its_strategy(strategy, value: object) -> None:
    made = resolve(HERE, {"b": 2}, 2, strategy)
    assert (made.value, made.is_written, made.is_conflict) == (value, value is not None, True)


def test_a_merge_keeps_what_is_there_and_adds_what_is_not_deeply() -> None:
    current = {"a": 1, "deep": {"x": 1, "list": [1]}, "text": "mine"}
    attempted = {"a": 2, "deep": {"y": 2, "list": [2]}, "text": {"not": "text"}, "new": [3]}
    assert merged(current, attempted) == {"a": 1, "deep": {"x": 1, "list": [1], "y": 2}, "text": "mine", "new": [3]}
    assert merged(None, attempted) == attempted


@pytest.mark.parametrize("name", ["", "x" * (MAX_NAME + 1), "a\0b", 7, None])
def test_what_is_no_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidInput, match="1 to 200 characters"):
        expect_name("key", name)


def test_a_value_that_is_too_large_is_refused() -> None:
    expect_size(b"x" * INLINE_BYTES)
    with pytest.raises(InvalidInput, match="64 KiB at most"):
        expect_size(b"x" * (INLINE_BYTES + 1))


def test_what_was_deleted_is_as_if_nothing_were_there() -> None:
    gone = SharedValue(None, 4, 2000, "ann", gone=True)
    assert resolve(gone, "tea", 0, "reject").value == "tea"
    assert resolve(gone, "tea", 4, "reject").is_conflict
    assert resolve(gone, {"a": 1}, 3, "merge").value == {"a": 1}


def test_a_vector_is_kept_as_a_direction_and_one_without_is_refused() -> None:
    assert unpacked(packed((3, 4))) == pytest.approx((0.6, 0.8))
    for nothing in ((), (0.0, 0.0), (math.inf, 1), (math.nan,)):
        with pytest.raises(InvalidInput, match="no direction"):
            packed(nothing)


def test_words_are_found_in_any_spelling_and_script() -> None:
    assert words_of("Rent_due: 3 Ärzte, don't!") == ["rent", "due", "3", "ärzte", "don", "t"]


def test_a_question_is_searched_by_what_it_is_about() -> None:
    assert query_words("When is the rent due? The rent!") == ["rent", "due"]
    assert query_words("To be or not to be") == ["to", "be", "or", "not"]
    assert len(query_words(" ".join(map(str, range(99))))) == 32


def test_the_engines_own_spaces_belong_to_the_engine_alone() -> None:
    assert expect_space("memory") == "memory"
    with pytest.raises(InvalidInput, match="engine's own"):
        expect_space("!memory/ann")
