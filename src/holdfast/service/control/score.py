"""Scores, given to runs: while they are under way, or long after they have ended.

Never here: which of them count (core.nouns.scores).
"""

from __future__ import annotations

from holdfast.core.nouns import scores as rule
from holdfast.core.nouns.scores import Score, Source
from holdfast.core.values.actor import Actor
from holdfast.errors import Conflict, InvalidInput
from holdfast.service.control.base import ControlBase


class Scores(ControlBase):
    """Scores of runs, by people and code. Runs do not see them, and nothing in them changes."""

    async def score(
        self, run_id: str, name: str, value: float, *, by: str | Actor, source: Source = "code", comment: str = ""
    ) -> Score:
        """Score a run, in progress or ended. The latest score of each name and author counts; earlier ones are kept.

        Raises:
            NotFound: The run does not exist.
            InvalidInput: The name, value or comment cannot be used.
            Conflict: The run has 100 scores.
        """
        row, claim = await self.find(run_id), self._claim(by)
        if claim.name is None:
            raise InvalidInput("A score needs an author (by=NAME). Nothing was scored.")
        if (found := rule.number(value)) is None:
            raise InvalidInput(f"The value {value!r:.80} is no number up to 1e15, true or false. Nothing was scored.")
        if source not in ("person", "code"):
            raise InvalidInput(f"source={source!r:.80}: it is 'person' or 'code'. Nothing was scored.")
        said = self._clean(comment) or ""
        if (problem := rule.problem(name, said)) is not None:
            raise InvalidInput(f"{problem}. Nothing was scored.")
        score = Score(name, found, claim.name, source, said, self.now_ms(), claim.os_user, claim.client)
        if not await self.store.scores.add(row.run, score, rule.MAX_OF_A_RUN):
            raise Conflict(
                f"Run {row.run} has been given {rule.MAX_OF_A_RUN} scores, all of which are kept; it takes no more."
                " Nothing was scored."
            )
        return score
