"""Handlers of keys and links, and of the audit log."""

from __future__ import annotations

from holdfast.service import listing, view
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles
from holdfast.service.listing import seq_of
from holdfast.service.view import AuditHeadRow, AuditRow, KeyRow, NewKeyRow, NewLinkRow


@handles
async def keys(request: Request, query: ask.Keys) -> Rows[KeyRow]:
    name, _, of = (query.cursor or "").partition("/")
    found = await request.control.store.keys.listed(request.whose, (name, of) if name else None, query.limit + 1)
    page = listing.page([view.of_key(each) for each in found], query.limit, "name")
    last = found[len(page.rows) - 1] if page.cursor is not None else None
    return page if last is None or last.tenant is None else page._replace(cursor=f"{last.name}/{last.tenant}")


@handles
async def make_key(request: Request, command: cmd.MakeKey) -> NewKeyRow:
    return await request.keys.make(request.who, command)


@handles
async def make_link(request: Request, command: cmd.MakeLink) -> NewLinkRow:
    row = await request.engine.find(command.run)
    return await request.keys.link(request.who, row.tenant, (row.run, command.name), command.life_s)


@handles
async def rotate_key(request: Request, command: cmd.RotateKey) -> NewKeyRow:
    return await request.keys.rotate(request.who, command.name, command.tenant)


@handles
async def revoke_key(request: Request, command: cmd.RevokeKey) -> KeyRow:
    return await request.keys.revoke(request.who, command.name, command.tenant)


# --- The audit log ----------------------------------------------------------------------------------------------------


@handles
async def audit(request: Request, query: ask.Audit) -> Rows[AuditRow]:
    is_newest = query.order == "newest"
    place = None if query.cursor is None else seq_of(query.cursor)
    found = await request.control.store.audit.links(
        tenant=request.whose,
        name=query.name,
        actions=query.action,
        about=query.about,
        since_ms=query.since_ms,
        until_ms=query.until_ms,
        after=None if is_newest else place,
        before=place if is_newest else None,
        newest_first=is_newest,
        limit=query.limit + 1,
    )
    return listing.page([view.of_link(each) for each in found], query.limit, "number")


@handles
async def audit_head(request: Request, query: ask.AuditHead) -> Rows[AuditHeadRow]:
    head = await request.control.store.audit.head() if request.whose is None else None
    return Rows([] if head is None else [view.of_audit_head(head)], None)
