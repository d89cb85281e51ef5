"""`holdfast supervisors`: how much they have to do, and how their workers stand."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast import Engine, WorkerAgent
from tests.cli.conftest import Shell
from tests.cli.flows import patient


def test_supervisors_are_listed_and_shown(shell: Shell, home: Path) -> None:
    async def submit() -> None:
        async with Engine.open(home / "holdfast.db", execute=False) as engine:
            workers = [WorkerAgent("ann", patient, ["wait"], max_concurrent=2)]
            desk = await engine.set_supervisor("desk", workers, threshold=None)
            for _ in range(3):
                await desk.submit("wait", {})
            await engine.set_supervisor("other", workers, tenant="acme")

    asyncio.run(submit())
    assert shell("supervisors", "list").out.splitlines() == [
        "SUPERVISOR  TENANT   LOAD  WAITING",
        "other       acme     0%    0 of 100",
        "desk        default  100%  1 of 100",
    ]
    cursor = '["acme","other"]'
    assert f"--after '{cursor}'" in shell("supervisors", "list", "--limit", "1").err
    rest = shell("supervisors", "list", "--after", cursor, "--json").data
    assert [each["name"] for each in rest] == ["desk"]
    assert shell("supervisors", "list", "--after", "nonsense").code == 2
    assert [each["name"] for each in shell("supervisors", "list", "--tenant", "acme", "--json").data] == ["other"]
    shown = shell("supervisors", "show", "desk").out
    assert "1 of 100" in shown
    assert "ann     overloaded  2 of 2   1" in shown
    found = shell("supervisors", "show", "desk", "--json").data
    assert (found["name"], found["system_load"], found["queue_size"], found["max_queue"]) == ("desk", 1.0, 1, 100)
    assert found["workers"]["ann"] == {
        "state": "overloaded",
        "load": 1.0,
        "active": 2,
        "max_concurrent": 2,
        "queued": 1,
        "completed": 0,
        "errors": 0,
        "avg_ms": 0.0,
    }
    missing = shell("supervisors", "show", "nobody")
    assert (missing.code, "There is no supervisor 'nobody'" in missing.err) == (3, True)
