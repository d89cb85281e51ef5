"""The encryption of users' data before a store keeps it, and the source of the keys.

Never here: an implementation, an algorithm, what a store keeps (core.views.sealing).
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

OF_NONE: Final = "default"
"""The tenant under whose key stands what belongs to no tenant."""


class Codec(Protocol):
    """Encrypts content on its way into a store, and decrypts it on its way out. It works in memory and waits for nothing."""

    def encrypt(self, tenant: str, content: bytes, *, alike: bool = False) -> bytes:
        """Return the content of a tenant, encrypted under a key of that tenant. With `alike` the same content gives the same
        bytes under the same key: a blob is known by the hash of its bytes. Raises KeyMissing: then nothing is stored."""
        ...

    def decrypt(self, encrypted: bytes) -> bytes:
        """Return the content that `encrypt` was given. Raises KeyMissing where its key is gone, CorruptHistory where the bytes
        are damaged."""
        ...


class TenantKey(NamedTuple):
    """A key of one tenant. `id` stands beside each value that is encrypted with it, and tells nothing of the `secret`."""

    tenant: str
    id: bytes
    secret: bytes


class TenantKeys(Protocol):
    """The keys of tenants. A key management service keeps this port by fetching, at its opening, the data keys that it has
    wrapped: what is asked here is answered from memory, in the middle of a commit.
    """

    def current(self, tenant: str) -> TenantKey:
        """Return the key with which a tenant's content is encrypted from now on. Raises KeyMissing."""
        ...

    def find(self, id: bytes) -> TenantKey:  # noqa: A002 - what it is
        """Return the key of that id, current or not. Raises KeyMissing."""
        ...
