"""A fleet among faults keeps what it promises: a quick selection; `make chaos` has all of them, and minutes of them at random."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.flows import CASE
from tests.chaos.judge import judge
from tests.chaos.load import Load
from tests.chaos.trial import scene, trial
from tests.crash.world import Visit

SEED = 20
QUICK = ("kill_worker", "flush_redis", "lose_replies", "kill_leader", "postgres_away", "freeze_worker")


@pytest.mark.long
async def test_a_fleet_among_faults_loses_nothing_repeats_nothing_and_ends_everything(tmp_path: Path) -> None:
    async with scene(tmp_path, standby=False, workers=2, hands=0) as on:
        verdict = await trial(on, "quick", iter(QUICK), seed=SEED, starts_per_s=4)
        assert verdict.wrong == [], verdict
        assert verdict.ended == verdict.runs > 2 * len(QUICK), verdict
        assert on.fleet.wire.lost, "some replies were lost, as they should be"
        assert verdict.refused_s < verdict.seconds / 2, verdict
        await assert_that_the_judge_sees_a_crime(on.engine, on.world)


async def assert_that_the_judge_sees_a_crime(engine, world) -> None:
    """A judge who never finds anything would be no judge."""
    load = Load(engine, world, seed=0, starts_per_s=1, flows=())
    run = (await engine.runs(status="completed", workflow="errand", limit=1))[0]
    assert run.key is not None
    load.started[run.key] = run.run
    load.ended[run.run] = run.status
    assert await judge(engine, load, world) == []
    Visit(CASE, world.environment).ask("pay", "another key", {"run": run.run})
    load.decided = {f"{run.run}:approval#1:0": "nobody"}
    load.started["no such key"] = run.run
    found = "\n".join(await judge(engine, load, world))
    for words in ("pay happened 2 times", "sent 1 times and intended 0 times", "was acknowledged and is gone", "no such key"):
        assert words in found, found
