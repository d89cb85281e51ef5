"""A test that hangs is ended, and what it shows says where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_again import ALONE

HANGS = {
    "a task": """
import asyncio

async def waits_for_nothing():
    await asyncio.Event().wait()

async def test_that_hangs():
    await asyncio.gather(waits_for_nothing())
""",
    "a thread": """
import threading

def waits_for_nothing():
    threading.Event().wait()

def test_that_hangs():
    threading.Thread(target=waits_for_nothing, daemon=True).start()
    threading.Event().wait()
""",
    "in C": """
import signal

def waits_for_nothing():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.sigtimedwait([], 3)
    assert False

def test_that_hangs():
    waits_for_nothing()
""",
}
SHOWN = {"a task": "Stack for <Task", "a thread": "Stack of Thread", "in C": "most recent call first"}
INI = """
[pytest]
asyncio_mode = auto
timeout = 1
timeout_func_only = true
faulthandler_timeout = 2
"""


@pytest.mark.parametrize("kind", HANGS)
def test_a_test_that_hangs_says_where(kind: str, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "test_it.py").write_text(HANGS[kind])
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "-p", "tests.hanging", "-p", "asyncio", "-p", "timeout"],
        cwd=tmp_path,
        env=os.environ | ALONE,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1
    assert "waits_for_nothing" in ended.stdout.partition("short test summary")[0] + ended.stderr
    assert SHOWN[kind] in ended.stdout + ended.stderr
