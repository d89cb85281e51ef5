"""What a router saves: 1,000 calls of a fixed mix, against always taking the dearest of its models.

usage: python -m bench.routing [CALLS]

The mix follows "7 AI Agent Orchestration Patterns" ("most agent tasks are TRIVIAL or SIMPLE"): of 20 calls 8 are trivial, 6
simple, 3 moderate, 2 complex, 1 expert. Prompts have 60 to 3,000 characters and replies the length that the model server gives
them; the calls are real ones to it over HTTP, the prices those of the snapshot. What a provider's cache would save is not in it
(bench/prompt_cache.py).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from holdfast import Complexity, Context, Engine, RoutedModel, Router, flow
from holdfast.models.providers import Providers
from holdfast.testing.model_server import ModelServer, Rule

MIX = [1] * 8 + [2] * 6 + [3] * 3 + [4] * 2 + [5]
ROUTER = Router(
    [
        RoutedModel("gpt-4.1-nano", Complexity.TRIVIAL, Complexity.SIMPLE),
        RoutedModel("gpt-4.1-mini", Complexity.TRIVIAL, Complexity.MODERATE),
        RoutedModel("claude-sonnet-4-5", Complexity.MODERATE, Complexity.EXPERT),
        RoutedModel("claude-opus-4-5", Complexity.COMPLEX, Complexity.EXPERT),
    ]
)
AT_ONCE = 20


@flow(cost_limit_usd=1)
async def ask(ctx: Context, given: dict[str, int]) -> str:
    prompt = "Consider this. " * (4 + given["number"] * 37 % 196)
    return await ctx.model(ROUTER, prompt, max_tokens=600, complexity=given["level"])


async def main(calls: int) -> None:
    levels, turns = Random(7).choices(MIX, k=calls), asyncio.Semaphore(AT_ONCE)
    today = datetime.now(UTC).date().isoformat()
    with tempfile.TemporaryDirectory() as folder, ModelServer(journal=Path(folder, "calls.jsonl")) as server:
        server.script.add(Rule(text="A reply of some length, as models give it. " * 12))
        async with Engine.open(Path(folder, "bench.db"), model=Providers(environment=server.environment)) as engine:

            async def one(number: int) -> None:
                async with turns:
                    await (await engine.start(ask, {"number": number, "level": levels[number]})).result()

            await asyncio.gather(*map(one, range(calls)))
            report = await engine.routing_report(ROUTER, today, today)
        assert len(server.calls) == sum(report.calls.values()) == calls, "the other side has counted as many"
    sys.stdout.write(f"{report}\n")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
