"""What the steps of the idioms tell, and what they may wait for: which results are recorded.

Never here: a judgement, a flow.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION
from holdfast.core.values.payload import Payload
from holdfast.ports import Append

_BROKEN = re.compile(r"(\w+) is broken")


class World:
    """The outside of one run; it outlives the processes that carry the run on."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        """How often each function was called, by its name and what it was given."""
        self.again: list[str] = []
        """Functions that were called though their result was recorded."""
        self.paths: dict[str, str] = {}
        """Where the results stand that are recorded, by what was returned."""
        self.timers: list[str] = []
        self.lefts: Counter[str] = Counter()
        self._passes: Counter[str] = Counter()
        self._news = asyncio.Event()

    def called(self, function: str, name: str) -> None:
        self.calls[f"{function} {name}"] += 1
        if name in self.paths:
            self.again.append(name)

    def left(self, name: str) -> None:
        self.lefts[name] += 1

    def passes_of(self, flow: str) -> int:
        """Count a pass through a flow; how many there were before."""
        self._passes[flow] += 1
        return self._passes[flow] - 1

    async def recorded(self, name: str) -> None:
        """Return when that result is recorded."""
        while name not in self.paths:
            self._news.clear()
            await self._news.wait()

    def committed(self, append: Append) -> None:
        for each in append.events:
            match each.event:
                case ev.ValueRecorded(kind=kind, path=path, payload=Payload() as payload) if kind == FUNCTION:
                    self._take(payload.value(), path)
                case ev.FunctionFailed(path=path, error=error) if found := _BROKEN.search(error.message):
                    self._take(found[1], path)
                case ev.EffectCompleted(call=call, response=response):
                    self._take(response.value(), call)
                case ev.TimerStarted(path=path):
                    self.timers.append(path)
        self._news.set()

    def _take(self, result: Any, path: str) -> None:
        if isinstance(result, str):
            self.paths[result] = path


_world: list[World] = []


def new_world() -> World:
    _world[:] = [World()]
    return _world[0]


def world() -> World:
    return _world[0]
