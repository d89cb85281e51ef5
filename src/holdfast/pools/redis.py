"""The authority over provider pools in Redis: one script, one visit, Redis' own time.

Redis is no durable place, and need not be one: a pool whose record is gone starts empty and closed for one lease, and
whoever waits gets its place back. Never here: who waits (borrower), a rule that is not in core.quota too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, Final

import msgspec
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from holdfast.core.quota import MOST_WAITING, SECOND_US, Answer, Letter, Standing
from holdfast.errors import PoolsAway, UsageError
from holdfast.masking import IN_A_URL

log = logging.getLogger("holdfast")

SILENCE_S: Final = 10.0
"""How long a waiting process may be silent before its places in line are given up."""

_PREFIX: Final = "{holdfast:pools}:"
_LATER_US: Final = 20_000
_REPLY_S: Final = 5.0
_CALL_AGAIN_S: Final = 0.5


class RedisAuthority:
    """Keeps the PoolAuthority port. `connect` makes one; nothing is sent before the first visit."""

    poll_s = 0.5

    def __init__(self, redis: Redis, prefix: str = _PREFIX) -> None:
        self._redis = redis
        self._prefix = prefix
        self._script = redis.register_script(resources.files(__package__).joinpath("visit.lua").read_text())
        self._calls: dict[str, Callable[[], None]] = {}
        self._listening: asyncio.Task[None] | None = None

    @classmethod
    def connect(cls, url: str) -> RedisAuthority:
        """Raises UsageError for an address that is none."""
        try:
            redis = Redis.from_url(
                url, socket_timeout=_REPLY_S, socket_connect_timeout=_REPLY_S, retry=Retry(NoBackoff(), 0)
            )
        except ValueError:
            raise UsageError(
                f"HOLDFAST_POOLS is no address of a Redis; use redis://HOST:PORT/NUMBER. {IN_A_URL}"
            ) from None
        return cls(redis)

    def call(self, holder: str, ring: Callable[[], None]) -> None:
        self._calls[holder] = ring

    async def visit(self, letter: Letter) -> Answer:
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen(), name="holdfast-pools-redis")
        said: list[bytes | int] = [msgspec.msgpack.encode(letter), int(SILENCE_S * SECOND_US), MOST_WAITING, _LATER_US]
        return msgspec.msgpack.decode(await self._ask(self._script(keys=[self._prefix], args=said)), type=Answer)

    async def show(self, pools: Sequence[str]) -> Sequence[Standing]:
        found: list[Standing] = await self._ask(self._standings(pools))
        return found

    async def aclose(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        await self._redis.aclose()

    async def _ask(self, question: Any) -> Any:
        try:
            return await question
        except (RedisError, OSError, TimeoutError) as problem:
            raise PoolsAway(f"The provider pools in Redis cannot be reached ({type(problem).__name__}).") from problem

    async def _standings(self, pools: Sequence[str]) -> list[Standing]:
        seconds, micros = await self._redis.time()
        now_us = seconds * SECOND_US + micros
        names: set[bytes] = await self._redis.smembers(f"{self._prefix}lines")  # type: ignore[assignment]
        lines = {name.decode(): await self._redis.zcard(f"{self._prefix}line:{name.decode()}") for name in names}
        found = []
        for pool in pools:
            record: bytes | None = await self._redis.hget(f"{self._prefix}records", pool)  # type: ignore[assignment]
            empty_at_us, closed_until_us = (int(n) for n in msgspec.msgpack.decode(record)) if record else (now_us, 0)
            taken = await self._redis.zcount(f"{self._prefix}slots:{pool}", now_us, "+inf")
            waiting = sum(count for name, count in lines.items() if pool in name.split("\n"))
            found.append(Standing(pool, now_us, empty_at_us, closed_until_us, taken, waiting))
        return found

    async def _listen(self) -> None:
        """Hear the calls to the holders of this process. Who cannot hear comes by himself, a little later."""
        channels = {f"{self._prefix}called:{holder}": ring for holder, ring in self._calls.items()}
        while True:
            try:
                async with self._redis.pubsub(ignore_subscribe_messages=True) as pubsub:
                    await pubsub.subscribe(*channels)
                    while True:
                        message = await pubsub.get_message(timeout=_REPLY_S)
                        if message is not None:
                            channels[message["channel"].decode()]()
            except (RedisError, OSError, TimeoutError) as problem:
                log.debug("holdfast: no calls from Redis for now: %s", type(problem).__name__)
            await asyncio.sleep(_CALL_AGAIN_S)
