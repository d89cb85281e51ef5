"""The port on which clients ask and workers work: who may speak, and what is said to whom.

Never here: what is answered (workflows, service), what becomes of a worker (registry).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final
from urllib.parse import unquote

import grpc

from holdfast.core import trace
from holdfast.errors import HoldfastError, InvalidInput, UsageError
from holdfast.service import query
from holdfast.service.identity import Holder, Identity
from holdfast.service.service import Service
from holdfast.service.subscription import while_permitted
from holdfast.wire import credential, refusal, shape
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import OPTIONS, handlers
from holdfast.wire.connection import WorkerConnection
from holdfast.wire.credential import NO_TLS, Tls
from holdfast.wire.outbox import Outbox
from holdfast.wire.registry import WorkerRegistry
from holdfast.wire.workflows import METHODS, Workflows

log = logging.getLogger("holdfast")

_REGISTER_S: Final = 10.0
"""What a stream gets to say who it is."""
_ASKED_S: Final = 30.0
"""What a client gets to say what it asks."""
_MOST_ASKED: Final = 16
"""So many questions are read and answered at a time: together no more than 64 MiB. Others wait, unread."""
_MOST_CALLS: Final = 4_000
"""Questions, watchers and streams of workers at a time; who comes after them is told."""
_BUFFERS: Final = (
    ("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_536),
    ("grpc.experimental.tcp_max_read_chunk_size", 65_536),
)  # fmt: skip
"""How much a connection may send ahead of what is read, whichever kind it is."""
_AT_ONCE: Final = 100
"""Of what is said in one breath, so much is heard before others have a turn."""
_LAST_WORDS_S: Final = 1.0


class Server:
    """A port for clients and workers. Clients are answered while there is a `service`."""

    def __init__(self, registry: WorkerRegistry, identity: Identity, tls: Tls = NO_TLS) -> None:
        self._registry = registry
        self._identity = identity
        self._tls = tls
        self._asking = asyncio.Semaphore(_MOST_ASKED)
        self.service: Service | None = None

    @asynccontextmanager
    async def listening(self, address: str) -> AsyncIterator[int]:
        """Listen at HOST:PORT (0 takes a free one, which is told). Raises UsageError for an address that cannot be had, or
        that others can reach without TLS and a token."""
        credentials = credential.server_credentials(address, self._identity, self._tls)
        options = (*OPTIONS, *_BUFFERS, ("grpc.so_reuseport", 0))
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=_MOST_CALLS)
        asked: dict[str, Callable[..., Any]] = {name: self._asked(name) for name in METHODS}
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

    async def _holder(self, context: Any) -> Holder:
        """Who calls. Ends the call of somebody who has no token of ours, before any of it is read."""
        holder = await credential.holder(self._identity, context.invocation_metadata() or (), _origin(context))
        if holder is None:
            words = "The token is missing or wrong: send it as the metadata `authorization: Bearer TOKEN`. Nothing was done."
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, words)
        assert holder is not None
        return holder

    # --- Clients ------------------------------------------------------------------------------------------------------

    async def _workflows(self, context: Any) -> Workflows:
        """The service for a caller. Ends the call of one who is no client."""
        holder = await self._holder(context)
        if not holder.asks:
            words = f"The token {holder.name!r} is a worker's: it asks and decides nothing. Nothing was done."
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, words)
        if self.service is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "This server is starting or stopping. Try again.")
        assert self.service is not None
        return Workflows(self.service, holder, _trace_id(context.invocation_metadata() or ()), _origin(context))

    def _asked(self, name: str) -> Callable[[Any, Any], Any]:
        async def answer(said: AsyncIterator[bytes], context: Any) -> Any:
            workflows = await self._workflows(context)
            try:
                async with self._asking:
                    return await workflows.methods[name](await _request(name, said))
            except Exception as problem:  # noqa: BLE001 - whatever it is, the caller is told
                await self._refuse(context, name, problem)

        return answer

    async def _watch(self, said: AsyncIterator[bytes], context: Any) -> AsyncIterator[wire.WatchReply]:
        workflows = await self._workflows(context)
        try:
            async with self._asking:
                request = await _request("Watch", said)
            watched = query.Run(request.run)

            async def check() -> None:
                await (await self._workflows(context)).expect(watched)

            async with aclosing(while_permitted(workflows.watch(request), check)) as telling:
                async for told in telling:
                    if told is not None:
                        yield told
        except grpc.aio.AbortError:
            raise  # the token is over
        except Exception as problem:  # noqa: BLE001 - whatever it is, the caller is told
            await self._refuse(context, "Watch", problem)

    async def _refuse(self, context: Any, name: str, problem: Exception) -> None:
        if not isinstance(problem, HoldfastError):
            log.error("holdfast could not answer %s: %s", name, problem, exc_info=problem)
        await refusal.abort(context, problem)

    # --- Workers ------------------------------------------------------------------------------------------------------

    async def _work(self, said: AsyncIterator[bytes], context: Any) -> AsyncIterator[wire.ToWorker]:
        """One worker's stream, from its registration to its end."""
        holder = await self._holder(context)
        if holder.works is None:
            words = f"The token {holder.name!r} is a client's: it is given no work. Nothing was done."
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, words)
        outbox = Outbox[wire.ToWorker](self._registry.bounds.messages)
        connection = await self._registered(said, outbox, holder)
        if isinstance(connection, wire.Refused):
            yield wire.ToWorker(refused=connection)
            return
        hearing = asyncio.create_task(
            self._read_messages(connection, outbox, said), name=f"holdfast-worker-{connection.name}"
        )
        try:
            async for message in outbox.messages():
                yield message
        finally:
            hearing.cancel()
            self._registry.leave(connection, outbox)

    async def _registered(
        self, said: AsyncIterator[bytes], outbox: Outbox[wire.ToWorker], holder: Holder
    ) -> WorkerConnection | wire.Refused:
        try:
            async with asyncio.timeout(_REGISTER_S):
                raw = await anext(aiter(said), None)
            first = None if raw is None else shape.made(wire.FromWorker, raw)
        except TimeoutError:
            first = None
        except InvalidInput as problem:
            return wire.Refused(reason=problem.message, again=False)
        if first is None or first.WhichOneof("said") != "register":
            return wire.Refused(reason="A worker says first who it is, and it did not.", again=False)
        return self._registry.register(first.register, outbox, holder)

    async def _read_messages(
        self, connection: WorkerConnection, outbox: Outbox[wire.ToWorker], said: AsyncIterator[bytes]
    ) -> None:
        try:
            async for raw in said:
                message = shape.made(wire.FromWorker, raw)
                for number, each in enumerate((message, *message.more), 1):
                    self._registry.on_message(connection, outbox, each)
                    if not number % _AT_ONCE:
                        await asyncio.sleep(0)
        except InvalidInput as problem:
            log.warning("holdfast ended the stream of worker %s: %s", connection.name, problem.message)
        except grpc.RpcError as problem:
            log.debug("the stream of worker %s broke: %s", connection.name, problem)
        finally:
            outbox.close()


def _origin(context: Any) -> str:
    """From which address a client speaks: gRPC says `ipv4:127.0.0.1:50000`, or `ipv6:%5B::1%5D:50000`."""
    peer = unquote(context.peer() or "").partition(":")[2]
    return peer.rpartition(":")[0].strip("[]")


def _trace_id(sent: Iterable[tuple[str, str | bytes]]) -> str | None:
    """In which trace a client speaks. Of two that he names nobody knows which."""
    said = [value for name, value in sent if name == trace.HEADER]
    return trace.trace_id_of(str(said[0])) if len(said) == 1 else None


async def _request(name: str, said: AsyncIterator[bytes]) -> Any:
    """What a client asks of the method `name`. Raises InvalidInput."""
    try:
        async with asyncio.timeout(_ASKED_S):
            raw = await anext(aiter(said), None)
    except TimeoutError:
        raw = None
    if raw is None:
        raise InvalidInput(f"This call said nothing within {_ASKED_S:g} s. Nothing was done.")
    return shape.made(getattr(wire, f"{name}Request"), raw)
