"""The doors by which data of others comes in: each takes what is sent, and says in words what came of it.

Never here: an input, what is right.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from holdfast.core.status import status
from holdfast.tools import shell
from holdfast.tools.address import EVERYWHERE
from holdfast.tools.http_exchange import Bounds, Request, exchange
from holdfast.tools.http_reply import answer
from tests.engine.kit import opened
from tests.jobs.kit import workflow
from tests.tools.server import Server, sends

HTTP_BOUNDS = Bounds(timeout_s=20.0, max_response_bytes=1024 * 1024, private=EVERYWHERE)


def _store() -> str:
    return f"sqlite:///{Path(tempfile.mkdtemp()) / 'holdfast.db'}"


# --- Doors that hold the loop, to see that the probe sees it ----------------------------------------------------------


async def loop(sent: int) -> str:
    return str(sum(range(sent)))


async def thread(sent: int) -> str:
    """A single call into C, which gives up the interpreter for nobody."""
    return str(await asyncio.to_thread(sum, range(sent)))


# --- Workflow files ---------------------------------------------------------------------------------------------------


async def job(sent: tuple[str, Any]) -> str:
    """A workflow file at work, with its input: how its run ends. Its scripts run nothing."""
    text, given = sent

    async def nothing(script: shell.Script, limits: shell.Limits, **_: Any) -> shell.Ending:
        return shell.Ending(
            exit_code=0, signal=None, timed_out=False, outputs={}, environment={}, file_problems=(), log_tail="",
            log=shell.LogCounts(lines=0, bytes=0, dropped_lines=0, dropped_bytes=0), left_over=0, survivors=0, duration_s=0.0,
        )  # fmt: skip

    made = workflow(text, shell=nothing)
    async with opened(_store(), workflows=[made]) as engine:
        state = await (await engine.start(made, given)).settled()
        return f"{status(state)}: {state.error.message if state.error is not None else ''}"


# --- Replies of tools -------------------------------------------------------------------------------------------------


async def http_reply(sent: bytes) -> str:
    """What a `once` call comes to that is answered so."""
    with Server(sends(sent)) as server:
        request = Request("POST", ("http", "127.0.0.1", server.port), "/", {}, b"{}")
        found = answer(request, await exchange(request, HTTP_BOUNDS), "once", ())
    return f"answered: {str(found['body'])[:100]}"
