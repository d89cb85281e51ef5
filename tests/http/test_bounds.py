"""So much at a time of one address, token or tenant, and no more; others are answered meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.values.access import Access
from holdfast.errors import TooMuch
from holdfast.service.access.identity import Holder
from holdfast.service.concurrency_limit import ConcurrencyLimit
from holdfast.settings import PortBounds
from tests.http.kit import MAX_S, Asked, Port, known, served

VIEWER = Access(("viewer",))
IDENTITY = known(
    ann=Holder("clients.ann", tenant="acme"),
    ada=Holder("clients.ada", tenant="acme", access=VIEWER),
    gil=Holder("clients.gil", tenant="globex"),
    ops=Holder("clients.ops"),
)
HALF = b"GET /api/v1/me HTTP/1.1\r\nhost: 127.0.0.1\r\nx: a"
LATE_S = 0.5


class Line:
    """A connection on which bytes are sent as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def says(self, text: bytes) -> None:
        self.writer.write(text)

    async def hears(self, most: int = 65_536) -> bytes:
        """What comes next; nothing at the end of the connection."""
        async with asyncio.timeout(MAX_S):
            try:
                return await self.reader.read(most)
            except ConnectionResetError:
                return b""

    async def answer(self) -> bytes:
        """All that comes until the connection ends."""
        parts = [await self.hears()]
        while parts[-1]:
            parts.append(await self.hears())
        return b"".join(parts)


@asynccontextmanager
async def lines(port: Port, count: int, said: bytes = b"", *, of: str = "127.0.0.1") -> AsyncIterator[list[Line]]:
    """So many connections from an address, which say this."""
    host, _, number = port.address.removeprefix("http://").rpartition(":")
    made = [Line(*await asyncio.open_connection(host, int(number), local_addr=(of, 0), limit=4096)) for _ in range(count)]
    for each in made:
        each.says(said)
    try:
        yield made
    finally:
        for each in made:
            each.writer.transport.abort()


def slow(path: str, token: str = "", length: int = 100) -> bytes:
    """A request whose body does not come."""
    said = f"POST /api/v1{path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n"
    return (said + (f"authorization: Bearer {token * 4}\r\n" if token else "") + "\r\n{").encode()


async def reached(say: Any) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(MAX_S):
        while not say():
            await asyncio.sleep(0.005)


# --- Connections ------------------------------------------------------------------------------------------------------


async def test_half_requests_of_an_address_leave_room_for_others_and_end(tmp_path: Path) -> None:
    bounds = PortBounds(connections=8, head_s=LATE_S)
    async with (
        served(tmp_path, bounds=bounds) as port,
        lines(port, 6, HALF) as held,
        lines(port, 1, HALF + b"\r\n\r\n", of="127.0.0.2") as others,
    ):
        assert (await others[0].hears()).startswith(b"HTTP/1.1 200 OK")
        ends = sorted([(await each.answer())[:12] for each in held])
        assert ends == [b"HTTP/1.1 408"] * 4 + [b"HTTP/1.1 503"] * 2
        async with port.asked() as api:
            await api.get("/me")


async def test_a_head_has_its_time_however_it_comes(tmp_path: Path) -> None:
    async with served(tmp_path, bounds=PortBounds(head_s=LATE_S)) as port, lines(port, 2) as (silent, drop):

        async def drip() -> None:
            for byte in HALF * 1_000:
                drop.says(bytes([byte]))
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        for each in (silent, drop):
            assert (await each.answer()).startswith(b"HTTP/1.1 408 Request Timeout")
        dripping.cancel()


async def test_a_connection_that_is_kept_is_given_its_time_for_each_request(tmp_path: Path) -> None:
    async with served(tmp_path, bounds=PortBounds(head_s=LATE_S)) as port, lines(port, 1) as (line,):
        for _ in range(2):
            line.says(HALF)
            await asyncio.sleep(0)
            line.says(b"\r\n\r\n")
            assert (await line.hears()).startswith(b"HTTP/1.1 200 OK")
        line.says(HALF)
        assert b"\nHTTP/1.1 408" in b"\n" + await line.answer()


async def test_a_body_that_comes_after_its_answer_is_not_waited_for(tmp_path: Path) -> None:
    async with (
        served(tmp_path, IDENTITY, bounds=PortBounds(head_s=LATE_S)) as port,
        lines(port, 1, slow("/runs", length=1_000_000)) as (line,),
    ):

        async def drip() -> None:
            while True:
                line.says(b" ")
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        assert (await line.answer()).startswith(b"HTTP/1.1 401")
        dripping.cancel()


async def test_who_does_not_read_what_was_asked_is_let_go(tmp_path: Path) -> None:
    async with served(tmp_path, bounds=PortBounds(body_s=LATE_S)) as port, port.asked() as api:
        run = (await api.post("/runs", {"workflow": "counting", "input": 1_500}, wait_s=10))["run_id"]
        asks = f"GET /api/v1/runs/{run}/stream?limit=1000 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()
        async with lines(port, 1, asks * 200) as (line,):
            line.reader._transport.pause_reading()  # type: ignore[attr-defined] # nothing more is taken from the system
            async with asyncio.timeout(MAX_S):
                while True:
                    try:
                        line.says(b"\r\n")
                        await line.writer.drain()
                    except ConnectionError:
                        break
                    await asyncio.sleep(0.05)


async def test_who_leaves_in_the_middle_of_a_body_is_no_error_of_ours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path, IDENTITY) as port:
        reading = port.turns._reading
        async with lines(port, 1, slow("/runs", "ann")):
            await reached(lambda: reading.held_by(()) == 1)
        await reached(lambda: reading.held_by(()) == 0)
        async with port.asked("ann" * 4) as ann:
            await ann.get("/me")
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


# --- Turns ------------------------------------------------------------------------------------------------------------


FEW = PortBounds(reading=8, requests=8, streams=16, wait_s=0.2)


async def test_slow_bodies_of_a_token_keep_no_other_from_being_read(tmp_path: Path) -> None:
    async with (
        served(tmp_path, IDENTITY, bounds=FEW) as port,
        lines(port, 12, slow("/runs", "ann")) as held,
        port.asked("ann" * 4) as ann,
        port.asked("ada" * 4) as ada,
        port.asked("gil" * 4) as gil,
    ):
        assert (await held[-1].hears()).startswith(b"HTTP/1.1 429"), "two are read, and no other has a turn"
        assert await ann.refused("POST", "/runs", {"workflow": "quick"}) == (429, "too_much")
        assert await ada.refused("POST", "/runs", {"workflow": "quick"}) == (403, "not_permitted")
        await gil.post("/runs", {"workflow": "quick"})
        assert port.turns._answering.held_by(()) == 0, "nobody who is silent is being answered"


async def test_slow_bodies_of_a_link_keep_no_other_link_from_its_question(tmp_path: Path) -> None:
    async with served(tmp_path, IDENTITY, bounds=FEW) as port, AsyncExitStack() as stack:
        links = []
        for name in ("ann", "gil"):
            api = await stack.enter_async_context(port.asked(name * 4))
            run = (await api.post("/runs", {"workflow": "counting", "input": 1}, wait_s=10))["run_id"]
            links.append((await api.post(f"/runs/{run}/signals/enough/link"))["link"])
        held = await stack.enter_async_context(lines(port, 12, slow(f"/links/{links[0]}")))
        assert (await held[-1].hears()).startswith(b"HTTP/1.1 429")
        stranger = await stack.enter_async_context(port.asked())
        assert await stranger.refused("POST", f"/links/{links[0]}", {}) == (429, "too_much")
        assert (await stranger.said("POST", f"/links/{links[1]}", {"data": 1})).status_code == 200


async def test_requests_of_one_token_take_turns_and_those_of_others_do_not_wait() -> None:
    turns, free, answered = ConcurrencyLimit(PortBounds(requests=4, waiting=8)), asyncio.Event(), []

    async def said() -> str:
        return ""

    async def ask(tenant: str, token: str) -> None:
        async with turns.asking((tenant, token), said):
            answered.append(token)
            await free.wait()

    asking = [asyncio.create_task(ask("acme", "ann")) for _ in range(3)]
    await reached(lambda: turns._answering._waiting)
    assert answered == ["ann"]
    with pytest.raises(TooMuch, match="those that wait because too many requests are answered"):
        await ask("acme", "ann")
    asking += [asyncio.create_task(ask(*each)) for each in (("acme", "bob"), ("globex", "gil"))]
    await reached(lambda: len(answered) == 3)
    assert answered == ["ann", "bob", "gil"]
    free.set()
    await asyncio.gather(*asking)
    assert sorted(answered) == ["ann", "ann", "ann", "bob", "gil"]


async def test_a_large_body_counts_as_read_until_it_is_answered() -> None:
    turns = ConcurrencyLimit()

    async def said(length: int) -> bytes:
        return b" " * length

    async with turns.asking(("acme", "ann"), lambda: said(65_536)):
        assert turns._reading.held_by(()) == 0
    async with turns.asking(("acme", "ann"), lambda: said(65_537)):
        assert turns._reading.held_by(()) == 1
    assert turns._reading.held_by(()) == 0


async def test_a_burst_is_taken_and_what_comes_too_fast_after_it_is_not() -> None:
    turns = ConcurrencyLimit(PortBounds(requests_per_s=1, burst=3))

    async def said() -> str:
        return ""

    async def ask(tenant: str, token: str) -> None:
        async with turns.asking((tenant, token), said):
            pass

    for _ in range(3):
        await ask("acme", "ann")
    with pytest.raises(TooMuch, match="More than 1 requests of this token") as refused:
        await ask("acme", "ann")
    assert refused.value.retry_after_s == 1
    for _ in range(3):
        await ask("acme", "ada")
    with pytest.raises(TooMuch, match="More than 2 requests of this tenant"):
        await ask("acme", "eve")
    await ask("globex", "gil")


# --- Streams ----------------------------------------------------------------------------------------------------------


async def test_streams_of_a_tenant_leave_room_for_those_of_others(tmp_path: Path) -> None:
    async with served(tmp_path, IDENTITY, bounds=FEW) as port, AsyncExitStack() as stack:
        ann, ada, gil = [await stack.enter_async_context(port.asked(name * 4)) for name in ("ann", "ada", "gil")]

        async def opened(api: Asked) -> list[int]:
            """The answers to ten who listen with one token, who go on."""
            named = {"accept": "text/event-stream"}
            return [
                (await stack.enter_async_context(api.http.stream("GET", "/events", headers=named))).status_code
                for _ in range(10)
            ]

        assert await opened(ann) == [200] * 4 + [429] * 6
        assert await opened(ada) == [200] * 2 + [429] * 8, "they are of one tenant"
        assert (await opened(gil))[:2] == [200, 200]
        open_ = port.turns._streams
    await reached(lambda: open_.held_by(()) == 0)


async def test_a_stream_that_is_refused_or_left_at_once_counts_no_more(tmp_path: Path) -> None:
    async with served(tmp_path, IDENTITY) as port, port.asked("ann" * 4) as ann:
        assert await ann.refused("GET", "/runs/none/events", accept="text/event-stream") == (404, "not_found")
        asks = f"GET /api/v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\nauthorization: Bearer {'ann' * 4}\r\n\r\n"
        async with lines(port, 5, asks.encode()):
            pass
        await reached(lambda: port.turns._streams.held_by(()) == 0)
