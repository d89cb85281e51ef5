"""A new version of a workflow with worse results is held back: its runs ask before they begin, and a person releases it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, Workflow, flow, task
from holdfast.core.nouns.evaluations import ScenarioResult
from holdfast.core.views.status import status
from holdfast.errors import AlreadyDecided, DecisionRefused
from holdfast.evaluation import Scenario, play
from holdfast.settings import HoldBackRules, Settings

SUITE = "cases.yaml"
RULES = {"case": HoldBackRules(suite=SUITE, reviewers=("ann", "bob"))}


def case(version: int, done: list[str] | None = None) -> Workflow:
    wf = Workflow("case", version=version)

    @wf.node("do")
    @task
    def do(state: Any) -> int:
        if done is not None:
            done.append(str(state.run_id))
        return version

    return wf


def results(passed: int) -> list[ScenarioResult]:
    return [ScenarioResult(f"s{n}", f"r{n}", () if n < passed else ("It failed.",)) for n in range(10)]


@asynccontextmanager
async def opened(where: str | Path, rules: Any = RULES) -> AsyncIterator[Engine]:
    async with Engine.open(where, settings=Settings(hold_back=rules)) as engine:
        yield engine


async def keep(engine: Engine, workflow: Workflow, passed: int) -> None:
    await engine.keep_evaluation(SUITE, workflow, results(passed), min_passed=0.5, by="eve")


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "holdfast.db") if request.param == "sqlite" else str(request.getfixturevalue("database"))


async def test_a_worse_version_asks_before_anything_begins_and_a_person_releases_it(where: str) -> None:
    done: list[str] = []
    good, worse = case(1), case(2, done)
    async with opened(where) as engine:
        await keep(engine, good, 9)
        assert await (await engine.start(good)).result() == 1
        await keep(engine, worse, 8)
        first, second = await engine.start(worse, by="carl"), await engine.start(worse)
        other = await engine.start(worse, tenant="acme")
        for run in (first, second, other):
            assert status(await run.settled()) == "requires_attention"
        assert done == []
        (gate, _), *_ = await engine.gates(first.id)
        shown = (await engine.gate(gate.gate)).shown
        assert gate.reason == "version_held"
        assert gate.title == "Start version 2 of case?"
        assert (shown["result"]["passed"], shown["before"]["passed"], shown["before"]["version"]) == (8, 9, 1)
        with pytest.raises(DecisionRefused):
            await engine.decide(gate.gate, by="carl")
        await engine.decide(gate.gate, by="ann", reason="the two are flaky")
        assert [await first.result(), await second.result()] == [2, 2]
        assert await (await engine.start(worse)).result() == 2, "released once, for all that come"
        assert status(await other.settled()) == "requires_attention", "a person decides for one tenant"
        decided = [each.event for each in await second.events() if type(each.event).__name__ == "GateDecided"]
        assert [(each.decision, each.by) for each in decided] == [("approve", "ann")]
        with pytest.raises(AlreadyDecided):
            await engine.decide(gate.gate, "reject", by="bob")


async def test_a_rejected_version_stays_held_back_and_its_run_fails(tmp_path: Path) -> None:
    done: list[str] = []
    async with opened(tmp_path / "holdfast.db") as engine:
        await keep(engine, case(1), 9)
        run, again = await engine.start(case(2, done)), await engine.start(case(2, done))
        (gate, _), *_ = await engine.gates(run.id)
        await engine.decide(gate.gate, "reject", by="ann", reason="evaluate it first")
        state = await run.settled()
        assert status(state) == "failed"
        assert state.error is not None
        assert "evaluate it first" in state.error.message
        for each in (again, await engine.start(case(2, done))):
            assert status(await each.settled()) == "requires_attention"
        await engine.cancel(again.id, by="ann")
        assert status(await again.settled()) == "cancelled"
        assert done == []


async def test_a_good_result_lets_new_runs_begin_without_asking(tmp_path: Path) -> None:
    async with opened(tmp_path / "holdfast.db") as engine:
        await keep(engine, case(1), 9)
        waiting = await engine.start(case(2))
        await keep(engine, case(2), 9)
        assert await (await engine.start(case(2))).result() == 2
        assert status(await waiting.settled()) == "requires_attention", "its gate is decided by a person"


async def test_runs_under_way_children_and_workflows_without_a_rule_are_not_touched(tmp_path: Path) -> None:
    started, child = case(1), case(3)

    @flow
    async def parent(ctx: Context) -> int:
        await ctx.wait_signal("go")
        return await ctx.child(child)

    where = tmp_path / "holdfast.db"
    async with opened(where, {}) as engine:
        under_way = await engine.start(parent)
        await under_way.settled()
        assert await (await engine.start(started)).result() == 1
    async with Engine.open(where, workflows=[parent, child], settings=Settings(hold_back=RULES)) as engine:
        await engine.signal(under_way.id, "go")
        assert await engine.run(under_way.id).result() == 3


async def test_a_version_is_not_held_back_from_its_own_scenarios(tmp_path: Path) -> None:
    path = await play(case(2), Scenario(id="one", input=None), Settings(hold_back=RULES))
    assert path.status == "completed"


async def test_a_schedule_s_run_of_a_held_version_asks_too(tmp_path: Path) -> None:
    async with opened(tmp_path / "holdfast.db") as engine:
        await engine.set_schedule("nightly", case(2), cron="0 0 1 1 *")
        now_ms = engine.store.clock.now_ms()
        fired = await engine.backfill_schedule("nightly", now_ms - 400 * 86_400_000, now_ms, by="ann")
        assert status(await engine.run(fired[0].run).settled()) == "requires_attention"
