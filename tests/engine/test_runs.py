"""Runs from start to end in one process: every kind of node that needs no model, and what a start promises."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel

from holdfast import Engine, Join, RunFailed, TransitionDenied, Workflow, branch, check, task
from holdfast.authoring.step import is_immediate
from holdfast.core.facts.events import AttemptLost, StepCompleted, StepStarted, StepSuspended
from holdfast.errors import InvalidInput, InvalidWorkflow, KeyReused
from tests.engine.kit import Time, engine_at, eventually, opened


def chain() -> Workflow:
    wf = Workflow("chain")

    @wf.node("first")
    @task
    async def first(state):
        return {"n": state.input["n"] + 1}

    @wf.node("second")
    @task
    def second(state):
        return {"n": state.events["first"].output.n * 2}

    wf.edge("first", "second")
    return wf


async def test_a_run_returns_the_output_of_its_only_end_node(store: str) -> None:
    async with Engine.open(store) as engine:
        run = await engine.start(chain(), {"n": 20})
        assert await run.result() == {"n": 42}
        assert await run.status() == "completed"


async def test_several_end_nodes_are_a_map_by_node(store: str) -> None:
    wf = Workflow("fan")

    @wf.node("root")
    @task
    async def root(state):
        return 1

    for name in ("left", "right"):
        wf.node(name)(task(lambda state: state.events["root"].output + 1))
        wf.edge("root", name)
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        assert await run.result() == {"left": 2, "right": 2}


async def test_a_fan_out_runs_at_the_same_time_and_joins(store: str) -> None:
    wf = Workflow("parallel")
    meet = asyncio.Barrier(3)

    @wf.node("root")
    @task
    async def root(state):
        return 0

    async def branch_of(state):
        await asyncio.wait_for(meet.wait(), 60)
        return 1

    for name in ("a", "b", "c"):
        wf.node(name)(task(branch_of))
        wf.edge("root", name)
        wf.edge(name, "sum")

    @wf.node("sum")
    @task(join="all_required")
    async def total(state):
        return sum(state.events[name].output for name in ("a", "b", "c"))

    async with Engine.open(store) as engine:
        assert await (await engine.start(wf)).result() == 3


async def test_a_quorum_goes_on_without_the_slowest(store: str) -> None:
    wf = Workflow("quorum")
    never = asyncio.Event()

    @wf.node("root")
    @task
    async def root(state):
        return 0

    wf.node("fast")(task(lambda state: "fast"))

    @wf.node("faster")
    @task
    async def faster(state):
        return "faster"

    @wf.node("slow")
    @task
    async def slow(state):
        await never.wait()

    @wf.node("end")
    @task(join=Join("quorum", 2))
    async def end(state):
        return sorted(name for name in state.events if state.events[name].status == "completed")

    for name in ("fast", "faster", "slow"):
        wf.edge("root", name)
        wf.edge(name, "end")
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        assert await run.result() == ["fast", "faster", "root"]
        assert (await run.state()).steps["slow"].status == "cancelled"


async def test_a_branch_takes_only_what_it_names_and_skipping_spreads(store: str) -> None:
    wf = Workflow("routes")

    @wf.node("route")
    @branch()
    async def route(state):
        return "big" if state.input["n"] > 10 else "small"

    for name in ("big", "small"):
        wf.node(name)(task(lambda state, name=name: name))
    wf.node("after_small")(task(lambda state: "unreachable"))
    wf.node("end")(task(lambda state: [name for name in ("big", "small") if state.events[name].status == "completed"]))
    wf.edge("route", "big")
    wf.edge("route", "small")
    wf.edge("small", "after_small")
    wf.edge("big", "end")
    wf.edge("after_small", "end")
    async with Engine.open(store) as engine:
        run = await engine.start(wf, {"n": 11})
        assert await run.result() == ["big"]
        assert (await run.state()).steps["after_small"].status == "skipped"


async def test_a_branch_that_names_no_way_fails_with_its_ways(store: str) -> None:
    wf = Workflow("lost")
    wf.node("route")(branch(lambda state: "nowhere"))
    wf.node("somewhere")(task(lambda state: 1))
    wf.edge("route", "somewhere")
    async with Engine.open(store) as engine:
        with pytest.raises(RunFailed, match="none of its ways: somewhere") as failed:
            await (await engine.start(wf)).result()
        assert failed.value.error.error_class == "routing"


async def test_a_check_sends_back_until_it_passes_and_later_nodes_see_only_the_last(store: str) -> None:
    wf = Workflow("loop")
    wf.node("work")(task(lambda state: state.visits("work")))
    wf.node("good")(check(lambda state: (state.events["work"].output >= 3, "too small")))
    wf.node("end")(task(lambda state: state.events["work"].output))
    wf.edge("work", "good")
    wf.edge("good", "end")
    wf.loop("good", "work", max_visits=5)
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        assert await run.result() == 3
        assert (await run.state()).visits["work"] == 3


async def test_a_loop_that_is_used_up_fails_the_check(store: str) -> None:
    wf = Workflow("loop")
    wf.node("work")(task(lambda state: 0))
    wf.node("good")(check(lambda state: False))
    wf.edge("work", "good")
    wf.loop("good", "work", max_visits=3)
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert failed.value.error.error_class == "check_failed"
        assert (await run.state()).visits["work"] == 3


async def test_a_guard_that_denies_is_recorded_with_its_reason(store: str) -> None:
    wf = Workflow("guarded")
    wf.node("draft")(task(lambda state: "text"))
    wf.node("publish")(task(lambda state: "published"))
    wf.node("park")(task(lambda state: "parked"))

    @wf.guard("has_evidence")
    def has_evidence(state):
        raise TransitionDenied("cannot publish without evidence")

    wf.edge("draft", "publish", when="has_evidence")
    wf.edge("draft", "park")
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        assert await run.result() == "parked"
        reasons = [r.event.reason for r in await run.events() if type(r.event).__name__ == "GuardJudged"]
        assert reasons == ["cannot publish without evidence"]


async def test_an_error_edge_takes_over_and_the_error_is_data(store: str) -> None:
    wf = Workflow("rescued")

    @wf.node("risky")
    @task
    async def risky(state):
        raise ValueError("no such customer")

    wf.node("plain")(task(lambda state: "plain"))
    wf.node("rescue")(task(lambda state: [state.events["risky"].error.error_class, state.errors[0].message]))
    wf.edge("risky", "plain")
    wf.edge("risky", "rescue", on="error")
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        error_class, message = await run.result()
        assert error_class == "error"
        assert "no such customer" in message
        assert "test_runs.py" in message


async def test_a_retry_policy_is_kept_and_every_failure_is_in_the_history(store: str) -> None:
    wf = Workflow("retried")
    tries: list[int] = []

    @wf.node("flaky")
    @task(retry=3)
    async def flaky(state):
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("not yet")
        return len(tries)

    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        assert await run.result() == 3
        assert sum(type(r.event).__name__ == "AttemptFailed" for r in await run.events()) == 2


async def test_without_a_policy_a_plain_error_is_not_retried(store: str) -> None:
    wf = Workflow("once")
    tries: list[int] = []

    @wf.node("bad")
    @task
    async def bad(state):
        tries.append(1)
        raise RuntimeError("no")

    async with Engine.open(store) as engine:
        with pytest.raises(RunFailed):
            await (await engine.start(wf)).result()
    assert tries == [1]


async def test_a_step_that_takes_too_long_times_out(store: str) -> None:
    wf = Workflow("slow")

    @wf.node("slow")
    @task(timeout_s=0.05, retry=1)
    async def slow(state):
        await asyncio.Event().wait()

    async with Engine.open(store) as engine:
        with pytest.raises(RunFailed) as failed:
            await (await engine.start(wf)).result()
        assert failed.value.error.error_class == "timeout"


class Order(BaseModel):
    item: str
    count: int = 1


async def test_an_input_that_does_not_fit_starts_nothing(store: str) -> None:
    wf = Workflow("orders", input=Order)
    wf.node("show")(task(lambda state: [state.input.item, state.input["count"]]))
    async with Engine.open(store) as engine:
        with pytest.raises(InvalidInput, match="item: Field required"):
            await engine.start(wf, {"count": 2})
        assert await engine.runs() == []
        assert await (await engine.start(wf, Order(item="tea"))).result() == ["tea", 1]


async def test_the_same_key_is_the_same_run_and_another_input_a_conflict(store: str) -> None:
    async with Engine.open(store) as engine:
        wf = chain()
        first = await engine.start(wf, {"n": 1}, key="order-7")
        again = await engine.start(wf, {"n": 1}, key="order-7")
        assert again.id == first.id
        with pytest.raises(KeyReused, match="another workflow or with another input") as refused:
            await engine.start(wf, {"n": 2}, key="order-7")
        assert refused.value.run == first.id
        other = await engine.start(wf, {"n": 2}, key="order-7", tenant="another")
        assert other.id != first.id


async def test_two_starts_with_one_key_at_the_same_moment_are_one_run(store: str) -> None:
    async with Engine.open(store) as engine:
        wf = chain()
        runs = await asyncio.gather(*(engine.start(wf, {"n": 1}, key="k") for _ in range(10)))
        assert len({run.id for run in runs}) == 1


async def test_a_broken_workflow_is_reported_before_anything_is_opened(tmp_path: Path) -> None:
    place = tmp_path / "holdfast.db"
    wf = Workflow("broken")
    wf.node("a")(task(lambda state: 1))
    wf.edge("a", "nowhere")
    with pytest.raises(InvalidWorkflow, match="there is no node 'nowhere'"):
        async with Engine.open(place, workflows=[wf]):
            pass
    assert not place.exists()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (float("nan"), "is nan"),
        ({"a": [1, float("inf")]}, r"\['a'\]\[1\] is inf"),
        ("\ud800", "surrogate"),
        (object(), "object"),
    ],
)
async def test_an_output_that_cannot_be_stored_fails_its_step_and_says_where(store: str, value, says: str) -> None:
    wf = Workflow("odd")
    wf.node("odd")(task(lambda state: value))
    async with Engine.open(store) as engine:
        with pytest.raises(RunFailed, match=says) as failed:
            await (await engine.start(wf)).result()
        assert failed.value.error.error_class == "validation"


async def test_a_large_output_lives_in_a_blob_and_is_read_like_any_other(store: str) -> None:
    wf = Workflow("large")
    wf.node("make")(task(lambda state: {"text": "x" * 300_000}))
    wf.node("read")(task(lambda state: len(state.events["make"].output.text)))
    wf.edge("make", "read")
    async with Engine.open(store) as engine:
        run = await engine.start(wf)
        assert await run.result() == 300_000
        assert (await run.state()).steps["make"].output.blob is not None


async def test_more_runs_than_slots_all_end(store: str) -> None:
    wf = chain()
    async with Engine.open(store, slots=3) as engine:
        runs = [await engine.start(wf, {"n": n}) for n in range(40)]
        assert [await run.result() for run in runs] == [{"n": (n + 1) * 2} for n in range(40)]


async def test_the_typed_state_is_updated_by_the_outputs_that_name_its_fields(store: str) -> None:
    class Case(BaseModel):
        goal: str
        evidence: list[str] = []
        risk: str = "low"

    wf = Workflow("case", state=Case)
    wf.node("look")(task(lambda state: {"evidence": ["letter"], "other": 1}))
    wf.node("rate")(task(lambda state: {"risk": "high" if state.data.evidence else "low"}))
    wf.node("end")(task(lambda state: state.data))
    wf.edge("look", "rate")
    wf.edge("rate", "end")
    async with Engine.open(store) as engine:
        run = await engine.start(wf, {"goal": "decide"})
        assert await run.result() == {"goal": "decide", "evidence": ["letter"], "risk": "high"}


async def test_an_output_that_the_typed_state_does_not_take_fails_its_step(store: str) -> None:
    class Case(BaseModel):
        count: int = 0

    wf = Workflow("case", state=Case)
    wf.node("wrong")(task(lambda state: {"count": "many"}))
    async with Engine.open(store) as engine:
        with pytest.raises(RunFailed, match="count") as failed:
            await (await engine.start(wf)).result()
        assert failed.value.error.error_class == "schema"


async def test_a_plain_function_that_timed_out_keeps_its_slot_until_it_returns(store: str) -> None:
    wf = Workflow("stuck")
    go_on = threading.Event()
    begun: list[int] = []

    @wf.node("stuck")
    @task(timeout_s=0.1, retry=1)
    def stuck(state):
        begun.append(state.input.n)
        if state.input.n == 1:
            go_on.wait(10)

    async with Engine.open(store, slots=1) as engine:
        first = await engine.start(wf, {"n": 1})
        with pytest.raises(RunFailed):
            await first.result()
        second = await engine.start(wf, {"n": 2})
        assert (await second.state()).steps["stuck"].status == "ready"
        go_on.set()
        assert await second.result() is None
    assert begun == [1, 2]


async def test_the_next_step_starts_in_the_same_commit_even_when_all_slots_are_taken(store: str) -> None:
    wf = chain()
    async with Engine.open(store, slots=1) as engine:
        runs = [await engine.start(wf, {"n": n}) for n in range(5)]
        for run in runs:
            await run.result()
            names = [type(recorded.event).__name__ for recorded in await run.events()]
            assert names.index("StepCompleted") + 1 == names.index("StepStarted", names.index("StepCompleted"))
            assert names.count("StepReady") <= 1  # the first step may have waited for a slot


async def test_a_run_that_became_ready_during_an_unknown_lease_is_not_forgotten(store: str) -> None:
    """Nothing else ever happens in that process which would give the run its slot."""
    wf = Workflow("one")
    wf.node("only")(task(lambda state: "done"))
    async with asyncio.timeout(60), Engine.open(store) as engine:
        kept = engine.runtime.store
        alive = kept.sessions.alive
        kept.sessions.alive = lambda session: False  # type: ignore[method-assign]
        run = await engine.start(wf)
        kept.sessions.alive = alive  # type: ignore[method-assign]
        while (await engine.find(run.id)).status != "completed":  # whoever asks for the state would have it looked at
            await asyncio.sleep(0.01)


async def test_no_run_is_forgotten_while_others_have_the_slots(tmp_path: Path) -> None:
    """The store's time stands still, so nobody finds by looking again what nobody remembered."""
    wf = row(6)
    async with engine_at(tmp_path, Time(), slots=3) as engine:
        runs = [await engine.start(wf) for _ in range(20)]
        assert [await run.result() for run in runs] == [5] * 20


async def test_with_a_slot_for_every_run_no_step_waits(store: str) -> None:
    wf = row(6)
    async with opened(store, slots=20) as engine:
        runs = await asyncio.gather(*(engine.start(wf) for _ in range(20)))
        for run in runs:
            await run.result()
            assert "StepReady" not in [type(recorded.event).__name__ for recorded in await run.events()]


def row(length: int) -> Workflow:
    """`length` tasks, one after the other; each returns its number."""
    wf = Workflow("row")
    for number in range(length):
        wf.node(f"n{number}")(task(lambda state, number=number: number))
        if number:
            wf.edge(f"n{number - 1}", f"n{number}")
    return wf


# --- Steps that share a task ------------------------------------------------------------------------------------------

WHO: ContextVar[str] = ContextVar("who", default="nobody")


async def test_what_a_step_sets_in_a_context_variable_is_gone_with_it(store: str) -> None:
    """Although the next one goes on in the same task."""
    wf = Workflow("who")
    tasks: list[object] = []

    for name in ("first", "second"):

        @wf.node(name)
        @task
        async def look(state):
            tasks.append(asyncio.current_task())
            seen = WHO.get()
            await asyncio.sleep(0)
            WHO.set("somebody")
            await asyncio.sleep(0)
            return [seen, WHO.get()]

    wf.edge("first", "second")
    async with opened(store) as engine:
        run = await engine.start(wf)
        assert await run.result() == ["nobody", "somebody"]
        assert tasks[0] is tasks[1]
        assert WHO.get() == "nobody"


async def test_a_step_that_was_to_go_on_in_a_cancelled_task_is_handed_over(store: str) -> None:
    wf = chain()
    async with opened(store, workflows=[wf]) as engine:
        leaving: list[asyncio.Task[None]] = []

        class HandlerExit:
            def committed(self, mailbox, events, state) -> None:
                if any(isinstance(event, StepCompleted) for event in events):
                    leaving.append(asyncio.create_task(engine.executor.aclose()))

            def needs(self, mailbox) -> bool:
                return False

        engine.runtime.runs.subscribers.append(HandlerExit())
        run = await engine.start(wf, {"n": 20})
        await eventually(lambda: leaving and leaving[0].done())
        assert engine.executor.working == 0
    async with opened(store, workflows=[wf]) as engine:
        run = engine.run(run.id)
        assert await run.result() == {"n": 42}
        kinds = [type(each.event) for each in await run.events()]
        assert (kinds.count(StepStarted), kinds.count(StepSuspended), kinds.count(AttemptLost)) == (3, 1, 0)


# --- Functions that need no thread ------------------------------------------------------------------------------------

LEVEL = "brief"
SETTINGS = {"level": LEVEL}


def condition(state):
    if state.previous["a"] is None:
        return {"system": LEVEL, "user": state.input.text[:7] + "..."}
    return state.input.a == "x" and not state.input["b"]


def endless(state):
    while True:
        pass


def loop(state):
    for _ in state.input.items:
        pass


def generator(state):
    yield 1


@pytest.mark.parametrize(
    "function", [lambda state: "say it", lambda state: f"{state.input.text!r} and {state.events['x'].output}", condition]
)
def test_a_function_that_only_puts_together_what_it_is_given_needs_no_thread(function) -> None:
    assert is_immediate(function)


@pytest.mark.parametrize(
    "function",
    [
        endless,
        loop,
        generator,
        print,
        lambda state: state.visits("x"),
        lambda state: SETTINGS["level"],
        lambda state: [each.n for each in state.input.items],
        lambda state: "x" * state.input.n,
        lambda state: state.input.n**9,
        lambda state: f"{state.input.x:{state.input.n}}",
        lambda state: state.data.x,
        lambda state: len(state.input),
        lambda state: state.input.a % state.input.b,
        lambda state: lambda: 1,
        lambda state: state.input.text.strip(),
    ],
)
def test_a_function_that_may_wait_or_take_its_time_has_a_thread(function) -> None:
    assert not is_immediate(function)


@dataclass
class Doubler:
    """Equal to others of its kind, and so without a hash."""

    by: int

    def __call__(self, state):
        return state.input * self.by


async def test_an_object_that_can_be_called_is_a_handler_like_any_other(store: str) -> None:
    wf = Workflow("callable")
    wf.node("only")(task(Doubler(2)))
    async with opened(store) as engine:
        assert await (await engine.start(wf, 21)).result() == 42


async def test_only_what_sees_nothing_large_runs_without_a_thread(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wf = Workflow("threads")
    wf.node("first")(task(lambda state: state.input))
    async with opened(store) as engine:
        threads = engine.executor.services.threads
        run, asked = threads.run, []

        async def counted(function, arguments):
            asked.append(function)
            return await run(function, arguments)

        monkeypatch.setattr(threads, "run", counted)
        for text, many in (("small", 0), ("x" * 70_000, 1)):
            assert await (await engine.start(wf, {"text": text})).result() == {"text": text}
            assert len(asked) == many


async def test_who_waits_for_an_end_elsewhere_does_not_read_the_run_at_each_of_its_commits(tmp_path: Path) -> None:
    path, looked, loaded = str(tmp_path / "holdfast.db"), asyncio.Event(), []
    wf = Workflow("elsewhere")
    for number in range(4):

        @wf.node(f"n{number}")
        @task
        async def step(state):
            looked.clear()
            await looked.wait()  # the other process has seen what was committed before

        if number:
            wf.edge(f"n{number - 1}", f"n{number}")
    async with opened(path, workflows=[wf]) as worker, opened(path, execute=False) as desk:
        log = desk.runtime.store.log
        seqs, load = log.seqs, log.load

        async def seen(runs, **which):
            found = await seqs(runs, **which)
            looked.set()
            return found

        async def counted(run, fold_version):
            loaded.append(run)
            return await load(run, fold_version)

        log.seqs, log.load = seen, counted  # type: ignore[method-assign]
        run = await worker.start(wf)
        assert await desk.run(run.id).result() is None
    assert len(loaded) == 2, "once before it waits, once when it has ended"
