"""No GET decides, starts or changes anything: all of them are walked, with everything that a decision could be told by."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from fastapi import FastAPI

from holdfast.http.api import Api
from tests.http.hooks import SECRETS, interaction, rules, slack
from tests.http.kit import NO_TLS, served

HOOKS = {
    "slack": rules("slack", action="decide", people={"T024BE7LD/U061F7AUR": "ida"}),
    "shop": rules("secret", "SHARED_SECRET", workflow="order"),
}


async def test_no_get_decides_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    made: list[FastAPI] = []
    real = Api.application

    def application(self: Api) -> FastAPI:
        made.append(real(self))
        return made[-1]

    monkeypatch.setattr(Api, "application", application)
    async with served(tmp_path, hooks=HOOKS) as port, port.asked() as api:
        run = (await api.post("/runs", {"workflow": "order", "input": {"item": "tea"}}, wait_s=10))["run_id"]
        gate = await api.gate(run)
        row = await api.get(f"/gates/{gate}")
        link = (await api.post(f"/gates/{gate}/link", {"reviewer": "ida", "life_s": 3600}))["link"]
        before = await standing(api)
        value = {"gate": row["gate_id"], "shown_hash": row["shown_hash"]}
        known = {"run": run, "gate": gate, "token": link, "name": "slack", "seq": "1", "workflow": "order", "other": run}
        routes: list[Any] = list(made[0].routes)
        paths = [re.sub(r"{(\w+)}", lambda found: quote(known.get(found[1], "x"), safe="%"), each.path) for each in routes]
        paths += [f"/hooks/{name}" for name in (*HOOKS, "none")] + [f"/api/v1/links/{link}", f"/gates/{gate}", f"/inbox/{gate}"]
        params = {"decision": "approve", "shown_hash": row["shown_hash"], "reason": "x", "payload": "x", "by": "ida"}
        body = interaction("holdfast:approve", value)
        signed = {**slack(body), "holdfast-as": "ida", "authorization": f"Bearer {SECRETS['SHARED_SECRET']}"}
        asked = 0
        async with httpx2.AsyncClient(verify=NO_TLS, base_url=port.address, timeout=20) as http:
            for path in dict.fromkeys(paths):
                for method in ("GET", "HEAD"):
                    await http.request(method, path, params=params, headers=signed, content=body)
                    asked += 1
        assert asked > 2 * len({each.path for each in routes if "GET" in each.methods})
        assert await standing(api) == before
        assert (await api.get(f"/gates/{gate}"))["state"] == "open"


async def standing(api: Any) -> Any:
    """The whole history of each run, and what was done by whom."""
    runs = sorted(each["run_id"] for each in await api.rows("/runs"))
    events = [await api.rows(f"/runs/{run}/events") for run in runs]
    return runs, events, [each for each in await api.rows("/audit") if each["action"] not in ("LogIn", "SignIn")]
