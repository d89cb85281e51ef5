"""A chain of entries, and what breaks it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.values.audit import FIRST, MAX_CHARACTERS, Entry, Head, Keys, Link, Verification, before_next, head_of, link

ENTRIES = [Entry(at_ms, "Pause", f"run-{at_ms}", "done", "ann", False, "clients.ops") for at_ms in range(6)]
KEY, OLDER, STRANGE = b"k" * 32, b"o" * 32, b"s" * 32


def chain(*keys: bytes) -> list[Link]:
    """A log whose entries were signed with these keys, one after the other."""
    links: list[Link] = []
    for entry, key in zip(ENTRIES, keys or [b""] * len(ENTRIES), strict=True):
        links.append(link(head_of(links[-1]) if links else None, entry, key))
    return links


def problem(links: list[Link], head: Head | None, *keys: bytes, signed_from: int = 1) -> str | None:
    reading = Verification(keys, signed_from)
    return next(filter(None, map(reading.problem, links)), None) or reading.problem_at_end(head)


def broken(links: list[Link]) -> int | None:
    """The first entry that is missing, or not as it was written."""
    reading = Verification()
    return next((reading.last.number + 1 for each in links if reading.problem(each)), None)


def test_a_log_is_as_it_was_written() -> None:
    links = chain()
    assert problem(links, head_of(links[-1])) is None
    assert problem([], Head(0, FIRST)) is None


@given(st.integers(0, 5), st.sampled_from(Entry._fields))
def test_an_entry_that_was_changed_breaks_it(place: int, field: str) -> None:
    links = chain()
    entry = links[place].entry
    links[place] = links[place]._replace(entry=entry._replace(**{field: not getattr(entry, field)}))
    assert broken(links) == place + 1


@given(st.integers(0, 4))
def test_an_entry_that_is_missing_or_elsewhere_breaks_it(place: int) -> None:
    links = chain()
    assert broken([*links[:place], *links[place + 1 :]]) == place + 1
    links[place], links[place + 1] = links[place + 1], links[place]
    assert broken(links) == place + 1


@given(st.integers(0, 5), st.booleans())
def test_a_log_that_was_cut_short_does_not_agree_with_its_head(left: int, is_signed: bool) -> None:
    keys = (KEY,) if is_signed else ()
    links = chain(*(keys or (b"",)) * 6)
    head = head_of(links[-1], *keys)
    assert problem(links[:left], head, *keys) == f"Entries {left + 1} to 6 of the audit log are missing at its end."
    assert "has no head" in str(problem(links[:left], None, *keys))


def test_what_was_added_past_the_head_is_noticed() -> None:
    links = chain()
    assert "should end with entry 4" in str(problem(links, head_of(links[3])))
    assert "should end with entry 6" in str(problem(links, head_of(links[-1])._replace(hash="0" * 64)))


def test_a_row_that_was_moved_to_another_tenant_is_noticed() -> None:
    links = chain()
    links[2] = links[2]._replace(tenant="globex")
    assert problem(links, head_of(links[-1])) == "Entry 3 of the audit log was moved to another tenant's."


@given(st.integers(0, 5))
def test_a_log_written_again_without_the_key_is_noticed(place: int) -> None:
    links = chain(*[KEY] * 6)
    assert problem(links, head_of(links[-1], KEY), KEY) is None
    for forged in (STRANGE, b""):
        again = chain(*[KEY] * place, *[forged] * (6 - place))
        assert "not signed" in str(problem(again, head_of(again[-1], forged), KEY))
    assert "head" in str(problem(links[: place + 1], forged_head(links[place]), KEY)), "the signature of an entry is no head's"


def forged_head(last: Link) -> Head:
    return Head(last.number, last.hash, last.signature)


def test_signatures_begin_somewhere_and_do_not_end() -> None:
    begun = chain(b"", b"", *[KEY] * 4)
    assert problem(begun, head_of(begun[-1], KEY), KEY, signed_from=3) is None
    assert "Entry 1 " in str(problem(begun, head_of(begun[-1], KEY), KEY))
    assert "Entry 2 " in str(problem(begun, head_of(begun[-1], KEY), KEY, signed_from=2))
    rolled = chain(b"", KEY, b"", KEY, KEY, KEY)
    assert "Entry 3 " in str(problem(rolled, head_of(rolled[-1], KEY), KEY, signed_from=2))
    assert problem(rolled, head_of(rolled[-1], KEY), KEY, signed_from=4) is None
    assert "Entry 1 " in str(problem(chain(), head_of(chain()[-1]), KEY, signed_from=1))
    assert "The head" in str(problem(chain(), head_of(chain()[-1]), KEY, signed_from=7))


def test_an_older_key_counts_until_a_newer_one_was_used() -> None:
    rotated = chain(OLDER, OLDER, OLDER, KEY, KEY, KEY)
    assert problem(rotated, head_of(rotated[-1], KEY), KEY, OLDER) is None
    assert "Entry 1 " in str(problem(rotated, head_of(rotated[-1], KEY), KEY))
    back = chain(OLDER, KEY, KEY, KEY, KEY, OLDER)
    assert "Entry 6 " in str(problem(back, head_of(back[-1], OLDER), KEY, OLDER))
    assert "The head" in str(problem(rotated, head_of(rotated[-1], OLDER), KEY, OLDER))


def test_an_entry_reads_back_as_it_was_linked() -> None:
    last = chain(*[KEY] * 6)[-1]
    assert msgspec.json.decode(msgspec.json.encode(last), type=Link) == last


def test_no_text_of_an_entry_is_longer_than_it_may_be() -> None:
    entry = Entry(1, "Start", "w" * 3_900_000, "forbidden", "n" * 201, True, "c" * 200, origin="6.6.6.6," * 10_000).bounded()
    assert [len(text) for text in entry if isinstance(text, str)] == [5, MAX_CHARACTERS, 9, MAX_CHARACTERS, 200, 0, 200, 0, 0]
    assert entry.about.endswith("w…")
    assert (entry.at_ms, entry.verified) == (1, True)


def ended(links: list[Link], *keys: bytes) -> Head | None:
    """The last row, as an append finds it."""
    return Head(links[-1].number, links[-1].hash, links[-1].signature) if links else None


CUT = chain(*[KEY] * 6)
UNSIGNED = chain()


@pytest.mark.parametrize(
    ("links", "head", "known", "keys"),
    [
        (CUT[:3], head_of(CUT[-1], KEY), None, (KEY,)),
        ([], head_of(CUT[-1], KEY), None, (KEY,)),
        (CUT, None, None, (KEY,)),
        ([], None, None, (KEY,)),
        (CUT, head_of(CUT[2], KEY), None, (KEY,)),
        (CUT[:3], head_of(CUT[2]), None, (KEY,)),
        (CUT[:3], forged_head(CUT[2]), None, (KEY,)),
        (CUT[:3], head_of(CUT[2], STRANGE), None, (KEY, OLDER)),
        (CUT[:3], head_of(CUT[2], KEY), head_of(CUT[-1], KEY), (KEY,)),
        (UNSIGNED[:3], head_of(UNSIGNED[-1]), None, ()),
        (UNSIGNED, None, None, ()),
        (CUT[:3], head_of(CUT[2]), None, ()),
    ],
)
def test_what_is_added_to_a_log_that_was_cut_hides_nothing(
    links: list[Link], head: Head | None, known: Head | None, keys: Keys
) -> None:
    known_ = Head(0, FIRST) if known is None else known
    is_there = known is None or known.number <= len(links)
    for key in (b"", KEY):
        before = before_next(head, ended(links), known_, is_there, keys)
        again, ends = [*links], head
        for _ in range(3):
            again.append(link(before, ENTRIES[0], key))
            ends = head_of(again[-1], key)
            before = before_next(ends, ended(again), ends, True, keys)
            assert before == ends
            assert problem(again, ends, *keys) is not None
            assert problem(again, ends) is not None


@pytest.mark.parametrize(
    ("links", "keys", "head_key"),
    [(CUT, (KEY,), KEY), (CUT, (STRANGE, KEY), KEY), (CUT, (), KEY), (UNSIGNED, (KEY,), b""), (UNSIGNED, (), b"")],
)
def test_an_entry_follows_the_head_whichever_key_signs(links: list[Link], keys: Keys, head_key: bytes) -> None:
    head = head_of(links[-1], head_key)
    assert before_next(head, ended(links), head, True, keys) == head
    assert before_next(Head(0, FIRST), None, Head(0, FIRST), True, keys) == Head(0, FIRST)
