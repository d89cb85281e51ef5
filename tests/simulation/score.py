"""Scores among the faults: people and programs who say what a run was worth; and who judges that all of it is kept.

Never here: which scores count, by the engine's own rule.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, Final

from holdfast.compose import Engine
from holdfast.core.nouns.scores import Score
from holdfast.core.values.ids import RunId
from tests.simulation.chance import spread_s

SEEN: Final = ("a score given", "a score in the place of another")

Ask = Callable[[Callable[[Engine], Awaitable[Any]]], Awaitable[Any]]


class Scores:
    """What is said of the runs of a program."""

    def __init__(self, stream: Random, fault: Callable[[str, str, str], None]) -> None:
        self._stream = stream
        self._fault = fault
        self._wanted: set[tuple[str, float, str]] = set()
        self._kept: dict[RunId, list[Score]] = {}
        self.seen: Counter[str] = Counter()

    async def live(self, ask: Ask, run: RunId) -> None:
        """Several say something of it at any moment, and then one looks at all of it."""
        await asyncio.gather(*(self._say(ask, run, number) for number in range(self._stream.choice((1, 3, 6)))))
        known = len(self._kept.get(run, ()))  # what somebody asked twice may come while somebody reads
        every = [*await ask(partial(Engine.scores, run_id=run, every=True))]
        counting = [*await ask(partial(Engine.scores, run_id=run))]
        kept = self._kept.get(run, [])
        since = [kept[:number] for number in range(known, len(kept) + 1)]
        if every not in since:
            self._fault("scores are all kept, in the order in which they came", run, f"{every}, not {kept}")
        if counting not in [_latest(each) for each in since]:
            self._fault("the latest score of each name and giver counts", run, f"{counting} of {kept}")

    async def _say(self, ask: Ask, run: RunId, number: int) -> None:
        name, by = self._stream.choice(("helpful", "true")), self._stream.choice(("ann", "judge"))
        await asyncio.sleep(spread_s(self._stream, 0.01, 5_000.0))
        self._wanted.add((name, float(number), by))
        given = await ask(partial(Engine.score, run_id=run, name=name, value=number, by=by, source="person"))
        if given not in self._kept.get(run, ()):
            self._fault("a score that was acknowledged is kept", run, f"{given}")

    def added(self, run: RunId, score: Score) -> None:
        """The store has one more."""
        if (score.name, score.value, score.by) not in self._wanted:
            self._fault("a score is what somebody said", run, f"{score}")
        kept = self._kept.setdefault(run, [])
        self.seen["a score given"] += 1
        self.seen["a score in the place of another"] += any((each.name, each.by) == (score.name, score.by) for each in kept)
        kept.append(score)


def _latest(scores: list[Score]) -> list[Score]:
    latest = {(each.name, each.by): each for each in scores}
    return [latest[key] for key in sorted(latest)]
