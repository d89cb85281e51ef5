"""An agent on OpenAI's own SDK, which knows nothing of Holdfast: seven calls, three of them at once, two streamed."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import openai

Path("pid").write_text(f"{os.getpid()}\n")
client = openai.AsyncOpenAI()
MODEL = "gpt-5-mini"


async def ask(text: str) -> str:
    reply = await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}])
    return reply.choices[0].message.content or ""


async def ask_streamed(text: str) -> str:
    pieces = await client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": text}], stream=True)
    return "|".join([piece.choices[0].delta.content or "" async for piece in pieces if piece.choices])


async def main() -> None:
    print(await ask("one"), flush=True)
    print(*await asyncio.gather(ask("two left"), ask("two middle"), ask("two right")), flush=True)
    print(await ask_streamed("three"), flush=True)
    print(await ask_streamed("four"), flush=True)
    print(await ask("five"), flush=True)


try:
    asyncio.run(main())
except openai.APIStatusError as problem:
    print(problem.status_code, problem.message, file=sys.stderr)
    sys.exit(0 if "hides" in sys.argv else 9)
