"""Opening what runs are kept in: stores, and the places of large payloads, by the names that people give them.

The part of the composition root that a command needs which only asks; no adapter is loaded before it is named.

Never here: an engine, a queue.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from holdfast import settings as settings_
from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.errors import UsageError
from holdfast.platform.extra import needs
from holdfast.platform.masking import without_passwords

if TYPE_CHECKING:
    from holdfast.ports import Administration, BlobPlace, Store
    from holdfast.settings import Secrets

_POSTGRES: Final = ("postgresql://", "postgres://")
_SQLITE: Final = re.compile(r"sqlite:///(?P<path>.+)\Z")
_FOLDER: Final = re.compile(r"file://(?P<path>/.+)\Z")
_BUCKET: Final = re.compile(r"s3://(?P<bucket>[^/?#]+)(/(?P<prefix>[^?#]*))?\Z")


def is_postgres(location: str) -> bool:
    """Return True if that names something on PostgreSQL: a store that a fleet shares."""
    return location.startswith(_POSTGRES)


async def open_store(
    location: str | Path,
    elsewhere: BlobPlace | None = None,
    *,
    lease_s: float = settings_.LEASE_S,
    audit_keys: tuple[bytes, ...] = (),
    sealing: Sealing = PLAIN,
) -> Store:
    """The store at `postgresql://…`, at `sqlite:///PATH` or at a plain path. Raises StoreError when it cannot be used.

    `elsewhere` is where archives are besides the store's own table, as `open_blobs` says. `lease_s` is how long a
    session of this process lives without renewal. `audit_keys` sign the entries that it adds to the audit log. `sealing` is
    how it keeps what users have stored, as `sealing_of` says.
    """
    text = str(location)
    if is_postgres(text):
        opened: Store = await postgres().PostgresStore.connect(
            text, lease_s=lease_s, elsewhere=elsewhere, audit_keys=audit_keys, sealing=sealing
        )
        return opened
    from holdfast.stores.sqlite import SqliteStore

    return await SqliteStore.connect(
        _path_of(text), lease_s=lease_s, elsewhere=elsewhere, audit_keys=audit_keys, sealing=sealing
    )


async def open_administration(
    location: str | Path, elsewhere: BlobPlace | None = None, sealing: Sealing = PLAIN
) -> Administration:
    """The administration of the store that `location` names as for `open_store`; its tables may be of another version."""
    text = str(location)
    if is_postgres(text):
        opened: Administration = await postgres().PostgresAdministration.connect(text, elsewhere, sealing)
        return opened
    from holdfast.stores.sqlite.administration import SqliteAdministration

    return await SqliteAdministration.connect(_path_of(text), elsewhere, sealing)


def sealing_of(settings: settings_.Settings) -> Sealing:
    """Return the encryption of stored payloads that the settings ask for. Raises UsageError for a key file that cannot be
    used."""
    if settings.key_file is None:
        return PLAIN
    with needs("encryption", "Encrypting what is stored"):
        from holdfast.stores.encryption import AesCodec, KeyFile

    seals = None if settings.encrypt is None else settings.encrypt == "payloads"
    return Sealing(AesCodec(KeyFile(settings.key_file)), seals=seals)


def accept_store(location: str) -> None:
    """Believe that a SQLite file is whole whose log is missing. Raises StoreError, UsageError for another kind of store."""
    if is_postgres(location):
        raise UsageError("Only a SQLite file can have lost its log. Nothing was done.")
    from holdfast.stores.sqlite.database import accept, resolve
    from holdfast.stores.sqlite.store import WAIT_S

    accept(resolve(_path_of(location)), WAIT_S)


def file_of(location: str) -> Path:
    """Return the file of a store on SQLite, behind all links. Raises UsageError."""
    from holdfast.stores.sqlite.database import resolve

    return resolve(_path_of(location))


def _path_of(location: str) -> Path:
    matched = _SQLITE.match(location)
    if matched is None and "://" in location:
        raise UsageError(
            f"{without_passwords(location)!r} is no store that this Holdfast knows; use sqlite:///PATH or postgresql://USER@HOST/DATABASE."
        )
    return Path(matched["path"] if matched is not None else location)


def postgres() -> Any:
    """Return the package of the PostgreSQL store, loaded when one is first used."""
    with needs("fleet", "A store on PostgreSQL"):
        from holdfast.stores import postgres
    return postgres


def open_blobs(location: str, secrets: Secrets) -> BlobPlace | None:
    """Return the place of payloads over 64 KiB, as the settings name it; None for the store's own table.

    Raises UsageError for a place that cannot be named so, StoreError for one that cannot be used.
    """
    if location == "store":
        return None
    if (folder := _FOLDER.match(location)) is not None:
        from holdfast.stores.blobs.folder import Folder

        return Folder.open(Path(unquote(folder["path"])))
    bucket = _BUCKET.match(location)
    parts = [part for part in (bucket["prefix"] or "").split("/") if part] if bucket is not None else []
    if bucket is None or not {".", ".."}.isdisjoint(parts):
        raise UsageError(
            f"{without_passwords(location)!r} is no place for large payloads; HOLDFAST_BLOBS is store, file:///FOLDER or s3://BUCKET/PREFIX."
            " Nothing was started."
        )
    from holdfast.stores.blobs.bucket import CREDENTIALS, Bucket

    credentials = {name: secrets.get(name) for name in CREDENTIALS if secrets.has(name)}
    return Bucket.open(bucket["bucket"], "/".join(parts), credentials)
