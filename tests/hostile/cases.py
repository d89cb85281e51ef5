"""The hostile inputs: a line each. What it is called, the door it comes in by, what is sent, what must come of it (a pattern of
the door's words); and the memory that it may take, where that is not the usual.

An input is made when its turn comes. Never here: how a door works (doors), what is measured (trial).
"""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from tests.hostile import doors
from tests.tools.server import raw

MIB = 1024 * 1024


Door = Callable[[Any], Awaitable[str]]


class Case(NamedTuple):
    """One hostile input."""

    name: str
    door: Door
    sent: Callable[[], Any]
    expected: str
    memory_mb: float = 64.0


def evaluating(*expressions: str) -> str:
    """A workflow file with these expressions among the variables of its job."""
    lines = "".join(f"      V{number}: ${{{{ {each} }}}}\n" for number, each in enumerate(expressions))
    return f"jobs:\n  a:\n    runs-on: any\n    env:\n{lines}    steps: [{{run: x}}]\n"


def packed(body: bytes, times: int = 1) -> bytes:
    for _ in range(times):
        body = gzip.compress(body)
    return body


HOLDING = (
    Case("the loop itself is held", doors.loop, lambda: 60_000_000, r"\d"),
    Case("a thread keeps the interpreter", doors.thread, lambda: 60_000_000, r"\d"),
)

_MUCH = evaluating(*["contains(inputs.text, 'x')"] * 60)
_JSON = evaluating("fromJSON(inputs.text)")

EXPRESSIONS = (
    Case("fromJSON of an unclosed quote", doors.job, lambda: (_JSON, {"text": '"' + "a" * (MIB - 9)}), "Unterminated string"),
    Case("fromJSON of unclosed quotes", doors.job, lambda: (_JSON, {"text": '"' + '\\"' * (MIB // 2 - 9)}), "Unterminated string"),
    Case("fromJSON of a long number", doors.job, lambda: (_JSON, {"text": "9" * (MIB - 9)}), "failed|completed"),
    Case("fromJSON of many objects", doors.job, lambda: (_JSON, {"text": "[" + "{}," * (MIB // 3 - 9) + "1]"}), "looks at more|completed", 128.0),
    Case("60 expressions over 1.9 MB", doors.job, lambda: (_MUCH, {"text": "é" * 1_900_000}), "expressions of a job"),
)  # fmt: skip

HTTP_REPLIES = (
    Case("a charset that takes a minute", doors.http_reply, lambda: raw(200, b"a" * (MIB - 9), kind="text/plain; charset=punycode"), "OutcomeUnknown.*charset"),
    Case("a charset that raises", doors.http_reply, lambda: raw(200, b"a", kind="text/plain; charset=undefined"), "OutcomeUnknown.*charset"),
    Case("a charset with a NUL", doors.http_reply, lambda: raw(200, b"a", kind="text/plain; charset*=us-ascii''utf-8%00"), "answered: a"),
    Case("a charset that is code", doors.http_reply, lambda: raw(200, b"a", kind="text/plain; charset=zlib_codec"), "OutcomeUnknown.*charset"),
    Case("gzip of a gigabyte", doors.http_reply, lambda: raw(200, packed(b"x" * 64 * MIB), Content_Encoding="gzip"), "OutcomeUnknown.*larger than"),
    Case("gzip of gzip", doors.http_reply, lambda: raw(200, packed(b"x" * 64 * MIB, 2), Content_Encoding="gzip, gzip"), "OutcomeUnknown.*larger than"),
    Case("JSON of empty lists", doors.http_reply, lambda: raw(200, b"[" + b"[]," * (MIB // 3 - 9) + b"1]"), "answered"),
    Case("JSON without an end", doors.http_reply, lambda: raw(200, b"[" * (MIB - 9)), "OutcomeUnknown.*is none"),
    Case("a date in no calendar", doors.http_reply, lambda: raw(429, b"", Date="Mon, 01 Jan 2024 00:00:00 GMT", Retry_After="Mon, 01 Jan 99999999999999999999 00:00:00 GMT"), "ToolFailed.*not now"),
)  # fmt: skip

HARMLESS: dict[Door, Any] = {doors.job: (_JSON, {"text": "1"}), doors.http_reply: raw(200, b"1")}
"""What each door takes first, unmeasured."""

CASES = (*EXPRESSIONS, *HTTP_REPLIES)
