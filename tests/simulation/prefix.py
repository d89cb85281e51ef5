"""A random flow from every prefix of its history: its process dies once, after the first commit, then after the second, and so on.

Random faults find few of these places in any one flow. Here each flow meets all of them, and nothing else goes wrong. Never
here: a judgement (flow_auditor).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from random import Random
from typing import Any

from tests.simulation.chance import Chance
from tests.simulation.fault import Faults
from tests.simulation.flow import draw_flow
from tests.simulation.scenario import Scenario
from tests.simulation.simulation import Outcome, simulate


def from_every_prefix(seed: int) -> Iterator[Outcome]:
    """The outcomes of the flow of `seed`, one for each commit after which its process dies."""
    for commit in count(1):
        death = _OneDeath(Chance(seed), commit)
        program = partial(draw_flow, Random(seed), f"p{seed}")
        scenario = Scenario(program, processes=1, arrange=partial(_give, death))
        outcome = simulate(seed, "progress", scenario=scenario)
        if not death.has_come:
            return
        yield outcome


def _give(faults: Faults, simulation: Any) -> None:
    """Have the process that executes meet these faults, and the world know of them."""
    faults.clock = simulation.loop.time
    simulation.processes[0].faults = simulation.world.faults = faults


class _OneDeath(Faults):
    """The faults of a process that dies once: after so many of its commits, before it hears of the last."""

    def __init__(self, chance: Chance, commit: int) -> None:
        super().__init__(chance, kinds=())
        self._left = commit

    @property
    def has_come(self) -> bool:
        """True if the process had so many commits."""
        return self._left <= 0

    def kills(self, kind: str) -> bool:
        self._left -= kind == "crash_after_commit"
        dies = kind == "crash_after_commit" and self._left == 0
        if dies:
            self.strike_now()
        return dies
