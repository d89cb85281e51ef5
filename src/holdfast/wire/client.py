"""Submits, watches, asks about and decides runs of a serving process, without a store of its own.

Never here: working (worker); whatever else a server does (holdfast.client).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import grpc
import msgspec

from holdfast.core.values import trace
from holdfast.errors import InvalidInput
from holdfast.wire import credential, refusal
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import MESSAGE_BYTES, OPTIONS, Stub
from holdfast.wire.credential import Trust

_NOTHING = object()
_USUALLY_LISTED: Final = 50
_MAX_LISTED: Final = 1000


class RunView(NamedTuple):
    """A run as the server sees it. `output` is that of a completed one, `error` that of a failed one."""

    run: str
    workflow: str
    version: int
    tenant: str
    status: str
    waiting_for: list[dict[str, Any]]
    seq: int
    output: Any
    error: dict[str, Any] | None


class Event(NamedTuple):
    """An event of a run: its place, when it was committed (milliseconds since the epoch), its type and its fields."""

    seq: int
    at_ms: int
    type: str
    fields: dict[str, Any]


class Client:
    """A gRPC connection to a server, from `Client.connect`. Its methods raise the errors of the server's engine.

    They raise UsageError for a wrong token, and HoldfastError if the server cannot be reached."""

    def __init__(self, stub: Stub, metadata: tuple[tuple[str, str], ...]) -> None:
        self._stub = stub
        self._metadata = metadata

    @classmethod
    @asynccontextmanager
    async def connect(cls, address: str, trust: Trust | None = None) -> AsyncIterator[Client]:
        """Connect to a server, for an `async with` block.

        Args:
            address: Address of the server, `HOST:PORT`.
            trust: Token and certificates; by default none.

        Raises:
            UsageError: The address is invalid.
        """
        known = trust if trust is not None else Trust()
        async with credential.channel(address, known, OPTIONS) as channel:
            yield cls(Stub(channel, "Workflows"), credential.metadata(known))

    def traced(self, traceparent: str) -> Client:
        """Return this connection with a trace. Events that its calls cause name the trace.

        Args:
            traceparent: A header of W3C Trace Context. A malformed one is ignored.
        """
        return Client(self._stub, (*self._metadata, (trace.HEADER, traceparent)))

    async def submit(
        self,
        workflow: str | None = None,
        input: Any = None,  # noqa: A002 - the word of the public surface
        *,
        yaml: str | None = None,
        version: int = 0,
        tenant: str = "",
        key: str = "",
        by: str = "",
        cost_limit_usd: str = "",
        max_tokens: int | None = None,
        max_model_calls: int | None = None,
        max_tool_calls: int | None = None,
        max_wall_s: float | None = None,
        on_limit: str = "",
        team: str = "",
        queue: bool = False,
        team_budget: str = "",
        agent: str = "",
        tags: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        on_end: str = "",
    ) -> str:
        """Start a run, and return its id when it is durable.

        Args:
            workflow: Name of a workflow of the server.
            input: Input of the run.
            yaml: Text of a workflow file, instead of `workflow`.
            version: Version of the workflow; 0 means the highest.
            tenant: Tenant of the run; by default `default`.
            key: Start key. A repeated key returns the same run.
            by: Name of the caller.
            cost_limit_usd: Cost limit in dollars; by default the workflow's.
            max_tokens: Maximum number of tokens of the run and its children.
            max_model_calls: Maximum number of model calls of the run.
            max_tool_calls: Maximum number of tool calls of the run.
            max_wall_s: Maximum time in seconds, waits included.
            on_limit: Action at a limit: `ask`, `fail` or `record`; by default the workflow's.
            team: Team of the tenant whose budgets count too.
            queue: True to wait for a place if too many runs are active.
            team_budget: Team budget in which the run spends; needs `agent`.
            agent: Agent of the team budget that is charged.
            tags: Tags by which lists find the run.
            labels: Labels of the run by key, by which lists find and count it.
            on_end: Channel, or address, that is notified when the run ends.
        """
        request = wire.SubmitRequest(
            version=version,
            input_json=_encoded(input),
            tenant=tenant,
            key=key,
            by=by,
            cost_limit_usd=cost_limit_usd,
            max_tokens=max_tokens,
            max_model_calls=max_model_calls,
            max_tool_calls=max_tool_calls,
            max_wall_s=max_wall_s,
            on_limit=on_limit,
            team=team,
            queue=queue,
            team_budget=team_budget,
            agent=agent,
            tags=tags,
            labels=labels or {},
            on_end=on_end,
        )
        if yaml is not None:
            request.yaml = yaml
        else:
            request.workflow = workflow or ""
        reply: wire.SubmitReply = await self._ask("Submit", request)
        return reply.run

    async def query(self, run: str) -> RunView:
        """Return a run.

        Args:
            run: Id of the run.
        """
        return _view(await self._ask("Query", wire.QueryRequest(run=run)))

    async def list_(
        self, *, tenant: str = "", workflow: str = "", status: str = "", before: str = "", limit: int = 0
    ) -> list[RunView]:
        """Return runs, newest first, without output and error.

        Args:
            tenant: Tenant; empty means all.
            workflow: Name of a workflow; empty means all.
            status: Status; empty means any.
            before: Id of a run: only older ones are returned.
            limit: Maximum number of runs; 0 means 50.
        """
        request = wire.ListRequest(tenant=tenant, workflow=workflow, status=status, before=before, limit=limit)
        reply: wire.ListReply = await self._ask("List", request)
        found, most = [*reply.runs], limit or _USUALLY_LISTED
        while len(found) < most and reply.cursor:  # the rows of a page may be hidden from this client
            request.before, request.limit = reply.cursor, _MAX_LISTED
            reply = await self._ask("List", request)
            found += reply.runs
        return [_view(each) for each in found[:most]]

    async def watch(self, run: str, *, after: int = 0) -> AsyncIterator[Event | RunView]:
        """Yield a run's events as they are committed, and its view whenever all of them were sent. It ends with the run.

        Args:
            run: Id of the run.
            after: Number of an event: only later ones are sent.
        """
        call = self._stub.Watch(wire.WatchRequest(run=run, after=after), metadata=self._metadata)
        try:
            async for told in call:
                if told.WhichOneof("told") == "view":
                    yield _view(told.view)
                else:
                    event = told.event
                    fields = msgspec.json.decode(event.event_json)
                    del fields["type"]
                    yield Event(event.seq, event.at_ms, event.type, fields)
        except grpc.aio.AioRpcError as problem:
            raise refusal.error_of(problem) from None
        finally:
            call.cancel()

    async def result(self, run: str) -> RunView:
        """Wait for the end of a run, and return it.

        Args:
            run: Id of the run.
        """
        view = None
        async for told in self.watch(run):
            view = told if isinstance(told, RunView) else view
        assert view is not None
        return view

    async def cancel(self, run: str, *, reason: str = "", by: str = "") -> RunView:
        """Cancel a run.

        Args:
            run: Id of the run.
            reason: Reason for the history.
            by: Name of the caller.
        """
        return _view(await self._ask("Cancel", wire.CancelRequest(run=run, reason=reason, by=by)))

    async def gate(self, gate: str) -> dict[str, Any]:
        """Return a gate with its content, and the `shown_hash` for `decide`.

        Args:
            gate: Id of the gate.

        Raises:
            NotFound: The gate does not exist.
        """
        reply: wire.GateView = await self._ask("Gate", wire.GateRequest(gate=gate))
        row: dict[str, Any] = msgspec.json.decode(reply.gate_json)
        return row

    async def decide(
        self,
        gate: str,
        decision: str = "approve",
        data: Any = _NOTHING,
        *,
        by: str = "",
        roles: Sequence[str] = (),
        reason: str = "",
        shown_hash: str = "",
    ) -> RunView:
        """Decide a gate of a run.

        Args:
            gate: Id of the gate.
            decision: The decision, like `approve`.
            data: Data of the decision.
            by: Name of the person who decides.
            roles: Roles of the person.
            reason: Reason for the history.
            shown_hash: Hash of the content that the person saw, from `gate`.

        Raises:
            InvalidDecision: The gate requires a hash, or does not take this decision.
        """
        request = wire.DecideRequest(gate=gate, decision=decision, by=by, roles=roles, reason=reason, shown_hash=shown_hash)
        if data is not _NOTHING:
            request.data_json = _encoded(data)
        return _view(await self._ask("Decide", request))

    async def signal(self, run: str, name: str, data: Any = None, *, key: str = "", by: str = "") -> RunView:
        """Send a signal to a run.

        Args:
            run: Id of the run.
            name: Name of the signal.
            data: Data of the signal.
            key: Key of the signal. A repeated key sends it once.
            by: Name of the caller.
        """
        request = wire.SignalRequest(run=run, name=name, data_json=_encoded(data), by=by, key=key)
        return _view(await self._ask("Signal", request))

    async def _ask(self, method: str, request: Any) -> Any:
        size = request.ByteSize()
        if size > MESSAGE_BYTES:
            raise InvalidInput(
                f"This request has {size} bytes, and a message at most {MESSAGE_BYTES}. Nothing was sent: hand over where the"
                " data is instead."
            )
        try:
            return await getattr(self._stub, method)(request, metadata=self._metadata)
        except grpc.aio.AioRpcError as problem:
            raise refusal.error_of(problem) from None


def _encoded(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError) as problem:
        raise InvalidInput(f"This is no JSON data: {problem}. Nothing was sent.") from None


def _view(message: wire.RunView) -> RunView:
    def decoded(text: str) -> Any:
        return msgspec.json.decode(text) if text else None

    return RunView(
        message.run,
        message.workflow,
        message.version,
        message.tenant,
        message.status,
        decoded(message.waiting_for_json) or [],
        message.seq,
        decoded(message.output_json),
        decoded(message.error_json),
    )
