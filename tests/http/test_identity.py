"""Who somebody is and what they may do: signed tokens and their attacks, keys, grants, and what the audit log says of it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from holdfast import flow
from holdfast.core.values.access import Access
from holdfast.core.values.audit import Verification
from holdfast.errors import UsageError
from holdfast.http import api
from holdfast.observe.listening import listening
from holdfast.service import subscription
from holdfast.service.access import signed_token
from holdfast.service.access.identity import Holder, Identity, hashed, read_tokens
from holdfast.service.access.signed_token import SignedTokens
from holdfast.service.handlers import runs
from holdfast.service.view import link_of
from holdfast.settings import SignedTokenRules
from tests.http.kit import Asked, known, served
from tests.wire.test_refusals import private

ISSUER, AUDIENCE = "https://id.example", "holdfast"
OURS = rsa.generate_private_key(public_exponent=65537, key_size=2048)
THEIRS = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def jwk(key: rsa.RSAPrivateKey, kid: str) -> dict[str, Any]:
    return {**json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig", "alg": "RS256"}


def claims(**changes: Any) -> dict[str, Any]:
    now_s = int(time.time())
    usual = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "ida",
        "exp": now_s + 600,
        "tenant": "acme",
        "roles": ["legal"],
        "teams": ["ops"],
        "holdfast": ["reviewer"],
    }
    return {name: value for name, value in (usual | changes).items() if value is not None}


def signed(key: Any = OURS, algorithm: str = "RS256", kid: str | None = "k1", header: Any = None, **changes: Any) -> str:
    headers = {**({} if kid is None else {"kid": kid}), **(header or {})}
    return jwt.encode(claims(**changes), key, algorithm, headers)


def unsigned(header: dict[str, Any], **changes: Any) -> str:
    parts = (base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in (header, claims(**changes)))
    return ".".join((*parts, ""))


class KeyServer:
    """The issuer's address. Counts how often it is asked."""

    def __init__(self) -> None:
        self.keys = [jwk(OURS, "k1")]
        self.asked: list[str] = []
        self.address = ""

    async def answer(self, request: Request) -> JSONResponse:
        self.asked.append(request.url.path)
        return JSONResponse({"keys": self.keys})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[KeyServer]:
        app = Starlette(routes=[Route("/{path:path}", self.answer)])
        async with listening(app, "127.0.0.1", 0, name="") as port:
            self.address = f"http://127.0.0.1:{port}"
            yield self


@pytest.fixture
async def issuer() -> AsyncIterator[KeyServer]:
    async with KeyServer().running() as running:
        yield running


def rules(issuer: KeyServer, **more: Any) -> SignedTokenRules:
    return SignedTokenRules(issuer=ISSUER, audience=AUDIENCE, jwks_url=f"{issuer.address}/jwks", **more)


# --- Signed tokens ----------------------------------------------------------------------------------------------------


async def test_a_reviewer_comes_with_a_signed_token_and_decides(tmp_path: Path, issuer: KeyServer) -> None:
    """It says who they are: the record has that name as verified, and a claim of another is refused."""
    identity = Identity(issuer=SignedTokens(rules(issuer)))
    async with (
        served(tmp_path, identity) as port,
        port.asked(signed(holdfast=["operator"], sub="shop")) as shop,
        port.asked(signed()) as ida,
        port.asked(signed(sub="eve", roles=["sales"])) as eve,
        port.asked(signed(tenant="globex")) as stranger,
    ):
        run = (await shop.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10))["run_id"]
        gate = await ida.gate(run)
        asked = [len(await each.rows("/gates", asks=["me", "team"])) for each in (ida, eve, shop, stranger)]
        assert asked == [1, 0, 1, 0], "the shop's token has the role, though not the grant"
        assert [len(await ida.rows("/gates", asks=whom)) for whom in ("me", "team", "anyone")] == [1, 0, 0]
        seen = await ida.seen(gate)
        assert await shop.refused("POST", f"/gates/{gate}/decision", {}) == (403, "not_permitted")
        assert await eve.refused("POST", f"/gates/{gate}/decision", seen) == (409, "decision_refused")
        assert await stranger.refused("POST", f"/gates/{gate}/decision", {}) == (404, "not_found")
        for claimed in ({"holdfast_as": "ida"}, {"holdfast_roles": "legal"}):
            assert await eve.refused("POST", f"/gates/{gate}/decision", {}, **claimed) == (403, "not_permitted")
        done = await ida.post(f"/gates/{gate}/decision", seen, wait_s=10)
        assert done["status"] == "completed"
        record = await ida.get(f"/gates/{gate}")
        assert (record["by"], record["verified"], record["roles"]) == ("ida", True, ["legal", "ops"])
        assert (await ida.get("/me"))["teams"] == ["ops"]


async def test_who_is_asked_hands_a_question_on_and_a_reviewer_gives_it_to_others(tmp_path: Path, issuer: KeyServer) -> None:
    """The first is for one who is asked, neither for an operator, and nobody gives it to who asked for the run; `asks` goes with
    it."""
    identity = Identity(issuer=SignedTokens(rules(issuer)))
    async with (
        served(tmp_path, identity) as port,
        port.asked(signed(holdfast=["operator"], sub="shop", roles=[])) as shop,
        port.asked(signed(roles=[], teams=[])) as ida,
        port.asked(signed(sub="eve", roles=[], teams=[])) as eve,
        port.asked(signed(tenant="globex", holdfast=["reviewer", "operator"])) as stranger,
        port.asked(signed(sub="boss", roles=[], teams=[])) as boss,
    ):
        run = (await shop.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10))["run_id"]
        gate = f"/gates/{await ida.gate(run)}"
        assert await eve.refused("POST", f"{gate}/delegate", {"to": ["eve"]}) == (409, "decision_refused")
        for way in ("delegate", "reassign"):
            assert await shop.refused("POST", f"{gate}/{way}", {"to": ["shop"]}) == (403, "not_permitted")
        assert await boss.refused("POST", f"{gate}/reassign", {"to": ["SHOP"]}) == (409, "decision_refused")
        for way in ("delegate", "reassign"):
            assert await stranger.refused("POST", f"{gate}/{way}", {"to": ["eve"]}) == (404, "not_found")
            assert await shop.refused("POST", f"{gate}/{way}", {"to": "eve"}) in [(422, "invalid_input"), (400, "usage_error")]
        await ida.post(f"{gate}/delegate", {"to": ["eve"], "reason": "on holiday"})
        assert [len(await each.rows("/gates", asks="me")) for each in (ida, eve)] == [1, 1]
        await boss.post(f"{gate}/reassign", {"to": ["eve"]})
        assert [len(await each.rows("/gates", asks="me")) for each in (ida, eve)] == [0, 1]
        seen = await ida.seen(gate)
        assert await ida.refused("POST", f"{gate}/decision", seen) == (409, "decision_refused")
        assert (await eve.post(f"{gate}/decision", seen, wait_s=10))["status"] == "completed"
        record = await ida.get(gate)
        assert [
            (each["by"], each["verified"], each["delegated"], each["reviewers"], each["reason"]) for each in record["assigned"]
        ] == [("ida", True, True, ["ida", "legal", "eve"], "on holiday"), ("boss", True, False, ["eve"], None)]


@pytest.mark.parametrize(
    ("workflows", "named"), [(None, False), (["*"], False), (["order*", "*"], False), (["order*"], True), ([], True)]
)
async def test_all_workflows_are_no_names_of_any(tmp_path: Path, issuer: KeyServer, workflows: Any, named: bool) -> None:
    """Code that no server offers is there for whom it was named."""
    said: dict[str, Any] = {} if workflows is None else {"workflows": workflows}
    holder = await SignedTokens(rules(issuer)).holder(signed(**said))
    assert holder is not None
    assert holder.access.unoffered == named
    file = tmp_path / "tokens.toml"
    line = "" if workflows is None else f"workflows = {workflows}"
    known_ = read_tokens(private(file, f'[clients.shop]\ntoken = "{"t" * 32}"\n{line}'))
    assert known_ is not None
    assert next(iter(known_.values())).access.unoffered == named


ATTACKS = {
    "no algorithm": lambda: unsigned({"alg": "none", "typ": "JWT"}),
    "no algorithm, in capitals": lambda: unsigned({"alg": "NONE", "kid": "k1"}),
    "the public key as a secret": lambda: _confused(),
    "another's key": lambda: signed(THEIRS),
    "another's key, shown in the header": lambda: signed(THEIRS, header={"jwk": jwk(THEIRS, "k1")}),
    "another's address": lambda: signed(THEIRS, header={"jku": "http://127.0.0.1:1/evil"}),
    "another's certificate": lambda: signed(THEIRS, header={"x5u": "http://127.0.0.1:1/evil"}),
    "a path as kid": lambda: signed(THEIRS, kid="../../../../dev/null"),
    "a statement as kid": lambda: signed(THEIRS, kid="' or 1=1 --"),
    "a list as kid": lambda: unsigned({"alg": "RS256", "kid": ["k1"]}),
    "another algorithm": lambda: signed(algorithm="RS512"),
    "a header that is critical": lambda: signed(header={"crit": ["exp"]}),
    "over": lambda: signed(exp=int(time.time()) - 3600),
    "never over": lambda: signed(exp=None),
    "not yet": lambda: signed(nbf=int(time.time()) + 3600),
    "issued in the future": lambda: signed(iat=int(time.time()) + 3600),
    "for another audience": lambda: signed(aud="somebody-else"),
    "for nobody": lambda: signed(aud=None),
    "of another issuer": lambda: signed(iss="https://evil.example"),
    "of nobody": lambda: signed(iss=None),
    "about nobody": lambda: signed(sub=None),
    "about blanks": lambda: signed(sub="  "),
    "about a client of ours": lambda: signed(sub="clients.ops"),
    "about a key of ours": lambda: signed(sub="keys.shop"),
    "about a client of ours in capitals": lambda: signed(sub="CLIENTS.ops"),
    "about a client of ours with a sign that nobody sees": lambda: signed(sub="cl\u200bients.ops"),
    "about a key of ours in wide letters": lambda: signed(sub="\uff4beys.shop"),
    "of no tenant": lambda: signed(tenant=None),
    "of a strange tenant": lambda: signed(tenant=["acme"]),
    "with a grant that there is not": lambda: signed(holdfast=["root"]),
    "with strange roles": lambda: signed(roles={"legal": True}),
    "cut off": lambda: signed()[:-6],
    "changed": lambda: ".".join((signed().split(".")[0], unsigned({}, sub="eve").split(".")[1], signed().split(".")[2])),
    "no token at all": lambda: "a.b.c",
    "too long": lambda: signed(more="x" * 20_000),
}


def _confused() -> str:
    """HS256 with the bytes of the public key, which everybody knows, as the secret."""
    pem = OURS.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    head, body, _ = unsigned({"alg": "HS256", "kid": "k1"}).split(".")
    algorithm = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    mark = algorithm.sign(f"{head}.{body}".encode(), pem)
    return f"{head}.{body}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}"


async def test_no_forged_or_foreign_token_is_taken(tmp_path: Path, issuer: KeyServer) -> None:
    async with served(tmp_path, Identity(issuer=SignedTokens(rules(issuer)))) as port:
        async with port.asked(signed()) as good:
            assert (await good.get("/me"))["name"] == "ida"
        for name, attack in ATTACKS.items():
            async with port.asked(attack()) as bad:
                assert await bad.refused("GET", "/me") == (401, "unauthorized"), name
    assert issuer.asked == ["/jwks"], "no address but the issuer's is asked, and not once for each forged token"


async def test_the_issuer_s_clock_may_be_a_little_off(issuer: KeyServer) -> None:
    tokens = SignedTokens(rules(issuer, leeway_s=30))
    now_s = int(time.time())
    for good in (signed(exp=now_s - 10), signed(nbf=now_s + 10), signed(aud=["other", AUDIENCE])):
        assert await tokens.holder(good) is not None


async def test_keys_that_the_issuer_changes_are_known_soon(issuer: KeyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = SignedTokens(rules(issuer))
    assert await tokens.holder(signed()) is not None
    issuer.keys = [jwk(THEIRS, "k2")]
    assert await tokens.holder(signed(THEIRS, kid="k2")) is None, "it was looked at just now"
    monkeypatch.setattr(signed_token, "_AGAIN_S", 0)
    assert await tokens.holder(signed(THEIRS, kid="k2")) is not None
    assert await tokens.holder(signed()) is None, "the issuer has taken it back"
    many = await asyncio.gather(*(tokens.holder(signed(kid=f"x{number}")) for number in range(20)))
    assert many == [None] * 20


async def test_an_issuer_that_answers_no_keys_admits_no_token(issuer: KeyServer) -> None:
    secret = base64.urlsafe_b64encode(b"s" * 32).rstrip(b"=").decode()
    issuer.keys = [{"kty": "oct", "k": secret, "kid": "k1"}, {"kty": "RSA", "kid": "k1"}, {"use": "enc", "kid": "k1"}]
    tokens = SignedTokens(rules(issuer))
    assert await tokens.holder(signed()) is None
    assert await tokens.holder(jwt.encode(claims(), b"s" * 32, "HS256", {"kid": "k1"})) is None
    nowhere = SignedTokens(SignedTokenRules(issuer=ISSUER, audience=AUDIENCE, jwks_url="http://127.0.0.1:1/jwks"))
    assert await nowhere.holder(signed()) is None


async def test_a_key_may_stand_in_a_file(tmp_path: Path) -> None:
    public = OURS.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "id.pem").write_bytes(public)
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("s" * 40)
    by_file = SignedTokenRules(issuer=ISSUER, audience=AUDIENCE, key_file=tmp_path / "id.pem")
    by_secret = SignedTokenRules(issuer=ISSUER, audience=AUDIENCE, key_file=secret, algorithms=("HS256",))
    assert await SignedTokens(by_file).holder(signed(kid=None)) is not None
    assert await SignedTokens(by_file).holder(_confused()) is None
    assert await SignedTokens(by_secret).holder(jwt.encode(claims(), b"s" * 40, "HS256")) is not None
    assert await SignedTokens(by_secret).holder(signed(kid=None)) is None


SHORT_RSA = rsa.generate_private_key(65537, 1024)
OPEN_TO_CHANGE = (
    "http://id.example/jwks",
    "http://127.0.0.1.evil.com/jwks",
    "http://localhost.evil.com/jwks",
    "http://127.0.0.1@evil.com/jwks",
    "http://localhost:x@evil.com/jwks",
    "https:///jwks",
    "ftp://127.0.0.1/jwks",
    "http://[::1/jwks",
)
"""Addresses whose answers another can change on their way, or that are none."""


@pytest.mark.parametrize(
    ("secret", "algorithm"), [(b"s", "HS256"), (b"s" * 31, "HS256"), (b"s" * 47, "HS384"), (b"s" * 63, "HS512")]
)
def test_a_secret_that_can_be_guessed_is_refused_at_the_start(tmp_path: Path, secret: bytes, algorithm: str) -> None:
    file = tmp_path / "secret"
    file.touch(0o600)
    file.write_bytes(secret)
    rules_ = SignedTokenRules(issuer=ISSUER, audience=AUDIENCE, key_file=file, algorithms=(algorithm,))
    with pytest.raises(UsageError, match=r"below the minimum.*Nothing was started"):
        SignedTokens(rules_)


async def test_a_short_key_of_rsa_is_none(tmp_path: Path, issuer: KeyServer) -> None:
    file = tmp_path / "id.pem"
    file.write_bytes(
        SHORT_RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(UsageError, match="below the minimum"):
        SignedTokens(SignedTokenRules(issuer=ISSUER, audience=AUDIENCE, key_file=file))
    issuer.keys = [jwk(SHORT_RSA, "k1")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyJWT warns who signs with it
        token = signed(SHORT_RSA)
    assert await SignedTokens(rules(issuer)).holder(token) is None


@pytest.mark.parametrize(
    "url", ["https://id.example/jwks", "http://127.0.0.1:8/jwks", "http://localhost/jwks", "http://[::1]:8/j"]
)
def test_keys_of_this_machine_may_come_in_clear_text(url: str) -> None:
    assert SignedTokenRules(issuer=ISSUER, audience=AUDIENCE, jwks_url=url).jwks_url == url


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "either jwks_url or key_file"),
        ({"jwks_url": "https://x", "key_file": "x"}, "either jwks_url or key_file"),
        *(({"jwks_url": each}, "jwks_url must be https") for each in OPEN_TO_CHANGE),
        ({"jwks_url": "https://x", "algorithms": ["HS256"]}, "'HS256' is none here"),
        ({"key_file": "x", "algorithms": ["none"]}, "'none' is none here"),
        ({"key_file": "x", "algorithms": ["RS256", "HS256"]}, "of one kind"),
        ({"key_file": "x", "algorithms": []}, "say"),
    ],
)
def test_rules_that_would_let_any_key_sign_are_refused(said: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        SignedTokenRules(issuer=ISSUER, audience=AUDIENCE, **said)


# --- Grants -----------------------------------------------------------------------------------------------------------


async def test_a_grant_is_for_some_commands_workflows_and_no_others(tmp_path: Path) -> None:
    identity = known(
        looks=Holder("clients.looks", access=Access(("viewer",))),
        works=Holder("clients.works", access=Access(("operator",), ("order*",))),
        decid=Holder("clients.decid", access=Access(("reviewer",), tools=())),
        admin=Holder("clients.admin"),
    )
    async with (
        served(tmp_path, identity) as port,
        port.asked("looks" * 4) as looks,
        port.asked("works" * 4) as works,
        port.asked("decid" * 4) as decides,
        port.asked("admin" * 4) as admin,
    ):
        order, quick = {"workflow": "order", "input": {"item": "tea"}}, {"workflow": "quick"}
        assert await looks.refused("POST", "/runs", order) == (403, "not_permitted")
        assert await decides.refused("POST", "/runs", order) == (403, "not_permitted")
        assert await works.refused("POST", "/runs", quick) == (404, "not_found")
        run = (await works.post("/runs", order, wait_s=10))["run_id"]
        hidden = (await admin.post("/runs", quick, wait_s=10))["run_id"]
        assert [row["run_id"] for row in await works.rows("/runs")] == [run]
        assert len(await looks.rows("/runs")) == 2
        assert [row["workflow"] for row in await works.rows("/workflows")] == ["order"]
        for path in (f"/runs/{hidden}", f"/runs/{hidden}/events"):
            assert await works.refused("GET", path) == (404, "not_found")
        assert await works.refused("POST", f"/runs/{hidden}/cancel") == (404, "not_found")
        bulk = {"action": "cancel", "status": ["waiting"]}
        assert await works.refused("POST", "/runs/bulk", bulk) == (403, "not_permitted")
        assert await works.refused("POST", "/runs/bulk", {**bulk, "workflow": "quick"}) == (404, "not_found")
        assert await works.refused("POST", f"/runs/{run}/budget", {"limit_usd": "9"}) == (403, "not_permitted")
        gate = await decides.gate(run)
        assert await works.refused("POST", f"/gates/{gate}/decision", {}, holdfast_as="ida") == (403, "not_permitted")
        await admin.post("/schedules", {"name": "nightly", "workflow": "quick", "cron": "0 3 * * *"})
        await admin.post("/conversations", {"name": "talk", "workflow": "answering"})
        for method, path, body in (
            ("GET", "/schedules/nightly", None),
            ("DELETE", "/schedules/nightly", None),
            ("POST", "/schedules/nightly/pause", {}),
            ("POST", "/schedules", {"name": "nightly", "workflow": "order", "cron": "0 4 * * *"}),
            ("GET", "/conversations/talk", None),
            ("DELETE", "/conversations/talk", None),
            ("POST", "/conversations/talk/messages", {"text": "hi"}),
            ("GET", "/workflows/quick", None),
        ):
            assert await works.refused(method, path, body) == (404, "not_found"), path
        assert (await admin.get("/schedules/nightly"))["workflow"] == "quick"
        assert [await works.rows(path) for path in ("/schedules", "/conversations")] == [[], []]
        for path in ("/audit", "/keys"):
            assert await works.refused("GET", path) == (403, "not_permitted")
        seen = await decides.seen(gate)
        done = await decides.post(f"/gates/{gate}/decision", seen, wait_s=10, holdfast_as="ida")
        assert done["status"] == "completed"


# --- Keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("takes_keys", [True, False])
async def test_a_port_accepts_keys_only_where_it_takes_them(tmp_path: Path, takes_keys: bool) -> None:
    identity = Identity(tokens={hashed("admin" * 4): Holder("clients.admin")}, takes_keys=takes_keys)
    async with served(tmp_path, identity) as port, port.asked("admin" * 4) as admin:
        key = (await admin.post("/keys", {"name": "shop", "may": ["viewer"]}))["key"]
        async with port.asked(key) as shop:
            if takes_keys:
                assert (await shop.get("/me"))["client"] == "keys.shop"
            else:
                assert await shop.refused("GET", "/me") == (401, "unauthorized")


async def test_a_key_is_shown_once_and_over_at_once(tmp_path: Path) -> None:
    identity = known(admin=Holder("clients.admin"), acmes=Holder("clients.acme", tenant="acme"))
    async with served(tmp_path, identity) as port, port.asked("admin" * 4) as admin, port.asked("acmes" * 4) as acme:
        asked = {"name": "shop", "tenant": "acme", "may": ["operator"], "workflows": ["quick"]}
        made = await admin.said("POST", "/keys", asked)
        key = made.json()["key"]
        assert made.status_code == 201
        assert await admin.refused("POST", "/keys", asked) == (409, "conflict")
        async with port.asked(key) as shop:
            assert (await shop.get("/me"))["client"] == "keys.shop"
            run = (await shop.post("/runs", {"workflow": "quick"}, wait_s=10))["run_id"]
            assert (await acme.get(f"/runs/{run}"))["started_by"] == "keys.shop"
            assert await shop.refused("POST", "/keys", {"name": "more", "may": ["admin"]}) == (403, "not_permitted")
            other = (await admin.post("/keys/shop/rotate"))["key"]
            assert await shop.refused("GET", "/me") == (401, "unauthorized")
        async with port.asked(other) as shop:
            assert (await shop.get("/me"))["tenant"] == "acme"
            await admin.post("/keys/shop/revoke")
            assert await shop.refused("GET", "/me") == (401, "unauthorized")
        assert await admin.refused("POST", "/keys/shop/rotate") == (409, "conflict")
        listed = await admin.rows("/keys")
        assert [(each["name"], each["revoked_at"] is None) for each in listed] == [("shop", False)]
        assert key not in str(listed)
        assert await acme.refused("POST", "/keys", {"name": "x", "tenant": "globex"}) == (403, "not_permitted")
        assert (await acme.post("/keys", {"name": "own", "may": ["viewer"]}))["tenant"] == "acme"
        await admin.post("/keys", {"name": "theirs", "tenant": "globex"})
        assert await acme.refused("POST", "/keys/theirs/revoke") == (404, "not_found")
        assert [each["name"] for each in await acme.rows("/keys")] == ["own", "shop"]
        short = (await admin.post("/keys", {"name": "short", "life_s": 1}))["key"]
        async with port.asked(short) as brief:
            async with asyncio.timeout(10):
                while (await brief.http.get("/me")).status_code == 200:
                    await asyncio.sleep(0.05)
        for wrong in ({"name": "No Name"}, {"name": "x", "may": []}, {"name": "x", "life_s": 0}):
            assert await admin.refused("POST", "/keys", wrong) == (422, "invalid_input")
        assert await admin.refused("POST", "/keys", asked, idempotency_key="k") == (400, "invalid_idempotency_key")


async def test_a_stream_ends_when_what_it_was_opened_with_is_over(
    tmp_path: Path, issuer: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that is taken back and a token that is over: nothing that comes afterwards is heard, on any stream."""
    monkeypatch.setattr(subscription, "AGAIN_S", 0.2)
    identity = Identity(
        tokens={hashed("admin" * 4): Holder("clients.admin", tenant="acme")},
        issuer=SignedTokens(rules(issuer, leeway_s=0)),
        takes_keys=True,
    )
    async with served(tmp_path, identity) as port, port.asked("admin" * 4) as admin:
        run = (await admin.post("/runs", {"workflow": "rated"}, wait_s=10))["run_id"]
        key = (await admin.post("/keys", {"name": "ear"}))["key"]
        brief = signed(exp=int(time.time()) + 2, holdfast=["viewer"])
        async with port.asked(key) as ear, port.asked(brief) as jwt_ear, asyncio.timeout(30):
            streams = [each.events(path) for each in (ear, jwt_ear) for path in ("/events", f"/runs/{run}/events")]
            heard = [await anext(each) for each in streams]
            assert {kind for kind, _, _ in heard} == {"RunStarted"}
            await admin.post("/keys/ear/revoke")
            for stream in streams:
                *_, last = [each async for each in stream]
                assert (last[0], last[2]["code"]) == ("problem", "unauthorized")
            assert (await admin.get(f"/runs/{run}"))["status"] == "waiting", "the run goes on without its listeners"


@flow
async def napping(ctx: Any) -> None:
    """Waits for nobody."""
    await ctx.sleep(3600)


async def test_a_request_that_waits_is_answered_soon_after_its_key_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands then: of what comes later it is told nothing."""
    monkeypatch.setattr(api, "AGAIN_S", 0.2)
    waiting, waits = [], api._settled

    async def settled(service: Any, said: Any, *more: Any) -> None:
        waiting.append(said.run)
        await waits(service, said, *more)

    monkeypatch.setattr(api, "_settled", settled)
    identity = known(admin=Holder("clients.admin", tenant="acme"))
    async with served(tmp_path, identity, workflows=[napping]) as port, port.asked("admin" * 4) as admin, asyncio.timeout(20):
        key = (await admin.post("/keys", {"name": "ear", "may": ["operator"]}))["key"]
        async with port.asked(key) as ear:
            asked = [asyncio.create_task(ear.said("POST", "/runs", {"workflow": "napping"}, prefer="wait=30"))]
            while not waiting:
                await asyncio.sleep(0.01)
            run = waiting[0]
            asked.append(asyncio.create_task(ear.said("GET", f"/runs/{run}", prefer="wait=30")))
            while len(waiting) < 2:
                await asyncio.sleep(0.01)
            await admin.post("/keys/ear/revoke")
            done = [await each for each in asked]
            assert [each.json().get("status") for each in done] == ["waiting", "waiting"]
            assert (await ear.said("GET", f"/runs/{run}")).status_code == 401


async def test_a_page_of_streams_waits_no_longer_than_a_key_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "AGAIN_S", 0.2)
    identity = known(admin=Holder("clients.admin", tenant="acme"))
    async with served(tmp_path, identity, workflows=[napping]) as port, port.asked("admin" * 4) as admin:
        run = (await admin.post("/runs", {"workflow": "napping"}))["run_id"]
        async with asyncio.timeout(15):
            page = await admin.get(f"/runs/{run}/stream", wait_s=30, cursor="now")
        assert page["rows"] == []


# --- The audit log ----------------------------------------------------------------------------------------------------


async def test_what_was_done_and_what_was_refused_stands_in_the_audit_log(tmp_path: Path) -> None:
    identity = known(admin=Holder("clients.admin"), looks=Holder("clients.looks", tenant="acme", access=Access(("viewer",))))
    async with served(tmp_path, identity) as port, port.asked("admin" * 4) as admin, port.asked("looks" * 4) as looks:
        run = (await admin.post("/runs", {"workflow": "order", "input": {"item": "tea"}, "tenant": "acme"}, wait_s=10))[
            "run_id"
        ]
        gate = await admin.gate(run)
        assert await looks.refused("POST", f"/runs/{run}/cancel") == (403, "not_permitted")
        seen = await admin.seen(gate)
        assert await admin.refused("POST", f"/gates/{gate}/decision", seen, holdfast_as="eve") == (409, "decision_refused")
        await admin.post(f"/gates/{gate}/decision", seen, wait_s=10, holdfast_as="ida")
        rows = await admin.rows("/audit", limit=2)
        told = [(row["action"], row["about"].partition(":")[0], row["outcome"], row["name"], row["verified"]) for row in rows]
        assert told == [
            ("Start", run, "done", "clients.admin", True),
            ("Cancel", run, "not_permitted", "clients.looks", True),
            ("Decide", run, "decision_refused", "eve", False),
            ("Decide", run, "done", "ida", False),
        ]
        assert {(row["client"], row["origin"], len(row["trace_id"])) for row in rows} == {
            ("clients.admin", "127.0.0.1", 32),
            ("clients.looks", "127.0.0.1", 32),
        }
        reading = Verification()
        assert [reading.problem(link_of(row)) for row in rows] == [None] * 4
        ((head,), last) = (await admin.rows("/audit/head"), reading.last)
        assert head == {"number": 4, "hash": last.hash, "signature": None}


async def test_what_is_refused_writes_no_more_than_a_line(tmp_path: Path) -> None:
    identity = known(admin=Holder("clients.admin"), looks=Holder("clients.looks", access=Access(("viewer",))))
    async with served(tmp_path, identity) as port, port.asked("admin" * 4) as admin, port.asked("looks" * 4) as looks:
        assert await looks.refused("POST", "/runs", {"workflow": "w" * 3_000_000}) == (403, "not_permitted")
        (row,) = await admin.rows("/audit")
        assert len(str(row)) < 2_000


async def test_a_name_that_is_claimed_is_kept_as_a_claim(api: Asked) -> None:
    await api.post("/runs", {"workflow": "quick"}, holdfast_as="ann")
    (row,) = await api.rows("/audit")
    assert (row["name"], row["verified"], row["client"]) == ("ann", False, None)


async def test_a_token_that_is_not_known_is_written_down_and_does_not_fill_the_log(tmp_path: Path) -> None:
    identity = known(admin=Holder("clients.admin"))
    async with served(tmp_path, identity) as port, port.asked("admin" * 4) as admin, port.asked("guess" * 4) as guess:
        for _ in range(20):
            assert await guess.refused("GET", "/me") == (401, "unauthorized")
        rows = await admin.rows("/audit")
        assert {(row["action"], row["outcome"], row["origin"], row["name"]) for row in rows} == {
            ("LogIn", "unauthorized", "127.0.0.1", None)
        }
        assert len(rows) <= 3, "one a minute of an address"
        assert "guess" not in str(rows)
