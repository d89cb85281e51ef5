"""Waiting for time and for programs: a timer fires once and not early, a signal is kept, delivered once, in order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Context, OperationFailed, RetryPolicy, RunFailed, Signal, Workflow, flow, task
from holdfast.core.facts import events as ev
from holdfast.core.views.status import status, waiting_for
from holdfast.errors import InvalidInput, KeyReused, NotFound, RunEnded, Unstorable
from holdfast.ports import Append
from tests.engine.history import events_of
from tests.engine.kit import DAY_S, Time, carry_by, die, engine_at, names, opened
from tests.forks import AsyncFork


def one(handler, **options) -> Workflow:
    wf = Workflow("one")
    wf.node("work")(task(**options)(handler))
    return wf


# --- Timers ---------------------------------------------------------------------------------------------------------------


SOON_S = 0.3
"""Less than a sweep's second, and longer than any machine takes for a commit: what is due by then is the sweep's."""


async def test_what_falls_due_soon_waits_for_no_sweep(store: str) -> None:
    tries: list[int] = []

    async def handler(state, ctx):
        await ctx.sleep(SOON_S)
        tries.append(1)
        if len(tries) < 3:
            raise ValueError("again")
        return "done"

    async with opened(store) as engine:
        await engine._sweep.aclose()
        run = await engine.start(one(handler, retry=RetryPolicy(max_attempts=3, initial_s=SOON_S)))
        assert await run.result() == "done"
        assert not engine.executor._reminders


async def test_a_timer_whose_end_cannot_be_stored_holds_no_other_run_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = Time()

    async def handler(state, ctx):
        await ctx.sleep(days=1)
        return "awake"

    async with engine_at(tmp_path, now, workflows=[wf := one(handler)]) as engine:
        poisoned, other = [await engine.start(wf) for _ in range(2)]
        for run in (poisoned, other):
            await run.until(lambda state: status(state) == "waiting")
        carried = engine.runtime.runs.flush.append

        async def append(append: Append, *, patient: bool) -> None:
            if append.run == poisoned.id:
                raise Unstorable("This cannot be stored.")
            await carried(append, patient=patient)

        carry_by(engine, append)
        await engine._sweep.aclose()
        now.forward(days=2)
        await asyncio.gather(engine._sweep.turn(), engine._sweep.turn())  # both get to their end, and meet at the run
        await other.result()
    told = [record.message for record in caplog.records if record.name == "holdfast"]
    assert told == [f"holdfast leaves run {poisoned.id} alone: This cannot be stored."]


async def test_a_timer_of_thirty_days_fires_once_and_not_early_across_restarts(tmp_path: Path) -> None:
    now = Time()
    woken: list[int] = []

    async def handler(state, ctx):
        await ctx.sleep(days=30)
        woken.append(now.ms)
        return "awake"

    wf = one(handler)
    begun_ms = now.ms
    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        run = await engine.start(wf)
        (wait,) = waiting_for(await run.until(lambda state: bool(waiting_for(state))))
        assert (wait.kind, wait.due_at_ms) == ("timer", begun_ms + 30 * DAY_S * 1000)
        await die(engine)
    for days in (1, 14, 14.999):  # 29.999 in all
        now.forward(days=days)
        async with engine_at(tmp_path, now, workflows=[wf]) as engine:
            await engine.run(run.id).until(lambda state: status(state) == "waiting")
            await engine.idle()
    assert woken == []
    now.forward(days=0.002)
    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        again = engine.run(run.id)
        assert await again.result() == "awake"
        assert len(await events_of(again, ev.TimerFired)) == 1
    assert len(woken) == 1
    assert woken[0] >= begun_ms + 30 * DAY_S * 1000


async def test_a_clock_that_is_set_back_neither_fires_a_timer_nor_reorders_the_history(tmp_path: Path) -> None:
    now = Time()

    async def handler(state, ctx):
        await ctx.sleep(hours=1)
        return ctx.now().timestamp()

    wf = one(handler)
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(wf)
        await run.until(lambda state: bool(waiting_for(state)))
    due_ms = now.ms + 3600_000
    now.forward(-DAY_S)
    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        again = engine.run(run.id)
        now.forward(3599)  # the clock says: not even begun
        assert await again.status() == "waiting"
        now.forward(DAY_S + 1)
        assert int(await again.result() * 1000) >= due_ms - 1
        times = [each.at_ms for each in await again.events()]
        assert times == sorted(times)


async def test_two_processes_that_watch_one_timer_fire_it_once(tmp_path: Path) -> None:
    now = Time()
    woken: list[int] = []

    async def handler(state, ctx):
        await ctx.sleep(60)
        woken.append(1)

    wf = one(handler)
    async with engine_at(tmp_path, now, workflows=[wf]) as first, engine_at(tmp_path, now, workflows=[wf]) as second:
        runs = [await first.start(wf) for _ in range(10)]
        for run in runs:
            await run.until(lambda state: bool(waiting_for(state)))
        now.forward(60)
        await asyncio.gather(*(engine.run(run.id).result() for run in runs for engine in (first, second)))
        for run in runs:
            assert (await names(run)).count("TimerFired") == 1
    assert len(woken) == 10


async def test_sleeps_at_the_same_time_end_each_in_its_own(tmp_path: Path) -> None:
    now = Time()
    woken: list[str] = []

    async def nap(ctx, name, minutes):
        await ctx.sleep(minutes=minutes)
        woken.append(name)
        return name

    async def handler(state, ctx):
        return await ctx.gather(nap(ctx, "long", 10), nap(ctx, "short", 1))

    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(one(handler))
        await run.until(lambda state: len(waiting_for(state)) == 2)
        now.forward(60)
        await run.until(lambda state: "short" in woken and status(state) == "waiting")
        assert woken == ["short"]
        now.forward(600)
        assert await run.result() == ["long", "short"]


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf")])
async def test_a_sleep_without_an_end_is_refused(store: str, seconds: float) -> None:
    async def handler(state, ctx):
        await ctx.sleep(seconds)

    async with opened(store) as engine:
        with pytest.raises(RunFailed, match="can sleep for 0 to"):
            await (await engine.start(one(handler))).result()


async def test_a_retry_waits_its_time_across_a_restart_and_no_longer(tmp_path: Path) -> None:
    now = Time()
    tries: list[int] = []

    async def handler(state):
        tries.append(now.ms)
        if len(tries) < 2:
            raise ConnectionResetError
        return len(tries)

    wf = one(handler, retry=RetryPolicy(max_attempts=2, backoff="fixed", initial_s=600, max_s=600, jitter=0))
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(wf)
        (wait,) = waiting_for(await run.until(lambda state: bool(waiting_for(state))))
        assert (wait.kind, wait.reason) == ("retry", "network")
    now.forward(599)
    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        again = engine.run(run.id)
        assert await again.status() == "waiting"
        await engine.runtime.store.watch.changed(0.05)
        assert len(tries) == 1
        now.forward(2)
        assert await again.result() == 2
    assert tries[1] - tries[0] >= 600_000


async def test_a_timer_of_a_paused_run_fires_but_nothing_goes_on_before_it_is_resumed(tmp_path: Path) -> None:
    now = Time()
    woken: list[int] = []

    async def handler(state, ctx):
        await ctx.sleep(60)
        woken.append(1)

    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(one(handler))
        await run.until(lambda state: bool(waiting_for(state)))
        await engine.pause(run.id)
        now.forward(61)
        assert await run.status() == "paused"
        await asyncio.sleep(0.02)
        assert woken == []
        await engine.resume(run.id)
        await run.result()
    assert woken == [1]


# --- Signals ----------------------------------------------------------------------------------------------------------------


async def collect(state, ctx) -> list[Any]:
    return [await ctx.wait_signal("go") for _ in range(state.input["n"])]


async def test_signals_are_kept_until_a_step_asks_and_come_in_the_order_they_were_sent(store: str) -> None:
    begin = asyncio.Event()

    async def handler(state, ctx):
        await begin.wait()
        return await collect(state, ctx)

    async with opened(store) as engine:
        run = await engine.start(one(handler), {"n": 4})
        for number in range(3):
            await engine.signal(run.id, "go", {"number": number})
        await engine.signal(run.id, "something else")
        begin.set()
        await run.until(lambda state: "signal" in [wait.kind for wait in waiting_for(state)])
        await engine.signal(run.id, "go", "the last")
        assert await run.result() == [{"number": 0}, {"number": 1}, {"number": 2}, "the last"]


async def test_a_signal_is_delivered_once_to_the_step_that_waited_longest(store: str) -> None:
    wf = Workflow("waiters")
    wf.node("begin")(task(lambda state: None))
    for name in ("first", "second", "third"):

        @wf.node(name)
        @task
        async def wait(state, ctx):
            return await ctx.wait_signal("go")

        wf.edge("begin" if name == "first" else "begin", name)
    async with opened(store) as engine:
        run = await engine.start(wf)
        state = await run.until(lambda state: len(waiting_for(state)) == 3)
        order = [wait.step for wait in sorted(waiting_for(state), key=lambda wait: (wait.since_ms, wait.step))]
        for number in range(3):
            await engine.signal(run.id, "go", number)
        assert await run.result() == {name.partition("#")[0]: number for number, name in enumerate(order)}
        delivered = await events_of(run, ev.SignalDelivered)
        assert [each.number for each in delivered] == [1, 2, 3]


async def test_a_wait_for_a_signal_that_does_not_come_ends_in_time(tmp_path: Path) -> None:
    now = Time()

    async def handler(state, ctx):
        try:
            await ctx.wait_signal("go", timeout_s=60)
        except OperationFailed as failed:
            error = failed.error.error_class
        return [error, await ctx.wait_signal("go")]

    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(one(handler))
        await run.until(lambda state: bool(waiting_for(state)))
        now.forward(59.9)
        assert await run.status() == "waiting"
        now.forward(0.2)
        await run.until(lambda state: [wait.due_at_ms for wait in waiting_for(state)] == [None])
        await engine.signal(run.id, "go", "late")  # late for the first, in time for the second
        assert await run.result() == ["timeout", "late"]


async def test_a_signal_and_its_time_out_at_the_same_moment_are_one_outcome(tmp_path: Path) -> None:
    now = Time()

    async def handler(state, ctx):
        try:
            return await ctx.wait_signal("go", timeout_s=60)
        except OperationFailed as failed:
            return failed.error.error_class

    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(one(handler))
        await run.until(lambda state: bool(waiting_for(state)))
        now.forward(60)
        with suppress(RunEnded):  # the time-out was first, and the run is over
            await engine.signal(run.id, "go", "in time")
        result = await run.result()
        found = await names(run)
        assert result in ("in time", "timeout")
        assert found.count("SignalDelivered") + found.count("SignalTimedOut") == 1


SENDER = """
import asyncio, sys
from holdfast import Engine
async def main():
    async with Engine.open(sys.argv[1], execute=False) as engine:
        for number in range(3):
            await engine.signal(sys.argv[2], "go", number, by="elsewhere")
asyncio.run(main())
"""


async def test_a_signal_from_another_process_is_taken_up_at_once(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(one(collect), {"n": 3})
        await run.until(lambda state: bool(waiting_for(state)))
        other = await asyncio.create_subprocess_exec(sys.executable, "-c", SENDER, store, run.id, stderr=subprocess.PIPE)
        _, complaints = await other.communicate()
        assert all(b"fsync=off" in line for line in complaints.splitlines()), complaints
        async with asyncio.timeout(60):
            assert await run.result() == [0, 1, 2]


async def test_an_acknowledged_signal_survives_the_death_of_all_processes(store: str) -> None:
    wf = one(collect)
    async with opened(store) as engine:
        run = await engine.start(wf, {"n": 1})
        await run.until(lambda state: bool(waiting_for(state)))
        await die(engine)
        async with opened(store, execute=False) as sender:
            await sender.signal(run.id, "go", "acknowledged")
            await die_quietly(sender)
    async with opened(store, workflows=[wf]) as engine:
        assert await engine.run(run.id).result() == ["acknowledged"]


async def die_quietly(engine) -> None:
    """A process without a session that says nothing more."""
    engine.runtime.runs.flush.append = None


async def test_a_signal_to_a_run_that_has_ended_or_never_was_is_refused(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(one(lambda state: 1))
        await run.result()
        with pytest.raises(RunEnded):
            await engine.signal(run.id, "go")
        with pytest.raises(NotFound):
            await engine.signal("no-run", "go")


async def test_a_run_that_only_receives_tells_its_sender_when_it_is_full(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.core.rules.waits.MAX_SIGNALS_KEPT", 5)

    async def handler(state, ctx):
        await ctx.wait_signal("never")

    async with opened(store) as engine:
        run = await engine.start(one(handler))
        for number in range(5):
            await engine.signal(run.id, "go", number)
        with pytest.raises(InvalidInput, match="already keeps 5 signals"):
            await engine.signal(run.id, "go", 6)


class Payment(BaseModel):
    amount: Decimal


PAID = Signal("paid", Payment)


@flow
async def wait_for_payment(ctx: Context) -> Decimal:
    await ctx.wait_signal("open")
    return (await ctx.wait_signal(PAID)).amount


async def by_a_helper(ctx: Context) -> Payment:
    return await ctx.wait_signal("paid", type=Payment)


@flow
async def wait_in_a_helper(ctx: Context) -> Decimal:
    return (await by_a_helper(ctx)).amount


async def test_a_signal_that_is_sent_again_under_its_key_arrives_once(store: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(wf := one(collect), {"n": 2})
        for _ in range(2):
            await engine.signal(run.id, "go", {"b": 1, "a": "x" * 70_000}, key="k")
        with pytest.raises(KeyReused, match=r"^Use another key"):
            await engine.signal(run.id, "go", {"b": 2}, key="k")
        await die(engine)
    async with opened(store, workflows=[wf]) as engine:
        await engine.signal(run.id, "go", {"a": "x" * 70_000, "b": 1}, key="k")
        await engine.signal(run.id, "go", "other", key="l")
        assert [each if each == "other" else each["b"] for each in await engine.run(run.id).result()] == [1, "other"]
        await engine.signal(run.id, "go", "other", key="l")
        with pytest.raises(RunEnded):
            await engine.signal(run.id, "go", "other")
        assert len(await events_of(engine.run(run.id), ev.SignalReceived)) == 2


@pytest.mark.parametrize("data", [{"amount": [3]}, {}, 3, None])
async def test_data_that_a_signal_does_not_take_is_refused_to_its_sender(store: str, data: Any) -> None:
    async with opened(store, workflows=[wait_for_payment, wait_in_a_helper]) as engine:
        early, late = await engine.start(wait_for_payment), await engine.start(wait_in_a_helper)
        await late.settled()
        with pytest.raises(InvalidInput, match="Send the signal 'paid' with data that fits Payment"):
            await engine.signal(early.id, "paid", data)  # what the flow declares, long before it waits
        with pytest.raises(InvalidInput, match=r"with data that fits what run .* waits for"):
            await engine.signal(late.id, "paid", data)
        async with opened(store, execute=False) as other:
            with pytest.raises(InvalidInput, match=r"with data that fits what run .* waits for"):
                await other.signal(late.id, "paid", data)
            with pytest.raises(InvalidInput, match="Send the signal 'paid' with data that fits Payment"):
                await other.signal(early.id, PAID, data)
        await engine.signal(early.id, PAID, Payment(amount=Decimal("12.50")))
        await engine.signal(early.id, "open")
        await engine.signal(late.id, "paid", {"amount": "12.50"})
        assert await early.result() == await late.result() == Decimal("12.50")
        assert [each.name for each in await events_of(early, ev.SignalReceived)] == ["paid", "open"]


async def test_a_flow_sends_a_run_of_its_tenant_a_signal_and_hears_why_not(store: str) -> None:
    @flow
    async def send(ctx: Context, to: str, amount: Any) -> str:
        try:
            await ctx.signal(to, "paid", {"amount": amount})
        except OperationFailed as refused:
            return refused.message
        return "sent"

    async with opened(store, workflows=[wait_for_payment]) as engine:
        run, other = await engine.start(wait_for_payment), await engine.start(wait_for_payment, tenant="other")

        async def told(to: str, amount: Any) -> str:
            return str(await (await engine.start(send, {"to": to, "amount": amount}, by="ada")).result())

        assert "amount: Input should be a valid decimal" in await told(run.id, "much")
        assert f"There is no run {other.id}" in await told(other.id, 3)
        assert await told(run.id, "3") == "sent"
        await engine.signal(run.id, "open")
        assert await run.result() == 3
        assert "has ended" in await told(run.id, 3)
        received = (await events_of(run, ev.SignalReceived))[0]
        assert (received.by, received.sender is not None) == ("ada", True)


@pytest.mark.parametrize("point", ["intended", "sent"])
async def test_a_signal_of_a_flow_arrives_once_though_its_process_is_killed(store: str, point: str) -> None:
    async with opened(store) as engine:
        run = await engine.start(one(collect), {"n": 1})
        environment = os.environ | {"HOLDFAST_LEASE_S": "3"}
        for words in ((store, run.id, point), (store, run.id)):
            sender = await AsyncFork.start("tests.engine.sender", *words, environment=environment)
            said, _ = await sender.communicate()
            assert (sender.returncode == -signal.SIGKILL) == (len(words) == 3)
        assert said.strip() in (b"told", "told")
        assert [each.name for each in await events_of(run, ev.SignalReceived)] == ["first", "second"]


async def test_a_signal_for_the_loser_of_a_race_is_kept_for_the_next_wait(tmp_path: Path) -> None:
    @flow
    async def race(ctx: Context) -> list[Any]:
        both = [asyncio.create_task(ctx.wait_signal(name)) for name in ("a", "b")]
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for each in both:
            each.cancel()
        await asyncio.wait(both)
        return [*(each.result() for each in done), await ctx.wait_signal("b")]

    time = Time()
    async with engine_at(tmp_path, time, workflows=[race]) as engine:
        run = await engine.start(race)
        await run.until(lambda state: status(state) == "waiting" and "~1.0" in state.steps["flow"].journal)
    async with engine_at(tmp_path, time) as engine:  # it has no code: both come before that goes on
        for name in ("a", "b"):
            await engine.signal(run.id, name, name)
    async with engine_at(tmp_path, time, workflows=[race]) as engine:
        assert await engine.run(run.id).result() == ["a", "b"]
