"""Spans as OTLP: the official parser reads JSON and message as the same, in the names of the convention that is chosen."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from holdfast.core.values.payload import inline
from holdfast.core.views.span_parts import Span, SpanKind
from holdfast.telemetry.chrome import trace_file
from holdfast.telemetry.names import ConventionName, Naming, Run
from holdfast.telemetry.otlp import Encoder, Exported, message
from holdfast.telemetry.payload import PayloadReader
from tests.telemetry.receiver import in_base64, values

RUN = Run("019aa8b2", "acme", "triage", 3)
TRACE, ID, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "00f067aa0ba902b8"


def span(kind: SpanKind, name: str, **more: Any) -> Exported:
    given = {"began_at_ms": 1_700_000_000_123, "ended_at_ms": 1_700_000_001_000, "seq": 7, "outcome": "completed", **more}
    return Exported(Span(TRACE, ID, PARENT, kind, name, **given), RUN)


def encoder(convention: ConventionName = "1.41.0", **more: Any) -> Encoder:
    naming = Naming(convention, {"claude-haiku-4-5": "anthropic"}.get)  # type: ignore[arg-type]
    return Encoder(naming, {"service.name": "agents"}, "1", **more)


MODEL = span(
    "model_call",
    "claude-haiku-4-5",
    facts={"call": "c", "cost_nanousd": 12, "input_tokens": 5, "cache_write_tokens": 2, "step": "a#1"},
    links=((TRACE, PARENT),),
)
ALL = [
    MODEL,
    span("run", "triage", error="timeout", outcome="failed"),
    span("tool_call", "send", facts={"call": "c"}),
    span("wait", "approval", facts={"wait": "person", "wait_ms": 1500, "by": "ann", "due_at_ms": None}),
    span("attempt", "review[ann@example.com]", facts={"attempt": 2}),
    span("guard", "ready", facts={"allowed": True}),
    span("child", "other"),
    span("remote_job", "resize", error="job_failed"),
    span("map_item", "review[ann@example.com]"),
]


@pytest.mark.parametrize("convention", ["1.41.0", "genai-0.1"])
def test_the_official_parser_reads_json_and_message_as_the_same(convention: ConventionName) -> None:
    made = encoder(convention)
    for _ in range(2):  # what was encoded before is the same again
        assert Parse(in_base64(made.json(ALL)), ExportTraceServiceRequest()) == message(made.request(ALL))


def test_names_are_those_of_the_convention() -> None:
    sent = message(encoder().request(ALL)).resource_spans[0].scope_spans[0]
    assert sent.schema_url == "https://opentelemetry.io/schemas/1.41.0"
    model, run, tool, wait, attempt, _, child, remote, item = sent.spans
    assert [each.name for each in (model, run, tool, wait, attempt)] == [
        "chat claude-haiku-4-5",
        "invoke_workflow triage",
        "execute_tool send",
        "interrupt.waiting",
        "attempt review[]",
    ]
    assert (model.kind, run.kind, child.kind, remote.kind) == (3, 1, 4, 3)
    assert (remote.name, item.name) == ("remote_job resize", "map_item review[]")
    assert values(remote.attributes)["error.type"] == "job_failed"
    found = values(model.attributes)
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.provider.name"] == "anthropic"
    assert found["gen_ai.usage.input_tokens"] == 5
    assert found["gen_ai.usage.cache_creation.input_tokens"] == 2
    assert found["holdfast.cost_nanousd"] == 12
    assert values(run.attributes)["gen_ai.workflow.name"] == "triage"
    assert values(run.attributes)["error.type"] == "timeout"
    assert run.status.code == 2
    assert values(wait.attributes)["interrupt.wait_time"] == 1.5
    assert "holdfast.by" not in values(wait.attributes)


def test_the_later_convention_names_workflows_as_agents() -> None:
    sent = message(encoder("genai-0.1").request(ALL)).resource_spans[0].scope_spans[0]
    assert sent.schema_url == ""
    assert values(sent.spans[1].attributes)["gen_ai.agent.name"] == "triage"
    assert values(sent.spans[0].attributes)["gen_ai.usage.cache_write.input_tokens"] == 2


def test_payloads_are_sent_only_where_they_are_wanted_and_without_personal_data() -> None:
    asked = span("model_call", "m", facts={"call": "c"}, received=inline({"text": "write to ann@example.com"}))
    assert b"ann@example.com" not in encoder().json([asked])
    (found,) = message(encoder(payload=PayloadReader()).request([asked])).resource_spans[0].scope_spans[0].spans
    said = values(found.attributes)["gen_ai.input.messages"]
    assert json.loads(said)["text"].startswith("write to ")
    assert "ann@example.com" not in said


def test_a_file_for_viewers_has_a_process_for_each_run_and_a_row_for_each_step() -> None:
    naming = Naming("1.41.0", lambda _: "")
    events = msgspec.json.decode(trace_file(ALL, naming))["traceEvents"]
    named = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert named == {"triage 019aa8b2", "a#1", "run"}
    complete = [event for event in events if event["ph"] == "X"]
    assert len(complete) == len(ALL)
    assert {(event["ts"], event["dur"]) for event in complete} == {(1_700_000_000_123_000, 877_000)}
