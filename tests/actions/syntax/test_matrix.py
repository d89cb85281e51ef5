"""The combinations of a matrix: a test for each sentence of GitHub's rules."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.actions.syntax.matrix import MAX_COMBINATIONS, MatrixError, expand


def rows(matrix: Any) -> list[dict[str, Any]]:
    return list(expand(matrix))


def test_the_cross_product_is_in_the_order_of_the_keys() -> None:
    assert rows({"os": ["linux", "mac"], "size": [1, 2]}) == [
        {"os": "linux", "size": 1},
        {"os": "linux", "size": 2},
        {"os": "mac", "size": 1},
        {"os": "mac", "size": 2},
    ]


def test_what_is_excluded_goes_first_and_what_is_included_comes_then() -> None:
    found = rows({"os": ["linux", "mac"], "exclude": [{"os": "mac"}], "include": [{"os": "mac", "extra": 1}]})
    assert found == [{"os": "linux"}, {"os": "mac", "extra": 1}]


def test_an_exclude_matches_where_it_says_something_only() -> None:
    assert rows({"os": ["a", "b"], "v": [1, 2], "exclude": [{"v": 2}]}) == [{"os": "a", "v": 1}, {"os": "b", "v": 1}]


def test_an_exclude_matches_inside_nested_values() -> None:
    node = [{"v": 1, "npm": 6}, {"v": 2, "npm": 6}]
    assert rows({"node": node, "exclude": [{"node": {"v": 2}}]}) == [{"node": {"v": 1, "npm": 6}}]
    assert rows({"node": [[1, 2], [1, 3]], "exclude": [{"node": [1, 3]}]}) == [{"node": [1, 2]}]
    assert rows({"node": node, "exclude": [{"node": {"missing": None}}]}) == []


@pytest.mark.parametrize(("value", "excluded"), [(1, "1"), ("linux", "LINUX"), ("", 0), (None, ""), (True, 1), (0, False)])
def test_an_exclude_compares_loosely(value: Any, excluded: Any) -> None:
    assert rows({"k": [value, "other"], "exclude": [{"k": excluded}]}) == [{"k": "other"}]


def test_text_that_looks_like_a_truth_value_is_not_equal_to_one() -> None:
    assert len(rows({"k": ["true"], "exclude": [{"k": True}]})) == 1


def test_an_exclude_with_an_unknown_key_is_an_error() -> None:
    with pytest.raises(MatrixError, match="'oss' is no key of the matrix") as problem:
        expand({"os": ["a"], "exclude": [{"os": "b"}, {"oss": "a"}]})
    assert problem.value.path == "exclude[1].oss"


def test_an_include_whose_filters_match_adds_its_extras_to_each_original_combination() -> None:
    found = rows({"os": ["a", "b"], "v": [1, 2], "include": [{"os": "a", "color": "red"}]})
    assert found == [
        {"os": "a", "v": 1, "color": "red"},
        {"os": "a", "v": 2, "color": "red"},
        {"os": "b", "v": 1},
        {"os": "b", "v": 2},
    ]


def test_an_include_without_filters_is_added_to_every_original_combination() -> None:
    assert rows({"os": ["a", "b"], "include": [{"color": "red"}]}) == [{"os": "a", "color": "red"}, {"os": "b", "color": "red"}]


def test_later_extras_overwrite_earlier_ones_but_never_an_original_value() -> None:
    found = rows({"os": ["a"], "include": [{"color": "red"}, {"COLOR": "blue"}, {"os": "b", "color": "pink"}]})
    assert found == [{"os": "a", "color": "blue"}, {"os": "b", "color": "pink"}]


def test_an_include_that_matches_nothing_is_appended() -> None:
    assert rows({"os": ["a"], "v": [1], "include": [{"os": "b", "v": 2}]}) == [{"os": "a", "v": 1}, {"os": "b", "v": 2}]


def test_appended_includes_never_merge_into_each_other() -> None:
    found = rows({"os": ["a"], "include": [{"os": "b"}, {"os": "b", "color": "red"}]})
    assert found == [{"os": "a"}, {"os": "b"}, {"os": "b", "color": "red"}]


def test_the_documented_fruit_of_github() -> None:
    """The example of GitHub's own page, which shows every rule of include at once."""
    found = rows(
        {
            "fruit": ["apple", "pear"],
            "animal": ["cat", "dog"],
            "include": [
                {"color": "green"},
                {"color": "pink", "animal": "cat"},
                {"fruit": "apple", "shape": "circle"},
                {"fruit": "banana"},
                {"fruit": "banana", "animal": "cat"},
            ],
        }
    )
    assert found == [
        {"fruit": "apple", "animal": "cat", "color": "pink", "shape": "circle"},
        {"fruit": "apple", "animal": "dog", "color": "green", "shape": "circle"},
        {"fruit": "pear", "animal": "cat", "color": "pink"},
        {"fruit": "pear", "animal": "dog", "color": "green"},
        {"fruit": "banana"},
        {"fruit": "banana", "animal": "cat"},
    ]


def test_an_include_may_bring_back_what_was_excluded() -> None:
    assert rows({"os": ["a", "b"], "exclude": [{"os": "b"}], "include": [{"os": "b"}]}) == [{"os": "a"}, {"os": "b"}]


def test_includes_alone_are_a_matrix() -> None:
    assert rows({"include": [{"a": 1}, {"a": 2}]}) == [{"a": 1}, {"a": 2}]


def test_keys_that_differ_in_case_are_the_same() -> None:
    assert rows({"OS": ["a", "b"], "exclude": [{"os": "A"}], "Include": [{"oS": "b", "x": 1}]}) == [{"OS": "b", "x": 1}]


def test_a_value_is_not_compared_as_a_whole_where_it_is_a_collection() -> None:
    """An empty mapping says nothing, so it matches everything."""
    assert rows({"k": [{"a": 1}, 2], "exclude": [{"k": {}}]}) == []


def test_256_combinations_are_allowed_and_no_more() -> None:
    sixteen = list(range(16))
    assert len(rows({"a": sixteen, "b": sixteen})) == MAX_COMBINATIONS == 256
    assert len(rows({"a": list(range(257)), "exclude": [{"a": 0}]})) == 256
    with pytest.raises(MatrixError, match="more than 256"):
        expand({"a": list(range(257))})
    with pytest.raises(MatrixError, match="more than 256"):
        expand({"a": sixteen, "b": sixteen, "include": [{"a": 99}]})


@pytest.mark.parametrize(
    ("matrix", "told"),
    [
        ("text", "a mapping of names to lists"),
        (None, "not null"),
        ({}, "is empty"),
        ({"a": []}, "the list of 'a' is empty"),
        ({"a": 1}, "'a' are a list"),
        ({"a": "text"}, "'a' are a list"),
        ({"a": {"b": 1}}, "not a mapping"),
        ({"a": [1], "include": {"a": 1}}, "'include' is a list"),
        ({"a": [1], "exclude": ["a"]}, "an entry of 'exclude' is a mapping"),
        ({"a": [1], "include": [{}]}, "an entry of 'include' is a mapping"),
        ({chr(97 + n): list(range(10)) for n in range(20)}, "more than 4,096 combinations"),
        ({"a": [1], "include": [{"a": {str(n): n for n in range(2000)}}]}, "more than 1,000 values"),
    ],
)
def test_a_matrix_that_means_nothing_or_too_much_is_an_error(matrix: Any, told: str) -> None:
    with pytest.raises(MatrixError, match=told):
        expand(matrix)
