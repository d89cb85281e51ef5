"""A model provider on the loopback interface, for tests, demos and benchmarks: every caller of a provider is its client.

It speaks the Anthropic Messages API and OpenAI's Responses, Chat Completions and Embeddings, answers by rules (`Rule`) or
plausibly by itself, fails on demand (`Fault`), and keeps a journal by which a judge can count calls even if everything else was
killed. It is no part of what it tests: nothing of Holdfast outside the test kit may be imported here.

    async with ModelServer(journal=tmp_path / "calls.jsonl") as server:
        server.script.add(Rule(model="claude-*", times=2, fault=Fault("status", status=529)))
        ...
        assert [call.outcome for call in server.calls] == ["sent", "sent", "sent"]

In a process of its own: `python -m holdfast.testing.model_server --journal calls.jsonl --rules rules.json`. Its script
is then changed by POST /_control/rules (more rules, in front) and DELETE /_control/rules (none any more).
"""

import asyncio
import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from holdfast.testing.http_server import MOMENT_S, HttpServer
from holdfast.testing.journal_file import JournalFile, read_journal
from holdfast.testing.loopback_server import LOOPBACK, arguments, rules_of, serve_until_signalled
from holdfast.testing.model_rule import Fault, FaultKind, Rule, ToolCall
from holdfast.testing.rate_limit import RateLimit, Turnstile
from holdfast.testing.script import Script, load_rules, read_rules
from holdfast.testing.scripted_model import Kind, Reply, ScriptedModel
from holdfast.testing.wire import BadRequest, Call, Usage, Wire, WireName
from holdfast.testing.wires.anthropic import AnthropicWire
from holdfast.testing.wires.embeddings import EmbeddingsWire
from holdfast.testing.wires.openai import OpenAIWire
from holdfast.testing.wires.responses import ResponsesWire

__all__ = [
    "CallRecord",
    "Fault",
    "ModelServer",
    "RateLimit",
    "Rule",
    "ToolCall",
    "Usage",
    "environment",
    "load_rules",
    "read_calls",
]

WIRES: tuple[Wire, ...] = (AnthropicWire(), OpenAIWire(), ResponsesWire(), EmbeddingsWire())
API_KEY = "any-key-will-do"
MAX_BODY_BYTES = 32 * 1024 * 1024  # as Anthropic's
EXCERPT = 200
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

Outcome = Literal["sent", "cut", "client_left"]


class CallRecord(Struct, frozen=True):
    """The journal's entry for one call.

    `used` is the truth about the tokens, whatever the reply claimed; None if the fault left no answer. `status` is that of the
    reply, 0 if there was to be none. `outcome` is None while the call waits, and for ever if the server was killed meanwhile.
    """

    number: int
    at_unix_s: float
    wire: WireName
    model: str
    request_sha256: str
    user: str
    messages: int
    turn: int
    tools: tuple[str, ...]
    cache_control_on_tools: bool
    max_tokens: int | None
    stream: bool
    kind: Kind
    called: tuple[str, ...]
    used: Usage | None
    fault: FaultKind | None
    status: int
    outcome: Outcome | None = None


def read_calls(journal: Path) -> list[CallRecord]:
    """Every call that arrived, in that order; also from a journal whose server is dead."""
    entries = read_journal(journal)
    outcomes = {entry["number"]: entry["outcome"] for entry in entries if entry["event"] == "replied"}
    return [
        msgspec.convert({**entry, "outcome": outcomes.get(entry["number"])}, CallRecord)
        for entry in entries
        if entry["event"] == "received"
    ]


def environment(port: int) -> dict[str, str]:
    """Return the environment variables of the providers' clients, pointing at a server on that port."""
    return {
        "ANTHROPIC_BASE_URL": f"http://{LOOPBACK}:{port}",
        "ANTHROPIC_API_KEY": API_KEY,
        "OPENAI_BASE_URL": f"http://{LOOPBACK}:{port}/v1",
        "OPENAI_API_KEY": API_KEY,
    }


class ModelServer(HttpServer):
    """The server, in this process but in a thread of its own. Everything here may be used from any thread."""

    def __init__(
        self,
        *,
        journal: Path,
        rules: Iterable[Rule] = (),
        port: int = 0,
        latency_s: float = 0.0,
        limits: Mapping[str, RateLimit] | None = None,
    ) -> None:
        """Continues a journal that exists. `latency_s` passes before every reply whose rule says nothing else.

        `limits`, by model, are enforced: what comes too soon is answered 429 with a Retry-After, and journaled so.
        """
        super().__init__(port)
        self._turnstiles = {model: Turnstile(limit) for model, limit in (limits or {}).items()}
        self.script = Script(rules)
        self.journal = JournalFile(journal)
        self._model = ScriptedModel(self.script, latency_s)
        self._number = max((entry.get("number", 0) for entry in self.journal.entries()), default=0)

    @property
    def anthropic_url(self) -> str:
        return self.environment["ANTHROPIC_BASE_URL"]

    @property
    def openai_url(self) -> str:
        return self.environment["OPENAI_BASE_URL"]

    @property
    def environment(self) -> dict[str, str]:
        return environment(self.port)

    @property
    def calls(self) -> list[CallRecord]:
        return read_calls(self.journal.path)

    def _application(self) -> Starlette:
        return Starlette(
            routes=[
                *map(self._route, WIRES),
                Route("/v1/{path:path}", self._not_spoken, methods=_METHODS),
                Route("/_control/rules", self._control, methods=["POST", "DELETE"]),
            ]
        )

    async def _close(self) -> None:
        await super()._close()
        self.journal.close()

    def _route(self, wire: Wire) -> Route:
        return Route(wire.path, _Endpoint(self, wire), methods=["POST"])

    async def _not_spoken(self, request: Request) -> Response:
        spoken = ", ".join(f"POST {wire.path}" for wire in WIRES)
        message = f"Use one of {spoken}: this server does not speak {request.method} {request.url.path}."
        self._write("refused", wire="openai", status=501, message=message)
        return JSONResponse({"error": {"message": message, "type": "not_implemented", "param": None, "code": None}}, 501)

    async def _control(self, request: Request) -> Response:
        if request.method == "DELETE":
            self.script.clear()
            return Response(status_code=204)
        try:
            self.script.add(*read_rules(await request.body(), Rule))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return Response(status_code=204)

    def take(self, call: Call) -> tuple[int, Reply]:
        """Number the call, find its reply and write both down, before anything else can happen to it."""
        try:
            reply = self._too_soon(call) or self._model.reply(call, self._number + 1)
        except ValueError as error:
            raise _Refused(400, str(error)) from error
        self._number += 1
        self._write(
            "received",
            number=self._number,
            wire=call.wire,
            model=call.model,
            request_sha256=call.request_sha256,
            user=call.user[:EXCERPT],
            messages=len(call.turns),
            turn=call.turn,
            tools=[tool.name for tool in call.tools],
            cache_control_on_tools=call.cache_control_on_tools,
            max_tokens=call.max_tokens,
            stream=call.stream,
            kind=reply.kind,
            called=[use.name for use in reply.answer.uses] if reply.answer else [],
            used=msgspec.to_builtins(reply.used),
            fault=reply.fault and reply.fault.kind,
            status=_status(reply),
        )
        return self._number, reply

    def _too_soon(self, call: Call) -> Reply | None:
        """The refusal of a call that its model's limits do not admit now."""
        turnstile = self._turnstiles.get(call.model)
        wait_s = turnstile.enter(call, time.monotonic()) if turnstile is not None else None
        if wait_s is None:
            return None
        message = f"This request would exceed the rate limit of {call.model}."
        return Reply("nothing", None, None, Fault("status", 429, retry_after_s=wait_s, message=message), 0.0)

    def leave(self, call: Call, reply: Reply) -> None:
        """The call is over: its place is free, and what it reserved and did not use is given back."""
        turnstile = self._turnstiles.get(call.model)
        if turnstile is not None and _status(reply) != 429:
            turnstile.leave(call, reply.used, time.monotonic())

    def end(self, number: int, outcome: Outcome) -> None:
        """Write down how the call ends, before its client can know."""
        self._write("replied", number=number, outcome=outcome)

    def refuse(self, wire: Wire, status: int, message: str) -> None:
        """Write down a request that was none."""
        self._write("refused", wire=wire.name, status=status, message=message)

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def _write(self, event: str, **facts: Any) -> None:
        self.journal.append({"event": event, "at_unix_s": time.time(), **facts})


class _Refused(Exception):
    """No call: the provider answers with an error, and nothing is spent."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Endpoint:
    """The path of one wire format, as an ASGI application: reads a call, waits, and sends or breaks the reply."""

    def __init__(self, server: ModelServer, wire: Wire) -> None:
        self._server = server
        self._wire = wire

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            call = await self._read(Request(scope, receive))
            number, reply = self._server.take(call)
        except ClientDisconnect:
            return
        except _Refused as refused:
            self._server.refuse(self._wire, refused.status, str(refused))
            body = self._wire.error(refused.status, None, str(refused))
            await JSONResponse(body, refused.status)(scope, receive, send)
            return
        try:
            await self._send(number, call, reply, scope, receive, send)
        finally:
            self._server.leave(call, reply)

    async def _send(self, number: int, call: Call, reply: Reply, scope: Scope, receive: Receive, send: Send) -> None:
        fault = reply.fault.kind if reply.fault else None
        if await _client_left(receive, within_s=None if fault == "hang" else reply.latency_s):
            self._server.end(number, "cut" if self._server.stopping else "client_left")
        elif fault == "cut_before_reply":
            self._server.end(number, "cut")
            self._server.drop(scope["client"])
            await _client_left(receive, within_s=MOMENT_S)
        else:
            chunks = self._chunks(call, reply)
            await send(_start(number, call, reply, chunks))
            cut = fault == "cut_in_body"
            *most, last = chunks[: -(-len(chunks) // 2)] if cut else chunks
            for chunk in most:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                if call.stream and reply.pause_s and await _client_left(receive, within_s=reply.pause_s):
                    self._server.end(number, "cut" if self._server.stopping else "client_left")
                    return
            self._server.end(number, "cut" if cut else "sent")
            await send({"type": "http.response.body", "body": last, "more_body": cut})
            if cut:
                self._server.drop(scope["client"])
                await _client_left(receive, within_s=MOMENT_S)

    async def _read(self, request: Request) -> Call:
        if not (request.headers.get("x-api-key") or request.headers.get("authorization")):
            raise _Refused(401, "An API key is required, in the header x-api-key or Authorization.")
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise _Refused(413, f"Request exceeds the maximum allowed number of bytes ({MAX_BODY_BYTES}).")
        try:
            return self._wire.read(json.loads(body))
        except BadRequest as error:
            raise _Refused(400, str(error)) from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise _Refused(400, f"The request is not of this format: {type(error).__name__}: {error}") from error

    def _chunks(self, call: Call, reply: Reply) -> list[bytes]:
        """The body of the reply: event by event, or in two halves."""
        fault, answer = reply.fault, reply.answer
        error = self._wire.error(fault.status, fault.code, fault.message) if fault else {}
        if _status(reply) != 200:
            return [_json(error)]
        if answer is None:
            return [b'event: message\ndata: {"id": \n\n' if call.stream else b'{"id": ']
        if not call.stream:
            body = _json(self._wire.reply(call, answer))
            return [body[: len(body) // 2], body[len(body) // 2 :]]
        events = self._wire.events(call, answer)
        if fault and fault.kind == "stream_error":
            events = [*events[: len(events) // 2], self._wire.error_event(error)]
        return [event.encode(errors="replace") for event in events]


def _status(reply: Reply) -> int:
    match reply.fault:
        case Fault("status" | "stream_error", status=status) if reply.answer is None:
            return status
        case Fault("hang" | "cut_before_reply"):
            return 0
        case _:
            return 200


def _start(number: int, call: Call, reply: Reply, chunks: list[bytes]) -> Message:
    headers = {"request-id": f"req_{number}", "x-request-id": f"req_{number}"}
    status = _status(reply)
    if call.stream and status == 200:
        headers["content-type"] = "text/event-stream; charset=utf-8"
    else:
        headers |= {"content-type": "application/json", "content-length": str(sum(map(len, chunks)))}
    if reply.fault and reply.fault.retry_after_s is not None:
        headers["retry-after"] = f"{reply.fault.retry_after_s:g}"
    return {
        "type": "http.response.start",
        "status": status,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }


def _json(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode(errors="replace")


async def _client_left(receive: Receive, *, within_s: float | None) -> bool:
    """Return True if the client closes the connection within that time; without a limit, wait until it does."""
    if within_s == 0:
        return False
    try:
        async with asyncio.timeout(within_s):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True


def main() -> None:
    """Serve until SIGINT or SIGTERM. The base URLs appear on stdout as lines for a shell's `export`."""
    parser = arguments("A deterministic model provider for tests, on the loopback interface.")
    parser.add_argument("--latency-s", type=float, default=0.0, help="seconds before every reply whose rule says nothing else")
    options = parser.parse_args()
    server = ModelServer(
        journal=options.journal, rules=rules_of(parser, options.rules, Rule), port=options.port, latency_s=options.latency_s
    )
    serve_until_signalled(
        server, options.port_file, lambda: "\n".join(f"{name}={value}" for name, value in server.environment.items())
    )


if __name__ == "__main__":
    main()
