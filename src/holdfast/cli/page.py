"""A page of a list: its rows as a table or as JSON, and how a person goes on where it ends.

Never here: finding the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import table, terminal
from holdfast.cli.opening import typed
from holdfast.cli.table import Column

if TYPE_CHECKING:
    from holdfast.service.query import Page

OfTenant = Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Only those of one tenant.")]
After = Annotated[str | None, typer.Option("--after", metavar="CURSOR", help="Go on where the page before ended.")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")]


def show(
    page: Page,
    columns: Sequence[Column],
    line: Callable[[dict[str, Any]], Sequence[str]],
    *command: str,
    tenant: str | None,
    as_json: bool,
    store: str | None,
) -> None:
    """Print a page of what `command` lists of a tenant, or of all. The command that goes on asks for no other rows."""
    if as_json:
        terminal.emit(page.rows)
        return
    table.show(columns, [line(row) for row in page.rows])
    if page.cursor is not None:
        of = () if tenant is None else ("--tenant", tenant)
        terminal.say(f"There are more: {typed(*command, *of, '--after', page.cursor, store=store)}")
