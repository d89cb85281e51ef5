"""What the workers of the tests do. Where one must wait, it waits for a file; where it must be seen, it writes one."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

from holdfast.errors import StepError
from holdfast.wire import CallFailed, Job, Tasks

tasks = Tasks()
log = logging.getLogger("of_the_tasks")


@tasks.task("echo")
async def echo(job: Job, arguments: Any) -> Any:
    log.warning("echoes")
    return {"said": arguments, "pid": os.getpid()}


@tasks.task("trace")
def trace(job: Job, arguments: Any) -> Any:
    return job.traceparent


@tasks.task("hold")
async def hold(job: Job, arguments: Any) -> Any:
    """Say who has begun, then wait until told to go on."""
    with Path(arguments["begun"]).open("a") as seen:
        seen.write(f"{os.getpid()} {job.id}\n")
    try:
        while not Path(arguments["go"]).exists():
            await asyncio.sleep(0.01)
    except asyncio.CancelledError:
        with Path(arguments["begun"]).open("a") as seen:
            seen.write(f"cancelled {os.getpid()} {job.id}\n")
        raise
    return {"pid": os.getpid(), "job": job.id}


@tasks.task("think")
async def think(job: Job, arguments: Any) -> Any:
    """One call after another; between them, it dies if the file says so."""
    first = await job.model("claude-haiku-4-5", "one", max_tokens=100)
    job.progress(f"heard: {first}")
    if "die" in arguments and not Path(arguments["die"]).exists():
        Path(arguments["die"]).touch()
        os._exit(9)
    second, third = await asyncio.gather(
        job.model("claude-haiku-4-5", "two", max_tokens=100), job.model("claude-haiku-4-5", "three", max_tokens=100)
    )
    return [first, second, third]


@tasks.task("post")
async def post(job: Job, arguments: Any) -> Any:
    said = await job.tool("note", {"text": arguments["text"], "file": arguments["file"]})
    if "die" in arguments and not Path(arguments["die"]).exists():
        Path(arguments["die"]).touch()
        os._exit(9)
    try:
        await job.tool("forbidden", {})
    except CallFailed as problem:
        return {"said": said, "denied": problem.error_class}


@tasks.task("fail")
def fail(job: Job, arguments: Any) -> Any:
    """In a thread: an error of a class of its own."""
    raise StepError("the picture is no picture", error_class="validation")


@tasks.task("big")
async def big(job: Job, arguments: Any) -> Any:
    return "x" * arguments["bytes"]


@tasks.task("late")
async def late(job: Job, arguments: Any) -> Any:
    await asyncio.Event().wait()
