"""Lines of the log on standard error, as `[logs]` in holdfast.toml asks: for people, or as JSON for programs.

Both have the ids of the run. Without `[logs]` warnings and errors are printed, unless the user's code sets up logging itself.
As JSON, messages of the command are lines as well, so that one program can read all of standard error.

Never here: what is logged, where the ids come from.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli.page import terminal
from holdfast.errors import UsageError
from holdfast.platform.log_filter import STANDARD, LogFilter, clean, plain, text_of_value
from holdfast.platform.log_ids import NAMES, about, here

if TYPE_CHECKING:
    from holdfast.settings import LogRules

log = logging.getLogger("holdfast")

_NOT_THEIRS: Final = STANDARD | {"_logger", "_name", "color_message", "event", "exception", "job", "run"}
"""Attributes of a record that are no fields of its author."""
_COMMAND: Final = "holdfast.command"
"""The logger that lines of the command itself name."""


_known: Final[list[object]] = []
"""Secrets, kept so that no line shows them, though no engine is open yet."""


class Output(logging.Handler):
    """A handler that never raises and never waits."""

    def __init__(self, level: int = logging.NOTSET, *, as_json: bool = False) -> None:
        super().__init__(level)
        self._as_json = as_json
        self._filter = LogFilter()

    def handle(self, record: logging.LogRecord) -> bool:
        try:
            shown = logging.LogRecord.__new__(type(record))  # a copy: handlers of the user get it as it was
            shown.__dict__.update(record.__dict__)
            self._filter.filter(shown)
            terminal.write_line(_in_json(shown) if self._as_json else _in_words(shown))
        except Exception as problem:  # noqa: BLE001 - a line that cannot be written stops no run
            terminal.say(f"A line of the log cannot be written: {type(problem).__name__}.")
        return True


def begin() -> None:
    """Have lines of the log written as the settings ask, before user code is loaded. Raises UsageError."""
    from holdfast import settings

    known = settings.load()
    with contextlib.suppress(UsageError):  # the command reports it where it needs them
        _known.append(settings.Secrets(known.secrets_file))
    set_up(known.logs)
    threading.excepthook = _report_thread


def set_up(rules: LogRules) -> None:
    """Have lines of the log written as asked, once in a process."""
    if not rules.model_fields_set:
        return
    if (structlog := sys.modules.get("structlog")) is not None and not structlog.is_configured():
        _adopt(structlog)
    if any(isinstance(each, Output) for each in logging.root.handlers):
        return
    from holdfast.ports import JOB_LOG

    as_json = rules.format == "json"
    logging.root.addHandler(Output(as_json=as_json))
    logging.root.setLevel(rules.level.upper())
    logging.captureWarnings(capture=True)
    if as_json:
        terminal.write_messages(_message_in_json)
        logging.getLogger(JOB_LOG).setLevel(logging.INFO)


def is_json() -> bool:
    """True if lines of the log are JSON."""
    return any(isinstance(each, Output) and each._as_json for each in logging.root.handlers)


def _adopt(structlog: Any) -> None:
    """Have loggers of structlog that the user's code has made write into this log."""
    from structlog.stdlib import BoundLogger, LoggerFactory, ProcessorFormatter, filter_by_level

    structlog.configure(
        processors=[filter_by_level, LogFilter(), ProcessorFormatter.wrap_for_formatter],
        wrapper_class=BoundLogger,
        logger_factory=LoggerFactory(),
    )


def _report_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not issubclass(args.exc_type, SystemExit):
        raised = (args.exc_type, args.exc_value, args.exc_traceback)
        log.error("A thread of this process has ended with an error.", exc_info=raised)


def _in_words(record: logging.LogRecord) -> str:
    """Return a record for people: what it says, the ids behind its first line, its traceback below."""
    said = record.msg
    if isinstance(said, dict):
        fields = [f"{name}={plain(value)}" for name, value in said.items() if name not in ("event", "exception", *NAMES)]
        said = clean(" ".join([text_of_value(said.get("event", "")), *fields]))
    first, *others = said.split("\n")
    ids = "".join(f" {name}={terminal.line(str(value))}" for name in NAMES if (value := getattr(record, name)))
    raised = record.exc_text.split("\n") if record.exc_text else []
    return terminal.set_in("\n".join([f"{first} {ids}" if ids else first, *others, *(f"  {line}" for line in raised)]))


def _in_json(record: logging.LogRecord) -> str:
    """Return the line of a record. What its author has added stands apart, where it passes for none of our fields."""
    said: dict[str, Any] = record.msg if isinstance(record.msg, dict) else {"event": record.msg}
    fields = _line(record.created, record.levelname, record.name, text_of_value(said.get("event", "")))
    fields |= {name: value for name in NAMES if (value := getattr(record, name))}
    if job := getattr(record, "job", None):
        fields["job"] = plain(job)
    if raised := record.exc_text or said.get("exception"):
        fields["exception"] = raised
    theirs = {name: value for name, value in said.items() if name not in _NOT_THEIRS}
    theirs |= {name: value for name, value in record.__dict__.items() if name not in _NOT_THEIRS}
    if record.stack_info:
        theirs["stack_info"] = record.stack_info
    if theirs:
        fields["extra"] = plain(theirs)
    line: str = _renderer()(None, "", fields)
    return line


@cache
def _renderer() -> Any:
    """Return what makes a line of fields. structlog is imported at the first: that takes longer than a short command."""
    from structlog.processors import JSONRenderer

    return JSONRenderer(serializer=lambda fields, **_: terminal.as_json(fields))


def _message_in_json(message: str, level: str) -> str:
    return terminal.as_json(_line(time.time(), level, _COMMAND, clean(message)) | about(here()))


def _line(at_s: float, level: str, logger: str, message: str) -> dict[str, Any]:
    at = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {"timestamp": at, "level": level.lower(), "logger": logger, "message": message}
