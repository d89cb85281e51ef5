"""What clients may ask of a serving process, and what they are told when it cannot be."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from holdfast.errors import (
    AlreadyDecided,
    Conflict,
    DecisionRefused,
    HoldfastError,
    InvalidDecision,
    InvalidInput,
    KeyReused,
    NotFound,
    UsageError,
)
from holdfast.testing.model_server import ModelServer
from holdfast.wire import Client, Trust
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import OPTIONS, Stub
from holdfast.wire.client import Event, RunView
from tests.wire.conftest import Hire
from tests.wire.kit import Server, ended

SECRET = "s" * 32
PEM = Path(__file__).parents[1] / "tools" / "localhost.pem"
FILE = """
name: greeting
jobs:
  greet:
    runs-on: any
    steps:
      - id: say
        run: echo "word=hello" >> "$GITHUB_OUTPUT"
    outputs:
      word: ${{ steps.say.outputs.word }}
"""


async def gate_of(client: Client, run: str) -> str:
    """Wait for the gate of a run."""
    async for told in client.watch(run):
        if isinstance(told, Event) and told.type == "GateOpened":
            return str(told.fields["gate"])
    raise AssertionError("it has ended without a gate")


async def hash_of(client: Client, gate: str) -> str:
    """Return the hash of what a gate shows."""
    return str((await client.gate(gate))["shown_hash"])


async def test_a_watcher_misses_nothing_of_a_run_that_is_ahead_of_the_store(client: Client) -> None:
    async def watched(run: str) -> list[int]:
        seen: list[int] = []
        async for told in client.watch(run):
            if isinstance(told, RunView):
                assert told.seq == len(seen), "a view comes after all that it shows"
            else:
                seen.append(told.seq)
        return seen

    runs = [await client.submit("chain", by="ann") for _ in range(20)]
    for seen in await asyncio.gather(*map(watched, runs)):
        assert seen == list(range(1, len(seen) + 1))
        assert len(seen) > 20


async def test_a_watcher_gets_every_event_once_and_then_the_end(client: Client) -> None:
    run = await client.submit("gated", by="ann")
    gate = await gate_of(client, run)
    waiting = await client.query(run)
    assert (waiting.status, [wait["kind"] for wait in waiting.waiting_for]) == ("waiting", ["gate"])

    async def told() -> list[Event | RunView]:
        return [each async for each in client.watch(run, after=1)]

    watching = asyncio.create_task(told())
    view = await client.decide(gate, "approve", by="ida", shown_hash=await hash_of(client, gate))
    heard = await watching
    seqs = [each.seq for each in heard if isinstance(each, Event)]
    assert seqs == list(range(2, view.seq + 1))
    assert isinstance(heard[-1], RunView)
    assert heard[-1].status == "completed"


async def test_a_second_decision_learns_who_was_first(client: Client) -> None:
    gate = await gate_of(client, await client.submit("gated"))
    with pytest.raises(InvalidDecision, match="shown_hash is required"):
        await client.decide(gate, "approve", by="ida")
    await client.decide(gate, "approve", by="ida", shown_hash=await hash_of(client, gate))
    with pytest.raises(AlreadyDecided, match="ida"):
        await client.decide(gate, "reject", by="bob")


async def test_only_those_who_are_asked_decide(client: Client) -> None:
    gate = await gate_of(client, await client.submit("gated"))
    shown = await hash_of(client, gate)
    for by, roles in (("", ()), ("bob", ()), ("bob", ("sales",))):
        with pytest.raises(DecisionRefused, match="It is still open"):
            await client.decide(gate, by=by, roles=roles, shown_hash=shown)
    with pytest.raises(DecisionRefused, match="Decide `edit`"):
        await client.decide(gate, "approve", {"edited_body": "no!"}, by="ida", shown_hash=shown)
    assert (await client.decide(gate, by="bob", roles=["ida"], shown_hash=shown)).status == "completed"


async def test_several_persons_approve_each_with_their_own_name(client: Client) -> None:
    run = await client.submit("watched", {"quorum": 2}, by="ann")
    gate = await gate_of(client, run)
    shown = await hash_of(client, gate)
    assert (await client.decide(gate, by="ann", shown_hash=shown)).status == "waiting"
    with pytest.raises(DecisionRefused, match="has approved it already"):
        await client.decide(gate, by="Ann", shown_hash=shown)
    assert (await client.gate(gate))["approved_by"] == ["ann"]
    await client.decide(gate, by="bob", shown_hash=shown)
    assert (await client.result(run)).output == [5, ["ann", "bob"]]


async def test_an_edit_for_a_second_pair_of_eyes_is_decided_by_a_third_person(client: Client) -> None:
    run = await client.submit("watched", {"four_eyes": True}, by="ann")
    gate = await gate_of(client, run)
    before = await hash_of(client, gate)
    assert (await client.decide(gate, "edit", {"amount": 9}, by="bob", shown_hash=before)).status == "waiting"
    with pytest.raises(Conflict, match="shows something else"):
        await client.decide(gate, by="cid", shown_hash=before)
    row = await client.gate(gate)
    assert (row["edited_by"], row["shown"]["edited"]) == ("bob", {"amount": 9})
    for name in ("ann", "bob"):
        with pytest.raises(DecisionRefused):
            await client.decide(gate, by=name, shown_hash=row["shown_hash"])
    await client.decide(gate, by="cid", shown_hash=row["shown_hash"])
    assert (await client.result(run)).output == [9, ["cid"]]


async def test_the_same_key_is_the_same_run_and_with_another_input_refused(client: Client) -> None:
    first = await client.submit("echo", {"n": 1}, key="once", tenant="acme")
    assert await client.submit("echo", {"n": 1}, key="once", tenant="acme") == first
    with pytest.raises(KeyReused, match="another workflow or with another input") as refused:
        await client.submit("echo", {"n": 2}, key="once", tenant="acme")
    assert first not in refused.value.message
    assert [view.run for view in await client.list_(tenant="acme")] == [first]


def test_the_client_takes_each_field_of_a_submission() -> None:
    fields = {each.name.removesuffix("_json") for each in wire.SubmitRequest.DESCRIPTOR.fields}
    assert {*inspect.signature(Client.submit).parameters} - {"self"} == fields


async def test_a_run_is_submitted_with_its_labels_and_tags(client: Client) -> None:
    run = await client.submit("echo", {"n": 1}, tags=["red"], labels={"customer": "acme"})
    began = await anext(aiter(client.watch(run)))
    assert isinstance(began, Event)
    assert (began.fields["tags"], began.fields["labels"]) == (["red"], {"customer": "acme"})


async def test_what_is_not_there_is_named(client: Client) -> None:
    with pytest.raises(NotFound, match="no workflow 'nothing' in this store"):
        await client.submit("nothing")
    with pytest.raises(NotFound):
        await client.query("01a1fe7f-0000-7000-8000-000000000000")
    with pytest.raises(UsageError, match="There is no status 'sad'"):
        await client.list_(status="sad")


async def test_a_request_that_is_too_large_is_refused_before_it_is_sent(client: Client, server: Server) -> None:
    with pytest.raises(InvalidInput, match=r"bytes, and a message at most 4194304. Nothing was sent"):
        await client.submit("echo", "x" * 5_000_000)
    async with grpc.aio.insecure_channel(server.address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Stub(channel, "Workflows").Submit(wire.SubmitRequest(workflow="echo", input_json=f'"{"x" * 5_000_000}"'))
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_message_that_is_no_request_is_refused(server: Server) -> None:
    async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Stub(channel, "Workflows").Submit(wire.SubmitRequest(workflow="echo", input_json="{"))
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "The input is no JSON" in refused.value.details()
        call = Stub(channel, "Workers").Work(iter([wire.FromWorker(heartbeat=wire.Heartbeat())]))
        said = await call.read()
        assert said.refused.reason == "A worker says first who it is, and it did not."


async def test_a_workflow_file_is_run_and_known_again_after_a_restart(tmp_path: Path, models: ModelServer) -> None:
    first = Server(tmp_path, "--yaml")
    with ended(first.process):
        async with Client.connect(first.address) as client:
            done = await client.result(await client.submit(yaml=FILE))
            assert done.output["jobs"]["greet"]["outputs"] == {"word": "hello"}
            waits = FILE.replace('echo "word=hello"', f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; echo word=late")
            run = await client.submit(yaml=waits)
            with pytest.raises(UsageError, match="mistake"):
                await client.submit(yaml="jobs: 7")
        first.process.end()
    (tmp_path / "go").touch()
    second = Server(tmp_path, "--yaml")
    with ended(second.process):
        async with Client.connect(second.address) as client:
            assert (await client.result(run)).output["jobs"]["greet"]["outputs"] == {"word": "late"}


async def test_a_server_that_takes_no_files_says_so(tmp_path: Path) -> None:
    """And one with TLS and tokens hears only who knows both."""
    tokens, token, key = tmp_path / "tokens.toml", tmp_path / "token", tmp_path / "key.pem"
    for file in (tokens, token, key):
        file.touch(0o600)
    key.write_bytes(PEM.read_bytes())
    token.write_text("f" * 32)
    tokens.write_text(
        f'[clients.me]\ntoken = "{SECRET}"\nmay = "admin"\n[workers.friend]\ntoken = "{"f" * 32}"\ntenants = ["*"]\ntasks = ["*"]\n'
    )
    words = ("--tokens", str(tokens), "--tls-cert", str(PEM), "--tls-key", str(key), "--client-ca", str(PEM))
    server = Server(tmp_path, *words)
    with ended(server.process):
        address = f"localhost:{server.address.rpartition(':')[2]}"
        async with Client.connect(address, Trust(SECRET, PEM, PEM, key)) as client:
            with pytest.raises(UsageError, match="does not accept workflow files"):
                await client.submit(yaml=FILE)
        async with Client.connect(address, Trust("guess", PEM, PEM, key)) as client:
            with pytest.raises(UsageError, match=r"The token is missing or wrong"):
                await client.submit("echo")
        for stranger in (Trust(SECRET), Trust(SECRET, PEM)):  # one without TLS, one without a certificate
            async with Client.connect(address, stranger) as client:
                with pytest.raises(HoldfastError, match="UNAVAILABLE"):
                    await client.submit("echo")
        shown = ("--ca", str(PEM), "--cert", str(PEM), "--key", str(key))
        worker = server.worker("stranger", *shown, address=address)
        assert await asyncio.to_thread(worker.process.wait, 10) == 2
        worker.says("refuses this worker: The token is missing or wrong")
        friend = server.worker("friend", *shown, "--token-file", str(token), address=address)
        with ended(friend):
            friend.says("Connected to")


async def test_a_job_that_no_worker_offers_waits_for_one_that_does(client: Client, hire: Hire, server: Server) -> None:
    run = await client.submit("echo", {"n": 1})
    (wait,) = (await client.query(run)).waiting_for
    assert (wait["kind"], wait["demand"]) == ("worker", {"task": "echo"})
    shown = subprocess.run(
        [sys.executable, "-m", "holdfast", "runs", "show", run, "--store", str(server.folder / "runs.db")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "It waits for a worker that has the task echo." in shown.stdout
    hire("late-comer")
    assert (await client.result(run)).status == "completed"
