"""What the engine's tests read off a run's history: the events of a kind, and the books after each event.

The history is folded here, event by event, so that a promise about every commit is judged at every commit.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from holdfast import Run
from holdfast.core.evolve import evolve
from holdfast.core.facts.events import Event
from holdfast.core.facts.state import State
from holdfast.core.values.money import Budget

E = TypeVar("E", bound=Event)


async def events_of(run: Run, *kinds: type[E]) -> list[E]:
    """The run's events of these kinds, in order."""
    return [recorded.event for recorded in await run.events() if isinstance(recorded.event, kinds)]


async def books(run: Run) -> list[Budget]:
    """The run's books after each of its events."""
    state, found = State(), []
    for recorded in await run.events():
        evolve(state, recorded.event, recorded.at_ms)
        found.append(msgspec.structs.replace(state.budget))
    return found


async def assert_never_above(run: Run, limit_nanousd: int) -> None:
    """settled + held + in doubt ≤ limit, at every event."""
    for number, budget in enumerate(await books(run), 1):
        assert budget.committed_nanousd <= limit_nanousd, f"event {number}: {budget} is above {limit_nanousd}"
        assert min(budget.settled_nanousd, budget.held_nanousd, budget.in_doubt_nanousd) >= 0, f"event {number}"
