"""JSON that others have written, as data: only so much of it, for two bytes of text may be an object in memory, and what takes
long to count is not counted in the event loop.

Never here: what the data is for.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidInput

MOST_ITEMS: Final = 200_000
"""Lists, objects and what stands in them: with so many in memory nobody waits for a tenth of a second."""

_ITEM: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{,]', re.DOTALL)


async def decoded(text: str, what: str) -> Any:
    """The value; None of an empty text. Raises InvalidInput, in which `what` names the text."""
    if not text:
        return None
    # As many as there can be, counted at once; where that is too many, some may stand in strings.
    if sum(map(text.count, "[{,")) > MOST_ITEMS and await asyncio.to_thread(_has_too_many, text):
        raise InvalidInput(
            f"The {what} has more than {MOST_ITEMS:,} values. Nothing was done: hand over where the data is instead."
        )
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as problem:
        raise InvalidInput(f"The {what} is no JSON: {problem}. Nothing was done.") from None


def _has_too_many(text: str) -> bool:
    seen = 0
    for found in _ITEM.finditer(text):
        seen += found[0][0] != '"'
        if seen > MOST_ITEMS:
            return True
    return False
