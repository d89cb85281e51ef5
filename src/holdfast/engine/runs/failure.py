"""An exception that left a handler, as an error record: what kind it is, and whether trying again may help.

Never here: deciding whether it is tried again (core.values.policies).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from pydantic import ValidationError

from holdfast.authoring import trace
from holdfast.authoring.values.arguments import describe
from holdfast.core.values.ids import Path
from holdfast.core.values.policies import (
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
    gravest,
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
from holdfast.platform.border import bare, fact, joined, leaves, members, text_of

MAX_MESSAGE: Final = 4000

_CLASSES: Final[tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str, bool], ...]] = (
    (NonDeterministicStep, NON_DETERMINISTIC, False),
    (SchemaMismatch, SCHEMA, False),
    (TransitionDenied, DENIED, False),
    ((InvalidInput, KeyReused, ValidationError), VALIDATION, False),
    ((PermissionError, MissingSecret), AUTHORIZATION, False),
    (TimeoutError, TIMEOUT, True),
    (ConnectionError, NETWORK, True),
)

_SLIPS: Final = (AttributeError, LookupError, TypeError, ValidationError)


def record(problem: BaseException, node: str, at_ms: int) -> tuple[ErrorRecord, Path | None]:
    """The error as data, and the place of the journaled operation it came from, which a retry reopens. Raises nothing.

    Of a group of exceptions each member counts: the gravest says the kind, and trying again may help where it may of all.
    """
    problem = bare(problem)
    if (known := _recorded_error(problem)) is not None:
        return known
    try:
        kinds = [_kind(each) for each in leaves(problem)]
        klass, retryable = gravest([klass for klass, _ in kinds]), all(may for _, may in kinds)
        error = ErrorRecord(node, klass, message_of(problem), retryable, at_ms, trace=trace.of(problem))
    except BaseException:  # noqa: BLE001 - to look at it is to call the user's code
        error = ErrorRecord(node, ERROR, text_of(problem)[:MAX_MESSAGE], True, at_ms)
    places = [
        path for each in leaves(problem) if (inner := _recorded_error(each)) is not None and (path := inner[1]) is not None
    ]
    return error, places[0] if places else None


def is_slip(problem: BaseException) -> bool:
    """True for what code raises by itself where data is not as it expects, as after a rejection that it overlooks."""
    return any(issubclass(type(each), _SLIPS) for each in leaves(problem))


def after(event: str, error: ErrorRecord) -> ErrorRecord:
    """Return the error, with what came before it in front."""
    return msgspec.structs.replace(error, message=f"{event} Then the code failed: {error.message}"[:MAX_MESSAGE])


def _recorded_error(problem: BaseException) -> tuple[ErrorRecord, Path | None] | None:
    """The record that an exception carries already, and its place."""
    if not issubclass(type(problem), OperationFailed) or type(error := fact(problem, "error")) is not ErrorRecord:
        return None
    path = fact(problem, "path")
    return error, Path(path) if isinstance(path, str) else None


def _kind(problem: BaseException) -> tuple[str, bool]:
    """The class of an error, and whether trying again may help."""
    if (known := _recorded_error(problem)) is not None:
        return known[0].error_class, known[0].retryable
    kind = type(problem)
    for kinds, klass, retryable in _CLASSES:
        if issubclass(kind, kinds):
            return klass, retryable
    said = fact(problem, "error_class") if issubclass(kind, StepError) else None
    if issubclass(kind, RemoteFailed):
        return _class(said), fact(problem, "retryable") is True
    return (_class(said), said in TRANSIENT) if issubclass(type(said), str) else (ERROR, True)


def _class(answer: Any) -> str:
    return str.__str__(answer) if issubclass(type(answer), str) else ERROR


def message_of(problem: BaseException) -> str:
    """Return what happened and, for an error of the user's own code, where."""
    problem = bare(problem)
    if members(problem):
        return joined([message_of(each) for each in leaves(problem)])[:MAX_MESSAGE]
    kind = type(problem)
    if kind is ValidationError:
        return describe(problem)[:MAX_MESSAGE]  # type: ignore[arg-type]
    text, where = trace.describe_error(problem), None if issubclass(kind, HoldfastError) else trace.innermost(problem)
    return (text[: MAX_MESSAGE - 200] + f" ({where})")[:MAX_MESSAGE] if where else text[:MAX_MESSAGE]
