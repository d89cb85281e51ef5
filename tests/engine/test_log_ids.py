"""Ids on the lines of a program that uses Holdfast as a library: of its own handlers, which Holdfast leaves alone."""

from __future__ import annotations

import asyncio
import io
import logging
import threading
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Engine, LogFilter, Signal, flow, step
from holdfast.core.values.trace import attempt_span
from holdfast.engine.runs.background_loop import BackgroundLoop
from holdfast.platform.log_ids import LogIds, enter
from holdfast.platform.machine import MachineClock

RUNS, STEPS = 20, 50
log = logging.getLogger("of_the_user")


class Lines(logging.Handler):
    """A handler of the program's own."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(LogFilter())
        self.records: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield handler
    log.removeHandler(handler)


@step
async def awaited(run: str, number: int) -> None:
    await asyncio.sleep(0)
    log.info("%s", run)
    await asyncio.gather(asyncio.create_task(inside(run)), asyncio.to_thread(log.info, "%s", run))


async def inside(run: str) -> None:
    await asyncio.sleep(0.001)
    log.info("%s", run)


@step
def plain(run: str, number: int) -> None:
    log.info("%s", run)
    thread = threading.Thread(target=copy_context().run, args=(log.info, "%s", run))
    thread.start()
    thread.join()


@flow
async def many(ctx: Context) -> None:
    async def task(number: int) -> None:
        log.info("%s", ctx.run_id)
        await (awaited if number % 2 else plain)(ctx.run_id, number)
        log.info("%s", ctx.run_id)

    await asyncio.gather(*(asyncio.create_task(task(number)) for number in range(STEPS)))


async def test_a_thousand_steps_at_once_have_lines_with_the_ids_of_their_own_run(lines: Lines, tmp_path: Path) -> None:
    before = [*logging.root.handlers], logging.root.level
    async with Engine.open(tmp_path / "store.db", workflows=[many], slots=RUNS * STEPS) as engine:
        runs = [await engine.start(many, tenant=f"tenant-{number}") for number in range(RUNS)]
        async with asyncio.timeout(60):
            await asyncio.gather(*(run.result() for run in runs))
    tenants = {run.id: f"tenant-{number}" for number, run in enumerate(runs)}
    assert len(lines.records) >= RUNS * STEPS * 4
    for each in lines.records:
        ids = (each.run_id, each.tenant, each.workflow, each.step_id, each.attempt)
        assert ids == (each.getMessage(), tenants[each.run_id], "many", "flow#1", 1)
        assert (each.trace_id, each.span_id) == (each.run_id.replace("-", ""), attempt_span(each.run_id, "flow#1", 1))
    assert ([*logging.root.handlers], logging.root.level) == before


GO = Signal("go", int)


@flow
async def twice(ctx: Context) -> None:
    log.info("before")
    await ctx.wait_signal(GO)
    log.info("after")


async def test_a_flow_that_has_waited_in_memory_has_the_attempt_in_which_it_goes_on(lines: Lines, tmp_path: Path) -> None:
    async with Engine.open(tmp_path / "store.db", workflows=[twice]) as engine:
        run = await engine.start(twice)
        await run.settled()
        await engine.signal(run.id, GO, 1)
        await run.result()
    assert [(each.getMessage(), each.attempt) for each in lines.records] == [("before", 1), ("after", 2)]


async def test_a_loop_of_the_engine_that_a_step_has_begun_has_none_of_its_ids(lines: Lines) -> None:
    async def turn() -> None:
        log.info("a turn")

    loop = BackgroundLoop("test", turn, MachineClock(), fault="")

    async def of_step() -> None:
        enter(LogIds("a run", "a step", 1))
        log.info("the step")
        loop.start()

    await asyncio.create_task(of_step())
    await loop._task  # type: ignore[misc]
    assert [(each.getMessage(), each.run_id, each.attempt) for each in lines.records] == [
        ("the step", "a run", 1),
        ("a turn", "", ""),
    ]


def test_what_a_line_says_of_itself_never_takes_the_place_of_its_ids(lines: Lines) -> None:
    def of_step() -> None:
        enter(LogIds("a run", "a step", 1, "a tenant"))
        log.info("forged", extra={"run_id": "another run", "trace_id": "another trace"})

    copy_context().run(of_step)
    (record,) = lines.records
    assert (record.run_id, record.tenant, record.trace_id) == ("a run", "a tenant", "")


def test_a_format_with_ids_also_fits_lines_of_no_run() -> None:
    shown = io.StringIO()
    handler = logging.StreamHandler(shown)
    handler.addFilter(LogFilter())
    handler.setFormatter(logging.Formatter("%(run_id)s|%(step_id)s|%(attempt)s|%(trace_id)s|%(message)s"))
    handler.handle(logging.makeLogRecord({"msg": "%d of %d", "args": (1, 2)}))
    assert shown.getvalue() == "||||1 of 2\n"
