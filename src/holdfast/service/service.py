"""The one way to do something or to find something out, for every transport: checked, carried out by its handler, and written
down in the audit log if it was done.

Never here: a transport's fields, what a command does (handlers), whether a caller may (permission).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.authoring.workflow import Workflow
from holdfast.core.facts.state import State
from holdfast.core.values.access import Access
from holdfast.core.values.actor import asked_as
from holdfast.core.values.audit import DONE, Entry
from holdfast.errors import CursorLost, HoldfastError, InvalidInput, NotFound, StoreError, UsageError, code_of
from holdfast.platform.machine import salt
from holdfast.ports import ApiKey, SignIn, ToDecide
from holdfast.service import view
from holdfast.service.access.key import ApiKeys
from holdfast.service.access.log_in import LOG_IN, FailedLogIns
from holdfast.service.access.permission import Permission
from holdfast.service.access.startable import Startable
from holdfast.service.concurrency_limit import ConcurrencyLimit
from holdfast.service.control.control import Control, limited_to
from holdfast.service.cursor import is_sealed, open_, problem_of_cursor, seal
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Answer, Command, Query, declaration_of
from holdfast.service.declarations.query import MOST, Page, Runs, View
from holdfast.service.handler import Request, handlers
from holdfast.service.handlers import (
    capacity,
    conversations,
    dead_letters,
    forwarded,
    gates,
    keys,
    money,
    notifications,
    runs,
    schedules,
    search,
    sessions,
    shared_values,
    starting,
)
from holdfast.service.principal import Principal
from holdfast.service.records import Recorder, Records
from holdfast.service.text import expect_storable

log = logging.getLogger("holdfast")

_LOOKED: Final = 100
"""Rows of a list that are read ahead at a time, to find those that a caller sees."""
_MAX_LOOKED: Final = 10_000
"""Rows that are read ahead for one page at most."""
ROOMS: Final = (
    capacity,
    conversations,
    dead_letters,
    forwarded,
    gates,
    keys,
    money,
    notifications,
    runs,
    schedules,
    search,
    sessions,
    shared_values,
    starting,
)
"""Where the handlers stand."""
_HANDLERS: Final = handlers()
"""Of each command and query. Where one is missing, this module does not import."""


class Service:
    """The service between callers and an engine."""

    def __init__(
        self,
        control: Control,
        offered: Sequence[Workflow] = (),
        from_yaml: Callable[[str], Workflow] | None = None,
        recorder: Recorder | None = None,
        has_shells_of: Callable[[str], bool] = lambda _: False,
        turns: ConcurrencyLimit | None = None,
    ) -> None:
        """`offered` are the workflows that any caller may start by their names. `from_yaml` loads a workflow file's text;
        None where files are not taken. `has_shells_of` says whether what a tenant submits runs at workers of that tenant: from
        others none is taken. `recorder` makes the records of runs that leave; None where none do. `turns` are those of all
        ports."""
        self.control = control
        """What it stands on."""
        self.permission = Permission(control, [each.name for each in offered])
        self.startable = Startable(control, offered, from_yaml, has_shells_of)
        self.keys = ApiKeys(control.store)
        self.failed_log_ins = FailedLogIns(control.now_ms, self._record_log_in)
        self.turns = ConcurrencyLimit() if turns is None else turns
        self._cursor_key: bytes | None = None
        self._records = Records(recorder)

    async def expect(self, principal: Principal, message: Command | Query) -> Mapping[str, Any]:
        """Check that a caller may do or find out this, and return the records that were read for that. Raises NotPermitted,
        NotFound, and InvalidInput for a text that no store takes."""
        expect_storable(message, principal)
        return await self.permission.expect(principal, message)

    async def _handled(
        self, principal: Principal, message: Command | Query, records: Mapping[str, Any] = {}, **extras: Any
    ) -> Any:
        whose = principal.of_tenant(getattr(message, "tenant", None))
        control = limited_to(self.control, principal.tenant)
        exports = self._records
        request = Request(principal, whose, control, self.control, self.startable, self.keys, self.permission, exports, records)
        return await _HANDLERS[type(message)](request, message, **extras)

    # --- Commands -----------------------------------------------------------------------------------------------------

    async def execute(self, principal: Principal, command: Command, **extras: Any) -> Any:
        """Carry out a command, durably, and return what it declares to answer: the id of a run, a Page, a row, or None.
        `extras` is what a transport hands over beside it. Raises what the engine raises, NotPermitted, and NotFound for what
        is another tenant's."""
        # A process that dies in between has done it, and its history says so; the audit log does not.
        declared, outcome, about = declaration_of(type(command)), "unknown", _about(command)
        try:
            records = await self.expect(principal, command)
            made = await self._handled(principal, command, records, **extras)
            outcome = DONE
            if declared.creates and declared.answers is Answer.RUN:
                about = made
            return made
        except HoldfastError as refused:
            outcome = code_of(type(refused))
            raise
        finally:
            if not getattr(command, "dry_run", False):
                await self._record(principal, type(command).__name__, about, outcome)

    async def stands(self, principal: Principal, command: Command) -> View | None:
        """Carry out a command about one thing, and return that as it stands afterwards."""
        made = await self.execute(principal, command)
        return await self.run(principal, made) if declaration_of(type(command)).answers is Answer.RUN else made

    async def execute_by_link(self, key: ApiKey, command: cmd.Decide | cmd.Signal, origin: str, trace_id: str) -> View:
        """Do what a link is for, with the given body; return the state of the run then. The link is over. Raises what the
        engine raises."""
        assert key.opens is not None
        client = f"keys.{key.name}"
        name = key.opens.by if isinstance(key.opens, ToDecide) else client
        who = Principal(
            name,
            key.tenant,
            key.roles,
            client=client,
            origin=origin,
            trace_id=trace_id,
            access=Access(key.may),
            maker=key.maker,
        )
        found = await self.stands(who, command)
        assert found is not None
        await self.keys.used(key)
        return {"run_id": found["run_id"], "status": found["status"]}

    async def _record(self, principal: Principal, action: str, about: str, outcome: str) -> None:
        entry = Entry(
            self.control.now_ms(),
            action,
            about,
            outcome,
            principal.name or "",
            principal.verified,
            principal.client,
            principal.os_user,
            principal.origin,
            principal.tenant or "",
            principal.trace_id or "",
        )
        clean = self.control.payloads.redact
        try:
            entry = entry._replace(about=clean(entry.about), name=clean(entry.name)).bounded()
            await self.control.store.audit.append(entry)
        except StoreError as problem:
            log.error("holdfast could not write down in the audit log: %s: %s", entry, problem.message)

    async def note_sign_in(self, principal: Principal, sign_in: SignIn) -> None:
        """Note in the audit log that a browser has signed in."""
        await self._record(principal, "SignIn", sign_in.way, DONE)

    async def note_sign_out(self, principal: Principal, sign_in: SignIn) -> None:
        """Note in the audit log that a browser has signed out."""
        await self._record(principal, "SignOut", sign_in.way, DONE)

    async def _record_log_in(self, origin: str, about: str) -> None:
        await self._record(Principal(origin=origin), LOG_IN, about, "unauthorized")

    # --- Queries ------------------------------------------------------------------------------------------------------

    async def query(self, principal: Principal, query: Query) -> Page:
        """Return a page of what is asked; a single row is a page of one. Raises InvalidInput for a cursor or a limit that
        cannot be, NotFound, NotPermitted."""
        records = await self.expect(principal, query)
        if not 1 <= (limit := getattr(query, "limit", 1)) <= MOST:
            raise InvalidInput(f"limit is {limit}; a page has 1 to {MOST} rows.", field="limit")
        seal_key = await self._seal_key(principal, query)
        of = _list_of(principal, query)
        cursor = getattr(query, "cursor", None) if seal_key else None
        if cursor is not None and not (isinstance(query, ask.Tail) and cursor in (ask.START, ask.NOW)):
            query = msgspec.structs.replace(query, cursor=_unsalted(query, open_(seal_key, of, cursor)))
        try:
            page = await self._page(principal, query, records)
        except (NotFound, UsageError, CursorLost) as problem:
            if cursor is None:
                raise
            raise problem_of_cursor(problem, cursor, str(getattr(query, "cursor", ""))) from None
        rows = [self.seen(principal, row) for row in page.rows]
        if not seal_key:
            return page._replace(rows=rows)
        if isinstance(query, ask.Tail):
            rows = [{**row, "cursor": seal(seal_key, of, row["cursor"])} for row in rows]
        return Page(rows, None if page.cursor is None else seal(seal_key, of, _salted(query, page.cursor)))

    async def _page(self, principal: Principal, query: Any, records: Mapping[str, Any]) -> Page:
        """Return a page of the rows that a caller sees. What it holds and whether it goes on depends on none that are hidden: a
        filter could be used to guess what they say. Of very many hidden rows in a row it tells that they are there."""
        if self.permission.hides(principal, query) and not hasattr(query, "cursor"):
            whole = await self._handled(principal, msgspec.structs.replace(query, limit=MOST))
            return Page((await self._visible(principal, query, whole))[: query.limit], None)
        found = await self._handled(principal, query, records)
        page = Page([found], None) if declaration_of(type(query)).answers is Answer.ROW else found
        rows = await self._visible(principal, query, page)
        is_filtered = isinstance(query, ask.Gates) and query.asks
        if not (is_filtered or self.permission.hides(principal, query)):
            return page._replace(rows=rows)
        limit, seen, looked = query.limit, rows, len(page.rows)
        while page.cursor is not None and looked < _MAX_LOOKED:
            after = msgspec.structs.replace(query, cursor=page.cursor, limit=_LOOKED)
            ahead = await self._handled(principal, after)
            rows = await self._visible(principal, query, ahead)
            if len(seen) + len(rows) <= limit:
                seen, page, looked = [*seen, *rows], ahead, looked + _LOOKED
                continue
            if len(seen) < limit:
                last = rows[limit - len(seen) - 1]
                upto = next(place for place, row in enumerate(ahead.rows, 1) if row is last)
                page = await self._handled(principal, msgspec.structs.replace(after, limit=upto))
                seen += await self._visible(principal, query, page)
            break
        return Page(seen, page.cursor)

    async def _visible(self, principal: Principal, query: Any, page: Page) -> list[Any]:
        rows = await self.permission.reached(principal, query, page.rows)
        if isinstance(query, ask.Gates) and query.asks:
            return [row for row in rows if asked_as(row["reviewers"], principal.name, principal.acts_as) in query.asks]
        return rows

    async def before(self, principal: Principal, query: Runs, run: str) -> Runs:
        """The query for the page after `run`: a cursor, or the id of a run that the caller may see. Raises NotFound."""
        if not is_sealed(run) and (seal_key := await self._seal_key(principal, query)):
            await self.expect(principal, ask.Run(run))
            run = seal(seal_key, _list_of(principal, query), run)
        return msgspec.structs.replace(query, cursor=run)

    async def _seal_key(self, principal: Principal, query: Query) -> bytes:
        """With what the cursors of a list are sealed; nothing where they are not."""
        if not self.permission.seals(principal, query):
            return b""
        if self._cursor_key is None:
            self._cursor_key = await self.control.store.keys.cursor_key()
        return self._cursor_key

    async def state(self, principal: Principal, run: str) -> State:
        """The run as of now. Raises NotFound, also for another tenant's."""
        await self.expect(principal, ask.Run(run))
        return await self.control.run(run).state()

    async def run(self, principal: Principal, run: str) -> View:
        """Return how a run stands. Raises NotFound."""
        return self.seen(principal, await view.of_run(self.control, await self.state(principal, run)))

    def seen(self, principal: Principal, row: View) -> View:
        """A row as a caller may see it."""
        found: View = row if principal.tenant is None else view.without_traces(row)
        return found


def _list_of(principal: Principal, query: Query) -> str:
    """The list for which a cursor is."""
    return f"{type(query).__name__} {principal.tenant or ''}"


def _salted(query: Query, place: str) -> str:
    """Return the place where a list goes on, never twice alike where it moves on as others commit: the same cursor again would
    tell that nobody has."""
    return f"{place}{_SALT}{salt().hex()}" if isinstance(query, ask.Tail) else place


def _unsalted(query: Query, place: str) -> str:
    return place.partition(_SALT)[0] if isinstance(query, ask.Tail) else place


_SALT: Final = "\n"
"""Between a place and its salt; no place of the tail holds it."""


def _about(command: Command) -> str:
    """Return the subject of a command, as the audit log names it."""
    named = (getattr(command, field) for field in declaration_of(type(command)).names)
    return next((each for each in named if isinstance(each, str) and each), "")
