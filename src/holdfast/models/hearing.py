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

_MOST_PARTS: Final = 100


class Hearing:
    """One reply, each piece of which is passed on."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        """`tell` takes the name of a part, and more of it."""
        self._tell = tell
        self._said: dict[str, list[str]] = {}
        self._usage: Usage | None = None

    @property
    def said(self) -> Any:
        """The reply so far: its text, or an object with the text and the other parts if any came. None if nothing
        came."""
        text = "".join(self._said.get(TEXT, ()))
        return {"text": text, "besides": self.besides} if self.besides else text or None

    @property
    def besides(self) -> dict[str, str]:
        """The other parts, as far as they have come."""
        return {part: "".join(pieces) for part, pieces in self._said.items() if part != TEXT}

    def cost_nanousd(self, price: Price) -> int | None:
        """Return the cost of the call; None if the provider has not counted all of it."""
        try:
            return None if self._usage is None else price.cost_nanousd(self._usage)
        except ValueError:
            return None

    async def reply(self, model: Model, request: ModelRequest) -> ModelReply:
        """Send `request`, and hear it to its end. Raises what Model.stream raises."""
        reply: ModelReply | None = None
        async with aclosing(model.stream(request)) as pieces:
            async for piece in pieces:
                match piece:
                    case TextDelta(text):
                        self._hear(TEXT, text)
                    case ThinkingDelta(text):
                        self._hear(THINKING, text)
                    case ToolDelta(id_, name, arguments):
                        self._hear(arguments_of(name, id_), arguments)
                    case UsageDelta(usage, is_final=True):
                        self._usage = usage
                    case ModelReply():
                        reply = piece
                    case _:  # of tokens so far nobody is told
                        pass
        if reply is None:
            raise ModelUncertain(f"The stream of {request.model} ended without a reply; what it cost counts as spent.")
        return reply

    def _hear(self, part: str, text: str) -> None:
        if text and (part in self._said or part in (TEXT, THINKING) or len(self._said) < _MOST_PARTS):
            self._said.setdefault(part, []).append(text)
            self._tell(part, text)
