"""The negotiation's award is approved over HTTP, by somebody whose signed token says that they approve; nobody else's counts."""

from __future__ import annotations

import datetime
import time as machine
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import jwt

from examples.negotiation.rehearsal import Answer, Rehearsal
from examples.negotiation.workflow import Item, Purchase, begin, days, hours, wf
from holdfast import Engine
from holdfast.compose.api import HttpPort, answering
from holdfast.models.providers import Providers
from holdfast.service.access.identity import Identity
from holdfast.service.access.signed_token import SignedTokens
from holdfast.service.service import Service
from holdfast.settings import SignedTokenRules
from holdfast.testing import VirtualTime
from tests.examples.test_negotiation import World, world

__all__ = ["world"]

SECRET = b"s" * 40
TENANT = "acme"


def token(**claims: Any) -> str:
    usual = {
        "iss": "https://id.example",
        "aud": "holdfast",
        "sub": "mira",
        "exp": machine.time() + 600,
        "tenant": TENANT,
        "roles": ["approver"],
        "holdfast": ["reviewer"],
    }
    return jwt.encode(usual | claims, SECRET, "HS256")


def wrong() -> dict[str, tuple[str, int]]:
    """Tokens by which nothing is approved, and the status that each is refused with."""
    return {
        "no approver": (token(roles=["buyer"]), 409),
        "another tenant's": (token(tenant="globex"), 404),
        "only looks": (token(holdfast=["viewer"]), 403),
        "over": (token(exp=machine.time() - 3600), 401),
        "another issuer's": (token(iss="https://evil.example"), 401),
        "nobody's": ("a.b.c", 401),
    }


async def test_an_award_is_approved_by_a_signed_token_and_by_no_other(world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_bytes(SECRET)
    rules = SignedTokenRules(issuer="https://id.example", audience="holdfast", key_file=secret, algorithms=("HS256",))
    refused: dict[str, int] = {}
    time = VirtualTime(world.folder / "time")
    async with (
        time.store(world.folder / "runs.db") as store,
        Engine.open(store, workflows=[wf], model=Providers(environment=world.models.environment)) as engine,
        answering(
            Service(engine, [wf]), HttpPort("127.0.0.1:0", Identity(issuer=SignedTokens(rules))), lambda _: None
        ) as address,
        httpx2.AsyncClient(base_url=f"{address}/api/v1", timeout=20) as http,
    ):

        async def say(gate: str, answer: Answer) -> None:
            """As a front end would: what is shown is read, and the decision is of that."""

            async def heard(token: str) -> httpx2.Response:
                headers = {"Authorization": f"Bearer {token}"}
                body = {"decision": answer.decision, "shown_hash": shown["shown_hash"]}
                body |= {} if answer.data is None else {"data": answer.data}
                return await http.post(f"/gates/{quote(gate, safe='')}/decision", json=body, headers=headers)

            headers = {"Authorization": f"Bearer {token()}"}
            shown = (await http.get(f"/gates/{quote(gate, safe='')}", headers=headers)).json()
            if shown["reason"] == "approval":
                refused.update({name: (await heard(each)).status_code for name, (each, _) in wrong().items()})
            said = await heard(token(sub=answer.by, roles=[answer.role]))
            assert said.status_code == 200, said.text

        today = datetime.datetime.fromtimestamp(time() / 1000, datetime.UTC).date()
        purchase = Purchase(category="laptops", items=[Item(sku="x", pieces=301)], deadline=today + datetime.timedelta(45))
        run = await begin(engine, TENANT, purchase)
        longer = Answer(hours(1), "answer", {"lifespan": int(days(60))}, "operator", "olaf")
        rehearsal = Rehearsal(
            engine, time, lambda _, why, __: Answer(hours(1), "approve") if why == "approval" else longer, say
        )

        async def is_over() -> bool:
            return bool((await run.state()).ended)

        await rehearsal.until(is_over)
        assert await run.status() == "completed"
        assert refused == {name: status for name, (_, status) in wrong().items()}
        decided = [each for each in await run.events() if type(each.event).__name__ == "GateDecided"]
        last: Any = decided[-1].event
        assert (last.by, last.client, last.roles) == ("mira", "mira", ("approver",))
    assert world.orders() == 1
