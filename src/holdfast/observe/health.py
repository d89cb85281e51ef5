"""A small HTTP port: is the process alive, can it do its work, and figures for Prometheus.

    GET /healthz   200 while the process works, 503 once it has given up: restart it
    GET /readyz    200 while it reaches its store, 503 otherwise: wait
    GET /metrics   the figures, in Prometheus' text format

Never here: a run, a person, a text of one. The figures name tenants, workflows and models, and who reaches the port can
read them, so it listens on loopback by default.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from holdfast.observe.listening import listening
from holdfast.observe.readiness import Readiness
from holdfast.ports.metric import Distribution, Metric, Sample

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
Samples = Callable[[], Awaitable[Iterable[Sample]]]
_FAMILIES: Final = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}


class Health:
    """The health port's answers."""

    def __init__(self, readiness: Readiness, samples: Samples) -> None:
        self._readiness = readiness
        self._samples = samples

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
        return Response(prometheus_text(await self._samples()), media_type="text/plain; version=0.0.4; charset=utf-8")


def prometheus_text(samples: Iterable[Sample]) -> bytes:
    """Return the samples in Prometheus' text format, those of one metric together."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(samples))
    return generate_latest(registry)


class _Families:
    """Samples as prometheus_client asks for them."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._by_metric: dict[Metric, list[Sample]] = {}
        for each in samples:
            self._by_metric.setdefault(each.metric, []).append(each)

    def collect(self) -> Iterator[Family]:
        for metric, samples in self._by_metric.items():
            family = _FAMILIES[metric.kind](metric.name, metric.help, labels=metric.labels)
            for each in samples:
                if isinstance(each.value, Distribution):
                    family.add_metric(each.labels, _buckets(metric, each.value), each.value.total)
                else:
                    family.add_metric(each.labels, each.value)
            yield family


def _buckets(metric: Metric, value: Distribution) -> list[tuple[str, float]]:
    """Return how many measurements were at most each bound."""
    found, below = [], 0
    for bound, count in zip((*map(str, metric.bounds), "+Inf"), value.counts, strict=True):
        below += count
        found.append((bound, float(below)))
    return found
