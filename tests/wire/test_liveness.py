"""Workers that are killed, frozen, cut off, that come back, and that go: what becomes of their jobs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from holdfast.testing.tcp_proxy import TcpProxy
from holdfast.wire import Client
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import Stub
from tests.wire.conftest import Hire
from tests.wire.kit import Server, ended, until


class Held:
    """A job that waits until it is told to go on, and the file in which its workers say that they have begun it."""

    def __init__(self, folder: Path, name: str = "job") -> None:
        self.begun = folder / f"{name}-begun"
        self.go = folder / f"{name}-go"

    @property
    def arguments(self) -> dict[str, str]:
        return {"begun": str(self.begun), "go": str(self.go)}

    async def lines(self, count: int) -> list[list[str]]:
        return [line.split() for line in await asyncio.to_thread(until, self.begun, count)]

    def let_go(self) -> None:
        self.go.touch()


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


async def losses(client: Client, run: str) -> int:
    found = 0
    async for told in client.watch(run):
        found += getattr(told, "type", "") == "AttemptLost"
    return found


async def test_the_job_of_a_killed_worker_goes_to_another(client: Client, hire: Hire, held: Held) -> None:
    first = hire("victim")
    run = await client.submit("hold", held.arguments)
    assert (await held.lines(1))[0][0] == str(first.pid)
    second = hire("heir")
    first.signal(signal.SIGKILL)
    assert (await held.lines(2))[1][0] == str(second.pid)
    held.let_go()
    view = await client.result(run)
    assert (view.output["pid"], await losses(client, run)) == (second.pid, 1)


async def test_a_frozen_worker_is_found_out_and_what_it_says_later_counts_for_nothing(
    client: Client, hire: Hire, held: Held, server: Server
) -> None:
    first = hire("frozen")
    run = await client.submit("hold", held.arguments)
    await held.lines(1)
    second = hire("awake")
    first.signal(signal.SIGSTOP)
    assert (await held.lines(2))[1][0] == str(second.pid)
    server.process.says("Worker frozen is gone: nothing was heard of it")
    held.let_go()
    view = await client.result(run)
    first.signal(signal.SIGCONT)
    server.process.says("Worker frozen is connected", times=2)
    again = await client.query(run)
    assert (again.seq, again.output["pid"]) == (view.seq, second.pid)


async def test_a_worker_that_does_not_acknowledge_a_job_is_half_open(
    client: Client, hire: Hire, held: Held, server: Server
) -> None:
    """It is heard all the time, and what it is given does not arrive."""

    async def deaf() -> AsyncIterator[wire.FromWorker]:
        yield wire.FromWorker(register=wire.Register(name="deaf", instance="one", tasks=["hold"], slots=50))
        while True:
            await asyncio.sleep(0.1)
            yield wire.FromWorker(heartbeat=wire.Heartbeat())

    async with grpc.aio.insecure_channel(server.address) as channel:
        call = Stub(channel, "Workers").Work(deaf())
        assert (await call.read()).WhichOneof("said") == "registered"
        run = await client.submit("hold", held.arguments)
        while (said := await call.read()).WhichOneof("said") != "assign":
            pass
        hearing = hire("hearing", slots=1)
        assert (await held.lines(1))[0][0] == str(hearing.pid)
        server.process.says("Worker deaf is gone: it did not acknowledge the job")
        call.cancel()
    held.let_go()
    assert said.assign.job.startswith(run)
    assert (await client.result(run)).output["pid"] == hearing.pid


async def test_a_worker_that_was_cut_off_comes_back_to_its_job(client: Client, hire: Hire, held: Held, server: Server) -> None:
    """The same attempt, by the same worker, over another stream."""
    with TcpProxy(server.port) as proxy:
        worker = hire("returning", address=f"127.0.0.1:{proxy.port}")
        run = await client.submit("hold", held.arguments)
        await held.lines(1)
        proxy.cut()
        worker.says("Connected to", times=2)
        server.process.says("Worker returning is back, at 1 jobs")
        held.let_go()
        view = await client.result(run)
        assert (view.output["pid"], await losses(client, run), len(await held.lines(1))) == (worker.pid, 0, 1)


async def test_a_result_whose_stream_broke_is_said_again(client: Client, hire: Hire, held: Held, server: Server) -> None:
    with TcpProxy(server.port) as proxy:
        worker = hire("insistent", address=f"127.0.0.1:{proxy.port}")
        run = await client.submit("hold", held.arguments)
        await held.lines(1)
        proxy.closed = True
        proxy.cut()
        held.let_go()
        worker.says("Not connected to")
        proxy.closed = False
        view = await client.result(run)
        assert (view.output["pid"], len(await held.lines(1))) == (worker.pid, 1)


async def test_a_worker_beyond_its_lease_learns_that_another_has_its_job(
    client: Client, hire: Hire, held: Held, server: Server
) -> None:
    with TcpProxy(server.port) as proxy:
        first = hire("lost", address=f"127.0.0.1:{proxy.port}")
        run = await client.submit("hold", held.arguments)
        await held.lines(1)
        second = hire("finder")
        proxy.closed = True
        proxy.cut()
        assert (await held.lines(2))[1][0] == str(second.pid)
        proxy.closed = False
        lines = await held.lines(3)
        assert (lines[2][0], lines[2][1]) == ("cancelled", str(first.pid))
        held.let_go()
        assert (await client.result(run)).output["pid"] == second.pid


async def test_a_worker_that_is_stopped_finishes_what_it_is_at_and_takes_nothing_new(
    client: Client, hire: Hire, server: Server, tmp_path: Path
) -> None:
    old, new = Held(tmp_path, "old"), Held(tmp_path, "new")
    first = hire("leaving")
    run = await client.submit("hold", old.arguments)
    await old.lines(1)
    first.signal(signal.SIGTERM)
    server.process.says("Worker leaving takes no more; it finishes 1 jobs")
    later = await client.submit("hold", new.arguments)
    second = hire("staying")
    assert (await new.lines(1))[0][0] == str(second.pid)
    old.let_go()
    assert (await client.result(run)).output["pid"] == first.pid
    assert await asyncio.to_thread(first.process.wait, 10) == 0
    new.let_go()
    assert (await client.result(later)).output["pid"] == second.pid
    assert await losses(client, run) == 0


async def test_a_second_worker_of_the_same_name_is_refused_until_the_first_is_gone(hire: Hire, server: Server) -> None:
    first = hire("only")
    second = server.worker("only")
    try:
        second.says("A worker called only is connected already")
        first.signal(signal.SIGKILL)
        second.says("Connected to")
    finally:
        second.end()


async def test_the_job_of_a_killed_server_is_called_off_and_done_again_for_the_next(held: Held, tmp_path: Path) -> None:
    """Both are behind one address, which nobody else can take while neither is there."""
    first = Server(tmp_path)
    with ended(first.process), TcpProxy(first.port) as proxy:
        worker = first.worker("loyal", address=f"127.0.0.1:{proxy.port}")
        with ended(worker):
            async with Client.connect(first.address) as client:
                worker.says("Connected to")
                run = await client.submit("hold", held.arguments)
                await held.lines(1)
            first.process.end()
            second = Server(tmp_path)
            with ended(second.process):
                proxy.server_port = second.port
                worker.says("Connected to", times=2)
                lines = await held.lines(3)
                assert sorted(line[-1].rpartition("/")[2] for line in lines) == ["1", "1", "2"]
                assert ["cancelled", str(worker.pid), f"{run}/do#1/1"] in lines
                held.let_go()
                async with Client.connect(second.address) as client:
                    assert (await client.result(run)).output["job"] == f"{run}/do#1/2"
