"""Where scores of runs are kept.

Never here: an implementation, a default, which of them count (core.nouns.scores).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.nouns.scores import Score, ScoreMean
from holdfast.core.values.ids import RunId
from holdfast.ports.view import MOST_LISTED


class Scores(Protocol):
    """What was said of runs. It goes when its run is removed for good, and not before."""

    async def add(self, run: RunId, score: Score, most: int) -> bool:
        """Keep one more. False, and nothing is kept, where the run has `most` already."""
        ...

    async def given(self, run: RunId) -> Sequence[Score]:
        """All of a run, in the order in which they were given."""
        ...

    async def means(
        self,
        *,
        tenant: str | None = None,
        name: str | None = None,
        workflow: str | None = None,
        since_ms: int = 0,
        limit: int = MOST_LISTED,
    ) -> Sequence[ScoreMean]:
        """The means of those that count and were given since then, by workflow and name, the highest version first."""
        ...
