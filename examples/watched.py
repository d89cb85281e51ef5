"""The console of an example, for a person who wants to look: its address, and all of it until Ctrl-C.

It answers in the process of the example, by the example's engine and its time. Never here: executing anything.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_urlsafe

from examples.show import Show, Verdict
from examples.stage import LOOPBACK, StageError
from holdfast import Engine
from holdfast.compose.api import CODE, HttpPort, answering
from holdfast.http import console
from holdfast.service.access.identity import Identity
from holdfast.service.service import Service

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add `--console` to the options of an example."""
    parser.add_argument(
        "--console", action="store_true", help="print the address of a console, and let it be looked at until Ctrl-C"
    )


@asynccontextmanager
async def watched(engine: Engine, directory: Path, show: Show, *, is_wanted: bool) -> AsyncIterator[None]:
    """Serve the console of an engine inside a block, if it is wanted. Raises StageError where it is not built."""
    if not is_wanted:
        yield
        return
    if not console.find().is_built:
        raise StageError(console.MISSING.strip())
    folder, code = directory / "console", token_urlsafe(24)
    folder.mkdir()
    (folder / CODE).write_text(code)
    port = HttpPort(f"{LOOPBACK}:0", Identity(token_urlsafe(24)), browser=folder)
    async with answering(Service(engine, []), port, lambda _: None) as address:
        show.say(f"The console, at an address that works once: {address}/?code={code}", "good")
        yield


async def hold(verdict: Verdict, show: Show, *, is_wanted: bool) -> Verdict:
    """Show what happened; if the console is wanted, keep it until Ctrl-C."""
    show.verdict(verdict)
    if is_wanted:
        show.say("The console can be looked at until Ctrl-C.")
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        for number in STOPS:
            loop.add_signal_handler(number, stopped.set)
        try:
            await stopped.wait()
        finally:
            for number in STOPS:
                loop.remove_signal_handler(number)
        show.say("Stopped. Every process of the demo ends.")
    return verdict
