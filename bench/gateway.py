"""What the gateway of `holdfast exec` adds to a model call: `python -m bench.gateway [CALLS] [ROUNDS]`.

The same program makes the same calls directly and through the gateway, in turns, to a local server that answers at once. A call
through the gateway is held, recorded and settled on SQLite with `synchronous=FULL`.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

MEASURE = "--measure"


def measure(calls: int) -> None:
    """Make the calls, and print how long they took, in milliseconds: whole, and up to the first text of a stream."""
    host = urlsplit(os.environ["ANTHROPIC_BASE_URL"])
    connection = http.client.HTTPConnection(host.hostname or "", host.port)
    headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
    found: dict[str, list[float]] = {"plain": [], "first": []}
    for number in range(calls):
        for kind, times in found.items():
            body = {
                "model": "claude-haiku-4-5",
                "max_tokens": 100,
                "stream": kind == "first",
                "messages": [{"role": "user", "content": f"{kind} {number}"}],
            }
            began_s = time.perf_counter()
            connection.request("POST", "/v1/messages", json.dumps(body), headers)
            reply = connection.getresponse()
            assert reply.status == 200, reply.read()
            if kind == "first":
                while b"content_block_delta" not in reply.readline():
                    pass
                times.append((time.perf_counter() - began_s) * 1000)
            reply.read()
            if kind == "plain":
                times.append((time.perf_counter() - began_s) * 1000)
    sys.stdout.write(json.dumps(found))


def main(calls: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        serving = [sys.executable, "-m", "holdfast.testing.model_server", "--journal", "calls.jsonl", "--port-file", "port"]
        with subprocess.Popen(serving, cwd=folder, stdout=subprocess.DEVNULL) as server:
            while not (folder / "port").exists():
                if server.poll() is not None:
                    raise SystemExit("The model server has ended before it listened. Nothing was measured.")
                time.sleep(0.05)
            url = f"http://127.0.0.1:{(folder / 'port').read_text().strip()}"
            environment = {**os.environ, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "any-key"}
            measuring = [sys.executable, __file__, MEASURE, str(calls)]
            through = [sys.executable, "-m", "holdfast", "exec", "--cost-limit", "1000", "--", *measuring]
            found: dict[str, dict[str, list[float]]] = {"direct": {}, "gateway": {}}
            for _ in range(rounds):
                for way, words in (("direct", measuring), ("gateway", through)):
                    ended = subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True)
                    for kind, times in json.loads(ended.stdout).items():
                        found[way].setdefault(kind, []).extend(times)
            server.terminate()
    for kind in ("plain", "first"):
        p50 = {way: statistics.median(each[kind]) for way, each in found.items()}
        p95 = {way: statistics.quantiles(each[kind], n=20)[-1] for way, each in found.items()}
        row = {
            "call": kind,
            **{f"{way}_p50_ms": round(ms, 2) for way, ms in p50.items()},
            **{f"{way}_p95_ms": round(ms, 2) for way, ms in p95.items()},
            "added_p50_ms": round(p50["gateway"] - p50["direct"], 2),
        }
        sys.stdout.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    if MEASURE in sys.argv:
        measure(int(sys.argv[-1]))
    else:
        main(*(int(each) for each in sys.argv[1:3] or ("200", "3")))
