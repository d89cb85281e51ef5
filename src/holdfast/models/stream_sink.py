"""A reply that is read while it comes: its parts count even if it does not come whole.

Its text is one part of it. The other parts have a name each: the model's thinking, and the arguments of each tool call, as they
come. Never here: a provider's format, who else receives the reply, what becomes of the money.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Final

from holdfast.core.facts.streams import TEXT, THINKING, arguments_of
from holdfast.errors import ModelUncertain
from holdfast.models.prices import Price
from holdfast.ports import Model, ModelReply, ModelRequest, TextDelta, ThinkingDelta, ToolDelta, Usage, UsageDelta

_MAX_PARTS: Final = 100


class StreamSink:
    """One reply, each piece of which is passed on."""

    def __init__(self, emit: Callable[[str, str], None]) -> None:
        """`emit` receives the name of a part, and more of it."""
        self._emit = emit
        self._parts: dict[str, list[str]] = {}
        self._usage: Usage | None = None

    @property
    def partial(self) -> Any:
        """The reply so far: its text, or an object with the text and the other parts if any came. None if nothing
        came."""
        text = "".join(self._parts.get(TEXT, ()))
        return {"text": text, "besides": self.besides} if self.besides else text or None

    @property
    def besides(self) -> dict[str, str]:
        """The other parts, as far as they have come."""
        return {part: "".join(pieces) for part, pieces in self._parts.items() if part != TEXT}

    def cost_nanousd(self, price: Price) -> int | None:
        """Return the cost of the call; None if the provider has not counted all of it."""
        try:
            return None if self._usage is None else price.cost_nanousd(self._usage)
        except ValueError:
            return None

    async def reply(self, model: Model, request: ModelRequest) -> ModelReply:
        """Send `request`, and read its reply to the end. Raises what Model.stream raises."""
        reply: ModelReply | None = None
        async with aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                match piece:
                    case TextDelta(text):
                        self._add(TEXT, text)
                    case ThinkingDelta(text):
                        self._add(THINKING, text)
                    case ToolDelta(id_, name, arguments):
                        self._add(arguments_of(name, id_), arguments)
                    case UsageDelta(usage, is_final=True):
                        self._usage = usage
                    case ModelReply():
                        reply = piece
                    case _:  # of tokens so far none is reported
                        pass
        if reply is None:
            raise ModelUncertain(f"The stream of {request.model} ended without a reply; what it cost counts as spent.")
        return reply

    def _add(self, part: str, text: str) -> None:
        if text and (part in self._parts or part in (TEXT, THINKING) or len(self._parts) < _MAX_PARTS):
            self._parts.setdefault(part, []).append(text)
            self._emit(part, text)
