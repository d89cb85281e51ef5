"""The client that blocks, written from the one that awaits: `src/holdfast/client/client.py`.

`make reference` writes it down; a test holds it current. Never here: a method; those are where they are awaited.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from sync_stub import formatted

import holdfast

PLACE: Final = Path(holdfast.__file__).parent / "client" / "client.py"
_SOURCE: Final = PLACE.with_name("async_client.py")
_BLOCKING: Final = (
    (r'\A""".*?"""', '"""The client that blocks. `make reference` writes it from async_client; a test holds it current."""'),
    (r"\basync (?=def|for|with)|\bawait ", ""),
    (r"\basyncio\b", "time"),
    (r"\bAsync(?=Client)", ""),
    (r"\bAsyncGenerator\b", "Iterator"),
    (r"\b__a(?=enter__|exit__)|\ba(?=close\(|read\()", lambda prefix: prefix[0][:-1]),
)
"""Each form of the one that awaits, and that of the one that blocks."""


def text() -> str:
    """Return the whole file."""
    found = _SOURCE.read_text(encoding="utf-8")
    for awaited, blocking in _BLOCKING:
        found = re.sub(awaited, blocking, found, flags=re.DOTALL)
    return formatted(found, PLACE)


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")
