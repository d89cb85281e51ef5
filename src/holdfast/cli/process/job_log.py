"""Output of jobs' steps, on stderr as it arrives, if this process runs them.

Never here: what is kept of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.cli.page import terminal
from holdfast.cli.page.log_output import is_json
from holdfast.ports import JOB_LOG

_ID: Final = 18
"""Of a run's id: its time and some chance, by which commands know it."""


@contextmanager
def show_job_output(*, with_run: bool = False) -> Iterator[None]:
    """Inside, each line is shown behind the name of its job, and `with_run` the beginning of its run's id."""
    if is_json():  # all lines of the log are shown, with ids
        yield
        return
    logger = logging.getLogger(JOB_LOG)
    before, handler = logger.level, _Screen(with_run)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


class _Screen(logging.Handler):
    def __init__(self, with_run: bool) -> None:
        super().__init__(logging.INFO)
        self._with_run = with_run

    def emit(self, record: logging.LogRecord) -> None:
        about = record.__dict__
        run = f"{about['run'][:_ID]} " if self._with_run else ""
        terminal.say(f"{run}{about['job']} | {record.getMessage()}")
