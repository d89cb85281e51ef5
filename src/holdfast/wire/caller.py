"""The callers of a gRPC port: whose token a call shows, from which address it comes, and what it sends, each in its turn.

Never here: what a call is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import grpc

from holdfast.errors import InvalidInput
from holdfast.service.access.identity import Holder, Identity
from holdfast.service.concurrency_limit import ConcurrencyLimit
from holdfast.wire import credential


class Callers:
    """The callers of a port."""

    def __init__(self, identity: Identity, turns: ConcurrencyLimit) -> None:
        self.turns = turns
        self._identity = identity

    async def holder(self, context: Any) -> Holder:
        """Find who calls. End a call without a token of ours, before any of it is read."""
        origin = origin_of(context)
        async with self.turns.of_stranger(origin):
            holder = await credential.holder(self._identity, context.invocation_metadata() or (), origin)
        if holder is None:
            words = "The token is missing or wrong: send it as the metadata `authorization: Bearer TOKEN`. Nothing was done."
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, words)
        assert holder is not None
        return holder

    async def client(self, context: Any) -> Holder:
        """Find which client calls. End the call of a worker."""
        holder = await self.holder(context)
        if not holder.asks:
            words = f"The token {holder.name!r} is a worker's: it asks and decides nothing. Nothing was done."
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, words)
        return holder

    async def worker(self, context: Any) -> Holder:
        """Find which worker calls. End the call of a client."""
        holder = await self.holder(context)
        if holder.works is None:
            words = f"The token {holder.name!r} is a client's: it is given no work. Nothing was done."
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, words)
        return holder

    def message(self, messages: AsyncIterator[bytes]) -> Callable[[], Awaitable[bytes]]:
        """Return what reads the one message of a call. It raises InvalidInput where none comes in time."""
        within_s = self.turns.bounds.body_s

        async def message() -> bytes:
            return await received_alone(messages, within_s)

        return message


async def received(messages: AsyncIterator[bytes], within_s: float) -> bytes | None:
    """Return the next message of a stream; None where it has ended or none comes in time."""
    try:
        async with asyncio.timeout(within_s):
            return await anext(aiter(messages), None)
    except TimeoutError:
        return None


async def received_alone(message: Any, within_s: float) -> bytes:
    """Return the one message of a call. Raises InvalidInput where none comes in time."""
    raw = await received(message, within_s)
    # What reads for gRPC has the message too, and stays in memory with a call that is refused.
    await aiter(message).aclose()
    if raw is None:
        raise InvalidInput(f"This call sent nothing within {within_s:g} s. Nothing was done.")
    return raw


def origin_of(context: Any) -> str:
    """Return the address of a client: gRPC says `ipv4:127.0.0.1:50000`, or `ipv6:%5B::1%5D:50000`."""
    peer = unquote(context.peer() or "").partition(":")[2]
    return peer.rpartition(":")[0].strip("[]")
