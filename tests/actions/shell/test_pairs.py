"""The output file and the environment file, to the letter of GitHub's runner."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.actions.shell.pairs import MAX_FILE_BYTES, MalformedFile, pairs, read, usage


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", []),
        (b"\n\n", []),
        (b"a=1\n", [("a", "1")]),
        (b"a=1", [("a", "1")]),
        (b"a=\n", [("a", "")]),
        (b"a=b=c\n", [("a", "b=c")]),
        (b" a = b \n", [(" a ", " b ")]),
        (b"a=1\r\n", [("a", "1\r")]),
        (b"a=1\n\nb=2\n", [("a", "1"), ("b", "2")]),
        (b"a=1\na=2\n", [("a", "1"), ("a", "2")]),
        (b"a=x<<EOF\nb=1\n", [("a", "x<<EOF"), ("b", "1")]),
        (b"a<<EOF\none\ntwo\nEOF\nb=1\n", [("a", "one\ntwo"), ("b", "1")]),
        (b"a<<EOF\none\ntwo\nEOF", [("a", "one\ntwo")]),
        (b"a<<EOF\nEOF\n", [("a", "")]),
        (b"a<<EOF\n\nEOF\n", [("a", "")]),
        (b"a<<EOF\n\n\nEOF\n", [("a", "\n")]),
        (b"a<<EOF\n EOF\nEOF \nEOF\n", [("a", " EOF\nEOF ")]),
        (b"a<<EOF\nEOF=1\nb<<EOF\nEOF\n", [("a", "EOF=1\nb<<EOF")]),
        (b"a << EOF\none\n EOF\n", [("a ", "one")]),
        (b"a<<x=y\none\nx=y\n", [("a", "one")]),
        (b"a<<b<<c\none\nb<<c\n", [("a", "one")]),
        (b"a<<EOF\r\none\r\nEOF\r\n", [("a", "one\r")]),
        (b"\xef\xbb\xbfa=1\n", [("a", "1")]),
        (b"a=\xff\n", [("a", "\N{REPLACEMENT CHARACTER}")]),
        ("ä=ö\n".encode(), [("ä", "ö")]),
        (b"a=\xe2\x80\xa8b\x0bc\x85\n", [("a", "\u2028b\x0bc\N{REPLACEMENT CHARACTER}")]),
    ],
)
def test_a_file_says_what_the_runner_would_read_in_it(content: bytes, said: list[tuple[str, str]]) -> None:
    assert list(pairs(content)) == said


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a\n", "line 2: 'a' is neither NAME=value nor NAME<<DELIMITER"),
        (b"=1\n", "line 2: '=1' has no name before ="),
        (b"<<EOF\nEOF\n", "line 2: '<<EOF' needs a name before << and a delimiter after it"),
        (b"a<<\n\n", "line 2: 'a<<' needs a name"),
        (b"a<<EOF\none\nEOF2\n", "line 2: 'a' opens a text that ends with a line 'EOF', which does not come"),
        (b"a<<EOF", "which does not come"),
        (b"a=\0\n", "line 2: there is a NUL"),
        (b"a<<EOF\n\0\nEOF\n", "line 2: there is a NUL"),
        (b"x" * 1000 + b"\n", "xxx…'"),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_what_stands_before_it_counts(content: bytes, why: str) -> None:
    said = pairs(b"before=1\n" + content)
    assert next(said) == ("before", "1")
    with pytest.raises(MalformedFile) as told:
        next(said)
    assert why in told.value.describe(str)


@pytest.mark.parametrize("before", range(66, 84, 3))
def test_a_mistake_shows_no_part_of_a_secret(before: int) -> None:
    with pytest.raises(MalformedFile) as told:
        list(pairs(b"." * before + b"s3cr3t-value"))
    shown = told.value.describe(lambda text: text.replace("s3cr3t-value", "[secret]"))
    assert "s3c" not in shown
    assert len(shown) < 150


def test_a_file_of_the_most_bytes_is_read_and_one_that_is_larger_is_not(tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.write_bytes(b"a=" + b"x" * (MAX_FILE_BYTES - 2))
    assert len(next(pairs(read(str(file))))[1]) == MAX_FILE_BYTES - 2
    with file.open("ab") as more:
        more.write(b"x")
    with pytest.raises(MalformedFile, match="larger than 1048576 bytes"):
        read(str(file))
    os.truncate(file, 1 << 40)
    with pytest.raises(MalformedFile, match="larger than 1048576 bytes"):
        read(str(file))


def test_what_a_script_put_in_the_place_of_its_file_is_not_followed_nor_waited_for(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("password=1\n")
    link, pipe, folder = tmp_path / "link", tmp_path / "pipe", tmp_path / "folder"
    link.symlink_to(secret)
    os.mkfifo(pipe)
    folder.mkdir()
    for each in (link, pipe, folder):
        with pytest.raises(MalformedFile, match=r"cannot be read|no plain file"):
            read(str(each))
    assert read(str(tmp_path / "removed")) == b""


def test_a_file_of_nothing_but_openings_is_read_in_linear_time() -> None:
    """A million bytes that each open a text which never ends: the first one is the mistake."""
    with pytest.raises(MalformedFile):
        list(pairs(b"a<<b\n" * (MAX_FILE_BYTES // 5)))
    assert len(list(pairs(b"a<<b\nb\n" * (MAX_FILE_BYTES // 7)))) == MAX_FILE_BYTES // 7


def test_of_a_usage_file_each_good_line_counts_and_the_first_bad_ones_are_reported() -> None:
    good = b"\xef\xbb\xbfTPM=12\n\n TPM = 0\r\nzone=eu=1000000000000\n"
    bad = b"TPM\nTPM=\nTPM=1.5\nTPM=-1\nTPM=1000000000001\nOTHER=1\n=1\nTPM=\xd9\xa3\n" + b"x=2\n" * 4
    found, problems = usage(good + bad, {"TPM", "zone=eu"})
    assert found == [("TPM", 12), ("TPM", 0), ("zone=eu", 10**12)]
    told = [problem.describe(str) for problem in problems]
    assert told[0] == "line 5: 'TPM' is not POOL=AMOUNT, with a whole number up to 1000000000000"
    assert told[5] == "line 10: 'OTHER' is no pool that the job takes of"
    assert told[10:] == ["2 more lines are like these"]
