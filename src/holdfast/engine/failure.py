"""An exception that left a handler, as an error record: what kind it is, and whether trying again may help.

Never here: deciding whether it is tried again (core.policies).
"""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from holdfast.authoring import trace
from holdfast.authoring.arguments import describe
from holdfast.core.ids import Path
from holdfast.core.policies import (
    AUTHORIZATION,
    DENIED,
    ERROR,
    NETWORK,
    NON_DETERMINISTIC,
    SCHEMA,
    TIMEOUT,
    TRANSIENT,
    VALIDATION,
    ErrorRecord,
)
from holdfast.errors import (
    HoldfastError,
    InvalidInput,
    KeyReused,
    MissingSecret,
    NonDeterministicStep,
    OperationFailed,
    RemoteFailed,
    SchemaMismatch,
    StepError,
    TransitionDenied,
)

MOST_MESSAGE: Final = 4000

_CLASSES: Final[tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str, bool], ...]] = (
    (NonDeterministicStep, NON_DETERMINISTIC, False),
    (SchemaMismatch, SCHEMA, False),
    (TransitionDenied, DENIED, False),
    ((InvalidInput, KeyReused, ValidationError), VALIDATION, False),
    ((PermissionError, MissingSecret), AUTHORIZATION, False),
    (TimeoutError, TIMEOUT, True),
    (ConnectionError, NETWORK, True),
)


def record(problem: BaseException, node: str, at_ms: int) -> tuple[ErrorRecord, Path | None]:
    """The error as data, and the place of the journaled operation it came from, which a retry reopens."""
    if isinstance(problem, OperationFailed):
        error: ErrorRecord = getattr(problem, "error")  # noqa: B009 - a fact of the error, not of its class
        path: Path | None = getattr(problem, "path", None)
        return error, path
    told = trace.of(problem)
    for kinds, klass, retryable in _CLASSES:
        if isinstance(problem, kinds):
            return ErrorRecord(node, klass, _message(problem), retryable, at_ms, trace=told), None
    if isinstance(problem, RemoteFailed):
        return ErrorRecord(node, problem.error_class, _message(problem), problem.retryable, at_ms, trace=told), None
    if isinstance(problem, StepError) and (said := getattr(problem, "error_class", None)) is not None:
        return ErrorRecord(node, str(said), _message(problem), said in TRANSIENT, at_ms, trace=told), None
    return ErrorRecord(node, ERROR, _message(problem), True, at_ms, trace=told), None


def _message(problem: BaseException) -> str:
    """What happened and, for an error of the user's own code, where."""
    if isinstance(problem, HoldfastError):
        return problem.message[:MOST_MESSAGE]
    if isinstance(problem, ValidationError):
        return describe(problem)[:MOST_MESSAGE]
    said = trace.recorded_text(str(problem), problem)
    text = f"{type(problem).__name__}: {said}" if said else type(problem).__name__
    where = trace.innermost(problem)
    return (text[: MOST_MESSAGE - 200] + (f" ({where})" if where else ""))[:MOST_MESSAGE]
