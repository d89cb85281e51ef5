"""What may be a label, and what labels are after a change."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.nouns import labels as rule
from holdfast.errors import InvalidInput


def test_labels_change_by_key_and_stand_in_the_order_of_their_keys() -> None:
    found = rule.merged({"b": "1", "c": "2"}, {"a": "3", "c": None, "none": None})
    assert [*found.items()] == [("a", "3"), ("b", "1")]


def test_a_label_has_no_secret_and_is_removed_only_where_it_may_be() -> None:
    given = {"a.b-c_D9": "x" * 256, "k" * 64: "sk-7"}
    assert rule.checked(given, lambda text: text.replace("sk-7", "***")) == {"a.b-c_D9": "x" * 256, "k" * 64: "***"}
    assert rule.checked({"a": None}, str, removes=True) == {"a": None}
    with pytest.raises(InvalidInput, match="'a' is None; a label is a text"):
        rule.checked({"a": None}, str)


def test_a_run_has_up_to_so_many_labels() -> None:
    rule.expect_few(dict.fromkeys(map(str, range(32)), "v"))
    with pytest.raises(InvalidInput, match="33 labels: a run has up to 32"):
        rule.expect_few(dict.fromkeys(map(str, range(33)), "v"))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("9a", "x", "a letter, then up to 63"),
        ("a=b", "x", "a letter, then up to 63"),
        ("a\n", "x", "a letter, then up to 63"),
        ("k" * 65, "x", "a letter, then up to 63"),
        ("a", "", "is empty"),
        ("a", "x" * 257, "has 257 bytes; it may have 256"),
        ("a", "\0", "the character NUL"),
        ("a", "\udfff", "not valid Unicode"),
        ("a", True, "is True; a label is a text"),
    ],
)
def test_what_is_no_label_is_refused_at_its_place(key: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        rule.checked({"fine": "y", key: value}, str)
    assert (refused.value.field, [misfit.path for misfit in refused.value.misfits]) == ("labels", [(key,)])


def test_a_label_is_written_with_an_equals_sign() -> None:
    assert (rule.pair("a=b=c"), rule.change("a=b"), rule.change("a=")) == (("a", "b=c"), ("a", "b"), ("a", None))
    for text in ("a", "=b", "a b=c", ""):
        with pytest.raises(InvalidInput, match="write KEY=VALUE"):
            rule.pair(text)


def test_every_key_lies_between_the_first_and_the_last() -> None:
    keys = ["A", "Z" * 64, "a", "z" * 64, "z_", "z9", "z."]
    assert all(rule.FIRST_KEY <= key <= rule.LAST_KEY for key in keys)
    assert rule.FIRST_KEY > ""
