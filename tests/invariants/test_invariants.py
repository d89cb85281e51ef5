"""The invariants about histories, attempts, effects and people: each has a test that bears its number.

Never here: a promise that has no number (see docs/maintainers/promises.md for what users may rely on).
"""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, RetryPolicy, RunFailed, Workflow, flow, step, task, tool, tool_node
from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.rules.readiness import stuck
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import GateId, RunId
from holdfast.core.values.ids import Path as Place
from holdfast.core.values.payload import NULL, digest, inline
from holdfast.core.views.status import status
from holdfast.errors import AlreadyClosed, AlreadyDecided, KeyReused, RunEnded, SeqConflict, StaleAttempt
from holdfast.ports import EventsCommitted, Observation
from holdfast.stores.sqlite import SqliteStore
from tests.core.game import error
from tests.engine import worker
from tests.engine.early import strand
from tests.engine.history import events_of
from tests.engine.kit import bounded, die, divergence, eventually, gate_of, lose_lease, opened
from tests.engine.test_kill_and_resume import victim, world
from tests.engine.test_two_processes import LEASE_S, Start, count, happened, seen, stop, stopped, told
from tests.engine.victim import make as pays
from tests.forks import AsyncFork
from tests.invariants import desk as asking
from tests.stores.story import Story
from tests.stores.test_properties_rows import check

AT_ONCE = RetryPolicy(max_attempts=3, initial_s=0, jitter=0)

# --- Histories --------------------------------------------------------------------------------------------------------


async def say(path: Path, *words: str) -> str:
    """What a process of its own said to the store before it was killed: nobody is left who remembers it."""
    process = await AsyncFork.start("tests.invariants.desk", path, *words)
    said, _ = await process.communicate()
    assert process.returncode == -signal.SIGKILL
    return said.decode().strip()


@bounded
async def test_invariant_01_an_acknowledged_start_decision_or_signal_survives_kill_9(path: Path) -> None:
    id_ = await say(path, "start")
    async with opened(str(path), workflows=[asking.workflow()]) as engine:
        gate = await gate_of(engine.run(id_))
        await die(engine)
    await say(path, "decide", gate)
    await say(path, "signal", id_)
    async with opened(str(path), workflows=[asking.workflow()]) as engine:
        assert await engine.run(id_).result() == ["approve", {"n": 7}]
        assert (await engine.start(asking.workflow(), key="the-run")).id == id_


@bounded
async def test_invariant_02_a_seq_has_no_gap_and_no_twin_and_history_only_grows(path: Path) -> None:
    """Two engines and many senders at one run; whoever reads sees a longer history, never another one."""
    wf = Workflow("busy")

    @wf.node("work")
    @task
    async def work(state, ctx):
        return [await ctx.wait_signal("go") for _ in range(40)]

    readings: list[list[Any]] = []
    async with opened(str(path), workflows=[wf]) as one, opened(str(path), workflows=[wf]) as two:
        run = await one.start(wf)

        async def send(engine: Engine, first: int) -> None:
            for n in range(first, first + 20):
                await engine.signal(run.id, "go", n)
                readings.append(list(await engine.run(run.id).events()))

        await asyncio.gather(send(one, 0), send(two, 20))
        assert sorted(await run.result()) == list(range(40))
        readings.append(list(await run.events()))
    for before, after in zip(sorted(readings, key=len), sorted(readings, key=len)[1:], strict=False):
        assert after[: len(before)] == before
    db = sqlite3.connect(path)
    (row,) = db.execute("select count(*), count(distinct seq), min(seq), max(seq) from events").fetchall()
    db.close()
    assert row == (len(readings[-1]), len(readings[-1]), 1, len(readings[-1]))


@bounded
async def test_invariant_03_rows_equal_the_folded_state_after_any_crash(path: Path, desk: Engine, start: Start) -> None:
    runs = [await desk.start(worker.WORKFLOWS["chain"], {"n": n}) for n in range(25)]
    runs += [await desk.start(worker.WORKFLOWS["pay-idempotent"], {"n": n}) for n in range(10)]
    store = desk.runtime.store
    assert isinstance(store, SqliteStore)
    for lines in (3, 20, 35):
        process = await start()
        while len(happened(path)) < lines:
            await asyncio.sleep(0.001)
        process.kill()
        await process.wait()
        for run in runs:
            await check(store, RunId(run.id))
    assert len(happened(path)) >= 35
    last = await start()
    for run in runs:
        await run.settled()  # ended, or with a question about a call that was under way at a kill
    last.kill()
    await last.wait()
    for run in runs:
        await check(store, RunId(run.id))


# --- Attempts ---------------------------------------------------------------------------------------------------------


@bounded
async def test_invariant_05_a_stale_attempt_adds_no_result_or_intent_and_one_outcome(store: str) -> None:
    wf = Workflow("slow")
    asked: list[str] = []
    answer, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="idempotent")
    async def note(key: str) -> str:
        asked.append(key)
        if len(asked) == 1:
            await answer.wait()
            return "first"
        return "second"

    @wf.node("work")
    @task(tools=[note])
    async def work(state, ctx):
        said = await ctx.tool("note")
        await go_on.wait()
        return said

    async with opened(store) as first, opened(store, workflows=[wf]) as second:
        run = await first.start(wf)
        await eventually(lambda: asked)
        await lose_lease(first)
        again = second.run(run.id)
        await again.until(lambda state: any(step.attempt == 2 for step in state.steps.values()))
        await eventually(lambda: len(asked) == 2)
        before = await events_of(again, ev.StepCompleted, ev.EffectIntended)
        stale = (ev.StepId("work#1"), 1)
        for late in (
            cmd.CompleteStep(*stale, inline("first")),
            cmd.IntendEffect(*stale, Place("1"), "note", "idempotent", "args", NULL),
            cmd.HoldModelCall(*stale, Place("1"), "m", "args", (cmd.CallCandidate("m", 0, 0),)),
            cmd.FailAttempt(*stale, error(), None),
        ):
            with pytest.raises(StaleAttempt):
                await second.runtime.runs.send(RunId(run.id), late)
        go_on.set()
        assert await again.result() == "second"
        answer.set()  # the first sender answers after the run has ended
        while not await events_of(again, ev.OutcomeOrphaned):
            await asyncio.sleep(0.002)
        call = before[0].call  # type: ignore[union-attr]
        with pytest.raises(AlreadyClosed):
            await second.runtime.runs.send(RunId(run.id), cmd.CompleteEffect(call, inline("first")))
        assert [orphan.response.value() for orphan in await events_of(again, ev.OutcomeOrphaned)] == ["first"]
        assert await again.result() == "second"
    assert len(set(asked)) == 1


@bounded
async def test_invariant_06_a_superseded_writer_gets_an_error(path: Path, desk: Engine, start: Start) -> None:
    """A process that slept past its lease hears of it; so does whoever appends where somebody else has been."""
    frozen = await start(LEASE_S, worker.FREEZE_IN_STEP)
    run = await desk.start(worker.WORKFLOWS["slow"])
    await stopped(frozen)
    await start()
    path.with_name("go").touch()
    assert await run.result() == "noted"
    ended = await run.events()
    frozen.send_signal(signal.SIGCONT)
    await told(frozen)
    await stop(frozen)
    assert await run.events() == ended
    assert count(path, "noted") == 1

    one, two = desk.runtime.store, await SqliteStore.connect(path)
    story = Story()
    assert list(await one.log.append([story.start()])) == [None]
    mine = story.does(cmd.SendSignal("mine"))
    theirs = Story.happens(story, mine.expected, [ev.SignalReceived("theirs", 1, NULL)])
    assert list(await two.log.append([mine])) == [None]
    (fate,) = await one.log.append([theirs])
    assert isinstance(fate, SeqConflict)
    assert [each.event for each in await one.log.events(story.run, mine.expected)] == [each.event for each in mine.events]
    await two.aclose()


@bounded
async def test_invariant_07_the_attempt_of_a_step_strictly_increases(store: str) -> None:
    """Through deaths, failures, waits and hand-overs; every attempt says so with a number that was never used."""
    wf = Workflow("often")
    begun: list[int] = []

    @wf.node("work")
    @task(retry=AT_ONCE)
    async def work(state, ctx):
        begun.append(len(begun))
        if len(begun) <= 3:
            await asyncio.Event().wait()
        if len(begun) == 4:
            raise TimeoutError
        await ctx.sleep(0.001)
        return "done"

    id_ = None
    for deaths in range(3):
        async with opened(store, workflows=[wf]) as engine:
            run = engine.run(id_) if id_ is not None else await engine.start(wf)
            id_ = run.id
            await eventually(lambda deaths=deaths: len(begun) == deaths + 1)
            await die(engine)
    async with opened(store, workflows=[wf]) as engine:
        run = engine.run(id_ or "")
        assert await run.result() == "done"
        attempts = [each.attempt for each in await events_of(run, ev.StepStarted)]
        assert len(attempts) >= 6
        assert attempts == list(range(1, len(attempts) + 1))
        assert len(await events_of(run, ev.AttemptLost)) == 3


# --- Effects ----------------------------------------------------------------------------------------------------------


def paid(journal: Path) -> Counter[str]:
    """How often the world was asked to pay, by key."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    return Counter(line["key"] for line in lines if line["what"] == "paid")


@pytest.mark.parametrize("effect", ["once", "idempotent"])
def test_invariant_08_no_call_begins_from_a_state_that_shows_its_completion(store: str, tmp_path: Path, effect: str) -> None:
    """Killed after the outcome was recorded: nothing is called again. Killed before: called again under its key."""
    journal = tmp_path / "world.jsonl"
    assert victim(store, journal, f"pay-{effect}", "in the next step") is None
    after = victim(store, journal, f"pay-{effect}")
    assert after is not None
    assert (after["status"], list(paid(journal).values())) == ("completed", [1])
    assert world(journal).count("before") == 1
    if effect == "idempotent":
        other = tmp_path / "other.jsonl"
        assert victim(f"{store}_2", other, f"pay-{effect}", "between send and outcome") is None
        assert victim(f"{store}_2", other, f"pay-{effect}") is not None
        assert list(paid(other).values()) == [2]


@pytest.mark.parametrize("effect", ["read", "idempotent", "verify", "once"])
async def test_invariant_09_each_effect_in_doubt_is_settled_by_its_policy_or_a_person(
    store: str, tmp_path: Path, effect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "world.jsonl"
    monkeypatch.setattr("tests.engine.victim.journal", journal)
    assert await asyncio.to_thread(victim, store, journal, f"pay-{effect}", "between send and outcome") is None
    after = await asyncio.to_thread(victim, store, journal, f"pay-{effect}")
    assert after is not None
    sent = {"read": 2, "idempotent": 2, "verify": 1, "once": 1}[effect]
    assert sum(paid(journal).values()) == sent
    async with opened(store, workflows=[pays(effect)], execute=effect == "once") as engine:
        run = engine.run(after["run"])
        if effect == "once":
            assert after["status"] == "requires_attention"
            (call,) = (await run.state()).calls
            await engine.resolve_effect(call, "answer", {"paid": 5}, by="ann")
        assert await run.result() == 5
        final = [change.state for _, change in await engine.effects(run.id) if change is not None]
        assert final[-1] == "completed"
        assert set(final[:-1]) <= {"repeated"}
    assert sum(paid(journal).values()) == sent, "never silently again"


async def test_invariant_10_the_same_key_with_another_request_is_an_error(store: str) -> None:
    wf = Workflow("keys")
    done: list[int] = []

    @tool(effect="once")
    async def pay(amount: int) -> int:
        done.append(amount)
        return amount

    for name, amount in (("one", 1), ("same", 1), ("other", 2)):
        wf.node(name)(tool_node(name=pay, key="rent")(lambda state, amount=amount: {"amount": amount}))
    wf.edge("one", "same")
    wf.edge("same", "other")
    async with opened(store) as engine:
        run = await engine.start(wf, {"n": 1}, key="k")
        with pytest.raises(RunFailed, match="used for another request"):
            await run.result()
        assert done == [1]
        with pytest.raises(KeyReused):
            await engine.start(wf, {"n": 2}, key="k")
        assert (await engine.start(wf, {"n": 1}, key="k")).id == run.id
        assert len(await engine.runs()) == 1


# --- People -----------------------------------------------------------------------------------------------------------


@bounded
async def test_invariant_14_each_gate_is_decided_once_and_the_losers_learn_who_won(path: Path) -> None:
    wf = asking.workflow()
    async with opened(str(path), workflows=[wf]) as one, opened(str(path), execute=False) as two:
        run = await one.start(wf)
        gate = await gate_of(run)
        decisions = ["approve", "edit", "answer"]
        deciders = [
            engine.decide(gate, decisions[n % 3], {"edited_body": f"{n}"} if n % 3 else None, by=f"person {n}")
            for n, engine in enumerate([one, two] * 6)
        ]
        told_ = await asyncio.gather(*deciders, return_exceptions=True)
        (decided,) = await events_of(run, ev.GateDecided)
        losers = [problem for problem in told_ if problem is not None]
        assert len(losers) == len(deciders) - 1
        assert all(isinstance(problem, AlreadyDecided) for problem in losers)
        assert {(problem.by, problem.decision) for problem in losers} == {(decided.by, decided.decision)}  # type: ignore[union-attr]
        assert told_.index(None) == int((decided.by or "").removeprefix("person "))


@pytest.mark.parametrize("changed", [False, True], ids=["same code", "other arguments after the approval"])
async def test_invariant_15_what_was_approved_is_exactly_what_is_executed(store: str, changed: bool) -> None:
    wf = Workflow("pay")
    amount, done = [5], []

    @tool(effect="once", approval=True)
    async def pay(amount: int) -> int:
        done.append(amount)
        return amount

    @wf.node("pay")
    @task(tools=[pay])
    async def pay_(state, ctx):
        return await ctx.tool("pay", amount=amount[0])

    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf)
        gate = await gate_of(run)
        shown = (await run.state()).gates[GateId(gate)].opened.shown.value()
        assert shown == {"tool": "pay", "arguments": {"amount": 5}}
    async with opened(store, execute=False) as engine:
        await engine.decide(gate, "approve", by="ann")
    amount[0] = 500 if changed else 5
    async with opened(store, workflows=[wf]) as engine:
        run = engine.run(run.id)
        if changed:
            assert (await divergence(run))["code"]["arguments"] == '{"tool":"pay","arguments":{"amount":500}}'
            assert await events_of(run, ev.EffectIntended) == []
        else:
            assert await run.result() == 5
            (intent,) = await events_of(run, ev.EffectIntended)
            assert intent.request.value() == shown["arguments"]
            assert intent.args_hash == digest(["pay", shown["arguments"], None])
    assert done == ([] if changed else [5])


# --- Ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
async def test_invariant_18_terminal_states_absorb(store: str, how: str) -> None:
    wf = Workflow("ends")
    gone, answer = asyncio.Event(), asyncio.Event()

    @wf.node("work")
    @task(timeout_s=30)
    async def work(state, ctx):
        if how == "cancelled":
            gone.set()
            await answer.wait()
        if how == "failed":
            raise ValueError("no")
        return await ctx.ask("sure?") and "yes"

    async with opened(store) as engine:
        run = await engine.start(wf)
        gates = []
        if how == "completed":
            gates = [await gate_of(run)]
            await engine.decide(gates[0], "answer", {"n": 1}, by="ann")
        elif how == "cancelled":
            await gone.wait()
            await engine.cancel(run.id)
        assert (await run.settled()).ended == how
        answer.set()
        events, row = await run.events(), await engine.find(run.id)
        at = (ev.StepId("work#1"), 1)
        late: list[cmd.Command] = [
            cmd.CompleteStep(*at, inline("late")),
            cmd.FailAttempt(*at, error(), None),
            cmd.SuspendStep(*at),
            cmd.IntendEffect(*at, Place("3"), "t", "once", "h", NULL),
            cmd.SendSignal("go", NULL),
            cmd.PauseRun(),
            cmd.ResumeRun(),
            cmd.CancelRun(),
            cmd.RaiseLimit("steps", 5000),
            cmd.JudgeGuards(()),
            *(cmd.DecideGate(GateId(gate), "reject", None, Actor("bob")) for gate in gates),
        ]
        for command in late:
            with pytest.raises((RunEnded, AlreadyDecided)):
                await engine.runtime.runs.send(RunId(run.id), command)
        assert await engine.runtime.runs.send(RunId(run.id), cmd.Tick()) in ([], None)
        assert await run.events() == events
        assert await engine.find(run.id) == row
        assert row.status == how


async def test_invariant_18_but_for_a_failed_run_that_is_retried(store: str) -> None:
    """The one exception: with nothing declared before, what failed is tried again, and nothing that was done is repeated."""
    wf = Workflow("ends once more")
    mended: list[bool] = []
    done: list[str] = []
    asked = asyncio.Event()

    @tool(effect="once")
    async def act(what: str, key: str) -> str:
        done.append(what)
        return what

    wf.node("before")(tool_node(name=act)(lambda state: {"what": "before"}))

    @wf.node("work")
    @task(tools=[act])
    async def work(state, ctx):
        first = await ctx.tool("act", what="work")
        if not mended:
            await asked.wait()  # until `beside` waits
            raise ValueError("not yet")
        return [first, await ctx.tool("act", what="more")]

    @wf.node("beside")
    @task
    async def beside(state, ctx):
        asked.set()
        return (await ctx.ask("sure?")).decision

    wf.edge("before", "work")
    wf.edge("before", "beside")
    async with opened(store, workflows=[wf]) as engine:
        run = await engine.start(wf, key="once", cost_limit_usd="1")
        with pytest.raises(RunFailed):
            await run.result()
        async with opened(store, execute=False) as desk:  # whoever takes it up need not be who runs it
            mended.append(True)
            await desk.retry(run.id, by="ann")
            assert (await desk.find(run.id)).status != "failed"
            waiting = asyncio.create_task(desk.run(run.id).result())
            await engine.decide(await gate_of(run), "approve", by="bob")
            assert await waiting == {"work": ["work", "more"], "beside": "approve"}
        assert (await engine.start(wf, key="once", cost_limit_usd="1")).id == run.id
        (reopened,) = await events_of(run, ev.RunReopened)
        assert (reopened.by, await run.status()) == ("ann", "completed")
        with pytest.raises(RunEnded, match="completed"):
            await engine.retry(run.id)
    assert done == ["before", "work", "more"]


async def test_invariant_21_poison_work_is_parked_and_a_replay_keeps_its_keys(store: str) -> None:
    wf = Workflow("poison", on_exhausted="dead_letter")
    asked: list[str] = []

    @tool(effect="idempotent")
    async def send(key: str) -> str:
        asked.append(key)
        if len(asked) <= 4:
            raise TimeoutError
        return "sent"

    wf.node("send")(tool_node(name=send, retry=RetryPolicy(max_attempts=2, initial_s=0, jitter=0))(lambda state: {}))
    async with opened(store) as engine:
        run = await engine.start(wf)
        for tries in (2, 4):
            state = await run.until(lambda state: status(state) == "requires_attention")
            ((gate, known),) = state.gates.items()
            assert known.opened.reason == "exhausted"
            assert len(asked) == tries
            await engine.decide(gate, "retry", by="ann")
            await run.until(lambda state, gate=gate: gate not in state.gates)
        assert await run.result() == "sent"
    assert len(asked) == 5
    assert len(set(asked)) == 1


@bounded
async def test_invariant_30_progress_resumes_within_a_bound_after_faults_stop(path: Path, desk: Engine, start: Start) -> None:
    """Process after process is killed or frozen in the middle of its work; then one is left alone with all of it."""
    frozen = await start(LEASE_S, worker.FREEZE_IN_STEP)
    slow = await desk.start(worker.WORKFLOWS["slow"])
    await stopped(frozen)
    runs = [await desk.start(worker.WORKFLOWS["pay-idempotent"], {"n": n}) for n in range(20)]
    for _ in range(2):
        process = await start()
        await seen(path, "paid", min(len(runs), count(path, "paid") + 3))
        process.kill()
        await process.wait()
    path.with_name("go").touch()
    await start()
    assert [await run.result() for run in runs] == [5] * len(runs)
    assert await slow.result() == "noted"
    paid_ = Counter(each["key"] for each in happened(path) if each["what"] == "paid")
    assert len(paid_) == len(runs)
    hashes = [wf.graph.hash for wf in worker.WORKFLOWS.values()]
    left = await desk.runtime.store.views.due(2**60, hashes, 100)
    assert list(left) == [], "nothing is left to be looked at"


@bounded
async def test_invariant_32_a_suspended_step_has_something_that_wakes_it(store: str) -> None:
    """After every commit; and a run that an early version left waiting for nothing is found, and goes on."""
    seen: Counter[str] = Counter()

    def look(observation: Observation) -> None:
        if isinstance(observation, EventsCommitted):
            seen.update(type(event).__name__ for event in observation.events)
            assert stuck(observation.state) == [], f"{observation.state.run}: {observation.events}"

    @step
    async def price(number: int) -> int:
        return number

    @flow
    async def child(ctx: Context, number: int) -> int:
        await ctx.sleep(0.01)
        return await price(number)

    async def item(ctx: Context, number: int) -> int:
        await ctx.sleep(0.01)
        return number

    @flow
    async def waits(ctx: Context, count: int) -> list[int]:
        found = await ctx.gather(ctx.child(child, 1), ctx.map(item, [*range(count)], max_parallel=2))
        await ctx.wait_signal("go")
        await ctx.stream("progress").write(found)
        return [found[0], *found[1], await price(7)]

    async with opened(store, execute=False) as desk:
        left = [await desk.start(waits, 3) for _ in range(3)]
        for run in left:
            await strand(desk.runtime.store, run.id)
            assert (await desk.find(run.id)).status == "waiting"
    async with opened(store, workflows=[waits, child], observers=[look]) as engine:
        for id_ in [(await engine.start(waits, 3)).id, *(each.id for each in left)]:
            while b'"signal"' not in (await engine.find(id_)).waiting_for:  # a handle would have a look at the run itself
                await asyncio.sleep(0.005)
            await engine.signal(id_, "go")
            assert await engine.run(id_).result() == [1, 0, 1, 2, 7]
    assert seen["StepSuspended"] > 20
    assert seen["AttemptLost"] == 0
