"""The tokens a provider says a call has used, read from its reply as it came over the wire.

Never here: a guess. A report that cannot be read exactly is no report, and the call's whole hold stays in doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.ports import Usage

_DEARER_SERVICE: Final = frozenset({"priority", "fast", "ultrafast"})
"""Tiers and speeds above the listed rates. They are never asked for, yet a project's own default may be one."""


def of_reply(provider: str, body: Any) -> Usage | None:
    """The usage that the JSON `body` of a complete reply reports; None for one that is missing or unreadable."""
    try:
        usage = _READERS[provider](body)
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return usage if 0 < usage.input_tokens >= cached else None


def of_embedding(body: Any) -> Usage | None:
    """The usage that a reply with vectors reports, all of it input; None as above."""
    try:
        tokens = _count(body["usage"]["prompt_tokens"])
    except (LookupError, TypeError, ValueError):
        return None
    return Usage(tokens, 0) if tokens else None


def _of_anthropic(body: Mapping[str, Any]) -> Usage:
    """Here `input_tokens` is what the cache had no part in. Writes for an hour cost more, and are never asked for."""
    report = body["usage"]
    read, written = (_count(report.get(f"cache_{kind}_input_tokens") or 0) for kind in ("read", "creation"))
    if (report.get("cache_creation") or {}).get("ephemeral_1h_input_tokens"):
        raise ValueError("written to a cache at another rate")
    _refuse_dearer(report.get("service_tier"), report.get("speed"))
    return Usage(_count(report["input_tokens"]) + read + written, _count(report["output_tokens"]), read, written)


def _of_openai(body: Mapping[str, Any]) -> Usage:
    report = body["usage"]
    details = report.get("prompt_tokens_details") or {}
    read, written = (_count(details.get(kind) or 0) for kind in ("cached_tokens", "cache_write_tokens"))
    _refuse_dearer(body.get("service_tier"))
    return Usage(_count(report["prompt_tokens"]), _count(report["completion_tokens"]), read, written)


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], Usage]]] = {"anthropic": _of_anthropic, "openai": _of_openai}


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no number of tokens")
    return value


def _refuse_dearer(*services: Any) -> None:
    if _DEARER_SERVICE.intersection(filter(None, services)):
        raise ValueError(f"served above the listed rates: {services}")
