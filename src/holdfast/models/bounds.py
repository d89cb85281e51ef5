"""An upper bound of the input tokens that a request can be billed for.

Why it is a bound. The tokenizers of both providers work on bytes: a token stands for at least one byte of what the
tokenizer reads, so tokens ≤ UTF-8 bytes. A tokenizer may normalise first, and that can lengthen the text: U+FDFA is
3 bytes, 33 under NFKC, and 15 tokens in a public tokenizer (Unicode Standard Annex #15). So every character counts
with its largest form among raw, NFD and NFKD. NFC and NFKC only compose what these decompose, hence the sum over the
characters is at least the length under any of the forms, for the whole text or for any part of it.

What a provider adds to the text is counted by the margins below: the frames of messages (3 to 7 tokens at OpenAI), and
the system prompt that Anthropic inserts when a request has tools (159 to 804 tokens, by model and tool choice; see its
"Tool use" page). JSON counts as the longer of its plain and its \\u-escaped spelling, with a line break wherever there
may be one, because how a provider spells it is unknown. Thinking is replayed by its signature and may be longer than the
summary that was shown: a turn with thinking counts its billed output tokens on top.

Measured with the one public tokenizer of Anthropic's (Claude 2, which normalises to NFKC): not one character of Unicode
takes more tokens than counted here, 252 take more than their raw bytes. The bound is 4.1 times the actual count for
English prose, 2.7 for JSON, 1.4 for base64 and 1.0 for Ethiopic.

Limits. The argument is about text. Images, recordings and documents are `holdfast.models.content`'s. Provider-side tools
and ids of things that a provider keeps carry tokens that are not in the request: they are refused. A tokenizer that emits
more than one token a byte would break the argument, none is known; the gateway compares every actual count with its bound
and raises an alarm when it is above.

Never here: a price, a provider's format, I/O.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from holdfast.core.values.content import ContentPart
from holdfast.errors import UnboundableRequest
from holdfast.models import content, turn
from holdfast.ports import EmbeddingRequest, ModelRequest, ModelTurn, ToolTurn, Turn, UserTurn

REQUEST_TOKENS: Final = 64
"""What frames a request as a whole: the start of the conversation, of the reply, and an effort or a date line."""

MESSAGE_TOKENS: Final = 32
"""What frames one message or one part of a message: its role, its delimiters, the tags around replayed thinking."""

TOOL_TOKENS: Final = 64
"""What frames one tool: the words around its name, description and schema."""

ANY_TOOLS_TOKENS: Final = 1_024
"""What a provider says about tools as such, once, when there are any."""

ANSWER_HINT: Final = "This is how you give your final answer: call it once you have one, do not write it as text."
"""What an adapter adds to the description of the tool that carries a structured answer."""

SCHEMA_OBJECT_TOKENS: Final = 32
"""What an adapter may add to each object of a schema (`additionalProperties`, `properties`, `required`)."""

LINE_BREAK_TOKENS: Final = 2
"""A line break in JSON with the indentation after it: runs of white space are one or two tokens."""


def input_tokens_at_most(request: ModelRequest, context_window_tokens: int | None = None) -> int:
    """The most input tokens `request`, whose parts have their bytes, can be billed for; never more than the model's context
    window, where known.

    Raises UnboundableRequest for anything whose tokens cannot be bounded.
    """
    total = REQUEST_TOKENS + MESSAGE_TOKENS + text_tokens(request.system)
    total += sum(_turn(turn) for turn in request.turns)
    total += sum(_tool(tool.name, tool.description, tool.parameters) for tool in request.tools)
    if answer := request.answer:
        total += _tool(answer.name, answer.description, answer.schema) + text_tokens(ANSWER_HINT)
    if request.tools or request.answer:
        total += ANY_TOOLS_TOKENS
    for part in request.content:
        tokens = _content(request.model, part)
        if tokens is None and context_window_tokens is None:
            raise UnboundableRequest(
                f"{part} counts as the whole context of {request.model}, whose size is unknown, so no limit can be kept for it."
                f" Nothing was called.\nGive it as text, or declare context_tokens in holdfast.toml"
                f' under [models."{request.model}"].'
            )
        total += MESSAGE_TOKENS + (context_window_tokens or 0 if tokens is None else tokens)
    return total if context_window_tokens is None else min(total, context_window_tokens)


def embedded_tokens_at_most(request: EmbeddingRequest, context_window_tokens: int | None = None) -> int:
    """The most tokens that the texts of `request` can be billed for; of none of them more than the model reads, where known.

    Raises UnboundableRequest.
    """
    counts = (MESSAGE_TOKENS + text_tokens(text) for text in request.texts)
    return sum(each if context_window_tokens is None else min(each, context_window_tokens) for each in counts)


def _content(model: str, part: ContentPart) -> int | None:
    """A document that is no PDF is text, which everybody is sent."""
    if part.type == "document" and part.media_type != content.PDF:
        return text_tokens(part.content.decode())
    return content.tokens_at_most(model, part)


def _turn(turn: Turn) -> int:
    match turn:
        case UserTurn(text=text, parts=parts):
            between = (part for part in parts if isinstance(part, str))
            return MESSAGE_TOKENS + text_tokens(text) + sum(MESSAGE_TOKENS + text_tokens(part) for part in between)
        case ToolTurn(replies=replies):
            # Where a provider has no mark for an error, the adapter wraps it as JSON.
            bodies = (
                json_tokens({"error": reply.content}) if reply.is_error else text_tokens(reply.content) for reply in replies
            )
            return sum(bodies) + sum(MESSAGE_TOKENS + text_tokens(reply.id) + text_tokens(reply.name) for reply in replies)
        case ModelTurn(replay=replay):
            return MESSAGE_TOKENS + _replay(replay)


def _tool(name: str, description: str, schema: dict[str, Any]) -> int:
    objects = json.dumps(schema).count("{")
    return TOOL_TOKENS + text_tokens(name) + text_tokens(description) + json_tokens(schema) + objects * SCHEMA_OBJECT_TOKENS


def _replay(replay: Any) -> int:
    """The tokens of an earlier reply in the shape of `holdfast.models.turn`."""
    if not isinstance(replay, Mapping) or not isinstance(replay.get("parts"), list):
        raise _unboundable("an earlier reply in an unknown form")
    if (replay.get("provider_details") or {}).get("container_id"):
        raise _unboundable("an earlier reply that names a container at its provider")
    parts = replay["parts"]
    total = sum(MESSAGE_TOKENS + _part(part) for part in parts)
    if any(part["part_kind"] == "thinking" for part in parts):
        total += max(0, int((replay.get("usage") or {}).get("output_tokens") or 0))
    return total


_PARTS: Final[Mapping[str, Callable[[Mapping[str, Any]], int]]] = {
    "text": lambda part: text_tokens(part["content"]),
    "thinking": lambda part: text_tokens(part["content"]) + text_tokens(part.get("signature") or ""),
    "tool-call": lambda part: text_tokens(part["tool_name"]) + text_tokens(part["tool_call_id"]) + _arguments(part),
}


def _part(part: Mapping[str, Any]) -> int:
    kind = str(part.get("part_kind"))
    if kind not in _PARTS:
        raise _unboundable(f"an earlier reply with a part of kind {kind}")
    details = part.get("provider_details")
    return _PARTS[kind](part) + (json_tokens(details) if details else 0)


def _arguments(part: Mapping[str, Any]) -> int:
    """Arguments of a tool call go out as the object they are, or as the text that the model wrote for it."""
    written = part.get("args")
    return max(json_tokens(turn.object_of(part)), text_tokens(written) if isinstance(written, str) else 0)


def json_tokens(value: Any) -> int:
    """The most tokens of JSON, however a provider spells it."""
    plain, escaped = json.dumps(value, ensure_ascii=False), json.dumps(value)
    return max(text_tokens(plain), len(escaped)) + LINE_BREAK_TOKENS * sum(map(escaped.count, "{[,"))


def text_tokens(text: str) -> int:
    """The bytes of `text`, each character in its longest form."""
    if text.isascii():
        return len(text)
    return sum(count * _bytes_at_most(character) for character, count in Counter(text).items())


@lru_cache(maxsize=8_192)
def _bytes_at_most(character: str) -> int:
    try:
        return max(len(form.encode()) for form in (character, *(unicodedata.normalize(f, character) for f in ("NFD", "NFKD"))))
    except UnicodeEncodeError:
        raise _unboundable(f"the character U+{ord(character):04X}, which is half of one and cannot be sent") from None


def _unboundable(part: str) -> UnboundableRequest:
    return UnboundableRequest(
        f"The request holds {part}. Its number of tokens is unknown, so no limit can be kept for it."
        " Nothing was called.\nLeave it out, or send it as text."
    )
