"""The filter of logs: ids of runs on each line, and no secrets there.

A program that uses Holdfast as a library sets up its own logging, and Holdfast changes nothing of that. `LogFilter` on its
handlers adds the ids.

Never here: a handler, a level, a format (the commands have their own).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final

from holdfast.platform.log_ids import NAMES, NOWHERE, here
from holdfast.platform.masking import without_inputs, without_secrets

MAX_MESSAGE: Final = 16_000
MAX_TRACE: Final = 64_000
"""Characters of a text and of a traceback: more than that is the data of a program, and no line about it."""
_MAX_ENTRIES: Final = 100
_MAX_DEPTH: Final = 5
_MAX_NUMBER: Final = 2**63
_TRACES: Final = logging.Formatter()
STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", *NAMES}
"""Attributes of a record that its author has not added."""


class LogFilter(logging.Filter):
    """A filter that adds the ids of the run to each record, and takes out the values of secrets, of tracebacks too.

    Add it to your own handlers: `handler.addFilter(LogFilter())`. A format then has `%(run_id)s`, `%(step_id)s`, `%(attempt)s`,
    `%(tenant)s`, `%(workflow)s`, `%(trace_id)s` and `%(span_id)s`; outside of steps they are empty. It is a processor of
    structlog as well.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record, and return True.

        Args:
            record: Record of a line.
        """
        known, ids = record.__dict__, here()
        for name in NAMES:
            if ids is not NOWHERE or name not in known:
                known[name] = getattr(ids, name) or ""
        for name in known.keys() - STANDARD:
            if isinstance(value := known[name], str | dict | list | tuple) and not name.startswith("_"):
                known[name] = plain(value)
        if isinstance(record.msg, dict):  # an event of structlog on its way to its formatter
            record.msg = self(None, "", dict(record.msg))
            return True
        problem = record.exc_info[1] if record.exc_info else None
        record.msg, record.args = clean(message_of(record), problem), ()
        if record.exc_info:
            record.exc_text = clean(record.exc_text or _trace_of(record.exc_info), problem, MAX_TRACE)
            record.exc_info = None
        if record.stack_info:
            record.stack_info = clean(record.stack_info, None, MAX_TRACE)
        return True

    def __call__(self, logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Change the event of a structlog logger, and return it."""
        if (ids := here()) is not NOWHERE:
            event.update({name: value for name in NAMES if (value := getattr(ids, name))})
        raised = event.pop("exc_info", None)
        if isinstance(raised, BaseException):
            raised = type(raised), raised, raised.__traceback__
        elif raised and not isinstance(raised, tuple):
            raised = sys.exc_info()
        for name, value in event.items():
            if isinstance(value, str | dict | list | tuple) and not name.startswith("_"):
                event[name] = plain(value)
        if raised and raised[1] is not None:
            event["exception"] = clean(_trace_of(raised), raised[1], MAX_TRACE)
        return event


def clean(text: str, problem: BaseException | None = None, most: int = MAX_MESSAGE) -> str:
    """Return a text that quotes an exception without secrets and without the inputs that Pydantic shows; of a long one the
    beginning and the end. Half a character is shown by its number."""
    text = str.__str__(text)
    if len(text) > 2 * most:  # to look for secrets in what is cut takes time; what is cut through is looked at again
        text = _cut(text, 2 * most)
    text = without_secrets(without_inputs(text, problem).encode("utf-8", "backslashreplace")).decode()
    return _cut(text, most) if len(text) > most else text


def _cut(text: str, most: int) -> str:
    half = most // 2
    return f"{text[:half]} … {len(text) - 2 * half} characters … {text[-half:]}"


def plain(value: object, depth: int = 0) -> Any:
    """Return a value as JSON has it, without secrets: a text where JSON has none, and of a large one the beginning. Raises
    nothing."""
    kind = type(value)
    if kind in (bool, type(None)) or (kind is int and -_MAX_NUMBER <= value < _MAX_NUMBER):  # type: ignore[operator]
        return value
    if kind is float:
        return value if abs(value) < float("inf") else str(value)  # type: ignore[arg-type]
    if issubclass(kind, str):
        return clean(value)  # type: ignore[arg-type]
    if depth < _MAX_DEPTH and kind is dict:
        first = [*value.items()][:_MAX_ENTRIES]  # type: ignore[attr-defined]
        return {clean(text_of_value(name)): plain(inner, depth + 1) for name, inner in first}
    if depth < _MAX_DEPTH and kind in (list, tuple):
        return [plain(inner, depth + 1) for inner in value[:_MAX_ENTRIES]]  # type: ignore[index]
    return clean(text_of_value(value))


def message_of(record: logging.LogRecord) -> str:
    """Return the message of a record; what is wrong with it where it has none. Raises nothing: its arguments are the user's."""
    try:
        return str.__str__(record.getMessage())
    except BaseException as problem:  # noqa: BLE001 - it is the user's
        return f"(a message that cannot be written: {_in_words(problem)}) {text_of_value(record.msg)}"


def text_of_value(value: object) -> str:
    """Return any value as a text. Raises nothing."""
    try:
        return str.__str__(str(value))
    except BaseException as problem:  # noqa: BLE001 - it is the user's
        return f"(a value that cannot be written: {_in_words(problem)})"


def _in_words(problem: BaseException) -> str:
    """Return an error of user code in words. Raises it where it ends the process."""
    from holdfast.platform.border import is_signal, text_of  # noqa: PLC0415 - it loads asyncio, which `--help` needs not

    if is_signal(problem):
        raise problem
    return text_of(problem)


def _trace_of(raised: Any) -> str:
    try:
        return _TRACES.formatException(raised)
    except BaseException as problem:  # noqa: BLE001 - it is the user's
        return f"(a traceback that cannot be written: {_in_words(problem)})"
