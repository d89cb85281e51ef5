"""A reply that is known whole, as a stream would have brought it: for doubles of the Model port.

Never here: a provider's format.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Iterator
from typing import Final

import msgspec

from holdfast.ports import ModelDelta, ModelReply, TextDelta, ToolDelta, UsageDelta

_LETTERS: Final = 16


async def streamed(answer: Awaitable[ModelReply]) -> AsyncGenerator[ModelDelta | ModelReply, None]:
    """The pieces of the reply, and the reply. Raises what asking raises, before any of them."""
    reply = await answer
    for piece in pieces(reply):
        yield piece
    yield reply


def pieces(reply: ModelReply) -> Iterator[ModelDelta]:
    """Yield the deltas of a reply, which come before it is complete."""
    for text in _chunks(reply.text):
        yield TextDelta(text)
    for call in (*reply.tool_requests, *([reply.answer] if reply.answer is not None else [])):
        arguments = call.arguments
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        for piece in ("", *_chunks(text)):
            yield ToolDelta(call.id, call.name, piece)
    if reply.usage is not None:
        yield UsageDelta(reply.usage, is_final=True)


def _chunks(text: str) -> Iterator[str]:
    for at in range(0, len(text), _LETTERS):
        yield text[at : at + _LETTERS]
