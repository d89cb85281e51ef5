"""The hostile inputs: a line each. What it is called, the door it comes in by, what is sent, what must come of it (a pattern of
the door's words); and the memory that it may take, where that is not the usual.

An input is made when its turn comes. Never here: how a door works (doors), what is measured (trial).
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from holdfast.wire import wire_pb2 as wire
from tests.hostile import doors
from tests.tools.server import raw

MIB = 1024 * 1024
CLAUDE, GPT = "claude-haiku-4-5", "gpt-5"


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


def submitting(**fields: Any) -> bytes:
    return wire.SubmitRequest(**fields).SerializeToString()


def nested_parts(depth: int) -> bytes:
    """What a worker says, in what it says, in what it says."""
    said = b""
    for _ in range(depth):
        length, prefix = len(said), b"\x7a"
        while length >= 128:
            prefix += bytes([length & 127 | 128])
            length >>= 7
        said = prefix + bytes([length]) + said
    return said


def large_file(number: int) -> str:
    """A workflow file of nearly a mebibyte, all of it expressions."""
    steps = "".join(
        f"      - env: {{A: '${{{{ inputs.x || {n} || inputs.another || inputs.third }}}}'}}\n        run: echo {'${{ inputs.y }} ' * 20}{number}\n"
        for n in range(990)
    )
    return f"name: large\njobs:\n  a:\n    runs-on: any\n    steps:\n{steps}"


HOLDING = (
    Case("the loop itself is held", doors.loop, lambda: 60_000_000, r"\d"),
    Case("a thread keeps the interpreter", doors.thread, lambda: 60_000_000, r"\d"),
)

_MUCH = evaluating(*["contains(inputs.text, 'x')"] * 60)
_JSON = evaluating("fromJSON(inputs.text)")

EXPRESSIONS = (
    Case("fromJSON of an unclosed quote", doors.job, lambda: (_JSON, {"text": '"' + "a" * (MIB - 9)}), "Unterminated string"),
    Case(
        "fromJSON of unclosed quotes", doors.job, lambda: (_JSON, {"text": '"' + '\\"' * (MIB // 2 - 9)}), "Unterminated string"
    ),
    Case("fromJSON of a long number", doors.job, lambda: (_JSON, {"text": "9" * (MIB - 9)}), "failed|completed"),
    Case(
        "fromJSON of many objects",
        doors.job,
        lambda: (_JSON, {"text": "[" + "{}," * (MIB // 3 - 9) + "1]"}),
        "looks at more|completed",
        128.0,
    ),
    Case("60 expressions over 1.9 MB", doors.job, lambda: (_MUCH, {"text": "é" * 1_900_000}), "expressions of a job"),
)

HTTP_REPLIES = (
    Case(
        "a charset that takes a minute",
        doors.http_reply,
        lambda: raw(200, b"a" * (MIB - 9), kind="text/plain; charset=punycode"),
        "OutcomeUnknown.*charset",
    ),
    Case(
        "a charset that raises",
        doors.http_reply,
        lambda: raw(200, b"a", kind="text/plain; charset=undefined"),
        "OutcomeUnknown.*charset",
    ),
    Case(
        "a charset with a NUL",
        doors.http_reply,
        lambda: raw(200, b"a", kind="text/plain; charset*=us-ascii''utf-8%00"),
        "answered: a",
    ),
    Case(
        "a charset that is code",
        doors.http_reply,
        lambda: raw(200, b"a", kind="text/plain; charset=zlib_codec"),
        "OutcomeUnknown.*charset",
    ),
    Case(
        "gzip of a gigabyte",
        doors.http_reply,
        lambda: raw(200, packed(b"x" * 64 * MIB), Content_Encoding="gzip"),
        "OutcomeUnknown.*larger than",
    ),
    Case(
        "gzip of gzip",
        doors.http_reply,
        lambda: raw(200, packed(b"x" * 64 * MIB, 2), Content_Encoding="gzip, gzip"),
        "OutcomeUnknown.*larger than",
    ),
    Case(
        "JSON of empty lists",
        doors.http_reply,
        lambda: raw(200, b"[" + b"[]," * (MIB // 3 - 9) + b"1]"),
        "OutcomeUnknown.*more than 200,000 lists",
    ),
    Case(
        "JSON without an end",
        doors.http_reply,
        lambda: raw(200, b"[" * (MIB - 9)),
        "OutcomeUnknown.*(is none|more than 200,000)",
    ),
    Case(
        "a date in no calendar",
        doors.http_reply,
        lambda: raw(
            429, b"", Date="Mon, 01 Jan 2024 00:00:00 GMT", Retry_After="Mon, 01 Jan 99999999999999999999 00:00:00 GMT"
        ),
        "ToolFailed.*not now",
    ),
)

_FOUR = 4 * MIB
_REGISTER = wire.FromWorker(register=wire.Register(name="w", instance="w", tasks=["do"], slots=1)).SerializeToString()


def _length(size: int) -> bytes:
    """A length as it stands before a text in a message."""
    return bytes([size & 0x7F | 0x80, *_length(size >> 7)]) if size > 0x7F else bytes([size])


def two_million_jobs() -> bytes:
    """A worker that has so many."""
    register = wire.Register(name="w", instance="w", tasks=["do"], slots=1, jobs=[""] * (2 * MIB - 99))
    return wire.FromWorker(register=register).SerializeToString()


GRPC = (
    Case(
        "200 strangers with 4 MB each",
        doors.strangers,
        lambda: (200, "/holdfast.v1.Workflows/Submit", submitting(input_json="x" * (_FOUR - 99))),
        "^UNAUTHENTICATED: The token is missing or wrong[^;]*$",
    ),
    Case(
        "200 strangers with 4 MB each for the health",
        doors.strangers,
        lambda: (200, "/grpc.health.v1.Health/Check", b"\x0a" + _length(_FOUR - 99) + b"x" * (_FOUR - 99)),
        "^INVALID_ARGUMENT: A request about health has 41942(09|10) bytes, and at most 1000. Nothing was done.(; RESOURCE_EXHAUSTED[^;]*)?$",
        128.0,
    ),
    Case(
        "100 inputs of 4 MB for no workflow",
        doors.clients,
        lambda: ("Submit", [submitting(workflow="nowhere", input_json=f'"{"x" * (_FOUR - 199)}"')] * 100),
        "^NOT_FOUND: There is no workflow 'nowhere'",
    ),
    Case("5 messages of empty parts", doors.worker, lambda: [_REGISTER, *[b"\x7a\x00" * (2 * MIB)] * 5], "registered"),
    Case("a part in a part in a part", doors.worker, lambda: [_REGISTER, nested_parts(2000)], "registered"),
    Case("two million jobs of a worker", doors.worker, lambda: [two_million_jobs()], "more than 30000 fields"),
    Case(
        "a message of unknown fields",
        doors.clients,
        lambda: ("List", [b"\xf8\x01\x00" * MIB]),
        "INVALID_ARGUMENT.*more than 30000 fields",
    ),
    Case(
        "bytes that are no message",
        doors.clients,
        lambda: ("List", [b"\xff" * MIB]),
        "INVALID_ARGUMENT: This is no ListRequest",
    ),
    Case(
        "an input of lists in lists",
        doors.clients,
        lambda: ("Submit", [submitting(workflow="task", input_json="[" * (_FOUR - 99))]),
        "INVALID_ARGUMENT: The input (is no JSON|has more than 200,000 values)",
    ),
    Case(
        "an input of empty lists",
        doors.clients,
        lambda: ("Submit", [submitting(workflow="task", input_json="[" + "[]," * (_FOUR // 3 - 99) + "1]")]),
        "INVALID_ARGUMENT.*more than 200,000 values",
    ),
    Case(
        "an input of empty objects",
        doors.clients,
        lambda: ("Submit", [submitting(workflow="task", input_json="[" + "{}," * (_FOUR // 3 - 99) + "1]")]),
        "INVALID_ARGUMENT.*more than 200,000 values",
    ),
    Case("a file of a mebibyte", doors.clients, lambda: ("Submit", [submitting(yaml=large_file(0))]), "answered", 128.0),
    Case(
        "a file of aliases",
        doors.clients,
        lambda: (
            "Submit",
            [submitting(yaml="b0: &b0 [x, x]\n" + "".join(f"b{n}: &b{n} [*b{n - 1}, *b{n - 1}]\n" for n in range(1, 60)))],
        ),
        "(?s)INVALID_ARGUMENT.*use fewer aliases",
    ),
)


def claude(*content: dict[str, Any], **more: Any) -> bytes:
    """A reply of Anthropic's Messages API."""
    return json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-haiku-4-5",
            "content": content,
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 9, "output_tokens": 9},
            **more,
        }
    ).encode()


def gpt(text: str, **more: Any) -> bytes:
    """A reply of OpenAI's Chat Completions API."""
    message = {"role": "assistant", "content": text}
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "gpt-5",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
            **more,
        }
    ).encode()


def long_text() -> str:
    return "x" * 64 * MIB


def zipped(body: bytes) -> bytes:
    return raw(200, gzip.compress(body, 1), Content_Encoding="gzip")


_HELLO = {"type": "text", "text": "hello"}
_TOOL = {"type": "tool_use", "id": "t", "name": "x", "input": {}}

MODEL_REPLIES = (
    Case(
        "a reply of 64 MB, packed",
        doors.model,
        lambda: (CLAUDE, zipped(claude({"type": "text", "text": long_text()}))),
        "ModelUncertain.*has more than 4 MiB.*counts as spent",
    ),
    Case(
        "another's reply of 64 MB",
        doors.model,
        lambda: (GPT, zipped(gpt(long_text()))),
        "ModelUncertain.*has more than 4 MiB.*counts as spent",
    ),
    Case(
        "a refusal of 64 MB",
        doors.model,
        lambda: (CLAUDE, raw(400, gzip.compress(long_text().encode(), 1), Content_Encoding="gzip")),
        "ModelRefused.*Nothing was spent",
    ),
    Case(
        "a reply of empty lists",
        doors.model,
        lambda: (CLAUDE, raw(200, claude(_HELLO, more=[[]] * MIB))),
        "ModelUncertain.*counts as spent",
    ),
    Case(
        "another's reply of empty lists",
        doors.model,
        lambda: (GPT, raw(200, gpt("hello", more=[[]] * MIB))),
        "ModelUncertain.*counts as spent",
    ),
    Case(
        "a reply of as many tools as may be",
        doors.model,
        lambda: (CLAUDE, raw(200, claude(*[_TOOL] * 9_000))),
        "replied: , 256 tools",
    ),
    Case(
        "a reply in a charset that takes a minute",
        doors.model,
        lambda: (CLAUDE, raw(200, claude(_HELLO), kind="application/json; charset=punycode")),
        "replied: hello",
    ),
)


def field(**schema: Any) -> dict[str, Any]:
    """A form with one field."""
    return {"type": "object", "properties": {"edited_body": schema}}


def nested(depth: int, name: str = "a") -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(depth):
        made = {name: {name: made}} if name == "properties" else {name: made}
    return made


_BRANCHES = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": {"type": "string"}}
_BACKTRACKS = "^(a+)+$"
_DRAFT = "https://json-schema.org/draft/2020-12/schema"

FORMS = (
    Case(
        "a pattern that backtracks",
        doors.form,
        lambda: (field(pattern=_BACKTRACKS), {"edited_body": "a" * 4_000 + "!"}),
        "InvalidDecision.*does not match",
    ),
    Case(
        "a pattern in a part with a schema of its own",
        doors.form,
        lambda: (field(pattern=_BACKTRACKS, **{"$schema": _DRAFT}), {"edited_body": "a" * 4_000 + "!"}),
        "InvalidDecision.*does not match",
    ),
    Case(
        "a pattern of names that backtracks",
        doors.form,
        lambda: ({"patternProperties": {_BACKTRACKS: {}}, "additionalProperties": False}, {"a" * 4_000 + "!": 1}),
        "(InvalidDecision|DecisionRefused).*(not allowed|what was shown)",
    ),
    Case(
        "a pattern that looks around",
        doors.form,
        lambda: (field(pattern="(?=a)a"), {}),
        "failed.*cannot be matched in bounded time",
    ),
    Case(
        "a long text for a pattern",
        doors.form,
        lambda: (field(pattern="a$"), {"edited_body": "x" * 900_000}),
        "InvalidDecision.*too long for a pattern",
    ),
    Case(
        "a schema that branches",
        doors.arguments,
        lambda: ({"$defs": _BRANCHES, **field(**{"$ref": "#/$defs/d0"})}, {"edited_body": 1}),
        "SchemaMismatch.*too large",
    ),
    Case(
        "data that is nested deep",
        doors.arguments,
        lambda: (
            {"type": "object", "$defs": {"x": {"properties": {"a": {"$ref": "#/$defs/x"}}}}, "$ref": "#/$defs/x"},
            nested(400),
        ),
        "SchemaMismatch.*too (deep|large)|taken",
    ),
    Case("a form that is nested deep", doors.form, lambda: (nested(150, "properties"), {}), "too deep|too large|decided"),
    Case(
        "a body of 900 KB that is no number",
        doors.form,
        lambda: (field(type="integer"), {"edited_body": "x" * 900_000}),
        "InvalidDecision.{,600}$",
    ),
    Case(
        "many items that are none of the form's",
        doors.form,
        lambda: (field(items={"type": "string"}), {"edited_body": [1] * 200_000}),
        "InvalidDecision.{,4000}$",
    ),
    Case(
        "many items that are to differ",
        doors.form,
        lambda: (field(uniqueItems=True), {"edited_body": [{"n": n} for n in range(20_000)]}),
        "decided|Unstorable|InvalidDecision|InvalidInput",
    ),
)

HARMLESS: dict[Door, Any] = {
    doors.job: (_JSON, {"text": "1"}),
    doors.http_reply: raw(200, b"1"),
    doors.clients: ("Submit", [submitting(yaml="name: small\njobs: {a: {runs-on: any, steps: [{run: echo}]}}")]),
    doors.form: (field(pattern="a"), {"edited_body": "a"}),
    doors.arguments: (field(pattern="a"), {"edited_body": "a"}),
    doors.model: (CLAUDE, raw(200, claude(_HELLO))),
    doors.strangers: (1, "/holdfast.v1.Workflows/Submit", b""),
    doors.worker: [_REGISTER],
}
"""What each door takes first, unmeasured."""

CASES = (*EXPRESSIONS, *HTTP_REPLIES, *GRPC, *MODEL_REPLIES, *FORMS)
