"""The parts of a prompt: the system's words, the messages before, and the message now.

Data that only looks like text to us must not reach a model as JSON: providers' own messages and content are refused in words.
Never here: where content parts are kept, what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec
from pydantic import ValidationError

from holdfast.authoring.agents.chat import Chat, Message
from holdfast.authoring.agents.compaction import render_summary
from holdfast.authoring.values.arguments import describe
from holdfast.authoring.values.content import Audio, Document, Image, is_part, part_of
from holdfast.authoring.values.plain import encode
from holdfast.authoring.values.sensitive import as_kept
from holdfast.core.values.content import MAX_PARTS
from holdfast.errors import InvalidInput
from holdfast.models.turn import in_words
from holdfast.ports import ModelTurn

Parts: TypeAlias = tuple[str | Image | Audio | Document, ...]
"""What a person says: a text first, then parts with the words between them."""

_FIELDS: Final = frozenset({"system", "user", "messages", "context"})
_MESSAGE_FIELDS: Final = frozenset({"role", "content"})
_CONTENT_KINDS: Final = frozenset(
    {"image", "image_url", "input_image", "audio", "document", "file", "input_file", "input_audio"}
)
_CONTENT_FIELDS: Final = frozenset({"source", "image_url", "file", "file_id", "data", "url", "input_audio"})


def read(prompt: Any) -> tuple[str, list[ModelTurn | Parts]]:
    """The system's words, and what was said, to the message that is to be answered. Raises InvalidInput."""
    if isinstance(prompt, str):
        return "", [(prompt,)]
    if is_said(prompt):
        return "", [parse_message(prompt)]
    if not isinstance(prompt, dict) or not set(prompt) <= _FIELDS or ("user" in prompt) == ("messages" in prompt):
        got = ", ".join(map(str, prompt)) if isinstance(prompt, dict) else type(prompt).__name__
        raise InvalidInput(
            f'A prompt is a text, a list of texts and content parts, {{"system": ..., "user": ...}}, or {{"system": ...,'
            f' "messages": ...}} with those of a Chat, not: {got}. Nothing was called.'
        )
    system = as_text(prompt.get("system") or "")
    turns: list[ModelTurn | Parts] = [parse_message(prompt["user"])] if "user" in prompt else _messages(prompt["messages"])
    if (context := prompt.get("context")) and isinstance(last := turns[-1], tuple):  # beside what it belongs to
        turns[-1] = (*last, as_text(context))
    return system, turns


def with_words(prompt: Any, words: str) -> Any:
    """A prompt whose system also says `words`."""
    if not words:
        return prompt
    if isinstance(prompt, dict) and not is_said(prompt):
        return {**prompt, "system": "\n\n".join(filter(None, (as_text(prompt.get("system") or ""), words)))}
    return {"system": words, "user": prompt}


def message(fields: Mapping[str, Any]) -> Parts:
    """A message that came while the run was at work."""
    return (fields["text"], *map(_part, fields.get("parts", ())))


def is_said(value: Any) -> bool:
    """True if `value` is a content part, or a list with one."""
    return is_part(value) or (isinstance(value, list | tuple) and any(map(is_part, value)))


def parse_message(value: Any) -> Parts:
    """Return a person's message; data that is no text and no part goes as JSON. Raises InvalidInput."""
    if not is_said(value):
        return (as_text(value),)
    pieces = value if isinstance(value, list | tuple) else [value]
    found = tuple(_part(each) if is_part(each) else as_text(each) for each in pieces)
    if sum(not isinstance(each, str) for each in found) > MAX_PARTS:
        raise InvalidInput(f"A message has at most {MAX_PARTS} content parts. Nothing was done.")
    return found if isinstance(found[0], str) else ("", *found)


def _part(value: Any) -> Image | Audio | Document:
    if isinstance(value, Image | Audio | Document):
        return value
    try:
        return part_of(value)
    except ValidationError as problem:
        raise InvalidInput(f"This content part cannot be used: {describe(problem)}. Nothing was done.") from None


def _messages(messages: Any) -> list[ModelTurn | Parts]:
    """Return the messages of a conversation. Raises InvalidInput."""
    try:
        chat = Chat.model_validate({"messages": msgspec.json.decode(encode(messages))})
    except ValidationError as problem:
        raise InvalidInput(f"These are no messages of a Chat: {describe(problem)}. Nothing was called.") from None
    if chat.messages[-1].role != "user":
        raise InvalidInput("The last message of a Chat is the one to answer, and this is the agent's. Nothing was called.")
    return [*map(_message, chat.messages)]


def _message(message: Message) -> ModelTurn | Parts:
    if message.role == "assistant":
        return ModelTurn(in_words(message.text))
    return (message.text, *message.parts) if message.role == "user" else (render_summary(message.text),)


def as_text(part: Any) -> str:
    """A part of a prompt as text; data that is no text goes as JSON. Raises InvalidInput for what is meant to be more."""
    if (what := _content(part)) is not None:
        raise InvalidInput(
            f"A prompt's parts are texts, data that the model reads as JSON, or content parts; this is {what}, of which the"
            " model would see the JSON and nothing else. Nothing was called. What a person says may hold Image(...), Audio(...)"
            " and Document(...); the messages of an agent loop are kept by the node itself."
        )
    return as_kept(part) if isinstance(part, str) else encode(part).decode()


def _content(part: Any) -> str | None:
    """Return the name of a provider's own content, if this is some: a list of messages, or an image among them; else None."""
    if isinstance(part, bytes | bytearray):
        return "raw bytes"
    for each in part if isinstance(part, list | tuple) else (part,):
        if is_part(each):
            return "a content part where none can be"
        if not isinstance(each, dict):
            continue
        if each.keys() >= _MESSAGE_FIELDS:
            return "a list of messages" if each is not part else "a message"
        if each.get("type") in _CONTENT_KINDS and not _CONTENT_FIELDS.isdisjoint(each):
            return f"content of the type {each['type']!r}"
    return None
