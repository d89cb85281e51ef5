"""Connected workers in a fleet: the lane has a leader, and their tasks are found by the process that they are connected to."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.redis_server import RedisServer
from holdfast.wire import Client
from tests.stores.story import ended as ended_runs
from tests.wire.kit import FLOWS, MAX_S, TASKS, Server, ended, holdfast

KNOWN_S = 2.5
"""By then the serving process has heard that another leads: it asks once a second."""


async def test_a_task_is_done_whichever_process_leads_and_wherever_its_run_was_started(database: str, tmp_path: Path) -> None:
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
                            [sys.executable, "-m", "holdfast", *words],
                            cwd=tmp_path,
                            check=True,
                            capture_output=True,
                            env=os.environ | fleet,
                        )
                        (there,) = await client.list_(workflow="echo", limit=1)
                        assert (await client.result(there.run)).output["said"] == 2


async def test_serving_a_file_archives_its_old_months(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text("[retention]\nhot_days = 30\n")
    store = await SqliteStore.connect(tmp_path / "runs.db")
    (run,) = await ended_runs(store, 1)
    server = Server(tmp_path)
    with ended(server.process):
        async with asyncio.timeout(MAX_S):
            while (await store.tail.after(None, 1))[0]:  # the events are in the table
                await asyncio.sleep(0.05)
        assert await store.log.events(run.run) == tuple(run.history)
    await store.aclose()


async def test_a_fleet_to_try_out_takes_clients_and_workers(tmp_path: Path) -> None:
    fleet = holdfast("up", f"{FLOWS}:echo", "--workers", "1", "--grpc", "127.0.0.1:0", "--throwaway", folder=tmp_path)
    with ended(fleet):
        address = fleet.says(r"\[serve\] gRPC on (.*?:\d+), store")[1]
        worker = holdfast("worker", TASKS, "--connect", address, "--name", "hand", folder=tmp_path)
        with ended(worker):
            worker.says("Connected to")
            async with Client.connect(address) as client:
                assert (await client.result(await client.submit("echo", 1))).output["said"] == 1
        assert fleet.stop() == 0
