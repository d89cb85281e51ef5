"""The invariants about money, time, waiting, old histories and secrets: each has a test that bears its number.

Never here: a promise that has no number (see docs/maintainers/promises.md for what users may rely on).
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
from pathlib import Path

import pytest

from holdfast import OperationFailed, RetryPolicy, Workflow, human_gate, task, tool
from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.values.ids import RunId
from holdfast.core.values.money import usd
from holdfast.core.values.payload import NULL
from holdfast.core.views.status import status, waiting_for
from holdfast.errors import AlreadyClosed, Conflict, CorruptHistory
from holdfast.models.providers import Providers
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.model_server import Fault, ModelServer, Rule, Usage
from tests.engine import spender
from tests.engine.history import assert_never_above, books, events_of
from tests.engine.kit import DAY_S, Time, bounded, die, divergence, engine_at, eventually, gate_of, opened
from tests.engine.test_money import asks, at_the_same_time, hold_of_one, only_run, spend
from tests.engine.test_secrets import CANARIES, assert_nowhere

FIFTY = tuple(f"b{n}" for n in range(50))
ROOM = 7
AT_ONCE = RetryPolicy(max_attempts=3, initial_s=0, jitter=0)


# --- Money ------------------------------------------------------------------------------------------------------------


@bounded
async def test_invariant_11_fifty_branches_never_pass_a_limit_that_seven_fit_into(
    store: str, server: ModelServer, model: Providers
) -> None:
    # A reply costs next to nothing beside its worst case, so that what comes back lets the next ones in.
    server.script.add(Rule(usage=Usage(input_tokens=1, output_tokens=1), latency_s=0.05, text="."))
    async with opened(store, model=model) as engine:
        hold = await hold_of_one(engine)
        limit = ROOM * hold + 50 * 10_000
        assert limit < (ROOM + 1) * hold
        run = await engine.start(asks(*FIFTY, in_a_row=False), cost_limit_usd=usd(limit))
        assert await run.result() == ["."] * 50
        await assert_never_above(run, limit)
        assert max(round(each.held_nanousd / hold) for each in await books(run)) == ROOM
        assert at_the_same_time(server) <= ROOM
        assert len(server.calls) == 51
        held = await events_of(run, ev.ModelCallHeld)
        assert sorted(call.step for call in held) == sorted(f"{name}#1" for name in FIFTY)
        last = (await books(run))[-1]
        assert (last.settled_nanousd, last.held_nanousd, last.in_doubt_nanousd) == (50 * 6_000, 0, 0)


async def test_invariant_12_a_crash_between_hold_and_settlement_frees_no_budget(
    store: str, server: ModelServer, model: Providers
) -> None:
    server.script.add(Rule(times=1, fault=Fault("hang")), Rule(text="."))
    await asyncio.to_thread(lambda: spend(store, server, "tight", until_calls=1))
    async with opened(store, workflows=[spender.tight()], model=model) as engine:
        run = await only_run(engine)
        assert status(await run.settled()) == "budget_blocked"
        (held,) = await events_of(run, ev.ModelCallHeld)
        row = await engine.find(run.id)
        assert (row.settled_nanousd, row.held_nanousd, row.in_doubt_nanousd) == (0, 0, held.hold_nanousd)
        committed = [each.committed_nanousd for each in await books(run)]
        assert committed == sorted(committed), "what was held once is never free again"
        assert len(server.calls) == 1
        (doubted,) = await events_of(run, ev.ModelCallInDoubt)
        await engine.reconcile(doubted.call, "0")  # only a person's word gives it back
        assert await run.result() == "."
        await assert_never_above(run, row.limit_nanousd or 0)


async def test_invariant_13_a_hold_settles_at_most_once(store: str, server: ModelServer, model: Providers) -> None:
    """Twenty settlements of a call that had been in doubt, from two processes, at the same moment: one counts."""
    server.script.add(Rule(times=1, fault=Fault("cut_in_body")), Rule(text="."))
    async with opened(store, model=model) as one, opened(store, execute=False) as two:
        run = await one.start(asks("a", retry=AT_ONCE))
        assert await run.result() == "."
        doubted, settled = await events_of(run, ev.ModelCallHeld)
        before = (await one.find(run.id)).settled_nanousd
        for call, winners in ((doubted.call, 1), (settled.call, 0)):
            late = [cmd.SettleModelCall(call, 1_000 + n, 1, 0, NULL) for n in range(20)]
            sent = [engine.runtime.runs.send(RunId(run.id), each) for each, engine in zip(late, [one, two] * 10, strict=True)]
            told = await asyncio.gather(*sent, return_exceptions=True)
            lost = [each for each in told if isinstance(each, BaseException)]
            assert all(isinstance(problem, AlreadyClosed) for problem in lost)
            assert len(told) - len(lost) == winners
        settlements = [each for each in await events_of(run, ev.ModelCallSettled) if each.call == doubted.call]
        (only,) = settlements
        row = await one.find(run.id)
        assert (row.settled_nanousd, row.held_nanousd, row.in_doubt_nanousd) == (before + only.cost_nanousd, 0, 0)


# --- Time -------------------------------------------------------------------------------------------------------------


async def test_invariant_16_a_timer_of_thirty_days_fires_once_and_never_early(tmp_path: Path) -> None:
    now, woken = Time(), []
    wf = Workflow("sleeper")

    @wf.node("work")
    @task
    async def work(state, ctx):
        await ctx.sleep(days=30)
        woken.append(now.ms)
        return "awake"

    begun_ms = now.ms
    async with engine_at(tmp_path, now, workflows=[wf]) as engine:
        run = await engine.start(wf)
        await run.until(lambda state: status(state) == "waiting")
        await die(engine)
    for days in (1, -5, 20, -10, 23.999):  # 29.999 in all, with the clock set back in between
        now.forward(days=days)
        async with engine_at(tmp_path, now, workflows=[wf]) as engine:
            await engine.run(run.id).until(lambda state: status(state) == "waiting")
            await engine.idle()
            assert woken == []
    now.forward(days=0.002)
    async with engine_at(tmp_path, now, workflows=[wf]) as one, engine_at(tmp_path, now, workflows=[wf]) as two:
        assert await one.run(run.id).result() == "awake"
        now.forward(days=60)
        await two.idle()
        assert len(await events_of(two.run(run.id), ev.TimerFired)) == 1
        times = [each.at_ms for each in await one.run(run.id).events()]
        assert times == sorted(times)
    assert len(woken) == 1
    assert woken[0] >= begun_ms + 30 * DAY_S * 1000


async def test_invariant_17_a_wait_holds_no_worker_task_lock_connection_or_pool(store: str) -> None:
    wf, quick = Workflow("waits"), Workflow("quick")

    @wf.node("work")
    @task
    async def work(state, ctx):
        return await ctx.gather(ctx.wait_signal("a"), ctx.sleep(days=3), ctx.ask("?"))

    wf.node("approval")(human_gate(lambda state: {"text": "?"}))
    quick.node("work")(task(lambda state: "done"))
    descriptors = Path("/proc/self/fd")
    async with opened(store, slots=1, workflows=[wf]) as engine:
        first = await engine.start(quick)
        assert await first.result() == "done"
        await eventually(lambda: not (engine.runtime.runs.resident or engine.executor.working))
        tasks, threads, files = len(asyncio.all_tasks()), threading.active_count(), len(list(descriptors.iterdir()))
        runs = [await engine.start(wf) for _ in range(30)]
        for run in runs:
            await run.until(lambda state: len(waiting_for(state)) == 4)
        await eventually(lambda: not (engine.runtime.runs.resident or engine.executor.working))
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
        assert threading.active_count() <= threads
        # A store may still make a connection that its process was to have anyway; none of them is a run's.
        assert len(list(descriptors.iterdir())) < files + len(runs) // 3
        assert await (await engine.start(quick)).result() == "done", "the only slot is free"
        async with opened(store, execute=False) as other:  # and so is the write lock
            await other.signal(runs[0].id, "a")
        while {row.status for row in await engine.runs(workflow="waits")} != {"waiting"}:
            await asyncio.sleep(0.005)  # the one that got its signal is on its way to the next wait


# --- Old histories and changed code -----------------------------------------------------------------------------------


async def test_invariant_24_changed_code_asks_or_behaves_correctly_on_an_old_history(tmp_path: Path) -> None:
    done: list[str] = []

    def version(number: int, *, says: str = "hello", more: bool = False) -> Workflow:
        wf = Workflow("letter", version=number)

        @tool(effect="once")
        async def send(text: str) -> str:
            done.append(text)
            return text

        @wf.node("work")
        @task(tools=[send])
        async def work(state, ctx):
            await ctx.tool("send", text=says)
            await ctx.wait_signal("go")
            return says

        if more:
            wf.node("more")(task(lambda state: "more"))
            wf.edge("work", "more")
        return wf

    store = f"sqlite:///{tmp_path / 'holdfast.db'}"
    async with opened(store) as engine:
        runs = [await engine.start(version(1)) for _ in range(4)]
        for run in runs:
            await run.until(lambda state: status(state) == "waiting")
            await engine.signal(run.id, "go")
            break
        assert await runs[0].result() == "hello"
    told, alone, moved, torn = runs[1], runs[2], runs[3], runs[0]
    async with opened(store, workflows=[version(1, says="other text")]) as engine:  # the same graph, other code inside
        await engine.signal(told.id, "go")
        assert (await divergence(engine.run(told.id)))["code"]["arguments"] == '{"text":"other text"}'
    async with opened(store, workflows=[version(1)]) as engine:  # the old code is back
        await engine.decide((await divergence(engine.run(told.id)))["gate"], "retry")
        assert await engine.run(told.id).result() == "hello"
    newer = version(2, more=True)
    async with opened(store, workflows=[newer]) as engine:  # another graph: left alone, until a person moves it
        before = await engine.run(alone.id).events()
        with pytest.raises(Conflict):
            await engine.runtime.runs.send(RunId(alone.id), cmd.Tick(), newer.graph)
        assert await engine.run(alone.id).events() == before
        await engine.migrate(moved.id, newer, by="ann")
        await engine.signal(moved.id, "go")
        assert await engine.run(moved.id).result() == "more"
    assert done == ["hello"] * 4
    plain = await SqliteStore.connect(tmp_path / "holdfast.db")
    await plain.context.writer.write(
        lambda db: db.execute("update events set payload = ? where run = ? and seq = 2", (b'{"type":"FromTheFuture"}', torn.id))
    )
    await plain.aclose()
    async with opened(store) as engine:
        with pytest.raises(CorruptHistory, match="not one that this version"):
            await engine.run(torn.id).events()
        assert (await engine.run(moved.id).state()).ended == "completed", "and hurts nobody else"


# --- Secrets ----------------------------------------------------------------------------------------------------------


async def test_invariant_28_planted_canaries_appear_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, server: ModelServer, model: Providers
) -> None:
    caplog.set_level(logging.DEBUG, logger="holdfast")
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)
    wf = Workflow("leaky")

    @tool(effect="once")
    async def leak(text: str, ctx) -> str:
        logging.getLogger("holdfast").warning("sending %s", ctx.secret("PLAIN"))
        if text == "fail":
            raise ValueError(" ".join(ctx.secret(name) for name in CANARIES))
        return json.dumps([ctx.secret(name) for name in CANARIES])

    @wf.node("work")
    @task(tools=[leak])
    async def work(state, ctx):
        every = " ".join(ctx.secret(name) for name in CANARIES)
        answer = await ctx.ask({"text": every})
        said = await ctx.tool("leak", text=every)
        try:
            await ctx.tool("leak", text="fail")
        except OperationFailed as failed:
            said += failed.message
        spoken = await ctx.model("claude-haiku-4-5", every, max_tokens=50)
        return {"said": said, "spoken": spoken, "answer": answer.data, "large": every * 2_000}

    server.script.add(Rule(text=" ".join(CANARIES.values())))
    folder = tmp_path / "store"
    folder.mkdir()
    async with opened(f"sqlite:///{folder / 'holdfast.db'}", model=model) as engine:
        run = await engine.start(wf)  # what is secret is known once somebody has asked for it
        await engine.decide(await gate_of(run), "answer", {"text": CANARIES["URL"]}, by=CANARIES["FOREIGN"])
        output = await run.result()
        assert "[secret]" in output["said"]
        shown = [json.dumps(output), repr(await run.events()), repr(await run.state())]
    assert_nowhere(folder, (folder / "holdfast.db").read_bytes(), *shown, caplog.text)


# --- Which there are --------------------------------------------------------------------------------------------------

NUMBERED = {*range(1, 19), 21, 24, 25, *range(28, 33)}


def test_every_invariant_that_holds_today_has_its_test() -> None:
    """The numbers are those of the list of what must always hold."""
    texts = [file.read_text() for file in Path(__file__).parent.glob("test_*.py")]
    found = {int(number) for text in texts for number in re.findall(r"def test_invariant_(\d\d)_", text)}
    assert found == NUMBERED
