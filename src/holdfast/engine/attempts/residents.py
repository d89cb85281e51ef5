"""The flows of this process that wait, kept in memory: one that wakes goes on where it stands, and nothing of it is replayed.

A cache. A flow that is not here is replayed: after a restart, in another process, or because it was let go of to keep to the
budget, which lets the one go first that has waited longest.

Never here: what a flow waits for, how it goes on (flowing).
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from holdfast.core.facts.state import Step
from holdfast.core.values.ids import RunId, StepId


class FlowPosition(NamedTuple):
    """The place at which a flow was when its step was left to wait."""

    run: RunId
    step: StepId
    attempt: int
    """The number of the attempt that came to it."""
    code: object
    """What it runs: code that has been loaded again since is other code."""
    generation: int
    """How often something had been taken out of its journal."""
    settlements: int
    """How many outcomes its operations had had."""
    outcomes: int
    """A hash of these and of their places: with another, one of them has been taken back."""
    size_bytes: int
    """What it takes in memory, as an estimate."""


class Flow(Protocol):
    """A flow that has begun (flowing)."""

    stands: bool
    """Its step was left to wait, and its code was not: it may go on here in the next attempt."""

    async def carry(self) -> Any:
        """Return what its function returns. Raises what it raises, and Suspension where the step waits."""
        ...

    def standing(self) -> FlowPosition:
        """Return the place at which it waits."""
        ...

    def let_go(self) -> None:
        """Leave its code where it waits."""
        ...


class FlowContext(Protocol):
    """The `ctx` of a flow (context)."""

    run_id: RunId
    step_id: StepId
    flow: Flow | None


C = TypeVar("C", bound=FlowContext)


class Residents(Generic[C]):
    """The flows that stay in memory of one process."""

    def __init__(self, most_bytes: int) -> None:
        """Keeps no more than fits into `most_bytes`; with 0 none."""
        self._most_bytes = most_bytes
        self._kept: dict[tuple[RunId, StepId], tuple[FlowPosition, C]] = {}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def is_open(self) -> bool:
        """True if any may be kept."""
        return self._most_bytes > 0

    def keep(self, context: C) -> None:
        """Keep a flow that stands, if it fits, until its step goes on."""
        assert context.flow is not None
        standing = context.flow.standing()
        key = standing.run, standing.step
        self._drop(key)
        self._kept[key] = standing, context
        self.size_bytes += standing.size_bytes
        while self.size_bytes > self._most_bytes:
            self._drop(next(iter(self._kept)))

    def take(self, run: RunId, step: Step, code: object) -> C | None:
        """The `ctx` with whose flow a step's new attempt goes on; None if the flow has to be replayed."""
        if (found := self._kept.get((run, step.id))) is None:
            return None
        standing, context = found
        if not _goes_on(standing, step) or standing.code is not code:
            self._drop((run, step.id))
            return None
        self._forget((run, step.id))
        return context

    def drop(self, context: C, number: int) -> None:
        """Let go of the flow of an attempt whose wait could not be recorded, unless it goes on already."""
        key = context.run_id, context.step_id
        if (found := self._kept.get(key)) is not None and found[0].attempt == number:
            self._drop(key)

    def close(self) -> None:
        """Let go of all, and keep none any more."""
        self._most_bytes = 0
        while self._kept:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[RunId, StepId]) -> None:
        flow = self._kept[key][1].flow if key in self._kept else None
        if flow is not None:
            self._forget(key)
            flow.let_go()

    def _forget(self, key: tuple[RunId, StepId]) -> None:
        self.size_bytes -= self._kept.pop(key)[0].size_bytes


def _goes_on(standing: FlowPosition, step: Step) -> bool:
    """Return True if nothing has happened to a step since but what it waits for."""
    if (standing.attempt + 1, standing.generation) != (step.attempt, step.generation):
        return False
    return standing.outcomes == outcomes(step, standing.settlements)


def outcomes(step: Step, number: int) -> int:
    """Return a hash of the first so many outcomes of a step."""
    return hash(frozenset((path, op.settled) for path, op in step.journal.items() if 0 < op.settled <= number))
