"""What the connected workers of the fleet under test do. Never here: anything of the store."""

from __future__ import annotations

from typing import Any

from holdfast.wire import Job, Tasks

tasks = Tasks()


@tasks.task("hand")
async def hand(job: Job, arguments: Any) -> str:
    """Have a line written, by the server and under its ledger."""
    await job.tool("note", {"run": arguments["run"], "line": "handed"})
    return "handed"
