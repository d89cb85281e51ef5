"""The rules that a test gives a scripted model: when a rule applies, what it answers then, and what goes wrong.

Rules are plain values, the same in Python and in a JSON file; nothing is decided or counted here.
"""

from fnmatch import fnmatchcase
from typing import Any, Literal

from msgspec import Struct

from holdfast.testing.wire import Call, Usage, WireName

FaultKind = Literal[
    "status",  # an error status, with Retry-After if given
    "hang",  # the request is accepted and never answered
    "cut_before_reply",  # the connection ends without a byte of reply
    "cut_in_body",  # the connection ends in the middle of the reply, whole or streamed
    "stream_error",  # an error event in the middle of a stream; the status itself where none was asked for
    "malformed_body",  # the reply is not JSON
    "missing_usage",
    "negative_usage",
    "wrong_schema",  # a structured answer that does not fit what was asked for
    "unknown_tool",  # a call of a tool that was not offered
    "invalid_arguments",  # a tool call whose arguments do not fit the tool's schema
    "malformed_arguments",  # a tool call whose arguments are not JSON; {} where the format carries an object
]

OneOrMore = str | tuple[str, ...]


class Fault(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that goes wrong. `code` replaces the provider's usual one for the status: `insufficient_quota`."""

    kind: FaultKind
    status: int = 500
    retry_after_s: float | None = None
    code: str | None = None
    message: str = "A fault that was asked for."

    def silences(self, call: Call) -> bool:
        """Return True if the fault leaves no answer to read, whatever the model would have replied."""
        if self.kind == "stream_error":
            return not call.stream
        return self.kind in ("status", "hang", "cut_before_reply", "malformed_body")


class ToolCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call. Without arguments the model finds some that fit the tool's schema."""

    name: str
    arguments: dict[str, Any] | None = None


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A condition and its effects: if all of the first part holds, the rest happens.

    A rule that answers nothing (only a fault, a latency or a usage) leaves the answer to the rules after it. A rule
    that would call a tool which is not offered does not apply: no model can.
    """

    why: str = ""

    wire: WireName | None = None
    model: str | None = None
    """The model's name, where * stands for anything."""
    system: OneOrMore = ()
    """Text, or one of several texts, that the system prompt contains; upper and lower case are one."""
    user: OneOrMore = ()
    """The same of the last text by the user; tool results are not the user's."""
    turn: int | None = None
    """Which answer of the conversation is asked for: 1, or one more for each that it already has."""
    nth: int | None = None
    times: int | None = None

    text: str | None = None
    """What the model says; `{user}` stands for the beginning of the user's text, here and in arguments."""
    tool_calls: tuple[ToolCall, ...] = ()
    output: dict[str, Any] | None = None
    """A structured answer, given the way the request demands it."""
    fault: Fault | None = None
    latency_s: float | None = None
    pause_s: float | None = None
    """What passes after each event of a reply that is streamed."""
    usage: Usage | None = None
    """What the call is said to have used, instead of what its texts amount to."""

    @property
    def answers(self) -> bool:
        return self.text is not None or bool(self.tool_calls) or self.output is not None

    def matches(self, call: Call) -> bool:
        offered = {tool.name for tool in call.tools}
        return (
            self.wire in (None, call.wire)
            and (self.model is None or fnmatchcase(call.model, self.model))
            and _contains(call.system, self.system)
            and _contains(call.user, self.user)
            and self.turn in (None, call.turn)
            and all(wanted.name in offered for wanted in self.tool_calls)
        )


def _contains(text: str, texts: OneOrMore) -> bool:
    choices = (texts,) if isinstance(texts, str) else texts
    return not choices or any(choice.casefold() in text.casefold() for choice in choices)
