"""The process that takes the hostile inputs: `python -m tests.hostile.victim`, a case's name on each line of stdin, what
was measured on each of stdout. One that hangs, or eats the memory, takes only this process with it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import tempfile

import msgspec

from holdfast.platform.machine import collect_rarely
from tests.hostile.cases import CASES, HARMLESS, HOLDING
from tests.hostile.trial import measured


def main() -> None:
    logging.disable()
    cases = {case.name: case for case in (*CASES, *HOLDING)}
    collect_rarely()
    answers, sys.stdout = sys.stdout, sys.stderr
    warm = set()
    for line in sys.stdin:
        case = cases[msgspec.json.decode(line)]
        if case.door in HARMLESS and case.door not in warm:
            warm.add(case.door)
            asyncio.run(case.door(HARMLESS[case.door]))  # what is imported when it is first used is no fault of the input's
        with tempfile.TemporaryDirectory() as tempfile.tempdir:
            found = asyncio.run(measured(case.door, case.sent()))
        tempfile.tempdir = None
        gc.collect()
        print(msgspec.json.encode(found).decode(), file=answers, flush=True)


if __name__ == "__main__":
    main()
