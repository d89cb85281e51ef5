"""The client of the HTTP API, against a real port."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.client import AsyncClient, Client, exchange
from holdfast.client.exchange import Reply, Request, refusal, request_of, route_of
from holdfast.errors import (
    HoldfastError,
    InvalidDecision,
    InvalidInput,
    KeyReused,
    NotFound,
    NotPermitted,
    RunEnded,
    RunFailed,
    TooManyRuns,
    Unauthorized,
    Unreachable,
    UsageError,
)
from holdfast.http.route import ROUTES
from holdfast.service.access.identity import Holder
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as asked
from holdfast.testing.server_process import free_port
from tests.http.kit import known, served

TEA = {"item": "tea", "count": 2}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[AsyncClient]:
    """One who may do everything."""
    async with served(tmp_path) as port, AsyncClient(port.address, by="ann") as client:
        yield client


async def test_a_run_is_started_approved_and_waited_for(client: AsyncClient) -> None:
    run = await client.start("order", TEA, key="o-1", cost_limit_usd="0.50", wait_s=10)
    assert (run["status"], run["limit_usd"]) == ("waiting", "0.50")
    assert (await client.start("order", TEA, key="o-1"))["run_id"] == run["run_id"]
    waiting = asyncio.create_task(client.result(run["run_id"]))
    (gate,) = [row async for row in client.rows(asked.Gates(run=run["run_id"]))]
    shown = (await client.gate(gate["gate_id"]))["shown_hash"]
    with pytest.raises(NotFound):
        await client.decide(f"{run['run_id']}:none#1")
    ended = await client.acting("ida", ["legal"]).decide(gate["gate_id"], "approve", shown_hash=shown, wait_s=10)
    assert (ended["status"], await waiting) == ("completed", "shipped tea")
    whole = await client.run(run["run_id"])
    assert (whole["started_by"], whole["output"]) == ("ann", "shipped tea")


async def test_a_failed_run_is_raised_with_what_it_says(client: AsyncClient) -> None:
    run = await client.start("order", TEA, wait_s=10)
    await client.execute(cmd.Cancel(run["run_id"], "enough"))
    with pytest.raises(RunFailed) as failed:
        await client.result(run["run_id"])
    assert failed.value.run["status"] == "cancelled"  # type: ignore[attr-defined]


def test_the_one_that_blocks_says_and_hears_the_same(tmp_path: Path) -> None:
    async def answered(talk: Any) -> Any:
        async with served(tmp_path) as port:
            return await asyncio.to_thread(talk, port.address)

    def talk(address: str) -> None:
        with Client(address, by="ida") as client:
            run = client.start("order", TEA, wait_s=10)["run_id"]
            (gate,) = client.rows(asked.Gates(run=run))
            made = client.execute(cmd.MakeGateLink(gate["gate_id"], "ida"))
            assert made is not None
            assert made["opens"]["gate_id"] == gate["gate_id"]
            with pytest.raises(InvalidDecision, match="shown_hash is required"):
                client.decide(gate["gate_id"])
            client.decide(gate["gate_id"], shown_hash=client.gate(gate["gate_id"])["shown_hash"])
            assert client.result(run) == "shipped tea"
            types = [row["type"] for row in client.watch(run)]
            assert (types[0], types[-1]) == ("RunStarted", "RunCompleted")
            assert [row["seq"] for row in client.watch(run, 2)] == list(range(3, len(types) + 1))
            said = client.execute(cmd.OpenConversation(name="chat", workflow="answering"))
            assert said is None
            said = client.execute(cmd.Say(conversation="chat", text="hi", key="m1"))
            assert said is not None
            assert said["number"] == 1
            counting = client.start("counting", 3, wait_s=10)["run_id"]
            client.execute(cmd.Signal(counting, "enough"))
            assert [row["value"] for row in client.listen(counting) if row["kind"] == "value"] == [0, 1, 2]
            assert client.me()["name"] == "ida"
            with pytest.raises(RunEnded):
                client.execute(cmd.Pause(run))

    asyncio.run(answered(talk))


async def test_a_list_is_read_page_by_page(client: AsyncClient) -> None:
    runs = [(await client.start("quick", number))["run_id"] for number in range(5)]
    found = [row["run_id"] async for row in client.rows(asked.Runs(workflow="quick", status=("completed", "running"), limit=2))]
    assert found == runs[::-1]
    told = [row["run_id"] async for row in client.rows(asked.Tail(ends=True, limit=2)) if row["type"] == "RunStarted"]
    assert told == runs
    outcomes = await client.execute_many(cmd.Bulk(action="cancel", workflow="order", status=("waiting",), dry_run=True))
    assert outcomes == ([], None)


# --- As it comes ------------------------------------------------------------------------------------------------------


async def test_a_watcher_hears_each_event_once_over_a_restart(tmp_path: Path) -> None:
    address, heard = f"127.0.0.1:{free_port()}", []
    at_gate = asyncio.Event()

    async def watch(client: AsyncClient, run: str) -> None:
        async for row in client.watch(run):
            heard.append(row["seq"])
            if row["type"] == "GateOpened":
                at_gate.set()

    async with AsyncClient(f"http://{address}", by="ida") as client:
        async with served(tmp_path, address=address):
            run = (await client.start("order", TEA, wait_s=10))["run_id"]
            watching = asyncio.create_task(watch(client, run))
            await at_gate.wait()
        async with served(tmp_path, address=address):
            (gate,) = (await client.query(asked.Gates(run=run))).rows
            shown = (await client.gate(gate["gate_id"]))["shown_hash"]
            await client.decide(gate["gate_id"], shown_hash=shown, wait_s=10)
            await watching
            rows = [row["seq"] async for row in client.rows(asked.Events(run=run, limit=5))]
    assert heard == rows


async def test_a_watcher_may_leave(client: AsyncClient) -> None:
    run = (await client.start("counting", 2, wait_s=10))["run_id"]
    async with aclosing(client.watch(run)) as watching:
        assert (await anext(watching))["type"] == "RunStarted"
    with pytest.raises(NotFound):
        await anext(client.watch(run[:-4] + "0000"))


# --- Refusals ---------------------------------------------------------------------------------------------------------


async def test_what_the_server_refuses_is_raised_as_it_is_there(client: AsyncClient) -> None:
    with pytest.raises(NotFound, match="no workflow"):
        await client.start("nothing")
    with pytest.raises(InvalidInput):
        await client.start("order", {"count": "many"})
    with pytest.raises(InvalidInput):
        await client.query(asked.Runs(limit=5000))
    with pytest.raises(InvalidInput, match="no status 'sad'; there are completed"):
        await client.query(asked.Runs(status=("sad",)))
    with pytest.raises(InvalidInput, match="no state 'sad'; there are intended"):
        await client.query(asked.Effects(state="sad"))
    await client.start("order", TEA, key="k")
    with pytest.raises(KeyReused) as reused:
        await client.start("order", {**TEA, "count": 5}, key="k")
    assert len(reused.value.trace_id) == 32  # type: ignore[attr-defined]
    await client.execute(cmd.SetAdmission(runs=0))
    with pytest.raises(TooManyRuns) as many:
        await client.start("quick")
    assert many.value.retry_after_s > 0


async def test_tokens_are_distinguished_and_never_printed(tmp_path: Path) -> None:
    identity = known(everyone=Holder("everyone"), acme=Holder("acme", tenant="acme"))
    async with served(tmp_path, identity) as port:
        async with AsyncClient(port.address, "acme" * 4) as client:
            me = await client.me()
            assert (me["name"], me["verified"], me["tenant"], me["may"]) == ("acme", True, "acme", ["admin"])
            assert "acmeacme" not in f"{client!r} {client._server!r}"
            with pytest.raises(NotPermitted):
                await client.query(asked.Budget(tenant="globex"))
        async with AsyncClient(port.address) as client:
            with pytest.raises(Unauthorized):
                await client.me()


async def test_a_missing_server_is_reported() -> None:
    async with AsyncClient(f"http://127.0.0.1:{free_port()}") as client:
        with pytest.raises(Unreachable, match="Nothing was done"):
            await client.start("quick")


@pytest.mark.parametrize("address", ["http://db.example:8000", "ftp://localhost", "localhost:8000", "http://u:p@localhost"])
def test_an_address_at_which_a_token_could_be_read_is_refused(address: str) -> None:
    with pytest.raises(UsageError) as refused:
        Client(address, "secret" * 4)
    assert "secret" not in str(refused.value)


def test_another_machine_is_asked_in_clear_text_only_on_request() -> None:
    Client("http://db.example:8000", insecure=True).close()
    Client("https://db.example:8000").close()


@pytest.mark.parametrize("name", ["Zoë ✓", "ann\r\nHoldfast-Roles: legal"])
def test_a_name_that_no_header_can_say_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Client("http://localhost:1", by=name)


# --- What is said -----------------------------------------------------------------------------------------------------


def test_every_route_is_found_by_what_it_says() -> None:
    """One path for each thing that can be said; the paths of parts of lists are what the query itself can say
    too."""
    found = {route_of(_example(route.what, route.in_path)).path for route in ROUTES}
    assert {route.path for route in ROUTES} - found == {"/runs/{parent}/children"}


def _example(kind: Any, named: tuple[str, ...]) -> Any:
    fields = {each.name: "x" for each in msgspec.structs.fields(kind) if each.required}
    return kind(**fields | dict.fromkeys(named, "x"))


def test_an_id_is_one_part_of_a_path() -> None:
    request = request_of(cmd.Decide("0-1:pay/er#1", "answer", None))
    assert (request.method, request.path) == ("POST", "/gates/0-1%3Apay%2Fer%231/decision")
    assert (request.body, request.may_repeat) == (b'{"decision":"answer","data":null}', False)
    assert request_of(asked.Gates(all=True)).params == {"all": "true"}
    with pytest.raises(UsageError, match="JSON"):
        request_of(cmd.Start(workflow="w", input=object()))


def _tries(talk: Any, *replies: Reply | Unreachable) -> list[Request]:
    """What a talk says to these replies."""
    said = [next(talk)]
    with suppress(StopIteration, HoldfastError):
        for reply in replies:
            said.append(talk.send(reply))  # noqa: PERF401 - what was said before the end counts
    return said


def test_only_what_does_nothing_twice_is_said_again() -> None:
    lost, away = Unreachable("lost"), Reply(503, {}, b"")
    there = Reply(200, {}, b'{"rows": [], "cursor": null}')
    assert len(_tries(exchange.query(asked.Runs()), lost, away, there)) == 3
    assert len(_tries(exchange.query(asked.Runs()), *[lost] * 9)) == 5
    assert len(_tries(exchange.execute(cmd.Start(workflow="w")), lost)) == 1
    tries = _tries(exchange.execute(cmd.Start(workflow="w", key="k")), *[away] * 9)
    assert [each.after_s > 0 for each in tries] == [False, True, True, True, True]
    assert len(_tries(exchange.execute(cmd.WriteSharedValue(space="s", key="k")), lost)) == 1


def test_what_a_proxy_says_on_the_way_is_no_riddle() -> None:
    assert isinstance(refusal(Reply(502, {}, b"<html>")), Unreachable)
    assert "404 Not Found" in refusal(Reply(404, {}, b"")).message


def test_importing_it_loads_no_server_and_no_engine() -> None:
    program = "import sys, holdfast.client; print(*[m for m in sys.modules if m.startswith(('fastapi', 'starlette', 'grpc', 'holdfast.engine', 'holdfast.stores', 'holdfast.compose'))])"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()
    assert loaded == ""


async def test_former_names_of_methods_still_work_and_warn(client: AsyncClient) -> None:
    with pytest.warns(DeprecationWarning, match=r"tell\(\) has become execute\(\)"):
        started = await client.tell(cmd.Start(workflow="order", input=TEA))
    with pytest.warns(DeprecationWarning, match=r"ask\(\) has become query\(\)"):
        (run,) = (await client.ask(asked.Runs())).rows
    with pytest.warns(DeprecationWarning, match=r"tell_many\(\) has become execute_many\(\)"):
        (row,) = (await client.tell_many(cmd.Bulk(action="cancel", dry_run=True))).rows
    assert started["run_id"] == run["run_id"] == row["run_id"]
