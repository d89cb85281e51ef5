"""The address and the token of `holdfast dev`, kept beside its store: its pages reconnect after a restart, and commands in the
same folder find it.

The folder is this account's alone, and Git ignores what is in it. Never here: serving; a token that a user has named.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from holdfast.errors import UsageError
from holdfast.platform import privacy
from holdfast.platform.quiet_requests import quiet_requests

_FILE: Final = "server.json"
_LOCK: Final = "server.lock"
_HELD: Final[list[BinaryIO]] = []
"""The locks of this process, which end with it."""
_PATIENCE_S: Final = 2.0
"""Maximum time in which a server on this machine answers."""


class DevServer(msgspec.Struct, frozen=True):
    """A server of `holdfast dev`. `token` is None if its user has named one."""

    address: str
    token: str | None = None

    async def answers(self, token: str | None) -> bool:
        """Return True if it answers now, to its own token or this one."""
        import httpx2

        headers = {"authorization": f"Bearer {self.token or token or ''}"}
        with contextlib.suppress(httpx2.HTTPError, ValueError), quiet_requests():
            async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=_PATIENCE_S) as http:
                return (await http.get(f"{self.address}/api/v1/me")).status_code == HTTPStatus.OK
        return False


def find(store: Path) -> DevServer | None:
    """Return the one that was started last on the store in this file; None if there is none that can be believed."""
    file = _folder(store) / _FILE
    try:
        if file.stat().st_uid != os.geteuid():
            return None
        return msgspec.json.decode(privacy.read_secret(file, "token"), type=DevServer)
    except (OSError, UsageError, msgspec.MsgspecError):
        return None


def find_living(store: Path) -> DevServer | None:
    """Return it if its process lives. Where that is dead, another server may listen at its address, which gets no token."""
    try:
        with (_folder(store) / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return find(store)
    except OSError:
        pass
    return None


def keep(store: Path, server: DevServer) -> None:
    """Write it down beside the store in this file, which says so while this process lives. Raises OSError."""
    folder = _folder(store)
    privacy.make_folder(folder)
    lock = os.fdopen(privacy.open_file(folder / _LOCK), "wb")
    with contextlib.suppress(BlockingIOError):  # of two on one store, the first one's life counts
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _HELD.append(lock)
    (folder / ".gitignore").write_text("*\n")
    draft = folder / f"{_FILE}.{os.getpid()}"
    draft.unlink(missing_ok=True)
    with os.fdopen(privacy.open_file(draft), "wb") as opened:
        opened.write(msgspec.json.encode(server))
    draft.replace(folder / _FILE)


def _folder(store: Path) -> Path:
    return store.with_name(f"{store.name}-dev")
