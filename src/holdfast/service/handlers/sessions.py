"""Handlers of sessions of browsers."""

from __future__ import annotations

from holdfast.errors import NotFound
from holdfast.service import listing, view
from holdfast.service.access.identity import ANYBODY
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles
from holdfast.service.principal import Principal
from holdfast.service.view import SessionRow, SessionsEndedRow

EVERYONE = "*"


@handles
async def sessions(request: Request, query: ask.Sessions) -> Rows[SessionRow]:
    who = request.who
    # A caller on the store itself has no sessions of their own: they see all.
    name = (EVERYONE if not who.client and not who.session else _name(who)) if query.name is None else query.name
    found = await request.control.store.sign_ins.listed(
        name=None if name == EVERYONE else name, tenant=request.whose, after=query.cursor, limit=query.limit + 1
    )
    return listing.page([view.of_session(each, who.session) for each in found], query.limit, "session")


@handles
async def end_session(request: Request, command: cmd.EndSession) -> SessionRow:
    who, kept = request.who, request.engine.store.sign_ins
    found = next(iter(await request.control.store.sign_ins.listed(session=command.session, tenant=who.tenant, limit=1)), None)
    is_admin = who.access.allows("admin")
    if found is None or not (is_admin or (found.name, found.tenant) == (_name(who), who.tenant)):
        raise NotFound(f"There is no session {command.session!r:.80}, or it is over. Nothing was done.")
    if not await kept.end(found.hash):
        raise NotFound(f"The session {command.session!r:.80} is over. Nothing was done.")
    return view.of_session(found, who.session)


@handles
async def end_sessions(request: Request, command: cmd.EndSessions) -> SessionsEndedRow:
    ended = await request.engine.store.sign_ins.end_of(command.name, request.whose)
    return {"name": command.name, "ended": ended}


def _name(principal: Principal) -> str:
    """Return the name under which a caller signs in."""
    return principal.client or ANYBODY.name
