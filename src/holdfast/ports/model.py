"""Requests to models, their replies, and the promise of an adapter that makes the calls.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

import msgspec

from holdfast.core.values.content import ContentPart, Piece, parts_of
from holdfast.core.values.ids import CallId


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool as a model sees it. `parameters` is the JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class AnswerSpec(msgspec.Struct, frozen=True):
    """The shape an answer must have: the JSON Schema of an object. The reply's `answer` is such an object, unvalidated."""

    name: str
    description: str
    schema: dict[str, Any]


class ToolRequest(msgspec.Struct, frozen=True):
    """A model's wish to call a tool. `arguments` is the parsed object, or the raw string where it is not JSON."""

    id: str
    name: str
    arguments: Any


class ToolReply(msgspec.Struct, frozen=True):
    """The answer of a tool, as the model reads it."""

    id: str
    name: str
    content: str
    is_error: bool = False


class UserTurn(msgspec.Struct, frozen=True, tag="user", omit_defaults=True):
    """A person's turn: a text, then content parts with the words between them."""

    text: str
    parts: tuple[Piece, ...] = ()


class ModelTurn(msgspec.Struct, frozen=True, tag="model"):
    """An earlier reply, in the form its adapter gave it (`ModelReply.turn`), to be replayed exactly."""

    replay: Any


class ToolTurn(msgspec.Struct, frozen=True, tag="tools"):
    """The answers to all tool requests of the turn before."""

    replies: tuple[ToolReply, ...]


Turn = UserTurn | ModelTurn | ToolTurn


class ModelRequest(msgspec.Struct, frozen=True):
    """One request to a model, complete: equal requests are equal bytes on the wire.

    `max_tokens` bounds the output and is always set. With `answer` the model must end with an object of that shape. `call` is
    the id of the call that sends it, for the provider's log; no part of the question.
    """

    model: str
    system: str
    turns: tuple[Turn, ...]
    max_tokens: int
    tools: tuple[ToolSpec, ...] = ()
    answer: AnswerSpec | None = None
    temperature: float | None = None
    timeout_s: float = 600.0
    call: CallId | None = None

    @property
    def content(self) -> list[ContentPart]:
        """The parts of all its turns. They have their bytes when it is sent."""
        return [part for turn in self.turns if isinstance(turn, UserTurn) and turn.parts for part in parts_of(turn.parts)]

    def compared(self) -> Any:
        """Return the form by which a journal compares the request. It leaves out its call and where its parts are stored:
        no parts of the question."""
        asked = msgspec.to_builtins(self)
        del asked["call"]
        for turn in asked["turns"]:
            for part in turn.get("parts", ()):
                if not isinstance(part, str):
                    part.pop("month", None)
        return asked

    def filled(self, contents: Mapping[str, bytes]) -> ModelRequest:
        """The same with the bytes of its parts, by their hash."""
        turns = tuple(_fill(each, contents) if isinstance(each, UserTurn) else each for each in self.turns)
        return msgspec.structs.replace(self, turns=turns)


class EmbeddingRequest(msgspec.Struct, frozen=True):
    """One request for vectors of `texts`, complete; of `dimensions` numbers each where that is said, else as many as the model
    makes."""

    model: str
    texts: tuple[str, ...]
    dimensions: int | None = None
    timeout_s: float = 60.0
    call: CallId | None = None

    max_tokens: ClassVar[int] = 0
    """What it writes, as far as is paid for."""
    content: ClassVar[tuple[ContentPart, ...]] = ()

    def compared(self) -> Any:
        """Return the form by which a journal compares the request."""
        asked = msgspec.to_builtins(self)
        del asked["call"]
        return asked


ForwardedFormat: TypeAlias = Literal[
    "anthropic.messages", "anthropic.count_tokens", "openai.chat", "openai.responses", "openai.embeddings", "gemini.generate"
]
"""The wire formats in which programs ask for replies."""


class ForwardedRequest(msgspec.Struct, frozen=True):
    """One request of a program, in its provider's own format, to be sent as it is: only its maximum of output may be lowered.

    `path` is called at the provider. `body` is the decoded JSON as the program sent it, and has the program's own maximum.
    `max_tokens` is bought. `question` is the body as a journal compares it: without fields that change whenever the program
    starts.
    """

    model: str
    format: ForwardedFormat
    path: str
    body: dict[str, Any]
    question: Any
    max_tokens: int
    headers: dict[str, str] = {}
    """The headers that go on to the provider."""
    is_lowered: bool = False
    """True if less is bought than the program asks for, or a maximum where it sets none."""
    stream: bool = False
    timeout_s: float = 600.0
    call: CallId | None = None

    content: ClassVar[tuple[ContentPart, ...]] = ()

    def compared(self) -> Any:
        """Return the form by which a journal compares the request, whatever maximum is bought."""
        return {"format": self.format, "path": self.path, "headers": self.headers, "body": self.question}


def _fill(message: UserTurn, contents: Mapping[str, bytes]) -> UserTurn:
    return UserTurn(
        message.text,
        tuple(
            part if isinstance(part, str) else msgspec.structs.replace(part, content=contents[part.sha256])
            for part in message.parts
        ),
    )


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the provider counted them. `input_tokens` includes those read from and written to its cache."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


class ModelReply(msgspec.Struct, frozen=True):
    """A complete reply. `usage` is None where the provider's figures are missing or unreadable.

    `answer` is the structured answer (its tool request, so that a repair can address it), None for plain text.
    `turn` is the reply for later requests; it round-trips through JSON.
    """

    text: str
    tool_requests: tuple[ToolRequest, ...]
    answer: ToolRequest | None
    usage: Usage | None
    finish_reason: str | None
    response_id: str | None
    turn: Any


class EmbeddingReply(msgspec.Struct, frozen=True):
    """A vector of each text, in their order, as core.nouns.shared_values.packed makes it. `usage` as of a ModelReply."""

    vectors: tuple[bytes, ...]
    usage: Usage | None


class ForwardedReply(msgspec.Struct, frozen=True):
    """A reply as its provider sent it: one text, or the events of a stream as they came. `usage` as of a ModelReply.
    `max_tokens` is the maximum that was bought, None where it is the program's own."""

    content_type: str
    pieces: tuple[str, ...]
    usage: Usage | None
    max_tokens: int | None = None


class TextDelta(msgspec.Struct, frozen=True):
    """More of what the model says."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True):
    """More of what the model lets be seen of its thinking."""

    text: str


class ToolDelta(msgspec.Struct, frozen=True):
    """More of the arguments of a tool request, or of the answer, which is one: a piece of their JSON, "" where it begins."""

    id: str
    name: str
    arguments: str


class UsageDelta(msgspec.Struct, frozen=True):
    """The tokens so far; `is_final`: the provider has reported how the reply ended. The reply has those that count."""

    usage: Usage
    is_final: bool = False


ModelDelta = TextDelta | ThinkingDelta | ToolDelta | UsageDelta


class Model(Protocol):
    """Something that answers requests: a provider reached over the network, or a double of one."""

    async def prepare(self, model: str) -> None:
        """Load what calls of `model` need, before money is held for one. Raises ModelRefused for an unknown model."""
        ...

    async def request(self, request: ModelRequest) -> ModelReply:
        """Send `request` exactly once, never retrying.

        Raises ModelRefused (ModelRateLimited) if certainly nothing was spent, ModelUncertain if that is unknown.
        """
        ...

    async def embed(self, request: EmbeddingRequest) -> EmbeddingReply:
        """The same for vectors; ModelRefused also where the provider makes none."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        """The same, with the reply in pieces as they come, and whole as the last of all: its text is that of the pieces, and
        so are the arguments of its tool requests.

        Raises what `request` raises: ModelRefused before the first piece, and once there was one only ModelUncertain. No
        piece is waited for when `timeout_s` have passed since the request began, however many have come and however long
        whoever reads them took. Nothing is read ahead of him but what the connection holds. Who leaves before the reply
        (`contextlib.aclosing`) has a call whose outcome is unknown.
        """
        ...

    async def forward(self, request: ForwardedRequest, tell: Callable[[str], None]) -> ForwardedReply:
        """Send a program's request once, in its own format; `tell` gets each event of a streamed reply as it comes.

        Raises what `request` raises: ModelRefused before the first event, after it only ModelUncertain. `tell` returns at once.
        """
        ...
