"""Takes what is personal out of texts and data: e-mail addresses, telephone, card and account numbers and IP addresses, each
replaced by another of its kind, the same everywhere that one salt is used. Keys of known services go too, as a mark.

A replacement is as valid as what it replaces: a card's check digit, an account's check digits, the shape of a telephone number
and of a date stay right, so that data fits its schema afterwards. Declared secrets are no matter of this: they are never
stored. Never here: where such a value stands, what else is personal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any, Final
from uuid import UUID

import msgspec

from holdfast.platform.machine import salt

_KINDS: Final = (
    ("email", "@", re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+")),
    (
        "key",
        "",
        re.compile(
            r"(?<![\w-])(?:(?:sk|pk|rk)[-_][\w-]{16,200}|gh[oprsu]_\w{20,255}|github_pat_\w{20,255}|glpat-[\w-]{16,64}"
            r"|xox[abeoprs]-[\w-]{10,200}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{35}|ya29\.[\w-]{20,500}|hf_\w{20,64}|whsec_[\w+/=]{16,128}"
            r"|eyJ[\w-]{10,4000}\.[\w-]{10,4000}\.[\w-]{10,4000})(?![\w-])"
        ),
    ),
    ("account", "", re.compile(r"[A-Z](?<!\w[A-Z])[A-Z]\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")),
    (
        "address",
        ":",
        re.compile(r"[0-9A-Fa-f:](?<![\w:.][0-9A-Fa-f:])(?:(?<=:)|[0-9A-Fa-f]{0,3}):[0-9A-Fa-f:]{1,34}(?![\w:]|\.\d)"),
    ),
    ("address", ".", re.compile(r"\d(?<![\w.]\d)\d{0,2}(?:\.\d{1,3}){3}(?!\w|\.\d)")),
    ("number", "", re.compile(r"[+\d](?<![\w.-][+\d])(?:(?<=\d)|\d)(?:[ ()/-]{0,2}\d){8,18}(?![\w-]|\.\w)")),
)
"""Kinds of personal data by their shape, in this order, each with a sign that it cannot do without. A number is a
telephone's or a card's: at least nine digits, in groups or not. The character before it is checked after its first one, so
that the search skips to such characters."""
_RESERVED_V4: Final = 0xF0000000
"""240.0.0.0/4, which no machine has."""
_RESERVED_V6: Final = 0x20010DB8 << 96
"""2001:db8::/32, for documentation."""
_CARD: Final = range(13, 20)
"""Digits of a card, the last of which checks the others (Luhn)."""
_CARD_NUMBERS: Final = range(15, 20)
"""Digits of a card that is written as a number."""
_DATE: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:([T ])\d{2}:\d{2}(:\d{2}(?:\.\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?)?")
MAX_LEARNED: Final = 1_000
"""Values of declared fields that are looked for in the texts of one record."""
_SHORTEST: Final = 4
"""Characters of such a value: a shorter one is part of many words."""
_LONGEST: Final = 200


class PersonalData:
    """The rules of one salt; `fields` are replaced as a whole, by their names in any letter case."""

    def __init__(self, fields: Collection[str] = ()) -> None:
        self._fields = frozenset(name.casefold() for name in fields)
        self._salt = salt()
        self._learned: re.Pattern[str] | None = None

    def mark(self, value: str, digits: int = 10) -> str:
        """Return what stands for a value: the same for equal ones."""
        return hashlib.sha256(self._salt + value.encode()).hexdigest()[:digits]

    def learn(self, *data: Any) -> None:
        """Look for the values that declared fields have in these data in all texts from now on, and for no earlier ones."""
        values = sorted({each for one in data for each in self._declared(one)}, key=len, reverse=True)[:MAX_LEARNED]
        self._learned = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, values))})(?!\w)") if values else None

    def without(self, text: str) -> str:
        """Return a text without personal data."""
        if self._learned is not None:
            text = self._learned.sub(lambda found: self._whole(found[0]), text)
        found = [
            (match.start(), rank, match.end(), kind)
            for rank, (kind, sign, pattern) in enumerate(_KINDS)
            if sign in text
            for match in pattern.finditer(text)
        ]
        parts, at = list[str](), 0
        for start, _, end, kind in sorted(found):
            if start >= at:  # else it is a part of what was found before
                parts += text[at:start], self._other(kind, text[start:end])
                at = end
        return "".join((*parts, text[at:])) if parts else text

    def data(self, value: Any, *, is_whole: bool = False) -> Any:
        """Return data as plain JSON without personal data; with `is_whole`, without any text or number."""
        value = _plain(value)
        if isinstance(value, dict):
            return {
                self.without(name): self.data(inner, is_whole=is_whole or name.casefold() in self._fields)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [self.data(inner, is_whole=is_whole) for inner in value]
        if isinstance(value, str):
            return self._whole(value) if is_whole and value else self.without(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if is_whole:
            return type(value)(0)
        return int(self._number(str(value))) if _is_card(value) else value

    def _declared(self, value: Any, *, is_whole: bool = False) -> Iterator[str]:
        """Yield the texts in declared fields that differ from other words."""
        value = _plain(value)
        if isinstance(value, dict):
            for name, inner in value.items():
                yield from self._declared(inner, is_whole=is_whole or name.casefold() in self._fields)
        elif isinstance(value, list):
            for inner in value:
                yield from self._declared(inner, is_whole=is_whole)
        elif is_whole and isinstance(value, str) and len(value.strip()) >= _SHORTEST and len(value) <= _LONGEST:
            yield value

    def _whole(self, value: str) -> str:
        """Return what stands for a text: of the same kind, if it is a date, a UUID, or personal by its shape."""
        if (date := _DATE.fullmatch(value)) is not None:
            part, seconds = date[2], ":00" if date[3] else ""
            return "2000-01-01" + (f"{part}00:00{seconds}{date[4] or ''}" if part else "")
        if len(value) == 36 and value.count("-") == 4:
            return str(UUID(self.mark(value, 32)))
        if (kind := next((kind for kind, _, pattern in _KINDS if pattern.fullmatch(value)), None)) is not None:
            return self._other(kind, value)
        return f"redacted-{self.mark(value)}"

    def _other(self, kind: str, text: str) -> str:
        """Return what stands for something that is personal by its shape."""
        match kind:
            case "email":
                return f"{self.mark(text.casefold())}@redacted.invalid"
            case "account":
                return self._account(text)
            case "key":
                return f"redacted-{self.mark(text)}"
            case "number":
                return self._number(text)
            case _:
                return self._address(text)

    def _number(self, match: str) -> str:
        """Other digits in the same shape; the last one checks the others where it did before."""
        digits = [int(each) for each in match if each.isdigit()]
        others = iter(self._others(match, len(digits), is_card=len(digits) in _CARD and _luhn(digits) == 0))
        return "".join(next(others) if sign.isdigit() else sign for sign in match)

    def _others(self, match: str, count: int, *, is_card: bool) -> str:
        found = str(int(self.mark(match, 16), 16)).zfill(20)[:count]
        if match.isdigit() and match[0] != "0":  # as a number it keeps its length
            found = match[0] + found[1:]
        return found[:-1] + str((10 - _luhn([*map(int, found[:-1]), 0])) % 10) if is_card else found

    def _account(self, match: str) -> str:
        """An account of the same country and shape, with right check digits where they were right before."""
        compact = match.replace(" ", "")
        places = iter(self.mark(compact, 60))
        rest = "".join(_of_kind(each, next(places)) for each in compact[4:])
        check = 98 - _mod_97(f"{rest}{compact[:2]}00")
        shown = iter(f"{compact[:2]}{check:02}{rest}")
        return "".join(sign if sign == " " else next(shown) for sign in match)

    def _address(self, match: str) -> str:
        """A reserved address; addresses of the machine itself identify no person."""
        try:
            address = IPv4Address(match) if "." in match else IPv6Address(match)
        except AddressValueError:
            return match
        if address.is_loopback or address.is_unspecified:
            return match
        value = int(self.mark(str(address), 24), 16)
        if isinstance(address, IPv4Address):
            return str(IPv4Address(_RESERVED_V4 | value & 0x0FFFFFFF))
        return str(IPv6Address(_RESERVED_V6 | value))


def _plain(value: Any) -> Any:
    """Return the outermost level of data as JSON has it: what is written as an object or an array is a dict or a list."""
    if value is None or isinstance(value, str | int | float | bytes | bytearray | memoryview):
        return value
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else str(name): inner for name, inner in value.items()}
    if isinstance(value, Sequence):
        return list(value)
    return msgspec.json.decode(msgspec.json.encode(value))  # structs, data classes, sets, times


def _is_card(value: float) -> bool:
    """Return True for a whole number that is a card's: times and amounts begin otherwise, or are shorter."""
    text = str(value)
    return len(text) in _CARD_NUMBERS and text.isdigit() and text[0] in "23456" and _luhn([*map(int, text)]) == 0


def _of_kind(sign: str, digit: str) -> str:
    """Return a digit for a digit, and a letter for a letter."""
    return str(int(digit, 16) % 10) if sign.isdigit() else chr(ord("A") + int(digit, 16))


def _luhn(digits: list[int]) -> int:
    """Return the sum that is 0 for a card's number."""
    doubled = (digit * 2 - 9 if digit > 4 else digit * 2 for digit in digits[-2::-2])
    return (sum(digits[::-2]) + sum(doubled)) % 10


def _mod_97(account: str) -> int:
    """Return the remainder by which an account is checked (ISO 7064), its letters counted from 10."""
    return int("".join(str(int(sign, 36)) for sign in account)) % 97


class Blank(PersonalData):
    """Replaces each value by the same one: texts that differ only in what was replaced become equal."""

    def mark(self, value: str, digits: int = 10) -> str:
        return "0" * digits
