"""What a process asks for of pools: how much, how often, how long it keeps it, and how much it remembers to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import Demand
from holdfast.compose import open_store
from holdfast.core.capacity.estimates import Use
from holdfast.core.capacity.lending import DeclaredPool
from holdfast.core.values.ids import RunId, StepId
from holdfast.engine.capacity import learning, pool_client
from holdfast.engine.capacity.pool_client import PoolClient
from holdfast.engine.capacity.shares import Need
from holdfast.errors import StoreBusy
from holdfast.platform.machine import MachineClock, RandomIds
from holdfast.ports import Lending, PlacedStep, Store
from holdfast.scheduling.job import Capacity
from holdfast.scheduling.lane_workers import job_of
from holdfast.scheduling.placement import Scheduler

SOON_S = 10.0
BROWSERS = DeclaredPool("BROWSERS", "slots", 8)
HERE = Capacity("here", frozenset({"graph"}), frozenset(), frozenset(), slots=100)


def step(
    pool: str = "BROWSERS", amount: int | None = None, *, number: int = 1, workflow: str = "wf", tenant: str = "default"
) -> PlacedStep:
    demand = Demand(pools={pool: amount})
    return PlacedStep(RunId(f"run{number}"), StepId("node#1"), tenant, workflow, "graph", demand)


class Time(MachineClock):
    """The machine's clock, which a test may set ahead."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


class Asked:
    """Lending that counts what it is asked, and fails as long as it is told to."""

    def __init__(self, lending: Lending) -> None:
        self._lending = lending
        self.estimated: list[str | None] = []
        self.learned: list[Sequence[Use]] = []
        self.fails = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lending, name)

    async def estimates(self, *, workflow: str | None = None, pool: str | None = None) -> Any:
        self.estimated.append(workflow)
        if self.fails:
            raise StoreBusy("Somebody has locked it.")
        return await self._lending.estimates(workflow=workflow, pool=pool)

    async def learn(self, uses: Sequence[Use]) -> None:
        self.learned.append(uses)
        if self.fails:
            raise StoreBusy("Somebody has locked it.")
        await self._lending.learn(uses)


class Place:
    """A desk with a store, a scheduler and the steps that it gave back."""

    def __init__(self, store: Store) -> None:
        self.asked = Asked(store.lending)
        self.store = msgspec.structs.replace(store, lending=self.asked)
        self.time = Time()
        self.scheduler = Scheduler()
        self.session = RandomIds().session()
        self.again: list[PlacedStep] = []
        self.desk = PoolClient(self.store.lending, self.store.sessions, self.time, "lane", lambda: self.session, self.scheduler)
        self.scheduler.join(HERE, self.time.monotonic_s())

    def known(self, each: PlacedStep) -> PlacedStep | None:
        return self.desk.resolve_amounts(each, self.again.append)

    def begin(self, each: PlacedStep) -> None:
        self.scheduler.submit(job_of(each), self.time.monotonic_s())
        self.desk.tell_soon()

    async def lent(self) -> int:
        return sum(share.granted for share in await self.store.lending.pool_shares("BROWSERS"))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    store = await open_store(f"sqlite:///{tmp_path / 'holdfast.db'}")
    try:
        made = Place(store)
        await store.sessions.open(made.session, "lane", [])
        made.desk.start(lambda problem: None)
        yield made
        await made.desk.aclose()
    finally:
        await store.aclose()


async def until(met: Callable[[], Any]) -> None:
    async with asyncio.timeout(SOON_S):
        while not met():
            await asyncio.sleep(0.005)


async def until_lent(place: Place, amount: int) -> None:
    async with asyncio.timeout(SOON_S):
        while await place.lent() != amount:
            await asyncio.sleep(0.01)


async def guessed(place: Place, pool: DeclaredPool, *used: int) -> int | None:
    """What a step gets that does not say how much, after others of its kind have used so much."""
    await place.store.lending.set_pool(pool)
    if used:
        await place.store.lending.learn([Use("wf", "node", pool.name, amount) for amount in used])
    await place.desk.read("wf")
    known = place.known(step(pool.name))
    assert known is not None
    return known.demand.pools[pool.name]


@pytest.mark.parametrize(
    ("pool", "used", "amount"),
    [
        (DeclaredPool("P", "slots", 8), (), 1),
        (DeclaredPool("P", "slots", 8), (5,), 5),
        (DeclaredPool("P", "slots", 8), (100,), 8),
        (DeclaredPool("P", "slots", 8), (0,), 1),
        (DeclaredPool("P", "rate", 100_000, per_s=60, burst=50_000, counts="tokens"), (), 4_000),
        (DeclaredPool("P", "rate", 100_000, per_s=60, burst=50_000, counts="tokens"), (70_000,), 50_000),
        (DeclaredPool("P", "rate", 100_000, per_s=60, burst=100, counts="tokens"), (), 100),
    ],
)
async def test_a_step_without_an_amount_asks_for_at_least_one_and_at_most_its_pool(
    place: Place, pool: DeclaredPool, used: tuple[int, ...], amount: int
) -> None:
    assert await guessed(place, pool, *used) == amount


async def test_of_an_undeclared_pool_a_step_asks_for_one(place: Place) -> None:
    await place.desk.read("wf")
    known = place.known(step("NOWHERE"))
    assert known is not None
    assert known.demand.pools == {"NOWHERE": 1}


async def test_what_the_store_said_is_believed_for_a_few_seconds_for_each_workflow(place: Place) -> None:
    await place.store.lending.set_pool(BROWSERS)
    waiting = [step(number=number, workflow=workflow) for workflow in ("wf", "other") for number in range(20)]
    assert {place.known(each) for each in waiting} == {None}
    await until(lambda: len(place.again) == len(waiting))
    for number in range(50):
        assert place.known(step(number=number)) is not None
    assert sorted(map(str, place.asked.estimated)) == ["other", "wf"]
    place.time.ahead_s += pool_client._KNOWN_S
    assert place.known(step()) is None
    await until(lambda: len(place.asked.estimated) == 3)


async def test_a_step_gets_of_its_tenants_own_pool_where_there_is_one(place: Place) -> None:
    for name in ("BROWSERS", "BROWSERS@a%2Cb", "OTHER@else"):
        await place.store.lending.set_pool(DeclaredPool(name, "slots", 8))
    said = [step(amount=3), step(amount=3, number=2, tenant="a,b"), step("OTHER", 1, number=3)]
    assert {place.known(each) for each in said} == {None}
    await until(lambda: len(place.again) == 3)
    assert [place.known(each).demand.pools for each in said] == [{"BROWSERS": 3}, {"BROWSERS@a%2Cb": 3}, {"OTHER": 1}]


async def test_no_missing_pool_is_reported_before_the_store_was_asked(place: Place) -> None:
    assert place.desk.may_have(step(amount=1), place.time.monotonic_s())


async def test_a_step_that_asks_for_no_pool_asks_no_server(place: Place) -> None:
    said = msgspec.structs.replace(step(), demand=Demand())
    assert place.known(said) is said
    assert place.asked.estimated == []


async def test_while_the_store_cannot_be_asked_no_caller_is_kept_waiting_for_its_answer(place: Place) -> None:
    """Whoever waits is found again in the store; what waits here would be kept without end."""
    place.asked.fails = True
    for number in range(20):
        assert place.known(step(number=number)) is None
    await until(lambda: not place.desk._asking)
    assert (place.again, len(place.asked.estimated)) == ([], 1)
    place.asked.fails = False
    assert place.known(step()) is None
    await until(lambda: place.again)
    assert place.again == [step()]


async def test_what_was_lent_is_kept_for_a_while_and_then_given_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the next job of the same kind, which comes soon or not at all."""
    await place.store.lending.set_pool(BROWSERS)
    place.begin(step(amount=2))
    await until(lambda: place.desk._pools)
    (placed,) = place.scheduler.place(place.time.monotonic_s())
    place.desk.placed()
    place.scheduler.finish(placed.job.key, place.time.monotonic_s())
    place.desk.tell_soon()
    await until(lambda: place.desk._needs["BROWSERS"].used == 0)
    assert await place.lent() == 8
    monkeypatch.setattr(pool_client, "KEEP_S", 0.2)
    place.desk.tell_soon()
    await until_lent(place, 0)
    assert place.desk._needs == {}


async def test_a_share_that_owes_is_kept_until_its_bucket_has_filled_and_no_longer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_client, "KEEP_S", 0.2)
    await place.store.lending.set_pool(DeclaredPool("TOKENS", "rate", 100, per_s=1, burst=10))
    place.begin(step("TOKENS", 10))
    await until(lambda: place.scheduler.place(place.time.monotonic_s()))
    place.desk.placed()
    place.desk.settle((RunId("run1"), StepId("node#1")), {"TOKENS": -40})
    await until(lambda: place.desk._needs.get("TOKENS", Need()).owes)
    assert sum(share.granted for share in await place.store.lending.pool_shares("TOKENS")) == 100
    await until(lambda: not place.desk._needs)


async def test_a_pool_that_is_too_small_is_asked_about_for_as_long_as_a_step_waits(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_client, "KEEP_S", 0.05)
    waits = step(amount=9)
    await place.store.lending.set_pool(BROWSERS)
    place.begin(waits)
    await until(lambda: place.desk._pools and not place.desk._wanted_s.keys() - place.desk._needs.keys())
    assert not place.desk.may_have(waits, 0.0)
    await asyncio.sleep(4 * pool_client.KEEP_S)  # what was wanted a moment ago is no longer wanted for that alone
    assert await place.lent() == 0, "it is of no use here"
    await place.store.lending.set_pool(DeclaredPool("BROWSERS", "slots", 9))
    await until(lambda: place.desk.may_have(waits, 0.0))


async def test_of_what_steps_have_used_the_latest_are_remembered_while_the_store_is_away(place: Place) -> None:
    uses = [Use("wf", "node", "P", number) for number in range(learning._MOST + 500)]
    for each in uses:
        place.desk.learn([each])
    place.asked.fails = True
    await place.desk.aclose()
    (learned,) = place.asked.learned
    assert list(learned) == uses[500:]


async def test_what_steps_have_used_is_written_together_and_before_a_process_stops(place: Place) -> None:
    for amount in (10, 20, 30):
        place.desk.learn([Use("wf", "node", "P", amount)])
    await place.desk.aclose()
    assert len(place.asked.learned) == 1
    (estimate,) = await place.store.lending.estimates(pool="P")
    assert (estimate.amount, estimate.samples) == (30, 3)
