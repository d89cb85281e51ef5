"""A worker of the demo: `python -m examples.negotiation.worker STORE TIME`, until it is told to stop, or killed.

A store whose time leaps is opened in Python; any other has `holdfast worker`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from examples.negotiation.workflow import wf
from holdfast import Engine
from holdfast.testing import VirtualTime


async def work(store: Path, time: VirtualTime) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    async with time.store(store) as opened, Engine.open(opened, workflows=[wf]):
        await stopped.wait()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), VirtualTime(Path(sys.argv[2]))))
