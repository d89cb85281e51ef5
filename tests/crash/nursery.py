"""A process that has lived once and has nothing open, and forks a victim for each line of its standard input.

usage: python -m tests.crash.nursery

A line is a Life as JSON; the answer is its exit status, as `waitpid` tells it. Never here: a thread, an event loop, a
connection. A fork takes none of them along in one piece.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
import tempfile
import threading
import traceback

import msgspec

from tests.crash import flows
from tests.crash.victim import Life, live


def warm() -> None:
    """Live a whole life: all that a life imports, and what is built at the first request, is there for the next."""
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        live(Life("tour", folder))
    for wf in flows.FLOWS.values():
        wf.graph  # noqa: B018 - compiled once
    gc.collect()
    gc.freeze()


def bear(life: Life) -> int:
    """Fork a victim and wait for its end."""
    child = os.fork()
    if not child:
        status = 1
        try:
            words = os.open(life.words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(words, 2)
            os.dup2(words, 1)
            faulthandler.enable()
            live(life)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    _, status = os.waitpid(child, 0)
    return status


def main() -> None:
    warm()
    assert threading.active_count() == 1
    print("ready", flush=True)
    for line in sys.stdin:
        print(bear(msgspec.json.decode(line, type=Life)), flush=True)


if __name__ == "__main__":
    main()
