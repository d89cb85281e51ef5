"""A connection that can be cut where it hurts: after the server was told, before its answer arrives.

It forwards bytes and knows no protocol. Never here: a server.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

_TIME_TO_ACT_S = 0.1
"""What the server gets to do what it was told, before its answer is thrown away."""


class Forwarder:
    """`async with Forwarder(port) as forwarder:` listens at `forwarder.port`."""

    def __init__(self, port: int) -> None:
        self._to_port = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._cut_after: bytes | None = None
        self.cuts = 0
        self.port = 0

    def cut_after(self, said: bytes) -> None:
        """Cut the next connection that says so."""
        self._cut_after = said

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._to_port)
        self._open |= {writer, there[1]}
        answers = asyncio.create_task(self._pass_on(there[0], writer))
        try:
            while data := await reader.read(65_536):
                cut = self._cut_after is not None and self._cut_after in data
                if cut:
                    answers.cancel()
                there[1].write(data)
                await there[1].drain()
                if cut:
                    self.cuts += 1
                    self._cut_after = None
                    await asyncio.sleep(_TIME_TO_ACT_S)
                    return
        except OSError:
            return  # the client is gone, which is what it is to be told as well
        finally:
            answers.cancel()
            for each in (writer, there[1]):
                each.transport.abort()
                self._open.discard(each)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()
