"""What traces cost: deriving and encoding a span, and a step's current span, in processor time.

    python -m bench.spans [RUNS]

Spans are those of a run of ten steps with a model call each, as exported by default. Prints one line of JSON. The figures are
processor time of one thread on a shared machine; compare those of one run.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextvars import copy_context

import opentelemetry.trace

from holdfast.core.facts import events as ev
from holdfast.core.values.ids import CallId, NodeName, Path, RunId, Seq, SessionId, step_id
from holdfast.core.values.payload import NULL, inline
from holdfast.core.values.trace import Propagation
from holdfast.core.views.spans import Spans, spans
from holdfast.platform.current_span import StepSpan
from holdfast.telemetry.names import Naming, Run
from holdfast.telemetry.otlp import Encoder, Exported, message

STEPS = 10
RUN = RunId("019aa8b2-6f41-7000-8000-000000000001")


def history() -> list[ev.Recorded]:
    """The history of a run of ten steps, each with a model call."""
    begin = ev.RunStarted(RUN, "acme", "bench", 1, "hash", NULL, None, 100)
    events: list[ev.Event] = [begin]
    for number in range(STEPS):
        step, call = step_id(NodeName(f"n{number}"), 1), CallId(f"{RUN}:n{number}#1:0:1")
        events += [
            ev.StepStarted(step, 1, SessionId("s")),
            ev.ModelCallHeld(call, step, 1, Path("0"), "claude-haiku-4-5", "h", 100),
            ev.ModelCallSettled(call, 70, 100, 225, inline("x" * 900)),
            ev.StepCompleted(step, 1, inline("x" * 900)),
        ]
    events.append(ev.RunCompleted())
    return [ev.Recorded(Seq(seq), 1_700_000_000_000 + seq, event) for seq, event in enumerate(events, 1)]


def cost_us(work: Callable[[], object], count: int) -> float:
    """Return the microseconds of processor time of one of the `count` things that `work` does, the least of five rounds."""
    least = float("inf")
    for _ in range(5):
        began = time.process_time()
        work()
        least = min(least, time.process_time() - began)
    return round(least / count * 1e6, 2)


def main(runs: int) -> None:
    events, found = history(), spans(history())
    encoder = Encoder(Naming("1.41.0", lambda _: "anthropic"), {"service.name": "holdfast"}, "1")
    exported = [Exported(span, Run(RUN, "acme", "bench", 1)) for span in found] * runs

    def derive() -> None:
        for _ in range(runs):
            gathered = Spans()
            for each in events:
                gathered.add(each)

    trace = Propagation(True).begin("", RUN)

    def enter() -> None:
        for _ in range(1000):
            copy_context().run(StepSpan(lambda: trace, RUN, step_id("n", 1), exports=True).enter, 1)

    def ask() -> None:
        for _ in range(1000):
            opentelemetry.trace.get_current_span().get_span_context()

    in_step = copy_context()
    in_step.run(StepSpan(lambda: trace, RUN, step_id("n", 1), exports=True).enter, 1)
    count = len(exported)
    sys.stdout.write(
        json.dumps(
            {
                "spans_a_step": round(len(found) / STEPS, 1),
                "derive_us_a_span": cost_us(derive, count),
                "encode_json_us_a_span": cost_us(lambda: encoder.json(exported), count),
                "encode_message_us_a_span": cost_us(lambda: message(encoder.request(exported)).SerializeToString(), count),
                "enter_us_a_step": cost_us(enter, 1000),
                "context_us_when_asked": cost_us(lambda: in_step.run(ask), 1000),
                "bytes_a_span": len(encoder.json(exported)) // count,
            }
        )
        + "\n"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
