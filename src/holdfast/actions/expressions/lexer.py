"""Text into tokens, as GitHub's runner cuts it. Says what a foreign sign would be here, so that its writer can mend it.

Never here: what may follow what; that is the parser's.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from holdfast.actions.expressions.value import WHITESPACE, number_in
from holdfast.errors import ExpressionError

LENGTH_LIMIT = 21_000
"""Of one expression, in UTF-16 units, as GitHub counts."""

SHOWN_LENGTH = 60
"""How much of a file's text an error repeats at most."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SUM = re.compile(r"[+-]?[0-9.]+[-+*/%]")
_BOUNDARY = frozenset("()[],.!<>=&|") | frozenset(WHITESPACE)
_PAIRS = ("==", "!=", "<=", ">=", "&&", "||")


class Sort(StrEnum):
    """The sorts of tokens; SIGN is everything that is written with signs."""

    NUMBER = "number"
    STRING = "string"
    WORD = "word"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is the source; `value` what a number or a string means."""

    sort: Sort
    text: str
    offset: int
    value: float | str = ""

    def __str__(self) -> str:
        return "end" if self.sort is Sort.END else quote_excerpt(self.text)


def tokens_of(text: str) -> list[Token]:
    """All tokens, the last of which is END. Raises ExpressionError."""
    if len(text) > LENGTH_LIMIT or len(text.encode("utf-16-le", "surrogatepass")) > 2 * LENGTH_LIMIT:
        raise ExpressionError(
            f"An expression may have {LENGTH_LIMIT:,} characters; this one has {len(text):,}. "
            "Compute the value in a step and use its output instead.",
            0,
        )
    found: list[Token] = []
    at = 0
    while True:
        while at < len(text) and text[at] in WHITESPACE:
            at += 1
        if at == len(text):
            break
        token = _token_at(text, at, found[-1] if found else None)
        found.append(token)
        at += len(token.text)
    return [*found, Token(Sort.END, "", len(text))]


def quote_excerpt(text: str) -> str:
    """A piece of the file, quoted and short enough for a message."""
    return f"`{text}`" if len(text) <= SHOWN_LENGTH else f"`{text[:SHOWN_LENGTH]}…`"


def end_of_string(text: str, start: int) -> int:
    """Return the end of the string whose quote is at `start`. Raises ExpressionError."""
    end = start + 1
    while True:
        end = text.find("'", end) + 1
        if not end:
            line = text[start:].splitlines()[0]
            raise ExpressionError(
                f"The string {quote_excerpt(line)} is not closed: it ends with a single quote, and a quote inside it is "
                "written twice, as in 'it''s'.",
                start,
            )
        if text[end : end + 1] != "'":
            return end
        end += 1


def _token_at(text: str, offset: int, last: Token | None) -> Token:
    char = text[offset]
    if char == "'":
        return _string(text, offset)
    if char in "+-0123456789" or (char == "." and _begins_operand(last)):
        return _number(text, offset)
    if char in "()[],.*":
        return Token(Sort.SIGN, char, offset)
    if text[offset : offset + 2] in _PAIRS:
        return Token(Sort.SIGN, text[offset : offset + 2], offset)
    if char in "!<>":
        return Token(Sort.SIGN, char, offset)
    end = _boundary(text, offset + 1)
    if _WORD.fullmatch(text, offset, end):
        return Token(Sort.WORD, text[offset:end], offset)
    raise _foreign(text[offset:end], offset)


def _begins_operand(last: Token | None) -> bool:
    """Return True if a point at this place begins a number. It then is no access to something before it."""
    return last is None or (last.sort is Sort.SIGN and last.text not in (")", "]", "*", "."))


def _boundary(text: str, offset: int, through: str = "") -> int:
    while offset < len(text) and (text[offset] not in _BOUNDARY or text[offset] in through):
        offset += 1
    return offset


def _string(text: str, start: int) -> Token:
    end = end_of_string(text, start)
    return Token(Sort.STRING, text[start:end], start, text[start + 1 : end - 1].replace("''", "'"))


def _number(text: str, start: int) -> Token:
    end = _boundary(text, start + 1, through=".")
    value = number_in(text[start:end])
    if math.isnan(value):
        raise _foreign(text[start:end], start)
    return Token(Sort.NUMBER, text[start:end], start, value)


def _foreign(name: str, offset: int) -> ExpressionError:
    return ExpressionError(f"Unexpected symbol {quote_excerpt(name)}. {_advice(name)}", offset)


def _advice(name: str) -> str:
    """Return a guess at what the author meant."""
    first = name[0]
    if first in "=&|":
        return f"Did you mean `{first}{first}`?"
    if '"' in name:
        return "Strings take single quotes, as in 'text'."
    if first == "`":
        return "Strings take single quotes, as in 'text'; there are no templates inside an expression."
    if first == "$":
        return "Shell variables are unknown here; an expression reads the environment as env.NAME."
    if first in "{}":
        return "An expression has no braces; a JSON object is written as fromJSON('{…}')."
    if first in "?:":
        return "There is no `? :`; write case(condition, value, other) or condition && value || other."
    if _SUM.match(name):
        return "There is no arithmetic; compute it in a step and use the step's output."
    if first.isdigit() or (first in "+-." and name[1:2].isdigit()):
        return "A number is written like 42, -1.5, 1e3, 0xff or 0o17 (the last two up to 32 bits and without sign)."
    if any(sign in name for sign in "+-*/%^~"):
        return "There is no arithmetic; a name consists of letters, digits, `_` and `-`; text stands in single quotes."
    return "A name consists of letters, digits, `_` and `-` and begins with a letter or `_`; text stands in single quotes."
