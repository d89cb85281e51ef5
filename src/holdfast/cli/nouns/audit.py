"""`holdfast audit`: what was done from outside, by whom, and whether the log is as it was written.

Never here: how entries are chained (core.values.audit).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from holdfast.cli.connect import backend
from holdfast.cli.noun import ArgumentSpec, Noun
from holdfast.cli.option import AsJson, Store
from holdfast.cli.page import moment, terminal
from holdfast.cli.page.count import counted
from holdfast.cli.page.table import Column
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.errors import Conflict, UsageError
from holdfast.service.declarations import query

if TYPE_CHECKING:
    from holdfast.core.values.audit import Verification


def _format_actor(row: dict[str, Any]) -> str:
    name = row["name"] or row["os_user"] or "unknown"
    return name if row["verified"] else f"{name} (unverified)"


COLUMNS: Final = (
    Column("number", 6),
    Column("at", goes=1, of=lambda row: moment.second(row["at"])),
    Column("who", 10, of=_format_actor),
    Column("action", 8),
    Column("about", 12, goes=3, of=lambda row: row["about"] or ""),
    Column("outcome", 8),
    Column("from", goes=2, of=lambda row: row["origin"] or row["os_user"] or ""),
)


AUDIT: Final = Noun("audit")
app = AUDIT.app
AUDIT.list(
    query.Audit,
    *COLUMNS,
    words={
        "name": ArgumentSpec("--by NAME"),
        "action": ArgumentSpec("--action COMMAND", help="Only entries of this command, like `Decide`. Repeatable."),
        "about": ArgumentSpec("--about TEXT"),
        "since_ms": ArgumentSpec("--since TIME", help="Only entries since then: 2h, 3d, 2026-11-21."),
        "until_ms": ArgumentSpec("--until TIME", help="Only entries before this time."),
    },
)


@app.command()
def verify(
    expected_hash: Annotated[
        str | None, typer.Option("--hash", metavar="HASH", help="Hash noted earlier, which an entry must still have.")
    ] = None,
    signed_from: Annotated[
        int, typer.Option("--signed-from", metavar="NUMBER", min=1, help="Number of the first signed entry.")
    ] = 1,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Verify a file that `audit export --json` wrote, instead of the store."),
    ] = None,
    as_json: AsJson = False,
    store: Store = None,
) -> None:
    """Verify the audit log from its first entry to its last. Exits with 4 if anything was changed.

    With HOLDFAST_AUDIT_KEY, the key that the servers sign with, forged entries are found too. To detect a log that was restored
    from an old copy, note a hash and pass it later as --hash.
    """
    from holdfast import settings
    from holdfast.core.values.audit import Verification

    keys = settings.Secrets(settings.load().secrets_file).audit_keys()
    reading = Verification(keys, signed_from)
    asyncio.run(_verify(reading, _stored(store) if file is None else _exported(file), expected_hash))
    last = reading.last
    if as_json:
        terminal.emit({"entries": last.number, "hash": last.hash, "signed": bool(keys)})
        return
    how = ", signed with the key" if keys else ""
    terminal.say(f"Unchanged: {counted(last.number, 'entry', 'entries')}{how}; the last hash is {last.hash}.")
    if not keys:
        terminal.say("Signatures were not compared: HOLDFAST_AUDIT_KEY is not set.")


@app.command()
def export(as_json: AsJson = False, store: Store = None) -> None:
    """Print all entries with their hashes, one per line, and the number of the last one."""
    asyncio.run(_export(as_json, store))


_Part: TypeAlias = "tuple[list[dict[str, Any]], dict[str, Any] | None]"
"""Entries, and which one is the last of all; None before the end, and where it is not known."""


async def _verify(reading: Verification, parts: AsyncGenerator[_Part, None], noted_hash: str | None) -> None:
    """Raise Conflict where something is not as it was written. The store behind `parts` is closed before."""
    from holdfast.service.view import audit_head_of, link_of

    last, seen = None, noted_hash is None
    async with aclosing(parts):
        async for rows, head in parts:
            last = head
            for link in map(link_of, rows):
                if (wrong := reading.problem(link)) is not None:
                    raise Conflict(wrong)
                seen = seen or link.hash == noted_hash
    if (wrong := reading.problem_at_end(None if last is None else audit_head_of(last))) is not None:
        raise Conflict(wrong)
    if not seen:
        raise Conflict(
            f"No entry has the hash {noted_hash}: the audit log was restored or rewritten, or it belongs to another store."
        )


async def _export(as_json: bool, store: str | None) -> None:
    last = None
    async with aclosing(_stored(store)) as parts:
        async for rows, head in parts:
            last = head
            for row in rows:
                if as_json:
                    terminal.emit_line(row)
                else:
                    terminal.show(terminal.line("  ".join((*(each.cell(row) for each in COLUMNS), row["hash"]))))
    if last is not None and as_json:
        terminal.emit_line({"head": last})
    elif last is not None:
        terminal.show(terminal.line(f"head  {last['number']}  {last['hash']}  {last['signature'] or 'not signed'}"))


async def _stored(store: str | None) -> AsyncGenerator[_Part, None]:
    """All entries of the store's log, page by page, and the head as it is after the last."""
    asked = query.Audit(limit=query.MOST)
    async with backend(store, resolve_actor(None)) as service:
        while True:
            page = await service.query(asked)
            if page.cursor is not None:
                yield page.rows, None
                asked = query.Audit(limit=query.MOST, cursor=page.cursor)
                continue
            head = next(iter((await service.query(query.AuditHead())).rows), None)
            yield page.rows, head
            if head is None or not page.rows or head["number"] <= page.rows[-1]["number"]:
                return
            asked = query.Audit(limit=query.MOST, cursor=str(page.rows[-1]["number"]))  # some were added since


async def _exported(file: Path) -> AsyncGenerator[_Part, None]:
    """The same of a file. Raises UsageError for one that is no export."""
    from holdfast.service.view import audit_head_of, link_of

    rows, head = [], None
    try:
        with file.open(encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if "head" in row:
                    head = row["head"]
                    audit_head_of(head)
                else:
                    rows.append(row)
                    link_of(row)
        yield rows, head
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise UsageError(
            f"{file} is not an export of an audit log ({problem}): `holdfast audit export --json` writes one."
        ) from None


EXAMPLES: Final = {"list": "--tenant acme", "verify": "", "export": "--json > audit.jsonl"}
