"""An agent without an SDK, which knows nothing of Holdfast: it speaks Anthropic's format over sockets of its own. Seven calls,
three of them at once, two streamed. `hides`: it ends well whatever happens; `leaves`: it hangs up at first; `stays`: it goes on although
its calls are refused."""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

Path("pid").write_text(f"{os.getpid()}\n")
HOST = urlsplit(os.environ["ANTHROPIC_BASE_URL"])
FIRST = Path("question").read_text() if Path("question").exists() else "one"


class RefusedError(Exception):
    """An error of the provider."""


def send(text: str, *, stream: bool) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(HOST.hostname or "", HOST.port, timeout=60)
    body = {"model": "claude-haiku-4-5", "max_tokens": 200, "messages": [{"role": "user", "content": text}], "stream": stream}
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
    connection.request("POST", "/v1/messages", json.dumps(body), headers)
    return connection


def ask(text: str, *, stream: bool = False) -> str:
    reply = send(text, stream=stream).getresponse()
    content = reply.read().decode()
    if reply.status != 200:
        raise RefusedError(f"{reply.status} {content}")
    if not stream:
        return str(json.loads(content)["content"][0]["text"])
    events = [json.loads(line[6:]) for line in content.splitlines() if line.startswith("data: ")]
    return "|".join(each["delta"]["text"] for each in events if each["type"] == "content_block_delta")


def main() -> None:
    if "leaves" in sys.argv:
        send(FIRST, stream=False).close()
        time.sleep(0.5)  # as the SDKs do before they try again
    print(ask(FIRST), flush=True)
    with ThreadPoolExecutor(3) as pool:
        print(*pool.map(ask, ["two left", "two middle", "two right"]), flush=True)
    print(ask("three", stream=True), flush=True)
    print(ask("four", stream=True), flush=True)
    print(ask("five"), flush=True)


try:
    main()
except RefusedError as problem:
    print(problem, file=sys.stderr)
    if "stays" in sys.argv and str(problem).startswith("402"):
        time.sleep(600)
    sys.exit(0 if "hides" in sys.argv else 9)
