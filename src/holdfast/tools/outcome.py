"""What an exception of a tool says about the world: it failed, it never got there, or nobody can know.

A tool that raises is taken at its word: it failed. Time-outs, broken connections and a server's own faults (HTTP 5xx)
say by their nature that they do not know; a tool says so itself with OutcomeUnknown. ToolFailed and OutcomeUnknown may
carry an `error_class` and a `retry_after_s` as facts. Never here: calling anything.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final, Literal

from pydantic import ValidationError

from holdfast.authoring import trace
from holdfast.core.policies import AUTHORIZATION, NETWORK, SCHEMA, TIMEOUT, TOOL, VALIDATION
from holdfast.errors import HoldfastError, MissingSecret, OutcomeUnknown, SchemaMismatch, StepError, ToolFailed

Knowledge = Literal["failed", "not_sent", "unknown"]

_NEVER_LEFT: Final = (ConnectionRefusedError, socket.gaierror, MissingSecret)
_LOST: Final = (asyncio.TimeoutError, TimeoutError, asyncio.CancelledError, ConnectionError, EOFError, OutcomeUnknown)
_LOST_NAMES: Final = (
    "timeout",
    "connection",
    "disconnect",
    "connecterror",
    "readerror",
    "writeerror",
    "incompleteread",
    "protocolerror",
    "networkerror",
    "transporterror",
    "urlerror",
    "payloaderror",
    "chunkedencoding",
    "sslerror",
)
"""Network libraries have families of errors of their own: their names are what they have in common."""


def knowledge(problem: BaseException) -> Knowledge:
    """`not_sent`: certainly nothing happened. `failed`: the tool says so. `unknown`: it may have happened."""
    if isinstance(problem, (ToolFailed, *_NEVER_LEFT)):
        return "not_sent"
    if isinstance(problem, _LOST) or _is_server_fault(problem):
        return "unknown"
    return "unknown" if not isinstance(problem, HoldfastError) and _is_lost_by_name(problem) else "failed"


def _is_lost_by_name(problem: BaseException) -> bool:
    names = [kind.__name__.lower() for kind in type(problem).__mro__]
    return any(part in name for name in names for part in _LOST_NAMES)


def _is_server_fault(problem: BaseException) -> bool:
    """Whether an HTTP library says that the server broke while it was at it: it may have been done before."""
    for holder in (problem, getattr(problem, "response", None)):
        for name in ("status_code", "status", "code"):
            found = getattr(holder, name, None)
            if isinstance(found, int) and 500 <= found < 600:
                return True
    return False


def error_class(problem: BaseException) -> str:
    """The reason code of a tool's exception: the one that it carries, or what its kind says."""
    if isinstance(problem, StepError) and (said := getattr(problem, "error_class", None)) is not None:
        return str(said)
    if isinstance(problem, asyncio.TimeoutError | TimeoutError) or "timeout" in type(problem).__name__.lower():
        return TIMEOUT
    if isinstance(problem, PermissionError | MissingSecret):
        return AUTHORIZATION
    if isinstance(problem, SchemaMismatch):
        return SCHEMA
    if isinstance(problem, ValidationError):
        return VALIDATION
    if isinstance(problem, ConnectionError | socket.gaierror):
        return NETWORK
    return NETWORK if not isinstance(problem, HoldfastError) and _is_lost_by_name(problem) else TOOL


def retry_after_s(problem: BaseException) -> float | None:
    """How long the other side asks to be left alone, if the exception carries that."""
    return getattr(problem, "retry_after_s", None) if isinstance(problem, StepError) else None


def describe(problem: BaseException) -> str:
    """What happened, in one line."""
    if isinstance(problem, HoldfastError):
        return problem.message
    text = trace.recorded_text(str(problem).strip(), problem)
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__
