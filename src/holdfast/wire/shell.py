"""The task of a connected worker that runs scripts: one after the other, as the server tells it to, in one directory.

What a script is given, and what its ending means, is decided over there. Never here: a connection, an expression.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from holdfast.actions import shell
from holdfast.actions.jobs.remote import Order, ScriptOutcome
from holdfast.actions.jobs.runner import LocalRunner, local_runner
from holdfast.core.values.demand import SHELL
from holdfast.errors import InvalidInput, OutcomeUnknown, ToolFailed
from holdfast.platform.machine import MachineClock
from holdfast.wire.binding import MESSAGE_BYTES
from holdfast.wire.task import Job, Tasks

_SLACK_BYTES = 4096


def offer_shell(tasks: Tasks) -> None:
    """Have a worker run the scripts of workflow files too, with the rights of its account."""
    tasks.bodies[SHELL] = run_scripts


async def run_scripts(job: Job, _: Any) -> None:
    """The body of the task `holdfast.shell`."""
    with local_runner(shell.run, MachineClock(), str) as runner:
        done: ScriptOutcome | None = None
        while (order := await job.next(_report(done))) is not None:
            done = await _run(job, runner, msgspec.convert(order, Order))


async def _run(job: Job, runner: LocalRunner, order: Order) -> ScriptOutcome:
    lines = 0

    async def redact_line(line: str) -> None:
        nonlocal lines
        lines += 1
        await job.line(line)

    job.is_broken_off = False
    job.piece = asyncio.ensure_future(runner.run(order.script, order.limits, redact_line))
    try:
        return ScriptOutcome(ending=msgspec.structs.replace(await job.piece, log_tail=""), lines=lines)
    except asyncio.CancelledError:
        if not job.is_broken_off or job.cancelled:
            raise
        return ScriptOutcome(lines=lines)
    except (InvalidInput, ToolFailed, OutcomeUnknown) as problem:
        return ScriptOutcome.failed(problem, lines)


def _report(outcome: ScriptOutcome | None) -> Any:
    """Return the report on a script as JSON data that fits into a message."""
    said = msgspec.to_builtins(outcome)
    size = len(msgspec.json.encode(said))
    if outcome is None or outcome.ending is None or size <= MESSAGE_BYTES - _SLACK_BYTES:
        return said
    problem = f"What its files say has {size} bytes as JSON, and a message at most {MESSAGE_BYTES}: none of it counts."
    ending = msgspec.structs.replace(
        outcome.ending, outputs={}, environment={}, path=(), summary="", file_problems=(problem,), usage=(), usage_problems=()
    )
    return msgspec.to_builtins(msgspec.structs.replace(outcome, ending=ending))
