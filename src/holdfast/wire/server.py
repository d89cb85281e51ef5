"""The port on which clients ask and workers work: who may speak, and what is said to whom.

Never here: what is answered (workflows, service), what becomes of a worker (registry).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

import grpc

from holdfast.core.values import trace
from holdfast.errors import InvalidInput, UsageError
from holdfast.observe.readiness import Readiness
from holdfast.service.access.identity import Holder, Identity
from holdfast.service.concurrency_limit import ConcurrencyLimit
from holdfast.service.declarations import query
from holdfast.service.service import Service
from holdfast.service.subscription import while_permitted
from holdfast.wire import credential, health, reflection, shape
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import OPTIONS, SERVICES, handlers
from holdfast.wire.caller import Callers, origin_of, received
from holdfast.wire.connection import WorkerConnection
from holdfast.wire.credential import NO_TLS, Tls
from holdfast.wire.health import Health
from holdfast.wire.outbox import Outbox
from holdfast.wire.reflection import Reflection
from holdfast.wire.registry import WorkerRegistry
from holdfast.wire.workflows import TAKES, Workflows

log = logging.getLogger("holdfast")

_STRANGERS: Final = 2
"""Calls at a time, for each of a known caller: others wait until it is known who they are."""
_IDLE_MS: Final = 300_000
"""How long a connection without a call stays."""
_BUFFERS: Final = (
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 65_536),
    ("grpc.experimental.tcp_max_read_chunk_size", 65_536),
)
"""How much a connection may send ahead of what is read, whichever kind it is."""
_AT_ONCE: Final = 100
"""Of what is said in one breath, so much is heard before others have a turn."""
_LAST_WORDS_S: Final = 1.0


class Server:
    """A port for clients and workers. Clients are answered while there is a `service`."""

    def __init__(
        self, registry: WorkerRegistry, identity: Identity, tls: Tls = NO_TLS, turns: ConcurrencyLimit | None = None
    ) -> None:
        """`turns` are those of all ports of the process."""
        self._registry = registry
        self._identity = identity
        self._tls = tls
        self._turns = ConcurrencyLimit() if turns is None else turns
        self._callers = Callers(identity, self._turns)
        self.service: Service | None = None
        self.readiness: Readiness | None = None
        """Whether the process is ready; until it is known, it is not."""

    @asynccontextmanager
    async def listening(self, address: str) -> AsyncIterator[int]:
        """Listen at HOST:PORT (0 takes a free one, which is reported). Raises UsageError for an address that cannot be had, or
        that others can reach without TLS and a token."""
        credentials = credential.server_credentials(address, self._identity, self._tls)
        bounds = self._turns.bounds
        options = (
            *OPTIONS,
            *_BUFFERS,
            ("grpc.so_reuseport", 0),
            ("grpc.max_connection_idle_ms", _IDLE_MS),
            ("grpc.server_handshake_timeout_ms", int(bounds.head_s * 1000)),
        )
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=(1 + _STRANGERS) * bounds.connections)
        asked: dict[str, Callable[..., Any]] = {name: self._method_of(name) for name in TAKES}
        checked = Health(self._is_serving, [each.full_name for each in SERVICES.values()])
        described = Reflection(self._callers, [*SERVICES.values(), health.SERVICE, reflection.SERVICE])
        server.add_generic_rpc_handlers(
            (
                handlers(SERVICES["Workflows"], {**asked, "Watch": self._watch}),
                handlers(SERVICES["Workers"], {"Work": self._work}),
                handlers(health.SERVICE, checked.behaviours),
                handlers(reflection.SERVICE, described.behaviours),
            )
        )
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

    async def _is_serving(self) -> bool:
        """True while clients are answered and workers are taken, and the process is ready."""
        ready = self.service is not None and self.readiness is not None and await self.readiness.is_ready()
        return ready and self.service is not None  # it may have begun to stop meanwhile

    # --- Clients ------------------------------------------------------------------------------------------------------

    async def _workflows(self, context: Any) -> Workflows:
        """The service for a caller. Ends the call of one who is no client. Raises TooMuch."""
        holder = await self._callers.client(context)
        if self.service is None:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "This server is starting or stopping. Try again.")
        assert self.service is not None
        return Workflows(self.service, holder, _trace(context.invocation_metadata() or ()), origin_of(context))

    def _method_of(self, name: str) -> Callable[[Any, Any], Any]:
        async def answer(messages: AsyncIterator[bytes], context: Any) -> Any:
            workflows = await self._workflows(context)
            with self._turns.calling(workflows.share):
                async with self._turns.asking(workflows.share, self._callers.message(messages)) as raw:
                    return await workflows.methods[name](_decode(name, raw))

        return answer

    async def _watch(self, messages: AsyncIterator[bytes], context: Any) -> AsyncGenerator[wire.WatchReply, None]:
        workflows = await self._workflows(context)
        with self._turns.listening(workflows.share):
            async with self._turns.asking(workflows.share, self._callers.message(messages)) as raw:
                request = _decode("Watch", raw)
            watched = query.Run(request.run)

            async def check() -> None:
                await (await self._workflows(context)).expect(watched)

            async with aclosing(while_permitted(workflows.watch(request), check)) as telling:
                async for told in telling:
                    if told is not None:
                        yield told

    # --- Workers ------------------------------------------------------------------------------------------------------

    async def _work(self, messages: AsyncIterator[bytes], context: Any) -> AsyncGenerator[wire.ToWorker, None]:
        """One worker's stream, from its registration to its end."""
        holder = await self._callers.worker(context)
        with self._turns.calling(holder.share):
            async with aclosing(self._working(messages, holder)) as working:
                async for message in working:
                    yield message

    async def _working(self, messages: AsyncIterator[bytes], holder: Holder) -> AsyncGenerator[wire.ToWorker, None]:
        outbox = Outbox[wire.ToWorker](self._registry.bounds.messages)
        connection = await self._registered(messages, outbox, holder)
        if isinstance(connection, wire.Refused):
            yield wire.ToWorker(refused=connection)
            return
        hearing = asyncio.create_task(
            self._read_messages(connection, outbox, messages), name=f"holdfast-worker-{connection.name}"
        )
        try:
            async for message in outbox.messages():
                yield message
        finally:
            hearing.cancel()
            self._registry.leave(connection, outbox)

    async def _registered(
        self, messages: AsyncIterator[bytes], outbox: Outbox[wire.ToWorker], holder: Holder
    ) -> WorkerConnection | wire.Refused:
        raw = await received(messages, self._turns.bounds.head_s)
        try:
            first = None if raw is None else shape.decode(wire.FromWorker, raw)
        except InvalidInput as problem:
            return wire.Refused(reason=problem.message, again=False)
        if first is None or first.WhichOneof("said") != "register":
            return wire.Refused(reason="A worker says first who it is, and it did not.", again=False)
        return self._registry.register(first.register, outbox, holder)

    async def _read_messages(
        self, connection: WorkerConnection, outbox: Outbox[wire.ToWorker], messages: AsyncIterator[bytes]
    ) -> None:
        try:
            async for raw in messages:
                message = shape.decode(wire.FromWorker, raw)
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


def _trace(metadata: Iterable[tuple[str, str | bytes]]) -> trace.TraceContext | None:
    """Return the place in a trace that a client names; None if none or several are named."""
    said = [value for name, value in metadata if name == trace.HEADER]
    return trace.trace_context_of(str(said[0])) if len(said) == 1 else None


def _decode(name: str, raw: bytes) -> Any:
    """The request of the method `name` that a message is. Raises InvalidInput."""
    return shape.decode(getattr(wire, f"{name}Request"), raw)
