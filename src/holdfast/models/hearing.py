"""A reply that is heard while it comes: what there is of it counts even if it does not come whole.

Never here: a provider's format, who hears it besides, what becomes of the money.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from holdfast.errors import ModelUncertain
from holdfast.models.prices import Price
from holdfast.ports import Model, ModelReply, ModelRequest, TextDelta, Usage, UsageDelta


class Hearing:
    """One reply, each piece of which is told on."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._said: list[str] = []
        self._usage: Usage | None = None

    @property
    def said(self) -> str | None:
        """What has come of the text; None where that is nothing."""
        return "".join(self._said) or None

    def cost_nanousd(self, price: Price) -> int | None:
        """What the call cost, if the provider has counted all of it."""
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
                        self._said.append(text)
                        self._tell(text)
                    case UsageDelta(usage, is_final=True):
                        self._usage = usage
                    case ModelReply():
                        reply = piece
                    case _:  # of tools and of tokens so far nobody is told
                        pass
        if reply is None:
            raise ModelUncertain(f"The stream of {request.model} ended without a reply; what it cost counts as spent.")
        return reply
