"""`holdfast worker --connect`: a worker that has no store, and does the tasks that a serving process gives it.

Never here: how it speaks with that process (wire).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.cli.page import terminal
from holdfast.cli.process.stopping import stopped
from holdfast.errors import UsageError
from holdfast.platform.extra import needs

if TYPE_CHECKING:
    from holdfast.wire.task import Tasks


class Connection(NamedTuple):
    """The server of a connected worker, its name there, and its resources."""

    addresses: Sequence[str]
    token_file: Path | None
    ca: Path | None
    certificate: Path | None
    key: Path | None
    offer: Any


def work(targets: Sequence[str], connection: Connection, *, shell: bool) -> None:
    """Work until stopped; then finish what runs. `shell`: run scripts too."""
    from holdfast.cli.target import load_tasks

    tasks = _together([load_tasks(target) for target in targets])
    if not tasks.bodies and not shell:
        raise UsageError(
            "This worker has nothing to execute: name a file with tasks, or pass --shell for jobs of workflow files."
        )
    with terminal.aside():
        asyncio.run(_work(tasks, connection, shell))


def _together(several: Sequence[Tasks]) -> Tasks:
    from holdfast.wire.task import Tasks

    all_ = Tasks()
    for tasks in several:
        for name, body in tasks.bodies.items():
            all_.task(name)(body)
    return all_


async def _work(tasks: Tasks, connection: Connection, shell: bool) -> None:
    with needs("fleet", "A connected worker"):
        from holdfast.service.access.identity import read_token
        from holdfast.wire import credential
        from holdfast.wire.shell import offer_shell
        from holdfast.wire.worker import Worker
    if shell:
        offer_shell(tasks)
    trust = credential.Trust(read_token(connection.token_file), connection.ca, connection.certificate, connection.key)
    worker = Worker(tasks, connection.addresses, connection.offer, trust, terminal.say)
    stop = stopped("nothing new is taken. What runs is finished; once more to leave at once")
    working = asyncio.ensure_future(worker.run())
    await asyncio.wait([stop, working], return_when=asyncio.FIRST_COMPLETED)
    if stop.done():
        worker.drain()
    else:
        stop.cancel()
    await working
    terminal.say("All work is finished and reported.")
