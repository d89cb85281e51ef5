"""Workflows that change, or go, while runs of them are in flight: several processes on one file, each with its code."""

from __future__ import annotations

import asyncio
import math
import os
import signal
from functools import cache
from pathlib import Path

import pytest

from holdfast import Demand, Engine, Workflow, human_gate, task
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import State
from holdfast.core.views.status import status
from holdfast.errors import InvalidDecision, InvalidWorkflow
from holdfast.settings import Settings
from tests.engine.history import events_of
from tests.engine.kit import Time, bounded, engine_at, gate_of, names, opened
from tests.forks import AsyncFork

MISSING = "workflow_missing"
GRACE_S = 60.0


@pytest.fixture
def now() -> Time:
    return Time()


def release(version: int, *, output: str = "sent", edited: bool = False) -> Workflow:
    """One release of the same workflow: a person approves, then it is sent. `edited` adds a step after that."""
    wf = Workflow("letter", version=version)
    wf.node("approve")(human_gate(lambda state: "Shall we?"))
    wf.node("send")(task(lambda state: output))
    wf.edge("approve", "send")
    if edited:
        wf.node("file")(task(lambda state: f"{state.events['send'].output} and filed"))
        wf.edge("send", "file")
    return wf


@cache
def old() -> Workflow:
    """The first release. It is as if of another file than the second: no variable of this module leads to either."""
    return release(1)


@cache
def new() -> Workflow:
    return release(2, output="sent again", edited=True)


async def started(path: Path, now: Time, workflow: Workflow | None = None) -> str:
    """A run that waits for its approval, whose process is gone."""
    workflow = workflow or old()
    async with engine_at(path, now, workflows=[workflow]) as engine:
        run = await engine.start(workflow)
        await gate_of(run)
        return run.id


async def approved(engine: Engine, run: str) -> None:
    state = await engine.run(run).state()
    (gate,) = [id_ for id_, gate in state.gates.items() if gate.opened.reason == "approval"]
    await engine.decide(gate, "approve", by="ann")


def asked(state: State) -> bool:
    return any(gate.opened.reason == MISSING for gate in state.gates.values())


async def looked(engine: Engine) -> None:
    """Have the process look for stranded runs now, and not only when a second is over."""
    engine._sweep._looked_for_stranded_s = -math.inf
    await engine._sweep.turn()


@bounded
async def test_a_changed_workflow_asks_after_a_grace_period_until_its_code_is_back(tmp_path: Path, now: Time) -> None:
    run_id = await started(tmp_path, now)
    async with engine_at(tmp_path, now, workflows=[new()]) as newer:
        run = newer.run(run_id)
        await approved(newer, run_id)
        now.forward(GRACE_S - 1)
        await looked(newer)
        assert await run.status() == "running", "the code may be on its way"
        now.forward(2)
        await looked(newer)
        state = await run.until(asked)
        assert status(state) == "requires_attention"
        (gate,) = state.gates.values()
        shown = gate.opened.shown.value()
        assert (shown["workflow"], shown["version"], shown["graph_hash"]) == ("letter", 1, old().hash)
        assert shown["loaded"] == [{"version": 2, "graph_hash": new().hash}]
        assert "holdfast runs migrate" in shown["message"]
        await looked(newer)
        assert len([e for e in await events_of(run, ev.GateOpened) if e.reason == MISSING]) == 1
        async with engine_at(tmp_path, now, workflows=[old()]) as older:
            assert await older.run(run_id).result() == "sent"
        assert len(await events_of(run, ev.GateWithdrawn)) == 1
        assert "AttemptFailed" not in await names(run)


@bounded
async def test_a_run_goes_on_with_other_code_when_it_is_migrated(tmp_path: Path, now: Time) -> None:
    run_id = await started(tmp_path, now)
    async with engine_at(tmp_path, now, workflows=[new()]) as newer:
        await approved(newer, run_id)
        now.forward(GRACE_S + 1)
        await looked(newer)
        run = newer.run(run_id)
        await run.until(asked)
        await newer.migrate(run_id, new(), by="ann")
        assert await run.result() == "sent again and filed"
        assert [e.by for e in await events_of(run, ev.RunMigrated)] == ["ann"]


@bounded
async def test_a_run_is_left_alone_while_another_process_can_run_it(tmp_path: Path, now: Time) -> None:
    go = asyncio.Event()
    busy = Workflow("busy")
    busy.node("wait")(task(lambda state: go.wait()))
    async with engine_at(tmp_path, now, slots=1) as older:  # it learns of its workflows only when it starts runs
        holding = await older.start(busy)
        run = await older.start(old())
        assert (await run.state()).startable, "it waits for the only slot"
        async with engine_at(tmp_path, now, workflows=[new()]) as newer:
            now.forward(days=3)
            await looked(newer)
            assert not asked(await newer.run(run.id).state())
        go.set()
        assert await holding.result() is True
        await gate_of(run)


@bounded
async def test_a_run_that_waits_for_a_person_needs_no_attention_before_the_answer(tmp_path: Path, now: Time) -> None:
    run_id = await started(tmp_path, now)
    async with engine_at(tmp_path, now, workflows=[new()]) as newer:
        run = newer.run(run_id)
        now.forward(days=14)
        await looked(newer)
        state = await run.state()
        assert status(state) == "waiting"
        assert not asked(state)
        await approved(newer, run_id)
        now.forward(GRACE_S + 1)
        await looked(newer)
        await run.until(asked)


@bounded
async def test_two_processes_that_notice_at_the_same_time_ask_once(tmp_path: Path, now: Time) -> None:
    ids = [await started(tmp_path, now) for _ in range(5)]
    other = Workflow("another")
    other.node("a")(task(lambda state: 1))
    async with engine_at(tmp_path, now, workflows=[new()]) as one, engine_at(tmp_path, now, workflows=[other]) as two:
        for run_id in ids:
            await approved(one, run_id)
        now.forward(GRACE_S + 1)
        await asyncio.gather(looked(one), looked(two))
        for run_id in ids:
            await one.run(run_id).until(asked)
        await asyncio.gather(looked(one), looked(two))
        for run_id in ids:
            opened = [e for e in await events_of(one.run(run_id), ev.GateOpened) if e.reason == MISSING]
            assert len(opened) == 1
        found = [row.run for row, _ in await one.gates() if row.reason == MISSING]
        assert sorted(found) == sorted(ids)


@bounded
async def test_the_grace_period_goes_on_across_restarts(tmp_path: Path, now: Time) -> None:
    run_id = await started(tmp_path, now)
    async with engine_at(tmp_path, now, workflows=[new()]) as first:
        await approved(first, run_id)
        now.forward(GRACE_S / 2)
        await looked(first)
    now.forward(GRACE_S / 2 + 1)
    async with engine_at(tmp_path, now, workflows=[new()]) as second:
        assert status(await second.run(run_id).until(asked)) == "requires_attention"


@bounded
async def test_what_an_attempt_left_is_taken_from_it_although_no_process_has_the_code(tmp_path: Path, now: Time) -> None:
    begun = asyncio.Event()
    wf = Workflow("long")

    @wf.node("work")
    @task
    async def work(state: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with engine_at(tmp_path, now, workflows=[wf]) as older:
        run = await older.start(wf)
        await begun.wait()
        assert older.runtime.membership.session is not None
        await older._sweep.aclose()  # as if it were killed: it takes no new session, and hands nothing over
        older.runtime.membership.closing = True
        await older.runtime.store.sessions.close(older.runtime.membership.session)
        async with engine_at(tmp_path, now, workflows=[new()]) as newer:
            now.forward(GRACE_S + 1)
            await looked(newer)
            state = await newer.run(run.id).until(asked)
            assert status(state) == "requires_attention"
            assert "AttemptLost" in await names(newer.run(run.id))


@bounded
async def test_the_grace_period_is_a_setting(tmp_path: Path, now: Time) -> None:
    run_id = await started(tmp_path, now)
    settings = Settings(workflow_grace_s=5)
    async with engine_at(tmp_path, now, workflows=[new()], settings=settings) as newer:
        await approved(newer, run_id)
        now.forward(6)
        await looked(newer)
        await newer.run(run_id).until(asked)


@bounded
async def test_every_command_reaches_a_run_whose_workflow_is_gone(tmp_path: Path, now: Time) -> None:
    run_id = await started(tmp_path, now)
    async with engine_at(tmp_path, now, workflows=[new()]) as newer:
        run = newer.run(run_id)
        await approved(newer, run_id)
        now.forward(GRACE_S + 1)
        await looked(newer)
        (gate,) = (await run.until(asked)).gates
        with pytest.raises(InvalidDecision, match="takes no decision"):
            await newer.decide(gate, "approve", by="ann")
        await newer.extend(run_id, "steps", 10**6)
        await newer.signal(run_id, "news")
        await newer.pause(run_id)
        assert await run.status() == "paused"
        await newer.resume(run_id)
        assert await run.status() == "requires_attention"
        await newer.cancel(run_id, by="ann")
        assert await run.status() == "cancelled"
        assert await newer.gates(run_id) == []


@bounded
async def test_a_worker_that_stops_when_idle_does_not_overlook_a_run_that_asked_for_it(tmp_path: Path, now: Time) -> None:
    run_id = await started(tmp_path, now)
    async with engine_at(tmp_path, now, workflows=[new()]) as newer:
        await approved(newer, run_id)
        now.forward(GRACE_S + 1)
        await looked(newer)
        await newer.run(run_id).until(asked)
    async with engine_at(tmp_path, now, workflows=[old()]) as older:
        await older.idle()
        assert await older.run(run_id).status() == "completed"


@bounded
@pytest.mark.parametrize("version", [1, 2])
async def test_who_stops_when_idle_waits_for_what_others_run_of_its_workflow(store: str, version: int) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def work(state: object) -> None:
        began.set()
        await go.wait()

    def made(version: int) -> Workflow:
        wf = Workflow("shared", version=version)
        wf.node("work")(task(work))
        return wf

    async with opened(store, workflows=[made(1)]) as one, opened(store, workflows=[made(version)]) as other:
        run = await one.start(made(1))
        await began.wait()
        idle = asyncio.create_task(other.idle())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.shield(idle)
        go.set()
        assert await idle == []
        assert await run.status() == "completed"


@bounded
async def test_who_stops_when_idle_waits_until_a_killed_process_is_known_to_be_dead(store: str, tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text(
        "import os, signal\nfrom holdfast import Workflow, task\nwf = Workflow('dies')\n"
        "wf.node('only')(task(lambda state: os.kill(os.getpid(), signal.SIGKILL)))\n"
    )
    wf = Workflow("dies")
    wf.node("only")(task(lambda state: "done"))
    words = ("run", tmp_path / "dies.py", "--here", "--store", store)
    killed = await AsyncFork.start("holdfast", *words, environment=os.environ | {"HOLDFAST_LEASE_S": "3"})
    await killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    async with opened(store, workflows=[wf]) as engine:
        assert await engine.idle() == []
        (row,) = await engine.runs()
        assert row.status == "completed"


@bounded
async def test_an_idle_process_names_the_runs_that_it_leaves_for_lack_of_their_code(store: str) -> None:
    other = Workflow("other")
    other.node("only")(task(lambda state: None))
    async with opened(store, execute=False) as desk:
        waits, due = await desk.start(old()), await desk.start(old())
        await desk.start(other)
        async with opened(store, workflows=[old()]) as older:
            for run in (waits, due):
                await gate_of(older.run(run.id))
        await approved(desk, due.id)
        async with opened(store, workflows=[new()]) as newer:
            (left,) = await newer.idle()
            assert (left.run, left.workflow, left.version, left.graph_hash, left.why) == (
                due.id,
                "letter",
                1,
                old().hash,
                MISSING,
            )
            async with opened(store, workflows=[old()]):
                assert await newer.idle() == []


def drawing(version: int = 1) -> Workflow:
    """One step, for which a process needs a label besides the code."""
    wf = Workflow("drawing", version=version)
    wf.node("draw", demand=Demand(labels=("gpu",)))(task(lambda state: f"picture {version}"))
    return wf


@bounded
async def test_a_step_without_code_or_place_asks_and_continues_when_both_are_back(tmp_path: Path, now: Time) -> None:
    first = drawing()
    async with engine_at(tmp_path, now, workflows=[first]) as older:
        run_id = (await older.start(first)).id
        now.forward(days=3)
        async with engine_at(tmp_path, now, workflows=[new()], labels=["gpu"]) as newer:
            await looked(newer)
            assert not asked(await newer.run(run_id).state()), "its code is there; why it waits, `queue why` tells"
    async with engine_at(tmp_path, now, workflows=[drawing(2)], labels=["gpu"]) as newer:
        run = newer.run(run_id)
        now.forward(GRACE_S - 1)
        await looked(newer)
        assert await run.status() == "waiting", "the code may be on its way"
        now.forward(2)
        await looked(newer)
        state = await run.until(asked)
        assert status(state) == "requires_attention"
        (gate,) = state.gates.values()
        assert gate.opened.shown.value()["loaded"] == [{"version": 2, "graph_hash": drawing(2).hash}]
        await looked(newer)
        assert len(await events_of(run, ev.GateOpened)) == 1
        async with engine_at(tmp_path, now, workflows=[first], labels=["gpu"]) as able:
            assert await able.run(run_id).result() == "picture 1"
        assert len(await events_of(run, ev.GateWithdrawn)) == 1


@bounded
async def test_returning_code_withdraws_its_question_although_the_place_is_missing(store: str) -> None:
    wf, settings = drawing(), Settings(workflow_grace_s=1)
    async with opened(store, execute=False) as desk:
        run = await desk.start(wf)
        async with opened(store, workflows=[new()], settings=settings):
            await run.until(asked)
            async with opened(store, workflows=[wf], settings=settings) as plain:
                state = await run.until(lambda state: not state.gates)
                assert status(state) == "waiting"
                assert len(await events_of(run, ev.GateWithdrawn)) == 1
                await asyncio.wait_for(plain.idle(), 20)
            await run.until(asked)
        async with opened(store, workflows=[wf], labels=["gpu"], settings=settings):
            assert await run.result() == "picture 1"


@bounded
async def test_a_worker_that_stops_when_idle_takes_back_a_question_about_code_that_it_has(store: str) -> None:
    """It has no place for the step, so there is nothing else for it to do."""
    wf = drawing()
    async with opened(store, execute=False) as desk:
        run = await desk.start(wf)
        async with opened(store, workflows=[new()], settings=Settings(workflow_grace_s=1)):
            await run.until(asked)
        async with opened(store, workflows=[wf]) as plain:
            await asyncio.wait_for(plain.idle(), 20)
        assert not (await run.state()).gates


@bounded
async def test_a_migrated_run_whose_step_waits_for_a_place_continues_with_other_code(store: str) -> None:
    old, new = drawing(), drawing(2)
    async with opened(store, workflows=[new], labels=["gpu"], settings=Settings(workflow_grace_s=1)) as newer:
        async with opened(store, execute=False) as desk:
            run_id = (await desk.start(old)).id
        run = newer.run(run_id)
        await run.until(asked)
        await newer.migrate(run_id, new, by="ann")
        assert await run.result() == "picture 2"


async def test_who_lacks_a_label_starts_a_run_and_leaves_its_steps_to_who_has_it(store: str) -> None:
    """Also the first step, which a start begins in its own process otherwise."""
    wf = Workflow("drawing", runs_on=["zone=eu", "gpu"])
    wf.node("draw")(task(lambda state: "a picture"))
    async with opened(store, labels=["gpu"]) as poor:
        run = await poor.start(wf)
        await asyncio.sleep(0.3)
        assert await events_of(run, ev.StepStarted) == []
        async with opened(store, workflows=[wf], labels=["gpu", "zone=eu", "more"]):
            assert await run.result() == "a picture"


async def test_missing_labels_are_named_when_a_person_is_asked(tmp_path: Path, now: Time) -> None:
    wf = Workflow("drawing", runs_on=["zone=eu", "gpu"])
    wf.node("draw")(task(lambda state: "a picture"))
    settings = Settings(workflow_grace_s=GRACE_S)
    async with engine_at(tmp_path, now, settings=settings) as poor:
        run = await poor.start(wf)
        now.forward(GRACE_S + 2)
        state = await run.until(asked)
        (gate,) = state.gates.values()
        assert "has to have the labels gpu, zone=eu" in gate.opened.shown.value()["message"]


@pytest.mark.parametrize("label", ["", "a b", "a,b", "x" * 101])
def test_what_is_no_label_is_reported_before_anything_runs(label: str) -> None:
    wf = Workflow("drawing", runs_on=[label])
    wf.node("draw")(task(lambda state: "a picture"))
    with pytest.raises(InvalidWorkflow, match="runs_on"):
        wf.graph  # noqa: B018
