"""Where evaluations are kept.

Never here: an implementation, what of an evaluation is remembered (core.nouns.evaluations).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from holdfast.core.nouns.evaluations import Evaluation, Judged


class Evaluations(Protocol):
    """What suites came to. Nothing in it changes, and nothing leaves it."""

    async def add(self, evaluation: Evaluation, judged: Sequence[Judged]) -> None:
        """Keep one more, with its runs. One that is kept under that id already stays as it is."""
        ...

    async def found(self, id_: str) -> tuple[Evaluation, Sequence[Judged]] | None:
        """The one of that id, with its runs."""
        ...

    async def listed(self, tenant: str | None, workflow: str | None, before: str | None, limit: int) -> Sequence[Evaluation]:
        """Newest first, those before an id; of a tenant and a workflow, or of all."""
        ...
