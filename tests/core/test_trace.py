"""The header of W3C Trace Context, as its section 3.2 says what is to be read of it and what is to be ignored."""

from __future__ import annotations

import pytest

from holdfast.core.values.ids import RunId, StepId
from holdfast.core.values.trace import TraceContext, attempt_span, call_span, child_span, span_id, trace_context_of, trace_of

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
ROOT = RunId("0198c0de-0000-7000-8000-00000000abcd")


@pytest.mark.parametrize("said", [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-ff", f"cc-{TRACE}-{PARENT}-01-more"])
def test_the_trace_is_read_also_of_versions_to_come(said: str) -> None:
    found = trace_context_of(said)
    assert found is not None
    assert (found.trace_id, found.span_id, found.is_sampled) == (TRACE, PARENT, True)


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        "00",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE}-{PARENT}-01-more",
        f"cc-{TRACE}-{PARENT}-01.more",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{TRACE[:-1]}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f" 00-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\n",
        f"00-{TRACE[:-1]}٣-{PARENT}-01",
    ],
)
def test_what_is_malformed_is_ignored(said: str | None) -> None:
    assert trace_context_of(said) is None


def test_a_header_is_written_as_it_was_read() -> None:
    for header in (f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"):
        found = trace_context_of(header)
        assert found is not None
        assert found.traceparent == header
        assert trace_of(header, ROOT) == found


def test_a_run_without_a_trace_has_one_named_after_the_top_of_its_tree() -> None:
    assert trace_of("", ROOT) == TraceContext(ROOT.replace("-", ""))
    assert trace_of(TraceContext(TRACE).traceparent, ROOT) == TraceContext(TRACE)
    other = trace_of("", RunId("no uuid"))
    assert len(other.trace_id) == 32
    assert other == trace_of("", RunId("no uuid"))


def test_ids_of_spans_are_sixteen_digits_and_differ_by_every_part() -> None:
    run, step = RunId(ROOT), StepId("a#1")
    ids = {attempt_span(run, step, 1), attempt_span(run, step, 2), child_span(run, ROOT), span_id(run, "run", 1)}
    assert len(ids) == 4
    assert all(len(id_) == 16 and int(id_, 16) for id_ in ids)
    assert attempt_span(run, step, 1) == attempt_span(run, step, 1) != call_span(f"{run}:a#1:0:1")
