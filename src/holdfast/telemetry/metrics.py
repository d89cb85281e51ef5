"""Metrics on their way to a receiver of OTLP: the samples that Prometheus would read and those of a convention, every few
seconds.

Counts are those since the start of the process, so a lost push loses nothing: the next one has it all. Nothing is queued.
Never here: which metrics there are, what a process counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.ports import Clock
from holdfast.ports.metric import Distribution, Metric, Sample
from holdfast.telemetry.exporter import Exporter
from holdfast.telemetry.otlp import attributes_of, fill

if TYPE_CHECKING:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

log = logging.getLogger("holdfast")

_LAST_S: Final = 2.0
"""Time for the last push of a process."""
_SAID_EVERY_S: Final = 60.0
_CUMULATIVE: Final = 2


def request_of(
    samples: Iterable[Sample], resource: Mapping[str, str], version: str, schema_url: str, began_ms: int, now_ms: int
) -> dict[str, Any]:
    """Return the samples as a request of OTLP (1.3), in its form for JSON: 64-bit integers are texts."""
    by_metric: dict[Metric, list[Sample]] = {}
    for each in samples:
        by_metric.setdefault(each.metric, []).append(each)
    times = {"startTimeUnixNano": str(began_ms * 1_000_000), "timeUnixNano": str(now_ms * 1_000_000)}
    found = [_metric(metric, [{**times, **_point(each)} for each in group]) for metric, group in by_metric.items()]
    scope = {"scope": {"name": "holdfast", "version": version}, "metrics": found, "schemaUrl": schema_url}
    return {"resourceMetrics": [{"resource": {"attributes": attributes_of(resource)}, "scopeMetrics": [scope]}]}


def _metric(metric: Metric, points: list[dict[str, Any]]) -> dict[str, Any]:
    words = {"name": metric.name, "description": metric.help, "unit": metric.unit}
    if metric.kind == "gauge":
        return {**words, "gauge": {"dataPoints": points}}
    if metric.kind == "counter":
        return {**words, "sum": {"dataPoints": points, "aggregationTemporality": _CUMULATIVE, "isMonotonic": True}}
    return {**words, "histogram": {"dataPoints": points, "aggregationTemporality": _CUMULATIVE}}


def _point(sample: Sample) -> dict[str, Any]:
    named = zip(sample.metric.labels, sample.labels, strict=True)
    attributes = attributes_of({name: value for name, value in named if value})  # an empty label is none
    value = sample.value
    if isinstance(value, Distribution):
        return {
            "attributes": attributes,
            "count": str(sum(value.counts)),
            "sum": value.total,
            "bucketCounts": [str(count) for count in value.counts],
            "explicitBounds": list(sample.metric.bounds),
        }
    number = {"asInt": str(value)} if isinstance(value, int) else {"asDouble": value}
    return {"attributes": attributes, **number}


def message(request: Mapping[str, Any]) -> ExportMetricsServiceRequest:
    """Return a request as the message that gRPC sends. Raises ImportError without opentelemetry-proto."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest  # noqa: PLC0415 - only gRPC needs it

    made = ExportMetricsServiceRequest()
    for resource in request["resourceMetrics"]:
        into = made.resource_metrics.add()
        fill(into.resource.attributes, resource["resource"]["attributes"])
        for scope in resource["scopeMetrics"]:
            found = into.scope_metrics.add(schema_url=scope["schemaUrl"])
            found.scope.name, found.scope.version = scope["scope"]["name"], scope["scope"]["version"]
            for each in scope["metrics"]:
                _add(found.metrics, each)
    return made


def _add(metrics: Any, metric: Mapping[str, Any]) -> None:
    made = metrics.add(name=metric["name"], description=metric["description"], unit=metric["unit"])
    (kind,) = metric.keys() - {"name", "description", "unit"}
    data = getattr(made, kind)
    data.SetInParent()
    if kind != "gauge":
        data.aggregation_temporality = _CUMULATIVE
    if kind == "sum":
        data.is_monotonic = True
    for each in metric[kind]["dataPoints"]:
        point = data.data_points.add(
            start_time_unix_nano=int(each["startTimeUnixNano"]), time_unix_nano=int(each["timeUnixNano"])
        )
        fill(point.attributes, each["attributes"])
        if kind == "histogram":
            point.count, point.sum = int(each["count"]), each["sum"]
            point.bucket_counts.extend(map(int, each["bucketCounts"]))
            point.explicit_bounds.extend(each["explicitBounds"])
        elif "asInt" in each:
            point.as_int = int(each["asInt"])
        else:
            point.as_double = each["asDouble"]


class MetricsPush:
    """Sends the metrics of one process, for as long as it is open. A receiver that is away is logged, and tried again."""

    def __init__(
        self,
        exporter: Exporter[Mapping[str, Any]],
        every_s: float,
        samples: Callable[[], Awaitable[Iterable[Sample]]],
        resource: Mapping[str, str],
        version: str,
        schema_url: str,
        clock: Clock,
        now_ms: Callable[[], int],
        headers: Callable[[], Mapping[str, str]],
    ) -> None:
        """`schema_url` is the address of the convention whose names are among the samples'."""
        self._exporter = exporter
        self._every_s = every_s
        self._samples = samples
        self._resource = resource
        self._version = version
        self._schema_url = schema_url
        self._clock = clock
        self._now_ms = now_ms
        self._headers = headers
        self._began_ms = now_ms()
        self._said_s: float | None = None
        self.failed = 0
        """Number of pushes that did not arrive."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._go_on(), name="holdfast-metrics-push")

    async def aclose(self) -> None:
        """Push once more, within two seconds, and end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            try:
                async with asyncio.timeout(_LAST_S):
                    await self.push()
            except TimeoutError:
                log.info("holdfast could not push its last metrics in time")
        await self._exporter.aclose()

    async def push(self) -> None:
        """Send what is known now. Errors are counted and logged, once a minute at most."""
        try:
            about = self._resource, self._version, self._schema_url, self._began_ms, self._now_ms()
            rejected = await self._exporter.send(request_of(await self._samples(), *about), self._headers())
            problem = f"the receiver rejects {rejected} values" if rejected else ""
        except Exception as error:  # noqa: BLE001 - whatever it is: metrics stop no process
            problem = str(error) or type(error).__name__
        if not problem:
            self._said_s = None
            return
        self.failed += 1
        now_s = self._clock.monotonic_s()
        if self._said_s is None or now_s - self._said_s >= _SAID_EVERY_S:
            self._said_s = now_s
            log.warning("holdfast cannot push metrics and tries again: %s", problem)

    async def _go_on(self) -> None:
        while True:
            await self.push()
            await self._clock.sleep(self._every_s)
