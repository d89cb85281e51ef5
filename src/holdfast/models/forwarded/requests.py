"""A program's request: read from HTTP, bounded, and written for its provider.

Never here: a connection, a journal, money, the answer to a request that is refused.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from copy import deepcopy
from hashlib import sha256
from typing import Any, Final

import msgspec

from holdfast.core.values.content import ContentPart
from holdfast.errors import InvalidInput, NotFound, UnboundableRequest
from holdfast.models import content
from holdfast.models.bounds import (
    ANY_TOOLS_TOKENS,
    MESSAGE_TOKENS,
    REQUEST_TOKENS,
    SCHEMA_OBJECT_TOKENS,
    TOOL_TOKENS,
    json_tokens,
    text_tokens,
)
from holdfast.models.family import ProviderName, family_of
from holdfast.models.forwarded import gemini
from holdfast.models.forwarded.anthropic_messages import COUNT_TOKENS, MESSAGES
from holdfast.models.forwarded.format import MIN_TOKENS, Media, StreamReport, WireFormat, field
from holdfast.models.forwarded.normal import question_of
from holdfast.models.forwarded.openai_chat import CHAT, EMBEDDINGS
from holdfast.models.forwarded.openai_responses import RESPONSES
from holdfast.ports import ForwardedFormat, ForwardedRequest, Usage

FORMATS: Final[Mapping[ForwardedFormat, WireFormat]] = {
    "anthropic.messages": MESSAGES,
    "anthropic.count_tokens": COUNT_TOKENS,
    "openai.chat": CHAT,
    "openai.responses": RESPONSES,
    "openai.embeddings": EMBEDDINGS,
    "gemini.generate": gemini.GENERATE,
}

PATHS: Final[Mapping[str, ForwardedFormat]] = {
    "/messages": "anthropic.messages",
    "/messages/count_tokens": "anthropic.count_tokens",
    "/chat/completions": "openai.chat",
    "/responses": "openai.responses",
    "/embeddings": "openai.embeddings",
}

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
"""Of a request: what Anthropic takes."""

_VERSION: Final = re.compile(r"/v1(beta\d*|alpha)?(?=/)")
_FORWARDED_HEADERS: Final = ("anthropic-version", "anthropic-beta")
_LOWERED_BY: Final = 3, 4
"""Each maximum is this part of the one before."""
_WRITES_MOST: Final = (
    (re.compile(r"gpt-3\.5|gpt-4(?![.o])|.*instruct"), 4_096),
    (re.compile(r"gpt-4|chatgpt-4o"), 16_384),
    (re.compile(r"gpt-|o\d|gemini-([3-9]|2\.5)"), 32_768),
    (re.compile(r"gemini-"), 8_192),
)
_OTHERS_WRITE: Final = 4_096
"""An unknown model may have a small context, and refuses a maximum above it."""


def format_at(path: str) -> ForwardedFormat | None:
    """The format of the requests at a path, with or without its version; None where nothing is served."""
    place = _VERSION.sub("", path.partition("?")[0], count=1)
    return "gemini.generate" if gemini.PATH.fullmatch(place) else PATHS.get(place)


def read(path: str, headers: Mapping[str, str], body: bytes) -> ForwardedRequest:
    """Return the request that a program has sent; `headers` have names in small letters.

    Raises NotFound for a path that no format has, InvalidInput for a body that is not of the format, and UnboundableRequest
    for one whose cost has no upper bound.
    """
    place = _VERSION.sub("", path.partition("?")[0], count=1)
    format_ = format_at(path)
    if format_ is None:
        served = ", ".join((*PATHS, "/models/MODEL:generateContent"))
        raise NotFound(f"No model is called at {place}. Nothing was called. The paths are: {served}.")
    content_ = _decoded(body)
    name, stream = content_.get("model"), content_.get("stream") is True
    if (found := gemini.PATH.fullmatch(place)) is not None:
        name, stream = found[1], found[2] == gemini.STREAM
        if stream and "alt=sse" not in path:
            raise InvalidInput("A stream is asked for with alt=sse. Nothing was called.")
    if not isinstance(name, str) or not name:
        raise InvalidInput("model is to be the name of a model. Nothing was called.")
    wire = FORMATS[format_]
    wire.check(content_)
    asked = wire.maximum(content_)
    maximum = _unasked_maximum(name) if asked is None else asked
    return ForwardedRequest(
        name if family_of(name) == wire.provider else f"{wire.provider}:{name}",
        format_,
        place,
        content_,
        question_of(content_, headers),
        maximum,
        {each: headers[each] for each in _FORWARDED_HEADERS if headers.get(each)},
        is_lowered=asked is None,
        stream=stream,
    )


def _decoded(body: bytes) -> dict[str, Any]:
    if len(body) > MAX_BODY_BYTES:
        raise InvalidInput(f"The request has more than {MAX_BODY_BYTES // 1024 // 1024} MiB. Nothing was called.")
    try:
        found = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as problem:
        raise InvalidInput(f"The body is not JSON: {problem}. Nothing was called.") from None
    if not isinstance(found, dict):
        raise InvalidInput("The body is to be a JSON object. Nothing was called.")
    return found


def _unasked_maximum(name: str) -> int:
    """The maximum that is bought where the program sets none: no more than the model writes."""
    return next((most for names, most in _WRITES_MOST if names.match(name)), _OTHERS_WRITE)


def lowered(request: ForwardedRequest) -> list[ForwardedRequest]:
    """Return the request with ever lower maximums, down to a floor."""
    floor, made, most = _floor(request), [], request.max_tokens
    while most > floor:
        most = max(floor, most * _LOWERED_BY[0] // _LOWERED_BY[1])
        made.append(msgspec.structs.replace(request, max_tokens=most, is_lowered=True))
    return made


def _floor(request: ForwardedRequest) -> int:
    """A model that thinks has to have room for an answer besides."""
    thinks = field(request.body, "thinking", "budget_tokens") is not None or "gemini" in request.format
    return min(request.max_tokens, 2 * MIN_TOKENS if thinks else MIN_TOKENS)


def provider_of(request: ForwardedRequest) -> ProviderName:
    return FORMATS[request.format].provider


def path_at(request: ForwardedRequest) -> str:
    """The path below the provider's base address, which has its version at OpenAI's."""
    if request.format == "gemini.generate":
        return f"/v1beta{request.path}{'?alt=sse' if request.stream else ''}"
    return request.path if provider_of(request) == "openai" else f"/v1{request.path}"


def bought(request: ForwardedRequest) -> int | None:
    """The maximum that was bought, None where it is the program's own."""
    return request.max_tokens if request.is_lowered else None


def usage_of(request: ForwardedRequest, reply: Any) -> Usage | None:
    """The usage that a whole reply reports."""
    return FORMATS[request.format].usage(reply)


def report_of(request: ForwardedRequest) -> StreamReport:
    """Return the collector of the usage of its streamed reply."""
    return FORMATS[request.format].report(request.body)


def sent(request: ForwardedRequest) -> dict[str, Any]:
    """The body that goes to the provider."""
    name = str(request.body.get("model", ""))
    return FORMATS[request.format].limited(name, request.body, request.max_tokens)


def kept_form(request: ForwardedRequest) -> Any:
    """The form in which a history keeps the request; None for texts to embed, which are data and stand where they were read.

    The conversation is apart from the rest, since a later call repeats it.
    """
    turns = FORMATS[request.format].turns
    if not turns:
        return None
    rest = {name: value for name, value in request.question.items() if name != turns}
    said = request.question.get(turns)
    conversation = [_turn(each) for each in (said if isinstance(said, list) else [said])]
    return {"model": request.model, "format": request.format, "request": rest, "turns": conversation}


def _turn(message: Any) -> dict[str, Any]:
    role = (field(message, "role") or field(message, "type")) if isinstance(message, dict) else None
    return {"type": "forwarded", "role": str(role or "user"), "replay": message}


# --- The bound ------------------------------------------------------------------------------------------------------------


def forwarded_tokens_at_most(request: ForwardedRequest, context_window_tokens: int | None = None) -> int:
    """The most input tokens that `request` can be billed for, as bounds.input_tokens_at_most has it: all of the body counts,
    each character in its longest form, and each object as a part of a message.

    Signatures of thinking stand for more thinking than is shown. They are that thinking encrypted, so no token of it is shorter
    than a byte of them; they count twice.

    Raises UnboundableRequest for anything whose tokens cannot be bounded.
    """
    if request.format == "anthropic.count_tokens":
        return 0
    wire = FORMATS[request.format]
    body = deepcopy(request.body) if any(True for _ in wire.media(request.body)) else request.body
    total = REQUEST_TOKENS + MESSAGE_TOKENS
    for media in [*wire.media(body)]:
        tokens = None if media.data is None else _media_tokens(request.model, media, media.data)
        if tokens is None and context_window_tokens is None:
            raise UnboundableRequest(
                f"The request has a part that counts as the whole context of {request.model}, whose size is unknown, so no"
                f" limit can be kept for it. Nothing was called. Send it as text, or declare context_tokens in holdfast.toml"
                f' under [models."{request.model}"].'
            )
        total += MESSAGE_TOKENS + (context_window_tokens or 0 if tokens is None else tokens)
        if media.data is not None:
            media.holder[media.field] = ""
    total += json_tokens(body) + MESSAGE_TOKENS * _objects_in(body.get(wire.turns) if wire.turns else body.get("input"))
    tools = wire.tools(body)
    if tools:
        schemas = _objects_in(body.get("tools")) + _objects_in(body.get("functions"))
        total += ANY_TOOLS_TOKENS + TOOL_TOKENS * tools + SCHEMA_OBJECT_TOKENS * schemas
    total += _signature_tokens(body)
    return total if context_window_tokens is None else min(total, context_window_tokens)


def _media_tokens(model: str, media: Media, data: str) -> int | None:
    try:
        found = b64decode(data, validate=True)
    except ValueError:
        raise InvalidInput(f"The {media.type} in the request is not Base64. Nothing was called.") from None
    if media.type == "document" and media.media_type.startswith("text/"):
        return text_tokens(found.decode(errors="replace"))
    part = ContentPart(media.type, media.media_type, sha256(found).hexdigest(), len(found), content=found)
    return content.tokens_at_most(model, part)


def _objects_in(value: Any) -> int:
    """The number of objects in a JSON value, at any depth, and of texts in lists of it."""
    if isinstance(value, list):
        return sum(1 if isinstance(each, str) else _objects_in(each) for each in value)
    return 1 + sum(map(_objects_in, value.values())) if isinstance(value, dict) else 0


_SIGNATURES: Final = ("signature", "encrypted_content", "thoughtSignature", "thought_signature")


def _signature_tokens(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_signature_tokens, value))
    if not isinstance(value, dict):
        return 0
    redacted = ("data",) if value.get("type") == "redacted_thinking" else ()
    own = sum(len(found) for name in (*_SIGNATURES, *redacted) if isinstance(found := value.get(name), str))
    return own + sum(map(_signature_tokens, value.values()))
