"""How many values a text from outside may hold, counted without decoding it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.service import text as checks
from holdfast.service.text import MAX_ITEMS, decoded

SIGNS = '[{,"\\\\'


def values_in(data: object) -> int:
    """The separators that stand outside of strings, one for each value or nearly."""
    if isinstance(data, dict):
        return max(len(data), 1) + sum(map(values_in, data.values()))
    if isinstance(data, list):
        return max(len(data), 1) + sum(map(values_in, data))
    return 0


DATA = st.recursive(
    st.none() | st.text(alphabet=SIGNS, max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet=SIGNS, max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(DATA, st.integers(0, 12))
def test_values_are_counted_and_not_what_stands_in_texts(data: object, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "MAX_ITEMS", most)
        patch.setattr(checks, "_MAX_QUOTES", 4 * most + 2)
        text = msgspec.json.encode(data).decode()
        if values_in(data) > most:
            with pytest.raises(InvalidInput, match="more than"):
                decoded(text, "body")
        else:
            assert decoded(text, "body") == data


def test_a_text_may_hold_any_number_of_commas() -> None:
    assert decoded('["' + "," * (MAX_ITEMS + 1) + '"]', "body") == ["," * (MAX_ITEMS + 1)]


@pytest.mark.parametrize("text", ["[" * 800_000, "[" + '"",' * 1_300_000 + "]", "[" + "0," * 300_000 + "0]"])
def test_what_has_too_many_values_is_refused_before_it_is_decoded(text: str) -> None:
    with pytest.raises(InvalidInput, match=f"more than {MAX_ITEMS:,} values"):
        decoded(text, "body")


@pytest.mark.parametrize("text", ['"\\ud800"', '"a\\ud800x"', '{"a": "\\udc00"}', '["\\ud83d\\ude00\\ud800"]', '"\\\\\\udfff"'])
def test_half_of_a_character_is_named_as_what_is_wrong(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"The body is not Unicode text: \\ud[8-9a-f][0-9a-f]{2} is half of a character\."):
        decoded(text, "body")


@pytest.mark.parametrize("text", ['["\\ud83d\\ude00"', '["\\\\ud800"', '{"a": '])
def test_whole_characters_are_not_named_where_json_is_cut_off(text: str) -> None:
    with pytest.raises(InvalidInput, match="The body is no JSON: Input data was truncated"):
        decoded(text, "body")
