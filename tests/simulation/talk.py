"""Who talks with the agent of a program: several people who say things at any moment, and remember what was acknowledged.

Never here: the rules of a conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from random import Random
from typing import Any, Final

from holdfast.authoring.workflow import Workflow
from holdfast.compose import Engine
from holdfast.core.nouns.conversations import ON_BUSY, ConversationTurn
from holdfast.errors import Conflict, InvalidInput, NotFound
from tests.simulation.chance import spread_s
from tests.simulation.program import DAY_S, TENANT

NAME: Final = "a talk"


class Thread:
    """The conversation of one program, and those who take part in it."""

    def __init__(
        self,
        agent: Workflow,
        stream: Random,
        ask: Callable[[Callable[[Engine], Awaitable[Any]]], Awaitable[Any]],
        refused: Callable[[Any], None],
    ) -> None:
        self.said: dict[str, str] = {}
        """What was said, by its key, as far as somebody was told that it is."""
        self._agent = agent
        self._stream = stream
        self._ask = ask
        self._refused = refused

    async def take_place(self) -> None:
        """All of it, until the last message is answered."""
        stream = self._stream
        await asyncio.sleep(spread_s(stream, 0.01, 100.0))
        await self._ask(
            partial(
                Engine.open_conversation,
                name=NAME,
                workflow=self._agent,
                on_busy=stream.choice(ON_BUSY),
                cost_limit_usd=stream.choice((None, None, 0.01, 0.1)),
                max_tokens=stream.choice((None, None, 600, 5_000)),
                tenant=TENANT,
                by="ada",
            )
        )
        saying: list[Coroutine[Any, Any, None]] = [self._say(number) for number in range(stream.choice((1, 2, 3, 5, 8)))]
        if stream.random() < 0.3:
            saying.append(self._stop())
        await asyncio.gather(*saying)
        pause_s = 20.0
        while (await self._look()).active is not None:
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, DAY_S)

    async def _look(self) -> Any:
        return (await self._ask(partial(Engine.conversation, name=NAME, tenant=TENANT))).conversation

    async def _say(self, number: int) -> None:
        stream = self._stream
        await asyncio.sleep(spread_s(stream, 0.01, 1000.0))
        after = stream.randrange(1, 4) if stream.random() < 0.3 else None
        text = f"message {number}" if after is None else f"message {number} after {after}"
        how, key = stream.choice((None, *ON_BUSY)), f"key-{number}"
        try:
            exchange: ConversationTurn = await self._ask(
                partial(Engine.send_message, name=NAME, text=text, tenant=TENANT, after=after, on_busy=how, key=key, by="ada")
            )
        except (Conflict, NotFound, InvalidInput) as problem:
            self._refused(problem)
        else:
            self.said[key] = exchange.text

    async def _stop(self) -> None:
        await asyncio.sleep(spread_s(self._stream, 1.0, 1000.0))
        try:
            await self._ask(partial(Engine.stop_reply, name=NAME, tenant=TENANT))
        except (Conflict, NotFound) as problem:
            self._refused(problem)
