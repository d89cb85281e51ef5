"""Metrics on their way to a receiver of OTLP, over HTTP with JSON: the samples that Prometheus would read, every few seconds.

Counts are those since the start of the process, so a lost push loses nothing: the next one has it all. Nothing is queued.
Never here: which metrics there are, what a process counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import httpx2

from holdfast.platform.quiet_requests import quiet_requests
from holdfast.ports import Clock
from holdfast.ports.metric import Distribution, Metric, Sample
from holdfast.telemetry.exporter import answer
from holdfast.telemetry.otlp import encode_json

log = logging.getLogger("holdfast")

PATH: Final = "/v1/metrics"
TIMEOUT_S: Final = 10.0
_LAST_S: Final = 2.0
"""Time for the last push of a process."""
_SAID_EVERY_S: Final = 60.0
_CUMULATIVE: Final = 2


def request_of(
    samples: Iterable[Sample], resource: Mapping[str, str], version: str, began_ms: int, now_ms: int
) -> dict[str, Any]:
    """Return the samples as a request of OTLP (1.3), in its form for JSON: 64-bit integers are texts."""
    by_metric: dict[Metric, list[Sample]] = {}
    for each in samples:
        by_metric.setdefault(each.metric, []).append(each)
    times = {"startTimeUnixNano": str(began_ms * 1_000_000), "timeUnixNano": str(now_ms * 1_000_000)}
    found = [_metric(metric, [{**times, **_point(each)} for each in group]) for metric, group in by_metric.items()]
    scope = {"scope": {"name": "holdfast", "version": version}, "metrics": found}
    return {"resourceMetrics": [{"resource": {"attributes": _attributes(resource)}, "scopeMetrics": [scope]}]}


def _metric(metric: Metric, points: list[dict[str, Any]]) -> dict[str, Any]:
    words = {"name": metric.name, "description": metric.help, "unit": metric.unit}
    if metric.kind == "gauge":
        return {**words, "gauge": {"dataPoints": points}}
    if metric.kind == "counter":
        return {**words, "sum": {"dataPoints": points, "aggregationTemporality": _CUMULATIVE, "isMonotonic": True}}
    return {**words, "histogram": {"dataPoints": points, "aggregationTemporality": _CUMULATIVE}}


def _point(sample: Sample) -> dict[str, Any]:
    attributes = _attributes(dict(zip(sample.metric.labels, sample.labels, strict=True)))
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


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]


class MetricsPush:
    """Sends the metrics of one process, for as long as it is open. A receiver that is away is logged, and tried again."""

    def __init__(
        self,
        endpoint: str,
        every_s: float,
        samples: Callable[[], Awaitable[Iterable[Sample]]],
        resource: Mapping[str, str],
        version: str,
        clock: Clock,
        now_ms: Callable[[], int],
        headers: Callable[[], Mapping[str, str]],
    ) -> None:
        """`endpoint` is the receiver's address, as in `http://127.0.0.1:4318`, or all of it with `/v1/metrics`."""
        base = endpoint.rstrip("/")
        self._url = base if base.endswith(PATH) else f"{base}{PATH}"
        self._every_s = every_s
        self._samples = samples
        self._resource = resource
        self._version = version
        self._clock = clock
        self._now_ms = now_ms
        self._headers = headers
        self._began_ms = now_ms()
        self._client = httpx2.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)
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
                log.info("holdfast could not push its last metrics to %s in time", self._url)
        await self._client.aclose()

    async def push(self) -> None:
        """Send what is known now. Errors are counted and logged, once a minute at most."""
        try:
            body = request_of(await self._samples(), self._resource, self._version, self._began_ms, self._now_ms())
            headers = {**self._headers(), "content-type": "application/json"}
            with quiet_requests():
                reply = await self._client.post(self._url, content=encode_json(body), headers=headers)
            problem = "" if reply.is_success else f"it answers {answer(reply.status_code, reply.text)}"
        except Exception as error:  # noqa: BLE001 - whatever it is: metrics stop no process
            problem = str(error) or type(error).__name__
        if not problem:
            self._said_s = None
            return
        self.failed += 1
        now_s = self._clock.monotonic_s()
        if self._said_s is None or now_s - self._said_s >= _SAID_EVERY_S:
            self._said_s = now_s
            log.warning("holdfast cannot push metrics to %s and tries again: %s", self._url, problem)

    async def _go_on(self) -> None:
        while True:
            await self.push()
            await self._clock.sleep(self._every_s)
