"""Spans as a file for trace viewers: Chrome's trace-event format, which Perfetto opens too.

A run is a process there and a step a row of its own, so what was side by side is shown side by side. Never here: what is
derived from a history.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from holdfast.telemetry.names import Naming
from holdfast.telemetry.otlp import Exported

_US_PER_MS: Final = 1000


def trace_file(spans: Iterable[Exported], naming: Naming) -> bytes:
    """Return the content of a file with these spans, all of which have ended."""
    processes: dict[str, int] = {}
    rows: dict[tuple[str, str], int] = {}
    events: list[dict[str, Any]] = []
    for span, run in spans:
        if run.run not in processes:
            processes[run.run] = len(processes) + 1
            events.append(_named("process_name", processes[run.run], 0, f"{run.workflow} {run.run}"))
        process, step = processes[run.run], str(span.facts.get("step", ""))
        row = f"{step} waits" if span.kind == "wait" and step else step
        if (run.run, row) not in rows:
            rows[run.run, row] = len(rows) + 1
            events.append(_named("thread_name", process, rows[run.run, row], row or "run"))
        events.append(
            {
                "name": naming.name(span),
                "cat": span.kind,
                "ph": "X",
                "pid": process,
                "tid": rows[run.run, row],
                "ts": span.began_at_ms * _US_PER_MS,
                "dur": span.took_ms * _US_PER_MS,
                "args": naming.attributes(span, run),
            }
        )
    return msgspec.json.encode({"traceEvents": events, "displayTimeUnit": "ms"})


def _named(kind: str, process: int, row: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": row, "args": {"name": name}}
