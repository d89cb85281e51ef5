"""A server with canaries in everything that users hand over, and whatever leaves it: the places in which to look for them.

Never here: which canary may be where (table).
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx2

from holdfast.analytics.row import row_of
from holdfast.core.facts.events import ModelCallHeld, RunStarted
from holdfast.http.openapi import document
from holdfast.ports import CommittedEvent
from holdfast.storage import open_store
from holdfast.testing.mail_sink import MailSink
from holdfast.testing.model_server import Fault, ModelServer, Rule
from holdfast.testing.server_process import free_port
from tests.telemetry.receiver import Received, http_receiver

KINDS: Final = {
    # Secrets: nowhere but in what holds them.
    "provider's key": "sk-ant-canary-0a1b2c3d4e5f",
    "secret of a tool": "canary/secret+of=a&tool-91f2",
    "secret of a step": "canary-secret-of-a-step-77ac",
    "secret of a receiver": "canary-otlp-token-5b5b",
    "secret of a webhook": "whsec_Y2FuYXJ5LXNlY3JldC1vZi1hLXdlYmhvb2stNDQ=",
    "secret of a hook": "canary-secret-of-a-hook-in-1f1f1f1f",
    "token of a caller": "canary-token-of-a-caller-c0ffee",
    # What a run is about, and what comes of it.
    "address": "canary.person@example.com",
    "card": "4929 1234 5678 9012",
    "prompt": "canary-prompt-e1e1",
    "input": "canary-input-f2f2",
    "argument of a tool": "canary-argument-a3a3",
    "result of a tool": "canary-result-b4b4",
    "exception": "canary-exception-c5c5",
    "error of a provider": "canary-provider-d6d6",
    "question": "canary-question-e7e7",
    "decision": "canary-decision-f8f8",
    "output": "canary-output-a9a9",
    "printed by a job": "canary-printed-b0b0",
    # What a person has named.
    "label": "canary-label-c1c1",
    "reason": "canary-reason-d2d2",
    # What is nobody's business.
    "header": "canary-header-e3e3",
    "wrong request": "canary-wrong-f4f4",
}

FLOWS = """
import os, threading
from pydantic import BaseModel
from holdfast import Context, OperationFailed, flow, http_tool, secret, step

class Form(BaseModel):
    words: str

class Customer(BaseModel):
    text: str

crm = http_tool("crm", "POST", os.environ["CRM_URL"], parameters=Customer, effect="idempotent", allow_private=["127.0.0.1"],
                headers={"X-Key": secret("CRM_TOKEN")})

@step
def fails(words: str, key: str) -> None:
    thread = threading.Thread(target=divide, args=(key,))
    thread.start(); thread.join()
    raise ValueError(f"{words} {key}")

def divide(key: str) -> None:
    raise ZeroDivisionError(key)

@flow(tools=[crm])
async def planted(ctx: Context, data: dict) -> str:
    await ctx.model("claude-haiku-4-5", f"{data['prompt']} {data['address']} {data['card']}", max_tokens=50)
    await ctx.tool("crm", text=data["argument of a tool"])
    try:
        await ctx.model("claude-haiku-4-5", "be refused", max_tokens=50)
    except OperationFailed:
        pass
    answer = await ctx.ask({"diff": data["question"], "to": data["address"]}, form=Form)
    return f"{data['output']} {answer.data.words} {ctx.secret('STEP_SECRET')}"

@flow
async def failing(ctx: Context, data: dict) -> None:
    await fails(data["exception"], ctx.secret("STEP_SECRET"))
"""
JOBS = """
jobs:
  say:
    runs-on: any
    env: {WORDS: '${{ inputs.words }}', GO: '${{ vars.GO }}'}
    steps: [{run: 'echo "$WORDS"; until [ -e "$GO" ]; do sleep 0.05; done'}]
"""


class World:
    """A server whose runs have come to an end."""

    def __init__(self, folder: Path, spans: Received) -> None:
        self.folder = folder
        self.spans = spans
        self.places: dict[str, bytes] = {}
        """What was said to whom, by the names of the places in the table."""
        self.runs: list[str] = []
        self.environment: dict[str, str] = {}

    def say(self, place: str, said: bytes | str) -> None:
        data = said.encode("utf-8", "replace") if isinstance(said, str) else said
        self.places[place] = self.places.get(place, b"") + data + b"\n"

    def command(self, words: str, **environment: str) -> str:
        """What a command says, on both its streams."""
        line = [sys.executable, "-m", "holdfast", *shlex.split(words)]
        done = subprocess.run(
            line, cwd=self.folder, env=self.environment | environment, capture_output=True, text=True, timeout=60, check=False
        )
        return f"{done.stdout}\n{done.stderr}"


@contextmanager
def receiver() -> Iterator[tuple[str, list[bytes]]]:
    """The other side of a tool and of notifications, and what was notified."""
    notified: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path != "/customers":
                notified.append(f"{self.path} {self.headers}".encode() + body)
            said = json.dumps({"said": KINDS["result of a tool"], "you_are": self.headers["x-key"]}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", notified
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def planted_world(folder: Path) -> Iterator[World]:
    """Run everything, and keep what was said; the server still answers."""
    with ExitStack() as stack:
        models = stack.enter_context(ModelServer(journal=folder.parent / "calls-of-canaries.jsonl"))
        refusal = " ".join([KINDS["error of a provider"], KINDS["provider's key"]])
        models.script.add(Rule(user="be refused", fault=Fault("status", status=400, message=refusal)))
        (other, notified), (otlp, spans) = stack.enter_context(receiver()), stack.enter_context(http_receiver())
        mails = stack.enter_context(MailSink(journal=folder.parent / "mails-of-canaries.jsonl"))
        world = World(folder, spans)
        port, health = free_port(), free_port()
        (folder / "flows.py").write_text(FLOWS)
        (folder / "jobs.yaml").write_text(JOBS)
        for name, kind in (("token", "token of a caller"), ("secrets", "secret of a tool")):
            (folder / name).touch(0o600)
            (folder / name).write_text(KINDS[kind] if name == "token" else f"CRM_TOKEN={KINDS[kind]}\n")
        occasions = ["gate_opened", "run_completed", "run_failed", "dead_letter", "doubt", "run_budget_blocked"]
        rules = "".join(
            f'[notifications.{name}]\noccasions = {json.dumps(occasions)}\nchannel = "{name}"\ndigest_s = 0\n'
            for name in ("hook", "slack", "mail", "loud")
        )
        (folder / "holdfast.toml").write_text(
            f'secrets_file = "secrets"\n[vars]\nGO = "{folder / "go"}"\n'
            f'[channels.hook]\nkind = "webhook"\nurl = "{other}/hook"\nsecrets = ["HOOK_SECRET"]\nallow_private = ["127.0.0.0/8"]\n'
            '[channels.slack]\nkind = "slack"\nurl_secret = "SLACK_URL"\nallow_private = ["127.0.0.0/8"]\n'
            f'[channels.mail]\nkind = "mail"\nhost = "127.0.0.1"\nport = {mails.port}\nsecurity = "none"\n'
            'sender = "holdfast@example.com"\nto = ["ops@example.com"]\nallow_private = ["127.0.0.0/8"]\n'
            f'[channels.loud]\nkind = "webhook"\nurl = "{other}/loud"\nsecrets = ["HOOK_SECRET"]\nallow_private = ["127.0.0.0/8"]\n'
            '[hooks.shop]\nscheme = "secret"\nsecrets = ["SHOP_SECRET"]\nheader = "X-Shop"\naction = "signal"\nsignal = "paid"\n'
            'key = "${{ body.key }}"\ndata = "${{ body }}"\n'
            f"{rules}details = true\n"
            f'[telemetry]\nendpoint = "{otlp}"\nheaders = {{authorization = "OTLP_TOKEN"}}\n'
        )
        world.environment = (
            os.environ
            | models.environment
            | {
                "ANTHROPIC_API_KEY": KINDS["provider's key"],
                "STEP_SECRET": KINDS["secret of a step"],
                "OTLP_TOKEN": KINDS["secret of a receiver"],
                "NO_PROXY": "127.0.0.1",
                "CRM_URL": f"{other}/customers",
                "HOOK_SECRET": KINDS["secret of a webhook"],
                "SHOP_SECRET": KINDS["secret of a hook"],
                "SLACK_URL": f"{other}/slack",
            }
        )
        words = ["flows.py:planted", "flows.py:failing", "jobs.yaml", "--http", f"127.0.0.1:{port}", "--port", str(health)]
        said = stack.enter_context((folder / "said").open("wb"))
        serving = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "serve", *words, "--token-file", "token"],
            cwd=folder,
            env=world.environment | {"HOLDFAST_LOGS": '{"format": "json", "level": "debug"}'},
            stdout=said,
            stderr=said,
        )
        stack.callback(serving.wait, 30)
        stack.callback(serving.kill)
        headers = {
            "authorization": f"Bearer {KINDS['token of a caller']}",
            "x-customer": KINDS["header"],
            "user-agent": KINDS["header"],
            "cookie": f"theirs={KINDS['header']}",
        }
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=30) as http:
            until(lambda: _answers(http), 30)
            _run(world, http, serving.pid)
            _read(world, http)
            _probe(world, f"http://127.0.0.1:{port}")
        world.say("metrics", httpx2.get(f"http://127.0.0.1:{health}/metrics", trust_env=False).content)
        until(lambda: len({span.trace_id for span in spans.spans}) >= len(world.runs), 30)
        for path in (b"/hook", b"/slack", b"/loud"):
            until(lambda path=path: sum(each.startswith(path) for each in notified) >= NOTIFIED, 30)  # type: ignore[misc]
        until(lambda: len(mails.messages) >= NOTIFIED, 30)
        loud = [each for each in notified if each.startswith(b"/loud")]
        world.say("notifications with details", b"\n".join(loud))
        world.say("notifications", b"\n".join(each for each in notified if each not in loud))
        world.say("notifications", (folder.parent / "mails-of-canaries.jsonl").read_bytes())
        serving.terminate()
        serving.wait(30)
        for body, sent in zip(spans.bodies, spans.headers, strict=False):
            world.say("traces", body)
            world.say("headers of traces", json.dumps(sent))
        world.say("log lines", (folder / "said").read_bytes())
        world.say("rows for ClickHouse", asyncio.run(_rows(folder / "holdfast.db")))
        world.say("requests in histories", asyncio.run(_requests(folder / "holdfast.db")))
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name not in ("token", "secrets", "said"):
                world.say("files", file.read_bytes())
        yield world


def until(condition: Callable[[], bool], within_s: float) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "it does not come"
        time.sleep(0.05)


def _answers(http: httpx2.Client) -> bool:
    try:
        return http.get("/api/v1/me").status_code == 200
    except httpx2.HTTPError:
        return False


def _run(world: World, http: httpx2.Client, server: int) -> None:
    named = {"labels": {"customer": KINDS["label"]}, "tags": [KINDS["label"]]}
    for workflow, given in (
        ("planted", KINDS_OF_RUN),
        ("failing", KINDS_OF_RUN),
        ("jobs", {"words": KINDS["printed by a job"]}),
    ):
        started = http.post("/api/v1/runs", json={"workflow": workflow, "input": given, **named})
        world.runs.append(started.raise_for_status().json()["run_id"])
    gates: list[Any] = []
    until(lambda: gates.extend(http.get("/api/v1/gates").json()["rows"]) or bool(gates), 30)
    (gate,) = gates
    until(lambda: len(descendants(server)) > 0, 30)
    for pid in [server, *descendants(server)]:
        world.say("arguments of processes", _proc(pid, "cmdline"))
        if pid != server:
            world.say("environment of scripts", _proc(pid, "environ"))
    (world.folder / "go").touch()
    place = f"/api/v1/gates/{quote(gate['gate_id'], safe='')}"
    shown = http.get(place).raise_for_status().json()
    world.say("questions", json.dumps(shown))
    decided = {
        "decision": "answer",
        "data": {"words": KINDS["decision"]},
        "reason": KINDS["reason"],
        "shown_hash": shown["shown_hash"],
    }
    reply = http.post(f"{place}/decision", json=decided)
    assert reply.status_code == 200, reply.text
    until(lambda: all(http.get(f"/api/v1/runs/{run}").json()["status"] != "running" for run in world.runs), 60)


async def _rows(store: Path) -> str:
    """What ClickHouse would get of all events."""
    opened = await open_store(store)
    try:
        events, _ = await opened.tail.after(None, 10_000)
        owners: dict[str, Any] = {}
        rows = []
        for each in events:
            if isinstance(each.recorded.event, RunStarted):
                owners[each.run] = each.recorded.event
            start = owners[each.run]
            rows.append(row_of(CommittedEvent(each.run, "default", start.workflow, start.version, each.recorded)))
        return repr(rows)
    finally:
        await opened.aclose()


async def _requests(store: Path) -> str:
    """What histories keep of the requests to models."""
    opened = await open_store(store)
    try:
        events, _ = await opened.tail.after(None, 10_000)
        held = [each.recorded.event for each in events if isinstance(each.recorded.event, ModelCallHeld)]
        return json.dumps([each.request.value() for each in held if each.request is not None])
    finally:
        await opened.aclose()


NOTIFIED: Final = 4
"""A question, and the ends of three runs."""
KINDS_OF_RUN: Final = {kind: KINDS[kind] for kind in [*KINDS][7:19]}


def _read(world: World, http: httpx2.Client) -> None:
    """All that can be asked of the API, as somebody who may."""
    values = {"run": world.runs, "parent": world.runs[:1], "name": ["planted"], "gate": []}
    for path, about in document()["paths"].items():
        if "get" not in about or path.endswith("/stream"):
            continue
        needed = [each["name"] for each in about["get"].get("parameters", ()) if each.get("required")]
        ways = values["run"] if "run" in needed else ["none"]
        for value in ways:
            filled = {name: values.get(name, ["none"])[0] if values.get(name) else "none" for name in needed} | (
                {"run": value} if "run" in needed else {}
            )
            if "other" in needed:
                filled["other"] = world.runs[-1]
            if "seq" in needed:
                filled["seq"] = "1"
            if "map" in needed:
                filled["map"] = "none"
            place = path
            for name, inner in filled.items():
                place = place.replace(f"{{{name}}}", inner)
            with http.stream("GET", place, params={n: v for n, v in filled.items() if f"{{{n}}}" not in path}) as reply:
                kind = "audit log" if "/audit" in path else f"pages {'of a run' if 'run' in needed else 'of lists'}"
                if "event-stream" not in reply.headers.get("content-type", ""):
                    world.say(kind, reply.read())
                world.say("headers of replies", json.dumps(dict(reply.headers)))


def _probe(world: World, server: str) -> None:
    """What somebody without a token is told, and somebody who makes a mistake; and what a browser loads."""
    wrong = KINDS["wrong request"]
    headers = {"x-customer": KINDS["header"], "authorization": f"Bearer {wrong}"}
    with httpx2.Client(base_url=server, trust_env=False, timeout=30, follow_redirects=True) as stranger:
        for path in ("/", "/index.html", "/favicon.ico", "/openapi.json", "/docs"):
            world.say("pages for anyone", stranger.get(path).content)
        for run in world.runs:
            for path in (f"/api/v1/runs/{run}", f"/api/v1/runs/{run}/events", "/api/v1/gates"):
                world.say("errors for strangers", stranger.get(path, headers=headers).content)
        for sent in ({"x-shop": KINDS["secret of a hook"]}, {"x-shop": wrong}):
            body = {"key": wrong, "input": wrong, wrong: wrong}
            world.say("answers to hooks", stranger.post("/hooks/shop", json=body, headers=headers | sent).content)
            world.say("answers to hooks", stranger.post(f"/hooks/{wrong}", json=body, headers=headers | sent).content)
    headers["authorization"] = f"Bearer {KINDS['token of a caller']}"
    with httpx2.Client(base_url=server, headers=headers, trust_env=False, timeout=30) as http:
        for reply in (
            http.get(f"/api/v1/runs/{wrong}"),
            http.get("/api/v1/runs", params={wrong: wrong}),
            http.post("/api/v1/runs", content=f"{{not json {wrong}"),
            http.post("/api/v1/runs", json={"workflow": wrong, "input": wrong, wrong: wrong}),
            http.post("/api/v1/runs", json={"workflow": "planted", "input": wrong}),
            http.put(f"/api/v1/{wrong}"),
        ):
            world.say("errors for the sender", reply.content)


def descendants(pid: int) -> Sequence[int]:
    """The processes that a process has begun, and theirs."""
    found, left = [], [pid]
    while left:
        each = left.pop()
        for thread in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                theirs = [int(word) for word in thread.read_text().split()]
            except OSError:
                continue
            found += theirs
            left += theirs
    return found


def _proc(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""
