"""The length of the write-ahead log: noted beside the locks, and compared with the log by the first process that opens it.

SQLite takes a log that was cut off, emptied or written into for one that ends there, and says nothing. So a process notes,
after a commit and now and then, which log it was and how many frames it had. The note may lag behind: a log may be longer than
it, or, once all of an earlier one is in the file, a later one. One that is shorter, or broken before that, has lost commits.

SQLite's file format has it that a log begins with 32 bytes: among them two salts, and a sum of these. Each frame has a sum of
all before it, which SQLite makes when the first process comes; it ends the log where one is wrong.

Never here: the index of the log, whose file must not be opened but by SQLite (see `lock`).
"""

from __future__ import annotations

import contextlib
import os
import struct
import time
import zlib
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from holdfast.errors import StoreUnreadable
from holdfast.platform import privacy

_NOTE: Final = "reached"
_EVERY_S: Final = 0.5
"""A note costs some 50 microseconds; what is committed after it is not missed where it goes."""
_MAX_RESTARTS: Final = 65_536
"""Restarts of a log since the note, at most; an unrelated log looks like a later one with a chance of 1 in 65,536."""
_HEADER: Final = struct.Struct(">8I")
_RECORD: Final = struct.Struct("<3Q")
_LITTLE: Final = 0x377F0682
_BIG: Final = 0x377F0683
_WORD: Final = 0xFFFFFFFF


class Reach(NamedTuple):
    """The identity of a log, from its header, and the number of its frames."""

    salt: int
    other_salt: int
    frames: int


class LogReach:
    """The note of one store. Every failure to write it is passed over: without one, a log is believed."""

    def __init__(self, log: Path, locks: Path) -> None:
        self._log = log
        self._note = locks / _NOTE
        self._noted_s = 0.0

    def note(self, db: apsw.Connection, *, now: bool = False) -> None:
        """Note how far the log reaches, if that was not done just before; where no other process can write."""
        if not now and time.monotonic() - self._noted_s < _EVERY_S:
            return
        self._noted_s = time.monotonic()
        with contextlib.suppress(OSError, apsw.Error):
            frames, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            header = _header(self._log)
            if header is not None and frames > 0:
                record = _RECORD.pack(header.salt, header.other_salt, frames)
                fd = privacy.open_file(self._note)
                try:
                    os.pwrite(fd, record + zlib.crc32(record).to_bytes(4, "little"), 0)
                finally:
                    os.close(fd)

    def forget(self) -> None:
        """The log is begun from nothing, or all of it is in the file."""
        with contextlib.suppress(OSError):
            self._note.unlink(missing_ok=True)

    def expect_begun(self, path: Path) -> Reach | None:
        """Return the note that the log has to keep to, None where there is none, or all that it says is in the file. Raises
        StoreUnreadable where the log is another, or has no beginning."""
        noted = self.read()
        if noted is None:
            return None
        with contextlib.suppress(FileNotFoundError):
            found = _broken(self._log, noted)
            if found is not None and found == _broken(self._log, noted):  # no process has restarted it meanwhile
                raise _lost(path, self._log, found)
            return noted if _is_same(_header(self._log), noted) else None
        return None

    def expect_frames(self, db: apsw.Connection, path: Path, noted: Reach) -> None:
        """Raise StoreUnreadable where SQLite, which makes the sum of each frame, finds fewer than were noted."""
        db.execute("select 1 from sqlite_schema limit 1").fetchall()  # it reads the log
        frames, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        if frames < noted.frames and _is_same(_header(self._log), noted):
            raise _lost(path, self._log, f"is cut off or damaged after {frames} of {noted.frames} frames that were written")

    def read(self) -> Reach | None:
        """The note; None where there is none, or only part of one."""
        try:
            kept = self._note.read_bytes()[: _RECORD.size + 4]
        except OSError:
            return None
        record, check = kept[: _RECORD.size], kept[_RECORD.size :]
        if len(check) < 4 or zlib.crc32(record) != int.from_bytes(check, "little"):
            return None
        return Reach(*_RECORD.unpack(record))


class _Header(NamedTuple):
    """The header of a log."""

    salt: int
    other_salt: int


def _header(log: Path) -> _Header | None:
    """The header of a log; None where it has none, or one that is damaged. Raises OSError."""
    with log.open("rb") as file:
        begun = file.read(_HEADER.size)
    if len(begun) < _HEADER.size:
        return None
    magic, _, _, _, salt, other_salt, *sums = _HEADER.unpack(begun)
    order = {_LITTLE: "<", _BIG: ">"}.get(magic)
    return _Header(salt, other_salt) if order is not None and [*_summed(order, begun[:24])] == sums else None


def _summed(order: str, content: bytes) -> tuple[int, int]:
    """SQLite's sum of 8 bytes after 8 bytes, whose words are in one order or the other."""
    one = two = 0
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for first, second in zip(words, words, strict=True):
        one = (one + first + two) & _WORD
        two = (two + second + one) & _WORD
    return one, two


def _is_same(header: _Header | None, noted: Reach) -> bool:
    return header is not None and header == noted[:2]


def _broken(log: Path, noted: Reach) -> str | None:
    """Return the fault of a log's header in words; None if it is the noted log or a later one. Raises OSError."""
    header = _header(log)
    if header is None:
        return "is damaged at its beginning" if log.stat().st_size else "is empty"
    # A log is restarted when all of it is in the file. Its first salt grows by one then, and the other is drawn. (Its number
    # says nothing: each connection counts for itself.)
    is_later = 0 < (header.salt - noted.salt) & _WORD <= _MAX_RESTARTS
    return None if is_later or _is_same(header, noted) else "is another than the one that was written last"


def _lost(path: Path, log: Path, name: str) -> StoreUnreadable:
    return StoreUnreadable(
        f"{path} was in use, and its log {log.name} {name}: whatever was committed last is missing, which may be everything."
        " Nothing was touched. If it is a copy, copy both files again while no process uses the store, or better use"
        " `holdfast store backup` and take that; else restore both from a backup. `holdfast store accept` goes on with what is"
        " in the file and in the sound part of the log.",
        path=path,
    )
