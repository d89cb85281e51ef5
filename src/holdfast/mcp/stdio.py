"""The server over standard input and output, for the one agent that has started the process. Never here: the tools."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from holdfast.mcp.server import Caller, server


async def serve(caller: Caller, *, decides_alone: bool) -> None:
    """Answer the agent until it closes the input."""
    made = server(lambda _: caller, decides_alone=decides_alone)
    async with stdio_server() as (incoming, outgoing):
        await made.run(incoming, outgoing, made.create_initialization_options())
