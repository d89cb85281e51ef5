"""Handlers of shared values, and of the two that are kept as such: memories, and answers in a cache."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.service import view
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles
from holdfast.service.listing import key_of, keyed_page
from holdfast.service.view import MemoryRow, SharedValueRow

_BY_KEY: Final = msgspec.json.Decoder(tuple[str, str, str])


@handles
async def shared_values(request: Request, query: ask.SharedValues) -> Rows[SharedValueRow]:
    after = key_of(query.cursor, _BY_KEY)
    found = await request.control.shared_values(request.whose, query.space, after=after, limit=query.limit + 1)
    return keyed_page([view.of_shared_value(*each) for each in found], [each[:3] for each in found], query.limit)


@handles
async def shared_versions(request: Request, query: ask.SharedVersions) -> Rows[SharedValueRow]:
    versions = await request.control.shared_versions(query.space, query.key, tenant=request.tenant)
    return Rows([view.of_shared_value(request.tenant, query.space, query.key, each) for each in versions], None)


@handles
async def memories(request: Request, query: ask.Memories) -> Rows[MemoryRow]:
    words = query.words or None
    found = await request.control.memories(query.agent, query.user, tenant=request.tenant, words=words)
    wanted = [each for each in found if not query.kind or each.kind in query.kind]
    return Rows([view.of_memory(each) for each in wanted[: query.limit]], None)
