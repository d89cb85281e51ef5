"""The example of a streamed answer does what it says, with a worker that is really killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.live_answer import ANSWER


@pytest.mark.long
def test_an_answer_is_heard_across_the_death_of_its_worker() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "examples.live_answer"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    before, killed, after = said.stdout.partition("\n--- the worker was killed; another one comes\n")
    assert killed
    assert ANSWER.startswith(before.removeprefix("[asking]\n"))
    void, again, rest = after.partition("--- flow#1:0:1 is asked again\n")
    assert again
    assert ANSWER.startswith((before + void.rstrip("\n")).removeprefix("[asking]\n"))
    assert rest.startswith(f"{ANSWER}[{len(ANSWER)} characters]\n")
