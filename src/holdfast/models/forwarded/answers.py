"""The answer to a request that gets no reply, in the error format that its program reads.

At a limit it is one after which the official SDKs and the coding agents send nothing again: 402 for most, 400 for Codex, which
would retry a 402 five times. Claude Code answers a 400 by sending the call again with fewer features: it gets a 403.
Never here: what is refused and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.values import policies
from holdfast.errors import (
    CallsStopped,
    HoldfastError,
    NotFound,
    NotPermitted,
    OperationFailed,
    TooMuch,
    Unauthorized,
    UnboundableRequest,
    UsageError,
)
from holdfast.ports import ForwardedFormat

_RETRY_AFTER_S: Final = 1


class ErrorAnswer(NamedTuple):
    """An HTTP response to a program whose request gets no reply."""

    status: int
    headers: dict[str, str]
    body: bytes


_STATUSES: Final[Mapping[str, int]] = {
    policies.AUTHORIZATION: 401,
    policies.VALIDATION: 400,
    policies.RATE_LIMIT: 429,
    policies.TIMEOUT: 504,
    policies.NETWORK: 502,
    policies.MODEL_TRANSIENT: 503,
}
"""By class of the recorded error, where its provider gave no status."""

_ANTHROPIC: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OPENAI: Final[Mapping[int, tuple[str, str | None]]] = {
    400: ("invalid_request_error", None),
    401: ("authentication_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "not_found"),
    429: ("rate_limit_exceeded", "rate_limit_exceeded"),
}
_GEMINI: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "FAILED_PRECONDITION",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def answer_to(problem: Exception, format_: ForwardedFormat | None, headers: Mapping[str, str]) -> ErrorAnswer:
    """Return the response for a request that has failed; `headers` are the request's, with names in small letters."""
    status, retry_after_s = _status(problem, headers)
    made = {"content-type": "application/json"}
    if status < 500 and status not in (408, 409, 429):
        made["x-should-retry"] = "false"
    if retry_after_s is not None:
        made["retry-after"] = f"{max(1, round(retry_after_s))}"
    message = problem.message if isinstance(problem, HoldfastError) else "The gateway failed; its log has the reason."
    return ErrorAnswer(status, made, msgspec.json.encode(_body(status, message, format_)))


def _status(problem: Exception, headers: Mapping[str, str]) -> tuple[int, float | None]:
    match problem:
        case CallsStopped():
            return (400 if _is_codex(headers) else 402), None
        case UnboundableRequest():
            return _refused(headers), None
        case NotFound():
            return 404, None
        case Unauthorized():
            return 401, None
        case NotPermitted():
            return 403, None
        case TooMuch():
            return 429, problem.retry_after_s
        case UsageError():
            return 400, None
        case OperationFailed():
            return _failed(problem, headers)
        case _:
            return 500, None


def _failed(problem: OperationFailed, headers: Mapping[str, str]) -> tuple[int, float | None]:
    """The provider's own status where it has given one; a reply that was lost is a server's fault."""
    error = getattr(problem, "error", None)
    kind = getattr(error, "error_class", "")
    status = getattr(problem, "status_code", None)
    if type(status) is not int or not 400 <= status < 600:
        status = _STATUSES.get(kind, 500)
    if kind == policies.VALIDATION and status == 400 and getattr(problem, "status_code", None) is None:
        status = _refused(headers)  # of ours: no price, or no bound
    wait_s = getattr(error, "retry_after_s", None)
    return status, (wait_s or _RETRY_AFTER_S) if status == 429 else None


def _refused(headers: Mapping[str, str]) -> int:
    return 403 if headers.get("user-agent", "").lower().startswith("claude-cli") else 400


def _is_codex(headers: Mapping[str, str]) -> bool:
    return any(headers.get(name, "").lower().startswith("codex") for name in ("originator", "user-agent"))


def _body(status: int, message: str, format_: ForwardedFormat | None) -> dict[str, Any]:
    family = "openai" if format_ is None else format_.partition(".")[0]
    if family == "anthropic":
        return {"type": "error", "error": {"type": _ANTHROPIC.get(status, "api_error"), "message": message}}
    if family == "gemini":
        name = _GEMINI.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": name}}
    kind, code = _OPENAI.get(status, ("server_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
