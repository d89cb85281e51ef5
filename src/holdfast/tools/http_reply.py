"""The meaning of an HTTP reply for an effect: it happened, it did not, it is unknown, or not now.

Never here: a connection.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from holdfast.core.values.policies import AUTHORIZATION, DENIED, NETWORK, RATE_LIMIT, TIMEOUT, VALIDATION, EffectPolicy
from holdfast.errors import OutcomeUnknown, ToolFailed
from holdfast.platform.http_exchange import Reply, Request, retry_after_s

KEPT_HEADERS: Final = (
    "content-type",
    "etag",
    "idempotency-key",
    "idempotent-replayed",
    "last-modified",
    "link",
    "location",
    "request-id",
    "x-request-id",
)
"""What of a reply's headers is recorded, where it is there. The rest is about the connection, or a cookie."""

_NOT_NOW: Final[Mapping[int, str]] = {408: TIMEOUT, 425: NETWORK, 429: RATE_LIMIT}
"""By these a server says that it has not acted and that the same request may be welcome later."""
_NOT_ALLOWED: Final = frozenset({401, 402, 403, 407})
_BUSY_WITH_IT: Final = 409
_UNAVAILABLE: Final = 503
_NO_CONTENT: Final = frozenset({204, 205, 304})
_TEXT: Final = re.compile(r"text/|application/(.+\+)?(xml|yaml|x-www-form-urlencoded|javascript|x-ndjson|graphql)\Z|\Z")
_JSON: Final = re.compile(r"application/(.+\+)?json\Z")
_CHARSETS: Final = frozenset(
    {
        "utf-8",
        "utf8",
        "us-ascii",
        "ascii",
        "iso-8859-1",
        "latin-1",
        "latin1",
        "iso-8859-15",
        "windows-1252",
        "cp1252",
        "utf-16",
        "utf-16le",
        "utf-16be",
    }
)
"""The character sets that are read, by the names that servers give them: each takes little time, and no other effect."""
_CHARSET: Final = re.compile(r""";\s*charset\s*=\s*"?([^\s";]+)""", re.IGNORECASE)
_WORDS: Final = 500
"""Maximum number of characters of a refusal that an error quotes."""
_SHOWN: Final = 40
_MAX_COLLECTIONS: Final = 200_000
"""Of brackets that open in a JSON answer: three bytes there may be a hundred in memory, made while nobody else has a turn."""


class _Unusable(Exception):
    """A body that cannot be recorded, and why."""


def answer(request: Request, reply: Reply, policy: EffectPolicy, accepted: Collection[int]) -> dict[str, Any]:
    """The reply as the tool's response: `{"status", "headers", "body"}`. 2xx and the `accepted` statuses are answers.

    Raises ToolFailed where the server has not acted: it says so, or what it does is read only. Raises OutcomeUnknown
    where it may have.
    """
    expect_good(request, reply, policy, accepted)
    return _answer(request, reply, policy)


def expect_good(request: Request, reply: Reply, policy: EffectPolicy = "read", accepted: Collection[int] = ()) -> None:
    """Raises what `answer` does for a status that is no answer."""
    if 200 <= reply.status < 300 or reply.status in accepted:
        return
    what = f"{request.method} {request.authority} answered HTTP {reply.status}"
    said = _words(reply)
    if reply.status in _NOT_NOW or (reply.status == _UNAVAILABLE and "retry-after" in reply.headers):
        raise ToolFailed(
            f"{what}: not now. It did not happen.{said}",
            error_class=_NOT_NOW.get(reply.status, RATE_LIMIT),
            retry_after_s=retry_after_s(reply.headers),
        )
    if 300 <= reply.status < 400:
        raise _redirected(request, reply, what, policy)
    if reply.status == _BUSY_WITH_IT and policy == "idempotent":
        # What a server says that honours keys and still is at the first request of this one.
        raise OutcomeUnknown(f"{what}: it may still be at it.{said}", error_class=NETWORK)
    if reply.status < 500:
        error_class = AUTHORIZATION if reply.status in _NOT_ALLOWED else VALIDATION
        raise ToolFailed(f"{what}. It did not happen.{said}", error_class=error_class)
    raise OutcomeUnknown(f"{what}: it broke, perhaps after it had acted.{said}", error_class=NETWORK)


def _answer(request: Request, reply: Reply, policy: EffectPolicy) -> dict[str, Any]:
    try:
        body = _body(request, reply)
    except _Unusable as problem:
        what = f"{request.method} {request.authority} answered HTTP {reply.status}, but its answer is of no use: {problem}."
        if policy == "read":
            raise ToolFailed(what, error_class=VALIDATION) from None
        raise OutcomeUnknown(f"{what} It probably happened.", error_class=VALIDATION) from None
    kept = {name: reply.headers[name] for name in KEPT_HEADERS if name in reply.headers}
    return {"status": reply.status, "headers": kept, "body": body}


def _body(request: Request, reply: Reply) -> Any:
    """JSON as data, text as text. Raises _Unusable for anything else."""
    if reply.unreadable is not None:
        raise _Unusable(reply.unreadable)
    if not reply.body or request.method == "HEAD" or reply.status in _NO_CONTENT:
        return None
    kind, charset = _kind(reply.headers.get("content-type", ""))
    if _JSON.match(kind):
        if reply.body.count(b"[") + reply.body.count(b"{") > _MAX_COLLECTIONS:
            raise _Unusable(f"it has more than {_MAX_COLLECTIONS:,} lists and objects")
        try:
            return msgspec.json.decode(reply.body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
            raise _Unusable(f"it calls itself {kind} and is none: {problem}") from None
    if not _TEXT.match(kind):
        raise _Unusable(f"{kind} is neither JSON nor text")
    if charset not in _CHARSETS:
        raise _Unusable(f"its charset, {charset[:_SHOWN]!r}, is none that is read here ({', '.join(sorted(_CHARSETS))})")
    try:
        return reply.body.decode(charset)
    except UnicodeDecodeError as problem:
        raise _Unusable(f"it is no text: {problem}") from None


def _kind(content_type: str) -> tuple[str, str]:
    """The media type and the character set (RFC 9110, section 8.3), in lower case."""
    found = _CHARSET.search(content_type)
    return content_type.partition(";")[0].strip().lower(), found[1].lower() if found is not None else "utf-8"


def _redirected(request: Request, reply: Reply, name: str, policy: EffectPolicy) -> ToolFailed | OutcomeUnknown:
    to = reply.headers.get("location", "nowhere")[:_WORDS]
    refused = f"{name}, a redirect to {to}, which is not followed"
    why = f"only within {request.origin[0]}://{request.authority}, and a request that changes something only on 307 and 308"
    if policy == "read" or reply.status in (307, 308):
        return ToolFailed(f"{refused}: {why}. It did not happen: declare the final URL.", error_class=DENIED)
    return OutcomeUnknown(f"{refused}: {why}. The server may have acted before it sent us on.", error_class=VALIDATION)


def _words(reply: Reply) -> str:
    text = " ".join(reply.body.decode("utf-8", "replace").split())
    printable = "".join(each for each in text if each.isprintable())
    return f" It says: {printable[:_WORDS]}" if printable else ""
