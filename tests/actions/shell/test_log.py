"""A script's log: lines, bounds, and no secret in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.actions.shell.log import MAX_SECRET_BYTES, Log, LogBounds

SECRET = "s3cr3t-value"


def masked(text: str) -> str:
    return text.replace(SECRET, "[secret]")


def lines_of(log: Log, *chunks: bytes) -> list[str]:
    return [line for chunk in chunks for line in log.add(chunk)] + log.end()


def new(**bounds: int) -> Log:
    return Log(LogBounds(**bounds), masked)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_however_it_comes_in_pieces_the_lines_are_the_same(printed: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(printed)) for cut in cuts), len(printed)]
    pieces = [printed[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    whole, parts = new(), new()
    assert lines_of(whole, printed) == lines_of(parts, *pieces)
    assert whole.counts(unread=False) == parts.counts(unread=False)
    assert whole.tail == parts.tail


@given(st.binary(max_size=300), st.integers(1, 20), st.integers(1, 60), st.integers(1, 8))
def test_what_is_shown_and_what_is_not_is_what_was_printed(printed: bytes, line: int, total: int, most: int) -> None:
    log = new(line_bytes=line, total_bytes=total, lines=most)
    shown = lines_of(log, printed[:100], printed[100:])
    counts = log.counts(unread=False)
    assert counts.bytes == len(printed)
    assert counts.lines == printed.count(b"\n") + (bool(printed) and not printed.endswith(b"\n"))
    assert len(shown) == counts.lines - counts.dropped_lines + bool(counts.dropped_lines)
    assert len(shown) <= most + 1


def test_lines_end_at_newlines_and_the_last_one_needs_none() -> None:
    assert lines_of(new(), b"a\nb\r\n\nc") == ["a", "b", "", "c"]


def test_what_is_no_text_is_replaced() -> None:
    assert lines_of(new(), b"\xff\0\xc3", b"\xa4\n") == ["\N{REPLACEMENT CHARACTER}" * 2 + "ä"]


def test_a_secret_is_masked_in_lines_and_in_the_tail_however_it_comes_in() -> None:
    log = new()
    assert lines_of(log, b"x s3cr", b"3t-value y\n") == ["x [secret] y"]
    assert log.tail == "x [secret] y\n"


def test_a_secret_of_several_lines_is_masked_in_the_tail() -> None:
    log = Log(LogBounds(), lambda text: text.replace("one\ntwo", "[secret]"))
    log.add(b"x one\ntwo y\n")
    assert log.tail == "x [secret] y\n"


@pytest.mark.parametrize("beyond", [0, 5, MAX_SECRET_BYTES - 5, 3 * MAX_SECRET_BYTES])
@pytest.mark.parametrize("before", range(84, 104, 3))
def test_no_cut_leaves_a_part_of_a_secret(before: int, beyond: int) -> None:
    """A line that is cut at 100 bytes, with a secret across the cut or across the end of what is looked at."""
    for place in (before, before + MAX_SECRET_BYTES):
        log = new(line_bytes=100, tail_bytes=100)
        shown = lines_of(log, b"." * place + SECRET.encode() + b"." * beyond + b"\n")
        assert "s3c" not in shown[0]
        assert "lue" not in log.tail
        assert "s3c" not in log.tail


def test_many_short_secrets_before_a_cut_bring_no_part_of_another_into_view() -> None:
    log = Log(LogBounds(line_bytes=100), lambda text: text.replace("k" * 100, ""))
    shown = lines_of(log, b"k" * 200 * 1000 + b"\n")
    assert not shown[0].startswith("k")
    assert "k" not in log.tail


def test_a_long_line_is_cut_and_the_rest_counted_and_said() -> None:
    log = new(line_bytes=10)
    assert lines_of(log, b"0123456789", b"abc\nnext\n") == ["0123456789… (3 bytes of this line are not shown)", "next"]
    assert log.counts(unread=False).dropped_bytes == 3


def test_a_line_without_end_takes_no_memory() -> None:
    log = new(line_bytes=1000)
    for _ in range(2000):
        log.add(b"x" * 64 * 1024)
    assert len(log._line) <= 1000 + MAX_SECRET_BYTES
    assert log.end()[0].endswith(f"… ({2000 * 64 * 1024 - 1000} bytes of this line are not shown)")


def test_more_than_the_most_lines_or_bytes_is_counted_and_said_and_the_end_is_kept() -> None:
    log = new(lines=2, tail_bytes=20)
    assert lines_of(log, b"1\n2\n3\n", b"4\n5") == [
        "1",
        "2",
        "… 3 more lines (5 bytes) are not shown: a log is shown up to 16777216 bytes and 2 lines.",
    ]
    assert log.tail == "1\n2\n3\n4\n5"
    log = new(total_bytes=4)
    assert lines_of(log, b"11\n22\n33\n")[:2] == ["11", "22"]
    assert log.counts(unread=False).dropped_bytes == 3


def test_the_tail_begins_with_a_whole_line() -> None:
    log = new(tail_bytes=20)
    for number in range(10_000):
        log.add(b"line %d\n" % number)
    assert log.tail == "line 9998\nline 9999\n"
    log = new(tail_bytes=7)
    log.add(b"abc\n" + b"x" * 50)
    assert log.tail == "xxxxxxx"
