"""A client of the HTTP API, for programs and for the command line: `execute` a command, `query` a list.

    from holdfast.client import Client, command, query

`Client` blocks, `AsyncClient` awaits; the one is written from the other. Never here: an engine, a store, a rule.
"""

from holdfast.client.async_client import AsyncClient
from holdfast.client.client import Client
from holdfast.service.declarations import command, query

__all__ = ["AsyncClient", "Client", "command", "query"]
