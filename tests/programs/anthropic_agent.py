"""An agent on Anthropic's own SDK, which knows nothing of Holdfast: seven calls, three of them at once, two streamed."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anthropic

Path("pid").write_text(f"{os.getpid()}\n")
client = anthropic.Anthropic()
MODEL = "claude-haiku-4-5"


def ask(text: str) -> str:
    reply = client.messages.create(model=MODEL, max_tokens=200, messages=[{"role": "user", "content": text}])
    return reply.content[0].text


def ask_streamed(text: str) -> str:
    with client.messages.stream(model=MODEL, max_tokens=200, messages=[{"role": "user", "content": text}]) as stream:
        return "|".join(stream.text_stream)


def main() -> None:
    print(ask("one"), flush=True)
    with ThreadPoolExecutor(3) as pool:
        print(*pool.map(ask, ["two left", "two middle", "two right"]), flush=True)
    print(ask_streamed("three"), flush=True)
    print(ask_streamed("four"), flush=True)
    print(ask("five"), flush=True)


try:
    main()
except anthropic.APIStatusError as problem:
    print(problem.status_code, problem.message, file=sys.stderr)
    sys.exit(0 if "hides" in sys.argv else 9)
