"""How runs end and are held up: pause, cancel, failure, compensation, dead letters, limits, errors as data."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine, Join, RetryPolicy, Run, RunFailed, Workflow, human_gate, task, tool, tool_node
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import State
from holdfast.core.views.status import status, waiting_for
from holdfast.errors import InvalidDecision, RunEnded
from tests.engine.history import events_of
from tests.engine.kit import Time, call_of, engine_at, eventually, gate_of, names, opened

AT_ONCE = RetryPolicy(max_attempts=3, initial_s=0.001)


def stuck(state: State) -> bool:
    return status(state) == "requires_attention"


# --- Pause ------------------------------------------------------------------------------------------------------------------


async def test_a_pause_acts_at_the_next_operation_and_a_resume_goes_on_from_there(store: str) -> None:
    wf = Workflow("pausable")
    done: list[int] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="once")
    async def step(n: int) -> int:
        done.append(n)
        if n == 2:
            begun.set()
            await go_on.wait()
        return n

    @wf.node("work")
    @task(tools=[step])
    async def work(state, ctx):
        return [await ctx.tool("step", n=n) for n in range(1, 5)]

    wf.node("after")(task(lambda state: done.append(9)))
    wf.edge("work", "after")
    async with opened(store) as engine:
        run = await engine.start(wf)
        await begun.wait()
        await engine.pause(run.id, by="ann")
        go_on.set()  # what has left brings its outcome home
        state = await run.until(lambda state: not state.active)
        assert (status(state), done) == ("paused", [1, 2])
        await asyncio.sleep(0.02)
        assert done == [1, 2]
        assert [change.state for _, change in await engine.effects(run.id)] == ["completed"] * 2
        await engine.resume(run.id, by="ann")
        await run.result()
    assert done == [1, 2, 3, 4, 9]


async def test_a_pause_acts_between_steps_and_outlives_the_process(store: str) -> None:
    wf = Workflow("chain")
    done: list[str] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    @wf.node("first")
    @task
    async def first(state):
        begun.set()
        await go_on.wait()
        done.append("first")

    wf.node("second")(task(lambda state: done.append("second")))
    wf.edge("first", "second")
    async with opened(store) as engine:
        run = await engine.start(wf)
        await begun.wait()
        await engine.pause(run.id)
        go_on.set()
        await run.until(lambda state: not state.active)
    async with opened(store, workflows=[wf]) as engine:
        again = engine.run(run.id)
        await engine.idle()
        assert (await again.status(), done) == ("paused", ["first"])
        assert (await again.settled()).paused
        await engine.resume(run.id)
        await again.result()
    assert done == ["first", "second"]


async def test_a_pause_and_a_resume_that_no_process_noticed_lose_nothing(store: str) -> None:
    wf = Workflow("flapping")
    done: list[int] = []

    @tool(effect="once")
    async def step(n: int) -> int:
        done.append(n)
        await asyncio.sleep(0.001)
        return n

    @wf.node("work")
    @task(tools=[step])
    async def work(state, ctx):
        for n in range(30):
            await ctx.tool("step", n=n)

    async with opened(store) as engine:
        run = await engine.start(wf)
        for _ in range(10):
            await engine.pause(run.id)
            await asyncio.sleep(0.002)
            await engine.resume(run.id)
            await asyncio.sleep(0.002)
        await run.result()
    assert done == list(range(30))


async def test_a_resume_by_a_process_that_has_not_heard_of_the_pause_counts(store: str) -> None:
    wf = Workflow("two desks")
    begun, go_on = asyncio.Event(), asyncio.Event()

    @wf.node("work")
    @task
    async def work(state):
        begun.set()
        await go_on.wait()

    wf.node("after")(task(lambda state: "after"))
    wf.edge("work", "after")
    async with opened(store) as engine, opened(store, execute=False) as desk:
        run = await engine.start(wf)
        await begun.wait()
        for _ in range(5):
            await desk.pause(run.id)
            await engine.resume(run.id)
            assert (await names(run)).count("RunPaused") == (await names(run)).count("RunResumed")
        go_on.set()
        assert await run.result() == "after"


# --- Cancel -----------------------------------------------------------------------------------------------------------------


async def test_a_cancel_acts_at_once_on_a_handler_that_waits_for_nothing_of_ours(store: str) -> None:
    wf = Workflow("deaf")
    begun = asyncio.Event()

    @wf.node("work")
    @task
    async def work(state):
        begun.set()
        await asyncio.Event().wait()

    async with opened(store) as engine:
        run = await engine.start(wf)
        await begun.wait()
        started_s = time.monotonic()
        await engine.cancel(run.id, reason="no longer wanted", by="ann")
        with pytest.raises(RunFailed, match="cancelled: no longer wanted"):
            await run.result()
        assert time.monotonic() - started_s < 5
        (event,) = await events_of(run, ev.RunCancelling)
        assert (event.reason, event.by) == ("no longer wanted", "ann")
        await eventually(lambda: not engine.executor.working)
        with pytest.raises(RunEnded):
            await engine.cancel(run.id)


async def test_a_cancelled_run_begins_no_effect_any_more(store: str) -> None:
    wf = Workflow("no more")
    done: list[int] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    @tool(effect="once")
    async def step(n: int) -> int:
        done.append(n)
        begun.set()
        await go_on.wait()
        return n

    @wf.node("work")
    @task(tools=[step])
    async def work(state, ctx):
        await ctx.gather(*(ctx.tool("step", n=n) for n in range(3)))
        await ctx.tool("step", n=3)

    wf.node("after")(task(lambda state: done.append(9)))
    wf.edge("work", "after")
    async with opened(store) as engine:
        run = await engine.start(wf)
        await eventually(lambda: len(done) == 3)
        await engine.cancel(run.id)
        go_on.set()
        assert (await run.settled()).ended == "cancelled"
        assert [change.state for _, change in await engine.effects(run.id)] == ["completed"] * 3
    assert sorted(done) == [0, 1, 2]


async def test_a_run_that_is_paused_or_waits_can_be_cancelled(store: str) -> None:
    wf = Workflow("waiting")
    wf.node("ask")(human_gate(lambda state: "text"))
    async with opened(store) as engine:
        for paused in (False, True):
            run = await engine.start(wf)
            await gate_of(run)
            if paused:
                await engine.pause(run.id)
            await engine.cancel(run.id)
            assert await run.status() == "cancelled"
            assert waiting_for(await run.state()) == []


async def test_a_caller_that_waits_for_a_run_can_stop_waiting(store: str) -> None:
    wf = Workflow("waiting")
    wf.node("ask")(human_gate(lambda state: "text"))
    async with opened(store) as engine:
        run = await engine.start(wf)
        await gate_of(run)
        for turns in range(3):
            waits = asyncio.create_task(run.result())
            await asyncio.sleep(0.05)
            engine.runtime.runs.notify()  # nearly at the same moment: something may have changed
            for _ in range(turns):
                await asyncio.sleep(0)
            waits.cancel()
            await asyncio.wait([waits], timeout=10)
            assert waits.cancelled()


# --- Compensation -----------------------------------------------------------------------------------------------------------


class Books:
    """What was booked and undone, outside. `breaks` are the undoings that fail, by how often."""

    def __init__(self, **breaks: int) -> None:
        self.lines: list[str] = []
        self.keys: dict[str, set[str]] = {}
        self._breaks = breaks

    def write(self, line: str, key: str) -> None:
        self.lines.append(line)
        self.keys.setdefault(line, set()).add(key)

    def check(self, what: str) -> None:
        if self._breaks.get(what, 0) > 0:
            self._breaks[what] -= 1
            raise ValueError(f"{what} cannot be cancelled now")


def trip(books: Books, *, undo_effect: str = "idempotent", undo_error: type[Exception] | None = None) -> Workflow:
    """Book a flight, a hotel and a car; then fail, or wait for a person. What was booked is undone."""
    wf = Workflow("trip")

    @tool(effect=undo_effect)  # type: ignore[call-overload]
    async def unbook(what: str, response: dict[str, str], key: str) -> str:
        books.write(f"unbook {what} {response['ref']}", key)
        if undo_error is not None:
            raise undo_error
        books.check(what)
        return "undone"

    @tool(effect="once", compensation=unbook)
    async def book(what: str, key: str) -> dict[str, str]:
        books.write(f"book {what}", key)
        if what == "car":
            raise ValueError("no cars left")
        return {"ref": what.upper()}

    @tool(effect="read", compensation=None)
    async def look(what: str) -> str:
        return what

    before: str | None = None
    for what in ("flight", "hotel"):
        wf.node(what)(tool_node(name=book)(lambda state, what=what: {"what": what}))
        if before is not None:
            wf.edge(before, what)
        before = what
    wf.node("look")(tool_node(name=look)(lambda state: {"what": "weather"}))
    wf.node("sure")(human_gate(lambda state: "sure?"))
    wf.node("car")(tool_node(name=book)(lambda state: {"what": "car"}))
    wf.edge("hotel", "look")
    wf.edge("look", "sure")
    wf.edge("sure", "car")
    return wf


BOOKED = ["book flight", "book hotel"]
UNDONE = ["unbook hotel HOTEL", "unbook flight FLIGHT"]


async def fails(engine: Engine, wf: Workflow) -> Run:
    run = await engine.start(wf)
    await engine.decide(await gate_of(run))
    return run


async def test_a_failing_run_undoes_only_effects_that_happened_and_the_latest_first(store: str) -> None:
    books = Books()
    async with opened(store) as engine:
        run = await fails(engine, trip(books))
        with pytest.raises(RunFailed, match="no cars left"):
            await run.result()
        assert books.lines == [*BOOKED, "book car", *UNDONE]
        ledger = [(row.tool, change.state) for row, change in await engine.effects(run.id)]
        assert ledger == [
            ("book", "completed"),
            ("book", "completed"),
            ("look", "completed"),
            ("book", "failed"),
            ("unbook", "completed"),
            ("unbook", "completed"),
        ]
        intents = [each for each in await events_of(run, ev.EffectIntended) if each.compensates is not None]
        assert [each.compensates for each in intents] == [f"{run.id}:hotel#1:0:1", f"{run.id}:flight#1:0:1"]


async def test_a_run_that_is_cancelled_undoes_its_effects_too(store: str) -> None:
    books = Books()
    async with opened(store) as engine:
        run = await engine.start(trip(books))
        await gate_of(run)
        await engine.cancel(run.id)
        assert (await run.settled()).ended == "cancelled"
    assert books.lines == [*BOOKED, *UNDONE]


async def test_a_run_that_completes_undoes_nothing(store: str) -> None:
    books = Books()
    wf = trip(books)
    wf.nodes["car"].continue_on_error = True
    async with opened(store) as engine:
        run = await fails(engine, wf)
        await run.result()
    assert books.lines == [*BOOKED, "book car"]


async def test_an_effect_whose_outcome_came_after_the_cancel_is_undone_as_well(store: str) -> None:
    wf = Workflow("late")
    lines: list[str] = []
    gone, answer = asyncio.Event(), asyncio.Event()

    @tool(effect="idempotent")
    async def undo(n: int) -> None:
        lines.append(f"undo {n}")

    @tool(effect="once", compensation=undo)
    async def do(n: int) -> None:
        lines.append(f"do {n}")
        gone.set()
        await answer.wait()

    wf.node("do")(tool_node(name=do)(lambda state: {"n": 1}))
    async with opened(store) as engine:
        run = await engine.start(wf)
        await gone.wait()
        await engine.cancel(run.id)
        answer.set()
        assert (await run.settled()).ended == "cancelled"
    assert lines == ["do 1", "undo 1"]


async def test_a_failed_compensation_asks_and_its_retry_keeps_the_same_keys(store: str) -> None:
    books = Books(flight=1)
    async with opened(store) as engine:
        run = await fails(engine, trip(books))
        state = await run.until(stuck)
        ((gate, asked),) = state.gates.items()
        assert (asked.opened.reason, asked.opened.allowed) == ("compensation_failed", ("retry", "answer"))
        assert "flight cannot be cancelled now" in asked.opened.shown.value()["message"]
        assert (await engine.find(run.id)).ended_at_ms is None
        await engine.decide(gate, "retry")
        with pytest.raises(RunFailed, match="no cars left"):
            await run.result()
    assert books.lines == [*BOOKED, "book car", *UNDONE, UNDONE[1]]
    assert all(len(keys) == 1 for keys in books.keys.values())


async def test_an_undoing_that_fails_for_good_may_be_done_by_hand(store: str) -> None:
    books = Books(hotel=99)
    async with opened(store) as engine:
        run = await fails(engine, trip(books))
        (gate,) = (await run.until(stuck)).gates
        await engine.decide(gate, "answer", {"by": "telephone"})
        assert (await run.settled()).ended == "failed"


async def test_an_undoing_whose_outcome_is_unknown_is_a_question_as_any_effect(store: str) -> None:
    books = Books()
    async with opened(store) as engine:
        run = await fails(engine, trip(books, undo_effect="once", undo_error=TimeoutError))
        for line in UNDONE:
            state = await run.until(stuck)
            assert [gate.opened.reason for gate in state.gates.values()] == ["effect_unknown"]
            assert books.lines[-1] == line
            await engine.resolve_effect(call_of(state), "answer", "undone")
            await run.until(lambda state, before=state.seq: state.seq > before and (state.ended or state.gates))
        assert (await run.settled()).ended == "failed"
    assert books.lines == [*BOOKED, "book car", *UNDONE]


# --- Dead letters -----------------------------------------------------------------------------------------------------------


def letters(**more: Any) -> tuple[Workflow, list[str]]:
    """A tool that works and one that fails, then a node after them; what fails for good is parked."""
    wf = Workflow("letters", on_exhausted="dead_letter", **more)
    world: list[str] = []

    @tool(effect="once")
    async def good(key: str) -> str:
        world.append(f"good {key}")
        return "good"

    @tool(effect="idempotent")
    async def bad(key: str) -> str:
        world.append(f"bad {key}")
        if world.count(f"bad {key}") <= 2:
            raise ValueError("out of order")
        return "at last"

    @wf.node("work")
    @task(tools=[good, bad])
    async def work(state, ctx):
        return [await ctx.tool("good"), await ctx.tool("bad")]

    wf.node("after")(task(lambda state: state.events["work"].output))
    wf.edge("work", "after")
    return wf, world


async def test_poison_work_is_parked_and_a_replay_keeps_its_outcomes_and_its_keys(store: str) -> None:
    wf, world = letters()
    async with opened(store) as engine:
        run = await engine.start(wf)
        for _ in range(2):
            state = await run.until(stuck)
            ((gate, asked),) = state.gates.items()
            assert (asked.opened.reason, asked.opened.allowed) == ("exhausted", ("retry", "answer", "reject"))
            assert "out of order" in asked.opened.shown.value()["message"]
            assert state.phase == ""
            await engine.decide(gate, "retry")
            await run.until(lambda state, gate=gate: gate not in state.gates)
        assert await run.result() == ["good", "at last"]
    assert [line.partition(" ")[0] for line in world] == ["good", "bad", "bad", "bad"]
    assert len(set(world)) == 2


async def test_poison_work_may_be_answered_by_a_person(store: str) -> None:
    wf, _ = letters()
    async with opened(store) as engine:
        run = await engine.start(wf)
        (gate,) = (await run.until(stuck)).gates
        await engine.decide(gate, "answer", ["by", "hand"])
        assert await run.result() == ["by", "hand"]


async def test_poison_work_may_be_given_up(store: str) -> None:
    wf, _ = letters()
    async with opened(store) as engine:
        run = await engine.start(wf)
        (gate,) = (await run.until(stuck)).gates
        await engine.decide(gate, "reject")
        with pytest.raises(RunFailed, match="out of order") as failed:
            await run.result()
        assert failed.value.error.tool == "bad"


# --- Limits -----------------------------------------------------------------------------------------------------------------


def chain(length: int, done: list[int], **limits: Any) -> Workflow:
    wf = Workflow("chain", **limits)
    for number in range(length):
        wf.node(f"n{number}")(task(lambda state, number=number: done.append(number)))
        if number:
            wf.edge(f"n{number - 1}", f"n{number}")
    return wf


async def test_a_run_at_its_limit_of_steps_stops_keeps_what_it_has_and_asks(store: str) -> None:
    done: list[int] = []
    async with opened(store) as engine:
        run = await engine.start(chain(5, done, max_steps=3))
        state = await run.until(stuck)
        assert done == [0, 1, 2]
        ((gate, asked),) = state.gates.items()
        assert asked.opened.reason == "max_steps"
        with pytest.raises(InvalidDecision):
            await engine.decide(gate, "answer", {"steps": 3})
        await engine.extend(run.id, "steps", 4)
        await run.until(lambda state: stuck(state) and len(done) == 4)
        await engine.decide(await gate_of(run), "answer", {"steps": 100})
        await run.result()
    assert done == [0, 1, 2, 3, 4]


async def test_a_limit_that_is_not_extended_fails_the_run(store: str) -> None:
    done: list[int] = []
    async with opened(store) as engine:
        run = await engine.start(chain(5, done, max_steps=1))
        await engine.decide(await gate_of(run), "reject", reason="enough")
        with pytest.raises(RunFailed, match="enough") as failed:
            await run.result()
        assert failed.value.error.error_class == "limit"
    assert done == [0]


async def test_a_workflow_may_prefer_to_fail_at_a_limit(store: str) -> None:
    done: list[int] = []
    async with opened(store) as engine:
        run = await engine.start(chain(5, done, max_steps=2, on_limit="fail"))
        with pytest.raises(RunFailed, match="2 steps"):
            await run.result()
    assert done == [0, 1]


async def test_active_time_counts_work_and_not_waiting(tmp_path: Path) -> None:
    now = Time()
    wf = Workflow("active", max_active_s=60)
    begun: list[int] = []

    @wf.node("nap")
    @task
    async def nap(state, ctx):
        if not begun:
            begun.append(1)
            now.forward(40)
        await ctx.sleep(days=10)
        now.forward(10)
        return "slept"

    wf.node("work")(task(lambda state: now.forward(20)))
    wf.node("end")(task(lambda state: "done"))
    wf.edge("nap", "work")
    wf.edge("work", "end")
    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(wf)
        await run.until(lambda state: status(state) == "waiting")
        now.forward(days=10)
        state = await run.until(stuck)
        assert [gate.opened.reason for gate in state.gates.values()] == ["max_active"]
        assert state.active_ms == 70_000
        assert state.steps["work"].status == "completed"
        await engine.extend(run.id, "active", 600)
        assert await run.result() == "done"


async def test_a_lifespan_only_summons_attention(tmp_path: Path) -> None:
    now = Time()
    wf = Workflow("old", max_lifespan_s=7 * 86_400)

    @wf.node("wait")
    @task
    async def wait(state, ctx):
        return await ctx.wait_signal("go")

    async with engine_at(tmp_path, now) as engine:
        run = await engine.start(wf)
        await run.until(lambda state: bool(waiting_for(state)))
        now.forward(days=6.9)
        assert await run.status() == "waiting"
        now.forward(days=0.2)
        assert await run.status() == "requires_attention"
        assert [gate.opened.reason for gate in (await run.state()).gates.values()] == ["lifespan"]
        await engine.signal(run.id, "go", "goes on all the same")
        assert await run.result() == "goes on all the same"


# --- Time-outs, losers, threads -----------------------------------------------------------------------------------------------


async def test_an_effect_in_flight_of_a_losing_branch_delays_the_end_of_its_run(store: str) -> None:
    wf = Workflow("race")
    gone, answer = asyncio.Event(), asyncio.Event()

    @tool(effect="once")
    async def slow() -> str:
        gone.set()
        await answer.wait()
        return "slow"

    wf.node("root")(task(lambda state: 0))
    wf.node("slow")(tool_node(name=slow)(lambda state: {}))

    @wf.node("fast")
    @task
    async def fast(state):
        await gone.wait()
        return "fast"

    wf.node("end")(task(join=Join("any"))(lambda state: "end"))
    for name in ("slow", "fast"):
        wf.edge("root", name)
        wf.edge(name, "end")
    async with opened(store) as engine:
        run = await engine.start(wf)
        state = await run.until(lambda state: "end" in state.steps and state.steps["end"].status == "completed")
        assert state.ended == ""
        assert [wait.reason for wait in waiting_for(state)] == ["outcome_outstanding"]
        answer.set()
        assert await run.result() == "end"
        assert [change.state for _, change in await engine.effects(run.id)] == ["completed"]


async def test_an_error_is_data_with_where_what_and_whether_trying_again_may_help(store: str) -> None:
    wf = Workflow("errors")

    @wf.node("bad")
    @task(retry=RetryPolicy(max_attempts=2, initial_s=0.001))
    async def bad(state):
        raise LookupError("no such customer")

    wf.node("denied")(task(_raises(PermissionError("not yours"))))
    wf.node("slow")(task(timeout_s=0.02, retry=RetryPolicy(max_attempts=1))(_forever))
    wf.node("report")(
        task(join="best_effort")(
            lambda state: [[e.node, e.error_class, e.retryable, e.tool, e.at_ms > 0] for e in state.errors]
        )
    )
    for name in ("bad", "denied", "slow"):
        wf.edge(name, "report")
    async with opened(store) as engine:
        found = await (await engine.start(wf)).result()
    assert sorted(found) == [
        ["bad", "error", True, None, True],
        ["bad", "error", True, None, True],
        ["denied", "authorization", False, None, True],
        ["slow", "timeout", True, None, True],
    ]


def _raises(problem: Exception) -> Any:
    async def handler(state):
        raise problem

    return handler


async def _forever(state) -> None:
    await asyncio.Event().wait()
