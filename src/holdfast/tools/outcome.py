"""What an exception of a tool says about the world: it failed, it never got there, or nobody can know.

A tool that raises is taken at its word: it failed. Time-outs and broken connections say by their nature that they do
not know; a tool says so itself with OutcomeUnknown. Never here: calling anything.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Literal

from pydantic import ValidationError

from holdfast.core.policies import AUTHORIZATION, NETWORK, SCHEMA, TIMEOUT, TOOL, VALIDATION
from holdfast.errors import HoldfastError, MissingSecret, OutcomeUnknown, SchemaMismatch, ToolFailed

Knowledge = Literal["failed", "not_sent", "unknown"]

_NEVER_LEFT = (ConnectionRefusedError, socket.gaierror, FileNotFoundError, PermissionError, MissingSecret)
_LOST = (asyncio.TimeoutError, TimeoutError, asyncio.CancelledError, ConnectionError, EOFError, OutcomeUnknown)
_LOST_NAMES = (
    "timeout",
    "disconnected",
    "readerror",
    "writeerror",
    "connecterror",
    "remoteprotocolerror",
    "incompleteread",
)


def knowledge(problem: BaseException) -> Knowledge:
    """`not_sent`: certainly nothing happened. `failed`: the tool says so. `unknown`: it may have happened."""
    if isinstance(problem, (ToolFailed, *_NEVER_LEFT)):
        return "not_sent"
    if isinstance(problem, _LOST):
        return "unknown"
    # Network libraries have families of their own: their names are what they have in common.
    if any(part in type(problem).__name__.lower() for part in _LOST_NAMES):
        return "unknown"
    return "failed"


def error_class(problem: BaseException) -> str:
    """The reason code of a tool's exception."""
    if isinstance(problem, asyncio.TimeoutError | TimeoutError) or "timeout" in type(problem).__name__.lower():
        return TIMEOUT
    if isinstance(problem, PermissionError | MissingSecret):
        return AUTHORIZATION
    if isinstance(problem, ConnectionError | socket.gaierror):
        return NETWORK
    if isinstance(problem, SchemaMismatch):
        return SCHEMA
    if isinstance(problem, ValidationError):
        return VALIDATION
    return TOOL


def describe(problem: BaseException) -> str:
    """What happened, in one line."""
    if isinstance(problem, HoldfastError):
        return problem.message
    text = str(problem).strip()
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__
