"""The standard service grpc.reflection.v1alpha.ServerReflection: what methods and messages there are, for tools like grpcurl.

It takes a token as every call of ours does, a worker's too, and knows the files of this port only: what else a process has
loaded is nobody's business.

Never here: a file's text, what a method does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection, reflection_pb2

from holdfast.wire import shape
from holdfast.wire.caller import Callers, received

SERVICE: Final = reflection_pb2.DESCRIPTOR.services_by_name["ServerReflection"]

_IDLE_S: Final = 2.0
"""A stream on which nothing more is asked is ended: a tool that still wants to know something opens another."""


class Reflection:
    """The service, about `services`, which are descriptors."""

    def __init__(self, callers: Callers, services: Collection[Any]) -> None:
        pool = DescriptorPool()
        for file in {each.file.name: each.file for each in services}.values():
            pool.AddSerializedFile(file.serialized_pb)
        self._servicer = reflection.aio.ReflectionServicer([each.full_name for each in services], pool)
        self._callers = callers

    @property
    def behaviours(self) -> Mapping[str, Callable[[Any, Any], Any]]:
        return {"ServerReflectionInfo": self._answer}

    async def _answer(self, messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        turns = self._callers.turns
        share = (await self._callers.holder(context)).share
        with turns.calling(share), suppress(_Over):
            while True:
                async with turns.asking(share, partial(_next, messages)) as raw:
                    await self._callers.holder(context)  # a key may be taken back meanwhile
                    request = shape.decode(reflection_pb2.ServerReflectionRequest, raw)
                    told = self._servicer.ServerReflectionInfo(_alone(request), context)
                    answers = [answer async for answer in told]
                for answer in answers:
                    yield answer


class _Over(Exception):
    """Nothing more is asked on a stream."""


async def _next(messages: AsyncIterator[bytes]) -> bytes:
    """Return the next request of a stream. Raises _Over."""
    raw = await received(messages, _IDLE_S)
    if raw is None:
        raise _Over
    return raw


async def _alone(request: Any) -> AsyncIterator[Any]:
    yield request
