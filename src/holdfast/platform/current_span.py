"""OpenTelemetry's current span, as code around Holdfast sees it: read where a command is given, set where a step runs.

Nothing is imported for it: without `opentelemetry-api` in the process there is no current span.
Never here: a span that is exported.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from holdfast.core.values.trace import TraceContext

API: Final = "opentelemetry.trace"


def current_context() -> TraceContext | None:
    """Return the place of the caller's current span in its trace; None without one."""
    api: Any = sys.modules.get(API)
    if api is None:
        return None
    found = api.get_current_span().get_span_context()
    if not found.is_valid:
        return None
    return TraceContext(f"{found.trace_id:032x}", f"{found.span_id:016x}", bool(found.trace_flags & 1))
