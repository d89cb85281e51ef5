"""What is in a request's head: one length, one token, and the address that the nearest proxies vouch for."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from holdfast.service.access.identity import Holder
from tests.http.kit import NO_TLS, Port, known, served
from tests.http.test_bounds import lines

IDENTITY = known(ann=Holder("clients.ann"))
CLIENT, INNER = "10.1.1.1", "10.0.0.9"


async def origins(port: Port, *forwarded: str) -> list[str]:
    """From where a request with this header came, as the audit log has it."""
    async with port.asked("ann" * 4) as ann:
        headers = [("x-forwarded-for", each) for each in forwarded]
        said = await ann.http.post("/runs", json={"workflow": "quick"}, headers=headers)
        assert said.status_code == 201, said.text
        return [row["origin"] for row in await ann.rows("/audit")][-1:]


async def test_an_origin_is_what_the_nearest_proxies_say_and_not_the_client(tmp_path: Path) -> None:
    async with served(tmp_path, IDENTITY, proxies=2) as port:
        assert await origins(port, f"6.6.6.6, {CLIENT}, {INNER}") == [CLIENT]
        assert await origins(port, "6.6.6.6", f"{CLIENT}:4711", INNER) == [CLIENT]
        assert await origins(port, f"x, [2001:db8::1]:80, {INNER}") == ["2001:db8::1"]
        assert await origins(port) == await origins(port, INNER) == ["127.0.0.1"], "it came past the proxies"
    async with served(tmp_path, IDENTITY) as port:
        assert await origins(port, CLIENT) == ["127.0.0.1"], "there is no proxy"


@pytest.mark.parametrize("said", ["<script>alert(1)</script>", "unknown", "9" * 20_000, "1.2.3", "[::1", "::1:80:x"])
async def test_what_is_no_address_is_refused(tmp_path: Path, said: str) -> None:
    async with served(tmp_path, IDENTITY, proxies=1) as port, port.asked("ann" * 4) as ann:
        answer = await ann.http.get("/me", headers={"x-forwarded-for": f"10.0.0.1, {said}"})
        assert (answer.status_code, "names no address" in answer.text) == (400, True)


async def test_a_request_says_its_length_once(tmp_path: Path) -> None:
    said = (
        b"POST /api/v1/runs HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n"
        b"0\r\n\r\nGET /api/v1/me HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    )
    async with served(tmp_path) as port, lines(port, 1, said) as (line,):
        answer = await line.answer()
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1, "nothing is read of what comes after it"


async def test_a_request_has_one_token_in_either_case_and_each_answer_is_what_it_says(tmp_path: Path) -> None:
    async with served(tmp_path, IDENTITY) as port, httpx2.AsyncClient(verify=NO_TLS, base_url=f"{port.address}/api/v1") as http:
        for scheme in ("Bearer", "bearer", "BEARER"):
            said = await http.get("/me", headers={"authorization": f"{scheme} {'ann' * 4}"})
            assert (said.status_code, said.headers["x-content-type-options"]) == (200, "nosniff")
        two = [("authorization", f"Bearer {'ann' * 4}"), ("authorization", "Bearer other")]
        for each in (two, two[::-1]):
            said = await http.get("/me", headers=each)
            assert (said.status_code, said.json()["code"]) == (400, "two_tokens")
        assert (await http.get("/openapi.json", headers={"host": "evil.example"})).status_code == 421
