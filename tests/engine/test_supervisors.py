"""What a supervisor takes is done once, by workers that have never more than they may; and who fails is taken out."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Accepted, Context, Rejected, Supervisor, WorkerAgent, flow
from holdfast.core.nouns.supervision import Change
from holdfast.errors import Conflict, InvalidInput, NotFound, StoreError
from tests.engine.kit import Time, bounded, die, engine_at, opened

AT_WORK: Counter[str] = Counter()
MAX_AT_WORK: Counter[str] = Counter()


async def _seen(store: str) -> None:
    AT_WORK[store] += 1
    MAX_AT_WORK[store] = max(MAX_AT_WORK[store], AT_WORK[store])
    await asyncio.sleep(0.005)
    AT_WORK[store] -= 1


@flow
async def double(ctx: Context, given: dict[str, Any]) -> int:
    await _seen(given["store"])
    return int(given["n"]) * 2


class Mood(BaseModel):
    well: bool


@flow
async def moody(ctx: Context, given: Mood) -> str:
    if not given.well:
        raise ValueError("not in the mood")
    return "well"


@flow
async def patient(ctx: Context, given: int) -> str:
    return str(await ctx.wait_signal("go on"))


WORKFLOWS = [double, moody, patient]


async def accepted(desk: Supervisor, task_type: str, payload: Any, **how: Any) -> str:
    answer = await desk.submit(task_type, payload, **how)
    assert isinstance(answer, Accepted), answer
    return answer.task_id


async def at_work(desk: Supervisor, task: str) -> str:
    """The run of a task that is at work."""
    while (found := await desk.result(task)).run_id is None:
        await asyncio.sleep(0.002)
    return found.run_id


@bounded
async def test_two_processes_at_the_limit_take_no_more_than_there_is_room_for(store: str) -> None:
    async with opened(store, workflows=WORKFLOWS) as one, opened(store, workflows=WORKFLOWS) as two:
        desk = await one.set_supervisor("desk", [WorkerAgent("ann", double, ["double"])], max_queue=10, threshold=None)
        there, most_waiting = two.supervisor("desk"), 0

        async def submit(number: int) -> Accepted | Rejected:
            given = {"n": number, "store": store}
            return await (desk, there)[number % 2].submit("double", given, task_id=f"t{number}")

        answers = await asyncio.gather(*(submit(number) for number in range(40)))
        most_waiting = max(each.position for each in answers if isinstance(each, Accepted))
        taken = [each.task_id for each in answers if isinstance(each, Accepted)]
        assert most_waiting == 10
        assert 13 <= len(taken) < 40
        assert {each.reason for each in answers if isinstance(each, Rejected)} == {"queue_full"}
        results = await asyncio.gather(*(there.wait(task) for task in taken))
        assert [each.result for each in results] == [int(task[1:]) * 2 for task in taken]
        assert 1 <= MAX_AT_WORK[store] <= 3
        found = await desk.dashboard()
        assert (found.queue_size, found.workers["ann"].completed, found.workers["ann"].active) == (0, len(taken), 0)
        rows = await one.runs()
        assert len(rows) == len(taken), "what was refused left nothing, and what was taken was done once"


@bounded
async def test_the_same_id_is_the_same_task(store: str) -> None:
    async with opened(store, workflows=WORKFLOWS) as one, opened(store, workflows=WORKFLOWS) as two:
        desk = await one.set_supervisor("desk", [WorkerAgent("ann", moody, ["ask"])])
        both = [desk, two.supervisor("desk")] * 3
        answers = await asyncio.gather(*(each.submit("ask", {"well": True}, task_id="t") for each in both))
        assert {each[0] for each in answers} == {"t"}
        assert (await desk.wait("t")).result == "well"
        assert await desk.submit("ask", {"well": True}, task_id="t") == ("t", "ann", 0)
        assert len(await one.runs()) == 1
        with pytest.raises(Conflict, match="has another task 't'"):
            await desk.submit("ask", {"well": False}, task_id="t")


@bounded
async def test_who_fails_is_out_and_one_probe_lets_him_in(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=WORKFLOWS) as engine:
        desk = await engine.set_supervisor("desk", [WorkerAgent("ann", moody, ["ask"])])
        for _ in range(6):
            found = await desk.wait(await accepted(desk, "ask", {"well": False}))
            assert (found.status, found.success, found.worker) == ("failed", False, "ann")
            assert "not in the mood" in str(found.error)
        refused = await desk.submit("ask", {"well": True})
        assert isinstance(refused, Rejected)
        assert refused.reason == "unavailable"
        assert (await desk.dashboard()).workers["ann"].state == "failed"
        now.forward(31)
        assert (await desk.dashboard()).workers["ann"].state == "half_open"
        probe = await accepted(desk, "ask", {"well": True})
        assert (await desk.wait(probe)).result == "well"
        assert (await desk.dashboard()).workers["ann"].state == "idle"


@bounded
async def test_what_takes_too_long_is_called_off_and_what_a_person_calls_off_is_no_error(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=WORKFLOWS) as engine:
        workers = [WorkerAgent("ann", patient, ["wait"], max_concurrent=1)]
        desk = await engine.set_supervisor("desk", workers, threshold=None)
        slow, other = await accepted(desk, "wait", 1), await accepted(desk, "wait", 2)
        run = await at_work(desk, slow)
        now.forward(59)
        await engine.executor.services.supervising.carry_on("default", "desk")
        assert (await desk.result(slow)).status == "active"
        now.forward(2)
        await engine.executor.services.supervising.carry_on("default", "desk")
        found = await desk.wait(slow)
        assert (found.status, found.error) == ("timed_out", "It took longer than 60 s and was called off.")
        assert (await engine.find(run)).status == "cancelled"
        await engine.cancel(await at_work(desk, other))
        assert (await desk.wait(other)).status == "cancelled"
        ann = (await desk.dashboard()).workers["ann"]
        assert (ann.errors, ann.completed) == (1, 0)


@bounded
async def test_the_lowest_priority_is_next(store: str) -> None:
    async with opened(store, workflows=WORKFLOWS) as engine:
        workers = [WorkerAgent("ann", patient, ["wait"], max_concurrent=1)]
        desk = await engine.set_supervisor("desk", workers, threshold=None)
        first = await accepted(desk, "wait", 1)
        assert await desk.submit("wait", 2, task_id="later", priority=5) == ("later", None, 1)
        assert await desk.submit("wait", 3, task_id="urgent", priority=-5) == ("urgent", None, 1)
        assert (await desk.result("later")).status == "queued"
        for task in (first, "urgent", "later"):
            run = await at_work(desk, task)
            await engine.signal(run, "go on", task)
            assert (await desk.wait(task)).result == task


@bounded
async def test_what_a_dead_process_has_taken_is_done_by_another(store: str) -> None:
    async with opened(store, workflows=WORKFLOWS) as living:
        async with opened(store, workflows=WORKFLOWS) as dying:
            desk = await dying.set_supervisor("desk", [WorkerAgent("ann", moody, ["ask"])])
            await die(dying)  # it can still write down that it has taken the task, and start nothing
            assert await desk.submit("ask", {"well": True}, task_id="t") == ("t", "ann", 0)
            assert (await desk.result("t")).run_id is None
        assert (await living.supervisor("desk").wait("t")).result == "well"


@bounded
async def test_an_end_that_no_process_has_seen_is_found(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(store, workflows=WORKFLOWS) as engine:
        desk = await engine.set_supervisor("desk", [WorkerAgent("ann", moody, ["ask"])])
        put, lost = engine.store.supervisors.put, asyncio.Event()

        async def away(change: Change) -> bool:
            if any(each.fate for each in change.tasks):
                lost.set()
                raise StoreError("The store is away.")
            return await put(change)

        with monkeypatch.context() as patched:
            patched.setattr(engine.store.supervisors, "put", away)
            task = await accepted(desk, "ask", {"well": True})
            await lost.wait()
            await asyncio.sleep(0.05)  # who was told of the end has tried, too
        while (await desk.result(task)).status == "active":
            await asyncio.sleep(0.01)
        assert (await desk.dashboard()).workers["ann"].completed == 1


@bounded
async def test_a_task_that_cannot_be_started_has_failed_and_says_why(store: str) -> None:
    async with opened(store, workflows=WORKFLOWS) as engine:
        desk = await engine.set_supervisor("desk", [WorkerAgent("bob", patient, ["ask"], 1)], threshold=None)
        holds, waits = await accepted(desk, "ask", 1), await accepted(desk, "ask", 2)
        await engine.set_supervisor("desk", [WorkerAgent("bob", moody, ["ask"], 1)], threshold=None)
        await engine.signal(await at_work(desk, holds), "go on")
        found = await desk.wait(waits)
        assert (found.status, found.run_id) == ("failed", None)
        assert "input" in str(found.error)
        assert (await desk.dashboard()).workers["bob"].errors == 1


@bounded
async def test_bad_input_ends_in_words_and_leaves_nothing(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/holdfast.db", workflows=WORKFLOWS) as engine:
        with pytest.raises(NotFound, match="no supervisor 'desk'"):
            await engine.supervisor("desk").submit("ask")
        with pytest.raises(InvalidInput, match="max_queue is -1"):
            await engine.set_supervisor("desk", [WorkerAgent("ann", moody, ["ask"])], max_queue=-1)
        with pytest.raises(NotFound, match="no workflow 'nobody'"):
            await engine.set_supervisor("desk", [WorkerAgent("ann", "nobody", ["ask"])])
        desk = await engine.set_supervisor("desk", [WorkerAgent("ann", "moody", "ask")])
        with pytest.raises(InvalidInput, match="No worker of supervisor 'desk' takes tasks of type 'sing'"):
            await desk.submit("sing", {"well": True})
        with pytest.raises(InvalidInput):
            await desk.submit("ask", "not an object")
        with pytest.raises(InvalidInput, match=r"payload has 70\d+ bytes"):
            await desk.submit("ask", {"well": True, "x" * 70_000: True})
        with pytest.raises(InvalidInput, match="priority=10000000"):
            await desk.submit("ask", {"well": True}, priority=10_000_000)
        with pytest.raises(InvalidInput, match="timeout_s=0"):
            await desk.submit("ask", {"well": True}, timeout_s=0)
        with pytest.raises(InvalidInput, match="id of the task"):
            await desk.submit("ask", {"well": True}, task_id="x" * 200)
        with pytest.raises(NotFound, match="knows of no task 't'"):
            await desk.result("t")
        assert await engine.runs() == []
        assert [each.name for each in await engine.supervisors()] == ["desk"]
        await engine.remove_supervisor("desk")
        with pytest.raises(NotFound):
            await engine.remove_supervisor("desk")


@bounded
async def test_one_with_tasks_is_not_removed(store: str) -> None:
    async with opened(store, workflows=WORKFLOWS) as engine:
        desk = await engine.set_supervisor("desk", [WorkerAgent("ann", patient, ["wait"])])
        task = await accepted(desk, "wait", 1)
        with pytest.raises(Conflict, match="has tasks to do"):
            await engine.remove_supervisor("desk")
        await engine.signal(await at_work(desk, task), "go on")
        await desk.wait(task)
        await engine.remove_supervisor("desk")
