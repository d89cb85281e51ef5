"""kill -9 around a decision that is sent over HTTP: of the server, of the client, and of the version that asked.

The tool runs once after an approval that was answered, or not at all; its ledger is a file that the test reads. `make e2e` kills at
forty moments after the decision has left; otherwise at some of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.http.kit import MAX_S, NO_TLS, Asked
from tests.http.test_commands import TOKEN, private
from tests.wire.kit import Process, ended, holdfast

EVERYTHING = os.environ.get("HOLDFAST_E2E") == "all"
MOMENTS_MS = range(0, 120, 3) if EVERYTHING else (0, 4, 9, 25)
CODE = Path(__file__).parent / "approvals.py"


class Shop:
    """A store, the process that serves it just now, and the ledger of what was paid."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.ledger.touch()
        private(folder / "token", TOKEN)

    def serve(self, version: int = 1) -> Process:
        return holdfast(
            "serve",
            f"{CODE}:payment",
            "--http",
            "127.0.0.1:0",
            "--port",
            "0",
            "--token-file",
            str(self.folder / "token"),
            "--store",
            str(self.folder / "runs.db"),
            folder=self.folder,
            PAYMENTS_VERSION=str(version),
        )

    def asked(self, process: Process) -> Asked:
        address = process.says(r"HTTP on (http://\S+)/api/v1\.")[1]
        headers = {"authorization": f"Bearer {TOKEN}"}
        return Asked(httpx2.AsyncClient(verify=NO_TLS, base_url=f"{address}/api/v1", headers=headers, timeout=MAX_S))

    async def asks(self, api: Asked, order: str) -> tuple[str, str, str]:
        """A run that asks whether it may pay, its gate, and the hash of what that shows."""
        given = {"order": order, "amount": 7, "file": str(self.ledger)}
        run = (await api.post("/runs", {"workflow": "payment", "input": given}, wait_s=10))["run_id"]
        gate = await api.gate(run)
        return run, gate, (await api.seen(gate))["shown_hash"]

    def paid(self, order: str) -> list[int]:
        return [int(line.split()[1]) for line in self.ledger.read_text().splitlines() if line.split()[0] == order]


async def decide(api: Asked, gate: str, shown: str, decision: str = "approve") -> Any:
    """Say it again, under the same idempotency key, until somebody answers."""
    late_s = time.monotonic() + MAX_S
    while time.monotonic() < late_s:
        try:
            said = await api.said(
                "POST",
                f"/gates/{gate}/decision",
                {"decision": decision, "shown_hash": shown},
                idempotency_key=f"{gate}-{decision}",
                prefer="wait=10",
            )
        except httpx2.HTTPError:
            return None
        if said.json().get("code") != "in_flight":
            return said
        await asyncio.sleep(0.05)
    return None


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.mark.parametrize("decision", ["approve", "reject"])
async def test_a_server_killed_around_a_decision_pays_once_or_not_at_all(shop: Shop, decision: str) -> None:
    """Wherever it died, who decides again decides the same; an approval pays once, a rejection never."""
    process = shop.serve()
    try:
        for number, moment_ms in enumerate(MOMENTS_MS):
            api = shop.asked(process)
            order = f"order-{number}"
            run, gate, shown = await shop.asks(api, order)
            deciding = asyncio.create_task(decide(api, gate, shown, decision))
            await asyncio.sleep(moment_ms / 1000)
            process.signal(signal.SIGKILL)
            await deciding
            process.end()
            process = shop.serve()
            api = shop.asked(process)
            again = {"decision": decision, "shown_hash": shown}
            said = await api.said("POST", f"/gates/{gate}/decision", again, prefer="wait=10")
            assert said.status_code == 200 or said.json()["code"] in ("already_decided", "run_ended"), said.text
            state = await settled(api, run)
            paid = shop.paid(order)
            if decision == "reject":
                assert (paid, state["status"]) == ([], "failed"), (moment_ms, state)
            elif state["status"] == "completed":
                assert paid == [7], (moment_ms, state)
            else:  # it died between the intent and the outcome: nobody knows, and nobody guesses
                assert [each["reason"] for each in state["waiting_for"]] == ["effect_unknown"], (moment_ms, state)
                assert len(paid) <= 1
    finally:
        process.end()


async def settled(api: Asked, run: str) -> Any:
    said = await api.said("GET", f"/runs/{run}", prefer="wait=10")
    return said.json()


async def test_a_client_killed_after_its_decision_gets_its_result_the_next_time(shop: Shop) -> None:
    """Its connection breaks before the answer; under the same key the answer is found, and nothing is done twice."""
    process = shop.serve()
    with ended(process):
        api = shop.asked(process)
        for number in range(12 if EVERYTHING else 3):
            order = f"order-{number}"
            run, gate, shown = await shop.asks(api, order)
            dying = shop.asked(process)
            sending = asyncio.create_task(decide(dying, gate, shown))
            await asyncio.sleep(number / 1000)
            await dying.http.aclose()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            said = await decide(api, gate, shown)
            assert said is not None
            assert said.status_code == 200, said.text
            assert ((await settled(api, run))["status"], shop.paid(order)) == ("completed", [7])


async def test_an_approval_of_the_old_version_pays_nothing_else_in_the_new(shop: Shop) -> None:
    """Between question and answer the code is changed to pay twice as much. What was approved is paid, or nothing."""
    old = shop.serve()
    with ended(old):
        run, gate, shown = await shop.asks(shop.asked(old), "order")
        old.signal(signal.SIGKILL)
    new = shop.serve(version=2)
    with ended(new):
        api = shop.asked(new)
        await api.said("POST", f"/gates/{gate}/decision", {"shown_hash": shown}, prefer="wait=10")
        state = await settled(api, run)
        assert shop.paid("order") in ([], [7])
        assert shop.paid("order") == [7] or [each["reason"] for each in state["waiting_for"]] == ["code_changed"]
