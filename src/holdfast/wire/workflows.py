"""The service Workflows of wire.proto: requests of client programs as commands and queries of a Service, answers as messages.

A field of a message has the name of the field of the command that it becomes. Never here: gRPC's contexts and codes (server),
who may do what (service).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core.facts import events
from holdfast.core.facts.state import State
from holdfast.core.values.trace import TraceContext
from holdfast.core.views.status import describe, status, waiting_for
from holdfast.errors import InvalidInput
from holdfast.service.access.identity import ANYBODY, Holder
from holdfast.service.declarations import command, query
from holdfast.service.declarations.declaration import Query
from holdfast.service.principal import Principal
from holdfast.service.service import Service
from holdfast.service.text import decoded
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import MESSAGE_BYTES

_Said = TypeVar("_Said")

_PAGE: Final = 500
"""Events in memory at once: a history may be long."""
_USUALLY_LISTED: Final = 50
_MAX_BYTES: Final = MESSAGE_BYTES - 65_536
_OF_PRINCIPAL: Final = {"by", "roles"}
_JSON: Final = "_json"

TAKES: Final[dict[str, type]] = {
    "Submit": command.Start,
    "Watch": query.Run,
    "Query": query.Run,
    "List": query.Runs,
    "Cancel": command.Cancel,
    "Gate": query.Gate,
    "Decide": command.Decide,
    "Signal": command.Signal,
}
"""The methods, each with the command or query that it stands for. The set is fixed: everything else is the HTTP API's."""


class Workflows:
    """Keeps that service, for one who speaks."""

    def __init__(self, service: Service, holder: Holder = ANYBODY, trace: TraceContext | None = None, origin: str = "") -> None:
        """`trace`: place in a trace in which they ask; `origin`: from which address."""
        self._service = service
        self._trace = trace
        self._holder = holder
        self._origin = origin

    @property
    def share(self) -> tuple[str, str]:
        """As whom they share what the server does at a time."""
        return self._holder.share

    @property
    def methods(self) -> Mapping[str, Callable[[Any], Awaitable[Any]]]:
        """The methods that answer with one message, by their names."""
        return {
            "Submit": self.submit,
            "Query": self.query,
            "List": self.list_,
            "Gate": self.gate,
            **{name: partial(self._act, TAKES[name]) for name in ("Cancel", "Decide", "Signal")},
        }

    def _principal_of(self, message: Any = None) -> Principal:
        """Return the principal that a client names; without a name it is the client itself, if its token identifies it."""
        by, roles = getattr(message, "by", ""), getattr(message, "roles", ())
        named = {} if self._trace is None else {"trace_id": self._trace.trace_id, "traceparent": self._trace.traceparent}
        return self._holder.principal(by, tuple(roles), origin=self._origin, **named)

    # --- Commands -----------------------------------------------------------------------------------------------------

    async def submit(self, message: wire.SubmitRequest) -> wire.SubmitReply:
        run = await self._service.execute(self._principal_of(message), await _parse(command.Start, message))
        return wire.SubmitReply(run=run or "")

    async def _act(self, kind: Any, request: Any) -> wire.RunView:
        """Do what a command says to a run."""
        who = self._principal_of(request)
        run = await self._service.execute(who, await _parse(kind, request))
        return await self._view(await self._service.state(who, run or ""))

    # --- Questions ----------------------------------------------------------------------------------------------------

    async def gate(self, request: wire.GateRequest) -> wire.GateView:
        (row,) = (await self._service.query(self._principal_of(), query.Gate(request.gate))).rows
        encoded = _fitting(row, f"The gate {request.gate}", f"GET /api/v1/gates/{request.gate} has it.")
        return wire.GateView(gate=row["gate_id"], run=row["run_id"], shown_hash=row["shown_hash"], gate_json=encoded)

    async def query(self, message: wire.QueryRequest) -> wire.RunView:
        return await self._view(await self._service.state(self._principal_of(), message.run))

    async def list_(self, message: wire.ListRequest) -> wire.ListReply:
        status_ = (message.status,) if message.status else ()
        asked = query.Runs(
            tenant=message.tenant or None,
            workflow=message.workflow or None,
            status=status_,
            limit=message.limit or _USUALLY_LISTED,
        )
        if message.before:
            asked = await self._service.before(self._principal_of(), asked, message.before)
        page = await self._service.query(self._principal_of(), asked)
        return wire.ListReply(
            cursor=page.cursor or "",
            runs=[
                wire.RunView(
                    run=row["run_id"],
                    workflow=row["workflow"],
                    version=row["version"],
                    tenant=row["tenant"],
                    status=row["status"],
                    waiting_for_json=msgspec.json.encode(row["waiting_for"]).decode(),
                )
                for row in page.rows
            ],
        )

    async def expect(self, list_query: Query) -> None:
        """See that the caller may ask this. Raises NotPermitted, NotFound."""
        await self._service.expect(self._principal_of(), list_query)

    async def watch(self, message: wire.WatchRequest) -> AsyncGenerator[wire.WatchReply, None]:
        after, state = message.after, await self._service.state(self._principal_of(), message.run)
        run = self._service.control.run(message.run)
        while True:
            # The state goes on while all this is on its way, and is ahead of the store then.
            seq, over, view = state.seq, bool(state.ended), await self._view(state)
            while after < seq:
                page = await run.events(after, min(_PAGE, seq - after))
                for recorded in page:
                    yield wire.WatchReply(event=self._event(recorded))
                if not page:
                    break  # of an archived run the events may be gone
                after = page[-1].seq
            yield wire.WatchReply(view=view)
            if over:
                return
            state = await run.until(lambda state, seq=seq: state.seq > seq)  # type: ignore[misc]

    async def _view(self, state: State) -> wire.RunView:
        encoded = ""
        if state.ended == "completed":
            output = await self._service.control.output(state)
            encoded = _fitting(output, f"The output of run {state.run}", f"GET /api/v1/runs/{state.run} has it.")
        return wire.RunView(
            run=state.run,
            workflow=state.workflow,
            version=state.version,
            tenant=state.tenant,
            status=status(state),
            waiting_for_json=msgspec.json.encode([describe(wait) for wait in waiting_for(state)]).decode(),
            seq=state.seq,
            output_json=encoded,
            error_json=self._visible(msgspec.json.encode(state.error)) if state.error is not None else "",
        )

    def _event(self, record: events.Recorded) -> wire.Event:
        kind, encoded = type(record.event).__name__, events.encode(record.event)
        return wire.Event(seq=record.seq, at_ms=record.at_ms, type=kind, event_json=self._visible(encoded))

    def _visible(self, encoded: bytes) -> str:
        """JSON as the caller may see it."""
        if self._holder.tenant is None:
            return encoded.decode()
        return msgspec.json.encode(self._service.seen(self._principal_of(), msgspec.json.decode(encoded))).decode()


def _fitting(value: Any, name: str, elsewhere: str) -> str:
    """Encode as JSON what goes into a message. Raises InvalidInput for what has no room in one."""
    encoded = msgspec.json.encode(value)
    if len(encoded) > _MAX_BYTES:
        raise InvalidInput(f"{name} has {len(encoded)} bytes, and a message at most {MESSAGE_BYTES}. {elsewhere}")
    return encoded.decode()


async def _parse(kind: type[_Said], message: Any) -> _Said:
    """Return the command or query in a message. Empty fields count as missing. Raises InvalidInput."""
    fields: dict[str, Any] = {}
    for field, value in message.ListFields():
        if field.name.endswith(_JSON):
            name = field.name.removesuffix(_JSON)
            fields[name] = decoded(value, name)
        elif field.name not in _OF_PRINCIPAL:
            fields[field.name] = _plain(value)
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"Invalid {kind.__name__}: {problem}. Nothing was done.") from None


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float) else dict(value) if isinstance(value, Mapping) else tuple(value)
