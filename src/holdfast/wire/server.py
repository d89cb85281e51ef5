"""The port on which clients ask and workers work: who may speak, and what is said to whom.

Never here: what is answered (desk), what becomes of a worker (roster).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc

from holdfast.errors import HoldfastError, UsageError
from holdfast.wire import credential, refusal
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import OPTIONS, handlers
from holdfast.wire.credential import Identity
from holdfast.wire.desk import Desk
from holdfast.wire.member import Member
from holdfast.wire.outbox import Outbox
from holdfast.wire.roster import Roster

log = logging.getLogger("holdfast")

_REGISTER_S: Final = 10.0
"""What a stream gets to say who it is."""
_LAST_WORDS_S: Final = 1.0
_METHODS: Final = ("Submit", "Query", "List", "Cancel", "Decide", "Signal")


class Server:
    """A port for clients and workers. Clients are answered while there is a `desk`."""

    def __init__(self, roster: Roster, identity: Identity) -> None:
        self._roster = roster
        self._identity = identity
        self.desk: Desk | None = None

    @asynccontextmanager
    async def listening(self, address: str) -> AsyncIterator[int]:
        """Listen at HOST:PORT (0 takes a free one, which is told). Raises UsageError for an address that cannot be had, or
        that others can reach without TLS and a token."""
        credentials = credential.server_credentials(address, self._identity)
        options = (*OPTIONS, ("grpc.so_reuseport", 0))
        server = grpc.aio.server(options=options)
        asked: dict[str, Callable[..., Any]] = {name: self._asked(name) for name in _METHODS}
        server.add_generic_rpc_handlers((
            handlers("Workflows", {**asked, "Watch": self._watch}),
            handlers("Workers", {"Work": self._work}),
        ))  # fmt: skip
        try:
            if credentials is None:
                port = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, credentials)
        except RuntimeError:
            raise UsageError(f"Cannot listen at {address}: it is taken, or not this machine's. Name another.") from None
        await server.start()
        try:
            yield port
        finally:
            await server.stop(_LAST_WORDS_S)

    # --- Clients ------------------------------------------------------------------------------------------------------

    async def _admitted(self, context: Any) -> None:
        """Ends the call of somebody who does not know the token."""
        if not credential.admits(self._identity, context.invocation_metadata() or ()):
            words = "The token is missing or wrong: send it as the metadata `authorization: Bearer TOKEN`. Nothing was done."
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, words)

    async def _open_desk(self, context: Any) -> Desk:
        await self._admitted(context)
        if self.desk is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "This server is starting or stopping. Try again.")
        assert self.desk is not None
        return self.desk

    def _asked(self, name: str) -> Callable[[Any, Any], Any]:
        async def answer(request: Any, context: Any) -> Any:
            desk = await self._open_desk(context)
            try:
                return await desk.methods[name](request)
            except Exception as problem:  # noqa: BLE001 - whatever it is, the caller is told
                await self._refuse(context, name, problem)

        return answer

    async def _watch(self, request: wire.WatchRequest, context: Any) -> AsyncIterator[wire.WatchReply]:
        desk = await self._open_desk(context)
        try:
            async for told in desk.watch(request):
                yield told
        except Exception as problem:  # noqa: BLE001 - whatever it is, the caller is told
            await self._refuse(context, "Watch", problem)

    async def _refuse(self, context: Any, name: str, problem: Exception) -> None:
        if not isinstance(problem, HoldfastError):
            log.error("holdfast could not answer %s: %s", name, problem, exc_info=problem)
        await refusal.abort(context, problem)

    # --- Workers ------------------------------------------------------------------------------------------------------

    async def _work(self, said: AsyncIterator[wire.FromWorker], context: Any) -> AsyncIterator[wire.ToWorker]:
        """One worker's stream, from its registration to its end."""
        await self._admitted(context)
        outbox = Outbox[wire.ToWorker](self._roster.bounds.messages)
        member = await self._registered(said, outbox)
        if isinstance(member, wire.Refused):
            yield wire.ToWorker(refused=member)
            return
        hearing = asyncio.create_task(self._hear(member, outbox, said), name=f"holdfast-worker-{member.name}")
        try:
            async for message in outbox.messages():
                yield message
        finally:
            hearing.cancel()
            self._roster.leave(member, outbox)

    async def _registered(
        self, said: AsyncIterator[wire.FromWorker], outbox: Outbox[wire.ToWorker]
    ) -> Member | wire.Refused:
        try:
            async with asyncio.timeout(_REGISTER_S):
                first = await anext(aiter(said), None)
        except TimeoutError:
            first = None
        if first is None or first.WhichOneof("said") != "register":
            return wire.Refused(reason="A worker says first who it is, and it did not.", again=False)
        return self._roster.register(first.register, outbox)

    async def _hear(self, member: Member, outbox: Outbox[wire.ToWorker], said: AsyncIterator[wire.FromWorker]) -> None:
        try:
            async for message in said:
                for each in (message, *message.more):
                    self._roster.hear(member, outbox, each)
        except grpc.RpcError as problem:
            log.debug("the stream of worker %s broke: %s", member.name, problem)
        finally:
            outbox.close()
