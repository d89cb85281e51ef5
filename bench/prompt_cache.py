"""What a provider's cache of prompts saves: agents with tools, whose definitions are cached and read again each turn.

usage: python -m bench.prompt_cache [AGENTS]

Each agent has 12 tools and calls one in each of 8 turns before it answers. The calls are real ones to the model server over
HTTP, which caches marked beginnings as Anthropic does; prices are those of the snapshot. Prints what was paid, and what the
same tokens had cost without the cache.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from holdfast import Context, Engine, Tool, flow, tool
from holdfast.models.prices import Prices
from holdfast.models.providers import Providers
from holdfast.ports import Usage
from holdfast.testing.model_server import ModelServer, Rule, ToolCall

MODEL: Final = "claude-sonnet-4-5"
TOOLS, TURNS = 12, 8
AT_ONCE: Final = 10
_TOLD: Final = "Looks up one of the things that an agent of a case desk needs to know, and says what is known of it. "


def look_up(number: int) -> Tool:
    async def look(case: str, since: str = "", limit: int = 10, fields: str = "") -> str:
        return f"case {case} is open since {since or 'ever'}"

    look.__name__, look.__doc__ = f"look_up_{number}", _TOLD * 3
    return tool(effect="read")(look)


DESK: Final = [look_up(number) for number in range(TOOLS)]


@flow(tools=DESK, cost_limit_usd=5)
async def agent(ctx: Context, given: dict[str, int]) -> Any:
    question = f"What is known of case {given['number']}?"
    return await ctx.agent(MODEL, question, tools=DESK, max_turns=TURNS + 1, max_tokens=600)


async def main(agents: int) -> None:
    turns = asyncio.Semaphore(AT_ONCE)
    with tempfile.TemporaryDirectory() as folder, ModelServer(journal=Path(folder, "calls.jsonl")) as server:
        for turn in range(1, TURNS + 1):
            server.script.add(Rule(turn=turn, tool_calls=(ToolCall(f"look_up_{turn}", {"case": "7"}),)))
        server.script.add(Rule(turn=TURNS + 1, text="It is open, and nobody looks after it. " * 8))
        async with Engine.open(Path(folder, "bench.db"), model=Providers(environment=server.environment)) as engine:

            async def one(number: int) -> int:
                async with turns:
                    run = await engine.start(agent, {"number": number})
                    await run.result()
                    return (await run.state()).budget.settled_nanousd

            paid = sum(await asyncio.gather(*map(one, range(agents))))
        calls, price = server.calls, Prices().of(MODEL)
        plain = sum(price.cost_nanousd(Usage(each.used.input_tokens, each.used.output_tokens)) for each in calls)
        read = sum(each.used.cache_read_tokens for each in calls)
        tokens = sum(each.used.input_tokens for each in calls)
    told = {
        "agents": agents,
        "calls": len(calls),
        "paid_usd": paid / 1e9,
        "without_cache_usd": plain / 1e9,
        "saved": round(1 - paid / plain, 3),
        "input_read_from_cache": round(read / tokens, 3),
    }
    print(json.dumps(told))  # noqa: T201 - the line is what it is for


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 50))
