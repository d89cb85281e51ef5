"""The number of files on a way may fall, and does not grow by itself: `python -m bench.ways --files` names them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

MAX_FILES: Final = {
    "a step's result → the next step runs": 49,
    "engine.start() → committed": 45,
    "POST /gates/{gate}/decision → answered": 84,
}
"""A module that is new on a way takes the place of another, or says in the commit why it is worth a file more."""
_LINE: Final = re.compile(r"(.*?) +\d+ +\d+ +(\d+) +\d+ +\d+")


def test_no_way_goes_through_more_files_than_before() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "bench.ways"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    files = {found[1]: int(found[2]) for found in map(_LINE.fullmatch, told.stdout.splitlines()) if found}
    assert files.keys() == MAX_FILES.keys()
    assert {way: number for way, number in files.items() if number > MAX_FILES[way]} == {}
