"""Times, money and errors as every view writes them. Never here: printing, who may see it."""

from __future__ import annotations

import datetime
import re
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypedDict, overload

from msgspec import Meta

from holdfast.core.values.money import usd
from holdfast.service.doc import doc

if TYPE_CHECKING:
    from holdfast.core.values.policies import ErrorRecord


Time: TypeAlias = Annotated[
    str,
    Meta(
        description="A time in UTC, as RFC 3339 writes it: `2026-03-01T09:30:00.250Z`.",
        extra_json_schema={"format": "date-time"},
    ),
]
Dollars: TypeAlias = Annotated[
    str, Meta(description="US dollars as decimal text, exact: `0.000135`.", pattern=r"^-?[0-9]+\.[0-9]{2,9}$")
]


@overload
def iso(at_ms: int) -> str: ...
@overload
def iso(at_ms: int | None) -> str | None: ...
def iso(at_ms: int | None) -> str | None:
    """A time in UTC: `2026-03-01T09:30:00.250Z`."""
    if at_ms is None:
        return None
    moment = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def maybe_usd(nanousd: int | None) -> str | None:
    return None if nanousd is None else usd(nanousd)


def without_traces(value: Any) -> Any:
    """A row without the place in its code where something has failed, and without the process that did it: the machines are
    their operator's affair."""
    if isinstance(value, list):
        return [without_traces(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: without_traces(each) for name, each in value.items()}
    if found.keys() >= _ERROR and isinstance(message := found["message"], str):
        return {**found, "message": _PLACE.sub("", message), **({"trace": None} if "trace" in found else {})}
    if found.keys() >= _EXPLANATION:
        return _without_places(found)
    return {**found, "worker": None} if any(found.keys() >= step for step in _STEPS) else found


def _without_places(value: Any) -> Any:
    """An explanation quotes errors in its sentences."""
    if isinstance(value, dict):
        return {name: _without_places(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_places(each) for each in value]
    return _PLACE.sub("", value) if isinstance(value, str) else value


_ERROR: Final = {"error_class", "message"}
_EXPLANATION: Final = {"happened", "waits", "costs"}
_STEPS: Final = ({"step", "status", "attempts", "worker"}, {"step", "status", "attempt", "worker"})
_PLACE: Final = re.compile(r" \([^\s()]+\.py:\d+(?: in [^()\n]+)?\)")
"""As an error's message ends that is of the user's own code: ` (refund.py:12 in pay)`."""


class ErrorRow(TypedDict):
    """An error of a run, a step or an operation."""

    node: Annotated[str | None, doc("The node that failed; null for the run itself.")]
    error_class: Annotated[str, doc("The kind of error, stable across versions: `timeout`, `rate_limit`, `tool`.")]
    message: Annotated[str, doc("Message of the error, for people.")]
    retryable: Annotated[bool, doc("True if another attempt may succeed.")]
    at: Annotated[Time, doc("When it happened.")]
    tool: Annotated[str | None, doc("The tool whose call failed.")]
    trace: Annotated[
        str | None, doc("The place in the user's own code, as Python prints it; hidden from callers of one tenant.")
    ]


def error_of(error: ErrorRecord | None) -> ErrorRow | None:
    if error is None:
        return None
    return {
        "node": error.node or None,
        "error_class": error.error_class,
        "message": error.message,
        "retryable": error.retryable,
        "at": iso(error.at_ms),
        "tool": error.tool,
        "trace": error.trace,
    }
