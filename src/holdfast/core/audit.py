"""The audit log: who did what from outside, from where, and what came of it, each entry chained to the one before by its hash.

An entry that was changed, taken out or put in between breaks the chain from there on; one who can write the store can write the
whole chain anew, so its newest hash is worth keeping elsewhere. Never here: where it is kept (ports.audit).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

FIRST: Final = "0" * 64
"""What stands before the first entry."""
DONE: Final = "done"
MOST_CHARACTERS: Final = 200
"""Of each text of an entry: who is refused writes here too."""


class Entry(NamedTuple):
    """What somebody did. `outcome` is `done`, or the code of the error with which it was refused."""

    at_ms: int
    deed: str
    """The command: `Decide`."""
    about: str
    """What it was done to: a run, a gate, a name."""
    outcome: str
    name: str
    """Who acts."""
    verified: bool
    """Whether the name is that of the token or key, and not a claim of its holder."""
    client: str = ""
    """Whose token or key it came with."""
    os_user: str = ""
    """The operating system's user who typed it."""
    origin: str = ""
    """From where: the address of the connection."""
    tenant: str = ""
    """For whom they act; empty for everybody."""
    trace_id: str = ""

    def bounded(self) -> Entry:
        """The same, with no text longer than an entry may have."""
        texts: dict[str, Any] = {name: _cut(each) for name, each in self._asdict().items() if isinstance(each, str)}
        return self._replace(**texts)


class Link(NamedTuple):
    """An entry in its place."""

    number: int
    entry: Entry
    hash: str


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def link(before: str, number: int, entry: Entry) -> Link:
    """The entry after the one with the hash `before`."""
    text = msgspec.json.encode((before, number, *entry))
    return Link(number, entry, hashlib.sha256(text).hexdigest())


def broken(links: Iterable[Link], before: str = FIRST) -> int | None:
    """The number of the first entry that does not follow from the one before; None where all do."""
    for each in links:
        if link(before, each.number, each.entry) != each:
            return each.number
        before = each.hash
    return None
