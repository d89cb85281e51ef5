"""`holdfast mcp`: the tools of a store or a server for one agent, over this process's standard input and output.

Never here: the tools, the protocol.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

import typer

from holdfast.cli.connect import backend
from holdfast.cli.option import Roles, Store, Who
from holdfast.cli.page import log_output
from holdfast.cli.page.typed_input import resolve_actor
from holdfast.platform.extra import needs
from holdfast.service.principal import Principal


def mcp(
    decide: Annotated[
        bool, typer.Option("--decide", help="Let an agent whose client cannot ask its person decide gates by itself.")
    ] = False,
    by: Who = None,
    role: Roles = None,
    store: Store = None,
) -> None:
    """Serve runs to an agent over the Model Context Protocol.

    The agent starts, lists, follows, explains and signals runs, and checks and starts YAML workflows. At a gate its client asks
    the person. The agent's client starts this command and talks to it over standard input and output.
    """
    with needs("mcp", "The Model Context Protocol"):
        from holdfast.mcp import stdio as _  # noqa: F401 - a missing package is reported before a store is opened
    log_output.begin()
    asyncio.run(_serve(store, resolve_actor(by, role), decides_alone=decide))


async def _serve(store: str | None, principal: Principal, *, decides_alone: bool) -> None:
    from holdfast.mcp.stdio import serve

    async with backend(store, principal, make=True) as caller:
        await serve(caller, decides_alone=decides_alone)


EXAMPLES: Final = {"mcp": "--store sqlite:///runs.db"}
