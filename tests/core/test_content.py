"""Content parts as histories and people see them."""

from __future__ import annotations

import msgspec

from holdfast.core.values.content import ContentPart, are_same, labelled, parts_of

PART = ContentPart("image", "image/png", "ab12" + "0" * 60, 120_400, "2026-11")


def test_a_part_is_shown_by_its_hash_and_never_by_its_bytes() -> None:
    assert str(msgspec.structs.replace(PART, content=b"secret")) == "[image image/png 120 kB sha256:ab1200000000]"
    assert str(msgspec.structs.replace(PART, size_bytes=999)).startswith("[image image/png 999 B")


def test_a_part_is_the_same_wherever_it_is_kept() -> None:
    later = msgspec.structs.replace(PART, month="2026-12", content=b"x")
    assert are_same([PART], [later])
    assert not are_same([PART], [msgspec.structs.replace(PART, sha256="c" * 64)])
    assert not are_same([PART], [])


def test_no_person_reads_base64() -> None:
    given = {"type": "image", "data": "aGk=", "media_type": "image/png"}
    kept = msgspec.to_builtins(PART)
    assert labelled({"a": [given, 1], "b": kept}) == {
        "a": ["[image image/png 2 B sha256:8f434346648f]", 1],
        "b": "[image image/png 120 kB sha256:ab1200000000]",
    }
    for data in ({"type": "image", "data": 3}, {"type": "image", "size": 9}, {"type": [], "data": "aGk="}, "x", None):
        assert labelled(data) == data


def test_words_between_parts_are_none() -> None:
    assert parts_of((PART, "and", PART)) == [PART, PART]
