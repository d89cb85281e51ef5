"""The console's files: what a browser gets for a page, a file, and a path that is neither; and where there is no build."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import Request

from holdfast.http.api import Api
from holdfast.http.console import MISSING, Console
from holdfast.service.access.identity import Identity

PAGE = {"accept": "text/html,*/*;q=0.8"}


@pytest.fixture
def build(tmp_path: Path) -> Path:
    assets = tmp_path / "dist" / "assets"
    assets.mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("not of the build")
    (assets.parent / "index.html").write_text("<!doctype html>")
    (assets / "index-1a2b.js").write_text("plain")
    (assets / "index-1a2b.js.gz").write_bytes(b"packed")
    return assets.parent


def asked(folder: Path | None) -> httpx2.AsyncClient:
    api = Api(Identity("a-token-of-some-length"), lambda: "0" * 32, hosts={"localhost"}, console=Console(folder))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(api.application()), base_url="http://localhost")


@pytest.fixture
async def browser(build: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with asked(build) as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/", "/runs", "/runs/01a2201e-096e", "/workflows/a%2Fb", "/inbox/01a2%3Aflow%231%3A0.approval"]
)
async def test_every_page_is_the_shell_which_is_not_kept(browser: httpx2.AsyncClient, path: str) -> None:
    shell = await browser.get(path, headers=PAGE)
    assert (shell.status_code, shell.text) == (200, "<!doctype html>")
    assert shell.headers["cache-control"] == "no-cache"


async def test_the_policy_permits_the_servers_own_files_only(browser: httpx2.AsyncClient) -> None:
    headers = (await browser.get("/runs", headers=PAGE)).headers
    policy = dict(each.strip().split(" ", 1) for each in headers["content-security-policy"].split(";"))
    assert policy == {
        "default-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "object-src": "'none'",
    }
    assert headers["referrer-policy"] == "no-referrer"


async def test_a_hashed_file_is_kept_for_ever_and_sent_packed(browser: httpx2.AsyncClient) -> None:
    plain = await browser.get("/assets/index-1a2b.js", headers={"accept-encoding": "identity"})
    assert (plain.status_code, plain.text) == (200, "plain")
    assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
    async with browser.stream("GET", "/assets/index-1a2b.js", headers={"accept-encoding": "gzip"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        assert b"".join([each async for each in packed.aiter_raw()]) == b"packed"


@pytest.mark.parametrize("path", ["/assets/gone.js", "/../secret.txt", "/assets/..%2f..%2fsecret.txt", "/%2e%2e/secret.txt"])
async def test_a_missing_file_is_not_found_and_nothing_beside_the_build_is_sent(browser: httpx2.AsyncClient, path: str) -> None:
    missing = await browser.get(path, headers=PAGE)
    assert missing.status_code == 404 or missing.text == "<!doctype html>"
    assert "not of the build" not in missing.text
    assert path != "/assets/gone.js" or missing.status_code == 404


@pytest.mark.parametrize("path", ["/assets/../../secret.txt", "/../secret.txt"])
def test_a_path_that_leads_out_of_the_build_is_none(build: Path, path: str) -> None:
    """Clients tidy such a path up before they send it; an attacker's does not."""
    scope = {"type": "http", "method": "GET", "path": path, "headers": []}
    assert (build / path.removeprefix("/")).is_file()
    answer = Console(build).answer(Request(scope))
    assert answer is None or answer.body == b"<!doctype html>", "the shell, as for any page"


async def test_a_program_at_a_wrong_address_gets_a_problem(browser: httpx2.AsyncClient) -> None:
    for path in ("/runs", "/api/v1/nothing"):
        problem = await browser.get(path)
        assert (problem.status_code, problem.json()["code"]) == (404, "no_route")
    assert (await browser.get("/api/v1/nothing", headers=PAGE)).json()["code"] == "no_route"
    assert (await browser.post("/runs", headers=PAGE)).status_code == 404


async def test_the_shell_is_for_the_hosts_of_the_port(browser: httpx2.AsyncClient) -> None:
    assert (await browser.get("/runs", headers={**PAGE, "host": "evil.example"})).status_code == 421


@pytest.mark.parametrize("folder", [None, Path("nowhere")])
async def test_without_a_build_one_sentence_says_how_to_get_it(folder: Path | None) -> None:
    async with asked(folder) as browser:
        missing = await browser.get("/runs", headers=PAGE)
        assert (missing.status_code, missing.text) == (404, MISSING)
