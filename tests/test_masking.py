"""A secret is found however it was written down, and looking for it takes a time that grows with the text."""

from __future__ import annotations

import base64
import binascii
import html
import json
import shlex
import time
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape, quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.app import invoke
from holdfast.platform.masking import Mask, Masking, MaskingOfTexts, forms, passwords, without_passwords

SECRET = 'p@ss/wörd <"it\'s"> &100%+\\$x`y` 鍵=='


def mask(*values: str) -> Mask:
    made = Mask()
    made.add(values)
    return made


def small(text: str) -> str:
    """The same with its escapes in small letters, or in large ones."""
    return "".join(word[:2].lower() + word[2:] for word in text.replace("%", "\0%").split("\0"))


WRITTEN = {
    "plain": SECRET,
    "json": json.dumps(SECRET)[1:-1],
    "json with large escapes": json.dumps(SECRET)[1:-1].replace("\\u00f6", "\\u00F6").replace("\\u9375", "\\u9375"),
    "json in json": json.dumps(json.dumps(SECRET))[3:-3],
    "json in html": json.dumps(SECRET)[1:-1]
    .replace("<", "\\u003c")
    .replace(">", "\\u003e")
    .replace("&", "\\u0026")
    .replace("'", "\\u0027")
    .replace("+", "\\u002b"),
    "json with slashes escaped": json.dumps(SECRET)[1:-1].replace("/", "\\/"),
    "python": repr(SECRET)[1:-1],
    "url": quote(SECRET, safe=""),
    "url, small letters": quote(SECRET, safe="")
    .replace("%C3%B6", "%c3%b6")
    .replace("%2F", "%2f")
    .replace("%3C", "%3c")
    .replace("%3E", "%3e")
    .replace("%2B", "%2b")
    .replace("%5C", "%5c")
    .replace("%E9%8D%B5", "%e9%8d%b5")
    .replace("%3D", "%3d"),
    "path of a url": quote(SECRET),
    "form": quote_plus(SECRET),
    "html": html.escape(SECRET),
    "html by other names": html.escape(SECRET).replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
    "xml": escape(SECRET),
    "xml attribute": quoteattr("'" + SECRET)[2:-1],
    "shell": shlex.quote(SECRET)[1:-1],
    "double quotes of a shell": SECRET.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`"),
    "sql": SECRET.replace("'", "''"),
    "hex": SECRET.encode().hex(),
    "large hex": SECRET.encode().hex().upper(),
    "base64": base64.b64encode(SECRET.encode()).decode().rstrip("="),
    "base64 of a line": base64.b64encode(SECRET.encode() + b"\n").decode()[:60],
}


@pytest.mark.parametrize("how", WRITTEN)
def test_a_secret_is_found_in_every_form_in_which_programs_write_it(how: str) -> None:
    text = f"before {WRITTEN[how]} after".encode()
    found = mask("another-secret", SECRET).apply(text)
    assert found.startswith(b"before [secret]")
    assert found.endswith(b" after")
    assert len(found) < len(b"before [secret] after") + 8  # what its last digit of base64 shares with others may stay


@pytest.mark.parametrize("before", ["", "u", "us", "use", "user"])
@pytest.mark.parametrize("after", ["", "\n", ":x", "and more"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_of_a_text_with_a_secret_in_it_gives_no_byte_of_the_middle_away(
    before: str, after: str, encode: type[base64.b64encode]
) -> None:
    secret = "s3cret-of-some-length??>>"
    masked = mask(secret).apply(encode(f"{before}{secret}{after}".encode()))
    assert b"[secret]" in masked
    for piece in masked.split(b"[secret]"):
        for shift in range(4):
            whole = piece[shift:][: len(piece[shift:]) // 4 * 4]
            assert secret[4:-4].encode() not in binascii.a2b_base64(whole)
            assert len(masked) < len(before) + len(after) + 24


def test_lines_of_a_key_are_found_one_by_one() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\nab\n-----END KEY-----\n"
    assert mask(key).apply(b"| kqhkiG9w0BAQEF |\n| ab |") == b"| [secret] |\n| ab |"
    assert mask(key).apply(f"a{key}b".encode()) == b"a[secret]b"


def test_the_longest_form_wins_and_what_only_begins_like_a_secret_stays() -> None:
    known = mask("sk-ant-1234", "sk-ant-1234-and-more", "abc")
    assert known.apply(b"sk-ant-1234-and-more sk-ant-12 abc") == b"[secret] sk-ant-12 abc"
    text = b"nothing in here"
    assert known.apply(text) is text
    known.add(["nothing in"])
    assert known.apply(text) == b"[secret] here"


def test_masking_takes_a_time_that_grows_with_the_text() -> None:
    known = mask(*(f"sk-ant-{number:04}-{'x' * 40}" for number in range(50)))
    known.apply(b"learn them")

    def cpu_s(size: int) -> float:
        text = (b"sk-ant-0007-" + b"x" * 39 + b" sk-a sk-an kc2stYW50 ") * (size // 70)
        took = []
        for _ in range(3):
            began = time.process_time()
            assert known.apply(text) is text
            took.append(time.process_time() - began)
        return min(took)

    assert cpu_s(1 << 20) < 8 * cpu_s(1 << 18)  # four times is what it should be
    assert cpu_s(1 << 20) < 2.0


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:hunter2hunter2@db:5432/x", "postgresql://ann:***@db:5432/x"),
        ("redis://:p/w@d@h:6379/0", "redis://:***@h:6379/0"),
        ("postgresql://h/x?user=a&password=hunter2hunter2&b=c", "postgresql://h/x?user=a&password=***&b=c"),
        ("postgresql://ann@db/x", "postgresql://ann@db/x"),
        ("see https://docs.example/a:b for more", "see https://docs.example/a:b for more"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert without_passwords(address) == shown


def test_the_password_of_an_address_is_a_secret_unless_it_is_a_word() -> None:
    assert passwords("postgresql://ann:hunter2%2Fhunter2@db/x") == {"hunter2%2Fhunter2", "hunter2/hunter2"}
    assert passwords("postgresql://db/x?password=hunter2hunter2") == {"hunter2hunter2"}
    for harmless in ("sqlite:///x.db", "redis://h", "postgresql://postgres:postgres@h/x", "redis://:pw@h", "a://[b"):
        assert passwords(harmless) == set()


@pytest.mark.parametrize(
    "environment",
    [
        {"HOLDFAST_STORE": "postgresql://ann:hunter2-part/hunter3-part@127.0.0.1:1/x"},
        {"HOLDFAST_STORE": "mysql://ann:hunter2-part-hunter3-part@127.0.0.1/x"},
        {"HOLDFAST_STORE": "postgresql://ann:hunter2-part-hunter3-part@127.0.0.1:1/x?connect_timeout=1"},
        {"HOLDFAST_QUEUE": "redis://:hunter2-part/hunter3-part@127.0.0.1:1/0"},
        {"HOLDFAST_QUEUE": "amqp://ann:hunter2-part-hunter3-part@127.0.0.1:1/0"},
        {"HOLDFAST_BLOBS": "https://ann:hunter2-part-hunter3-part@127.0.0.1/bucket"},
        {"HOLDFAST_POOLS": "https://ann:hunter2-part-hunter3-part@127.0.0.1/bucket"},
    ],
)
def test_no_error_shows_the_password_of_an_address(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for words in (
        ["budget", "set", "--tenant", "a", "--day-usd", "1"],
        ["budget", "set", "--json", "--tenant", "a", "--day-usd", "1"],
    ):
        assert invoke(words) != 0
        said = capsys.readouterr()
        assert "hunter2" not in said.out + said.err
        assert "hunter3" not in said.out + said.err


@pytest.mark.parametrize(
    "value", ["TOP-SECRET-VALUE", "aaaa", "aabaaabaab", "pä$$ wörd", "one\ntwo three four\nfive six seven"]
)
def test_a_value_that_comes_in_two_pieces_is_masked_wherever_it_is_cut(value: str) -> None:
    known = mask(value)
    for form in sorted(forms(value)):
        text = b"before " + form[:-1] + b" " + form + form + b" after"
        for cut in range(len(text) + 1):
            masking = Masking(known)
            told = [masking.feed(text[:cut]), masking.feed(text[cut:]), masking.end()]
            assert b"".join(told) == known.apply(text)


@given(st.data())
def test_what_comes_in_pieces_is_masked_as_the_whole(data: st.DataObject) -> None:
    """Values that are parts and beginnings of each other among them; and nothing of them is told before it is certain."""
    letters = st.text("ab", min_size=4, max_size=9)
    known = mask(*data.draw(st.lists(letters, max_size=4)))
    pieces = data.draw(st.lists(st.text("abé", max_size=6), max_size=12))
    masking, told = Masking(known), b""
    whole = known.apply("".join(pieces).encode())
    for piece in pieces:
        told += masking.feed(piece.encode())
        assert whole.startswith(told)
        told.decode()
    assert told + masking.end() == whole


PIECES = st.lists(
    st.one_of(st.text(max_size=6), st.sampled_from(["hunter-2-hunter", "hunter-2-", "hunter", "HUNTER-2-", "HUNTER"])),
    max_size=8,
)


@given(PIECES, st.data())
def test_texts_that_are_sent_one_after_the_other_show_no_secret_together(words: list[str], data: st.DataObject) -> None:
    secret = "hunter-2-hunter"
    text = "".join(words)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    texts = [text[first:end] for first, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    masking = MaskingOfTexts(mask(secret))
    together = "".join([masking.feed(each.encode()).decode() for each in texts] + [masking.end().decode()])
    assert not {secret, secret.upper()} & {together[at : at + len(secret)] for at in range(len(together))}
    if secret not in text and secret.upper() not in text:
        assert together == text, "nothing is lost of what is none"


def test_a_secret_in_two_texts_is_in_neither_and_a_text_that_ends_like_one_waits() -> None:
    masking = MaskingOfTexts(mask("hunter-2-hunter"))
    assert masking.feed(b"the key is hunter-2") == b"the key is "
    assert masking.feed(b"-hunter, mind") == b"[secret], mind"
    assert masking.feed(b"hun") == b"hun", "three signs are no secret's"
    assert masking.feed(b"ter-2-hunter!") == b"[secret]!"
    assert masking.feed(b"a hunter") == b"a "
    assert masking.end() == b"hunter"
    assert masking.feed(b"-2-hunter.") == b"[secret]."


@pytest.mark.parametrize(
    "written",
    [
        "HUNTER-2-Ö",
        "hunter-2-ö",
        "".join(f"\\u{ord(each):04x}" for each in "Hunter-2-Ö"),
        "".join(f"\\u{ord(each):04X}" for each in "Hunter-2-Ö"),
    ],
)
def test_a_secret_in_other_letters_and_in_escapes_alone_is_masked(written: str) -> None:
    assert mask("Hunter-2-Ö").apply(written.encode()) == b"[secret]"
    assert mask("Prod").apply(b"prod PROD") == b"prod PROD", "a short one would be an ordinary word"
    assert (
        mask("kluczyk-\U0001f511").apply(b"\\u006b\\u006c\\u0075\\u0063\\u007a\\u0079\\u006b\\u002d\\ud83d\\udd11")
        == b"[secret]"
    )
