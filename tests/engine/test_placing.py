"""Steps that demand something: they start where that is, only when it is free, and wait without holding anything."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast import Demand, Engine, Run, Workflow, task
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.events import StepStarted
from holdfast.core.values.demand import Resources
from holdfast.engine.capacity.placing import unplaced_of
from holdfast.errors import UsageError
from tests.core.game import Game
from tests.engine.kit import bounded, opened

FOUR_CORES = Resources(cpu_m=4000, memory_mb=8000, gpus=1, tags=("nvme",))


class Stage:
    """Steps that stand on it until they are let go, and how many of each kind there were at once."""

    def __init__(self) -> None:
        self.now: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.came = asyncio.Condition()
        self.go = asyncio.Event()

    async def play(self, kind: str) -> None:
        async with self.came:
            self.now[kind] += 1
            self.most[kind] = max(self.most[kind], self.now[kind])
            self.came.notify_all()
        await self.go.wait()
        self.now[kind] -= 1

    async def seen(self, kind: str, count: int = 1) -> None:
        async with self.came:
            await self.came.wait_for(lambda: self.now[kind] >= count)


def played(stage: Stage, name: str, demand: Demand, copies: int = 1) -> Workflow:
    """A workflow of some steps beside one another that demand the same."""
    wf = Workflow(name)
    for number in range(copies):
        wf.node(f"step{number}", demand=demand)(task(lambda state: stage.play(name)))
    if copies > 1:
        wf.node("end")(task(lambda state: "done"))
        for number in range(copies):
            wf.edge(f"step{number}", "end")
    return wf


async def waits_of(run: Run) -> list[tuple[str, str]]:
    from holdfast.core.views.status import waiting_for

    return [(wait.kind, wait.reason) for wait in waiting_for(await run.state())]


@bounded
async def test_a_step_starts_only_in_a_process_that_has_its_label(store: str) -> None:
    stage = Stage()
    stage.go.set()
    wf = played(stage, "labelled", Demand(labels=("gpu",)))
    async with opened(store, workflows=[wf]) as plain:
        run = await plain.start(wf)
        await asyncio.wait_for(plain.idle(), 20)  # it is no work of this process
        assert await waits_of(run) == [("worker", "placement")]
        assert await run.status() == "waiting"
        async with opened(store, workflows=[wf], labels=["gpu", "more"]) as able:
            await run.result()
            sessions = {each.event.session for each in await run.events() if isinstance(each.event, StepStarted)}
            assert sessions == {able.runtime.membership.session}


@bounded
async def test_steps_never_take_more_than_there_is(store: str) -> None:
    stage = Stage()
    demands = {
        "cores": Demand(cpu_m=1500),
        "memory": Demand(memory_mb=3000),
        "card": Demand(gpus=1),
        "tagged": Demand(tags=("nvme",)),
    }
    flows = [played(stage, name, demand, copies=5) for name, demand in demands.items()]
    async with opened(store, workflows=flows, resources=FOUR_CORES, slots=100) as engine:
        runs = [await engine.start(wf) for wf in flows]
        for name, most in (("cores", 2), ("memory", 2), ("card", 1), ("tagged", 5)):
            await stage.seen(name, most)
        stage.go.set()
        for run in runs:
            await run.result()
    assert stage.most == {"cores": 2, "memory": 2, "card": 1, "tagged": 5}


@bounded
async def test_placed_steps_take_the_slots_of_their_process(store: str) -> None:
    stage = Stage()
    flows = [played(stage, "plain", Demand(), copies=4), played(stage, "placed", Demand(cpu_m=1), copies=4)]
    async with opened(store, workflows=flows, resources=FOUR_CORES, slots=3) as engine:
        runs = [await engine.start(wf) for wf in flows]
        while stage.now.total() < 3:
            await asyncio.sleep(0.01)
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert stage.now.total() == 3
        stage.go.set()
        for run in runs:
            await run.result()


@bounded
async def test_what_can_never_be_met_waits_and_holds_up_nothing(store: str) -> None:
    stage = Stage()
    stage.go.set()
    huge, small = played(stage, "huge", Demand(cpu_m=4001)), played(stage, "small", Demand(cpu_m=4000))
    async with opened(store, workflows=[huge, small], resources=FOUR_CORES) as engine:
        stuck, run = await engine.start(huge), await engine.start(small)
        await run.result()
        await asyncio.wait_for(engine.idle(), 20)
        assert await waits_of(stuck) == [("worker", "placement")]
        await engine.cancel(stuck.id)
        assert await stuck.status() == "cancelled"


@bounded
async def test_a_process_finds_what_others_have_left_in_line(store: str) -> None:
    stage = Stage()
    stage.go.set()
    wf = played(stage, "left", Demand(cpu_m=1), copies=3)
    async with opened(store, execute=False) as desk:
        runs = [await desk.start(wf) for _ in range(5)]
        async with opened(store, workflows=[wf], resources=FOUR_CORES):
            for run in runs:
                await run.result()


@bounded
async def test_what_a_stopped_process_had_is_placed_with_another(store: str) -> None:
    stage = Stage()
    wf = played(stage, "handed-over", Demand(gpus=1))
    async with opened(store, workflows=[wf], resources=FOUR_CORES) as first:
        run = await first.start(wf)
        await stage.seen("handed-over")
    assert await_status(stage) == 1
    stage.go.set()
    async with opened(store, workflows=[wf], resources=FOUR_CORES) as second:
        await second.run(run.id).result()


def await_status(stage: Stage) -> int:
    return stage.most["handed-over"]


@bounded
async def test_a_step_that_is_tried_again_is_placed_again_and_leaks_nothing(store: str) -> None:
    tries: list[int] = []
    wf = Workflow("again")

    @wf.node("only", demand=Demand(cpu_m=4000))
    @task(retry=3)
    async def only(state: Any) -> str:
        tries.append(1)
        if len(tries) < 3:
            raise TimeoutError("not yet")
        return "done"

    async with opened(store, workflows=[wf], resources=FOUR_CORES) as engine:
        assert await (await engine.start(wf)).result() == "done"
        assert len(tries) == 3
        assert engine.executor.placing.held() == ()
        assert engine.executor.placing.reserved_slots == 0


@bounded
async def test_a_tenant_with_most_of_the_waiting_runs_does_not_slow_the_others(tmp_path: Path) -> None:
    order: list[str] = []
    wf = Workflow("fair")

    @wf.node("only")
    @task
    async def only(state: Any) -> None:
        order.append(state.input["tenant"])

    async with opened(f"sqlite:///{tmp_path / 'fair.db'}", execute=False) as desk:
        for tenant, count in (("big", 80), ("small", 10), ("other", 10)):
            for _ in range(count):
                await desk.start(wf, {"tenant": tenant}, tenant=tenant)
        async with opened(f"sqlite:///{tmp_path / 'fair.db'}", workflows=[wf], slots=1) as engine:
            await engine.idle()
    assert len(order) == 100
    assert max(place for place, tenant in enumerate(order) if tenant != "big") < 40


async def test_resources_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cpu_m is -1"):
        async with Engine.open(tmp_path / "x.db", resources=Resources(cpu_m=-1)):
            pass


@bounded
async def test_placed_steps_and_others_take_turns_where_slots_are_short(tmp_path: Path) -> None:
    order: list[str] = []

    def noting(name: str, demand: Demand) -> Workflow:
        wf = Workflow(name)
        wf.node("only", demand=demand)(task(lambda state: order.append(name)))
        return wf

    flows = [noting("plain", Demand()), noting("placed", Demand(cpu_m=1))]
    store = f"sqlite:///{tmp_path / 'turns.db'}"
    async with opened(store, execute=False) as desk:
        for wf in flows:
            for _ in range(20):
                await desk.start(wf)
        async with opened(store, workflows=flows, resources=FOUR_CORES, slots=1) as engine:
            await engine.idle()
    assert Counter(order) == {"plain": 20, "placed": 20}
    assert "placed" in order[:10]
    assert "plain" in order[:10]


@bounded
@pytest.mark.parametrize("what", ["place", "lend"])
async def test_a_process_that_can_place_nothing_more_says_so_and_ends_its_work(tmp_path: Path, what: str) -> None:
    wf = played(Stage(), "never", Demand(pools={"P": 1}))
    async with opened(f"sqlite:///{tmp_path / 'broken.db'}", workflows=[wf]) as engine:
        await engine.set_pool("P", slots=1)

        def broken(*_: object) -> Any:
            raise ZeroDivisionError("a fault of ours")

        of = engine.executor.placing.scheduler if what == "place" else engine.runtime.store.lending
        setattr(of, what, broken)
        with pytest.raises(ZeroDivisionError):
            await (await engine.start(wf)).result()
        assert isinstance(engine.runtime.membership.broken, ZeroDivisionError)


@bounded
async def test_a_step_whose_start_is_on_its_way_to_the_store_keeps_its_place(store: str) -> None:
    """It is known to have begun only when that is durable; the next of its run is placed beside it meanwhile."""
    wf = played(Stage(), "both", Demand(cpu_m=1000), copies=2)
    async with opened(store, workflows=[wf], resources=FOUR_CORES) as engine:
        game, placing = Game(wf.graph), engine.executor.placing
        ready = [each.step for each in unplaced_of(game.state)]
        assert placing.place_at_once(game.state, 9) == {*ready}
        game.do(cmd.Tick(frozenset()), placed=ready[:1])
        assert [each.step for each in unplaced_of(game.state)] == ready[1:]
        assert placing.place_at_once(game.state, 9) == {*ready}
        placing.committed(game.state)
        assert placing.ready(game.state.run) == {*ready[1:]}
