"""Requests to stop: the first SIGINT or SIGTERM is heard, the second ends the process at once.

Never here: what stopping means to a command.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from holdfast.cli.page import terminal

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def stopped(words: str) -> asyncio.Future[None]:
    """Done with the first signal; `words` say what follows from it, and may name nothing that changes meanwhile."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[None] = loop.create_future()

    def stop(received: signal.Signals) -> None:
        for each in SIGNALS:
            loop.remove_signal_handler(each)
        terminal.say(f"{received.name}: {words}.")
        heard.set_result(None)

    for each in SIGNALS:
        loop.add_signal_handler(each, stop, each)
    return heard
