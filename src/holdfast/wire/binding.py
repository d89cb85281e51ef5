"""Services on gRPC's asyncio: handlers for a server, callables for a client, both made of the descriptor.

Never here: what a method does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import grpc
from google.protobuf.message_factory import GetMessageClass

from holdfast.wire import wire_pb2
from holdfast.wire.refusal import streaming, unary

MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""No message is larger; a sender of one says so instead. Large data goes by reference."""
_SLACK_BYTES: Final = 64 * 1024
"""What the transport takes beyond it, so that a message is refused in words and not with its connection."""

OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES + _SLACK_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES + _SLACK_BYTES),
)

_KINDS: Final[dict[tuple[bool, bool], tuple[str, Callable[..., Any], Callable[..., Any]]]] = {
    (False, False): ("unary_unary", grpc.stream_unary_rpc_method_handler, unary),
    (False, True): ("unary_stream", grpc.stream_stream_rpc_method_handler, streaming),
    (True, True): ("stream_stream", grpc.stream_stream_rpc_method_handler, streaming),
}
"""Of each kind of method what a client calls it, what makes a server's handler of it, and what refuses its errors. A handler is
given a stream even of one message: that is read when the handler asks for it, where one that is given a message has read it by
then."""


SERVICES: Final = wire_pb2.DESCRIPTOR.services_by_name
"""The services of wire.proto, by their names."""


def _methods(service: Any) -> list[tuple[str, str, Callable[..., Any], Callable[..., Any], Any, Any]]:
    """Of each method its name, its kind, what makes a handler of it, what refuses its errors, and the classes of what is asked
    and answered."""
    return [
        (
            method.name,
            *_KINDS[method.client_streaming, method.server_streaming],
            GetMessageClass(method.input_type),
            GetMessageClass(method.output_type),
        )
        for method in service.methods
    ]


def handlers(service: Any, behaviours: Mapping[str, Callable[[AsyncIterator[bytes], Any], Any]]) -> Any:
    """Return the handlers that a server registers for a service, which is a descriptor.

    Each behaviour, by its method's name, takes the stream of its messages, as bytes, and the call's context. Nothing is read
    before the behaviour asks for it, and only the behaviour parses the bytes (shape). An error ends the call with a message
    (refusal). A method without a behaviour is not implemented.
    """
    made = {
        name: make(refusing(name, behaviours[name]), response_serializer=answered.SerializeToString)
        for name, _, make, refusing, _, answered in _methods(service)
        if name in behaviours
    }
    return grpc.method_handlers_generic_handler(service.full_name, made)


class Stub:
    """The methods of a service of wire.proto as callables on a channel: `stub.Submit(request)`."""

    def __init__(self, channel: Any, name: str) -> None:
        service = SERVICES[name]
        self._methods = {
            method: getattr(channel, kind)(
                f"/{service.full_name}/{method}",
                request_serializer=asked.SerializeToString,
                response_deserializer=answered.FromString,
            )
            for method, kind, _, _, asked, answered in _methods(service)
        }

    def __getattr__(self, name: str) -> Any:
        return self._methods[name]
