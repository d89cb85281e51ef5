"""An append-only file of JSON lines that outlives the server which writes it.

A judge reads it from another process, also after `kill -9`; so a line is in the kernel before the reply it tells of
goes out. Nothing is ever rewritten or removed here, and nothing is buffered in the process.
"""

import json
import os
from pathlib import Path
from typing import Any

from holdfast.platform import privacy


class JournalFile:
    """The writing end: each line is a single write to a descriptor opened O_APPEND."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, privacy.FILE)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")  # a torn last line must not swallow the next one

    def append(self, entry: dict[str, Any]) -> None:
        """Write one line. No fsync: it survives the death of the process, which is what tests inflict."""
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
        os.write(self._descriptor, line.encode(errors="replace") + b"\n")

    def entries(self) -> list[dict[str, Any]]:
        return read_journal(self.path)

    def close(self) -> None:
        """Appending afterwards raises OSError; reading goes on."""
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """All entries in the order written; a line torn by a crash is passed over, for its reply was never sent."""
    entries = []
    for line in path.read_bytes().splitlines():
        try:
            entries.append(json.loads(line))
        except ValueError:
            continue
    return entries
