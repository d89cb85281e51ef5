"""kill -9 of a process that submits and does tasks, at points at which something lasts: each is done by one run, and counted once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

from holdfast import Engine
from tests.crash import desk
from tests.crash.killing import killed_everywhere


def judge(directory: Path) -> None:
    asyncio.run(_judge(directory))


async def _judge(directory: Path) -> None:
    async with Engine.open(directory / desk.STORE, execute=False) as engine:
        found = engine.supervisor(desk.NAME)
        results = [await found.result(task) for task in desk.TASKS]
        board, runs = await found.dashboard(), await engine.runs()
    assert {each.task_id: each.result for each in results if each.success} == {
        task: task for task in desk.TASKS if task != desk.FAILS
    }
    assert [each.task_id for each in results if not each.success] == [desk.FAILS]
    assert sorted(str(each.run_id) for each in results) == sorted(row.run for row in runs), "one run for each task"
    assert sum(each.completed for each in board.workers.values()) == len(desk.TASKS) - 1, "each is counted once"
    assert sum(each.errors for each in board.workers.values()) == 1
    assert (board.system_load, board.queue_size) == (0, 0)
    lines = (directory / desk.WORLD).read_text().splitlines()
    world = {(each["what"], each["key"]) for each in map(json.loads, lines)}
    assert Counter(what for what, _ in world) == dict.fromkeys(desk.TASKS, 1)


def test_tasks_killed_at_any_point_are_done_as_if_nothing_had_been(tmp_path: Path) -> None:
    killed_everywhere("desk", tmp_path, judge, shares=53)
