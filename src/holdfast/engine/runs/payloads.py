"""Turns what users' code returns into payloads and back: redact, offload.

What a handler gets is always what the store keeps, so that a replay sees exactly what the first run saw.
Never here: events, runs.
"""

from __future__ import annotations

import datetime
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import msgspec

from holdfast.authoring.values.plain import encode
from holdfast.authoring.values.sensitive import as_kept
from holdfast.core.values.payload import INLINE_BYTES, Payload
from holdfast.core.views.sealing import PLAIN, Sealing
from holdfast.errors import BlobLost, InvalidInput, NotFound
from holdfast.platform.masking import Masking, MaskingOfTexts
from holdfast.ports import Blobs
from holdfast.settings import Secrets

MAX_BYTES: Final = 256 * 1024 * 1024
"""No single value may be larger; anything of this size belongs into a file whose name is passed on."""
MAX_PLAIN_BYTES: Final = 1024 * 1024
"""What a person types, or a program in a person's place."""
_CACHE_BYTES: Final = 64 * 1024 * 1024


Storage = Literal["local", "s3"]
"""Where a value is to be kept: in the store, or in the place for large payloads, which is a bucket then."""


class Payloads:
    """The users' values of one process's runs, with a bounded cache of blobs."""

    def __init__(self, blobs: Blobs, secrets: Secrets, table: Blobs | None = None, sealing: Sealing = PLAIN) -> None:
        """`table` is the store's own, where `blobs` is another place that finds what is there too; `sealing` is how they are
        kept in either."""
        self._blobs = blobs
        self._table = table or blobs
        self._secrets = secrets
        self.sealing = sealing
        self._cache: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._cached_bytes = 0

    async def keep(self, value: Any, tenant: str, now_ms: int, storage: Storage | None = None) -> Payload:
        """`value` as a payload that an event may hold; a large one is durably in the blob store afterwards.

        With the storage `s3` a small one as well; with `local` it is in the store, whatever its size.
        Raises InvalidInput for what is not JSON data: nothing was stored.
        """
        encoded = self.clean(value)
        inline = self.inline(encoded, storage)
        return inline if inline is not None else await self.put(encoded, tenant, now_ms, storage)

    def inline(self, encoded: bytes, storage: Storage | None = None) -> Payload | None:
        """Return the result of `clean` as a payload inside an event; None if it belongs into the blob store."""
        if len(encoded) <= INLINE_BYTES and (storage != "s3" or self._blobs is self._table):
            return Payload(json=msgspec.Raw(encoded))
        return None

    async def put(self, encoded: bytes, tenant: str, now_ms: int, storage: Storage | None = None) -> Payload:
        """The same, durably in the blob store. Raises InvalidInput where it is too large."""
        if len(encoded) > MAX_BYTES:
            raise InvalidInput(
                f"This value is {len(encoded)} bytes as JSON; at most {MAX_BYTES} can be stored. Put it into a file and"
                " pass its name."
            )
        month = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).strftime("%Y-%m")
        place = self._table if storage == "local" else self._blobs
        sha256 = await place.put(tenant, month, self.sealing.seal_blob(tenant, encoded))
        self._remember((tenant, sha256), encoded)
        return Payload(blob=sha256, size_bytes=len(encoded), month=month)

    def plain(self, value: Any) -> Any:
        """`value` as plain JSON data, redacted, for what stands inside a command. Raises InvalidInput."""
        encoded = self.clean(value)
        if len(encoded) > MAX_PLAIN_BYTES:
            raise InvalidInput(f"This is {len(encoded)} bytes as JSON; at most {MAX_PLAIN_BYTES} can be given here.")
        return msgspec.json.decode(encoded)

    async def fetch(self, payloads: Iterable[Payload], tenant: str) -> dict[str, bytes]:
        """Return the contents of those payloads of a tenant's run that live in blobs, by hash.

        Raises BlobLost for one that is missing or damaged, StoreError while that is unknown.
        """
        found: dict[str, bytes] = {}
        for payload in payloads:
            if payload.blob is not None and payload.blob not in found:
                found[payload.blob] = await self._content(tenant, payload.month, payload.blob)
        return found

    async def value(self, payload: Payload, tenant: str) -> Any:
        return read(payload, await self.fetch([payload], tenant))

    async def _content(self, tenant: str, month: str, sha256: str) -> bytes:
        known = self._cache.get((tenant, sha256))
        if known is not None:
            return known
        try:
            kept = await self._blobs.get(tenant, month, sha256)
        except NotFound as missing:
            raise BlobLost(missing.message, sha256=sha256) from missing
        if hashlib.sha256(kept).hexdigest() != sha256:
            raise BlobLost(
                f"The blob {sha256} of tenant {tenant!r}, kept since {month}, does not hold what its name says: it was"
                " damaged where it is stored. Restore it from a backup; what does not need it goes on.",
                sha256=sha256,
            )
        content = self.sealing.open_blob(kept)
        self._remember((tenant, sha256), content)
        return content

    def redact(self, text: str) -> str:
        return self._secrets.redact(as_kept(text))

    def masking(self) -> Masking:
        """The same of a text that comes in pieces."""
        return self._secrets.masking()

    def masking_of_texts(self) -> MaskingOfTexts:
        """Return the same for texts that are sent one after the other."""
        return self._secrets.masking_of_texts()

    def clean(self, value: Any, *, is_kept: bool = True) -> bytes:
        """`value` as JSON without a secret in it; piece by piece where it holds one, so that it stays JSON. Raises InvalidInput
        for what is not JSON data. A value that is not kept is only compared, and never read back."""
        encoded = encode(value, is_kept=is_kept)
        if self._secrets.redact_bytes(encoded) is encoded:
            return encoded
        return msgspec.json.encode(_redacted(msgspec.json.decode(encoded), self._secrets.redact))

    def _remember(self, name: tuple[str, str], content: bytes) -> None:
        if len(content) > _CACHE_BYTES // 4 or name in self._cache:
            return
        self._cache[name] = content
        self._cached_bytes += len(content)
        while self._cached_bytes > _CACHE_BYTES:
            _, dropped = self._cache.popitem(last=False)
            self._cached_bytes -= len(dropped)


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """Plain JSON data with every text and every name in it redacted; a number that holds a secret becomes a text."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(name): _redacted(inner, redact) for name, inner in value.items()}
    if isinstance(value, list):
        return [_redacted(inner, redact) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = msgspec.json.encode(value).decode()
        return value if redact(text) == text else redact(text)
    return value


def read(payload: Payload, blobs: dict[str, bytes]) -> Any:
    """The value of `payload`, whose blob, if it has one, is among `blobs`."""
    return payload.value() if payload.blob is None else msgspec.json.decode(blobs[payload.blob])
