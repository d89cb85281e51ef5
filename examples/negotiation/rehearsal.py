"""Plays negotiations through with people who answer when they are said to: time leaps to whatever comes next, a person's answer
or what a run waits for, as soon as nobody has anything left to do before.

Never here: what is decided (the demo and the tests say), counting anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from holdfast import Engine
from holdfast.errors import AlreadyDecided, NotFound
from holdfast.testing import VirtualTime

LOOK_S = 0.01
PATIENCE_S = 120.0


class Answer(NamedTuple):
    """What a person says, so long after being asked."""

    after_s: float
    decision: str
    data: Any = None
    role: str = "approver"
    by: str = "mira"


Say = Callable[[str, Answer], Awaitable[None]]
"""Has an answer to a gate heard."""
People = Callable[[str, str, int], Answer | None]
"""What is said at a gate, by its run, its reason and how often that run was asked for that reason before; None: nothing."""


class Rehearsal:
    """Runs on a store whose time leaps, with the people who decide about them."""

    def __init__(self, engine: Engine, time: VirtualTime, people: People, say: Say | None = None) -> None:
        """`say` has a decision heard; without it the engine is told."""
        self._engine = engine
        self._say = say if say is not None else self._tell
        self._time = time
        self._people = people
        self._met: dict[str, tuple[int, Answer] | None] = {}
        """What will be said at each gate, and when."""

    async def until(self, met: Callable[[], Awaitable[bool]]) -> None:
        """Go on until `met` says so. Raises TimeoutError where it never does."""
        async with asyncio.timeout(PATIENCE_S):
            while not await met():
                if not await self._decide():
                    await self._leap()
                await asyncio.sleep(LOOK_S)

    async def _decide(self) -> bool:
        """Say what is due; whether there was anything."""
        await self._meet()
        due = [(gate, met[1]) for gate, met in self._met.items() if met is not None and met[0] <= self._time()]
        for gate, answer in due:
            self._met[gate] = None
            try:
                await self._say(gate, answer)
            except (AlreadyDecided, NotFound):
                continue  # it was withdrawn meanwhile
        return bool(due)

    async def _tell(self, gate: str, answer: Answer) -> None:
        data = {} if answer.data is None else {"data": answer.data}
        await self._engine.decide(gate, answer.decision, by=answer.by, roles=[answer.role], **data)

    async def _meet(self) -> None:
        """Hand each new question to somebody."""
        for row, _ in await self._engine.gates():
            if row.gate not in self._met:
                asked = [
                    each.gate for each, _ in await self._engine.gates(row.run, open_only=False) if each.reason == row.reason
                ]
                answer = self._people(row.run, row.reason, asked.index(row.gate))
                when_ms = 0 if answer is None else row.opened_at_ms + int(answer.after_s * 1000)
                self._met[row.gate] = None if answer is None else (when_ms, answer)

    async def _leap(self) -> None:
        """To what comes next, if nobody is at anything."""
        rows = [row for row in await self._engine.runs() if row.ended_at_ms is None]
        if any(row.status == "running" for row in rows):
            return
        due = [row.due_at_ms for row in rows if row.due_at_ms is not None]
        due += [met[0] for met in self._met.values() if met is not None]
        if due and min(due) > self._time():
            self._time.reach(min(due))
