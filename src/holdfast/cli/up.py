"""`holdfast up`: a whole fleet on this machine, to try things out; it leaves nothing behind.

Never here: anything that a real fleet needs. It starts the same commands that one would start by hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import terminal
from holdfast.cli.label import needed
from holdfast.cli.option import Yaml
from holdfast.cli.stopping import stopped
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.testing.postgres_server import PostgresServer
    from holdfast.testing.redis_server import RedisServer

_STOP_S: Final = 20.0
"""What the processes get to hand over, before they are killed."""


def up(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE.py:WORKFLOW...]", help="The workflows of the workers.", show_default=False),
    ] = None,
    yaml: Yaml = False,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="How many workers.")] = 2,
    slots: Annotated[int, typer.Option("--slots", min=1, help="How many steps each may run at once.")] = 100,
    grpc: Annotated[
        str | None, typer.Option("--grpc", metavar="HOST:PORT", help="Also take clients and workers here, over gRPC.")
    ] = None,
) -> None:
    """Start a fleet on this machine: throwaway PostgreSQL and Redis, a leader and workers. All of it goes with Ctrl-C."""
    from holdfast.cli.target import load
    from holdfast.testing.postgres_server import PostgresServer
    from holdfast.testing.redis_server import RedisServer

    # A mistake in one of them is told once, before anything is started; this machine has whatever they ask for.
    targets = targets or []
    if not targets and not yaml:
        raise UsageError(
            "Its workers would take nothing: name a workflow, or say --yaml for all that are written in YAML."
        )
    has = [word for target in targets for word in needed(load(target, to_run=True))]
    terminal.say("Starting PostgreSQL and Redis ...")
    with PostgresServer() as postgres, RedisServer() as redis:
        how = ["--slots", str(slots), *has, *["--yaml"] * yaml]
        commands = {"serve": ["serve", "--port", "0", *([*targets, *how, "--grpc", grpc] if grpc is not None else [])]}
        commands |= {f"worker {n}": ["worker", *targets, *how] for n in range(1, workers + 1)}
        asyncio.run(_run(postgres, redis, commands, [*targets, "FILE.yaml"][0]))
    terminal.say("The fleet is gone, and all that was in it.")


async def _run(
    postgres: PostgresServer, redis: RedisServer, commands: Mapping[str, Sequence[str]], example: str
) -> None:
    where = {"HOLDFAST_STORE": postgres.url, "HOLDFAST_QUEUE": redis.url}
    stop = stopped("the processes hand over what they cannot finish")
    async with contextlib.AsyncExitStack() as undo:
        processes = []
        for name, words in commands.items():
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "holdfast", *words, env={**os.environ, **where},
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            undo.push_async_callback(_end, process)
            processes.append(asyncio.create_task(_relay(name, process)))
        told = "\n".join(f"  export {name}={value}" for name, value in where.items())
        terminal.say(f"The fleet is up. In another terminal:\n{told}\n  holdfast run {example}")
        await asyncio.wait([stop, *processes], return_when=asyncio.FIRST_COMPLETED)
        if not stop.done():
            name = next(name for name, process in zip(commands, processes, strict=True) if process.done())
            raise HoldfastError(f"The {name} has ended by itself; what it said is above. The fleet is stopped.")


async def _relay(name: str, process: asyncio.subprocess.Process) -> None:
    """Say what a process says, line by line, until it ends."""
    assert process.stdout is not None
    while line := await process.stdout.readline():
        terminal.say(f"[{name}] {line.decode(errors='replace').rstrip()}")
    await process.wait()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(_STOP_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
