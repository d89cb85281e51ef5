"""OpenAI's Chat Completions and embeddings, as far as a forwarded call depends on them.

The format: platform.openai.com, "Chat Completions". Searches, predictions and speech bill more than the reply's tokens, so
they are refused. Never here: a connection, a journal, money.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from holdfast.errors import InvalidInput
from holdfast.models import usage as usages
from holdfast.models.forwarded.format import Media, NoStream, WireFormat, error_in, field, objects, parsed, refusal, whole
from holdfast.ports import Usage

_OWN: Final = re.compile(r"(ft:)?(gpt-(?!oss)|chatgpt-|o\d)")
_DATA: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,")
_HEARD: Final = {"mp3": "audio/mpeg", "wav": "audio/wav"}
_TEXTS: Final = frozenset({"text", "refusal"})
MAX_CHOICES: Final = 128


def own(name: str) -> bool:
    """True for a model of OpenAI's own, which takes a tier of service."""
    return _OWN.match(name) is not None


def refuse_dear_tier(body: dict[str, Any]) -> None:
    if body.get("service_tier") not in (None, "auto", "default", "flex"):
        raise refusal(f"the service tier {body['service_tier']}")


def at_listed_rates(name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Left out, the project's default tier applies, which may be a dearer one."""
    if own(name) and body.get("service_tier") in (None, "auto"):
        return {**body, "service_tier": "default"}
    return dict(body)


def image_of(holder: dict[str, Any], name: str) -> Media:
    """The image that a field of `holder` has as a data address."""
    url = holder.get(name)
    found = _DATA.match(url) if isinstance(url, str) else None
    if found is None or not isinstance(url, str):
        return Media("image", "", holder, name, None)
    return Media("image", found[1], holder, name, url[found.end() :])


def _check(body: dict[str, Any]) -> None:
    if body.get("web_search_options") is not None:
        raise refusal("web_search_options, a search at the provider")
    if body.get("prediction") is not None:
        raise refusal("a prediction, whose rejected tokens are billed")
    if "audio" in (body.get("modalities") or ()):
        raise refusal("recorded speech to be answered")
    for tool in objects(body.get("tools")):
        if tool.get("type") not in ("function", "custom"):
            raise refusal(f"the tool {tool.get('type')}, which runs at the provider", "Offer tools that the program runs.")
    refuse_dear_tier(body)


def _choices(body: dict[str, Any]) -> int:
    choices = whole(body, "n") or 1
    if choices > MAX_CHOICES:
        raise InvalidInput(f"n is {choices}; at most {MAX_CHOICES} replies are asked for at once. Nothing was called.")
    return choices


def _maximum(body: dict[str, Any]) -> int | None:
    each = whole(body, "max_completion_tokens") or whole(body, "max_tokens")
    return None if each is None else each * _choices(body)


def _limited(name: str, body: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    made = at_listed_rates(name, body)
    new = "max_completion_tokens"
    chosen = new if body.get(new) is not None or (own(name) and body.get("max_tokens") is None) else "max_tokens"
    made[chosen] = max(1, max_tokens // _choices(body))
    if body.get("stream"):
        made["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    return made


def _media(body: dict[str, Any]) -> Iterator[Media]:
    for message in objects(body.get("messages")):
        for part in objects(message.get("content")):
            match part:
                case {"type": "image_url", "image_url": dict(image)}:
                    yield image_of(image, "url")
                case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind)} as heard}:
                    yield Media("audio", _HEARD.get(kind, kind), heard, "data", data)
                case {"type": str(kind)} if kind in _TEXTS:
                    pass
                case _:
                    yield Media("document", "", part, "", None)
        if message.get("audio"):
            yield Media("document", "", message, "", None)


def _usage(body: Any) -> Usage | None:
    return usages.of_reply("openai", body)


def _tools(body: dict[str, Any]) -> int:
    return len(objects(body.get("tools"))) + len(objects(body.get("functions")))


class _Report:
    """Keeps StreamReport. The usage comes in a chunk without choices, which only programs get that asked for it."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.is_complete = False
        self.may_end = False
        self.error: str | None = None
        self._asked = field(body, "stream_options", "include_usage") is True
        self._chunk: dict[str, Any] = {}

    def add(self, data: bytes) -> bool:
        if data.strip() == b"[DONE]":
            self.is_complete = True
            return True
        chunk = parsed(data)
        if not isinstance(chunk, dict):
            return True
        if chunk.get("error"):
            self.is_complete, self.error = True, error_in(chunk)
        self._chunk |= {name: chunk[name] for name in ("service_tier", "usage") if chunk.get(name) is not None}
        return self._asked or bool(chunk.get("choices")) or chunk.get("usage") is None

    @property
    def usage(self) -> Usage | None:
        return _usage(self._chunk)


def _embeds_listed(body: dict[str, Any]) -> None:
    if not isinstance(body.get("input"), str | list):
        raise InvalidInput("input is to be a text or a list. Nothing was called.")


CHAT: Final = WireFormat("openai", _check, _maximum, _limited, _media, _usage, _Report, _tools, "messages")
EMBEDDINGS: Final = WireFormat(
    "openai",
    _embeds_listed,
    lambda body: 0,
    lambda name, body, max_tokens: body,
    lambda body: iter(()),
    usages.of_embedding,
    NoStream,
    lambda body: 0,
)
