"""The number of files and calls on a way may fall, and does not grow by itself: `python -m bench.ways --files` names the
files."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

MAX_FILES: Final = {
    "a step's result → the next step runs": 49,
    "engine.start() → committed": 45,
    "POST /gates/{gate}/decision → answered": 85,
    "a result → the next, all of it observed": 54,
}
"""A module that is new on a way takes the place of another, or says in the commit why it is worth a file more."""
MAX_CALLS: Final = {
    "a step's result → the next step runs": 272,
    "engine.start() → committed": 215,
    "a result → the next, all of it observed": 292,
}
"""A feature that few runs use costs the others no call, and logs, metrics, traces and notifications cost a step 20. Over HTTP
the number depends on what a socket brings at once."""
_LINE: Final = re.compile(r"(.*?) +(\d+) +\d+ +(\d+) +\d+ +\d+")


def test_no_way_goes_through_more_files_or_calls_than_before() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "bench.ways"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    ways = [found for found in map(_LINE.fullmatch, told.stdout.splitlines()) if found]
    files, calls = ({way[1]: int(way[group]) for way in ways} for group in (3, 2))
    assert files.keys() == MAX_FILES.keys()
    assert {way: number for way, number in files.items() if number > MAX_FILES[way]} == {}
    assert {way: calls[way] for way, number in MAX_CALLS.items() if calls[way] > number} == {}
