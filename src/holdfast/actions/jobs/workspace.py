"""The directory in which a combination of a job works: its own, and gone afterwards, also if its worker was killed.

Each is locked for as long as its worker lives. Who makes a new one removes those whose lock is free. Never here: what is
put into it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

_NEW: Final = "holdfast-new-"
_LOCKED: Final = "holdfast-job-"

_log = logging.getLogger(__name__)


@contextmanager
def workspace() -> Iterator[Path]:
    """An empty directory."""
    _clear()
    new = Path(tempfile.mkdtemp(prefix=_NEW)).resolve()
    lock = _lock(new)
    folder = new.rename(
        new.with_name(new.name.replace(_NEW, _LOCKED, 1))
    )  # from now on its lock says whether it is left
    try:
        yield folder
    finally:
        shutil.rmtree(folder, onerror=_tell)
        if lock is not None:
            os.close(lock)


def _clear() -> None:
    """Remove what killed workers of this account have left."""
    for left in Path(tempfile.gettempdir()).glob(f"{_LOCKED}*"):
        lock = _lock(left)
        if lock is None:
            continue
        if os.fstat(lock).st_uid == os.geteuid():
            shutil.rmtree(left, onerror=_tell)
        os.close(lock)


def _lock(folder: Path) -> int | None:
    """A lock on it that goes with this process; None if another has it, or if it is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _tell(_: Callable[..., Any], path: str, problem: Any) -> None:
    """Scripts may leave what nobody may remove; and two may remove the same."""
    if not issubclass(problem[0], FileNotFoundError):
        _log.warning("%s, left by a job, could not be removed: %s", path, problem[1])
