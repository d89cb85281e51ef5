"""Secrets out of texts: every form in which a program writes one down is found, and replaced. So is what Pydantic shows.

Which forms there are follows what CI runners mask: text as it is, in base64 at each of its three alignments, in hex, in
JSON, in a URL, in HTML and XML, in the quotes of shells and languages; with escapes in large letters and in small ones.
Never here: which values are secret, reading them from anywhere.
"""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote, quote_plus, unquote, urlsplit
from weakref import ref

from pydantic_core import ValidationError

MASK: Final = b"[secret]"
SHORTEST: Final = 4
"""Least number of characters of a secret, or a form of one, to distinguish it from ordinary text."""
_LINE: Final = 8
"""The same of a line of a secret of several lines (a key in PEM is often printed line by line), and of what nobody has
called a secret: the password of an address."""

_MAX_EXCEPTIONS: Final = 100
"""That led to one another, or stand in one group."""

_CAUSES: Final[tuple[Any, ...]] = (BaseException.__cause__, BaseException.__context__)
"""As Python keeps them: a class of a user's may have others of these names."""

_ESCAPE: Final = re.compile(r"%[0-9A-F]{2}|\\[ux][0-9a-f]{2,8}")
_SHIFTS: Final = ((0, 0), (1, 2), (2, 3))
"""Bytes before the value in a group of three, and how many digits of base64 they have a part in."""
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_IN_URL: Final = re.compile(r"(://[^\s:/@]*):\S*@|((?:[?&;]|\b)(?:ssl)?password=)[^\s&'\"]+")


IN_A_URL: Final = "In a user or a password, signs like / @ : # are written %2F %40 %3A %23."
"""What to say of a URL that cannot be read: what Python says of it may hold a part of the password."""


def without_passwords(text: str) -> str:
    """`text` with no password in the addresses that stand in it."""
    return _IN_URL.sub(lambda found: f"{found[1]}:***@" if found[1] is not None else f"{found[2]}***", text)


def passwords(address: str) -> set[str]:
    """The passwords in a URL, as they are written there and as they are meant. One that is short, or the name of the
    user, would be found in ordinary texts, and is no secret."""
    try:
        parts = urlsplit(address)
        said = {parts.password or ""}
    except ValueError:
        return set()
    said |= {value for name, _, value in (word.partition("=") for word in parts.query.split("&")) if "password" in name}
    return {form for each in said for form in (each, unquote(each)) if len(form) >= _LINE and form != parts.username}


def forms(value: str) -> set[bytes]:
    """Return the spellings of `value`, without those shorter than SHORTEST."""
    lines = [line.strip() for line in value.splitlines()]
    texts = {value, value.strip().strip("\"'"), *(line for line in lines if len(line) >= _LINE and len(lines) > 1)}
    if len(value) >= _LINE:  # a short one in other letters would be an ordinary word
        texts |= {value.lower(), value.upper()}
        texts |= {"".join(f"\\u{ord(sign):04{hexes}}" for sign in _halves(value)) for hexes in "xX"}
    for is_ascii in (True, False):
        once = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        texts |= {once, json.dumps(once, ensure_ascii=is_ascii)[1:-1], once.replace("/", "\\/")}
        texts.add(re.sub(r"[<>&'+]", lambda found: f"\\u{ord(found[0]):04x}", once))  # for JSON inside HTML
    texts |= {repr(value)[1:-1], value.encode("unicode_escape").decode()}
    texts |= {quote(value, safe=safe) for safe in ("", "/", "!~*'()", "!~*'();/?:@&=+$,#")} | {quote_plus(value)}
    marked = html.escape(value)
    texts |= {html.escape(value, quote=False), marked, marked.replace("&#x27;", "&apos;"), marked.replace("&#x27;", "'")}
    texts |= {marked.replace("&#x27;", "&#39;"), marked.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")}
    texts |= {value.replace("'", other) for other in ("'\\''", "'\"'\"'", "''", "\\'")} | {value.replace('"', '\\"')}
    texts |= {re.sub(r'(["\\$`])', r"\\\1", value), value.replace("\\", "\\\\")}
    texts |= {_ESCAPE.sub(_in_other_letters, text) for text in texts}
    raw = value.encode("utf-8", "replace")
    found = {text.encode("utf-8", "replace") for text in texts} | {raw.hex().encode(), raw.hex().upper().encode()}
    for before, shared in _SHIFTS:
        digits = base64.b64encode(b"\0" * before + raw)[shared : (before + len(raw)) * 8 // 6]
        found |= {digits, digits.translate(_URL_SAFE)}
    return {form for form in found if len(form) >= SHORTEST}


def _halves(value: str) -> str:
    """A text as JSON escapes it, sign by sign: those beyond the first plane as two."""
    wide = value.encode("utf-16-be", "surrogatepass")
    return "".join(chr(int.from_bytes(wide[at : at + 2], "big")) for at in range(0, len(wide), 2))


def _in_other_letters(escape: re.Match[str]) -> str:
    mark = 1 if escape[0][0] == "%" else 2
    return escape[0][:mark] + (escape[0][mark:].lower() if mark == 1 else escape[0][mark:].upper())


def validation_in_words(problem: ValidationError) -> str:
    """Return Pydantic's message without its input, which may be a card number."""
    found = problem.errors(include_url=False, include_input=False, include_context=False)
    lines = [f"{'.'.join(map(str, each['loc'])) or 'value'}\n  {each['msg']} [type={each['type']}]" for each in found]
    return "\n".join([f"{len(found)} validation error{'s'[: len(found) - 1]} for {problem.title}", *lines])


def without_inputs(text: str, problem: BaseException | None) -> str:
    """Return a text that quotes an exception, with all that led to it, without the inputs that Pydantic shows. Raises
    nothing."""
    left, seen = [problem], set[int]()
    while left and len(seen) < _MAX_EXCEPTIONS:
        each = left.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        left += _led_to(each)
        if type(each) is ValidationError:
            text = text.replace(str(each), validation_in_words(each))
            for line in str(each).splitlines():  # of one in a group each line has something before it
                text = text.replace(line, line.partition(", input_value=")[0])
    return text


def _led_to(problem: BaseException) -> tuple[BaseException | None, ...]:
    inner: tuple[BaseException, ...] = ()
    if issubclass(type(problem), BaseExceptionGroup):
        inner = BaseExceptionGroup.exceptions.__get__(problem)[:_MAX_EXCEPTIONS]
    return (*inner, *(each.__get__(problem) for each in _CAUSES))


class _Shared:
    """The masks of this process, read by each line of the log and so without a lock."""

    masks: tuple[ref[Mask], ...] = ()
    changing: Final = threading.RLock()
    """Not a plain one: the end of a mask may be noticed while another is added."""


def share(mask: Mask) -> None:
    """Have `without_secrets` take out the values of this mask too, for as long as anything has it."""
    with _Shared.changing:
        _Shared.masks = (*_Shared.masks, ref(mask, _forget))


def _forget(mask: ref[Mask]) -> None:
    with _Shared.changing:
        _Shared.masks = tuple([each for each in _Shared.masks if each is not mask])


def without_secrets(data: bytes) -> bytes:
    """`data` without the values of any secret that this process knows."""
    for each in _Shared.masks:
        if (mask := each()) is not None:
            data = mask.apply(data)
    return data


class Mask:
    """Replaces what it knows. The time that takes grows with the text: a pattern finds where the first four bytes of any
    form stand, and there the forms that begin so are compared. Safe to use in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: set[str] = set()
        self._new: set[str] = set()
        self._forms: dict[bytes, list[bytes]] = {}
        self._longest = 0
        self._starts: frozenset[bytes] = frozenset()
        """What a form may begin with that is shorter than SHORTEST."""
        self._pattern: re.Pattern[bytes] | None = None

    def __len__(self) -> int:
        return len(self._values)

    def add(self, values: Iterable[str]) -> None:
        """Know these too. Those shorter than SHORTEST are passed over."""
        with self._lock:
            new = {value for value in values if len(value) >= SHORTEST} - self._values
            self._values |= new
            self._new |= new

    def apply(self, data: bytes) -> bytes:
        """`data` without the values. The same object if there was none."""
        if not self._new and (self._pattern is None or self._pattern.search(data) is None):
            return data
        return self.begun(data)[0]

    def begun(self, data: bytes, *, goes_on: bool = False) -> tuple[bytes, bytes]:
        """`data` without the values, and what of its end may be the beginning of one, if it `goes_on`."""
        places, rest = self.places(data, goes_on=goes_on)
        kept = places[-1][1] if places else 0
        if goes_on and rest == len(data):
            ends = range(max(kept, len(data) - SHORTEST + 1), len(data))
            rest = next((start for start in ends if data[start:] in self._starts), rest)
        if not places and rest == len(data):
            return data, b""
        return _masked(data, 0, places, rest), data[rest:]

    def places(self, data: bytes, *, goes_on: bool = False) -> tuple[list[tuple[int, int]], int]:
        """Return where the values stand in `data`; and, if it `goes_on`, where one may begin, with SHORTEST bytes or more: else
        its end."""
        if self._new:
            self._learn()
        pattern, forms = self._pattern, self._forms
        found_at: list[tuple[int, int]] = []
        at = 0
        while pattern is not None and (found := pattern.search(data, at)) is not None:
            at = found.start()
            if goes_on and any(len(form) > len(data) - at and form.startswith(data[at:]) for form in forms[found[0]]):
                return found_at, at
            form = next((form for form in forms[found[0]] if data.startswith(form, at)), None)
            if form is None:
                at += 1
                continue
            found_at.append((at, at + len(form)))
            at += len(form)
        return found_at, len(data)

    @property
    def longest(self) -> int:
        """The bytes of the longest form."""
        return self._longest

    def _learn(self) -> None:
        """Add the new values to the pattern, with the first text after them: secrets come many at once."""
        with self._lock:
            known = {start: set(group) for start, group in self._forms.items()}
            for form in (form for value in self._new for form in forms(value)):
                known.setdefault(form[:SHORTEST], set()).add(form)
            # The forms before the pattern: a masking meanwhile finds every start that it knows.
            self._forms = {start: sorted(group, key=len, reverse=True) for start, group in known.items()}
            self._starts = frozenset(start[:size] for start in known for size in range(1, SHORTEST))
            self._longest = max((len(group[0]) for group in self._forms.values()), default=0)
            self._pattern = re.compile(_any_of(self._forms), re.DOTALL)
            self._new = set()


class Masking:
    """A text that comes in pieces, masked as it would be as a whole: what may be the beginning of a value waits for more."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._rest = b""

    def feed(self, piece: bytes) -> bytes:
        """Add a piece, and return the masked text that is final; in whole characters if the pieces are."""
        told, self._rest = self._mask.begun(self._rest + piece, goes_on=True)
        return told

    def end(self) -> bytes:
        """Return the rest, which turned out not to begin a masked value."""
        rest, self._rest = self._rest, b""
        return self._mask.apply(rest)


class MaskingOfTexts:
    """Texts that are sent one after the other, masked so that no two of them show a value together. Only the beginning of a
    value with SHORTEST bytes or more waits for the next text; a shorter one is sent, and its rest is not."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._told = b""
        """The end of what was told, as far as a value may begin in it."""
        self._held = b""

    def feed(self, text: bytes) -> bytes:
        """Return the part of a text that is final, behind the part that waited."""
        data, known = self._told + self._held + text, len(self._told)
        places, rest = self._mask.places(data, goes_on=True)
        over = places[-1][1] if places else 0
        rest = max(rest, known, over)
        told = _masked(data, known, [(max(first, known), end) for first, end in places if end > known], rest)
        self._told, self._held = data[max(over, rest - self._mask.longest, 0) : rest], data[rest:]
        return told

    def end(self) -> bytes:
        """Return what has waited, and turned out to be no beginning."""
        held, self._held = self._held, b""
        self._told = (self._told + held)[-self._mask.longest :] if held else self._told
        return held


def _masked(data: bytes, first: int, places: Iterable[tuple[int, int]], end: int) -> bytes:
    """`data` from one place to another, without the values at `places`."""
    pieces: list[bytes] = []
    for begins, ends in places:
        pieces += (data[first:begins], MASK)
        first = ends
    return b"".join([*pieces, data[first:end]])


def _any_of(words: Iterable[bytes]) -> bytes:
    """A pattern of words of one length that reads no byte of a text twice."""
    heads: dict[bytes, set[bytes]] = {}
    for word in words:
        heads.setdefault(word[:1], set()).add(word[1:])
    if all(rests == {b""} for rests in heads.values()):
        return b"[" + b"".join(re.escape(head) for head in sorted(heads)) + b"]"
    ways = [re.escape(head) + _any_of(rests) for head, rests in sorted(heads.items())]
    return ways[0] if len(ways) == 1 else b"(?:" + b"|".join(ways) + b")"
