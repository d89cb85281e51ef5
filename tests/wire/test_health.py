"""Whether a server does its work, by the standard service for that: the same that its HTTP port says, and for everybody."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from holdfast.errors import StoreError
from holdfast.observe.readiness import Readiness
from holdfast.testing.postgres_server import PostgresServer
from holdfast.wire import health
from tests.engine.kit import bounded
from tests.wire.kit import FLOWS, MAX_S, Server, ended, holdfast, until
from tests.wire.test_tokens import CLIENT, Port, port  # noqa: F401 - a fixture

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
SERVICES = ("", "holdfast.v1.Workflows", "holdfast.v1.Workers")


@asynccontextmanager
async def asking(address: str) -> AsyncIterator[Any]:
    """The stub of the official package, on a connection of its own."""
    async with grpc.aio.insecure_channel(address, (("grpc.use_local_subchannel_pool", 1),)) as channel:
        yield health_pb2_grpc.HealthStub(channel)


async def status(stub: Any, service: str = "") -> Any:
    return (await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=MAX_S)).status


def http(base: str, path: str) -> int:
    try:
        with urllib.request.urlopen(f"{base}{path}", timeout=MAX_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as problem:
        return problem.code


def ready() -> Readiness:
    async def reach() -> None:
        pass

    return Readiness(lambda: None, reach)


async def test_the_server_and_each_of_its_services_are_up_for_who_has_no_token(port: Port) -> None:  # noqa: F811
    async with asking(port.address) as stub:
        assert await status(stub) == NOT_SERVING, "nobody has said yet that the process is ready"
        port.server.readiness = ready()
        assert [await status(stub, service) for service in SERVICES] == [SERVING] * 3
        listed = (await stub.List(health_pb2.HealthListRequest(), timeout=MAX_S)).statuses
        assert {name: each.status for name, each in listed.items()} == dict.fromkeys(SERVICES, SERVING)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await status(stub, "holdfast.v1.Console")
        assert refused.value.code() == grpc.StatusCode.NOT_FOUND
        unknown = stub.Watch(health_pb2.HealthCheckRequest(service="holdfast.v1.Console"), timeout=MAX_S)
        assert (await unknown.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        unknown.cancel()


async def test_health_is_down_while_a_process_starts_stops_fails_or_misses_its_store(port: Port) -> None:  # noqa: F811
    problem: list[Exception] = []
    given_up: list[Exception] = []

    async def reach() -> None:
        for each in problem:
            raise each

    port.server.readiness = readiness = Readiness(lambda: next(iter(given_up), None), reach)
    async with asking(port.address) as stub, asyncio.timeout(MAX_S):
        watching = aiter(stub.Watch(health_pb2.HealthCheckRequest()))
        assert (await anext(watching)).status == SERVING
        problem.append(StoreError("It is away."))
        assert (await anext(watching)).status == NOT_SERVING
        assert (await status(stub), await readiness.reaches()) == (NOT_SERVING, False)
        problem.clear()
        assert (await anext(watching)).status == SERVING
        given_up.append(StoreError("It is over."))
        assert (await anext(watching)).status == NOT_SERVING
        given_up.clear()
        assert (await anext(watching)).status == SERVING
        port.server.service = None
        assert await status(stub, "holdfast.v1.Workers") == NOT_SERVING
        assert (await anext(watching)).status == NOT_SERVING


@bounded
async def test_the_store_is_asked_once_however_many_ask_about_health(port: Port) -> None:  # noqa: F811
    reached = 0

    async def reach() -> None:
        nonlocal reached
        reached += 1
        await asyncio.sleep(0.05)

    port.server.readiness = Readiness(lambda: None, reach)
    async with asking(port.address) as stub:
        assert await asyncio.gather(*(status(stub) for _ in range(100))) == [SERVING] * 100
    assert reached <= 3, "once a second at most"


async def test_both_ports_of_a_process_say_the_same_while_its_store_is_away(tmp_path: Path) -> None:
    with PostgresServer() as store:
        server = Server(tmp_path, "--json", store=store.url)
        with ended(server.process):
            base = re.findall(r"http://\S+?(?=\.\s)", server.process.says("health and metrics on .*").string)[0]
            await reached(server.address, SERVING)
            assert http(base, "/readyz") == 200
            store.stop(signal.SIGQUIT)
            await reached(server.address, NOT_SERVING)
            assert (http(base, "/readyz"), http(base, "/healthz")) == (503, 200)
            store.restart()
            await reached(server.address, SERVING)
            assert http(base, "/readyz") == 200


async def reached(address: str, wanted: Any) -> None:
    """Wait for a status, on a connection that is closed afterwards: gRPC bears no process that is started meanwhile."""
    async with asking(address) as stub, asyncio.timeout(MAX_S):
        async for told in stub.Watch(health_pb2.HealthCheckRequest()):
            if told.status == wanted:
                return


async def test_a_server_that_finishes_its_jobs_is_down_until_it_has_gone(tmp_path: Path) -> None:
    server = Server(tmp_path)
    with ended(server.process):
        worker = server.worker("hand")
        with ended(worker):
            worker.says("Connected to")
            given = json.dumps({"begun": str(tmp_path / "begun"), "go": str(tmp_path / "go")})
            words = ("run", f"{FLOWS}:hold", "--input", given, "--detach", "--store", str(tmp_path / "runs.db"))
            starting = holdfast(*words, folder=tmp_path)
            with ended(starting):
                await asyncio.to_thread(until, tmp_path / "begun")
                async with asking(server.address) as stub:
                    assert await status(stub) == SERVING
                    watching = stub.Watch(health_pb2.HealthCheckRequest(service="holdfast.v1.Workers"))
                    assert (await watching.read()).status == SERVING
                    server.process.signal(signal.SIGTERM)
                    assert (await asyncio.wait_for(watching.read(), MAX_S)).status == NOT_SERVING
                    assert await status(stub) == NOT_SERVING
                    (tmp_path / "go").touch()
                    assert await asyncio.to_thread(server.process.process.wait, MAX_S) == 0


# --- How much of it there may be --------------------------------------------------------------------------------------


async def test_probes_that_say_nothing_keep_neither_clients_nor_other_probes_out(
    port: Port,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "_READ_S", MAX_S)
    silence, silent = asyncio.Event(), 0

    async def nothing() -> AsyncIterator[bytes]:
        nonlocal silent
        silent += 1
        await silence.wait()
        yield b""

    port.server.readiness = ready()
    async with grpc.aio.insecure_channel(port.address) as channel, asyncio.timeout(MAX_S):
        check = channel.stream_unary("/grpc.health.v1.Health/Check")
        calls = [check(nothing(), timeout=MAX_S) for _ in range(40)]
        while silent < len(calls):
            await asyncio.sleep(0.005)
        async with port.client(CLIENT) as ops:
            assert await ops.list_() == []
        silence.set()
        assert {await each.code() for each in calls} <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
        async with asking(port.address) as stub:
            assert await status(stub) == SERVING


async def test_a_probe_that_says_nothing_is_ended_in_words(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(health, "_READ_S", 0.05)

    async def nothing() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async with grpc.aio.insecure_channel(port.address) as channel:
        for name in ("Check", "Watch"):
            call = channel.stream_stream(f"/grpc.health.v1.Health/{name}")(nothing(), timeout=MAX_S)
            assert (await call.code(), await call.details()) == (
                grpc.StatusCode.INVALID_ARGUMENT,
                "This call sent nothing within 0.05 s. Nothing was done.",
            )


async def test_so_many_watch_from_one_address_and_no_more(port: Port) -> None:  # noqa: F811
    port.server.readiness = ready()
    async with asking(port.address) as stub, asyncio.timeout(MAX_S):
        watching = [stub.Watch(health_pb2.HealthCheckRequest()) for _ in range(health._WATCHERS // 2)]
        for each in watching:
            assert (await each.read()).status == SERVING
        refused = stub.Watch(health_pb2.HealthCheckRequest())
        assert await refused.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await status(stub) == SERVING, "checks have turns of their own"
        for each in watching:
            each.cancel()
        while (again := await _first(stub)) is None:
            await asyncio.sleep(0.01)
        assert again == SERVING


async def _first(stub: Any) -> Any:
    call = stub.Watch(health_pb2.HealthCheckRequest())
    try:
        return (await call.read()).status
    except grpc.aio.AioRpcError:
        return None
    finally:
        call.cancel()
