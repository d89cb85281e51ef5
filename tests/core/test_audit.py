"""A chain of entries, and what breaks it."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.audit import FIRST, MOST_CHARACTERS, Entry, Link, broken, link

ENTRIES = [Entry(at_ms, "Pause", f"run-{at_ms}", "done", "ann", False, "clients.ops") for at_ms in range(6)]


def chain() -> list[Link]:
    links: list[Link] = []
    for number, entry in enumerate(ENTRIES, 1):
        links.append(link(links[-1].hash if links else FIRST, number, entry))
    return links


def test_a_chain_holds_from_anywhere_on() -> None:
    links = chain()
    assert broken(links) is None
    assert broken(links[3:], links[2].hash) is None
    assert broken([]) is None


@given(st.integers(0, 5), st.sampled_from(Entry._fields))
def test_an_entry_that_was_changed_breaks_it(place: int, field: str) -> None:
    links = chain()
    entry = links[place].entry
    links[place] = links[place]._replace(entry=entry._replace(**{field: not getattr(entry, field)}))
    assert broken(links) == place + 1


@given(st.integers(0, 4))
def test_an_entry_that_is_missing_or_elsewhere_breaks_it(place: int) -> None:
    links = chain()
    assert broken([*links[:place], *links[place + 1 :]]) == place + 2
    links[place], links[place + 1] = links[place + 1], links[place]
    assert broken(links) == place + 2


def test_an_entry_reads_back_as_it_was_linked() -> None:
    last = chain()[-1]
    assert msgspec.json.decode(msgspec.json.encode(last), type=Link) == last


def test_no_text_of_an_entry_is_longer_than_it_may_be() -> None:
    entry = Entry(
        1, "Start", "w" * 3_900_000, "forbidden", "n" * 201, True, "c" * 200, origin="6.6.6.6," * 10_000
    ).bounded()
    assert [len(text) for text in entry if isinstance(text, str)] == [
        5,
        MOST_CHARACTERS,
        9,
        MOST_CHARACTERS,
        200,
        0,
        200,
        0,
        0,
    ]
    assert entry.about.endswith("w…")
    assert (entry.at_ms, entry.verified) == (1, True)
