"""What clients ask of a serving process, as the Engine answers it.

Never here: gRPC's contexts and codes (server), a rule.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import nullcontext
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, Final, get_args

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.compose import Engine
from holdfast.control.command import DEFAULT_TENANT, NOT_GIVEN
from holdfast.core import events
from holdfast.core.claim import Claim
from holdfast.core.ids import GateId, run_of
from holdfast.core.state import State
from holdfast.core.status import Status, describe, status, waiting_for
from holdfast.errors import InvalidInput, NotFound, UsageError
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import MESSAGE_BYTES
from holdfast.wire.json_text import decoded

_PAGE: Final = 500
"""Events in memory at once: a history may be long."""
_MOST_LISTED: Final = 1_000
_USUALLY_LISTED: Final = 50


class Desk:
    """Keeps the service Workflows of wire.proto, on an engine.

    `offered` are the workflows that clients may name. `from_yaml` makes one of a workflow file's text, durably; None where
    files are not taken.
    """

    def __init__(
        self, engine: Engine, offered: list[Workflow], from_yaml: Callable[[str], Workflow] | None = None
    ) -> None:
        self._engine = engine
        self._offered = {(each.name, each.version): each for each in offered}
        self._from_yaml = from_yaml
        self._reading = asyncio.Lock()
        """One file at a time is read, in a thread: a large one takes a second."""

    def methods(self, client: str) -> Mapping[str, Callable[[Any], Any]]:
        """What is asked by which name. `client`: whose token it comes with, "" where tokens are not told apart."""
        acting: dict[str, Callable[..., Any]] = {
            "Submit": self.submit,
            "Cancel": self.cancel,
            "Decide": self.decide,
            "Signal": self.signal,
        }
        looking: dict[str, Callable[[Any], Any]] = {"Watch": self.watch, "Query": self.query, "List": self.list_}
        return {**looking, **{name: partial(method, client=client) for name, method in acting.items()}}

    async def submit(self, asked: wire.SubmitRequest, client: str = "") -> wire.SubmitReply:
        """Raises what Engine.start raises, and NotFound for a workflow that is not offered here."""
        if asked.WhichOneof("definition") == "yaml":
            if self._from_yaml is None:
                raise UsageError(
                    "This server takes no workflow files: whoever submits one has commands run here. It was started without"
                    " --yaml. Nothing was started."
                )
            async with self._reading:
                workflow = await asyncio.to_thread(self._from_yaml, asked.yaml)
        else:
            workflow = self._named(asked.workflow, asked.version)
        given = await decoded(asked.input_json, "input")
        async with self._engine.lent(workflow) if asked.WhichOneof("definition") == "yaml" else nullcontext():
            run = await self._engine.start(
                workflow, given, tenant=asked.tenant or DEFAULT_TENANT, cost_limit_usd=_amount(asked.cost_limit_usd),
                key=asked.key or None, by=_claim(asked.by, client),
            )  # fmt: skip
        return wire.SubmitReply(run=run.id)

    def _named(self, name: str, version: int) -> Workflow:
        versions = [known for known_name, known in self._offered if known_name == name]
        found = self._offered.get((name, version or max(versions, default=0)))
        if found is None:
            known = ", ".join(f"{each} {number}" for each, number in sorted(self._offered)) or "none"
            asked = f"{name} {version}" if version else name
            raise NotFound(f"This server has no workflow {asked!r}; it has: {known}. Nothing was started.")
        return found

    async def watch(self, asked: wire.WatchRequest) -> AsyncIterator[wire.WatchReply]:
        run, after = self._engine.run(asked.run), asked.after
        state = await run.state()
        while True:
            while after < state.seq:
                page = await run.events(after, _PAGE)
                for recorded in page:
                    yield wire.WatchReply(event=_event(recorded))
                if not page:
                    break  # of an archived run the events may be gone
                after = page[-1].seq
            view = await self._view(state)
            over, seen = bool(state.ended), state.seq  # the state goes on while the view is on its way
            yield wire.WatchReply(view=view)
            if over:
                return
            state = await run.until(lambda state, seen=seen: state.seq > seen)  # type: ignore[misc]

    async def query(self, asked: wire.QueryRequest) -> wire.RunView:
        return await self._look(asked.run)

    async def list_(self, asked: wire.ListRequest) -> wire.ListReply:
        if asked.status and asked.status not in get_args(Status):
            raise InvalidInput(f"There is no status {asked.status!r}; there are {', '.join(get_args(Status))}.")
        if asked.limit > _MOST_LISTED:
            raise InvalidInput(f"limit is {asked.limit}; at most {_MOST_LISTED} runs are listed at once.")
        rows = await self._engine.runs(
            tenant=asked.tenant or None, workflow=asked.workflow or None, status=asked.status or None,
            before=asked.before or None, limit=asked.limit or _USUALLY_LISTED,
        )  # fmt: skip
        return wire.ListReply(
            runs=[
                wire.RunView(
                    run=row.run, workflow=row.workflow, version=row.version, tenant=row.tenant, status=row.status,
                    waiting_for_json=row.waiting_for.decode(),
                )
                for row in rows
            ]
        )  # fmt: skip

    async def cancel(self, asked: wire.CancelRequest, client: str = "") -> wire.RunView:
        await self._engine.cancel(asked.run, reason=asked.reason or "cancelled", by=_claim(asked.by, client))
        return await self._look(asked.run)

    async def decide(self, asked: wire.DecideRequest, client: str = "") -> wire.RunView:
        data = await decoded(asked.data_json, "data") if asked.HasField("data_json") else NOT_GIVEN
        await self._engine.decide(
            asked.gate, asked.decision or "approve", data, by=_claim(asked.by, client), reason=asked.reason or None,
            roles=asked.roles, shown_hash=asked.shown_hash or None,
        )  # fmt: skip
        return await self._look(run_of(GateId(asked.gate)))

    async def signal(self, asked: wire.SignalRequest, client: str = "") -> wire.RunView:
        await self._engine.signal(
            asked.run, asked.name, await decoded(asked.data_json, "data"), by=_claim(asked.by, client)
        )
        return await self._look(asked.run)

    async def _look(self, run: str) -> wire.RunView:
        return await self._view(await self._engine.run(run).state())

    async def _view(self, state: State) -> wire.RunView:
        output = await self._engine.output(state) if state.ended == "completed" else None
        encoded = msgspec.json.encode(output)
        if len(encoded) > MESSAGE_BYTES - 65_536:
            raise InvalidInput(
                f"The output of run {state.run} has {len(encoded)} bytes, and a message at most {MESSAGE_BYTES}. Read it with"
                " `holdfast runs show --json`."
            )
        return wire.RunView(
            run=state.run, workflow=state.workflow, version=state.version, tenant=state.tenant, status=status(state),
            waiting_for_json=msgspec.json.encode([describe(wait) for wait in waiting_for(state)]).decode(), seq=state.seq,
            output_json=encoded.decode() if state.ended == "completed" else "",
            error_json=msgspec.json.encode(state.error).decode() if state.error is not None else "",
        )  # fmt: skip


def _claim(by: str, client: str) -> Claim:
    """Who a client says acts; without a name it is the client itself, where its token tells who that is."""
    return Claim(by or client or None, client=client)


def _event(recorded: events.Recorded) -> wire.Event:
    kind, encoded = type(recorded.event).__name__, events.encode(recorded.event).decode()
    return wire.Event(seq=recorded.seq, at_ms=recorded.at_ms, type=kind, event_json=encoded)


def _amount(text: str) -> Decimal | None:
    try:
        return Decimal(text) if text else None
    except InvalidOperation:
        raise InvalidInput(f"The cost limit {text!r:.60} is no number of dollars. Nothing was started.") from None
