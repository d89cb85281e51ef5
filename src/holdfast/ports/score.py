"""Where scores of runs are kept.

Never here: an implementation, a default, which of them count (core.scores).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.ids import RunId
from holdfast.core.scores import Score


class Scores(Protocol):
    """What was said of runs. It goes when its run is removed for good, and not before."""

    async def add(self, run: RunId, score: Score, most: int) -> bool:
        """Keep one more. False, and nothing is kept, where the run has `most` already."""
        ...

    async def given(self, run: RunId) -> Sequence[Score]:
        """All of a run, in the order in which they were given."""
        ...
