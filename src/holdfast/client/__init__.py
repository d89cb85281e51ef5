"""A client of the HTTP API: what programs, and the command line, tell and ask a server.

`Client` blocks, `AsyncClient` awaits; what they say and understand is the same code. Never here: an engine, a store, a rule.
"""

from holdfast.client.async_client import AsyncClient
from holdfast.client.client import Client

__all__ = ["AsyncClient", "Client"]
