"""Browsers that sign in with a token: the cookie, how long it counts, what ends it, and what other pages cannot do with it."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.core.values.access import Access
from holdfast.http.session import Place
from holdfast.service import subscription
from holdfast.service.access import sign_in
from holdfast.service.access.identity import Holder, Identity, Scope, hashed
from holdfast.service.access.signed_token import SignedTokens
from holdfast.settings import PortBounds, Settings
from tests.http.kit import MAX_S, NO_TLS, Port, known, served
from tests.http.test_identity import KeyServer, issuer, rules, signed  # noqa: F401 - a fixture

ADMIN = "admin" * 4
OF_ACME = known(
    admin=Holder("clients.admin", tenant="acme"),
    globex=Holder("clients.globex", tenant="globex"),
    ops=Holder("clients.ops"),
    looks=Holder("clients.looks", tenant="acme", access=Access(("viewer",))),
    works=Holder("workers.works", asks=False, works=Scope()),
)


class Browser:
    """A browser at a port: it keeps cookies, and says from which page a request comes."""

    def __init__(self, http: httpx2.AsyncClient, address: str) -> None:
        self.http = http
        self.address = address

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.http.get(f"/api/v1{path}", headers={"sec-fetch-site": "same-origin", **headers})

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        said = {"origin": self.address, "sec-fetch-site": "same-origin", **{k.replace("_", "-"): v for k, v in headers.items()}}
        return await self.http.request(method, f"/api/v1{path}", json=body, headers=said)

    async def sign_in(self, token: str) -> httpx2.Response:
        return await self.send("POST", "/session", {"token": token})

    @property
    def cookie(self) -> str:
        return f"holdfast-{self.address.rpartition(':')[2]}"


@asynccontextmanager
async def browsing(port: Port) -> AsyncIterator[Browser]:
    async with httpx2.AsyncClient(verify=NO_TLS, base_url=port.address, timeout=MAX_S) as http:
        yield Browser(http, port.address)


def code_of(said: httpx2.Response) -> tuple[int, str]:
    return said.status_code, said.json()["code"]


async def test_a_browser_signs_in_with_a_token_and_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with served(tmp_path, OF_ACME) as port, browsing(port) as browser, port.asked(ADMIN) as admin:
        ways = {
            "signed_in": False,
            "ways": [{"way": "token", "title": "API token", "address": "/api/v1/session"}],
            "errors": [],
        }
        assert (await browser.get("/sign-in")).json() == ways
        assert code_of(await browser.get("/me")) == (401, "unauthorized")
        made = await browser.sign_in(f" {ADMIN}\n")
        assert made.status_code == 201
        shape = rf"{browser.cookie}=[\w-]{{43}}; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict"
        assert re.fullmatch(shape, made.headers["set-cookie"])
        me = (await browser.get("/me")).json()
        assert me == made.json()
        expected = {"name": "clients.admin", "tenant": "acme", "may": ["admin"], "signed_in_with": "token", "verified": True}
        assert {name: me[name] for name in expected} == expected
        assert (await browser.get("/sign-in")).json()["signed_in"]
        assert (await browser.send("POST", "/runs", {"workflow": "quick", "input": 1})).status_code == 201
        secret = browser.http.cookies[browser.cookie]
        ended = await browser.send("DELETE", "/session")
        assert (ended.json(), browser.http.cookies.get(browser.cookie)) == ({"continue_at": None}, None)
        copied = await browser.get("/me", cookie=f"{browser.cookie}={secret}")
        assert code_of(copied) == (401, "unauthorized"), "a copy of the cookie is over too"
        assert "sign in again" in copied.json()["detail"]
        assert (await admin.get("/me"))["signed_in_with"] is None
        rows = await admin.rows("/audit")
        assert [(row["action"], row["about"], row["outcome"]) for row in rows if row["action"] != "LogIn"] == [
            ("SignIn", "token", "done"),
            ("Start", rows[-2]["about"], "done"),
            ("SignOut", "token", "done"),
        ]
        kept = (tmp_path / "runs.db").read_bytes() + (tmp_path / "runs.db-wal").read_bytes()
        for hidden in (secret, ADMIN):
            assert not [each for each in caplog.records if hidden in each.getMessage() and not each.name.startswith("http")]
            assert hidden.encode() not in kept


async def test_only_a_page_of_ours_signs_in_and_out(tmp_path: Path) -> None:
    """Another site's page could have a victim signed in as the attacker, or signed out."""
    async with served(tmp_path, OF_ACME) as port, browsing(port) as browser:
        for headers in (
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"sec_fetch_site": "cross-site"},
            {"sec_fetch_site": "same-site"},
        ):
            assert code_of(await browser.send("POST", "/session", {"token": ADMIN}, **headers)) == (403, "wrong_origin")
        assert code_of(await browser.http.post("/api/v1/session", json={"token": ADMIN})) == (403, "wrong_origin")
        assert (await browser.sign_in(ADMIN)).status_code == 201
        for headers in ({"origin": "https://evil.example"}, {"sec_fetch_site": "cross-site"}):
            assert code_of(await browser.send("DELETE", "/session", **headers)) == (403, "wrong_origin")
            assert code_of(await browser.send("POST", "/runs", {"workflow": "quick"}, **headers)) == (403, "wrong_origin")
        assert (await browser.get("/me")).status_code == 200, "it is signed in as before"


async def test_a_wrong_token_gives_no_cookie_and_is_shown_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with served(tmp_path, OF_ACME) as port, browsing(port) as browser, port.asked("ops" * 4) as ops:
        link = "hfl_" + "x" * 43
        wrong = ("guess" * 4, "hfk_" + "x" * 43, link, "a.b.c", ADMIN[:-1])
        for token in wrong:
            said = await browser.sign_in(token)
            assert code_of(said) == (401, "unauthorized")
            assert token not in said.text
            assert "set-cookie" not in said.headers
        assert code_of(await browser.sign_in("works" * 4)) == (403, "not_permitted"), "a worker asks nothing"
        for body in ({}, {"token": 1}, {"token": ""}, {"token": "x" * 20_000}, {"token": ADMIN, "more": 1}, [ADMIN], ADMIN):
            said = await browser.send("POST", "/session", body)
            assert code_of(said) == (422, "invalid_input")
            assert ADMIN not in said.text
        assert {row["action"] for row in await ops.rows("/audit")} == {"LogIn"}, "attempts are noted"
        assert not any(token in caplog.text for token in wrong)


async def test_a_cookie_that_was_changed_or_made_up_is_none(tmp_path: Path) -> None:
    async with served(tmp_path, OF_ACME) as port, browsing(port) as browser:
        await browser.sign_in(ADMIN)
        secret = browser.http.cookies[browser.cookie]
        browser.http.cookies.clear()
        row = hashed(secret).hex()  # as the store has it
        for other in (secret[:-1], secret + "x", secret.swapcase(), row, "", ADMIN, hashed(ADMIN).hex()):
            assert (await browser.get("/me", cookie=f"{browser.cookie}={other}")).status_code == 401, other
        assert (await browser.get("/me", cookie=f"holdfast-1={secret}")).status_code == 401, "another port's name"
        assert (await browser.get("/me", authorization=f"Bearer {secret}")).status_code == 401, "it is no token"
        assert (await browser.get("/me", cookie=f"{browser.cookie}={secret}")).status_code == 200


async def test_a_session_and_its_streams_end_with_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "AGAIN_S", 0.2)
    async with served(tmp_path, OF_ACME) as port, port.asked(ADMIN) as admin, browsing(port) as browser:
        run = (await admin.post("/runs", {"workflow": "rated"}, wait_s=10))["run_id"]
        for name, command in (("ear", "revoke"), ("eye", "rotate")):
            key = (await admin.post("/keys", {"name": name}))["key"]
            assert (await browser.sign_in(key)).status_code == 201
            async with asyncio.timeout(20), browser.http.stream("GET", f"/api/v1/runs/{run}/events", headers=SSE) as stream:
                lines = stream.aiter_lines()
                assert "RunStarted" in await _until(lines, "RunStarted")
                await admin.post(f"/keys/{name}/{command}")
                assert code_of(await browser.get("/me")) == (401, "unauthorized")
                problem = await _until(lines, "unauthorized")
                assert json.loads(problem.removeprefix("data: "))["code"] == "unauthorized"


SSE = {"accept": "text/event-stream", "sec-fetch-site": "same-origin"}


async def _until(lines: AsyncIterator[str], text: str) -> str:
    async for line in lines:
        if text in line and line.startswith("data: "):
            return line
    raise AssertionError(f"{text} did not come")


async def test_a_stream_ends_when_its_browser_signs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription, "AGAIN_S", 0.2)
    async with served(tmp_path, OF_ACME) as port, browsing(port) as browser:
        await browser.sign_in(ADMIN)
        run = (await browser.send("POST", "/runs", {"workflow": "rated"}, prefer="wait=10")).json()["run_id"]
        async with asyncio.timeout(20), browser.http.stream("GET", f"/api/v1/runs/{run}/events", headers=SSE) as stream:
            lines = stream.aiter_lines()
            await _until(lines, "RunStarted")
            assert (await browser.send("DELETE", "/session")).status_code == 200
            assert "unauthorized" in await _until(lines, "unauthorized")


async def test_a_person_sees_and_ends_their_own_sessions(tmp_path: Path) -> None:
    async with (
        served(tmp_path, OF_ACME) as port,
        browsing(port) as desk,
        browsing(port) as home,
        browsing(port) as theirs,
        browsing(port) as boss,
    ):
        for browser, token in ((home, "looks" * 4), (desk, "looks" * 4), (theirs, "globex" * 4), (boss, ADMIN)):
            assert (await browser.sign_in(token)).status_code == 201
        rows = (await desk.get("/sessions")).json()["rows"]
        assert [(row["name"], row["tenant"], row["way"], row["current"]) for row in rows] == [
            ("clients.looks", "acme", "token", each["current"]) for each in rows
        ]
        assert sorted(row["current"] for row in rows) == [False, True]
        assert {row["origin"] for row in rows} == {"127.0.0.1"}
        assert code_of(await desk.get("/sessions?name=*")) == (403, "not_permitted")
        (other,) = (row["session"] for row in rows if not row["current"])
        (of_globex,) = (row["session"] for row in (await theirs.get("/sessions")).json()["rows"])
        (of_admin,) = (row["session"] for row in (await boss.get("/sessions")).json()["rows"])
        for unknown in (of_globex, of_admin, "nothing"):
            assert code_of(await desk.send("POST", f"/sessions/{unknown}/end")) == (404, "not_found")
        ended = await desk.send("POST", f"/sessions/{other}/end")
        assert (ended.status_code, ended.json()["session"]) == (200, other)
        assert code_of(await home.get("/me")) == (401, "unauthorized")
        assert [(await each.get("/me")).status_code for each in (desk, theirs, boss)] == [200, 200, 200]


async def test_an_administrator_ends_all_sessions_of_a_person_in_the_own_tenant(tmp_path: Path) -> None:
    async with (
        served(tmp_path, OF_ACME) as port,
        browsing(port) as one,
        browsing(port) as two,
        browsing(port) as theirs,
        port.asked(ADMIN) as admin,
        port.asked("looks" * 4) as looks,
    ):
        for browser, token in ((one, "looks" * 4), (two, "looks" * 4), (theirs, "globex" * 4)):
            assert (await browser.sign_in(token)).status_code == 201
        names = [row["name"] for row in await admin.rows("/sessions", name="*")]
        assert names == ["clients.looks"] * 2, "of the own tenant alone"
        assert await looks.refused("POST", "/sessions/end", {"name": "clients.looks"}) == (403, "not_permitted")
        assert await admin.post("/sessions/end", {"name": "clients.globex"}) == {"name": "clients.globex", "ended": 0}
        assert await admin.post("/sessions/end", {"name": "clients.looks"}) == {"name": "clients.looks", "ended": 2}
        for browser in (one, two):
            assert code_of(await browser.get("/me")) == (401, "unauthorized")
        assert (await theirs.get("/me")).status_code == 200
        entry = (await admin.rows("/audit", order="newest", action="EndSessions"))[0]
        assert (entry["about"], entry["name"], entry["outcome"]) == ("clients.looks", "clients.admin", "done")


async def test_a_session_is_over_after_its_time_however_much_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "LIFE_S", 2)
    async with served(tmp_path, OF_ACME) as port, browsing(port) as browser, asyncio.timeout(20):
        began_s = time.monotonic()
        secret = (await browser.sign_in(ADMIN)).cookies[browser.cookie]
        cookie, used = f"{browser.cookie}={secret}", 0
        while (said := await browser.get("/me", cookie=cookie)).status_code == 200:
            used += 1
            await asyncio.sleep(0.05)
        assert code_of(said) == (401, "unauthorized")
        assert time.monotonic() - began_s >= 1.9
        assert used > 5


async def test_each_server_of_a_store_knows_a_session_also_after_a_restart(tmp_path: Path) -> None:
    """A fleet has one address: cookies of a port's name go to whichever server answers."""
    async with served(tmp_path, OF_ACME) as port, browsing(port) as browser:
        secret = (await browser.sign_in(ADMIN)).cookies[browser.cookie]
    async with served(tmp_path, OF_ACME) as one, served(tmp_path, OF_ACME) as two, browsing(one) as at, browsing(two) as beside:
        for each in (at, beside):
            assert (await each.get("/me", cookie=f"{each.cookie}={secret}")).status_code == 200
        out = await at.send("DELETE", "/session", cookie=f"{at.cookie}={secret}")
        assert out.status_code == 200
        assert (await beside.get("/me", cookie=f"{beside.cookie}={secret}")).status_code == 401
    gone = known(admin=Holder("clients.admin", tenant="acme"))
    async with served(tmp_path, gone) as port, browsing(port) as browser:
        secret = (await browser.sign_in(ADMIN)).cookies[browser.cookie]
    async with served(tmp_path, known(other=Holder("clients.other"))) as port, browsing(port) as browser:
        known_no_more = await browser.get("/me", cookie=f"{browser.cookie}={secret}")
        assert known_no_more.status_code == 401, "its token was taken out of the file"


async def test_a_session_sees_and_does_what_its_token_may(tmp_path: Path) -> None:
    async with served(tmp_path, OF_ACME) as port, browsing(port) as acme, browsing(port) as globex, browsing(port) as looks:
        for browser, name in ((acme, "admin"), (globex, "globex"), (looks, "looks")):
            assert (await browser.sign_in(name * 4)).status_code == 201
        run = (await acme.send("POST", "/runs", {"workflow": "quick", "input": 1})).json()["run_id"]
        assert (await globex.get(f"/runs/{run}")).status_code == 404
        assert (await globex.get("/runs")).json()["rows"] == []
        assert [row["run_id"] for row in (await looks.get("/runs")).json()["rows"]] == [run]
        assert code_of(await looks.send("POST", f"/runs/{run}/cancel")) == (403, "not_permitted")
        again = await looks.sign_in(ADMIN)
        assert again.json()["name"] == "clients.admin"


async def test_a_session_of_a_signed_token_ends_with_it(tmp_path: Path, issuer: KeyServer) -> None:  # noqa: F811
    identity = Identity(issuer=SignedTokens(rules(issuer, leeway_s=0)))
    async with served(tmp_path, identity) as port, browsing(port) as browser, asyncio.timeout(20):
        made = await browser.sign_in(signed(exp=int(time.time()) + 3, holdfast=["viewer"]))
        assert made.status_code == 201
        age_s = int(re.search(r"Max-Age=(\d+)", made.headers["set-cookie"])[1])  # type: ignore[index]
        assert age_s <= 3
        cookie = f"{browser.cookie}={made.cookies[browser.cookie]}"
        me = (await browser.get("/me", cookie=cookie)).json()
        assert (me["name"], me["verified"], me["may"]) == (made.json()["name"], True, ["viewer"])
        while (await browser.get("/me", cookie=cookie)).status_code == 200:
            await asyncio.sleep(0.1)
        assert code_of(await browser.sign_in(signed(exp=int(time.time()) - 10))) == (401, "unauthorized")


async def test_one_caller_has_a_bounded_number_of_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sign_in, "MOST", 2)
    async with served(tmp_path, OF_ACME) as port, browsing(port) as browser, browsing(port) as globex:
        await globex.sign_in("globex" * 4)
        secrets = []
        for _ in range(3):
            browser.http.cookies.clear()
            secrets.append((await browser.sign_in(ADMIN)).cookies[browser.cookie])
            await asyncio.sleep(0.002)  # the next is made later
        browser.http.cookies.clear()
        known_ = [(await browser.get("/me", cookie=f"{browser.cookie}={each}")).status_code for each in secrets]
        assert known_ == [401, 200, 200]
        assert (await globex.get("/me")).status_code == 200


async def test_sign_ins_of_one_address_wait_for_their_turn(tmp_path: Path) -> None:
    """Guessing is no faster than asking: an address has a share of what a port looks at."""
    bounds = PortBounds(requests_per_s=5, burst=5)
    async with served(tmp_path, OF_ACME, bounds=bounds) as port, browsing(port) as browser:
        codes = {code_of(await browser.sign_in("guess" * 4)) for _ in range(8)}
        assert codes == {(401, "unauthorized"), (429, "too_much")}


async def test_a_port_that_asks_for_no_token_has_no_sign_in(tmp_path: Path) -> None:
    async with served(tmp_path) as port, browsing(port) as browser:
        assert (await browser.get("/sign-in")).json() == {"signed_in": True, "ways": [], "errors": []}
        assert code_of(await browser.sign_in(ADMIN)) == (409, "conflict")
        assert (await browser.send("POST", "/runs", {"workflow": "quick"})).status_code == 201
        assert (await browser.http.post("/api/v1/runs", json={"workflow": "quick"})).status_code == 201, "a program"
        for headers in ({"origin": "https://evil.example"}, {"sec_fetch_site": "cross-site"}):
            said = await browser.send("POST", "/runs", {"workflow": "quick"}, **headers)
            assert code_of(said) == (403, "wrong_origin"), "a page of another site may start nothing here"


async def test_behind_a_proxy_the_cookie_is_secure_and_https_is_our_origin(tmp_path: Path) -> None:
    host = {"host": "fleet.example", "x_forwarded_for": "192.0.2.1"}
    async with served(tmp_path, OF_ACME, address="0.0.0.0:0", proxies=1) as port:
        here = port.address.replace("0.0.0.0", "127.0.0.1")
        async with browsing(Port(here, port.engine)) as browser:
            plain = await browser.send("POST", "/session", {"token": ADMIN}, origin="http://fleet.example", **host)
            assert code_of(plain) == (403, "wrong_origin")
            made = await browser.send("POST", "/session", {"token": ADMIN}, origin="https://fleet.example", **host)
            name, _, rest = made.headers["set-cookie"].partition("=")
            assert (made.status_code, name) == (201, "__Host-holdfast-443")
            assert rest.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")


async def test_a_declared_address_is_our_origin_whatever_host_a_proxy_names(tmp_path: Path) -> None:
    public = "https://fleet.example:8443"
    async with served(tmp_path, OF_ACME, public_url=public) as port, browsing(port) as browser:
        made = await browser.send("POST", "/session", {"token": ADMIN}, origin=public)
        name, _, rest = made.headers["set-cookie"].partition("=")
        assert (made.status_code, name) == (201, "__Host-holdfast-8443")
        assert rest.endswith("; Secure")
        for other in ("https://fleet.example", "http://fleet.example:8443"):
            assert code_of(await browser.send("POST", "/session", {"token": ADMIN}, origin=other)) == (403, "wrong_origin")


@pytest.mark.parametrize(
    "url",
    ["http://fleet.example", "fleet.example", "https://fleet.example/x", "https://a@fleet.example", "https://", "https://x?y"],
)
def test_the_declared_address_is_an_origin(url: str) -> None:
    with pytest.raises(ValueError, match="without a path"):
        Settings(public_url=url)
    assert Settings(public_url="https://Fleet.example/").public_url == "https://fleet.example"
    assert not Place().is_secure
