"""What tools like grpcurl are told of the port: its own services, and nothing to who has no token."""

from __future__ import annotations

import asyncio
from collections import namedtuple
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from holdfast.service.access.key import ApiKeys
from holdfast.service.declarations import command
from holdfast.service.principal import Principal
from holdfast.wire import credential, reflection
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.credential import Trust
from tests.engine.kit import bounded
from tests.wire.kit import MAX_S
from tests.wire.test_tokens import ACME, CLIENT, TENANTS, Port, port  # noqa: F401 - a fixture

SERVICES = ["grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection", "holdfast.v1.Workers", "holdfast.v1.Workflows"]

_Details = namedtuple("_Details", ("method", "timeout", "metadata", "credentials", "wait_for_ready", "compression"))


class _Shown(grpc.StreamStreamClientInterceptor):
    """Sends a token with each stream."""

    def __init__(self, trust: Trust) -> None:
        self._metadata = credential.metadata(trust)

    def intercept_stream_stream(self, go_on: Any, details: Any, requests: Any) -> Any:
        return go_on(_Details(details.method, MAX_S, self._metadata, None, None, None), requests)


def asked(address: str, trust: Trust) -> tuple[list[str], Any]:
    """What a tool finds out: the services, and by the description alone a run that it has started."""
    with grpc.insecure_channel(address) as plain:
        database = ProtoReflectionDescriptorDatabase(grpc.intercept_channel(plain, _Shown(trust)))
        found = sorted(database.get_services())
        pool = DescriptorPool(database)
        method = pool.FindServiceByName("holdfast.v1.Workflows").FindMethodByName("List")
        call = plain.unary_unary(
            f"/{method.containing_service.full_name}/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        if trust is ACME:
            return found, method.input_type.full_name
        reply = call(GetMessageClass(method.input_type)(limit=5), metadata=credential.metadata(trust), timeout=MAX_S)
        return found, [each.workflow for each in reply.runs]


@bounded
async def test_a_tool_with_a_token_finds_every_service_and_calls_it_by_its_description(port: Port) -> None:  # noqa: F811
    async with port.client(CLIENT) as client:
        await client.submit("echo", 1, tenant="globex")
        await client.submit("echo", 1, tenant="acme")
    assert await asyncio.to_thread(asked, port.address, CLIENT) == (SERVICES, ["echo", "echo"])
    assert await asyncio.to_thread(asked, port.address, TENANTS) == (SERVICES, ["echo"])
    assert await asyncio.to_thread(asked, port.address, ACME) == (SERVICES, "holdfast.v1.ListRequest"), "a worker's"


def stream(channel: Any, requests: Any, trust: Trust | None = None) -> Any:
    sent = credential.metadata(trust) if trust is not None else ()
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    return stub.ServerReflectionInfo(requests, metadata=sent, timeout=MAX_S)


async def answers(port: Port, *requests: Any, trust: Trust | None = CLIENT) -> list[Any]:  # noqa: F811
    async def said() -> AsyncIterator[Any]:
        for each in requests:
            yield reflection_pb2.ServerReflectionRequest(**each)

    async with grpc.aio.insecure_channel(port.address) as channel:
        return [each async for each in stream(channel, said(), trust)]


@pytest.mark.parametrize("trust", [None, Trust("wrong")])
async def test_nothing_is_shown_without_a_token(port: Port, trust: Trust | None) -> None:  # noqa: F811
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await answers(port, {"list_services": ""}, trust=trust)
    assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


async def test_only_the_files_of_the_port_are_reported(port: Port) -> None:  # noqa: F811
    """A process has other messages loaded: those of its users' own services."""
    known, *strange = await answers(
        port,
        {"file_by_filename": wire.DESCRIPTOR.name},
        {"file_by_filename": "google/protobuf/descriptor.proto"},
        {"file_containing_symbol": "google.protobuf.FileDescriptorProto"},
        {"all_extension_numbers_of_type": "google.protobuf.FileOptions"},
    )
    assert known.file_descriptor_response.file_descriptor_proto == [wire.DESCRIPTOR.serialized_pb]
    assert {each.error_response.error_code for each in strange} == {grpc.StatusCode.NOT_FOUND.value[0]}
    (empty,) = await answers(port, {})
    assert empty.error_response.error_code == grpc.StatusCode.INVALID_ARGUMENT.value[0]


async def test_a_stream_on_which_nothing_more_is_asked_is_ended(
    port: Port,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflection, "_IDLE_S", 0.05)

    async def one() -> AsyncIterator[Any]:
        yield reflection_pb2.ServerReflectionRequest(list_services="")
        await asyncio.Event().wait()

    async with grpc.aio.insecure_channel(port.address) as channel:
        call = stream(channel, one(), CLIENT)
        assert len([each async for each in call]) == 1
        assert await call.code() == grpc.StatusCode.OK
    assert not port.server._turns._calls.held_by(())


async def test_a_key_that_is_taken_back_asks_no_more_on_a_stream_that_stands(port: Port) -> None:  # noqa: F811
    keys = port.identity.keys = ApiKeys(port.engine.store)
    made = await keys.make(Principal("ops"), command.MakeKey(name="tool", may=("viewer",)))
    async with grpc.aio.insecure_channel(port.address) as channel:
        call = stream(channel, None, Trust(made["key"]))
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        assert (await call.read()).list_services_response.service
        await keys.revoke(Principal("ops"), "tool")
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED


async def test_streams_of_one_token_leave_others_their_turn(port: Port) -> None:  # noqa: F811
    """Each is one that asks nothing: they wait to be read, as calls do."""
    async with grpc.aio.insecure_channel(port.address) as channel, asyncio.timeout(MAX_S):
        silent = [stream(channel, None, CLIENT) for _ in range(12)]
        ended = await asyncio.wait([asyncio.ensure_future(each.code()) for each in silent], return_when="FIRST_COMPLETED")
        assert {each.result() for each in ended[0]} == {grpc.StatusCode.RESOURCE_EXHAUSTED}
        async with port.client(TENANTS) as acme:
            assert await acme.list_() == []
        for each in silent:
            each.cancel()
