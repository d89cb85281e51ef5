"""Large payloads as files of a folder: on the disk before a caller gets the reference, and whole or not there.

A payload is written beside its place, synced, renamed into it, and the folders above it are synced: obstore's own adapter for
folders syncs nothing. Never here: what a payload means, or when it may go.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import os
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final, Self

from holdfast.errors import NotFound, StoreError, StoreFull, StoreUnreadable
from holdfast.platform import privacy
from holdfast.stores.blobs.layout import is_old, place

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_UNFINISHED: Final = ".unfinished-"
"""What a process leaves behind that dies while it writes; such files mean nothing and may be deleted."""


class Folder:
    """Keeps ports.BlobPlace in a folder of this machine, or in one that all machines of a fleet have mounted."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def __repr__(self) -> str:
        return f"the folder {self._root}"

    @classmethod
    def open(cls, root: Path) -> Self:
        """Raises StoreUnreadable for a missing folder: one that is made in its place would be on another disk than the one that
        was not mounted."""
        opened = cls(root)
        opened._expect_root()
        return opened

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        await asyncio.to_thread(self._write, self._file(tenant, month, sha256), content)
        return sha256

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        return await asyncio.to_thread(self._read, self._file(tenant, month, sha256))

    async def prune(self, before: str, referenced: Collection[str]) -> int:
        return await asyncio.to_thread(self._prune, before, referenced)

    def _prune(self, before: str, referenced: Collection[str]) -> int:
        self._expect_root()
        freed_bytes = 0
        try:
            for folder in self._root.glob("*/[0-9][0-9][0-9][0-9]-[0-9][0-9]"):
                for file in folder.iterdir():
                    if is_old(file.relative_to(self._root).parts, before, referenced):
                        freed_bytes += file.stat().st_size
                        file.unlink()
                with contextlib.suppress(OSError):  # something is left in it, which is no payload or still needed
                    folder.rmdir()
        except OSError as problem:
            raise self._explained(problem) from problem
        return freed_bytes

    def _file(self, tenant: str, month: str, sha256: str) -> Path:
        return self._root.joinpath(*place(tenant, month, sha256))

    def _write(self, file: Path, content: bytes) -> None:
        self._expect_root()
        try:
            privacy.make_folder(file.parent)
            if not _holds(file, content):  # one that was damaged is mended
                _replace(file, content)
            # Also what another process has just written or made: it may not have come to syncing it.
            for folder in (file.parent, file.parent.parent, self._root):
                _sync_folder(folder)
        except OSError as problem:
            raise self._explained(problem) from problem

    def _read(self, file: Path) -> bytes:
        try:
            return file.read_bytes()
        except FileNotFoundError:
            self._expect_root()
            raise NotFound(f"There is no blob at {file}.", file=file) from None
        except OSError as problem:
            raise self._explained(problem) from problem

    def _expect_root(self) -> None:
        if not self._root.is_dir():
            raise StoreUnreadable(
                f"There is no folder {self._root} for large payloads. Make it, or mount it; nothing was written.",
                path=self._root,
            )

    def _explained(self, problem: OSError) -> StoreError:
        why = problem.strerror or str(problem)
        if problem.errno in _FULL:
            return StoreFull(
                f"There is no room left in {self._root} for a large payload ({why}). Nothing was written: make room."
                " What waits for it goes on by itself within a minute; a worker that has stopped is to be started again.",
                path=self._root,
            )
        return StoreUnreadable(
            f"The folder {self._root} for large payloads cannot be used: {why} ({problem.filename}). Nothing was written:"
            " see that this process may read and write there.",
            path=self._root,
        )


def _holds(file: Path, content: bytes) -> bool:
    try:
        return file.stat().st_size == len(content) and file.read_bytes() == content
    except FileNotFoundError:
        return False


def _replace(file: Path, content: bytes) -> None:
    """Put `content` at `file`, at once: a reader finds all of it, or what was there before."""
    handle, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        Path(unfinished).replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(unfinished).unlink()
        raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
