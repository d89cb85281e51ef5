"""From a job's completion to its dependent's start, on a worker that is connected over gRPC.

    python bench/grpc_latency.py [--jobs-per-s 500] [--seconds 20] [--store sqlite|postgres]

Starts `holdfast serve --grpc` and a worker, each a process of its own, and submits runs of ten remote tasks in a row at a
steady rate. *Hand over* is from the last line of one task's body to the first of the next one's: the result goes to the
server, is committed together with the start of what follows, and the next job comes back. *Ping* is a message and its echo
over a bidirectional stream between two processes of the same kind, at the same rate and with nothing else going on. Prints
one JSON line, times in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from holdfast import Workflow, remote_task
from holdfast.platform.machine import collect_rarely
from holdfast.testing.postgres_server import PostgresServer
from holdfast.wire import Client, Job, Tasks, Worker
from holdfast.wire.capabilities import WorkerCapabilities

LENGTH = 10
TASK = "pass"
_START_S = 20.0
_SETTLING_S = 2.0
"""Left out at the beginning."""
_PING = "/bench.Ping/Echo"


def chained() -> Workflow:
    workflow = Workflow("chain")
    for number in range(LENGTH):

        @remote_task(task=TASK)
        def arguments(state: Any) -> Any:
            return {"text": "x" * 200}

        workflow.node(f"n{number}")(arguments)
        if number:
            workflow.edge(f"n{number - 1}", f"n{number}")
    return workflow


chain = chained()


async def work(address: str) -> None:
    """The worker: does the jobs, and says at its end how long each run's next job took to come."""
    tasks, ended, found = Tasks(), dict[str, float](), []

    @tasks.task(TASK)
    async def pass_on(job: Job, arguments: Any) -> Any:
        now_s = time.perf_counter()
        run = job.id.partition("/")[0]
        if run in ended:
            found.append((now_s, now_s - ended[run]))
        ended[run] = time.perf_counter()
        return arguments

    worker = Worker(tasks, [address], WorkerCapabilities("bench", slots=500), tell=lambda words: print(words, flush=True))  # noqa: T201
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.drain)
    collect_rarely()
    await worker.run()
    if not found:
        raise SystemExit("no job was done")
    since_s = found[0][0] + _SETTLING_S
    print(json.dumps([took for at, took in found if at >= since_s]), flush=True)  # noqa: T201


async def echo() -> None:
    """The other side of the ping."""

    async def back(said: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        async for message in said:
            yield message

    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(back)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bench.Ping", {"Echo": handler}),))
    print("port", server.add_insecure_port("127.0.0.1:0"), flush=True)  # noqa: T201
    await server.start()
    await server.wait_for_termination()


async def started(role: str, *words: str, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        "--role",
        role,
        *words,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )


async def line(stream: asyncio.StreamReader, pattern: str) -> re.Match[str]:
    """The first line that fits."""
    async with asyncio.timeout(_START_S):
        while said := (await stream.readline()).decode():
            if match := re.search(pattern, said):
                return match
    raise SystemExit(f"it ended without saying {pattern}")


async def ping(rate: float, count: int) -> list[float]:
    process = await started("echo")
    assert process.stdout is not None
    try:
        port = (await line(process.stdout, r"port (\d+)"))[1]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.stream_stream(_PING)()
            took = []
            for _ in range(count):
                began_s = time.perf_counter()
                await call.write(b"x" * 300)
                await call.read()
                took.append(time.perf_counter() - began_s)
                await asyncio.sleep(max(0.0, 1 / rate - took[-1]))
            call.cancel()
            return took
    finally:
        process.kill()
        await process.wait()


async def load(address: str, rate: float, seconds: float) -> int:
    """Submit runs at a steady rate, whatever becomes of them; how many."""
    began_s, submitted, pending = time.perf_counter(), 0, set[asyncio.Task[Any]]()
    async with Client.connect(address) as client:
        while (passed_s := time.perf_counter() - began_s) < seconds:
            while submitted < passed_s * rate / LENGTH:
                submitted += 1
                task = asyncio.create_task(client.submit("chain"))
                pending.add(task)
                task.add_done_callback(pending.discard)
            await asyncio.sleep(0.002)
        await asyncio.gather(*pending)
        last = (await client.list_(limit=1))[0].run
        await client.result(last)
    return submitted


async def measure(rate: float, seconds: float, store: str) -> dict[str, Any]:
    """The figures of one run."""
    pings = await ping(rate, 2000)
    serving = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "holdfast",
        "serve",
        f"{__file__}:chain",
        "--grpc",
        "127.0.0.1:0",
        "--port",
        "0",
        "--slots",
        "500",
        "--store",
        store,
        stderr=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    assert serving.stderr is not None
    worker = None
    try:
        address = (await line(serving.stderr, r"gRPC on (.*?:\d+), store"))[1]
        telling = asyncio.create_task(serving.stderr.read())
        worker = await started("worker", "--address", address)
        assert worker.stdout is not None
        await line(worker.stdout, "Connected")
        began_s, idle_s = time.perf_counter(), _cpu_s(serving.pid)
        runs = await load(address, rate, seconds)
        jobs_per_s = runs * LENGTH / (time.perf_counter() - began_s)
        cpu_s = _cpu_s(serving.pid) - idle_s
        worker.terminate()
        found: list[float] = json.loads((await line(worker.stdout, r"^\[.*"))[0])
        serving.terminate()
        await telling
        await serving.wait()
    finally:
        for process in (serving, worker):
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()
    return {
        "jobs_per_s": round(jobs_per_s),
        "jobs": runs * LENGTH,
        "hand_over_ms": spread(found),
        "ping_ms": spread(pings),
        "server_ms_cpu_a_job": round(1000 * cpu_s / (runs * LENGTH), 2),
    }


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spread(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles([1000 * each for each in seconds], n=100)
    return {f"p{part}": round(cuts[part - 1], 2) for part in (50, 95, 99)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--role", choices=("main", "worker", "echo"), default="main", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    parser.add_argument("--jobs-per-s", type=float, default=500)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    given = parser.parse_args()
    if given.role == "worker":
        asyncio.run(work(given.address))
    elif given.role == "echo":
        asyncio.run(echo())
    else:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            store = f"{folder}/runs.db" if given.store == "sqlite" else stack.enter_context(PostgresServer()).url
            print(json.dumps(asyncio.run(measure(given.jobs_per_s, given.seconds, store))))  # noqa: T201


if __name__ == "__main__":
    main()
