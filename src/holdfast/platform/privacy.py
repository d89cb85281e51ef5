"""Files that belong to the account that runs Holdfast alone: made for it, and believed only if no other account may read them.

Never here: what is in them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import Final

from holdfast.errors import UsageError

FILE: Final = 0o600
FOLDER: Final = 0o700
_OTHERS: Final = 0o077
_WORLD: Final = 0o007

_log = logging.getLogger(__name__)


def make_folder(path: Path) -> None:
    """Have a folder at `path`, with those above it that are missing. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        if not path.parent.exists():
            make_folder(path.parent)
        path.mkdir(FOLDER)
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is no folder")
    close(path)


def open_file(path: Path) -> int:
    """Return a descriptor of the file at `path`, created if it is missing, that no other program inherits. Raises OSError.

    A file that root makes in a person's folder belongs to that person: otherwise it would lock them out.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        with contextlib.suppress(OSError):  # a file system that knows no owners
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def close(*paths: Path) -> None:
    """Close `paths` to all other accounts, if they are this account's and were made with an open mode, and report it. Missing
    paths and those of other accounts are left as they are."""
    for path in paths:
        try:
            found = path.stat()
            if found.st_uid != os.geteuid() or not found.st_mode & _OTHERS:
                continue
            path.chmod(FOLDER if stat.S_ISDIR(found.st_mode) else FILE)
        except FileNotFoundError:
            continue
        except OSError as problem:
            _log.warning("%s is open to other users of this machine and cannot be closed: %s", path, problem.strerror)
        else:
            _log.warning(
                "%s was open to other users of this machine (mode %03o); only this account may use it now.",
                path,
                stat.S_IMODE(found.st_mode),
            )


def read_secret(file: Path, name: str) -> bytes:
    """Return the content of `file`, which only its owner may read. `name` names it in an error: "token", "secrets file".

    A file of root's may be open to a group, as containers are given their secrets. Raises UsageError.
    """
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            content = opened.read()
    except OSError as problem:
        raise UsageError(f"The {name} {file} cannot be read: {problem.strerror}. Nothing was started.") from None
    unwanted = _WORLD if found.st_uid == 0 != os.geteuid() else _OTHERS
    if stat.S_ISREG(found.st_mode) and found.st_mode & unwanted:
        raise UsageError(
            f"The {name} {file} is open to other users of this machine (mode {stat.S_IMODE(found.st_mode):03o}), who may"
            f" have read it. Nothing was started: close it (chmod 600 {file}), and consider replacing what is in it."
        )
    return content
