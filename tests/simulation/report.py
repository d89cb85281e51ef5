"""What many programs came to: how much of everything they saw, and which of them broke a promise.

It exists so that a weak generator shows: a kind of event, node, join or fault that nobody has seen proves nothing.
Never here: judging.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, get_args

import msgspec

from holdfast.core.facts.events import AnyEvent
from holdfast.core.facts.graph import JoinMode, Kind
from tests.simulation import answer, approval, score, talk_auditor
from tests.simulation.fault import OBSERVED, RATES
from tests.simulation.job_auditor import SEEN
from tests.simulation.simulation import LEARNED, Outcome

EVERY: Final[dict[str, tuple[str, ...]]] = {
    "events": tuple(kind.__name__ for kind in get_args(AnyEvent)),
    "nodes": get_args(Kind),
    "joins": get_args(JoinMode),
    "faults": (*RATES, *OBSERVED),
    "jobs": (*SEEN, LEARNED),
    "talks": talk_auditor.SEEN,
    "besides": (*approval.SEEN, *answer.SEEN, *score.SEEN),
}
"""Everything that there is to be seen, by chapter."""
RARE: Final = {"OutcomeOrphaned", "OperationReused", "EffectDeferred"}
"""Events that many programs may miss: about one in three thousand sees an orphan, one in a thousand an effect deferred."""
_ENOUGH: Final = 1500
"""Programs that see all the rest."""
_CHAPTERS: Final = ("events", "nodes", "joins", "faults", "jobs", "talks", "besides", "refusals", "statuses")


class Report(msgspec.Struct):
    """The sum of outcomes."""

    programs: int = 0
    steps: int = 0
    virtual_s: float = 0.0
    seen: dict[str, Counter[str]] = msgspec.field(default_factory=lambda: {name: Counter() for name in _CHAPTERS})
    failed: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.programs += 1
        self.steps += outcome.steps
        self.virtual_s += outcome.virtual_s
        for name in _CHAPTERS[:-1]:
            self.seen[name].update(getattr(outcome, name))
        self.seen["statuses"][outcome.status] += 1
        if outcome.violations:
            self.failed.append(outcome)

    def unseen(self) -> dict[str, list[str]]:
        """What no program has seen, by chapter."""
        found = {name: [each for each in every if not self.seen[name][each]] for name, every in EVERY.items()}
        return {name: missing for name, missing in found.items() if missing}

    def should_have_seen(self) -> list[str]:
        """What no program has seen, where so many ran that one should have."""
        if self.programs < _ENOUGH:
            return []
        return [each for missing in self.unseen().values() for each in missing if each not in RARE]

    def text(self) -> Iterator[str]:
        """The report as lines."""
        events = sum(self.seen["events"].values())
        years = self.virtual_s / (365 * 86_400)
        yield f"{self.programs} programs, {events} events, {self.steps} steps of the loop, {years:.0f} simulated years"
        for name, counted in self.seen.items():
            told: list[Any] = [f"{each} {count}" for each, count in counted.most_common()]
            yield f"{name}: {', '.join(told) or 'none'}"
        for name, missing in self.unseen().items():
            yield f"never seen among {name}: {', '.join(missing)}"
