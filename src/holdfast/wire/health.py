"""The standard service grpc.health.v1.Health: whether this server does its work, as a load balancer or a client asks it.

It takes no token, for those who ask have none, and says nothing but a word. So it has turns of its own: probes keep no client
from being answered, and strangers who ask without end keep out other strangers only.

Never here: when a process is ready (observe.readiness).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse, HealthListResponse

from holdfast.errors import InvalidInput
from holdfast.platform.fair_share import FairShare
from holdfast.wire import shape
from holdfast.wire.caller import origin_of, received_alone

SERVICE: Final = health_pb2.DESCRIPTOR.services_by_name["Health"]

_AT_ONCE: Final = 8
"""Requests, of up to 4 MiB each, that are read and answered at a time: one takes a millisecond,"""
_WAITING: Final = 400
"""and those that wait for their turn: the probes of a large fleet in the same moment,"""
_WAIT_S: Final = 5.0
"""for so long."""
_MAX_BYTES: Final = 1_000
_READ_S: Final = 2.0
"""A request is a few bytes, and comes with its call."""
_WATCHERS: Final = 400
"""Those who watch: clients of gRPC that check health have a stream for each connection."""
_LOOK_EVERY_S: Final = 1.0

_SERVING: Final = HealthCheckResponse(status=HealthCheckResponse.SERVING)
_NOT_SERVING: Final = HealthCheckResponse(status=HealthCheckResponse.NOT_SERVING)
_UNKNOWN: Final = HealthCheckResponse(status=HealthCheckResponse.SERVICE_UNKNOWN)


class Health:
    """The service, about the whole server (`""`) and each of `services`, which are up and down together."""

    def __init__(self, is_serving: Callable[[], Awaitable[bool]], services: Collection[str]) -> None:
        self._is_serving = is_serving
        self._services = {"", *services}
        self._turns = FairShare(_AT_ONCE, "health checks are answered", waiting=_WAITING)
        self._watchers = FairShare(_WATCHERS, "health is watched")

    @property
    def behaviours(self) -> Mapping[str, Callable[[Any, Any], Any]]:
        return {"Check": self._answered(self._check), "List": self._answered(self._list), "Watch": self._watch}

    def _answered(self, answer: Callable[[bytes, Any], Awaitable[Any]]) -> Callable[[Any, Any], Any]:
        """Return the method that reads one request and answers it, in its turn."""

        async def method(messages: AsyncIterator[bytes], context: Any) -> Any:
            async with self._turns.turn((origin_of(context),), _WAIT_S):
                return await answer(await _request(messages), context)

        return method

    async def _check(self, raw: bytes, context: Any) -> Any:
        service = _service_of(raw)
        if service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"This server has no service {service!r}.")
        return await self._status()

    async def _list(self, _: bytes, __: Any) -> Any:
        status = await self._status()
        return HealthListResponse(statuses=dict.fromkeys(self._services, status))

    async def _watch(self, messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[HealthCheckResponse]:
        origin = (origin_of(context),)
        with self._watchers.held(origin):
            async with self._turns.turn(origin, _WAIT_S):
                service = _service_of(await _request(messages))
            last = None
            while True:
                status = _UNKNOWN if service not in self._services else await self._status()
                if status != last:
                    yield status
                last = status
                await asyncio.sleep(_LOOK_EVERY_S)

    async def _status(self) -> HealthCheckResponse:
        return _SERVING if await self._is_serving() else _NOT_SERVING


async def _request(messages: AsyncIterator[bytes]) -> bytes:
    """Read a request. Raises InvalidInput for one that is too large, or does not come in time."""
    raw = await received_alone(messages, _READ_S)
    if (size := len(raw)) > _MAX_BYTES:
        raise InvalidInput(f"A request about health has {size} bytes, and at most {_MAX_BYTES}. Nothing was done.")
    return raw


def _service_of(raw: bytes) -> str:
    """Return which service a request is about. Raises InvalidInput."""
    service: str = shape.decode(HealthCheckRequest, raw).service
    return service
