"""Nothing that data chooses holds the event loop or fills the memory, whatever door it comes in by. The cases are a table."""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

import msgspec
import pytest

from tests.hostile.cases import CASES, HOLDING, Case
from tests.hostile.trial import Measured

PAUSE_S = 0.1
"""What everything else in the process may be kept waiting."""
TOOK_S = 8.0
"""Of the processor, for one input: in a thread, or in slices."""
HANGS_S = 60.0
MAX_TRIALS = 3
"""Of one input, each in a new process: a machine whose cores are shared lengthens a pause, and nothing shortens one."""


class Victim:
    """A process that takes the inputs one after the other, and is replaced if one of them was its end."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._answers = queue.Queue[str]()

    def take(self, case: Case) -> Measured:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.victim"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            self._answers = queue.Queue()
            threading.Thread(target=self._listen, args=(self._process, self._answers), daemon=True).start()
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(case.name).decode() + "\n")
        self._process.stdin.flush()
        try:
            said = self._answers.get(timeout=HANGS_S)
        except queue.Empty:
            said = ""
        if not said:
            self.end()
            pytest.fail(f"{case.name}: the process has no answer after {HANGS_S:g} s, or is gone")
        return msgspec.json.decode(said, type=Measured)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process = None

    @staticmethod
    def _listen(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                answers.put(line)
        answers.put("")


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    made = Victim()
    yield made
    made.end()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_hostile_input_holds_up_no_other_and_fills_no_memory(case: Case, victim: Victim) -> None:
    found = victim.take(case)
    for _ in range(MAX_TRIALS - 1):
        if found.pause_s >= PAUSE_S:
            victim.end()
            found = victim.take(case)
    assert re.search(case.expected, found.outcome), found
    assert found.pause_s < PAUSE_S, found
    assert found.took_s < TOOK_S, found
    assert found.grown_mb < case.memory_mb, found


@pytest.mark.parametrize("case", HOLDING, ids=lambda case: case.name)
def test_the_probe_sees_what_holds_the_loop(case: Case, victim: Victim) -> None:
    """What the others rely on: work of half a second is seen, in the loop or in a thread that lets nobody else run."""
    assert victim.take(case).pause_s > 2 * PAUSE_S
