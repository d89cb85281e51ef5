"""The roll-up of costs: what a night adds up agrees with the histories, and what comes late corrects it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw

from holdfast import Engine
from holdfast.compose import Environment
from holdfast.core.facts import events as ev
from holdfast.core.facts.costs import Cost
from holdfast.models.providers import Providers
from holdfast.platform.machine import MachineClock
from holdfast.testing.model_server import Fault, ModelServer, Rule, Usage
from tests.engine.history import events_of
from tests.engine.kit import Time, bounded, engine_at
from tests.engine.test_money import HAIKU, ONCE, asks

CHEAP = Usage(input_tokens=1, output_tokens=1)


class Ahead(MachineClock):
    """The machine's clock, or so much ahead of it."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


async def everything(engine: Engine) -> list[Cost]:
    return list(await engine.costs("0000-01-01", "9999-12-31"))


@bounded
async def test_sweeping_adds_costs_up_every_few_minutes(tmp_path: Path, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    now, clock = Time(), Ahead()
    around = Environment.of_machine(10, {})._replace(clock=clock)
    async with engine_at(tmp_path, now, model=model, environment=around) as engine:
        first = await engine.start(asks("a", "b"), tenant="acme")
        await first.result()
        await asyncio.sleep(0.5)
        assert await everything(engine) == [], "who runs something and ends has no time for it"
        clock.ahead_s = 61
        while not (found := await everything(engine)):
            await asyncio.sleep(0.05)
        assert [(each.tenant, each.workflow, each.node, each.model, each.calls, each.cost_nanousd) for each in found] == [
            ("acme", "asks", "a", HAIKU, 1, 6_000),
            ("acme", "asks", "b", HAIKU, 1, 6_000),
        ]
        while (progress := await engine.runtime.store.costs.progress()) is None or progress.before is not None:
            await asyncio.sleep(0.05)
        await (await engine.start(asks("a"), tenant="acme")).result()
        clock.ahead_s += 300
        while sum(each.calls for each in await everything(engine)) < 3:
            await asyncio.sleep(0.05)


@bounded
async def test_what_becomes_known_late_corrects_the_day_of_its_hold(
    tmp_path: Path, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(times=1, fault=Fault("cut_before_reply")), Rule(usage=CHEAP, text="."))
    now = Time()
    async with engine_at(tmp_path, now, model=model) as engine:
        run = await engine.start(asks("a", retry=ONCE, continue_on_error=True))
        await run.result()
        (doubted,) = await events_of(run, ev.ModelCallInDoubt)
        day = (await engine.budgets("default"))["day"].scope.rpartition("/")[2]
        await engine.roll_up_costs()
        assert await everything(engine) == []
        now.forward(days=3)
        await engine.reconcile(doubted.call, "0.000005")
        for _ in range(2):
            await engine.roll_up_costs()
            (cost,) = await everything(engine)
            assert (cost.day, cost.calls, cost.cost_nanousd) == (day, 1, 5_000)


@bounded
async def test_many_runs_are_added_up_in_steps(tmp_path: Path, server: ModelServer, model: Providers) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    async with engine_at(tmp_path, Time(), model=model) as engine:
        runs = [await engine.start(asks("a")) for _ in range(45)]
        for run in runs:
            await run.result()
        await asyncio.gather(engine.roll_up_costs(), engine.roll_up_costs())
        (cost,) = await everything(engine)
        assert (cost.calls, cost.cost_nanousd) == (45, 45 * 6_000)


@bounded
async def test_what_an_earlier_version_counted_by_day_stays_in_every_sum(
    tmp_path: Path, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(usage=CHEAP, text="."))
    async with engine_at(tmp_path, Time(), model=model) as engine:
        await (await engine.start(asks("a", "b"), tenant="acme", team="search")).result()
        await engine.roll_up_costs()
        days = ("0000-01-01", "9999-12-31")
        (by_hour,) = await engine.runtime.store.costs.sums(["hour", "team"], *days)
        assert (by_hour.hour[10], by_hour.team, by_hour.cost_nanousd) == ("T", "search", 12_000)
        (database,) = tmp_path.glob("*.db")
        with apsw.Connection(str(database)) as db:  # as a store of 0.1.0 has been brought up to date
            db.execute("delete from costs_by_hour where node = 'a'")
        found = await engine.runtime.store.costs.sums(["hour", "team"], *days)
        assert [(each.hour, each.team, each.calls, each.cost_nanousd) for each in found] == [
            ("", "", 1, 6_000),
            (by_hour.hour, "search", 1, 6_000),
        ]
        (total,) = await engine.runtime.store.costs.sums([], *days)
        assert total.cost_nanousd == 12_000
