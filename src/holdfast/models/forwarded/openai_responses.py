"""OpenAI's Responses, as far as a forwarded call depends on them.

The format: platform.openai.com, "Responses". Tools that run at the provider bill more than the reply, and work in the
background has no deadline: both are refused. What the provider keeps (a response, a file) counts as the
whole context. Never here: a connection, a journal, money.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from holdfast.models import usage as usages
from holdfast.models.forwarded.format import Media, WireFormat, error_in, field, objects, parsed, refusal, whole
from holdfast.models.forwarded.openai_chat import at_listed_rates, image_of, refuse_dear_tier
from holdfast.ports import Usage

_TOOLS_OF_THE_PROGRAM: Final = frozenset({"function", "custom", "local_shell", "apply_patch"})
_KEPT_THERE: Final = ("previous_response_id", "conversation", "prompt")
_TEXTS: Final = frozenset({"input_text", "output_text", "refusal", "summary_text", "reasoning_text", "text"})
_PLAIN_ITEMS: Final = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "local_shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
    }
)
_LEAST: Final = 16
"""A smaller maximum is refused."""


def _check(body: dict[str, Any]) -> None:
    if body.get("background"):
        raise refusal("background, which has no deadline", "Send it without.")
    if body.get("context_management"):
        raise refusal("context_management, which has the provider sum it up")
    _check_tools(body.get("tools"))
    refuse_dear_tier(body)


def _check_tools(tools: Any) -> None:
    for tool in objects(tools):
        if tool.get("type") == "namespace":
            _check_tools(tool.get("tools"))
        elif tool.get("type") not in _TOOLS_OF_THE_PROGRAM:
            advice = 'Offer tools that the program runs (Codex: web_search = "disabled").'
            raise refusal(f"the tool {tool.get('type')}, which runs at the provider", advice)


def _maximum(body: dict[str, Any]) -> int | None:
    return whole(body, "max_output_tokens")


def _limited(name: str, body: dict[str, Any], max_tokens: int) -> dict[str, Any]:
    return {**at_listed_rates(name, body), "max_output_tokens": max(_LEAST, max_tokens)}


def _media(body: dict[str, Any]) -> Iterator[Media]:
    for name in _KEPT_THERE:
        if body.get(name) is not None:
            yield _kept_there(body, name)
    for item in objects(body.get("input")):
        kind = item.get("type") or "message"
        if kind == "message":
            yield from _media_in(item.get("content"))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield from _media_in(item.get("output"))
        elif kind == "computer_call_output":
            yield from _media_in([item.get("output")])
        elif kind not in _PLAIN_ITEMS and not item.get("encrypted_content"):
            yield _kept_there(item)


def _media_in(content: Any) -> Iterator[Media]:
    for part in objects(content):
        kind = part.get("type")
        if kind in ("input_image", "computer_screenshot"):
            yield image_of(part, "image_url")
        elif kind not in _TEXTS:
            yield _kept_there(part)


def _kept_there(holder: dict[str, Any], name: str = "") -> Media:
    return Media("document", "", holder, name, None)


def _usage(body: Any) -> Usage | None:
    report = field(body, "usage")
    if not isinstance(report, dict):
        return None
    counted = {
        "prompt_tokens": report.get("input_tokens"),
        "completion_tokens": report.get("output_tokens"),
        "prompt_tokens_details": report.get("input_tokens_details"),
    }
    return usages.of_reply("openai", {"usage": counted, "service_tier": field(body, "service_tier")})


def _tools(body: dict[str, Any]) -> int:
    tools = objects(body.get("tools"))
    return len(tools) + sum(len(objects(tool.get("tools"))) for tool in tools)


class _Report:
    """Keeps StreamReport."""

    may_end = False

    def __init__(self, body: dict[str, Any]) -> None:
        self.is_complete = False
        self.error: str | None = None
        self._response: Any = None

    def add(self, data: bytes) -> bool:
        event = parsed(data)
        kind = field(event, "type")
        if kind in ("response.completed", "response.incomplete", "response.failed"):
            self.is_complete, self._response = True, field(event, "response")
        elif kind == "error":
            self.is_complete = True
            self.error = error_in(event) if field(event, "error") else str(field(event, "message"))
        return True

    @property
    def usage(self) -> Usage | None:
        return _usage(self._response)


RESPONSES: Final = WireFormat("openai", _check, _maximum, _limited, _media, _usage, _Report, _tools, "input")
