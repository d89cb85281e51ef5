"""Empty SQLite stores, copied from one that is made once in a process: to make one takes longer than most tests use it.

Never here: a store with anything in it. What is about the making makes its own.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from holdfast.stores.sqlite.store import SqliteStore


def empty_store(path: Path) -> Path:
    """Put an empty store at `path`."""
    with open(path, "xb", opener=_private) as file:
        file.write(_made())
    return path


@cache
def _made() -> bytes:
    """Return the file of a store as the first process makes it."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:  # a test's own loop may be running
        path = Path(folder, "holdfast.db")
        thread.submit(asyncio.run, _make(path)).result()
        return path.read_bytes()


async def _make(path: Path) -> None:
    store = await SqliteStore.connect(path)
    await store.upkeep.aclose()


def _private(path: str, flags: int) -> int:
    """Open a file as a store makes its own: for its account alone."""
    return os.open(path, flags, 0o600)
