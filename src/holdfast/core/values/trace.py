"""The trace of a request (W3C Trace Context), and the ids of the spans that follow from it.

Ids are computed and never drawn: a span that is derived again, in any process, has the same id. Never here: a span, a
clock, where the header comes from (cli, wire).
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Final, NamedTuple

from holdfast.core.values.ids import RunId, StepId

HEADER: Final = "traceparent"
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_KNOWN: Final = "00"
_NEVER: Final = "ff"
_SAMPLED: Final = 1
_NO_SPAN: Final = "0" * 16
_NO_TRACE: Final = "0" * 32


class TraceContext(NamedTuple):
    """A place in a trace: the trace, the span that is the parent of what follows, and whether the trace is recorded.

    `span_id` is empty if the trace has no span yet.
    """

    trace_id: str
    span_id: str = ""
    is_sampled: bool = True

    @property
    def traceparent(self) -> str:
        """Return the header of this place."""
        return f"{_KNOWN}-{self.trace_id}-{self.span_id or _NO_SPAN}-{self.is_sampled:02x}"


def trace_context_of(traceparent: str | None) -> TraceContext | None:
    """Return the place in a trace that the header `traceparent` of the W3C recommendation "Trace Context" names.

    None for one that is malformed: section 3.2 has it ignored, not refused. Of a version that came later than 00 the
    fields known here are read, whatever follows them.
    """
    found = _FORM.fullmatch(traceparent or "")
    if found is None:
        return None
    version, trace_id, parent, flags, more = found.groups()
    if version == _NEVER or (version == _KNOWN and more is not None) or trace_id == _NO_TRACE or parent == _NO_SPAN:
        return None
    return TraceContext(trace_id, parent, bool(int(flags, 16) & _SAMPLED))


def trace_of(traceparent: str, root: RunId) -> TraceContext:
    """Return the place in a trace at which a run begins: the one with which it was started, kept as a header, in which a span
    of zeros stands for none. Where there is none, a trace of its own, named after the run at the top of its tree."""
    found = _FORM.fullmatch(traceparent)
    if found is not None:
        parent = found[3] if found[3] != _NO_SPAN else ""
        return TraceContext(found[2], parent, bool(int(found[4], 16) & _SAMPLED))
    digits = root.replace("-", "")
    if len(digits) == 32 and _HEX.fullmatch(digits) and digits != _NO_TRACE:
        return TraceContext(digits)
    return TraceContext(blake2b(root.encode(), digest_size=16).hexdigest())


_HEX: Final = re.compile("[0-9a-f]*")
_SAMPLED_DIGITS: Final = 16
"""The last of a trace id, which are as good as random (W3C Trace Context, level 2)."""


def is_sampled(context: TraceContext, ratio: float) -> bool:
    """True if the spans of a trace are sent: its caller records it, and its id is within the ratio. Every process decides the
    same."""
    return context.is_sampled and int(context.trace_id[_SAMPLED_DIGITS:], 16) < ratio * (1 << 64)


class Propagation(NamedTuple):
    """Rules for passing on the place of runs in their traces: within their spans, if these are sent, of some traces."""

    exports: bool = False
    ratio: float = 1.0

    def begin(self, traceparent: str, root: RunId) -> TraceContext:
        """Return the place at which a run begins, sampled if its spans are sent."""
        found = trace_of(traceparent, root)
        return found._replace(is_sampled=is_sampled(found, self.ratio)) if self.exports else found


def span_id(run: RunId, kind: str, *parts: str | int) -> str:
    """Return the id of a span: of the run's thing of this kind that has these parts as its name."""
    return blake2b("\0".join((run, kind, *map(str, parts))).encode(), digest_size=8).hexdigest()


def attempt_span(run: RunId, step: StepId, attempt: int) -> str:
    """Return the id of the span of an attempt: user code in it has it as the current span before it is written."""
    return span_id(run, "attempt", step, attempt)


def call_span(call: str) -> str:
    """Return the id of the span of a model or tool call, whose id begins with its run."""
    return blake2b(call.encode(), digest_size=8).hexdigest()


def child_span(run: RunId, child: RunId) -> str:
    """Return the id of the span with which a run requests a child: the parent of the child's first span."""
    return span_id(run, "child", child)
