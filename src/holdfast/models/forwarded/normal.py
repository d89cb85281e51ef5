"""The form of a request by which a journal compares it: the body without what changes whenever the program starts.

The official SDKs and the frameworks on them need no rule. Claude Code, Codex, Gemini CLI and OpenCode put ids of their process,
the date and figures of their shell into requests. Never here: sending a request, finding a difference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

_MASK: Final = "…"


class _Rules(NamedTuple):
    """The parts of a client's requests that are not compared, by the beginning of its user agent."""

    agent: str
    texts: re.Pattern[str]
    """Masked in every text, up to the end of the match."""
    drop: Callable[[dict[str, Any]], dict[str, Any]]


def _claude_code(body: dict[str, Any]) -> dict[str, Any]:
    metadata = body.get("metadata")
    return {**body, "metadata": {**metadata, "user_id": _MASK}} if isinstance(metadata, dict) else body


def _codex(body: dict[str, Any]) -> dict[str, Any]:
    made = {name: value for name, value in body.items() if name not in ("prompt_cache_key", "client_metadata")}
    if isinstance(body.get("input"), list):
        made["input"] = [_codex_item(each) if isinstance(each, dict) else each for each in body["input"]]
    return made


def _codex_item(item: dict[str, Any]) -> dict[str, Any]:
    kind, dropped = str(item.get("type")), {"internal_chat_message_metadata_passthrough"}
    if kind.endswith("_output") or (kind == "message" and item.get("role") != "assistant"):
        dropped.add("id")
    return {name: value for name, value in item.items() if name not in dropped}


def _as_it_is(body: dict[str, Any]) -> dict[str, Any]:
    return body


_DATE: Final = r"Today's date( is|:) [^\n(.]*"
_RULES: Final = (
    _Rules("claude-cli", re.compile(rf"{_DATE}|\bcc_version=[^;\s]*"), _claude_code),
    _Rules("codex", re.compile(r"(?<=<current_date>)[^<]*|(?<=Chunk ID: )\S+|(?<=Wall time: )[0-9.]+(?= seconds)"), _codex),
    _Rules("geminicli", re.compile(rf"{_DATE}|(?<=Process Group PGID: )\d+"), _as_it_is),
    _Rules("opencode", re.compile(_DATE), _as_it_is),
)


def question_of(body: dict[str, Any], headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the body as it is compared; `headers` name the program. Equal bodies of other programs stay equal."""
    agent = " ".join((headers.get("user-agent", ""), headers.get("originator", ""))).strip().lower()
    for rules in _RULES:
        if agent.startswith(rules.agent) or f" {rules.agent}" in agent:
            made: dict[str, Any] = _masked(rules.drop(body), rules.texts)
            return made
    return body


def _masked(value: Any, texts: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return texts.sub(_MASK, value)
    if isinstance(value, list):
        return [_masked(each, texts) for each in value]
    if isinstance(value, dict):
        return {name: _masked(each, texts) for name, each in value.items()}
    return value


class FieldDifference(NamedTuple):
    """A field in which two requests differ, and its values as texts; a missing field has None."""

    field: str
    before: str | None
    now: str | None


_SHOWN: Final = 200
"""Characters of a value that are shown."""


def first_difference(before: Any, now: Any, at: str = "") -> FieldDifference | None:
    """Return the first field in which two requests differ; None if they are equal."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in [*before, *(each for each in now if each not in before)]:
            here = f"{at}.{name}" if at else name
            if name not in before or name not in now:
                return FieldDifference(here, _value_text(before, name), _value_text(now, name))
            if (found := first_difference(before[name], now[name], here)) is not None:
                return found
        return None
    if isinstance(before, list) and isinstance(now, list):
        for place in range(max(len(before), len(now))):
            here = f"{at}[{place}]"
            if place >= len(before) or place >= len(now):
                one = _text(before[place]) if place < len(before) else None
                other = _text(now[place]) if place < len(now) else None
                return FieldDifference(here, one, other)
            if (found := first_difference(before[place], now[place], here)) is not None:
                return found
        return None
    return None if before == now and type(before) is type(now) else _values_differ(before, now, at)


def _values_differ(before: Any, now: Any, at: str) -> FieldDifference:
    """Two long texts are shown from just before the place where they differ."""
    if not isinstance(before, str) or not isinstance(now, str):
        return FieldDifference(at, _text(before), _text(now))
    same = next((n for n, (one, other) in enumerate(zip(before, now, strict=False)) if one != other), 0)
    start = max(0, same - 40) if max(len(before), len(now)) > _SHOWN else 0
    return FieldDifference(at, _text(before[start:]), _text(now[start:]))


def _value_text(request: dict[str, Any], name: str) -> str | None:
    return _text(request[name]) if name in request else None


def _text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
