"""Encrypts what users have stored: AES-256 in Galois/Counter Mode, under keys of tenants that stand in a file.

Each tenant has keys of its own, drawn and not derived from a common one: a tenant's content is erased, in backups and archives
too, by deleting its keys. The file says for each tenant a key in base64, or a list: the first encrypts, all of them decrypt.

Never here: what is encrypted (core.views.sealing), a key in a message, in a `repr` or in a log.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import tomllib
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from holdfast.errors import CorruptHistory, KeyMissing, UsageError
from holdfast.platform import privacy
from holdfast.ports import OF_NONE, TenantKey, TenantKeys

_KEY_BYTES: Final = 32
_ID_BYTES: Final = 8
_NONCE_BYTES: Final = 12
"""As NIST SP 800-38D has it. Nonces are drawn, so a key is good for four thousand million values (section 8.3)."""


class KeyFile:
    """Keeps ports.TenantKeys in a file that no other account may read. A tenant that is new in it is found without a
    restart."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError for a file that cannot be used."""
        self._path = path
        self._read_ns = -1
        self._current: dict[str, TenantKey] = {}
        self._by_id: dict[bytes, TenantKey] = {}
        self._read()

    def __repr__(self) -> str:
        return f"<the keys of {len(self._current)} tenants in {self._path}>"

    def current(self, tenant: str) -> TenantKey:
        if tenant not in self._current:
            self._read()
        if (found := self._current.get(tenant)) is None:
            raise KeyMissing(
                f"The tenant {tenant!r} has no key in {self._path}, so nothing of it can be stored. Nothing was done: add one"
                " (`openssl rand -base64 32` makes it)."
            )
        return found

    def find(self, id: bytes) -> TenantKey:  # noqa: A002 - the port's word
        if id not in self._by_id:
            self._read()
        if (found := self._by_id.get(id)) is None:
            raise KeyMissing(
                f"This is encrypted with a key ({id.hex()}) that is not in {self._path}: it was deleted, or the file is another"
                " one. Without that key it cannot be read."
            )
        return found

    def _read(self) -> None:
        """Read the file, if it is another than before."""
        try:
            changed_ns = self._path.stat().st_mtime_ns
        except OSError:
            changed_ns = -2
        if changed_ns == self._read_ns:
            return
        try:
            found: dict[str, Any] = tomllib.loads(privacy.read_secret(self._path, "key file").decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            raise self._wrong("it is no TOML") from None
        current: dict[str, TenantKey] = {}
        by_id: dict[bytes, TenantKey] = {}
        for tenant, said in found.items():
            for text in said if isinstance(said, list) else [said]:
                key = self._key(tenant, text)
                if key.id in by_id:
                    raise self._wrong(f"a key of {tenant!r} stands there twice")
                by_id[key.id] = key
                current.setdefault(tenant, key)
        if OF_NONE not in current:
            raise self._wrong(f"the tenant {OF_NONE!r} has no key, which is also that of what belongs to no tenant")
        self._read_ns, self._current, self._by_id = changed_ns, current, by_id

    def _key(self, tenant: str, text: Any) -> TenantKey:
        try:
            secret = base64.b64decode(text, validate=True) if isinstance(text, str) else b""
        except (binascii.Error, ValueError):
            secret = b""
        if len(secret) != _KEY_BYTES:
            raise self._wrong(f"a key of {tenant!r} is not {_KEY_BYTES} bytes in base64")
        return TenantKey(tenant, _mac(secret, b"holdfast key id")[:_ID_BYTES], secret)

    def _wrong(self, reason: str) -> UsageError:
        return UsageError(
            f'The key file {self._path} cannot be used: {reason}. It has `acme = "KEY"`, and `openssl rand -base64 32`'
            " makes a key. Nothing was started."
        )


class AesCodec:
    """Keeps ports.Codec with AES-256-GCM. A value names its key, and is bound to the tenant."""

    def __init__(self, keys: TenantKeys) -> None:
        self._keys = keys

    def encrypt(self, tenant: str, content: bytes, *, alike: bool = False) -> bytes:
        key = self._keys.current(tenant)
        nonce = _mac(key.secret, b"holdfast nonce" + content)[:_NONCE_BYTES] if alike else os.urandom(_NONCE_BYTES)
        return key.id + nonce + AESGCM(key.secret).encrypt(nonce, content, key.tenant.encode())

    def decrypt(self, encrypted: bytes) -> bytes:
        id_, nonce, rest = (encrypted[:_ID_BYTES], encrypted[_ID_BYTES:][:_NONCE_BYTES], encrypted[_ID_BYTES + _NONCE_BYTES :])
        if len(nonce) < _NONCE_BYTES:
            raise CorruptHistory("An encrypted value in the store is cut off.")
        key = self._keys.find(id_)
        try:
            return AESGCM(key.secret).decrypt(nonce, rest, key.tenant.encode())
        except InvalidTag:
            raise CorruptHistory(
                f"An encrypted value of the tenant {key.tenant!r} is not what was stored. Restore it from a backup."
            ) from None


def _mac(secret: bytes, content: bytes) -> bytes:
    return hmac.digest(secret, content, hashlib.sha256)
