"""The meaning of a tool's exception for the world: the effect failed, the request never arrived, or it is unknown.

A tool that raises is believed: its effect failed. Time-outs, broken connections and a server's own faults (HTTP 5xx) mean by
their nature that the outcome is unknown; a tool reports that itself with OutcomeUnknown. ToolFailed and OutcomeUnknown may
carry an `error_class` and a `retry_after_s` as facts. Of a group of exceptions each member counts: if the outcome of one is
unknown, the outcome of the call is. Nothing here raises, whatever the exception does when it is inspected. Never here: calling
anything.
"""

from __future__ import annotations

import asyncio
import math
import socket
from typing import Final, Literal

from pydantic import ValidationError

from holdfast.authoring import trace
from holdfast.core.values.policies import AUTHORIZATION, NETWORK, SCHEMA, TIMEOUT, TOOL, VALIDATION, gravest
from holdfast.errors import HoldfastError, MissingSecret, OutcomeUnknown, SchemaMismatch, StepError, ToolFailed
from holdfast.platform.border import fact, leaves, name_of

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


def knowledge(problem: BaseException, *, is_cut_off: bool = False) -> Knowledge:
    """`not_sent`: certainly nothing happened. `failed`: the tool says so. `unknown`: it may have happened.

    Of a call that was cut off only ToolFailed counts: anything else may come from its clean-up, which says nothing of the call.
    """
    said = {_knowledge(each, is_cut_off) for each in leaves(problem)}
    if "unknown" in said:
        return "unknown"
    return "not_sent" if said == {"not_sent"} else "failed"


def _knowledge(problem: BaseException, is_cut_off: bool) -> Knowledge:
    kind = type(problem)
    if is_cut_off and not issubclass(kind, ToolFailed):
        return "unknown"
    if issubclass(kind, (ToolFailed, *_NEVER_LEFT)):
        return "not_sent"
    if issubclass(kind, _LOST) or _is_server_fault(problem):
        return "unknown"
    return "unknown" if not issubclass(kind, HoldfastError) and _is_lost_by_name(kind) else "failed"


def _is_lost_by_name(kind: type) -> bool:
    names = [name_of(each).lower() for each in type.__dict__["__mro__"].__get__(kind)]
    return any(part in name for name in names for part in _LOST_NAMES)


def _is_server_fault(problem: BaseException) -> bool:
    """Return True if an HTTP library reports that the server broke while it handled the request: the effect may have happened
    before."""
    for holder in (problem, fact(problem, "response")):
        for name in ("status_code", "status", "code"):
            found = fact(holder, name)
            if issubclass(type(found), int) and 500 <= int.__int__(found) < 600:
                return True
    return False


def error_class(problem: BaseException) -> str:
    """The reason code of a tool's exception: the one that it carries, or what its kind says."""
    return gravest([_error_class(each) for each in leaves(problem)])


def _error_class(problem: BaseException) -> str:
    kind = type(problem)
    if issubclass(kind, StepError) and (said := fact(problem, "error_class")) is not None:
        return str.__str__(said) if issubclass(type(said), str) else TOOL
    if issubclass(kind, asyncio.TimeoutError | TimeoutError) or "timeout" in name_of(kind).lower():
        return TIMEOUT
    if issubclass(kind, PermissionError | MissingSecret):
        return AUTHORIZATION
    if issubclass(kind, SchemaMismatch):
        return SCHEMA
    if issubclass(kind, ValidationError):
        return VALIDATION
    if issubclass(kind, ConnectionError | socket.gaierror):
        return NETWORK
    return NETWORK if not issubclass(kind, HoldfastError) and _is_lost_by_name(kind) else TOOL


def retry_after_s(problem: BaseException) -> float | None:
    """Return the seconds that the other side asks to wait before a retry; None if the exception carries none."""
    found = [fact(each, "retry_after_s") for each in leaves(problem) if issubclass(type(each), StepError)]
    return max((float(each) for each in found if type(each) in (int, float) and 0 <= each < math.inf), default=None)


def describe(problem: BaseException) -> str:
    """Return one line that describes the exception."""
    return trace.describe_error(problem)
