"""Says where a test hangs whose time is up: the stack of each task of its event loop, for the loop itself only waits.

A hook beside those of pytest-timeout, which shows the stacks of threads. Never here: how long a test may take.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Generator
from types import FrameType

import pytest


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_timeout_set_timer() -> Generator[None, object, object]:
    """Have the tasks shown before the alarm ends the test, and them with it."""
    is_set = yield
    alarm = signal.getsignal(signal.SIGALRM)

    def show_first(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(RuntimeError):  # no loop runs
            for task in asyncio.all_tasks():
                task.print_stack(file=sys.stderr)
        if callable(alarm):
            alarm(number, frame)

    if callable(alarm):
        signal.signal(signal.SIGALRM, show_first)
    return is_set
