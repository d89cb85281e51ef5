"""Adding to the audit log: what a process knows of its end, and with which keys it signs.

Never here: how entries are chained (core.values.audit), the statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.values.audit import FIRST, Entry, Head, Keys, Link, before_next, head_of, link


class Signing:
    """The last entry that one process has seen, and the keys that it has."""

    def __init__(self, keys: Keys) -> None:
        """`keys` are those of the log, the newest first; none where it is not signed."""
        self.known = Head(0, FIRST)
        self._keys = keys

    def next(self, ends: Sequence[Any], known: Head, entry: Entry) -> tuple[Link, Head]:
        """Return the entry that follows the log's end, and the head after it. `ends` are the head, the last row, and the hash
        that the entry `known` has there; `known` was read with them, and may be another by now."""
        head, last = (Head(*part) if part[0] is not None else None for part in (ends[:3], ends[3:6]))
        is_known_there = known.number == 0 or ends[6] == known.hash
        before = before_next(head, last, known, is_known_there, self._keys)
        key = next(iter(self._keys), b"")
        added = link(before, entry, key)
        return added, head_of(added, key)

    def know(self, head: Head) -> None:
        """Keep in mind that the log has come so far."""
        if head.number > self.known.number:
            self.known = head
