"""`holdfast top`: opens the live view on a store or a server. Never here: what stands on the screen."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer

from holdfast.cli.connect import backend, located, mask_passwords, server
from holdfast.cli.option import Store
from holdfast.cli.page import terminal
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.errors import UsageError
from holdfast.platform.extra import needs

EXAMPLES: Final = {"top": "--tenant acme"}


def top(
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Only runs of this tenant.")] = None,
    workflow: Annotated[str | None, typer.Option("--workflow", metavar="NAME", help="Only runs of this workflow.")] = None,
    store: Store = None,
) -> None:
    """Watch runs, waits, pools, processes, costs and errors live.

    Enter explains a run; t and w filter; q quits.
    """
    with needs("top", "`holdfast top`"):
        from holdfast.cli.top.screen import TopApp
    from holdfast.cli.top.overview import Filter

    if not terminal.is_typed():
        raise UsageError("`holdfast top` needs a terminal. In a script, use `holdfast runs list` and `holdfast doctor --json`.")

    async def show() -> None:
        place = server(store) or mask_passwords(located(store)[0])
        async with backend(store, resolve_actor(None)) as asking:
            await TopApp(asking, place, Filter(tenant, workflow)).run_async()

    asyncio.run(show())
