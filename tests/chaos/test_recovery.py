"""The runs of a worker that is killed go on within its lease and a second: the bench's own measure, made smaller."""

from __future__ import annotations

from pathlib import Path

from bench.recovery import measure

RUNS = 50
LEASE_S = 2.0
BUSY_S = 1.0
"""What the tests beside it may cost it."""


async def test_the_runs_of_a_killed_worker_go_on_within_its_lease_and_a_second(tmp_path: Path) -> None:
    figures = await measure(RUNS, LEASE_S, tmp_path)
    assert figures["right"] == figures["paid"] == figures["keys"] == RUNS, figures
    assert figures["went_on_s"] <= LEASE_S + 1 + BUSY_S, figures
