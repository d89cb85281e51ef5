"""kill -9 of the server on a hook's way, between the check, the commit and the answer: the sender sends again, and it was once."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import httpx2
import pytest

from tests.forks import Fork
from tests.http.hook_victim import POINTS
from tests.http.hooks import SECRETS, send, standard
from tests.http.kit import MAX_S, NO_TLS, Asked
from tests.http.test_commands import TOKEN, private
from tests.wire.kit import Process, ended

FLOWS = Path(__file__).parent / "flows.py"
DECLARED = """
[hooks.shop]
scheme = "standard"
secrets = ["STANDARD_SECRET"]
workflow = "quick"
input = { item = "${{ body.item }}" }

[hooks.rate]
scheme = "standard"
secrets = ["STANDARD_SECRET"]
action = "signal"
signal = "rating"
key = "${{ body.order }}"
data = "${{ body.stars }}"
"""


def serve(folder: Path, store: str, *point: str) -> Process:
    module = "tests.http.hook_victim" if point else "holdfast"
    words: Sequence[object] = (
        *point,
        "serve",
        *(f"{FLOWS}:{name}" for name in ("quick", "rated")),
        *("--http", "127.0.0.1:0", "--port", "0", "--token-file", folder / "token", "--store", store),
    )
    return Process(Fork(module, *words, folder=folder, environment=os.environ | SECRETS, has_data=False))


def address_of(process: Process) -> str:
    return process.says(r"HTTP on (http://\S+)/api/v1\.")[1]


def asked(address: str) -> Asked:
    headers = {"authorization": f"Bearer {TOKEN}"}
    return Asked(httpx2.AsyncClient(verify=NO_TLS, base_url=f"{address}/api/v1", headers=headers, timeout=MAX_S))


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.long)])
async def test_a_server_killed_between_check_commit_and_answer_has_acted_once(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    store: str = request.getfixturevalue("database") if kind == "postgres" else str(tmp_path / "runs.db")
    private(tmp_path / "token", TOKEN)
    (tmp_path / "holdfast.toml").write_text(DECLARED)
    deliveries = [("shop", point, f'{{"item": "{point}"}}') for point in POINTS]
    deliveries += [("rate", point, f'{{"order": "{point}", "stars": 5}}') for point in ("committed",)]
    process = serve(tmp_path, store)
    with ended(process):
        api = asked(address_of(process))
        for hook, point, _ in deliveries:
            if hook == "rate":
                await api.post("/runs", {"workflow": "rated", "key": point})
    for hook, point, body in deliveries:
        process = serve(tmp_path, store, point)
        with ended(process), pytest.raises(httpx2.HTTPError):
            await send(address_of(process), hook, body.encode(), standard(body.encode(), f"msg_{hook}_{point}"))
        assert process.process.returncode == -9
    process = serve(tmp_path, store)
    with ended(process):
        address = address_of(process)
        api = asked(address)
        answers = {}
        for hook, point, body in deliveries * 2:
            said = await send(address, hook, body.encode(), standard(body.encode(), f"msg_{hook}_{point}"))
            assert said.status_code == 200, said.text
            assert answers.setdefault((hook, point), said.content) == said.content
        runs = await api.rows("/runs")
        quick = {each["run_id"] for each in runs if each["workflow"] == "quick"}
        assert quick == {json.loads(said)["run_id"] for (hook, _), said in answers.items() if hook == "shop"}
        assert len(quick) == len(POINTS)
        for run in (each["run_id"] for each in runs if each["workflow"] == "rated"):
            events = await api.rows(f"/runs/{run}/events")
            assert [each["type"] for each in events].count("SignalReceived") == 1
