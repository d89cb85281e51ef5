"""What models are like in practice, as all processes on a store have learned it.

Never here: an implementation, a default, what an estimate is worth (core.nouns.model_estimates).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.nouns.model_estimates import ModelEstimate, ModelUse


class ModelEstimates(Protocol):
    """By workflow, node and model, and by model in all workflows."""

    async def of(self, workflow: str) -> Sequence[ModelEstimate]:
        """Those of a workflow and those of all workflows, of each the latest, `MOST_ESTIMATES` at most."""
        ...

    async def learn(self, uses: Sequence[ModelUse]) -> None:
        """Take into account what replies were like, in one transaction."""
        ...

    async def forget(self, before_ms: int) -> None:
        """Those of which the last reply came before that."""
        ...
