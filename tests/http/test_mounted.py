"""The HTTP API in the FastAPI application of somebody else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from holdfast import Engine, flow, http
from holdfast.errors import UsageError


@flow
async def double(ctx, n: int) -> int:
    return 2 * n


def mounting(folder: Path, tokens: Path | None, keys: bool) -> FastAPI:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with Engine.open(folder / "runs.db", workflows=[double]) as engine:
            app.mount("/holdfast", http.app(engine, tokens=tokens, keys=keys, workflows=[double]))
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/own")
    async def own() -> str:
        return "own"

    return app


@asynccontextmanager
async def answering(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx2.AsyncClient(transport=transport, base_url="http://shop") as client:
        yield client


async def test_the_api_is_mounted_in_an_application_and_runs_a_workflow(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text('[clients.ann]\ntoken = "the-secret-of-ann"\nmay = ["viewer", "operator", "admin"]\n')
    tokens.chmod(0o600)
    bearer = {"authorization": "Bearer the-secret-of-ann"}
    async with answering(mounting(tmp_path, tokens, keys=True)) as client:
        assert (await client.get("/own")).json() == "own"
        refused = await client.get("/holdfast/api/v1/runs")
        assert (refused.status_code, refused.headers["x-content-type-options"]) == (401, "nosniff")
        assert (await client.get("/holdfast/api/v1/me", headers=bearer)).json()["name"] == "clients.ann"
        body = {"workflow": "double", "input": 21}
        said = await client.post("/holdfast/api/v1/runs", json=body, headers={**bearer, "prefer": "wait=20"})
        assert said.status_code == 201
        run = said.json()["run_id"]
        assert (await client.get(f"/holdfast/api/v1/runs/{run}", headers=bearer)).json()["output"] == 42
        made = await client.post("/holdfast/api/v1/keys", json={"name": "ci"}, headers=bearer)
        by_key = {"authorization": f"Bearer {made.json()['key']}"}
        assert (await client.get("/holdfast/api/v1/runs", headers=by_key)).status_code == 200
        assert (await client.get("/holdfast/api/v1/nowhere", headers=bearer)).json()["code"] == "no_route"


async def test_a_mounted_api_needs_tokens_unless_it_is_opened_to_all(tmp_path: Path) -> None:
    async with answering(mounting(tmp_path, None, keys=False)) as client:
        assert (await client.get("/holdfast/api/v1/runs")).json()["rows"] == []
    async with Engine.open(tmp_path / "runs.db") as engine:
        with pytest.raises(UsageError, match=r"tokens\.toml"):
            http.app(engine, tokens=tmp_path / "tokens.toml")
