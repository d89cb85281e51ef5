"""Links: one who has no token answers one question of a run, once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.core.values.access import Access
from holdfast.service.access.identity import Holder
from tests.http.kit import Asked, known, served

IDENTITY = known(
    admin=Holder("clients.admin"),
    looks=Holder("clients.looks", access=Access(("viewer",))),
    mails=Holder("clients.mails", access=Access(("operator",))),
    other=Holder("clients.other", access=Access(("operator",))),
)


async def waiting(api: Asked) -> str:
    return str((await api.post("/runs", {"workflow": "counting", "input": 1, "tenant": "acme"}, wait_s=10))["run_id"])


async def test_a_link_sends_its_signal_once_and_the_same_again_is_answered_alike(tmp_path: Path) -> None:
    async with served(tmp_path, IDENTITY) as port, port.asked("admin" * 4) as admin, port.asked() as stranger:
        run = await waiting(admin)
        made = await admin.said("POST", f"/runs/{run}/signals/enough/link", {"life_s": 3600})
        link = made.json()["link"]
        assert (made.status_code, made.json()["opens"]) == (201, {"run_id": run, "signal": "enough"})
        assert link not in str([*await admin.rows("/keys"), *await admin.rows("/audit")])
        for method in ("GET", "PUT", "DELETE"):
            status, _ = await stranger.refused(method, f"/links/{link}")
            assert status == 405
        assert await stranger.refused("POST", f"/links/{link}", {"data": 1, "more": 2}) == (422, "invalid_input")
        done = await asyncio.gather(*(stranger.said("POST", f"/links/{link}", {"data": 7}) for _ in range(8)))
        assert {each.status_code for each in done} <= {200, 409}
        again = await stranger.said("POST", f"/links/{link}", {"data": 7})
        assert (again.status_code, again.json()["run_id"]) == (200, run)
        assert (await stranger.said("POST", f"/links/{link}", {"data": 8})).status_code == 422
        events = await admin.rows(f"/runs/{run}/events")
        sent = [each for each in events if each["type"] == "SignalReceived"]
        told = [(each["data"], each["by"], each["verified"]) for each in sent]
        assert told == [(7, f"keys.{made.json()['name']}", True)]


async def test_a_link_that_is_revoked_expired_or_unknown_opens_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, IDENTITY) as port, port.asked("admin" * 4) as admin, port.asked() as stranger:
        run = await waiting(admin)
        made = await admin.post(f"/runs/{run}/signals/enough/link")
        await admin.post(f"/keys/{made['name']}/revoke")
        assert await stranger.refused("POST", f"/links/{made['link']}", {}) == (410, "used")
        for nobodys in ("hfl_" + "x" * 43, "x", made["name"]):
            assert await stranger.refused("POST", f"/links/{nobodys}", {}) == (404, "not_found")
        brief = await admin.post(f"/runs/{run}/signals/enough/link", {"life_s": 1})
        async with asyncio.timeout(10):
            while (await stranger.refused("POST", f"/links/{brief['link']}", [1]))[0] != 404:
                await asyncio.sleep(0.05)
        async with port.asked(brief["link"]) as as_a_token:
            assert await as_a_token.refused("GET", "/runs") == (401, "unauthorized")
        assert not [each for each in await admin.rows(f"/runs/{run}/events") if each["type"] == "SignalReceived"]


async def test_only_a_caller_who_may_send_a_signal_makes_its_link(tmp_path: Path) -> None:
    async with served(tmp_path, IDENTITY) as port, port.asked("admin" * 4) as admin, port.asked("looks" * 4) as looks:
        run = await waiting(admin)
        assert await looks.refused("POST", f"/runs/{run}/signals/enough/link") == (403, "not_permitted")
        assert await admin.refused("POST", f"/runs/{run}/signals/enough/link", {"life_s": 0}) == (422, "invalid_input")
        assert await admin.refused("POST", "/runs/none/signals/enough/link") == (404, "not_found")


@pytest.mark.parametrize("made_as", ["", "ann", "ann (unverified, by clients.other)", "clients.other"])
async def test_the_token_that_made_a_link_takes_it_back_for_whomever_it_speaks(tmp_path: Path, made_as: str) -> None:
    async with served(tmp_path, IDENTITY) as port, port.asked("mails" * 4) as mails, port.asked("other" * 4) as other:
        run = await waiting(mails)
        for revoked_as in ("", made_as, "bob"):
            made = await mails.post(f"/runs/{run}/signals/enough/link", **as_(made_as))
            path = f"/keys/{made['name']}/revoke"
            for theirs in ("", made_as, "bob", "clients.mails"):
                assert await other.refused("POST", path, **as_(theirs)) == (404, "not_found")
            assert (await mails.post(path, **as_(revoked_as)))["revoked_at"] is not None


async def test_a_link_of_a_key_is_taken_back_with_that_key_for_whomever_it_speaks(tmp_path: Path) -> None:
    async with served(tmp_path, IDENTITY) as port, port.asked("admin" * 4) as admin:
        run = await waiting(admin)
        key = (await admin.post("/keys", {"name": "sends", "may": ["operator"]}, holdfast_as="ida"))["key"]
        async with port.asked(key) as sends:
            made = [await sends.post(f"/runs/{run}/signals/enough/link", **as_(name)) for name in ("ann", "")]
            for each, name in zip(made, ("", "ann"), strict=True):
                assert (await sends.post(f"/keys/{each['name']}/revoke", **as_(name)))["revoked_at"] is not None
            left = await sends.post(f"/runs/{run}/signals/enough/link")
        rotated = (await admin.post("/keys/sends/rotate", holdfast_as="bob"))["key"]
        async with port.asked(rotated) as sends:
            refused = await sends.refused("POST", f"/keys/{left['name']}/revoke")
            assert refused == (404, "not_found"), "another person has the key in hand"


def as_(name: str) -> dict[str, str]:
    return {"holdfast_as": name} if name else {}
