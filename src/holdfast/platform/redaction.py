"""Takes what is personal out of texts and data: e-mail addresses, telephone, card and account numbers, each replaced by another
of its kind, the same everywhere that one salt is used.

Secrets are no matter of this: they are never stored. Never here: where such a value stands, what else is personal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import Any, Final

from holdfast.platform.machine import salt

_EMAIL: Final = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+")
_IBAN: Final = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_DIGITS: Final = re.compile(r"(?<![\w.-])\+?\d(?:[ ()/-]{0,2}\d){8,18}(?![\w-]|\.\w)")
"""Of a telephone or a card: at least nine, in groups or not."""


class PersonalData:
    """The rules of one salt; `fields` are replaced as a whole, by their names in any letter case."""

    def __init__(self, fields: Collection[str] = ()) -> None:
        self._fields = frozenset(name.casefold() for name in fields)
        self._salt = salt()

    def mark(self, value: str, digits: int = 10) -> str:
        """Return what stands for a value: the same for equal ones."""
        return hashlib.sha256(self._salt + value.encode()).hexdigest()[:digits]

    def without(self, text: str) -> str:
        """Return a text without personal data."""
        text = _EMAIL.sub(lambda found: f"{self.mark(found[0].casefold())}@redacted.invalid", text)
        text = _IBAN.sub(lambda found: f"XX00{self.mark(found[0]).upper()}", text)
        return _DIGITS.sub(lambda found: self._number(found[0]), text)

    def data(self, value: Any, *, is_whole: bool = False) -> Any:
        """Return plain JSON data without personal data; with `is_whole`, without any text or number."""
        if isinstance(value, dict):
            return {
                self.without(name): self.data(inner, is_whole=is_whole or name.casefold() in self._fields)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [self.data(inner, is_whole=is_whole) for inner in value]
        if isinstance(value, str):
            return f"redacted-{self.mark(value)}" if is_whole and value else self.without(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return type(value)(0) if is_whole and is_number else value

    def _number(self, match: str) -> str:
        """Other digits in the same shape."""
        digits = iter(str(int(self.mark(match, 16), 16)).zfill(20))
        return "".join(next(digits) if sign.isdigit() else sign for sign in match)


class Blank(PersonalData):
    """Replaces each value by the same one: texts that differ only in what was replaced become equal."""

    def mark(self, value: str, digits: int = 10) -> str:
        return "0" * digits
