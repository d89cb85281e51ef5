"""Requests that Holdfast makes for itself, as lines of the log: at level debug, where httpx2 writes each at level info.

Never here: requests of users' making (to models, of tools), whose lines stay as httpx2 writes them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_IS_OWN: Final = ContextVar("holdfast_own_request", default=False)


class _Quiet(logging.Filter):
    """Lowers the lines of own requests, and leaves all others as they are."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.INFO or not _IS_OWN.get():
            return True
        record.levelno, record.levelname = logging.DEBUG, logging.getLevelName(logging.DEBUG)
        return logging.getLogger(record.name).isEnabledFor(logging.DEBUG)


_FILTER: Final = _Quiet()


@contextmanager
def quiet_requests() -> Iterator[None]:
    """Have the requests that are made in this context written at level debug."""
    logging.getLogger("httpx2").addFilter(_FILTER)  # once: it is the same object
    token = _IS_OWN.set(True)
    try:
        yield
    finally:
        _IS_OWN.reset(token)
