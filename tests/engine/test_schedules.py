"""Schedules on a real engine: each time has one run, whoever fires it, however often, and whatever dies in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from holdfast import Engine, RunFailed, Workflow, flow, human_gate
from holdfast.authoring.flow import Flow
from holdfast.core.facts.contribution import contributors
from holdfast.core.nouns.schedules import Schedule, stamp
from holdfast.core.values.actor import Actor
from holdfast.core.views.status import status
from holdfast.engine.background.schedule_runner import ScheduleRunner
from holdfast.errors import InvalidInput, NotFound, NotPermitted, StoreError
from holdfast.service.control.schedule import MAX_MADE_UP_FOR
from holdfast.service.declarations import command, query
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from tests.engine.kit import Time, engine_at, gate_of, opened

HOUR_MS = 3_600_000


class Wanted(BaseModel):
    of: str = "sales"
    at: str


def report() -> Flow:
    @flow(name="report")
    async def handle(ctx, wanted: Wanted) -> str:
        return f"{wanted.of} {wanted.at}"

    return handle


def approved() -> Workflow:
    wf = Workflow("approved")
    wf.node("gate")(human_gate(four_eyes=True)(lambda state: {}))
    return wf


def waiting() -> Flow:
    @flow(name="waiting")
    async def handle(ctx) -> Any:
        return await ctx.wait_signal("go")

    return handle


async def hourly(engine: Engine, workflow: Flow | Workflow, hours_ago: int = 0, **given: Any) -> Schedule:
    """A schedule that should have fired so many times."""
    kept = {"time_field": "at"} if workflow.name == "report" else {}
    await engine.set_schedule("nightly", workflow, "0 * * * *", **kept, **given)
    found = await engine.store.schedules.find("default", "nightly")
    assert found is not None
    now_ms = engine.store.clock.now_ms()
    back_ms = now_ms - hours_ago * HOUR_MS
    moved = msgspec.structs.replace(found.schedule, checked_ms=back_ms, due_at_ms=back_ms if hours_ago else 2**50)
    assert await engine.store.schedules.replace(moved, found.revision)
    return moved


async def fire(engine: Engine) -> Schedule:
    await ScheduleRunner(engine.runtime).turn()
    return await engine.schedule("nightly")


async def test_two_who_fire_at_once_start_one_run_for_each_time(store: str) -> None:
    async with opened(store, workflows=[report()]) as one, opened(store, execute=False) as other:
        await hourly(one, report(), 3, overlap="allow", catch_up_s=4 * 3600)
        await asyncio.gather(*(ScheduleRunner(each.runtime).turn() for each in (one, other, one, other)))
        await one.idle()
        runs = await one.runs(workflow="report")
        after = await one.schedule("nightly")
        assert sorted(run.key or "" for run in runs) == [
            f"schedule/nightly/{stamp(at_ms)}"
            for at_ms in range(after.last_nominal_ms - 2 * HOUR_MS, after.last_nominal_ms + 1, HOUR_MS)
        ]
        assert (after.fired, after.missed) == (3, 0)
        assert [await one.output(await one.run(run.run).state()) for run in runs[:1]] == [
            f"sales {stamp(after.last_nominal_ms)}"
        ]


async def test_a_process_that_dies_before_it_records_a_start_leaves_no_second_run(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(store, workflows=[report()]) as engine:
        await hourly(engine, report(), 2, overlap="allow", catch_up_s=4 * 3600)

        with dying(monkeypatch, engine), pytest.raises(StoreError):
            await ScheduleRunner(engine.runtime).turn()
        before = {run.run for run in await engine.runs(workflow="report")}
        assert (await fire(engine)).fired == 2
        assert {run.run for run in await engine.runs(workflow="report")} == before
        assert len(before) == 2


@contextmanager
def dying(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> Iterator[None]:
    """Whoever fires dies once he has started what he has written down that he would."""
    kept, told = type(engine.store.schedules).replace, []

    async def replace(*given: Any) -> bool:
        told.append(given)
        if len(told) > 1:
            raise StoreError("The store went away.")
        return await kept(*given)

    with monkeypatch.context() as patched:
        patched.setattr(type(engine.store.schedules), "replace", replace)
        yield


@pytest.mark.parametrize("overlap", ["skip", "queue", "cancel"])
async def test_a_started_but_unrecorded_run_is_the_previous_one_for_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlap: Any
) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=[waiting()]) as engine:
        await engine.set_schedule("nightly", "waiting", "0 * * * *", overlap=overlap)
        now.ms = (await engine.schedule("nightly")).due_at_ms
        with dying(monkeypatch, engine), pytest.raises(StoreError):
            await ScheduleRunner(engine.runtime).turn()
        (first,) = await engine.runs(workflow="waiting")
        await engine.pause_schedule("nightly")
        await engine.resume_schedule("nightly")  # neither forgets what was begun
        now.forward(3600)
        await fire(engine)
        after = await fire(engine)
        if overlap == "cancel":  # its flow cleans up first
            await engine.run(first.run).until(lambda state: bool(state.ended))
            after = await fire(engine)  # a turn before its end may have noted nothing yet
        runs = {row.run: row for row in await engine.runs(workflow="waiting")}
        unended = [row.run for row in runs.values() if row.ended_at_ms is None]
        assert len(unended) == 1, "no two go on at once"
        assert (len(runs), after.fired) == ((2, 2) if overlap == "cancel" else (1, 1))
        assert (unended == [first.run]) == (overlap != "cancel")


async def test_the_watch_of_any_process_fires_what_is_due(store: str) -> None:
    async with opened(store, workflows=[report()]) as engine:
        await hourly(engine, report(), 1)
        engine._sweep._rounds._firing._next_s = 0.0  # it has just looked, and found nothing
        while (found := await engine.schedule("nightly")).last_run is None:
            await asyncio.sleep(0.02)
        await engine.run(found.last_run).result()


async def test_a_night_in_the_life_of_a_schedule(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=[report()]) as engine:
        made = await engine.set_schedule(
            "nightly", "report", "30 2 * * *", timezone="Europe/Berlin", input={"of": "orders"}, time_field="at", by="ann"
        )
        for _ in range(2):
            now.ms = (await engine.schedule("nightly")).due_at_ms - 1
            assert (await fire(engine)).last_run == (await engine.schedule("nightly")).last_run
            now.forward(0.001)
            found = await fire(engine)
            assert found.last_nominal_ms == now.ms
            assert await engine.run(found.last_run).result() == f"orders {stamp(now.ms)}"
            assert (await engine.find(found.last_run)).started_by == "ann"
        assert (found.fired, found.due_at_ms - made.due_at_ms) == (2, 48 * HOUR_MS)


async def test_while_a_run_goes_on_the_next_time_is_skipped_or_waits_for_its_end(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=[waiting()]) as engine:

        async def next_hour(**how: Any) -> Schedule:
            if how:
                await engine.set_schedule("nightly", waiting(), "0 * * * *", **how)
            now.ms = (await engine.schedule("nightly")).due_at_ms
            return await fire(engine)

        first = (await next_hour(overlap="skip")).last_run
        await engine.run(first).until(lambda state: status(state) == "waiting")
        skipped = await next_hour()
        assert (skipped.last_run, skipped.skipped) == (first, 1)
        queued = await next_hour(overlap="queue")
        assert (queued.last_run, queued.queued_ms) == (first, now.ms)
        await engine.signal(first, "go")
        await engine.run(first).result()
        began = await next_hour()
        assert (began.last_nominal_ms, began.queued_ms, began.fired) == (queued.queued_ms, None, 2)
        assert began.last_run != first


async def test_what_goes_on_is_cancelled_for_the_next_and_never_for_itself(tmp_path: Path) -> None:
    now = Time()
    async with engine_at(tmp_path, now, workflows=[waiting()]) as engine:
        await engine.set_schedule("nightly", waiting(), "0 * * * *", overlap="cancel")
        runs = []
        for _ in range(2):
            now.ms = (before := await engine.schedule("nightly")).due_at_ms
            runs.append((await fire(engine)).last_run)
            await engine.run(runs[-1]).until(lambda state: bool(state.steps))
        state = await engine.run(runs[0]).until(lambda state: bool(state.ended))
        assert (state.ended, state.reason) == ("cancelled", "schedule nightly begins again")
        kept = await engine.store.schedules.find("default", "nightly")
        again = msgspec.structs.replace(before, last_run=runs[1])  # the same hour, which has its run
        await engine.store.schedules.replace(again, kept.revision)
        assert (await fire(engine)).last_run == runs[1]
        assert not (await engine.run(runs[1]).state()).ended


async def test_a_schedule_whose_workflow_is_gone_says_so_once_and_tries_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = Time()
    now.ms += HOUR_MS // 2 - now.ms % HOUR_MS  # when it is tried again, the same hour has not passed
    async with engine_at(tmp_path, now, execute=False) as engine:
        made = await hourly(engine, report(), 1)
        found = await engine.store.schedules.find("default", "nightly")
        await engine.store.schedules.replace(msgspec.structs.replace(made, workflow="gone"), found.revision)
        for _ in range(2):
            after = await fire(engine)
            assert "There is no workflow 'gone' in this store" in (after.problem or "")
            assert (after.pending, after.fired) == ((), 0)
            assert after.checked_ms < made.checked_ms + HOUR_MS
            now.ms = after.due_at_ms
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1


async def test_what_cannot_be_scheduled_is_refused_in_words_and_nothing_is_kept(store: str) -> None:
    async with opened(store, workflows=[report()]) as engine:
        for given, problem, said in (
            ((waiting(), "0 0 31 2 *"), InvalidInput, "names a day that its months do not have"),
            (("report", "0 0 * * *"), InvalidInput, "does not fit"),
            (("nothing", "0 0 * * *"), NotFound, "There is no workflow 'nothing'"),
        ):
            with pytest.raises(problem, match=said):
                await engine.set_schedule("nightly", *given)
        with pytest.raises(InvalidInput, match="there is no time zone"):
            await engine.set_schedule("nightly", "report", "0 0 * * *", timezone="Nowhere", time_field="at")
        with pytest.raises(InvalidInput, match="are kept at most"):
            await engine.set_schedule("nightly", "report", "0 0 * * *", input={"of": "x" * 70_000}, time_field="at")
        with pytest.raises(InvalidInput, match="needs an input that is an object"):
            await engine.set_schedule("nightly", "report", "0 0 * * *", input=[1], time_field="at")
        for asked in (engine.schedule, engine.pause_schedule, engine.resume_schedule, engine.remove_schedule):
            with pytest.raises(NotFound, match="There is no schedule 'nightly'"):
                await asked("nightly")
        assert await engine.schedules() == []


async def test_what_is_set_again_keeps_what_it_has_done_and_what_is_paused_stays_so(store: str) -> None:
    async with opened(store, workflows=[report()]) as engine:
        await hourly(engine, report(), 1)
        fired = await fire(engine)
        assert (await engine.pause_schedule("nightly")).due_at_ms is None
        again = await engine.set_schedule("nightly", report(), "30 * * * *", time_field="at")
        assert (again.cron, again.last_run, again.fired, again.paused) == ("30 * * * *", fired.last_run, 1, True)
        assert again.due_at_ms is None
        assert (await engine.resume_schedule("nightly")).due_at_ms is not None
        await engine.remove_schedule("nightly")
        assert await engine.store.schedules.next_due_ms() is None


async def test_times_that_have_passed_are_made_up_for_once(store: str) -> None:
    async with opened(store, workflows=[report()]) as engine:
        await engine.set_schedule("nightly", report(), "0 * * * *", time_field="at")
        now_ms = engine.store.clock.now_ms() // HOUR_MS * HOUR_MS
        made = await engine.backfill_schedule("nightly", now_ms - 2 * HOUR_MS, now_ms)
        assert [each.nominal_ms for each in made] == [now_ms - 2 * HOUR_MS, now_ms - HOUR_MS, now_ms]
        assert await engine.backfill_schedule("nightly", now_ms - 2 * HOUR_MS, now_ms) == made
        await engine.set_schedule("nightly", report(), "0 * * * *", input={"of": "orders"}, time_field="at")
        again = await engine.backfill_schedule("nightly", now_ms - 3 * HOUR_MS, now_ms)
        assert again[1:] == made, "what has had its run has had it, whatever was changed since"
        with pytest.raises(InvalidInput, match="end before they begin"):
            await engine.backfill_schedule("nightly", now_ms, now_ms - HOUR_MS)
        with pytest.raises(InvalidInput, match="past"):
            await engine.backfill_schedule("nightly", now_ms, now_ms + 2 * HOUR_MS)
        with pytest.raises(InvalidInput, match=f"more than {MAX_MADE_UP_FOR} times"):
            await engine.backfill_schedule("nightly", 0, now_ms)
        with pytest.raises(InvalidInput, match="before 1970"):
            await engine.backfill_schedule("nightly", -62_135_596_800_000, now_ms)
        assert [await engine.run(each.run).result() for each in made[:1]] == [f"sales {stamp(made[0].nominal_ms)}"]


async def test_who_acts_for_a_tenant_has_schedules_of_his_own(store: str) -> None:
    async with opened(store, workflows=[report()]) as engine:
        service = Service(engine, [report()])
        acme, other = Principal("ann", tenant="acme"), Principal("bob", tenant="other")
        told = command.SetSchedule(name="nightly", workflow="report", cron="0 0 * * *", time_field="at")
        await service.execute(acme, told)
        await service.execute(other, told)
        (row,) = (await service.query(acme, query.Schedules())).rows
        assert (row["tenant"], row["by"], row["cron"], row["last_status"]) == ("acme", "ann", "0 0 * * *", None)
        with pytest.raises(NotPermitted):
            await service.execute(other, command.RemoveSchedule("nightly", "acme"))
        await service.execute(other, command.RemoveSchedule("nightly"))
        with pytest.raises(NotFound):
            await service.query(other, query.Schedule(name="nightly"))
        everybody = Principal("root")
        await service.execute(everybody, told)
        page = await service.query(everybody, query.Schedules(limit=1))
        assert [row["tenant"] for row in page.rows] == ["acme"]
        page = await service.query(everybody, query.Schedules(cursor=page.cursor))
        assert ([row["tenant"] for row in page.rows], page.cursor) == (["default"], None)
        with pytest.raises(InvalidInput):
            await service.query(everybody, query.Schedules(cursor="nonsense"))


async def test_a_schedule_set_by_too_many_has_no_second_pair_of_eyes(store: str) -> None:
    """Who set it first is not forgotten because a hundred others have set it since."""
    async with opened(store, workflows=[approved()]) as engine:
        for number in range(101):
            await engine.set_schedule("nightly", approved(), "0 * * * *", by=f"p{number}")
        await hourly(engine, approved(), 1, by="zoe")
        run = engine.run((await fire(engine)).last_run or "")
        with pytest.raises(RunFailed, match=r"not all who contributed to the run are known.*removed and set again"):
            await run.result()
        await engine.remove_schedule("nightly")
        earlier_ms = (await hourly(engine, approved(), 1, by="ann")).due_at_ms - 24 * HOUR_MS
        made_up_for = await engine.backfill_schedule("nightly", earlier_ms, earlier_ms + HOUR_MS, by="ann")
        await engine.decide(await gate_of(engine.run(made_up_for[0].run)), "approve", by="eve")


async def test_the_person_who_has_set_a_schedule_contributes_to_what_it_starts(store: str) -> None:
    """Also who set it before another did: what they said may still be in it."""
    async with opened(store, workflows=[report()]) as engine:
        await engine.set_schedule("nightly", report(), "0 * * * *", time_field="at", by=Actor("keys.k", maker="bob"))
        await engine.set_schedule("nightly", report(), "0 * * * *", time_field="at", by="eve")
        await hourly(engine, report(), 1, by=Actor("keys.l", maker="zoe"))
        while (run := (await fire(engine)).last_run) is None:
            await asyncio.sleep(0.01)  # the engine's own watch is at it
        assert contributors(await engine.run(run).state()) == ("keys.k", "bob", "eve", "keys.l", "zoe")
        await engine.remove_schedule("nightly")
        assert (await engine.set_schedule("nightly", report(), "0 * * * *", time_field="at", by="eve")).authors == ()
