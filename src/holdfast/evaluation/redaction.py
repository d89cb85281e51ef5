"""Takes what is personal out of a record: each value is replaced by another of its kind, the same everywhere in a file.

Secrets are no matter of this: they are never stored. Never here: which fields are personal, but for those of the engine's own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from typing import Any, Final

from holdfast.core.facts import events as ev
from holdfast.core.values.payload import Payload, inline
from holdfast.evaluation.rewriting import rewrite
from holdfast.platform.machine import salt

_EMAIL: Final = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+")
_IBAN: Final = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_DIGITS: Final = re.compile(r"(?<![\w.-])\+?\d(?:[ ()/-]{0,2}\d){8,18}(?![\w-]|\.\w)")
"""Of a telephone or a card: at least nine, in groups or not."""
_PEOPLE: Final = frozenset({"by", "os_user", "client"})
_WORDS: Final = frozenset({"message", "reason", "key", "trace"})


class Redaction:
    """The redaction rules for the records of one file. They remove e-mail addresses, telephone, card and account numbers, the
    names of actors, and the whole values of `fields`, by their names in any letter case."""

    def __init__(self, fields: Collection[str] = ()) -> None:
        self._fields = frozenset(name.casefold() for name in fields)
        self._salt = salt()

    def of(self, event: ev.Event) -> ev.Event:
        return rewrite(event, self._leaf)

    def _leaf(self, name: str, value: Any) -> Any:
        if isinstance(value, Payload):
            return inline(self._data(value.value()))
        if not isinstance(value, str):
            return self._data(value)
        if name in _PEOPLE and value:
            return f"redacted-{self._mark(value)}"
        return self._text(value) if name in _WORDS else value

    def _mark(self, value: str, digits: int = 10) -> str:
        return hashlib.sha256(self._salt + value.encode()).hexdigest()[:digits]

    def _text(self, text: str) -> str:
        text = _EMAIL.sub(lambda found: f"{self._mark(found[0].casefold())}@redacted.invalid", text)
        text = _IBAN.sub(lambda found: f"XX00{self._mark(found[0]).upper()}", text)
        return _DIGITS.sub(lambda found: self._number(found[0]), text)

    def _number(self, match: str) -> str:
        """Other digits in the same shape."""
        digits = iter(str(int(self._mark(match, 16), 16)).zfill(20))
        return "".join(next(digits) if sign.isdigit() else sign for sign in match)

    def _data(self, value: Any, *, is_whole: bool = False) -> Any:
        if isinstance(value, dict):
            return {
                self._text(name): self._data(inner, is_whole=is_whole or name.casefold() in self._fields)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [self._data(inner, is_whole=is_whole) for inner in value]
        if isinstance(value, str):
            return f"redacted-{self._mark(value)}" if is_whole and value else self._text(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return type(value)(0) if is_whole and is_number else value
