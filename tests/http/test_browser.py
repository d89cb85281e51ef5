"""A browser at `holdfast dev`: the address with a code, the cookie, and what other pages cannot do with it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast import Engine
from holdfast.compose.api import CODE, HttpPort, answering
from holdfast.errors import UsageError
from holdfast.http import console
from holdfast.service.access.identity import Identity
from holdfast.service.service import Service
from tests.http import flows
from tests.http.kit import NO_TLS
from tests.http.test_commands import asked, holdfast
from tests.wire.kit import ended

TOKEN, ONCE = "a-token-of-some-length", "a-code-for-once"
START = {"workflow": "quick", "input": 1}


@asynccontextmanager
async def served(folder: Path, **more: Any) -> AsyncIterator[str]:
    (folder / CODE).touch(0o600)
    (folder / CODE).write_text(ONCE)
    port = HttpPort("127.0.0.1:0", Identity(TOKEN), browser=folder)._replace(**more)
    async with (
        Engine.open(str(folder / "runs.db"), workflows=[flows.quick]) as engine,
        answering(Service(engine, [flows.quick]), port, lambda _: None) as address,
    ):
        yield address


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[str]:
    async with served(tmp_path) as at:
        yield at


@asynccontextmanager
async def signed_in(address: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser that has come with the code."""
    async with httpx2.AsyncClient(verify=NO_TLS, base_url=address) as browser:
        assert (await browser.get("/", params={"code": ONCE})).status_code == 303
        yield browser


def code_of(said: httpx2.Response) -> tuple[int, str]:
    return said.status_code, said.json()["code"]


async def test_the_code_gives_a_cookie_once_and_is_in_no_address_afterwards(address: str) -> None:
    async with httpx2.AsyncClient(verify=NO_TLS, base_url=address) as browser:
        assert code_of(await browser.get("/", params={"code": "another"})) == (403, "wrong_code")
        assert code_of(await browser.get("/", params={"code": ""})) == (403, "wrong_code")
        given = await browser.get("/", params={"code": ONCE})
        assert (given.status_code, given.headers["location"]) == (
            303,
            console.START if console.find().is_built else "/api/v1/me",
        )
        port = address.rpartition(":")[2]
        shape = rf"holdfast-{port}=[\w-]{{43}}; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict"
        assert re.fullmatch(shape, given.headers["set-cookie"])
        assert (given.headers["referrer-policy"], given.headers["cache-control"]) == ("no-referrer", "no-store")
        assert (await browser.get("/api/v1/me")).status_code == 200
    async with httpx2.AsyncClient(verify=NO_TLS, base_url=address) as another:
        used = await another.get("/", params={"code": ONCE})
        assert code_of(used) == (410, "used")
        assert "set-cookie" not in used.headers
        assert (await another.get("/api/v1/me")).status_code == 401


async def test_a_browser_that_comes_again_with_a_code_is_led_to_the_sign_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says why, or leads on if that browser is signed in. A program gets the problem."""
    (tmp_path / "index.html").write_text("<!doctype html>")
    monkeypatch.setattr(console, "find", lambda: console.Console(tmp_path))
    page = {"accept": "text/html,*/*;q=0.8"}
    async with (
        served(tmp_path) as address,
        httpx2.AsyncClient(verify=NO_TLS, base_url=address, params={"code": ONCE}) as browser,
    ):
        wrong = await browser.get("/", headers=page, params={"code": "another"})
        assert (wrong.status_code, wrong.headers["location"]) == (303, "/sign-in?error=wrong_code")
        assert (await browser.get("/", headers=page)).headers["location"] == console.START
        used = await browser.get("/", headers=page)
        assert (used.status_code, used.headers["location"]) == (303, "/sign-in?error=used")
        assert code_of(await browser.get("/", headers={"accept": "application/json"})) == (410, "used")
        ways = (await browser.get("/api/v1/sign-in")).json()
        assert {each["code"] for each in ways["errors"]} == {"used", "wrong_code"}
        assert ways["signed_in"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("{ours}", 201),
        (None, 403),
        ("null", 403),
        ("https://evil.example", 403),
        ("http://127.0.0.1:1", 403),
        ("http://localhost:{port}", 403),
        ("https://127.0.0.1:{port}", 403),
        ("{ours}.evil.example", 403),
        ("{ours}/", 403),
    ],
)
async def test_what_changes_something_comes_from_our_own_page(address: str, origin: str | None, status: int) -> None:
    port = address.rpartition(":")[2]
    headers = {} if origin is None else {"origin": origin.format(ours=address, port=port)}
    async with signed_in(address) as browser:
        said = await browser.post("/api/v1/runs", json=START, headers=headers)
        assert said.status_code == status, said.text
        if status == 403:
            assert said.json()["code"] == "wrong_origin"
        assert len((await browser.get("/api/v1/runs")).json()["rows"]) == (status == 201)


@pytest.mark.parametrize(("site", "status"), [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403)])
async def test_what_a_page_of_another_site_has_sent_is_not_answered(address: str, site: str, status: int) -> None:
    async with signed_in(address) as browser:
        assert (await browser.get("/api/v1/runs", headers={"sec-fetch-site": site})).status_code == status


async def test_a_token_needs_no_origin_and_no_answer_is_for_other_origins(address: str) -> None:
    port = address.rpartition(":")[2]
    evil = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    async with signed_in(address) as browser, httpx2.AsyncClient(verify=NO_TLS, base_url=address) as program:
        secret = browser.cookies[f"holdfast-{port}"]
        bearer = {"authorization": f"Bearer {TOKEN}"}
        answers = [
            await program.post("/api/v1/runs", json=START, headers=bearer),
            await program.get("/api/v1/runs", headers={**bearer, **evil}),
            await program.get("/api/v1/runs", headers={"cookie": f"holdfast-{port}={secret}", **evil}),
            await program.request("OPTIONS", "/api/v1/runs", headers=evil),
        ]
        assert [each.status_code for each in answers] == [201, 200, 200, 405]
        assert not [name for each in answers for name in each.headers if name.startswith("access-control")]
        for wrong in ("", "x", f"{secret}x", secret[:-1]):
            said = await program.get("/api/v1/runs", headers={"cookie": f"holdfast-{port}={wrong}"})
            assert said.status_code == 401
        rebound = await program.get("/", params={"code": ONCE}, headers={"host": f"evil.example:{port}"})
        assert code_of(rebound) == (421, "wrong_host")
        beside = {"authorization": "Bearer wrong", "cookie": f"holdfast-{port}={secret}"}
        assert (await program.get("/api/v1/runs", headers=beside)).status_code == 401, "the token that is said counts"


async def test_a_port_without_a_code_takes_none(tmp_path: Path) -> None:
    async with served(tmp_path, browser=None) as address, httpx2.AsyncClient(verify=NO_TLS, base_url=address) as browser:
        given = await browser.get("/", params={"code": ONCE})
        assert "set-cookie" not in given.headers
    for wrong in ({"identity": Identity()}, {"address": "0.0.0.0:0"}):
        with pytest.raises(UsageError, match="Nothing was started"):
            async with served(tmp_path, **wrong):
                pass


async def test_the_cookie_outlives_a_server_that_is_restarted(tmp_path: Path) -> None:
    """The code is in no line that the server says; only `dev` itself has printed it."""
    code = tmp_path / "quick.py"
    code.write_text("from holdfast import flow\n\n@flow\nasync def quick(ctx, given):\n    return given\n")
    process = holdfast("dev", f"{code}:quick", "--port", "0", "--store", str(tmp_path / "runs.db"), folder=tmp_path)
    with ended(process):
        once = process.says(r"works once: (http://\S+)")[1]
        asked(process)
        address = once.partition("/?")[0]
        async with httpx2.AsyncClient(verify=NO_TLS, base_url=address) as browser:
            assert (await browser.get(once)).status_code == 303
            code.write_text(code.read_text() + "\n")
            process.says("quick.py has changed")
            asked(process, times=2)
            assert (await browser.get("/api/v1/workflows")).status_code == 200
            assert code_of(await browser.get(once)) == (410, "used")
        assert process.stop() == 0
    assert sum(once.partition("code=")[2] in line for line in process.lines) == 1
