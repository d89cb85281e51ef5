"""A program that notifies a receiver of what happens in its runs, and dies at one of the points at which something lasts.

usage: python -m tests.crash.notifier DIRECTORY URL STORE LIFE [AT]

It ends when all has arrived that is to arrive. Leases are short: the next life takes up what this one was sending.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from holdfast import Context, Engine, flow
from holdfast.compose.notifying import Webhooks
from holdfast.engine.background import delivering, follower
from holdfast.ports import SendResult
from holdfast.ports.channel import Message
from holdfast.settings import Settings
from tests.crash.boundary import CountedConnection
from tests.crash.killing import dies_at

RUNS = ("one", "two")
ASKED_OF = ("gate_opened", "dead_letter", "run_failed")
"""What the rule is about, in the order in which each run brings it. The end is told once more, as its start asked."""
SECRET = "whsec_" + "bmV3LW5ldy1uZXctbmV3LW5ldy1uZXctbmV3"


@flow
async def asks_and_fails(ctx: Context) -> str:
    await ctx.ask("May it fail?")
    raise ValueError("It may.")


class CountedWebhooks(Webhooks):
    """Webhooks with a boundary on each side of a request."""

    async def send(self, message: Message) -> SendResult:
        with CountedConnection.boundaries.around("webhook"):
            return await super().send(message)


def settings(url: str) -> Settings:
    channel: dict[str, Any] = {"kind": "webhook", "url": url, "secrets": ["OPS_SECRET"], "allow_private": ["127.0.0.0/8"]}
    rule: dict[str, Any] = {"occasions": ASKED_OF, "channel": "ops", "digest_s": 0}
    return Settings(channels={"ops": {**channel, "tenants": ["default"]}}, notifications={"all": rule})  # type: ignore[arg-type]


async def main(url: str, store: str) -> None:
    async with asyncio.timeout(60), Engine.open(store, workflows=[asks_and_fails], settings=settings(url)) as engine:
        runs = [await engine.start(asks_and_fails, key=name, on_end="ops") for name in RUNS]
        for run in runs:
            while not (await run.state()).ended:
                for gate, change in await engine.gates(run_id=run.id):
                    if change is None:
                        await engine.decide(gate.gate, "answer", data="yes", shown_hash=None, by="ann")
                await asyncio.sleep(0.01)
        while sum(each.sent for each in await engine.channel_figures()) < len(RUNS) * (len(ASKED_OF) + 1):
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    folder, address, store_, life, *at = sys.argv[1:]
    os.environ["OPS_SECRET"] = SECRET
    known: Any = (delivering, follower)
    delivering_, follower_ = known
    delivering_.LEASE_MS, delivering_._LOOK_S = 500, 0.05
    follower_.LEASE_MS, follower_._RENEWED_MS, follower_._LOOK_S, follower_._NOT_HERE_S = 500, 100, 0.05, 0.1
    sys.modules["holdfast.compose.notifying"].Webhooks = CountedWebhooks  # type: ignore[attr-defined]
    dies_at(Path(folder), life, *at)
    asyncio.run(main(address, store_))
