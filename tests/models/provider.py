"""A provider that says what it is told to, byte for byte, and keeps what it was sent."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.ports import AnswerSpec, ModelRequest, ModelTurn, ToolSpec, Turn, UserTurn

CLAUDE, GPT = "claude-haiku-4-5", "gpt-4.1-nano"
KEY = "sk-canary-7d1f0c"

LOOK_UP = ToolSpec(
    "look_up", "Looks up a supplier.", {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
)
VERDICT = AnswerSpec(
    "verdict",
    "The verdict.",
    {"type": "object", "properties": {"fit": {"type": "boolean"}, "why": {"type": "string"}}, "required": ["fit", "why"]},
)


def ask(model: str, *turns: Turn, **options: Any) -> ModelRequest:
    options = {"max_tokens": 200, "timeout_s": 20.0, **options}
    return ModelRequest(model, "Be brief.", turns or (UserTurn("Is Ada & Co. any good?"),), **options)


def stored(turn: Any) -> ModelTurn:
    """A reply as a later request has it: through JSON, as the run's history keeps it."""
    return ModelTurn(msgspec.json.decode(msgspec.json.encode(turn)))


class Wire:
    """A provider that sends prepared replies, the last one for ever, and keeps what it was sent."""

    port = 0

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.requests: list[dict[str, Any]] = []
        self.heads: list[str] = []
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def will_say(self, body: Any, status: int = 200, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json", "content-length": str(len(content)), **headers}
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.replies.append(f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + content)

    def will_stream(self, *events: Any, done: bool = True, **headers: str) -> None:
        """Server-sent events, as both providers write them; `done` is OpenAI's last word."""
        said = "".join(f"event: {event.get('type', 'chunk')}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.will_say(f"{said}{'data: [DONE]' * done}\n\n".encode(), **{"content-type": "text/event-stream"}, **headers)

    def says_only(self, body: Any) -> None:
        self.replies.clear()
        self.will_say(body)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self.heads.append(head.decode().lower())
                self.requests.append(json.loads(await reader.readexactly(length)))
                writer.write(self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])
                await writer.drain()
        writer.close()


def environment(port: int) -> Mapping[str, str]:
    return {
        "ANTHROPIC_BASE_URL": f"http://someone:{KEY}@127.0.0.1:{port}",
        "OPENAI_BASE_URL": f"http://someone:{KEY}@127.0.0.1:{port}/v1",
        "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}",
        "GEMINI_API_KEY": KEY,
    }


def anthropic_reply(*content: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": CLAUDE,
        "content": list(content),
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **fields,
    }


def openai_reply(message: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": None, **message}}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"id": "c_1", "object": "chat.completion", "created": 1, "model": GPT, "choices": [choice], "usage": usage, **fields}
