"""`holdfast dead-letters`: what has failed for good, and what is to become of it.

Never here: what a retry does (the engine), the bounds of a bulk (bulk).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import msgspec
import typer

from holdfast.cli import bulk, reference
from holdfast.cli.bulk import BulkSelection
from holdfast.cli.connect import backend, typed
from holdfast.cli.noun import MANY, ArgumentSpec, Caller, Noun, Signed, build_message, group_of
from holdfast.cli.option import Reason
from holdfast.cli.page import moment, terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.event_format import tell_run
from holdfast.cli.page.exit_code import OK
from holdfast.cli.page.table import ID, Column
from holdfast.cli.page.typed_input import json_value
from holdfast.core.views.selection import LetterSelection
from holdfast.errors import UsageError
from holdfast.service.declarations import command, query

if TYPE_CHECKING:
    from holdfast.cli.backend import Backend
    from holdfast.service.declarations.command import EditDeadLetter
    from holdfast.service.declarations.declaration import Command
    from holdfast.service.declarations.query import View


def _sheet(row: View) -> None:
    error = row["error"] or {}
    terminal.sheet(
        [
            ("Letter", f"{row['letter']} ({row['state']}{', edited' if row['edited'] else ''})"),
            ("Workflow", row["workflow"]),
            ("Run", f"{row['run_id']}: {row['status']}"),
            ("Attempts", f"{row['attempts']}, from {moment.second(row['first_at'])} to {moment.second(row['last_at'])}"),
            ("Error", f"{row['error_class']}: {error.get('message', row['message'])}"),
            ("Input", terminal.as_json(row["input"])),
            *_call(row),
        ]
    )
    for op in row["operations"]:
        terminal.show(f"  {op['path']}  {op['kind']} {op['name']}: {op['status']}")
    if row["gate"]:
        terminal.show(f"Asked: {row['gate']}")


def _call(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the call that failed in the end, if it was a call of a tool."""
    named = {op["path"]: op["name"] for op in row["operations"] if op["kind"] == "tool"}
    if (tool := named.get(row["failed_at"])) is None:
        return []
    lines = [("Failed call", f"{tool} at {row['failed_at']}, with {terminal.as_json(row['arguments'])}")]
    edited = row["edited_arguments"]
    return [*lines, *([("To be called with", terminal.as_json(edited))] if edited is not None else [])]


def _oldest(row: View) -> str:
    return "-" if row["oldest_open_s"] is None else moment.span(row["oldest_open_s"] * 1000)


async def _edit(message: EditDeadLetter, caller: Caller) -> View:
    if message.input is msgspec.UNSET and message.arguments is msgspec.UNSET:
        raise UsageError("Pass --input JSON or --arguments JSON. Nothing was changed.")
    async with backend(caller.store, caller.by) as service:
        letter = await reference.letter(service, message.letter)
        found = await service.execute(msgspec.structs.replace(message, letter=letter))
        assert found is not None
        return {**found, "next": [f"  {typed('dead-letters', 'retry', letter, store=caller.store)}"]}


_WORDS: Final[Mapping[str, str | ArgumentSpec]] = {
    "run": "--run RUN",
    "tenant": ArgumentSpec(),
    "workflow": ArgumentSpec(),
    "node": ArgumentSpec(),
    "error_class": "--error CLASS",
}
LETTERS: Final = Noun("dead-letters", query.DeadLetter, _sheet)
app = LETTERS.app

LETTERS.list(
    query.DeadLetters,
    Column("letter", ID),
    Column("error", 8, of="error_class"),
    Column("attempts", goes=2),
    Column("last", of=lambda row: moment.age(row["last_at"])),
    Column("first", goes=3, of=lambda row: moment.age(row["first_at"])),
    Column("workflow", 8, goes=1),
    Column("message", 12, goes=4),
    words={**_WORDS, "cursor": ArgumentSpec("--after LETTER", help="Only dead letters after this one."), "limit": MANY},
)
LETTERS.show()
LETTERS.list(
    query.DeadLetterSummary,
    Column("workflow", 8),
    Column("node", 8),
    Column("error", 8, of="error_class"),
    Column("open"),
    Column("oldest", of=_oldest),
    Column("resolved", goes=1),
    name="summary",
    every=True,
)
LETTERS.verb("edit", command.EditDeadLetter, words={"input": "--input/-i JSON"}, says=tell_run, signed=True, deed=_edit)


# --- One letter, or all of some ---------------------------------------------------------------------------------------

MaybeLetter = Annotated[
    str | None, typer.Argument(metavar="LETTER", help="Id of the dead letter, RUN:STEP, or RUN if that run has only one open.")
]
All = Annotated[bool, typer.Option("--all", help="Apply to all matching open dead letters instead of one.")]
OneOrMany: TypeAlias = Annotated[BulkSelection[dict[str, Any]], bulk.bulk_of(group_of(LetterSelection, _WORDS), All)]


@app.command()
def retry(letter: MaybeLetter = None, *, many: OneOrMany, caller: Signed) -> int:
    """Try a dead letter again, or all matching ones. Completed effects do not happen again."""
    return _do("retry", command.RetryDeadLetter, letter, many, caller)


@app.command()
def resolve(
    letter: MaybeLetter = None,
    *,
    output: Annotated[
        str | None, typer.Option("--output", metavar="JSON", help="Output of the step, for a run that waits for one.")
    ] = None,
    fail: Annotated[
        bool, typer.Option("--fail", help="Let a run that waits for an output fail. A failed run stays failed.")
    ] = False,
    reason: Reason = None,
    many: OneOrMany,
    caller: Signed,
) -> int:
    """Close a dead letter, or all matching ones, with an output or as failed. Closed ones stay listed for three days."""
    if (output is not None) == fail:
        raise UsageError("Pass either --output JSON or --fail. Nothing was done.")
    given = {} if output is None else {"output": json_value(output, "--output")}

    def create_command(id_: str) -> Command:
        return command.ResolveDeadLetter(id_, reason=reason, **given)

    return _do("resolve", create_command, letter, many, caller)


def _tell(deed: Callable[[str], Command], letter: str, caller: Caller) -> None:
    from holdfast.cli.next_steps import with_next

    async def work() -> dict[str, Any]:
        async with backend(caller.store, caller.by) as service:
            run = await service.execute(deed(await reference.letter(service, letter)))
            assert run is not None
            return await with_next(service, run, caller.as_json, caller.store)

    tell_run(asyncio.run(work()), caller.as_json)


def _do(
    name: str, deed: Callable[[str], Command], letter: str | None, many: BulkSelection[dict[str, Any]], caller: Caller
) -> int:
    """Do something to one letter, or to all that are found; or only tell which those are."""
    if (letter is None) != many.every:
        raise UsageError("Name a dead letter, or pass --all with filters (--workflow, --node, --error, ...).")
    if letter is not None and not many.dry_run:
        _tell(deed, letter, caller)
        return OK

    async def work() -> int:
        async with backend(caller.store, caller.by) as service:
            ids, more = await _find_ids(service, letter, many)
            if many.dry_run:
                if caller.as_json:
                    terminal.emit(ids)
                for id_ in () if caller.as_json else ids:
                    terminal.show(id_)
                terminal.say(f"{name}: {len(ids)} would be affected. Nothing was done.")
                return OK
            if ids:
                bulk.expect_agreed(name, counted(len(ids), "dead letter"), many.yes)
            return await bulk.tell_each(service, name, ids, deed, more, caller.as_json)

    return asyncio.run(work())


async def _find_ids(service: Backend, letter: str | None, many: BulkSelection[dict[str, Any]]) -> tuple[list[str], bool]:
    if letter is not None:
        return [(await service.row(query.DeadLetter(await reference.letter(service, letter))))["letter"]], False
    rows = await service.rows(await build_message(query.DeadLetters, many.asked, service), many.limit + 1)
    ids = [each["letter"] for each in rows]
    return ids[: many.limit], len(ids) > many.limit


EXAMPLES: Final = {
    "list": "--workflow refund --since 3d",
    "show": "019aa8b2",
    "summary": "",
    "edit": '019aa8b2 --input \'{"customer": "ada", "price": 40}\'',
    "retry": "--all --error timeout --yes",
    "resolve": "019aa8b2 --fail --reason 'Refunded by hand.'",
}
