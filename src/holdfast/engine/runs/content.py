"""Content parts on their way in: bytes become blobs, addresses are read under the rules of HTTP tools.

A provider is never given an address: the content could change between two tries, and its size would be unknown. Never here:
what a prompt is (prompt), what a provider makes of a part (models).
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from pydantic import ValidationError

from holdfast.authoring.tool import Tool
from holdfast.authoring.values.arguments import describe
from holdfast.authoring.values.content import Audio, Document, Image, part_of
from holdfast.core.values.content import MAX_BYTES, ContentPart
from holdfast.core.values.payload import Payload
from holdfast.core.values.policies import DENIED, NETWORK, VALIDATION
from holdfast.engine.runs.payloads import Payloads
from holdfast.errors import BlobLost, InvalidInput, ToolFailed, UsageError
from holdfast.platform.address import is_number, networks
from holdfast.platform.border import fact
from holdfast.platform.http_exchange import Bounds, Reply, Request, exchange
from holdfast.settings import FetchRules
from holdfast.tools.http_reply import expect_good
from holdfast.tools.url_template import UrlTemplate

FETCH: Final = "fetch_content"
"""The name under which a history has the reading of an address."""
MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024
"""Of all parts of a request: more than any provider takes."""
_TIMEOUT_S: Final = 60.0
_ACCEPT: Final = {"image": "image/*", "audio": "audio/*", "document": "application/pdf, text/*, application/json"}


class Contents:
    """The content parts of one process's runs."""

    def __init__(self, payloads: Payloads, rules: FetchRules) -> None:
        self._payloads = payloads
        self._hosts = None if rules.hosts is None else tuple(host.lower() for host in rules.hosts)
        self._bounds = Bounds(_TIMEOUT_S, MAX_BYTES, networks(rules.allow_private))

    async def store_part(self, part: Image | Audio | Document, tenant: str, now_ms: int) -> ContentPart:
        """A part with bytes, durably a blob; or one that is kept, also for this month. Raises StoreError, BlobLost."""
        if part.data is None:
            return await moved(self._payloads, msgspec.convert(part.model_dump(), ContentPart), tenant, now_ms)
        assert part.media_type is not None
        stored = await self._payloads.put(part.data, tenant, now_ms)
        assert stored.blob is not None
        return ContentPart(part.type, part.media_type, stored.blob, len(part.data), stored.month)

    async def bytes_of(self, parts: Sequence[ContentPart], tenant: str) -> Mapping[str, bytes]:
        """Their bytes, by the hash. Raises InvalidInput where they are too many for a request, BlobLost."""
        if sum(part.size_bytes for part in parts) > MAX_REQUEST_BYTES:
            raise InvalidInput(
                f"The parts of this request have more than {MAX_REQUEST_BYTES} bytes together, which no provider takes."
                " Nothing was called."
            )
        wanted = (Payload(blob=part.sha256, size_bytes=part.size_bytes, month=part.month) for part in parts)
        return await self._payloads.fetch(wanted, tenant)

    async def read(self, part: Image | Audio | Document, tenant: str) -> Image | Audio | Document:
        """A part that is named by its hash, with its bytes. Raises InvalidInput where no such bytes are kept."""
        known = msgspec.convert(part.model_dump(), ContentPart)
        try:
            content = (await self.bytes_of([known], tenant))[known.sha256]
            return part_of({"type": part.type, "data": content, "media_type": part.media_type})
        except BlobLost:
            raise InvalidInput(f"{known} is not kept here. Nothing was done: give its bytes.") from None
        except ValidationError as problem:
            raise InvalidInput(f"{known} cannot be used: {describe(problem)}. Nothing was done.") from None

    async def fetched(self, part: Image | Audio | Document, tenant: str, now_ms: int, **when: Any) -> ContentPart:
        """A part that has an address, read now. Raises ToolFailed where nothing was read, OutcomeUnknown where that broke."""
        url = self._address(part.url or "")
        request = Request("GET", url.origin, url.target({}, {}), {"User-Agent": "holdfast", "Accept": _ACCEPT[part.type]})
        try:
            reply = await exchange(request, self._bounds, **when)
        except ToolFailed as problem:
            raise _of_host(url.origin[1], problem) from None
        expect_good(request, reply)
        if reply.unreadable is not None:
            raise ToolFailed(f"GET {request.authority} answered, and {reply.unreadable}.", error_class=VALIDATION)
        try:
            read = part_of({"type": part.type, "data": reply.body, "media_type": part.media_type or _called(part.type, reply)})
        except ValidationError as problem:
            raise ToolFailed(
                f"What GET {request.authority} answered cannot be sent: {describe(problem)}.", error_class=VALIDATION
            ) from None
        return await self.store_part(read, tenant, now_ms)

    def tool(self, tenant: str, now_ms: int) -> Tool:
        """The same as a tool that reads, for a journal."""

        async def fetch_content(ctx: Any, part: dict[str, Any]) -> dict[str, Any]:
            kept = await self.fetched(part_of(part), tenant, now_ms, may_send=ctx.may_send)
            return dict(msgspec.to_builtins(kept))

        return Tool(
            fetch_content, name=FETCH, description="Reads a part of a message.", policy="read", timeout_s=_TIMEOUT_S + 5
        )

    def _address(self, text: str) -> UrlTemplate:
        try:
            url = UrlTemplate(text)
        except UsageError as problem:
            raise ToolFailed(f"A part cannot be read: {problem.message}. Nothing was sent.", error_class=VALIDATION) from None
        scheme, host, _ = url.origin
        if url.places:
            raise ToolFailed(f"A part cannot be read: {text!r} has braces. Nothing was sent.", error_class=VALIDATION)
        if scheme != "https" and not self._bounds.private:
            raise ToolFailed(f"A part is read over https:// only, not {text!r}. Nothing was sent.", error_class=DENIED)
        if self._hosts is not None and host not in self._hosts:
            raise ToolFailed(
                f"A part may be read from {', '.join(self._hosts) or 'no host'}, not from {host!r}. Nothing was sent: add it to"
                " the hosts under [fetch] in holdfast.toml.",
                error_class=DENIED,
            )
        return url


def _of_host(host: str, problem: ToolFailed) -> ToolFailed:
    """Return the error for a part that was not read. A caller who may name any host does not learn which names exist inside."""
    if fact(problem, "no_address") is not True or is_number(host):
        return problem
    return ToolFailed(
        f"{host!r} is at no public address that is known here. Nothing was sent. If it is meant to be read, declare its"
        " address, or a network around it, in allow_private=[…] under [fetch] in holdfast.toml.",
        error_class=NETWORK,
    )


def _called(kind: str, reply: Reply) -> str | None:
    """Return the media type that a server gives a text. For anything else the bytes decide."""
    said = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    return said if kind == "document" and said.startswith(("text/", "application/json", "application/xml")) else None


async def moved(payloads: Payloads, part: ContentPart, tenant: str, now_ms: int) -> ContentPart:
    """The same, kept for this month too: what a run refers to was not kept before it began, so a month can go with its runs."""
    if part.month == datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).strftime("%Y-%m"):
        return part
    content = await payloads.fetch([Payload(blob=part.sha256, size_bytes=part.size_bytes, month=part.month)], tenant)
    stored = await payloads.put(content[part.sha256], tenant, now_ms)
    return msgspec.structs.replace(part, sha256=stored.blob or "", month=stored.month)
