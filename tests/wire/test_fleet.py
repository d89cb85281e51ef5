"""Connected workers in a fleet: the lane has a leader, and their tasks are found by the process that they are connected to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from holdfast.testing.redis_server import RedisServer
from holdfast.wire import Client
from tests.wire.kit import FLOWS, Server, ended, holdfast

KNOWN_S = 2.5
"""By then the serving process has heard that another leads: it asks once a second."""


async def test_a_task_is_done_whoever_leads_and_wherever_its_run_was_started(database: str, tmp_path: Path) -> None:
    with RedisServer() as redis:
        fleet = {"HOLDFAST_STORE": database, "HOLDFAST_QUEUE": redis.url}
        leader = holdfast("serve", "--port", "0", folder=tmp_path, **fleet)
        with ended(leader):
            leader.says("This process leads")
            server = Server(tmp_path, store=database, **fleet)
            with ended(server.process):
                worker = server.worker("hand")
                with ended(worker):
                    worker.says("Connected to")
                    async with Client.connect(server.address) as client:
                        until_s = time.monotonic() + KNOWN_S
                        while time.monotonic() < until_s:
                            here = await client.result(await client.submit("echo", 1))
                            assert here.output["said"] == 1
                        words = ["run", f"{FLOWS}:echo", "--input", "2", "--detach", "--json", "--store", database]
                        subprocess.run(
                            [sys.executable, "-m", "holdfast", *words], cwd=tmp_path, check=True, capture_output=True,
                            env=os.environ | fleet,
                        )  # fmt: skip
                        (there,) = await client.list_(workflow="echo", limit=1)
                        assert (await client.result(there.run)).output["said"] == 2
