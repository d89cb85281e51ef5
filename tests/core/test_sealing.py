"""What a store keeps of a content is read back as it was, whatever it begins with, and tells nothing without its key."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.values.payload import Payload, inline
from holdfast.core.views.sealing import GONE, PLAIN, Sealing, size_of
from holdfast.errors import CorruptHistory, KeyMissing

MARKS = ('"hf1:', '"hf0:', "\0hf1", "\0hf0")


class Backwards:
    """Keeps ports.Codec: content comes out backwards, behind its tenant, until the tenant is erased."""

    def __init__(self) -> None:
        self.erased: set[str] = set()

    def encrypt(self, tenant: str, content: bytes, *, alike: bool = False) -> bytes:
        return tenant.encode() + b"|" + content[::-1]

    def decrypt(self, encrypted: bytes) -> bytes:
        tenant, _, content = encrypted.partition(b"|")
        if tenant.decode() in self.erased:
            raise KeyMissing
        return content[::-1]


@given(st.sampled_from(("", *MARKS)), st.text(), st.booleans())
def test_what_was_sealed_comes_back_as_it_was(begin: str, rest: str, on: bool) -> None:
    sealing, text = Sealing(Backwards()) if on else PLAIN, begin + rest
    content = text.encode("utf-8", "surrogatepass")
    kept = sealing.seal("acme", content)
    assert sealing.open(kept) == content
    assert size_of(kept[:20], len(kept)) == len(content)
    assert sealing.open_blob(sealing.seal_blob("acme", content)) == content
    assert sealing.open_text(sealing.seal_text("acme", text)) == text
    payload = inline(text)
    assert sealing.open_payload(sealing.seal_payload("acme", payload)) == payload


def test_plain_values_stay_readable_and_sealed_ones_open_after_sealing_ends() -> None:
    codec = Backwards()
    sealed = Sealing(codec).seal("acme", b'{"a":1}')
    assert Sealing(codec).open(b'{"a":1}') == b'{"a":1}'
    ending = Sealing(codec, seals=False)
    assert ending.open(sealed) == b'{"a":1}'
    assert ending.seal("acme", b'{"a":1}') == b'{"a":1}'
    with pytest.raises(KeyMissing, match="HOLDFAST_KEY_FILE"):
        PLAIN.open(sealed)


def test_of_what_was_erased_lists_say_so_and_show_the_others() -> None:
    codec = Backwards()
    sealing = Sealing(codec)
    text, payload, body = (
        sealing.seal_text("acme", "card 4711"),
        sealing.seal_payload("acme", inline({"card": 4711})),
        sealing.seal("acme", b"{}"),
    )
    codec.erased.add("acme")
    assert sealing.open_text(text) == GONE
    assert sealing.open_payload(payload).value() == GONE
    assert sealing.readable(bytes, body) is None
    assert sealing.readable(bytes, sealing.seal("globex", b"{}")) == b"{}"
    with pytest.raises(KeyMissing):
        sealing.open(body)


def test_a_payload_in_a_blob_is_sealed_there_and_its_name_stays() -> None:
    payload = Payload(blob="ab" * 32, size_bytes=70_000, month="2026-11")
    assert Sealing(Backwards()).seal_payload("acme", payload) is payload


def test_what_is_damaged_is_said_to_be() -> None:
    sealed = Sealing(Backwards()).seal("acme", b"{}")
    with pytest.raises(CorruptHistory, match="damaged"):
        Sealing(Backwards()).open(sealed[:-3] + b'*"')
    assert base64.b64encode(b"acme|}{") in sealed
