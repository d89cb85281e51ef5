"""A small HTTP port: is the process alive, can it do its work, and figures for Prometheus.

    GET /healthz   200 while the process works, 503 once it has given up: restart it
    GET /readyz    200 while it reaches its store, 503 otherwise: wait
    GET /metrics   the figures, in Prometheus' text format

Never here: anything about a tenant or a run. All who can reach the port may read it, so it listens on loopback unless
told otherwise.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from holdfast.observe.listening import listening
from holdfast.observe.readiness import Readiness

Gauges = Mapping[str, tuple[str, float]]
"""Figures by name, each with a sentence on what it counts."""


class Health:
    """The health port's answers."""

    def __init__(self, readiness: Readiness, gauges: Callable[[], Gauges]) -> None:
        self._readiness = readiness
        self._gauges = gauges
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def collect(self) -> list[GaugeMetricFamily]:
        """The figures, as prometheus_client asks for them."""
        return [GaugeMetricFamily(name, about, value=value) for name, (about, value) in self._gauges().items()]

    @contextlib.asynccontextmanager
    async def listening(self, host: str, port: int) -> AsyncIterator[int]:
        """Answer on `host` and `port` (0 takes a free one, which is reported). Raises UsageError for one that is taken."""
        routes = [Route("/healthz", self._alive), Route("/readyz", self._ready), Route("/metrics", self._metrics)]
        async with listening(Starlette(routes=routes), host, port, name="--port") as taken:
            yield taken

    async def _alive(self, request: Request) -> Response:
        return PlainTextResponse("ok\n") if self._readiness.broken is None else PlainTextResponse("given up\n", 503)

    async def _ready(self, request: Request) -> Response:
        if await self._readiness.reaches():
            return PlainTextResponse("ok\n")
        return PlainTextResponse("the store cannot be reached\n", 503)

    async def _metrics(self, request: Request) -> Response:
        return Response(generate_latest(self._registry), media_type="text/plain; version=0.0.4; charset=utf-8")
