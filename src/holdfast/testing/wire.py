"""The parts that all model providers' wire formats share: a request read, an answer to write.

The scripted model sees nothing else of a format, and a format sees nothing of rules or faults of the connection.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

WireName = Literal["anthropic", "openai"]
EndedBy = Literal["turn", "tools", "length"]
BYTES_PER_TOKEN = 4  # about what English text costs; always below one token a byte, the bound that a caller may rely on


class BadRequest(Exception):
    """The request breaks a rule of the provider's; its message is what the provider would say."""


class Usage(Struct, frozen=True, forbid_unknown_fields=True):
    """Tokens of one call; `input_tokens` includes those read from and written to the prompt cache."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class Tool(Struct, frozen=True):
    """A tool the model may call, with the JSON schema of its arguments."""

    name: str
    schema: dict[str, Any]


class Demand(Struct, frozen=True):
    """A structured answer asked for: by calling the tool of that name, or (`tool` is None) as JSON text."""

    schema: dict[str, Any]
    tool: str | None = None


class Turn(Struct, frozen=True):
    """One message: its own text (never that of tool results), the calls it makes, the calls it brings results of."""

    assistant: bool
    text: str = ""
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


class Segment(Struct, frozen=True):
    """Text the model reads, in the order of the prompt cache; `cache_ttl` marks the end of a prefix to be cached."""

    text: str
    cache_ttl: str | None = None


class Call(Struct, frozen=True):
    """A request for a model's answer, whatever its wire format."""

    wire: WireName
    model: str
    system: str
    turns: tuple[Turn, ...]
    segments: tuple[Segment, ...]
    tools: tuple[Tool, ...]
    demand: Demand | None
    max_tokens: int | None
    stream: bool
    stream_usage: bool
    cache_control_on_tools: bool
    request_sha256: str
    dimensions: int | None = None
    """Of the vectors that are asked for, in the place of an answer."""

    @property
    def user(self) -> str:
        """The last text by the user."""
        return next((turn.text for turn in reversed(self.turns) if turn.text and not turn.assistant), "")

    @property
    def turn(self) -> int:
        """The number of the answer that the conversation asks for, counted from 1."""
        return 1 + sum(turn.assistant for turn in self.turns)

    @property
    def input_tokens(self) -> int:
        return max(1, sum(tokens(segment.text) for segment in self.segments))


class ToolUse(Struct, frozen=True):
    """A tool call in an answer; `arguments` is JSON text, or, cut short, no longer JSON."""

    id: str
    name: str
    arguments: str


class Answer(Struct, frozen=True):
    """A model's answer. `usage` is the usage that the reply reports: None if the report is missing."""

    id: str
    text: str
    uses: tuple[ToolUse, ...]
    ended_by: EndedBy
    usage: Usage | None


class Wire(Protocol):
    """One provider's format. Raises BadRequest where the provider would answer 400."""

    name: WireName
    path: str

    def read(self, body: dict[str, Any]) -> Call: ...

    def reply(self, call: Call, answer: Answer) -> dict[str, Any]:
        """The whole answer as one JSON body."""

    def events(self, call: Call, answer: Answer) -> list[str]:
        """The answer as server-sent events, each with its blank line."""

    def error(self, status: int, code: str | None, message: str) -> dict[str, Any]:
        """The body of an error; `code` replaces the one the provider gives with that status."""

    def error_event(self, error: dict[str, Any]) -> str:
        """The error as an event in the middle of a stream."""


def tokens(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


def canonical(value: Any) -> str:
    """JSON with one spelling for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def pieces(text: str) -> list[str]:
    """The text as a stream would bring it: in at most 64 pieces of 16 characters or more."""
    size = max(16, -(-len(text) // 64))
    return [text[at : at + size] for at in range(0, len(text), size)]


def texts(content: Any) -> str:
    """The text of a message's content, which is a string or a list of parts; images and the like have none."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if isinstance(part.get("text"), str))


def require(body: dict[str, Any], field: str, kind: type) -> Any:
    value = body.get(field)
    if not isinstance(value, kind):
        raise BadRequest(f"{field}: Field required" if value is None else f"{field}: Input should be a valid {kind.__name__}")
    return value


def check_results(turns: Sequence[Turn]) -> None:
    """Every tool call is answered before anything else is said, and nothing else is answered: both providers insist."""
    open_calls: set[str] = set()
    for at, turn in enumerate(turns):
        if unknown := set(turn.results) - open_calls:
            raise BadRequest(f"messages.{at}: tool results without a tool call before them: {_join(unknown)}")
        open_calls -= set(turn.results)
        if open_calls and (turn.assistant or turn.text):
            raise BadRequest(f"messages.{at}: tool calls without a tool result after them: {_join(open_calls)}")
        open_calls |= set(turn.calls)
    if open_calls:
        raise BadRequest(f"messages: tool calls without a tool result after them: {_join(open_calls)}")


def _join(ids: Iterable[str]) -> str:
    return ", ".join(sorted(ids))
