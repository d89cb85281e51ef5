"""A port that answers over HTTP, and those who ask it. Nothing here decides what is right."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from holdfast import Engine, Workflow
from holdfast.compose.api import HttpPort, answering
from holdfast.ports import Observer
from holdfast.service.access.identity import Holder, Identity, hashed
from holdfast.service.access.provider import Provider
from holdfast.service.concurrency_limit import ConcurrencyLimit
from holdfast.service.service import Service
from holdfast.settings import HookRules, PortBounds, Settings
from tests.empty import empty_store
from tests.http import flows, rows

WORKFLOWS = (
    flows.order,
    flows.quick,
    flows.broken,
    flows.counting,
    flows.rated,
    flows.answering,
    flows.rendering,
    flows.learning,
)
MAX_S = 20.0
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no authority: to load those of the machine takes 20 ms, and a port on loopback needs none."""


class Asked:
    """One who asks, with his token."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http

    async def get(self, path: str, **params: Any) -> Any:
        """What is answered; anything but success fails the test."""
        said = await self.http.get(path, params=params or None)  # an empty one would take away what the path has
        assert said.status_code == 200, said.text
        return said.json()

    async def post(self, path: str, body: Any = None, wait_s: int = 0, **headers: str) -> Any:
        said = await self.said("POST", path, body, **headers, **({"prefer": f"wait={wait_s}"} if wait_s else {}))
        assert said.status_code in (200, 201, 204), said.text
        return said.json() if said.content else None

    async def said(self, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        """The whole answer, whatever it is."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.request(method, path, json=body, headers=named)

    async def refused(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, str]:
        """The status and the code of a refusal, which is a whole problem."""
        said = await self.said(method, path, body, **headers)
        assert said.headers["content-type"] == "application/problem+json", said.text
        problem = said.json()
        assert problem.keys() == {"type", "title", "status", "detail", "code", "errors", "trace_id"}
        assert (problem["status"], len(problem["trace_id"])) == (said.status_code, 32)
        return said.status_code, problem["code"]

    async def rows(self, path: str, **params: Any) -> list[Any]:
        """All rows of a list, page by page."""
        found: list[Any] = []
        page = await self.get(path, **params)
        while True:
            found += page["rows"]
            if page["cursor"] is None:
                return found
            page = await self.get(path, **params, cursor=page["cursor"])

    async def events(self, path: str, **headers: str) -> AsyncIterator[tuple[str, str | None, Any]]:
        """Server-sent events: what each is, its id, its data. What has no name, which a browser gives to `onmessage`, says in
        its data what it is."""
        named = {"accept": "text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.http.stream("GET", path, headers=named) as said:
            assert said.status_code == 200, await said.aread()
            assert said.headers["content-type"].startswith("text/event-stream")
            fields: dict[str, str] = {}
            async for line in said.aiter_lines():
                name, _, value = line.partition(": ")
                if name:
                    fields[name] = value
                elif "data" in fields:
                    data = json.loads(fields["data"])
                    if fields.get("event") != "problem":
                        rows.check("GET", path.partition("?")[0], data, is_end="event" in fields)
                    yield fields.get("event") or data.get("type") or data["kind"], fields.get("id"), data
                    fields = {}

    async def gate(self, run: str) -> str:
        """The gate at which a run waits, as it stands in a path."""
        (row,) = (await self.get("/gates", run=run))["rows"]
        return quote(row["gate_id"], safe="")

    async def seen(self, gate: str, **more: Any) -> dict[str, Any]:
        """A decision about what the gate at this path shows now."""
        return {"shown_hash": (await self.get(f"/gates/{gate.removeprefix('/gates/')}"))["shown_hash"], **more}


class Port:
    """Where it answers."""

    def __init__(self, address: str, engine: Engine, turns: ConcurrencyLimit | None = None) -> None:
        self.address = address
        self.engine = engine
        self.turns = ConcurrencyLimit() if turns is None else turns

    @asynccontextmanager
    async def asked(self, token: str = "") -> AsyncIterator[Asked]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        base = f"{self.address}/api/v1"
        hooks = {"response": [_check_rows]}
        async with httpx2.AsyncClient(verify=NO_TLS, base_url=base, headers=headers, timeout=MAX_S, event_hooks=hooks) as http:
            yield Asked(http)


async def _check_rows(answer: httpx2.Response) -> None:
    """Check that each row of an answer is what its route says."""
    if answer.is_success and answer.headers.get("content-type") == "application/json":
        asked = answer.request
        path = asked.url.raw_path.decode().partition("?")[0].removeprefix("/api/v1")
        rows.check(asked.method, path, json.loads(await answer.aread() or "null"))


def known(**tokens: Holder) -> Identity:
    """Those who are known, each by the token that is his name four times."""
    return Identity(tokens={hashed(name * 4): holder for name, holder in tokens.items()}, takes_keys=True)


@asynccontextmanager
async def served(
    store: Path | str,
    identity: Identity | None = None,
    *,
    address: str = "127.0.0.1:0",
    execute: bool = True,
    bounds: PortBounds | None = None,
    proxies: int = 0,
    public_url: str | None = None,
    provider: Provider | None = None,
    workflows: Sequence[Workflow] = WORKFLOWS,
    observers: Sequence[Observer] = (),
    hooks: Mapping[str, HookRules] = {},
    settings: Settings | None = None,
) -> AsyncIterator[Port]:
    """An engine on a store, or one in that folder, and its port."""
    where = str(store)
    if isinstance(store, Path):
        where = str(file if (file := store / "runs.db").exists() else empty_store(file))
    async with (
        Engine.open(
            where, workflows=workflows if execute else (), execute=execute, observers=observers, settings=settings
        ) as engine,
        answering(
            Service(engine, workflows if execute else (), turns=(turns := ConcurrencyLimit(bounds))),
            HttpPort(address, identity or Identity(), proxies=proxies, public_url=public_url, provider=provider, hooks=hooks),
            lambda _: None,
        ) as at,
    ):
        yield Port(at, engine, turns)
