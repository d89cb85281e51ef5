"""Metrics that are pushed are those that Prometheus reads, by the official messages; no receiver can stop a process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from holdfast.compose.api import HttpPort
from holdfast.compose.fleet import serving
from holdfast.core.capacity.lanes import DEFAULT
from holdfast.observe import metrics
from holdfast.platform.machine import MachineClock
from holdfast.ports.metric import Distribution, Sample
from holdfast.service.access.identity import Identity
from holdfast.settings import Settings, TelemetryRules
from holdfast.telemetry.exporter import METRICS, HttpExporter
from holdfast.telemetry.metrics import MetricsPush, message, request_of
from holdfast.telemetry.otlp import encode_json
from tests.engine.kit import bounded

SAMPLES = [
    Sample(metrics.STEPS, ("refund", "completed"), 3),
    Sample(metrics.STEPS, ("refund", "failed"), 1),
    Sample(metrics.SWEEP_LAG, (), 0.5),
    Sample(metrics.FLUSH_SIZE, (), Distribution((1, 2, *[0] * len(metrics.FLUSH_SIZE.bounds[1:])), 5.0)),
]


@contextmanager
def receiver(*answers: int) -> Iterator[tuple[str, list[Any], list[dict[str, str]]]]:
    """A receiver that decodes what comes by the official messages. It answers so, then 200."""
    got: list[Any] = []
    headers: list[dict[str, str]] = []
    left = [*answers]

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            assert self.path == "/v1/metrics"
            headers.append({name.lower(): value for name, value in self.headers.items()})
            code = left.pop(0) if left else 200
            if code == 200:
                got.append(Parse(body, ExportMetricsServiceRequest()))
            self.send_response(code)
            self.end_headers()

        def log_message(self, *words: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got, headers
    finally:
        server.shutdown()
        server.server_close()


def push(endpoint: str, every_s: float = 60.0) -> MetricsPush:
    async def samples() -> list[Sample]:
        return SAMPLES

    resource = {"service.name": "holdfast", "service.instance.id": "here:1"}
    sender = HttpExporter(endpoint, METRICS, encode_json)
    return MetricsPush(
        sender, every_s, samples, resource, "1.0", "", MachineClock(), lambda: 1_700_000_000_000, lambda: {"x": "y"}
    )


def found(request: Any) -> dict[str, Any]:
    """The metrics of a request, by name."""
    (resource,) = request.resource_metrics
    (scope,) = resource.scope_metrics
    return {each.name: each for each in scope.metrics}


def labels(point: Any) -> dict[str, str]:
    return {each.key: each.value.string_value for each in point.attributes}


def test_a_request_is_one_of_the_protocol() -> None:
    body = request_of(SAMPLES, {"service.name": "holdfast"}, "1.0", "", 1_000, 2_000)
    request = Parse(json.dumps(body), ExportMetricsServiceRequest())
    assert message(body) == request, "gRPC sends the same"
    (resource,) = request.resource_metrics
    assert labels(resource.resource) == {"service.name": "holdfast"}
    got = found(request)
    steps = got["holdfast_steps_total"]
    assert (steps.sum.is_monotonic, steps.sum.aggregation_temporality) == (True, 2)
    assert [(labels(each), each.as_int) for each in steps.sum.data_points] == [
        ({"workflow": "refund", "outcome": "completed"}, 3),
        ({"workflow": "refund", "outcome": "failed"}, 1),
    ]
    (lag,) = got["holdfast_sweep_lag_seconds"].gauge.data_points
    assert (lag.as_double, lag.start_time_unix_nano, lag.time_unix_nano) == (0.5, 1_000_000_000, 2_000_000_000)
    (sizes,) = got["holdfast_flush_size_appends"].histogram.data_points
    assert (sizes.count, sizes.sum, [*sizes.bucket_counts][:3]) == (3, 5.0, [1, 2, 0])
    assert [*sizes.explicit_bounds] == [*metrics.FLUSH_SIZE.bounds]
    assert {each.unit for each in got.values()} == {"1", "s", "appends"}


@bounded
async def test_a_receiver_that_is_away_or_refuses_is_logged_once_and_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with receiver(503, 400) as (url, got, headers):
        pushing = push(url)
        for _ in range(3):
            await pushing.push()
        assert (len(got), pushing.failed) == (1, 2)
        assert found(got[0]).keys() == {each.metric.name for each in SAMPLES}
        assert {each["x"] for each in headers} == {"y"}
    await pushing.push()
    await pushing.aclose()
    assert pushing.failed == 3
    said = [each.message.partition("tries again: ")[2] for each in caplog.records if "cannot push metrics" in each.message]
    assert said == [f"{url}/v1/metrics answers 503", f"{url}/v1/metrics cannot be reached: All connection attempts failed"]


@bounded
async def test_the_end_of_a_process_pushes_once_more(caplog: pytest.LogCaptureFixture) -> None:
    with receiver() as (url, got, _):
        pushing = push(url)
        pushing.start()
        while not got:
            await asyncio.sleep(0.01)
        await pushing.aclose()
        assert len(got) == 2


@bounded
async def test_a_server_pushes_what_its_port_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTLP_TOKEN", "the-token")
    with receiver() as (url, got, headers):
        rules = TelemetryRules(endpoint=url, metrics_every_s=1, headers={"authorization": "OTLP_TOKEN"})
        known = Settings(telemetry=rules)
        port = HttpPort("127.0.0.1:0", Identity(token="secret"))
        where = f"sqlite:///{tmp_path / 'served.db'}"
        async with serving(where, known, [], None, port, DEFAULT, lambda words: None) as served:
            while not got:
                await asyncio.sleep(0.01)
            shown = {each.metric.name for each in await served.metrics.samples()}
    names = set(found(got[0]))
    assert names >= {"holdfast_build_info", "holdfast_worker_slots", "holdfast_queue_depth"}
    assert names <= shown
    assert {each["authorization"] for each in headers} == {"the-token"}
    assert {each.key for each in got[0].resource_metrics[0].resource.attributes} == {
        "service.name",
        "service.version",
        "service.instance.id",
    }
