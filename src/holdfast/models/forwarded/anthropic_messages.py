"""Anthropic's Messages and its counting of tokens, as far as a forwarded call depends on them.

The format: docs.claude.com, "Messages". Tools that run at the provider, compaction, fast mode and other regions bill more than
the reply's tokens, so they are refused. Never here: a connection, a journal, money.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from holdfast.models import usage as usages
from holdfast.models.forwarded.format import Media, NoStream, WireFormat, error_in, field, objects, parsed, refusal, whole
from holdfast.ports import Usage

_CLIENT_TOOLS: Final = re.compile(r"custom|(bash|computer|memory|text_editor)_\d+")
_OWN: Final = re.compile(r"claude-")
_UNBOUNDED: Final = ("container", "mcp_servers")
_CONTENT: Final = frozenset({"text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking"})
_LEAST_THINKING: Final = 1_024


def _check(body: dict[str, Any]) -> None:
    for tool in objects(body.get("tools")):
        if not _CLIENT_TOOLS.fullmatch(str(tool.get("type") or "custom")):
            raise refusal(f"the tool {tool.get('type')}, which runs at the provider", "Offer tools that the program runs.")
    for name in _UNBOUNDED:
        if body.get(name):
            raise refusal(name)
    for edit in objects(field(body, "context_management", "edits")):
        if str(edit.get("type")).startswith("compact"):
            raise refusal(f"the context edit {edit.get('type')}")
    if body.get("speed") not in (None, "standard") or body.get("inference_geo") not in (None, "global"):
        raise refusal("a speed or a region above the listed rates")


def _maximum(body: dict[str, Any]) -> int | None:
    return whole(body, "max_tokens")


def _limited(name: str, body: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    made = {**_listed_rates(body), "max_tokens": max_tokens}
    if _OWN.match(name):
        made["service_tier"] = "standard_only"  # left out, the project's default applies, which may be a dearer one
    thinks = field(body, "thinking", "budget_tokens")
    if isinstance(thinks, int) and thinks >= max_tokens:
        made["thinking"] = {**body["thinking"], "budget_tokens": max(_LEAST_THINKING, max_tokens * 3 // 4)}
    return made


def _listed_rates(value: Any) -> Any:
    """The same with a cache of five minutes where it asks for an hour, which costs more than the bound counts."""
    if isinstance(value, list):
        return [_listed_rates(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "ephemeral" and value.get("ttl") == "1h":
        return {**value, "ttl": "5m"}
    # The arguments of a tool and its schema are the program's own data.
    return {key: each if key in ("input", "input_schema") else _listed_rates(each) for key, each in value.items()}


def _media(body: dict[str, Any]) -> Iterator[Media]:
    for message in objects(body.get("messages")):
        yield from _media_in(message.get("content"))


def _media_in(content: Any) -> Iterator[Media]:
    for block in objects(content):
        kind = block.get("type")
        if kind in ("image", "document"):
            yield from _source_of(kind, block)
        elif kind == "tool_result":
            yield from _media_in(block.get("content"))
        elif kind not in _CONTENT:
            yield Media("document", "", block, "", None)


def _source_of(kind: Any, block: dict[str, Any]) -> Iterator[Media]:
    source: Any = block.get("source")
    match source:
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            yield Media(kind, media_type, source, "data", data)
        case {"type": "text"}:
            return
        case {"type": "content", "content": content}:
            yield from _media_in(content)
        case _:
            yield Media("document", "", block, "", None)


def _usage(body: Any) -> Usage | None:
    return usages.of_reply("anthropic", body)


def _tools(body: dict[str, Any]) -> int:
    """A tool of Anthropic's own design brings a description and words in the prompt."""
    return sum(1 if tool.get("type") in (None, "custom") else 32 for tool in objects(body.get("tools")))


class _Report:
    """Keeps StreamReport."""

    may_end = False

    def __init__(self, body: dict[str, Any]) -> None:
        self.is_complete = False
        self.error: str | None = None
        self._report: dict[str, Any] = {}
        self._is_final = False

    def add(self, data: bytes) -> bool:
        event = parsed(data)
        kind = field(event, "type")
        if kind == "message_start":
            self._take(field(event, "message", "usage"))
        elif kind == "message_delta":
            self._take(field(event, "usage"))
            self._is_final = True
        elif kind in ("message_stop", "error"):
            self.is_complete = True
            self.error = error_in(event) if kind == "error" else None
        return True

    def _take(self, report: Any) -> None:
        if isinstance(report, dict):
            self._report |= {name: value for name, value in report.items() if value is not None}

    @property
    def usage(self) -> Usage | None:
        return _usage({"usage": self._report}) if self._is_final else None


MESSAGES: Final = WireFormat("anthropic", _check, _maximum, _limited, _media, _usage, _Report, _tools, "messages")
COUNT_TOKENS: Final = WireFormat(
    "anthropic",
    _check,
    lambda body: 0,
    lambda name, body, max_tokens: body,
    _media,
    lambda body: Usage(0, 0),
    NoStream,
    _tools,
    "messages",
)
