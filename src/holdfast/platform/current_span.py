"""The current span: OpenTelemetry's, read where a command is given; and a step's own, set where its code runs and passed on
with what it calls.

Without `opentelemetry-api` in the process there is no current span; only an engine that sends spans imports it.
Never here: a span that is exported.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

from holdfast.core.values.ids import CallId, RunId, StepId
from holdfast.core.values.trace import HEADER, TraceContext, attempt_span, call_span

API: Final = "opentelemetry.trace"


def load_api() -> None:
    """Import OpenTelemetry's API, if it is installed: code that imports it inside a step then finds the step's span there."""
    with suppress(ImportError):
        importlib.import_module(API)


def current_context() -> TraceContext | None:
    """Return the place of the caller's current span in its trace; None without one."""
    api: Any = sys.modules.get(API)
    if api is None:
        return None
    found = api.get_current_span().get_span_context()
    if not found.is_valid:
        return None
    return TraceContext(f"{found.trace_id:032x}", f"{found.span_id:016x}", bool(found.trace_flags & 1))


class StepSpan:
    """The span of a step's code: that of the attempt under way, also for code that stays in memory for the next one.

    Each step has one, and few ask where it is: that is computed for the first that does.
    """

    __slots__ = ("_begin", "_begins", "_exports", "_number", "_run", "_step")

    def __init__(self, begin: Callable[[], TraceContext], run: RunId, step: StepId, *, exports: bool) -> None:
        """`begin` returns the place in its trace where the run begins; with `exports` its spans are sent, and otherwise its
        caller's place is passed on."""
        self._begin = begin
        self._begins: TraceContext | None = None
        self._run = run
        self._step = step
        self._exports = exports
        self._number = 0

    def enter(self, number: int) -> None:
        """Make this the current span, within the current context, as that of the attempt of this number."""
        self._number = number
        _here.set(self)
        if self._exports and API in sys.modules:
            _attacher()(self)

    def context(self, call: CallId | None = None) -> TraceContext:
        """Return the place of the attempt, or of a call that it makes."""
        if (begins := self._begins) is None:
            begins = self._begins = self._begin()
        if not self._exports:
            return begins
        id_ = attempt_span(self._run, self._step, self._number) if call is None else call_span(call)
        return begins._replace(span_id=id_)


_here: Final[ContextVar[StepSpan | None]] = ContextVar("holdfast_span", default=None)


def trace_headers(call: CallId | None = None) -> dict[str, str]:
    """Return the header that passes the current place on, in a call that the step makes; nothing outside of a trace."""
    span = _here.get()
    place = None if span is None else span.context(call)
    return {} if place is None or not place.span_id else {HEADER: place.traceparent}


def continue_trace(context: TraceContext) -> None:
    """Make a place in a trace that was received OpenTelemetry's current span, within the current context."""
    if API in sys.modules:
        from opentelemetry import context as contexts  # noqa: PLC0415 - it is there
        from opentelemetry import trace  # noqa: PLC0415 - as above

        contexts.attach(trace.set_span_in_context(trace.NonRecordingSpan(_span_context(context))))


def _span_context(context: TraceContext) -> Any:
    from opentelemetry import trace  # noqa: PLC0415 - it is there

    flags = trace.TraceFlags(context.is_sampled)
    return trace.SpanContext(int(context.trace_id, 16), int(context.span_id, 16), is_remote=False, trace_flags=flags)


@cache
def _attacher() -> Callable[[StepSpan], object]:
    """Return what makes a step's span OpenTelemetry's current one: users' own spans have it as their parent. Its ids are
    computed only when one asks."""
    from opentelemetry import context as contexts  # noqa: PLC0415 - it is there
    from opentelemetry import trace  # noqa: PLC0415 - as above

    class CurrentStep(trace.NonRecordingSpan):
        _of_step: StepSpan

        def get_span_context(self) -> Any:
            return _span_context(self._of_step.context())

        def __repr__(self) -> str:
            return f"CurrentStep({self._of_step.context().traceparent})"

    context_of, current, attach, new = contexts.Context, contexts.get_current, contexts.attach, CurrentStep.__new__
    (key,) = trace.set_span_in_context(trace.INVALID_SPAN, context_of())

    def attached(step: StepSpan) -> object:
        span = new(CurrentStep)
        span._of_step = step
        return attach(context_of({**current(), key: span}))

    return attached
