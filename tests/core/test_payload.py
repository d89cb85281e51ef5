"""Data of users' making stays the bytes it was, and equal data has equal digests."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.values.payload import NULL, Payload, digest, inline

json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(json)
def test_an_inline_payload_is_its_value(value: object) -> None:
    assert inline(value).value() == value


@given(json)
def test_a_payload_survives_being_stored(value: object) -> None:
    payload = inline(value)
    again = msgspec.json.decode(msgspec.json.encode(payload), type=Payload)
    assert again == payload
    assert again.value() == value


def test_a_blob_is_distinguished_from_a_value() -> None:
    payload = Payload(blob="ab" * 32, size_bytes=100_000)
    assert msgspec.json.decode(msgspec.json.encode(payload), type=Payload) == payload
    with pytest.raises(LookupError, match="100000 bytes lives in the blob abab"):
        payload.value()


def test_nothing_is_a_value_too() -> None:
    assert NULL.value() is None
    assert inline(None) == NULL


def test_the_order_of_keys_does_not_count() -> None:
    assert digest({"a": 1, "b": [{"c": 2, "d": 3}]}) == digest({"b": [{"d": 3, "c": 2}], "a": 1})


@given(json, json)
def test_different_data_has_different_digests(one: object, other: object) -> None:
    assert (digest(one) == digest(other)) == (
        msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")
    )
