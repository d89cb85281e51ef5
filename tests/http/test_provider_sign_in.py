"""People who sign in at an identity provider: a real one judges the whole way, and one that lies is not trusted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urljoin, urlsplit

import jwt
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from holdfast.compose.from_settings import identity_of, provider_of
from holdfast.errors import UsageError
from holdfast.http.provider_sign_in import own_path
from holdfast.observe.listening import listening
from holdfast.service.access import provider, signed_token
from holdfast.service.access.provider import WORDS, Provider
from holdfast.settings import Settings, SignInRules
from holdfast.testing.server_process import free_port
from tests.http.kit import served
from tests.http.test_identity import OURS, THEIRS, jwk
from tests.http.test_sign_in import Browser, browsing, code_of

FOLDER = Path(__file__).with_name("provider")
SECRET = "a secret: of the client/"
GRANTS = {"support": ("operator",), "legal": ("reviewer", "viewer")}
PEOPLE = {
    "ann": {"tenant": "acme", "roles": ["support", "golf"], "teams": ["night"], "email": "ann@acme.example"},
    "bob": {"tenant": "globex", "roles": ["support"]},
    "eve": {"tenant": "acme", "roles": ["golf"]},
    "tom": {"roles": ["support"]},
    "keys.tom": {"tenant": "acme", "roles": ["support"]},
    "hook:slack": {"tenant": "acme", "roles": ["support"]},
}
needs_node = [
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(not (FOLDER / "node_modules").exists(), reason="the identity provider is not installed: make setup"),
]


def settings(issuer: str, port: int, **more: Any) -> Settings:
    rules = {"issuer": issuer, "client_id": "holdfast", "title": "Acme", "grants": GRANTS, **more}
    return Settings(public_url=f"http://127.0.0.1:{port}", sign_in=SignInRules(**rules))


@asynccontextmanager
async def signing_in(folder: Path, of: Settings) -> AsyncIterator[Browser]:
    """A browser at a server with these settings."""
    async with at(folder, of) as open_, open_() as browser:
        yield browser


@asynccontextmanager
async def at(folder: Path, of: Settings) -> AsyncIterator[Callable[[], AbstractAsyncContextManager[Browser]]]:
    os.environ["HOLDFAST_SIGN_IN_SECRET"] = SECRET
    address = urlsplit(of.public_url or "").netloc
    identity = identity_of(of, None, None)
    async with served(folder, identity, address=address, public_url=of.public_url, provider=provider_of(of)) as port:
        yield lambda: browsing(port)


# --- A real provider ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def port() -> int:
    """The port of the server that the provider knows, which each test starts there."""
    return free_port()


@pytest.fixture(scope="module")
def issuer(port: int) -> Iterator[str]:
    """The certified oidc-provider, which knows the PEOPLE and this server."""
    public = f"http://127.0.0.1:{port}"
    client = {
        "client_id": "holdfast",
        "client_secret": SECRET,
        "redirect_uris": [f"{public}/api/v1/sign-in/oidc/callback"],
        "post_logout_redirect_uris": [f"{public}/sign-in"],
    }
    named = os.environ | {"PEOPLE": json.dumps(PEOPLE), "CLIENT": json.dumps(client)}
    with subprocess.Popen(
        ["node", str(FOLDER / "provider.mjs")],
        env=named,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[1]
        process.kill()


async def come_back(browser: Browser, login: str, page: str = "/runs") -> str:
    """Sign in at the provider as a person does; the address to which it sends the browser back."""
    here = await browser.get(f"/sign-in/oidc?next={page}")
    for _ in range(12):
        if here.status_code == 303:
            there = urljoin(str(here.url), here.headers["location"])
            if there.startswith(f"{browser.address}/api/v1/sign-in/oidc/callback"):
                return there
            here = await browser.http.get(there)
            continue
        assert here.status_code == 200, here.text
        action, prompt = re.search(r'action="([^"]+)"', here.text), re.search(r'name="prompt" value="(\w+)"', here.text)
        assert action is not None
        assert prompt is not None
        form = {"prompt": prompt[1], "login": login, "password": "any"}
        here = await browser.http.post(urljoin(str(here.url), action[1]), data=form)
    raise AssertionError("the provider does not send the browser back")


class TestARealProvider:
    pytestmark = needs_node

    async def test_a_person_signs_in_at_the_provider_and_out(self, tmp_path: Path, issuer: str, port: int) -> None:
        async with signing_in(tmp_path, settings(issuer, port)) as browser:
            ways = (await browser.get("/sign-in")).json()
            assert (ways["signed_in"], ways["ways"]) == (
                False,
                [
                    {"way": "oidc", "title": "Acme", "address": "/api/v1/sign-in/oidc"},
                    {"way": "token", "title": "API token", "address": "/api/v1/session"},
                ],
            )
            began = await browser.get("/sign-in/oidc")
            assert re.search(r"; Max-Age=600; Path=/; HttpOnly; SameSite=Lax$", began.headers["set-cookie"])
            back = await come_back(browser, "ann", "/runs%3Fstatus=waiting")
            landed = await browser.http.get(back, headers={"sec-fetch-site": "cross-site"})
            assert (landed.status_code, landed.headers["location"]) == (303, "/runs?status=waiting")
            session, attempt = landed.headers.get_list("set-cookie")
            assert re.fullmatch(rf"{browser.cookie}=[\w-]{{43}}; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict", session)
            assert attempt.startswith(f"{browser.cookie}-sign-in=; Max-Age=0;")
            me = (await browser.get("/me")).json()
            expected = {"name": "ann", "verified": True, "tenant": "acme", "roles": ["support", "golf"], "teams": ["night"]}
            expected |= {"may": ["operator"], "signed_in_with": "oidc"}
            assert {name: me[name] for name in expected} == expected
            assert (await browser.send("POST", "/runs", {"workflow": "quick", "input": 1})).status_code == 201
            again = await browser.http.get(back)
            assert again.headers["location"] == "/sign-in?error=expired", "a code is for one sign-in"
            out = await browser.send("DELETE", "/session")
            assert (await browser.get("/me")).status_code == 401
            there = await browser.http.get(out.json()["continue_at"])
            assert (there.status_code, "sign-out" in there.text.lower()) == (200, True), there.text

    async def test_a_person_of_another_tenant_sees_nothing(self, tmp_path: Path, issuer: str, port: int) -> None:
        async with at(tmp_path, settings(issuer, port)) as open_, open_() as ann, open_() as bob:
            for browser, name in ((ann, "ann"), (bob, "bob")):
                assert (await browser.http.get(await come_back(browser, name))).headers["location"] == "/runs"
            run = (await ann.send("POST", "/runs", {"workflow": "quick", "input": 1})).json()["run_id"]
            assert (await bob.get("/runs")).json()["rows"] == []
            assert (await bob.get(f"/runs/{run}")).status_code == 404

    @pytest.mark.parametrize("login", ["eve", "tom", "keys.tom", "hook:slack", "stranger"])
    async def test_a_person_whom_no_rule_names_has_no_access(self, tmp_path: Path, issuer: str, port: int, login: str) -> None:
        """No role that is given something, no tenant, or the name of a key or hook."""
        async with signing_in(tmp_path, settings(issuer, port)) as browser:
            landed = await browser.http.get(await come_back(browser, login))
            assert landed.headers["location"] == "/sign-in?error=not_permitted"
            assert browser.cookie not in browser.http.cookies
            assert (await browser.get("/me")).status_code == 401

    async def test_a_wrong_secret_of_the_client_signs_nobody_in(self, tmp_path: Path, issuer: str, port: int) -> None:
        async with signing_in(tmp_path, settings(issuer, port, secret="ANOTHER_SECRET")) as browser:
            landed = await browser.http.get(await come_back(browser, "ann"))
            assert landed.headers["location"] == "/sign-in?error=not_trusted"


# --- A provider that lies -------------------------------------------------------------------------------------------------


class Liar:
    """A provider that signs whatever a test wants."""

    def __init__(self) -> None:
        self.address = ""
        self.keys = {"k1": OURS}
        self.description: dict[str, Any] = {}
        self.forms: list[Mapping[str, Any]] = []
        self.answer: Callable[[], Any] = dict

    async def describe(self, request: Request) -> JSONResponse:
        ends = {"authorization_endpoint": "auth", "token_endpoint": "token", "jwks_uri": "jwks"}
        usual = {"issuer": self.address, **{name: f"{self.address}/{path}" for name, path in ends.items()}}
        return JSONResponse(usual | self.description)

    async def show_keys(self, request: Request) -> JSONResponse:
        return JSONResponse({"keys": [jwk(key, kid) for kid, key in self.keys.items()]})

    async def redeem(self, request: Request) -> JSONResponse:
        self.forms.append(dict(parse_qsl((await request.body()).decode())))
        said = self.answer()
        return said if isinstance(said, JSONResponse) else JSONResponse({"id_token": said, "access_token": "x"})

    def token(self, of: str, key: Any = OURS, algorithm: str = "RS256", kid: str = "k1", **changes: Any) -> str:
        now_s = int(time.time())
        usual = {"iss": self.address, "aud": "holdfast", "sub": "ann", "iat": now_s, "exp": now_s + 60, "nonce": of}
        claims = {**usual, "tenant": "acme", "roles": ["support"], **changes}
        return jwt.encode({k: v for k, v in claims.items() if v is not None}, key, algorithm, {"kid": kid})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Liar]:
        routes = [
            Route("/.well-known/openid-configuration", self.describe),
            Route("/jwks", self.show_keys),
            Route("/token", self.redeem, methods=["POST"]),
        ]
        async with listening(Starlette(routes=routes), "127.0.0.1", 0, name="") as port:
            self.address = f"http://127.0.0.1:{port}"
            yield self


@pytest.fixture
async def liar() -> AsyncIterator[Liar]:
    async with Liar().running() as running:
        yield running


async def begun(browser: Browser, page: str = "/runs") -> dict[str, str]:
    """What a browser is sent to the provider with."""
    there = await browser.http.get("/api/v1/sign-in/oidc", params={"next": page})
    assert there.status_code == 303
    return {name: values[0] for name, values in parse_qs(urlsplit(there.headers["location"]).query).items()}


async def ended(browser: Browser, **query: str) -> str:
    """The address to which a browser is led that comes back with this."""
    landed = await browser.http.get("/api/v1/sign-in/oidc/callback", params=query)
    assert landed.status_code == 303, landed.text
    return str(landed.headers["location"])


async def test_a_browser_brings_a_challenge_and_the_server_its_answer(tmp_path: Path, liar: Liar, port: int) -> None:
    async with signing_in(tmp_path, settings(liar.address, port, secret="NO_SECRET")) as browser:
        sent = await begun(browser)
        assert (sent["response_type"], sent["code_challenge_method"], sent["scope"]) == ("code", "S256", "openid profile")
        liar.answer = lambda: liar.token(sent["nonce"])
        assert await ended(browser, code="abc", state=sent["state"], iss=liar.address) == "/runs"
        (form,) = liar.forms
        digest = jwt.utils.base64url_encode(provider.hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
        assert digest == sent["code_challenge"]
        assert (form["code"], form["client_id"], form["redirect_uri"]) == ("abc", "holdfast", sent["redirect_uri"])
        assert len({sent["state"], sent["nonce"], form["code_verifier"]}) == 3
        assert (await begun(browser))["state"] != sent["state"]


FORGED: dict[str, Callable[[Liar, str], Any]] = {
    "another sign-in's nonce": lambda liar, nonce: liar.token(nonce[::-1]),
    "no nonce": lambda liar, nonce: liar.token(nonce, nonce=None),
    "another client": lambda liar, nonce: liar.token(nonce, aud="shop"),
    "several clients": lambda liar, nonce: liar.token(nonce, aud=["holdfast", "shop"]),
    "issued to another client": lambda liar, nonce: liar.token(nonce, azp="shop"),
    "another issuer": lambda liar, nonce: liar.token(nonce, iss="https://id.example"),
    "expired": lambda liar, nonce: liar.token(nonce, exp=int(time.time()) - 60),
    "no expiry": lambda liar, nonce: liar.token(nonce, exp=None),
    "not valid yet": lambda liar, nonce: liar.token(nonce, nbf=int(time.time()) + 600),
    "another key": lambda liar, nonce: liar.token(nonce, THEIRS),
    "an unknown key": lambda liar, nonce: liar.token(nonce, THEIRS, kid="k2"),
    "the client's secret as key": lambda liar, nonce: liar.token(nonce, SECRET * 2, "HS256"),
    "no signature": lambda liar, nonce: jwt.encode({"nonce": nonce, "sub": "ann"}, "", "none"),
    "no token": lambda liar, nonce: "x",
    "a number": lambda liar, nonce: 7,
    "a list": lambda liar, nonce: JSONResponse([]),
    "an error": lambda liar, nonce: JSONResponse({"error": "<b>x</b>"}, 400),
}


@pytest.mark.parametrize("forged", FORGED)
async def test_a_token_that_is_forged_or_for_another_signs_nobody_in(
    tmp_path: Path, liar: Liar, port: int, forged: str
) -> None:
    async with signing_in(tmp_path, settings(liar.address, port)) as browser:
        sent = await begun(browser)
        liar.answer = lambda: FORGED[forged](liar, sent["nonce"])
        assert await ended(browser, code="abc", state=sent["state"]) == "/sign-in?error=not_trusted"
        assert browser.cookie not in browser.http.cookies


async def test_only_the_browser_that_began_a_sign_in_ends_it(tmp_path: Path, liar: Liar, port: int) -> None:
    """Somebody could have another person's browser end a sign-in of their own."""
    async with at(tmp_path, settings(liar.address, port)) as open_, open_() as ann, open_() as eve:
        of_eve = await begun(eve)
        liar.answer = lambda: liar.token(of_eve["nonce"])
        stolen = {"code": "abc", "state": of_eve["state"]}
        assert await ended(ann, **stolen) == "/sign-in?error=expired", "it has begun none"
        await begun(ann)
        assert await ended(ann, **stolen) == "/sign-in?error=expired", "it has begun another"
        assert await ended(ann, code="abc") == "/sign-in?error=expired"
        ann.http.cookies.set(f"{ann.cookie}-sign-in", "made-up")
        assert await ended(ann, **stolen) == "/sign-in?error=expired"
        assert not liar.forms, "its code was not even sent"
        assert await ended(eve, **stolen, iss="https://id.example") == "/sign-in?error=not_trusted", "of another issuer"


async def test_an_error_is_a_code_and_repeats_nothing(tmp_path: Path, liar: Liar, port: int) -> None:
    script = "<script>alert(1)</script>"
    async with signing_in(tmp_path, settings(liar.address, port)) as browser:
        sent = await begun(browser)
        refused = {"error": "access_denied", "error_description": script, "state": sent["state"]}
        assert await ended(browser, **refused) == "/sign-in?error=refused"
        known = (await browser.get("/sign-in")).json()["errors"]
        assert {each["code"]: each["words"] for each in known} == WORDS
        sent = await begun(browser)
        liar.answer = lambda: JSONResponse({"error": "invalid_grant"}, 400)
        assert await ended(browser, code=script, state=sent["state"]) == "/sign-in?error=expired"
        sent = await begun(browser)
        liar.answer = lambda: JSONResponse({}, 502)
        assert await ended(browser, code="abc", state=sent["state"]) == "/sign-in?error=unreachable"


@pytest.mark.parametrize(
    "page",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "javascript:alert(1)",
        "runs",
        "",
        "/a\\b",
        "/runs\r\nSet-Cookie: x=y",
        "/api/v1/runs",
        "/" + "x" * 2_000,
    ],
)
async def test_a_sign_in_leads_to_no_other_site(tmp_path: Path, liar: Liar, port: int, page: str) -> None:
    assert own_path(page) == "/"
    async with signing_in(tmp_path, settings(liar.address, port)) as browser:
        sent = await begun(browser, page)
        liar.answer = lambda: liar.token(sent["nonce"])
        assert await ended(browser, code="abc", state=sent["state"]) == "/"


def test_a_sign_in_leads_to_any_page_of_ours() -> None:
    for page in ("/", "/runs", "/runs/01a2-b?tab=events#e7", "/workflows/a%2Fb"):
        assert own_path(page) == page


async def test_a_provider_that_is_away_or_describes_another_is_said_to_be(tmp_path: Path, liar: Liar, port: int) -> None:
    for description in ({"issuer": "https://id.example"}, {"token_endpoint": "http://id.example/token"}, {"jwks_uri": 7}):
        liar.description = description
        async with signing_in(tmp_path, settings(liar.address, port)) as browser:
            assert (await browser.get("/sign-in/oidc")).headers["location"] == "/sign-in?error=unreachable"
    async with signing_in(tmp_path, settings(f"http://127.0.0.1:{free_port()}", port)) as browser:
        assert (await browser.get("/sign-in/oidc")).headers["location"] == "/sign-in?error=unreachable"


async def test_keys_of_a_provider_may_change(tmp_path: Path, liar: Liar, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_token, "_AGAIN_S", 0)
    async with signing_in(tmp_path, settings(liar.address, port)) as browser:
        for kid, key in (("k1", OURS), ("k2", THEIRS)):
            liar.keys = {kid: key}
            sent = await begun(browser)
            liar.answer = lambda sent=sent, kid=kid, key=key: liar.token(sent["nonce"], key, kid=kid)
            assert await ended(browser, code="abc", state=sent["state"]) == "/runs"


async def test_a_rule_that_is_changed_counts_for_sessions_at_once(tmp_path: Path, liar: Liar, port: int) -> None:
    async with signing_in(tmp_path, settings(liar.address, port)) as browser:
        sent = await begun(browser)
        liar.answer = lambda: liar.token(sent["nonce"])
        await ended(browser, code="abc", state=sent["state"])
        cookie = f"{browser.cookie}={browser.http.cookies[browser.cookie]}"
        assert (await browser.get("/me", cookie=cookie)).json()["may"] == ["operator"]
    for changed, may in (
        ({"grants": {"*": ("viewer",)}}, ["viewer"]),
        ({"grants": {}}, None),
        ({"issuer": "https://x.example"}, None),
    ):
        async with signing_in(tmp_path, settings(**{"issuer": liar.address, "port": port, **changed})) as browser:
            me = await browser.get("/me", cookie=cookie)
            assert me.json().get("may") == may
            assert me.status_code == (401 if may is None else 200)


async def test_a_port_with_a_provider_is_not_open(tmp_path: Path, liar: Liar, port: int) -> None:
    async with signing_in(tmp_path, settings(liar.address, port)) as browser:
        assert code_of(await browser.get("/runs")) == (401, "unauthorized")
        assert code_of(await browser.sign_in("guess" * 4)) == (401, "unauthorized")


def test_a_person_is_named_by_the_claims_that_the_rules_name() -> None:
    def of(claims: dict[str, Any], **rules: Any) -> Any:
        named = SignInRules(issuer="https://id.example", client_id="x", grants={"*": ("viewer",)}, **rules)
        return Provider(named, "https://fleet.example", None).holder_of({"sub": "7f3", **claims})

    email = {"email": "ann@acme.example", "email_verified": True}
    assert of({"tenant": "acme"}).name == "7f3"
    assert of({**email}, name_claim="email", tenant="acme").name == "ann@acme.example"
    assert of({"org": "acme", "groups": "support"}, tenant_claim="org", roles_claim="groups").roles == ("support",)
    assert of({}, tenantless=True).tenant is None
    for claims, rules in (
        ({**email, "email_verified": False}, {"name_claim": "email", "tenant": "acme"}),
        ({"email": "ann@acme.example"}, {"name_claim": "email", "tenant": "acme"}),
        ({}, {}),
        ({"tenant": ""}, {}),
        ({"tenant": 7}, {}),
        ({"tenant": "acme", "roles": [7]}, {}),
        ({"tenant": "acme", "sub": "Keys.ann"}, {}),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            of(claims, **rules)


def test_rules_of_a_sign_in_that_cannot_be_are_refused() -> None:
    usual = {"issuer": "https://id.example", "client_id": "x"}
    for wrong in (
        {"issuer": "http://id.example"},
        {"algorithms": ["HS256"]},
        {"algorithms": []},
        {"scopes": ["profile"]},
        {"client_id": ""},
    ):
        with pytest.raises(ValueError, match=r"\w"):
            SignInRules(**{**usual, **wrong})
    with pytest.raises(ValueError, match="public_url"):
        Settings(sign_in=SignInRules(**usual))
    with pytest.raises(UsageError, match="grants of 'support'"):
        provider_of(Settings(public_url="https://fleet.example", sign_in=SignInRules(**usual, grants={"support": ("boss",)})))
    assert provider_of(Settings()) is None
