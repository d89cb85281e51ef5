"""Large payloads as objects of a bucket: S3, or a service that speaks its protocol. Over obstore, loaded when it is used.

An object is written whole or not at all, and only where there is none: a condition of the request, so two processes that
store the same content need not know of each other. Never here: what a payload means, or when it may go.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.errors import NotFound, StoreError, StoreUnreadable, UsageError
from holdfast.platform.extra import needs
from holdfast.stores.blobs.layout import is_old, place

if TYPE_CHECKING:
    from obstore.store import S3Store

CREDENTIALS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""What may be secrets by name; without them the service's own ways apply (the machine's role, a web identity)."""
_MAX_RETRIES: Final = 4
_RETRY_FOR: Final = datetime.timedelta(seconds=20)
"""Time after which the caller gets the error, and waits for the store as for any that is away."""
_CONNECT_LIMIT: Final = "5s"
_REQUEST_LIMIT: Final = "120s"
"""A payload is at most 256 MiB: 2 MiB a second."""
_MAX_LISTED: Final = 1000
_CODE: Final = re.compile(r"<Code>(\w+)</Code>")
_ADVICE: Final = {
    "NoSuchBucket": "there is no such bucket; make it, or name another",
    "AccessDenied": "this process may not; it needs s3:GetObject, s3:PutObject and s3:ListBucket there, and"
    " s3:DeleteObject for `holdfast store prune`",
    "InvalidAccessKeyId": "the service does not know its access key",
    "SignatureDoesNotMatch": "its secret key is not the one that belongs to its access key",
    "ExpiredToken": "its credentials have expired",
}


class Bucket:
    """Keeps ports.BlobPlace in a bucket, under a prefix."""

    def __init__(self, store: S3Store, name: str) -> None:
        self._store = store
        self._name = name

    def __repr__(self) -> str:
        return f"the bucket {self._name}"

    @classmethod
    def open(cls, bucket: str, prefix: str, credentials: Mapping[str, str]) -> Self:
        """`bucket`, as the environment describes its service (`AWS_REGION`, `AWS_ENDPOINT_URL`, `AWS_ALLOW_HTTP`, …).

        `credentials` by the names of CREDENTIALS. Nothing is sent yet. Raises UsageError.
        """
        with needs("objects", "A bucket for large payloads"):
            from obstore.exceptions import BaseError
            from obstore.store import S3Store
        given: dict[str, Any] = {name.lower(): value for name, value in credentials.items()}
        try:
            store = S3Store(
                bucket,
                prefix=prefix or None,
                client_options={
                    "connect_timeout": _CONNECT_LIMIT,
                    "timeout": _REQUEST_LIMIT,
                    "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() in ("1", "true"),
                },
                retry_config={"max_retries": _MAX_RETRIES, "retry_timeout": _RETRY_FOR},
                **given,
            )
        except BaseError as problem:
            raise UsageError(f"The bucket {bucket!r} cannot be used: {_brief(problem)}. Nothing was started.") from None
        return cls(store, "/".join(filter(None, (bucket, prefix))))

    async def put(self, tenant: str, month: str, content: bytes) -> str:
        from obstore.exceptions import AlreadyExistsError, BaseError

        sha256 = hashlib.sha256(content).hexdigest()
        path = "/".join(place(tenant, month, sha256))
        try:
            # In one request: only so can it be made on condition that nothing is there.
            await self._store.put_async(path, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            pass  # it is named by what it holds
        except (BaseError, OSError) as problem:  # a bucket that is not there is a FileNotFoundError
            raise self._explained(problem, "written") from problem
        return sha256

    async def get(self, tenant: str, month: str, sha256: str) -> bytes:
        from obstore.exceptions import BaseError

        path = "/".join(place(tenant, month, sha256))
        try:
            found = await self._store.get_async(path)
            return bytes(await found.bytes_async())
        except FileNotFoundError as problem:
            if "NoSuchBucket" in str(problem):
                raise self._explained(problem, "read") from problem
            raise NotFound(f"There is no blob {path} in {self!r}.", path=path) from None
        except (BaseError, OSError) as problem:
            raise self._explained(problem, "read") from problem

    async def prune(self, before: str, referenced: Collection[str]) -> int:
        from obstore.exceptions import BaseError

        freed_bytes = 0
        try:
            async for page in self._store.list(chunk_size=_MAX_LISTED):
                old = [found for found in page if is_old(tuple(found["path"].split("/")), before, referenced)]
                if old:
                    await self._store.delete_async([found["path"] for found in old])
                    freed_bytes += sum(found["size"] for found in old)
        except (BaseError, OSError) as problem:
            raise self._explained(problem, "removed") from problem
        return freed_bytes

    def _explained(self, problem: Exception, name: str) -> StoreError:
        code = _CODE.search(str(problem))
        why = _ADVICE.get(code[1], code[1]) if code is not None else _brief(problem)
        return StoreUnreadable(
            f"A large payload could not be {name} in {self!r}: {why}. Nothing is lost: what waits for it tries again for a"
            " minute; a worker that has stopped is to be started again.",
            bucket=self._name,
        )


def _brief(problem: Exception) -> str:
    """Return the client's message, without the pages of detail below it."""
    return str(problem).partition("\n")[0][:300]
