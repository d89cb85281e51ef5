"""A program in which nothing of Holdfast's is but a .proto file: its messages, and calls by name on a channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_tools import protoc


class Proto:
    """What a .proto file describes."""

    def __init__(self, file: Path, folder: Path) -> None:
        """Compile `file`; what is made on the way stays in `folder`."""
        described = folder / "described"
        assert protoc.main(["protoc", f"-I{file.parent}", f"--descriptor_set_out={described}", str(file)]) == 0
        (self.file,) = FileDescriptorSet.FromString(described.read_bytes()).file
        self._pool = DescriptorPool()
        self._pool.Add(self.file)

    def make(self, name: str, /, **fields: Any) -> Any:
        """Return a message."""
        return GetMessageClass(self._pool.FindMessageTypeByName(f"holdfast.v1.{name}"))(**fields)

    def method(self, channel: Any, name: str) -> Any:
        """Return a method of the service Workflows, as a callable on a channel."""
        method = self._pool.FindMethodByName(f"holdfast.v1.Workflows.{name}")
        call = channel.unary_stream if method.server_streaming else channel.unary_unary
        return call(
            f"/holdfast.v1.Workflows/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
