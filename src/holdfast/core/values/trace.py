"""The trace of a request, by which others find what the request has caused.

Never here: a span, a clock, where the header comes from (cli, wire).
"""

from __future__ import annotations

import re
from typing import Final

HEADER: Final = "traceparent"
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?", re.DOTALL)
_KNOWN: Final = "00"
_NEVER: Final = "ff"


def trace_id_of(traceparent: str | None) -> str | None:
    """The trace id, 32 hexadecimal digits, that the header `traceparent` of the W3C recommendation "Trace Context" names.

    None for one that is malformed: section 3.2 has it ignored, not refused. Of a version that came later than 00 the
    fields known here are read, whatever follows them.
    """
    found = _FORM.fullmatch(traceparent or "")
    if found is None:
        return None
    version, trace_id, parent, more = found.groups()
    if version == _NEVER or (version == _KNOWN and more is not None) or not int(trace_id, 16) or not int(parent, 16):
        return None
    return trace_id
