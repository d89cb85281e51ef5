"""JSON that others have written, as data: only so much of it, for two bytes of text may be an object in memory. To count takes
no longer than to decode what may come in: it goes on in the event loop, where a caller's share of the time is kept.

Never here: what the data is for.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.errors import InvalidInput

MOST_ITEMS: Final = 200_000
"""Lists, objects and what stands in them: with so many in memory nobody waits for a tenth of a second."""
_MOST_QUOTES: Final = 4 * MOST_ITEMS + 2
"""No text with more has few enough values: an object has two strings for each."""


def decoded(text: str, what: str) -> Any:
    """The value; None of an empty text. Raises InvalidInput, in which `what` names the text."""
    if not text:
        return None
    # As many as there can be; where that is too many, some may stand in strings.
    if _separators(text) > MOST_ITEMS and _has_too_many(text):
        raise InvalidInput(
            f"The {what} has more than {MOST_ITEMS:,} values. Nothing was done: hand over where the data is instead."
        )
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise InvalidInput(f"The {what} is no JSON: {problem}. Nothing was done.") from None


def _separators(text: str) -> int:
    return sum(map(text.count, "[{,"))


def _has_too_many(text: str) -> bool:
    if "\\" in text:  # a quote behind an odd number of them ends no string
        text = text.replace("\\\\", "").replace('\\"', "")
    if text.count('"') > _MOST_QUOTES:
        return True
    return _separators("".join(text.split('"')[::2])) > MOST_ITEMS
