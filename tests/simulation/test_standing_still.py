"""Simulated processes of which each lease is over before anybody could find another dead: every program ends all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.process import Process
from tests.simulation.program import Op
from tests.simulation.scenario import Fixed, Scenario, draws, program_of
from tests.simulation.simulation import simulate

FUNCTION, SAY = Op("function"), Op("say")
STEPS = (FUNCTION, SAY, FUNCTION, Op("gather", None, False, (FUNCTION, FUNCTION)), SAY, *[FUNCTION] * 6)


def harmed(harm: Callable[[Process, float], None], *, away: bool = False) -> Callable[[Any], None]:
    """Have it done to all processes from time to time, for longer than their leases."""

    def arrange(simulation: Any) -> None:
        draws("functions", Fixed(0.9))(simulation)  # each takes some seconds, so that one begins while a lease is over

        def strike() -> None:
            until_s = simulation.loop.time() + simulation.outlast_leases(harm)
            simulation.disk.away_until_s = until_s if away else 0.0

        for number in range(5):
            simulation.loop.later(3.0 + 20.0 * number, strike)

    return arrange


FAULTS = {
    "its lease cannot be renewed": harmed(Process.stall),
    "it stands still": harmed(Process.freeze),
    "its disk is away": harmed(Process.stall, away=True),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_every_step_goes_on_when_for_longer_than_its_lease(fault: str, processes: int, seed: int) -> None:
    outcome = simulate(seed, scenario=Scenario(program_of(*STEPS), {}, processes, FAULTS[fault]))
    assert outcome.violations == []
    assert "completed" in outcome.status
    assert "stuck" not in outcome.status
