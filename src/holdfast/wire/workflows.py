"""The service Workflows of wire.proto: what clients say, as commands and queries of a Service, and its answers as messages.

Fields of a message that are called as those of a command or query are those. Never here: gRPC's contexts and codes (server),
who may do what (service).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core import events
from holdfast.core.ids import RunId
from holdfast.core.state import State
from holdfast.core.status import describe, status, waiting_for
from holdfast.errors import InvalidInput
from holdfast.service import command, query
from holdfast.service.declaration import declaration_of
from holdfast.service.identity import ANYBODY, Holder
from holdfast.service.json_text import decoded
from holdfast.service.principal import Principal
from holdfast.service.query import Query
from holdfast.service.service import Service
from holdfast.wire import wire_pb2 as wire
from holdfast.wire.binding import MESSAGE_BYTES

_Said = TypeVar("_Said")

_PAGE: Final = 500
"""Events in memory at once: a history may be long."""
_USUALLY_LISTED: Final = 50
_MOST_BYTES: Final = MESSAGE_BYTES - 65_536
_OF_PRINCIPAL: Final = {"by", "roles"}
_JSON: Final = "_json"

_OF_RUN: Final = (
    command.Cancel, command.Decide, command.DecideTogether, command.Delegate,
    command.Reassign, command.Signal, command.Pause, command.Resume,
    command.Retry, command.Migrate, command.Extend,
    command.RaiseBudget, command.Resolve, command.Reconcile, command.Fork, command.EditDeadLetter,
    command.ReplayDeadLetter, command.ResolveDeadLetter,
)  # fmt: skip
_OF_ALL: Final = (
    command.SetBudget, command.SetAdmission, command.SetPool, command.RemovePool, command.SetSchedule,
    command.PauseSchedule, command.ResumeSchedule, command.RemoveSchedule, command.OpenConversation, command.Say,
    command.DeleteConversation, command.WriteSharedValue, command.SetTeamBudget, command.RemoveTeamBudget,
    command.RevokeApproval, command.ForgetCachedAnswer,
)  # fmt: skip
_OF_ROW: Final = (command.GrantApproval, command.RollUpCosts)
_OF_MANY: Final = (command.Bulk, command.BulkDeadLetters, command.Backfill)
_LISTS: Final = (
    query.Runs, query.Gates, query.Gate, query.Effects, query.Events, query.Streams, query.Items, query.Tree, query.ForkQuote,
    query.DeadLetters, query.DeadLetterSummary, query.Costs, query.Doubts, query.Schedules, query.Conversations,
    query.SharedValues, query.Pools, query.Budget, query.Admission, query.Workflows, query.Queue,
    query.Evaluations, query.Evaluation, query.TeamBudgets, query.Approvals, query.Supervisors,
)  # fmt: skip
METHODS: Final = (
    "Submit", "Query", "List", *(each.__name__ for each in (*_OF_RUN, *_OF_ALL, *_OF_ROW, *_OF_MANY, *_LISTS)),
)  # fmt: skip
"""Those that answer with one message."""
TAKES: Final = {
    each.__name__: declaration_of(each) for each in (command.Start, *_OF_RUN, *_OF_ALL, *_OF_ROW, *_OF_MANY, *_LISTS)
}
"""What each takes. Without that it is none: this module does not import."""


class Workflows:
    """Keeps that service, for one who speaks."""

    def __init__(
        self, service: Service, holder: Holder = ANYBODY, trace_id: str | None = None, origin: str = ""
    ) -> None:  # fmt: skip
        """`trace_id`: in which trace they speak; `origin`: from which address."""
        self._service = service
        self._trace_id = trace_id
        self._holder = holder
        self._origin = origin

    @property
    def share(self) -> tuple[str, str]:
        """As whom they share what the server does at a time."""
        return self._holder.share

    @property
    def methods(self) -> Mapping[str, Callable[[Any], Awaitable[Any]]]:
        """What is asked by which name."""
        return {
            "Submit": self.submit, "Query": self.query, "List": self.list_,
            **{kind.__name__: self._telling(kind, self._of_run) for kind in _OF_RUN},
            **{kind.__name__: self._telling(kind, self._done) for kind in _OF_ALL},
            **{kind.__name__: self._paged(kind, self._one) for kind in _OF_ROW},
            **{kind.__name__: self._paged(kind, self._service.tell_many) for kind in _OF_MANY},
            **{kind.__name__: self._paged(kind, self._service.ask) for kind in _LISTS},
        }  # fmt: skip

    def _who(self, said: Any = None) -> Principal:
        """Who a client says acts; without a name it is the client itself, where its token tells who that is."""
        by, roles = getattr(said, "by", ""), getattr(said, "roles", ())
        return self._holder.principal(by, tuple(roles), origin=self._origin, trace_id=self._trace_id)

    # --- Commands -----------------------------------------------------------------------------------------------------

    async def submit(self, said: wire.SubmitRequest) -> wire.SubmitReply:
        run = await self._service.tell(self._who(said), await _made(command.Start, said))
        return wire.SubmitReply(run=run or "")

    def _telling(self, kind: Any, answer: Callable[[Principal, RunId | None], Awaitable[Any]]) -> Any:
        async def tell(said: Any) -> Any:
            who = self._who(said)
            return await answer(who, await self._service.tell(who, await _made(kind, said)))

        return tell

    async def _of_run(self, who: Principal, run: RunId | None) -> wire.RunView:
        return await self._view(await self._service.state(who, run or ""))

    async def _done(self, _: Principal, __: RunId | None) -> wire.Done:
        return wire.Done()

    async def _one(self, who: Principal, told: command.OfRow) -> query.Page:
        return query.Page([await self._service.tell_row(who, told)], None)

    # --- Questions ----------------------------------------------------------------------------------------------------

    def _paged(self, kind: Any, answer: Callable[[Principal, Any], Awaitable[query.Page]]) -> Any:
        async def ask(said: Any) -> wire.Page:
            page = await answer(self._who(said), await _made(kind, said))
            rows = [msgspec.json.encode(row).decode() for row in page.rows]
            if (size := sum(map(len, rows))) > _MOST_BYTES:
                raise InvalidInput(
                    f"This page has {size} bytes, and a message at most {MESSAGE_BYTES}. Ask for fewer rows: limit."
                )
            return wire.Page(row_json=rows, cursor=page.cursor or "")

        return ask

    async def query(self, said: wire.QueryRequest) -> wire.RunView:
        return await self._view(await self._service.state(self._who(), said.run))

    async def list_(self, said: wire.ListRequest) -> wire.ListReply:
        status_ = (said.status,) if said.status else ()
        asked = query.Runs(
            tenant=said.tenant or None, workflow=said.workflow or None, status=status_, cursor=said.before or None,
            limit=said.limit or _USUALLY_LISTED,
        )  # fmt: skip
        page = await self._service.ask(self._who(), asked)
        return wire.ListReply(
            runs=[
                wire.RunView(
                    run=row["run_id"], workflow=row["workflow"], version=row["version"], tenant=row["tenant"],
                    status=row["status"], waiting_for_json=msgspec.json.encode(row["waiting_for"]).decode(),
                )
                for row in page.rows
            ]
        )  # fmt: skip

    async def expect(self, asked: Query) -> None:
        """See that the caller may ask this. Raises NotPermitted, NotFound."""
        await self._service.expect(self._who(), asked)

    async def watch(self, said: wire.WatchRequest) -> AsyncGenerator[wire.WatchReply, None]:
        after, state = said.after, await self._service.state(self._who(), said.run)
        run = self._service.control.run(said.run)
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
        output = await self._service.control.output(state) if state.ended == "completed" else None
        encoded = msgspec.json.encode(output)
        if len(encoded) > _MOST_BYTES:
            raise InvalidInput(
                f"The output of run {state.run} has {len(encoded)} bytes, and a message at most {MESSAGE_BYTES}. Read it with"
                " `holdfast runs show --json`."
            )
        return wire.RunView(
            run=state.run, workflow=state.workflow, version=state.version, tenant=state.tenant, status=status(state),
            waiting_for_json=msgspec.json.encode([describe(wait) for wait in waiting_for(state)]).decode(), seq=state.seq,
            output_json=encoded.decode() if state.ended == "completed" else "",
            error_json=self._seen(msgspec.json.encode(state.error)) if state.error is not None else "",
        )  # fmt: skip

    def _event(self, recorded: events.Recorded) -> wire.Event:
        kind, encoded = type(recorded.event).__name__, events.encode(recorded.event)
        return wire.Event(seq=recorded.seq, at_ms=recorded.at_ms, type=kind, event_json=self._seen(encoded))

    def _seen(self, encoded: bytes) -> str:
        """JSON as the caller may see it."""
        if self._holder.tenant is None:
            return encoded.decode()
        return msgspec.json.encode(self._service.seen(self._who(), msgspec.json.decode(encoded))).decode()


async def _made(kind: type[_Said], said: Any) -> _Said:
    """The command or query that a message says. What is empty is not said. Raises InvalidInput."""
    fields: dict[str, Any] = {}
    for field, value in said.ListFields():
        if field.name.endswith(_JSON):
            name = field.name.removesuffix(_JSON)
            fields[name] = await decoded(value, name)
        elif field.name not in _OF_PRINCIPAL:
            fields[field.name] = value if isinstance(value, str | int | float) else tuple(value)
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as problem:
        raise InvalidInput(f"This {kind.__name__} cannot be: {problem}. Nothing was done.") from None
