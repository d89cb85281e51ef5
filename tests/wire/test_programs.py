"""Programs in any language: what stubs that are generated from wire.proto do, and those of the first release."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_tools import protoc

import holdfast
from holdfast.service.declarations.declaration import declaration_of
from holdfast.wire import credential
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import SERVICES
from holdfast.wire.workflows import TAKES
from tests.wire.foreign import Proto
from tests.wire.kit import Server
from tests.wire.test_tokens import CLIENT, TENANTS, Port, port  # noqa: F401 - a fixture

SOURCES = Path(holdfast.__file__).parents[1]
FIRST = Path(__file__).parents[1] / "fixtures" / "wire-0.1.0.proto"
NOWHERE = "01a1fe7f-0000-7000-8000-000000000000"
MAX_S = 20.0


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The module of stubs that `protoc` makes of wire.proto."""
    folder = tmp_path_factory.mktemp("stubs")
    words = ["protoc", f"-I{SOURCES}", f"--grpc_python_out={folder}", "holdfast/wire/wire.proto"]
    assert protoc.main(words) == 0
    file = folder / "holdfast" / "wire" / "wire_pb2_grpc.py"
    spec = importlib.util.spec_from_file_location("generated_wire_pb2_grpc", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def workflows(server: Server, generated: Any) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield generated.WorkflowsStub(channel)


async def refused(call: Any) -> grpc.aio.AioRpcError:
    """Return how a call is refused: of a stream, instead of its first message."""
    with pytest.raises(grpc.aio.AioRpcError) as problem:
        await (call.read() if hasattr(call, "read") else call)
    return problem.value


def test_programs_have_a_fixed_set_of_methods_and_each_takes_what_its_command_takes() -> None:
    methods = {method.name: method for method in SERVICES["Workflows"].methods}
    assert {*methods} == {*TAKES} == {"Submit", "Watch", "Query", "List", "Cancel", "Gate", "Decide", "Signal"}
    for name, kind in TAKES.items():
        declaration_of(kind)
        if name not in ("Watch", "Query", "List"):  # those say what they ask in words of their own
            fields = {each.name.removesuffix("_json") for each in methods[name].input_type.fields}
            assert fields - {"by", "roles"} == {*kind.__struct_fields__}  # type: ignore[attr-defined]


async def test_a_program_submits_watches_decides_and_hears_the_end(workflows: Any) -> None:
    run = (await workflows.Submit(wire.SubmitRequest(workflow="gated", by="ann", key="p-1"))).run
    assert (await workflows.Submit(wire.SubmitRequest(workflow="gated", by="ann", key="p-1"))).run == run
    kinds: list[str] = []
    watching = workflows.Watch(wire.WatchRequest(run=run), timeout=MAX_S)
    async for told in watching:
        kinds.append(told.event.type if told.WhichOneof("told") == "event" else told.view.status)
        if told.event.type == "GateOpened":
            (wait,) = json.loads((await workflows.Query(wire.QueryRequest(run=run))).waiting_for_json)
            gate = await workflows.Gate(wire.GateRequest(gate=wait["id"]))
            assert (gate.gate, gate.run) == (wait["id"], run)
            row = json.loads(gate.gate_json)
            assert (row["shown"], row["shown_hash"], row["reviewers"]) == ({"diff": "yes?"}, gate.shown_hash, ["ida"])
            unseen = await refused(workflows.Decide(wire.DecideRequest(gate=gate.gate, decision="approve", by="ida")))
            assert unseen.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert dict(unseen.trailing_metadata())["holdfast-error"] == "InvalidDecision"
            other = wire.DecideRequest(gate=gate.gate, decision="approve", by="ida", shown_hash="0" * 64)
            assert (await refused(workflows.Decide(other))).code() == grpc.StatusCode.FAILED_PRECONDITION
            seen = wire.DecideRequest(gate=gate.gate, decision="approve", by="ida", shown_hash=gate.shown_hash)
            await workflows.Decide(seen)
    assert (kinds[0], kinds[-2:]) == ("RunStarted", ["RunCompleted", "completed"])
    listed = (await workflows.List(wire.ListRequest(workflow="gated", status="completed", limit=1000))).runs
    assert run in [each.run for each in listed]


async def test_a_program_submits_a_run_with_labels(workflows: Any) -> None:
    run = (await workflows.Submit(wire.SubmitRequest(workflow="echo", tags=["red"], labels={"customer": "acme"}))).run
    watching = workflows.Watch(wire.WatchRequest(run=run), timeout=MAX_S)
    began = json.loads((await anext(aiter(watching))).event.event_json)
    watching.cancel()
    assert (began["tags"], began["labels"]) == (["red"], {"customer": "acme"})
    wrong = wire.SubmitRequest(workflow="echo", labels={"a b": "c"})
    assert (await refused(workflows.Submit(wrong))).code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_program_signals_a_run_and_cancels_it(workflows: Any) -> None:
    run = (await workflows.Submit(wire.SubmitRequest(workflow="gated", by="ann"))).run
    for _ in range(2):
        await workflows.Signal(wire.SignalRequest(run=run, name="note", data_json='{"n": 1}', by="bob", key="s-1"))
    view = await workflows.Cancel(wire.CancelRequest(run=run, reason="enough", by="ann"))
    assert view.run == run
    told = [each async for each in workflows.Watch(wire.WatchRequest(run=run), timeout=MAX_S)]
    signals = [json.loads(each.event.event_json) for each in told if each.event.type == "SignalReceived"]
    assert [(each["name"], each["by"]) for each in signals] == [("note", "bob")]
    assert told[-1].view.status == "cancelled"
    gone = await refused(workflows.Cancel(wire.CancelRequest(run=NOWHERE)))
    assert gone.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("name", ["Pause", "Runs", "Gates", "Streams", "SetPool", "DecideTogether"])
async def test_what_the_http_api_is_for_is_not_implemented(server: Server, name: str) -> None:
    async with grpc.aio.insecure_channel(server.address) as channel:
        problem = await refused(channel.unary_unary(f"/holdfast.v1.Workflows/{name}")(b"", timeout=MAX_S))
    assert problem.code() == grpc.StatusCode.UNIMPLEMENTED


REQUESTS: dict[str, Callable[[str], Any]] = {
    "Submit": lambda run: wire.SubmitRequest(workflow="echo"),
    "List": lambda run: wire.ListRequest(),
    "Query": lambda run: wire.QueryRequest(run=run),
    "Watch": lambda run: wire.WatchRequest(run=run),
    "Cancel": lambda run: wire.CancelRequest(run=run),
    "Signal": lambda run: wire.SignalRequest(run=run, name="go"),
    "Gate": lambda run: wire.GateRequest(gate=f"{run}:echo#1:0"),
    "Decide": lambda run: wire.DecideRequest(gate=f"{run}:echo#1:0", decision="approve", shown_hash="0" * 64),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_another_tenant_s_run_is_not_found_and_a_strange_token_asks_nothing(
    port: Port,  # noqa: F811 - the fixture
    generated: Any,
    name: str,
) -> None:
    async with port.client(CLIENT) as everybodys:
        theirs = await everybodys.submit("echo", 1, tenant="globex")
    request = REQUESTS[name](theirs)
    async with grpc.aio.insecure_channel(port.address) as channel:
        call = getattr(generated.WorkflowsStub(channel), name)
        for sent in ((), credential.metadata(credential.Trust("wrong")), credential.metadata(CLIENT) * 2):
            unknown = await refused(call(request, metadata=sent, timeout=MAX_S))
            assert unknown.code() == grpc.StatusCode.UNAUTHENTICATED
        if name == "List":
            listed = await call(request, metadata=credential.metadata(TENANTS))
            assert list(listed.runs) == []
        elif name != "Submit":
            told = []
            for run in (theirs, NOWHERE):
                problem = await refused(call(REQUESTS[name](run), metadata=credential.metadata(TENANTS), timeout=MAX_S))
                assert problem.code() == grpc.StatusCode.NOT_FOUND
                told.append(problem.details().replace(run, "RUN"))
            assert told[0] == told[1], "nothing says that there is such a run"


# --- The first release ------------------------------------------------------------------------------------------------


def test_every_field_of_the_first_release_is_where_it_was(tmp_path: Path) -> None:
    first = Proto(FIRST, tmp_path).file
    now = {message.name: message for message in Proto(SOURCES / "holdfast" / "wire" / "wire.proto", tmp_path).file.message_type}
    for message in first.message_type:
        fields = {each.number: each for each in now[message.name].field}
        for field in message.field:
            same = fields[field.number]
            assert (same.name, same.type, same.label, same.type_name) == (
                field.name,
                field.type,
                field.label,
                field.type_name,
            ), message.name
    for service in first.service:
        methods = {method.name: method for method in SERVICES[service.name].methods}
        for method in service.method:
            assert f".{methods[method.name].input_type.full_name}" == method.input_type
            assert f".{methods[method.name].output_type.full_name}" == method.output_type
            assert methods[method.name].server_streaming == method.server_streaming


async def test_a_client_of_the_first_release_goes_on_working(server: Server, tmp_path: Path) -> None:
    old = Proto(FIRST, tmp_path)
    async with grpc.aio.insecure_channel(server.address) as channel:

        async def call(method: str, /, **fields: Any) -> Any:
            return await old.method(channel, method)(old.make(f"{method}Request", **fields), timeout=MAX_S)

        run = (await call("Submit", workflow="gated", input_json="", by="ann", tenant="first", cost_limit_usd="1.00")).run
        watching = old.method(channel, "Watch")(old.make("WatchRequest", run=run), timeout=MAX_S)
        view = None
        async for told in watching:
            if told.event.type == "GateOpened":
                gate = json.loads(told.event.event_json)
                await call("Decide", gate=gate["gate"], decision="approve", by="ida", shown_hash=gate["shown_hash"])
            view = told.view
        assert view is not None
        assert (view.run, view.status) == (run, "completed")
        assert (await call("Query", run=run)).seq == view.seq
        assert [each.run for each in (await call("List", tenant="first")).runs] == [run]
        other = (await call("Submit", workflow="gated", by="ann", tenant="first")).run
        assert (await call("Signal", run=other, name="note", data_json="1", by="bob")).run == other
        assert (await call("Cancel", run=other, reason="enough", by="ann")).run == other
