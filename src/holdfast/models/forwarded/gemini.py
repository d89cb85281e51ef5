"""Gemini's `generateContent`, as far as a forwarded call depends on it.

The format: ai.google.dev, "Generating content". Recordings, films and tools that run at the provider have rates of their own,
so they are refused. Never here: a connection, a journal, money.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.models.forwarded.format import Media, WireFormat, error_in, field, objects, parsed, refusal, whole
from holdfast.ports import Usage

HOME: Final = "https://generativelanguage.googleapis.com"
PATH: Final = re.compile(r"/models/([^/:?]+):(generateContent|streamGenerateContent)")
STREAM: Final = "streamGenerateContent"

_FUNCTIONS: Final = frozenset({"functionDeclarations", "function_declarations"})
_PARTS: Final = frozenset(
    {"text", "functionCall", "function_call", "functionResponse", "function_response", "inlineData", "inline_data"}
)
_MARKS: Final = frozenset({"thought", "thoughtSignature", "thought_signature", "mediaResolution", "partMetadata"})
_SEEN: Final = ("image/", "text/", "application/pdf")
_LEAST_THINKING: Final = 512


def headers(key: str, _: Mapping[str, str]) -> dict[str, str]:
    return {"x-goog-api-key": key} if key else {}


def _config_name(body: dict[str, Any]) -> str:
    return "generation_config" if "generation_config" in body else "generationConfig"


def _config(body: dict[str, Any]) -> dict[str, Any]:
    found = body.get(_config_name(body))
    return found if isinstance(found, dict) else {}


def _maximum_name(config: dict[str, Any]) -> str:
    return "max_output_tokens" if "max_output_tokens" in config else "maxOutputTokens"


def _choices(body: dict[str, Any]) -> int:
    config = _config(body)
    return whole(config, "candidateCount") or whole(config, "candidate_count") or 1


def _check(body: dict[str, Any]) -> None:
    for tool in objects(body.get("tools")):
        for name in tool.keys() - _FUNCTIONS:
            raise refusal(f"the tool {name}, which runs at the provider", "Offer functions that the program runs.")
    config = _config(body)
    modalities = config.get("responseModalities") or config.get("response_modalities") or ()
    if any(str(each).upper() != "TEXT" for each in modalities):
        raise refusal("a reply that is not text")
    if field(body, "serviceTier") not in (None, "standard", "STANDARD") or body.get("service_tier") is not None:
        raise refusal("a tier of service above the listed rates")
    for part in _parts(body):
        data = part.get("inlineData") or part.get("inline_data")
        kind = field(data, "mimeType") or field(data, "mime_type")
        if data is not None and not str(kind).startswith(_SEEN):
            raise refusal(f"a part of type {kind}")
        if part.get("fileData") or part.get("file_data"):
            raise refusal("a file at an address", "Send its content.")


def _parts(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for content in [*objects(body.get("contents")), body.get("systemInstruction"), body.get("system_instruction")]:
        for part in objects(field(content, "parts")):
            yield part
            answer = part.get("functionResponse") or part.get("function_response")
            yield from objects(field(answer, "parts"))


def _maximum(body: dict[str, Any]) -> int | None:
    config = _config(body)
    each = whole(config, _maximum_name(config))
    return None if each is None else each * _choices(body)


def _limited(name: str, body: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    config, most = _config(body), max(1, max_tokens // _choices(body))
    made = {**config, _maximum_name(config): most}
    for thinking, budget in (("thinkingConfig", "thinkingBudget"), ("thinking_config", "thinking_budget")):
        thinks = field(config, thinking, budget)
        if isinstance(thinks, int) and thinks >= most:
            made[thinking] = {**config[thinking], budget: max(_LEAST_THINKING, most * 3 // 4)}
    return {**body, _config_name(body): made}


def _media(body: dict[str, Any]) -> Iterator[Media]:
    for name in ("cachedContent", "cached_content"):
        if body.get(name):
            yield Media("document", "", body, name, None)
    for part in _parts(body):
        inline = part.get("inlineData") or part.get("inline_data")
        kind = str(field(inline, "mimeType") or field(inline, "mime_type"))
        if isinstance(inline, dict):
            data = inline.get("data")
            known = data if isinstance(data, str) else None
            yield Media("image" if kind.startswith("image/") else "document", kind, inline, "data", known)
        elif part.keys() - _PARTS - _MARKS:
            yield Media("document", "", part, "", None)


def _usage(body: Any) -> Usage | None:
    """Thinking is billed as output. Words that the provider's tools have found would be input; none are offered."""
    report = field(body, "usageMetadata")
    names = (
        "promptTokenCount",
        "toolUsePromptTokenCount",
        "cachedContentTokenCount",
        "candidatesTokenCount",
        "thoughtsTokenCount",
    )
    counts = [field(report, name) or 0 for name in names]
    if any(type(count) is not int or count < 0 for count in counts):
        return None
    prompt, found, cached, said, thought = counts
    return Usage(prompt + found, said + thought, cached) if 0 < prompt + found >= cached else None


def _tools(body: dict[str, Any]) -> int:
    tools = objects(body.get("tools"))
    return sum(len(objects(tool.get(name))) for tool in tools for name in _FUNCTIONS)


class _Report:
    """Keeps StreamReport. A stream ends where its connection does, after a chunk that says why."""

    is_complete = False

    def __init__(self, body: dict[str, Any]) -> None:
        self.may_end = False
        self.error: str | None = None
        self._chunk: Any = None

    def add(self, data: bytes) -> bool:
        chunk = parsed(data)
        if field(chunk, "error"):
            self.is_complete, self.error = True, error_in(chunk)
        if field(chunk, "usageMetadata"):
            self._chunk = chunk
        ends = any(each.get("finishReason") for each in objects(field(chunk, "candidates")))
        self.may_end |= ends or field(chunk, "promptFeedback", "blockReason") is not None
        return True

    @property
    def usage(self) -> Usage | None:
        return _usage(self._chunk)


GENERATE: Final = WireFormat("google", _check, _maximum, _limited, _media, _usage, _Report, _tools, "contents")
