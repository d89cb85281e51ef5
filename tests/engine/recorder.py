"""A model that keeps what it is asked, and asks another.

Never here: a promise.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from holdfast.models.providers import Providers
from holdfast.ports import ModelDelta, ModelReply, ModelRequest, UserTurn


class Recorder:
    """A model that keeps what it is asked."""

    def __init__(self, model: Providers) -> None:
        self.model = model
        self.asked: list[ModelRequest] = []

    async def prepare(self, model: str) -> None:
        await self.model.prepare(model)

    async def request(self, request: ModelRequest) -> ModelReply:
        self.asked.append(request)
        return await self.model.request(request)

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | ModelReply, None]:
        self.asked.append(request)
        return self.model.stream(request)

    @property
    def told(self) -> list[list[str]]:
        """What people had said, by request."""
        return [[turn.text for turn in request.turns if isinstance(turn, UserTurn)] for request in self.asked]
