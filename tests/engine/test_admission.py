"""Admission, from the start to the place: refused or queued beyond the cap, in order of arrival, in every process."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Engine, Run, Workflow, human_gate, task
from holdfast.core.facts import events as ev
from holdfast.core.values.scopes import FLEET_RUNS
from holdfast.core.views.status import status, waiting_for
from holdfast.errors import InvalidInput, TooManyRuns
from tests.engine.history import events_of
from tests.engine.kit import bounded, opened


def patient() -> Workflow:
    """It waits for a person."""
    wf = Workflow("patient")

    @wf.node("ask")
    @human_gate
    async def ask(state):
        return {"diff": "Shall we?"}

    return wf


def quick() -> Workflow:
    wf = Workflow("quick")
    wf.node("work")(task(lambda state: state.run_id))
    return wf


async def approve(engine: Engine, run: Run) -> None:
    (gate,) = (await run.until(lambda state: bool(state.gates))).gates
    await engine.decide(gate, "approve")
    await run.result()


@bounded
async def test_a_start_beyond_the_cap_of_its_tenant_is_refused_and_another_tenants_is_not(store: str) -> None:
    async with opened(store) as engine:
        await engine.set_admission(2, tenant="acme")
        runs = [await engine.start(patient(), tenant="acme") for _ in range(2)]
        with pytest.raises(TooManyRuns, match="tenant acme") as refused:
            await engine.start(patient(), tenant="acme")
        assert refused.value.retry_after_s == 1
        await engine.start(patient(), tenant="umbrella")
        assert len(await engine.runs()) == 3
        await runs[0].settled()
        assert (await engine.admission("acme")).used == 2, "who waits for a person keeps its place"
        await approve(engine, runs[0])
        assert (await engine.admission("acme")).used == 1
        await engine.start(patient(), tenant="acme")
        assert (await engine.admission()).used == 3


@bounded
async def test_a_start_that_is_repeated_under_its_key_gets_its_run_however_many_are_active(store: str) -> None:
    async with opened(store) as engine:
        await engine.set_admission(1)
        first = await engine.start(patient(), key="k")
        assert (await engine.start(patient(), key="k")).id == first.id
        with pytest.raises(TooManyRuns):
            await engine.start(patient(), key="other")
        await engine.cancel(first.id)
        assert (await engine.start(patient(), key="other")).id != first.id


@bounded
async def test_queued_runs_begin_in_the_order_of_their_arrival_as_places_come_free(store: str) -> None:
    async with opened(store) as engine:
        await engine.set_admission(2)
        active = [await engine.start(patient()) for _ in range(2)]
        queue = [await engine.start(quick(), queue=True) for _ in range(6)]
        for run in queue:
            state = await run.state()
            assert status(state) == "waiting"
            assert [(wait.kind, wait.reason, wait.about) for wait in waiting_for(state)] == [("place", "admission", FLEET_RUNS)]
        assert [each.run for each in await engine.waiting([FLEET_RUNS])] == [run.id for run in queue]
        with pytest.raises(TooManyRuns) as refused:
            await engine.start(quick())
        assert refused.value.retry_after_s == 7, "six come before it"
        await engine.cancel(active[0].id)
        assert [await run.result() for run in queue] == [run.id for run in queue]
        began = [
            recorded.at_ms for run in queue for recorded in await run.events() if isinstance(recorded.event, ev.RunAdmitted)
        ]
        assert began == sorted(began)
        assert (await engine.admission()).used == 1
        assert await engine.waiting([FLEET_RUNS]) == []


@bounded
async def test_a_queued_run_is_followed_to_its_end(store: str) -> None:
    """Waiting for a place is no reason to leave: it comes by itself."""
    async with opened(store) as engine:
        await engine.set_admission(1)
        first = await engine.start(patient())
        second = await engine.start(patient(), queue=True)
        following = asyncio.create_task(second.settled())
        await asyncio.sleep(0.1)
        assert not following.done()
        await approve(engine, first)
        assert (await following).gates


@bounded
async def test_another_process_admits_what_waits(store: str) -> None:
    """The queued run's own process executes nothing; and the one that admits it need not know its workflow."""
    async with opened(store, execute=False) as desk:
        await desk.set_admission(1)
        first, second = await desk.start(patient()), await desk.start(quick(), queue=True)
        async with opened(store):
            await desk.cancel(first.id)
            await second.until(lambda state: state.counted)
        async with opened(store, workflows=[quick()]):
            assert await second.result() == second.id
        assert len(await events_of(second, ev.RunAdmitted)) == 1


@bounded
async def test_a_cap_that_is_raised_or_taken_away_lets_runs_in(store: str) -> None:
    async with opened(store) as engine:
        await engine.set_admission(0)
        queue = [await engine.start(quick(), queue=True) for _ in range(3)]
        await engine.set_admission(1)
        assert await queue[0].result()
        await engine.set_admission(None)
        for run in queue:
            await run.result()
        with pytest.raises(InvalidInput, match="Nothing was changed"):
            await engine.set_admission(-1)


@bounded
async def test_a_run_that_waits_for_its_place_can_be_cancelled(store: str) -> None:
    async with opened(store) as engine:
        await engine.set_admission(1)
        first = await engine.start(patient())
        queue = [await engine.start(quick(), queue=True) for _ in range(2)]
        await engine.cancel(queue[0].id)
        assert status(await queue[0].state()) == "cancelled"
        assert (await engine.admission()).used == 1
        await engine.cancel(first.id)
        await queue[1].result()
