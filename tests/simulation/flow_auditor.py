"""Who watches random flows: every pass through one goes the way that was gone before it, and what is recorded is not done again.

Never here: a decision; what a flow does (flow).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION
from holdfast.core.values.ids import RunId

_LATE_S: Final = 1.0
"""How long an outcome may take to reach the flow where nothing goes wrong."""
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class _Run:
    def __init__(self) -> None:
        self.way: list[bytes] = []
        """The longest way that a pass has gone."""
        self.recorded: set[int] = set()
        """The calls of functions of which a result is recorded, by their numbers."""
        self.settled: set[str] = set()
        """The places that have their outcome."""


class FlowAuditor:
    """Judges the flows of one program."""

    def __init__(self, fault: Callable[[str, str, str], None]) -> None:
        self._fault = fault
        self._runs: dict[str, _Run] = {}

    def _of(self, run: str) -> _Run:
        return self._runs.setdefault(run, _Run())

    def passed(self, run: str, attempt: int, number: int, what: Any) -> bool:
        """A flow came by something: outcomes are handed over one at a time, in the order of the history, so that each pass
        comes by the same. Returns True if no pass was here before."""
        way, told = self._of(run).way, _encode(what)
        if number <= len(way):
            if way[number - 1] != told:
                before = way[number - 1]
                self._fault("a replay goes the way that was gone", run, f"{number} in {attempt}: {told!r}, not {before!r}")
            return False
        if number != len(way) + 1:
            self._fault("a replay goes the way that was gone", run, f"{number} in {attempt} after {len(way)}")
        way.append(told)
        return True

    def waited(self, run: str, asked_s: float, from_s: float, until_s: float, felt_until_s: float) -> None:
        """A flow waited for time alone, or was handed something that came at `from_s`: hardly longer than it asked, where
        no fault is felt since. In Unix seconds."""
        took_s = until_s - from_s
        if took_s > asked_s + _LATE_S and felt_until_s < from_s:
            self._fault("no flow goes on late", run, f"after {took_s} s instead of {asked_s}")

    def began(self, run: str, number: int) -> None:
        if number in self._of(run).recorded:
            self._fault("a function whose result is recorded is not called again", run, f"{number}")

    def event(self, run: RunId, event: ev.Event) -> None:
        mine = self._of(run)
        match event:
            case ev.RunReopened() | ev.JournalDropped():  # what failed has another outcome from now on
                self._runs[run] = _Run()
            case ev.ValueRecorded() if event.kind in (FUNCTION, "sleep"):
                self._settle(mine, run, event.path)
                if event.kind == FUNCTION and event.payload is not None:
                    mine.recorded.add(event.payload.value()["number"])
            case ev.FunctionFailed() | ev.TimerFired():
                self._settle(mine, run, event.path)
            case ev.RunCompleted(output=output):
                told = [_encode(each) for each in output.value()["trail"]]
                if told != mine.way[: len(told)]:
                    self._fault("a flow returns what it came by", run, f"{told}, not {mine.way}")
            case _:
                pass

    def _settle(self, mine: _Run, run: str, path: str) -> None:
        if path in mine.settled:
            self._fault("an operation has one outcome", run, path)
        mine.settled.add(path)
