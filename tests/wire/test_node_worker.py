"""The worker in JavaScript under examples/: any language will do."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.testing.model_server import ModelServer
from holdfast.wire import Client
from tests.wire.kit import HERE, Process, Server, ended, until

EXAMPLE = HERE.parents[1] / "examples" / "node_worker"

pytestmark = [
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(
        not (EXAMPLE / "node_modules").exists(), reason="what the worker in JavaScript needs is not installed: make setup"
    ),
]

Node = Callable[[str], Process]


@pytest.fixture
def node(server: Server) -> Iterator[Node]:
    started: list[Process] = []

    def start(name: str) -> Process:
        words = ["node", str(EXAMPLE / "worker.mjs"), server.address, str(HERE / "tasks.mjs")]
        named = os.environ | {"WORKER_NAME": name}
        worker = Process(
            subprocess.Popen(words, cwd=server.folder, env=named, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        )
        started.append(worker)
        worker.says(f"Connected to .* as {name}")
        return worker

    yield start
    with ended(*started):
        pass


async def test_it_does_a_task_and_has_the_server_call_the_model(client: Client, node: Node, models: ModelServer) -> None:
    node("artist")
    view = await client.result(await client.submit("picture", {"draw": "a house"}))
    assert view.output["node"].startswith("v")
    assert [call.user for call in models.calls] == ["draw a house"]
    failed = await client.result(await client.submit("picture", {"draw": "badly"}))
    assert failed.error is not None
    assert (failed.error["error_class"], failed.error["message"]) == ("validation", "no pencil")


async def test_its_job_is_called_off_when_the_run_is_cancelled(client: Client, node: Node, tmp_path: Path) -> None:
    node("obedient")
    begun = tmp_path / "begun"
    run = await client.submit("hold", {"begun": str(begun), "go": str(tmp_path / "go")})
    await asyncio.to_thread(until, begun)
    await client.cancel(run)
    assert (await asyncio.to_thread(until, begun, 2))[1].startswith("cancelled ")


async def test_a_killed_workers_job_goes_to_another_and_a_stopped_worker_finishes_its_own(
    client: Client, node: Node, tmp_path: Path
) -> None:
    first = node("victim")
    begun, go = tmp_path / "begun", tmp_path / "go"
    run = await client.submit("hold", {"begun": str(begun), "go": str(go)})
    await asyncio.to_thread(until, begun)
    second = node("heir")
    first.signal(signal.SIGKILL)
    assert (await asyncio.to_thread(until, begun, 2))[1].startswith(f"{second.pid} ")
    second.signal(signal.SIGTERM)
    go.touch()
    assert (await client.result(run)).output == {"pid": second.pid}
    assert await asyncio.to_thread(second.process.wait, 10) == 0
