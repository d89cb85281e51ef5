"""`holdfast up`: a whole fleet on this machine, to try things out. Its records stay until you remove them.

Never here: anything that a real fleet needs. It starts the same commands that one would start by hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.option import SLOTS, AsJson, Yaml, slots_of
from holdfast.cli.page import log_output, terminal
from holdfast.cli.page.worker_labels import needed
from holdfast.cli.process import child
from holdfast.cli.process.stopping import stopped
from holdfast.errors import HoldfastError, UsageError

if TYPE_CHECKING:
    from holdfast.testing.postgres_server import PostgresServer

DATA: Final = Path(".holdfast/up")
_PAUSES_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Before each restart of a process that ended by itself. One that has used them up within a minute ends whatever it does."""
_FORGIVEN_S: Final = 60.0


def up(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE.py:WORKFLOW", help="Workflows to execute: FILE.py:NAME or FILE.yaml.", show_default=False),
    ] = None,
    yaml: Yaml = False,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, max=64, help="Number of workers.")] = 2,
    slots: Annotated[int, slots_of("Maximum number of concurrent steps of each worker.")] = SLOTS,
    grpc: Annotated[
        str | None, typer.Option("--grpc", metavar="HOST:PORT", help="Address for gRPC clients and workers.")
    ] = None,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Directory that keeps the runs.")] = DATA,
    fresh: Annotated[bool, typer.Option("--fresh", help="Remove everything kept there first, permanently.")] = False,
    throwaway: Annotated[bool, typer.Option("--throwaway", help="Keep nothing after the fleet stops.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start a whole fleet on this machine.

    It has PostgreSQL, Redis, a leader and workers, and works until Ctrl-C. Its runs are kept in --data. A process that ends by
    itself is restarted.
    """
    from holdfast.cli.target import load
    from holdfast.testing.redis_server import RedisServer

    # A mistake in one of them is reported once, before anything is started; this machine has whatever they ask for.
    targets = targets or []
    if not targets and not yaml:
        raise UsageError("The workers have nothing to execute: name a workflow, or pass --yaml for all YAML workflows.")
    log_output.begin()
    has = [word for target in targets for word in needed(load(target, to_run=True))]
    place = None if throwaway else data.resolve()
    if place is not None and fresh:
        _remove(place)
    terminal.say("Starting PostgreSQL and Redis ...")
    was_there = False
    try:
        with _postgres(place) as postgres, RedisServer() as redis:
            how = ["--slots", str(slots), *has, *["--yaml"] * yaml]
            commands = {"serve": ["serve", "--port", "0", *([*targets, *how, "--grpc", grpc] if grpc is not None else [])]}
            commands |= {f"worker {n}": ["worker", *targets, *how] for n in range(1, workers + 1)}
            was_there = True
            where = {"HOLDFAST_STORE": postgres.url, "HOLDFAST_QUEUE": redis.url}
            asyncio.run(Fleet(where, commands).run(place, [*targets, "FILE.yaml"][0], as_json=as_json))
    finally:
        if was_there:
            terminal.say(
                "The fleet has stopped, and its data is removed."
                if place is None
                else f"The fleet has stopped. Its runs are kept in {place} for the next `holdfast up`."
            )


def _postgres(place: Path | None) -> PostgresServer:
    """The database: a throwaway one, or that of `place`, on the port that it had if that is free."""
    from holdfast.testing.postgres_server import PostgresServer
    from holdfast.testing.server_process import free_port

    if place is None:
        return PostgresServer()
    place.mkdir(parents=True, exist_ok=True)
    said = place / _PORT
    port = int(said.read_text()) if said.exists() else free_port()
    if not _is_free(port):
        port = free_port()
    said.write_text(f"{port}\n")
    return PostgresServer(archive=place / _DATABASE, port=port)


_PORT: Final = "port"
_DATABASE: Final = "postgres"


def _is_free(port: int) -> bool:
    import socket

    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _remove(place: Path) -> None:
    """Remove what `up` has kept in this folder, and nothing else that may be there."""
    if (place / _DATABASE / "postmaster.pid").exists():
        raise UsageError(
            f"{place} is in use, or its fleet was killed: stop that, or start `holdfast up` once without --fresh."
            " Nothing was removed."
        )
    shutil.rmtree(place / _DATABASE, ignore_errors=True)
    (place / _PORT).unlink(missing_ok=True)


class Fleet:
    """The processes of a fleet, each of them kept running."""

    def __init__(self, environment: Mapping[str, str], commands: Mapping[str, Sequence[str]]) -> None:
        self._where = environment
        self._commands = commands
        self._stopping = asyncio.Event()

    async def run(self, place: Path | None, example: str, *, as_json: bool) -> None:
        """Run until stopped. Raises HoldfastError if one of the processes cannot be kept running."""
        stop = stopped("the processes hand over what they cannot finish")
        async with contextlib.AsyncExitStack() as undo:
            keeping = [asyncio.create_task(self._keep(name, undo)) for name in self._commands]
            undo.push_async_callback(asyncio.wait, keeping)  # last: they relay what the processes say until these end
            told = "\n".join(f"  export {name}={value}" for name, value in self._where.items())
            kept = "memory until Ctrl-C" if place is None else str(place)
            terminal.say(
                f"The fleet is up; it keeps its runs in {kept}. In another terminal:\n{told}\n  holdfast run {example}"
            )
            if as_json:
                terminal.emit(
                    {
                        "store": self._where["HOLDFAST_STORE"],
                        "queue": self._where["HOLDFAST_QUEUE"],
                        "data": None if place is None else str(place),
                    }
                )
                terminal.hand_over()
            await asyncio.wait([stop, *keeping], return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
        for task in keeping:
            task.result()

    async def _keep(self, name: str, undo: contextlib.AsyncExitStack) -> None:
        """Start a process, and again when it ends by itself."""
        ended: deque[float] = deque(maxlen=len(_PAUSES_S))
        now_s = asyncio.get_running_loop().time
        while not self._stopping.is_set():
            process = await child.start(self._commands[name], self._where)
            undo.push_async_callback(child.end, process)
            await child.relay(name, process)
            if self._stopping.is_set():
                return
            if len(ended) == len(_PAUSES_S) and now_s() - ended[0] < _FORGIVEN_S:
                raise HoldfastError(
                    f"The {name} {child.describe_exit(process)} for the {len(ended) + 1}th time in a minute; its output is"
                    " above. The fleet is stopped."
                )
            recent = sum(now_s() - each < _FORGIVEN_S for each in ended)
            ended.append(now_s())
            pause_s = _PAUSES_S[min(recent, len(_PAUSES_S) - 1)]
            terminal.say(f"The {name} {child.describe_exit(process)} by itself. It restarts in {pause_s:g} s; no run is lost.")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._stopping.wait()


EXAMPLES: Final = {"up": "refund.py:refund --workers 2"}
