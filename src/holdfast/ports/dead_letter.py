"""Steps that have failed for good, as lists and sums show them.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypedDict, Unpack

from holdfast.core.values.ids import RunId, StepId
from holdfast.core.views.projection import DeadLetter

RESOLVED_FOR_MS: Final = 72 * 3600 * 1000
"""How long one is shown of which somebody has said what was to become; then only its run's history has it."""

LetterState = Literal["open", "resolved"]


class LetterFilter(TypedDict, total=False):
    """Which dead letters a list is to have; what is not said, or None, is any. Times are those of the latest failure."""

    run: RunId | None
    tenant: str | None
    workflow: str | None
    node: str | None
    error_class: str | None
    state: LetterState | None
    since_ms: int | None
    until_ms: int | None
    after: tuple[RunId, StepId] | None
    """Only those that come after this one."""
    limit: int


class Letter(NamedTuple):
    """A dead letter, and when somebody said what was to become of it."""

    letter: DeadLetter
    resolved_at_ms: int | None

    @property
    def id(self) -> str:
        """Its id, `RUN:STEP`, by which it is edited, replayed and resolved."""
        return f"{self.letter.run}:{self.letter.step}"


class LetterCount(NamedTuple):
    """How many letters of one kind there are; of the open ones, when the first of them failed."""

    workflow: str
    node: str
    error_class: str
    open: int
    resolved: int
    oldest_open_ms: int | None


class DeadLetters(Protocol):
    """What runs have had of dead letters. They are written with the commits of their runs."""

    async def letters(self, **sought: Unpack[LetterFilter]) -> Sequence[Letter]:
        """In the order of their runs, oldest first."""
        ...

    async def counts(self, tenant: str | None = None) -> Sequence[LetterCount]:
        """By workflow, node and class of error, those with the oldest open letter first."""
        ...

    async def forget(self, before_ms: int) -> int:
        """Forget those that were resolved before then; how many that were. Open ones stay."""
        ...
