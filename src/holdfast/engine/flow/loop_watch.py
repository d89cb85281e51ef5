"""A watch of this process's event loop: it reports the code that holds the loop, once each time.

Nothing else goes on meanwhile: no other run, no renewal that is asked for in the loop. A thread looks, which a held loop cannot
keep from that. Never here: ending anything.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from types import FrameType
from typing import Any, Final, Self

from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.runs import user_lines

log = logging.getLogger("holdfast")

BOUND_S: Final = 1.0
_LOOKS: Final = 5
"""How often it asks in that time: what holds the loop for a fifth longer is certain to be seen."""


class LoopWatch:
    """For as long as an engine is open, from the thread of its loop."""

    def __init__(self, bound_s: float = BOUND_S) -> None:
        self._bound_s = bound_s
        self._loop = asyncio.get_running_loop()
        self._of_loop = threading.get_ident()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="holdfast-loop-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()

    def _watch(self) -> None:
        while not self._is_over.wait(self._bound_s / _LOOKS):
            answered = threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop is closed
                return
            if not answered.wait(self._bound_s):
                self._report()
            while not (answered.wait(self._bound_s) or self._is_over.is_set()):
                pass

    def _report(self) -> None:
        """Say where the loop is. Of a process that only gets no time, no code of the user's is there."""
        frames = [*_outwards(sys._current_frames().get(self._of_loop))]
        place = user_lines.first_of(frames)
        if place is None:
            return
        attempt: Any = next((found for each in frames if isinstance(found := each.f_locals.get("attempt"), Attempt)), None)
        whose = "" if attempt is None else f", in {attempt.name!r} of {attempt.graph.definition.name!r} (run {attempt.run})"
        log.warning(
            "Make it a plain `def` step, or await it: %s holds the event loop for more than %g s%s. Nothing else of this"
            " process goes on meanwhile.",
            place,
            self._bound_s,
            whose,
        )


def _outwards(frame: FrameType | None) -> list[FrameType]:
    """A frame, its caller, and so on."""
    found: list[FrameType] = []
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found
