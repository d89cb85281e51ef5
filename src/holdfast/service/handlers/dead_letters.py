"""Handlers of steps that have failed for good."""

from __future__ import annotations

from typing import Any

from holdfast.core.views.selection import LetterSelection
from holdfast.service import listing, view
from holdfast.service.declarations import command as cmd
from holdfast.service.declarations import query as ask
from holdfast.service.declarations.declaration import Rows
from holdfast.service.handler import Request, handles, optional_value
from holdfast.service.letter import schemas_of
from holdfast.service.view import DeadLetterCountRow, DeadLetterRow, DeadLetterWhole, OutcomeRow


@handles
async def dead_letters(request: Request, query: ask.DeadLetters) -> Rows[DeadLetterRow]:
    found = await request.control.dead_letters(
        **build_criteria(request, query), state=None if query.state == "any" else query.state, limit=query.limit + 1
    )
    return listing.page([view.of_letter(each) for each in found], query.limit, "letter")


@handles
async def dead_letter(request: Request, query: ask.DeadLetter) -> DeadLetterWhole:
    letter, state = await request.control.dead_letter(query.letter)
    schemas = await schemas_of(request.control, state, letter.letter.step)
    return await view.of_letter_whole(request.control, letter, state, schemas.input, schemas.arguments)


@handles
async def dead_letter_summary(request: Request, query: ask.DeadLetterSummary) -> Rows[DeadLetterCountRow]:
    now_ms = request.control.now_ms()
    return Rows([view.of_letters(each, now_ms) for each in await request.control.dead_letter_counts(request.whose)], None)


@handles
async def bulk(request: Request, command: cmd.BulkDeadLetters) -> Rows[OutcomeRow]:
    if command.cursor is not None:
        await request.permission.expect(request.who, ask.DeadLetter(command.cursor))
    found = await request.control.bulk_dead_letters(
        command.action,
        optional_value(command.output),
        reason=command.reason,
        dry_run=command.dry_run,
        by=request.by,
        **build_criteria(request, command),
        limit=command.limit,
    )
    rows = [view.of_outcome(each) for each in found]
    return Rows(rows, found[-1].letter if len(found) == command.limit else None)


def build_criteria(request: Request, query: ask.DeadLetters | cmd.BulkDeadLetters) -> dict[str, Any]:
    """Return the criteria of a list or a bulk command, as the engine names them."""
    given = {name: getattr(query, name) for name in LetterSelection.__struct_fields__ if name != "run"}
    return {**given, "run_id": query.run, "tenant": request.whose, "after": query.cursor}
