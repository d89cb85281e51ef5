"""Handlers of conversations."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.service import view
from holdfast.service.control.conversation import talk_of
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles
from holdfast.service.listing import OF_TENANTS, key_of, keyed_page
from holdfast.service.view import ConversationRow, ConversationWhole, ExchangeRow


@handles
async def conversations(request: Request, query: ask.Conversations) -> Rows[ConversationRow]:
    after = key_of(query.cursor, OF_TENANTS)
    found = await request.control.conversations(tenant=request.whose, after=after, limit=query.limit + 1)
    rows = [view.of_conversation(each) for each in found]
    return keyed_page(rows, [(each.tenant, each.id) for each in found], query.limit)


@handles
async def conversation(request: Request, query: ask.Conversation) -> ConversationWhole:
    if (known := request.read.get("name")) is not None:
        return view.of_talk(await talk_of(request.control.store, known))
    return view.of_talk(await request.control.conversation(query.name, tenant=request.tenant))


@handles
async def open_conversation(request: Request, command: cmd.OpenConversation, *, private: bool = False) -> None:
    """With `private` only the caller sees it."""
    await request.startable.named(request.who, command.workflow, 0, request.tenant)
    options = msgspec.structs.asdict(command) | {"tenant": request.tenant}
    await request.engine.open_conversation(**options, private=private, by=request.by)


@handles
async def send_message(request: Request, command: cmd.Say, **extras: Any) -> ExchangeRow:
    """`extras` are the `tools` and `context` of a front end."""
    options = msgspec.structs.asdict(command) | {"tenant": request.tenant}
    text, parts = options.pop("text"), options.pop("parts")
    message = text if not parts else [text, *parts]
    name = options.pop("conversation")
    known = request.read.get("conversation", name)
    sent = await request.engine.send_message(known, message, **options, **extras, by=request.by)
    return view.of_exchange(sent)
