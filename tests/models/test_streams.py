"""The Model port's stream over a real connection: its pieces are those of the reply that the same request brings whole, and a
failure says what became of the call, wherever it breaks off."""

from __future__ import annotations

import json
import random
import re
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import ModelError, ModelRateLimited, ModelRefused, ModelUncertain
from holdfast.models import openai
from holdfast.models.openai_stream import ThinkingFilter
from holdfast.models.providers import Providers
from holdfast.models.stream import REPLY_BYTES, Events, ReplyTooLarge
from holdfast.ports import ModelDelta, ModelReply, ModelRequest, TextDelta, ThinkingDelta, ToolDelta, Usage, UsageDelta
from holdfast.testing.model_server import Fault, ModelServer, Rule, ToolCall
from holdfast.testing.model_server import Usage as Used
from holdfast.testing.pieces import streamed
from tests.models.provider import CLAUDE, GPT, KEY, LOOK_UP, VERDICT, Wire, ask

BOTH = pytest.mark.parametrize("model", [CLAUDE, GPT])
LOOKS = ToolCall("look_up", {"name": "Ada & Co., of a name that takes more than one piece"})
FIT = {"fit": True, "why": "solid, and of a reason that takes more than one piece"}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ModelServer]:
    async with ModelServer(journal=tmp_path / "calls.jsonl") as server:
        yield server


@pytest.fixture
async def providers(server: ModelServer) -> AsyncIterator[Providers]:
    providers = Providers(environment={**server.environment, "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY})
    yield providers
    await providers.aclose()


async def read(providers: Providers, request: ModelRequest, came: list[ModelDelta] | None = None) -> ModelReply:
    """The reply at the end of a stream, whose pieces must be the reply's; `came` has them even where it fails."""
    came = came if came is not None else []
    reply = None
    async with aclosing(providers.stream(request)) as stream:
        async for piece in stream:
            assert reply is None, "the reply is the last"
            if isinstance(piece, ModelReply):
                reply = piece
            else:
                came.append(piece)
    assert reply is not None
    joined(came, reply)
    return reply


def joined(came: list[ModelDelta], reply: ModelReply) -> None:
    assert "".join(piece.text for piece in came if isinstance(piece, TextDelta)) == reply.text
    calls: dict[tuple[str, str], str] = {}
    for piece in came:
        if isinstance(piece, ToolDelta):
            assert bool(piece.arguments) is ((piece.id, piece.name) in calls), "each begins without a word"
            calls[piece.id, piece.name] = calls.get((piece.id, piece.name), "") + piece.arguments
    asked = [*reply.tool_requests, *([reply.answer] if reply.answer is not None else [])]
    assert {(call.id, call.name): call.arguments for call in asked} == {
        call: json.loads(text or "{}") for call, text in calls.items()
    }
    used = [piece.usage for piece in came if isinstance(piece, UsageDelta)]
    assert used[-1:] == [reply.usage] * (reply.usage is not None)


def nameless(reply: ModelReply) -> str:
    """Without what the model server makes of a request's bytes and its number."""
    plain = msgspec.json.encode(msgspec.structs.replace(reply, response_id=None)).decode()
    return re.sub(r"call_[0-9a-f]{24}", "call", plain)


@BOTH
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (Rule(text="Yes, a sound supplier. " * 50, usage=Used(100, 9, cache_read_tokens=30)), {}),
        (Rule(text="word " * 100), {"max_tokens": 5}),
        (Rule(text="I look.", tool_calls=(LOOKS, ToolCall("look_up", {"name": "B"})), usage=Used(9, 9)), {"tools": (LOOK_UP,)}),
        (Rule(output=FIT, usage=Used(9, 9)), {"answer": VERDICT}),
        (Rule(text="So:", tool_calls=(LOOKS,), output=FIT, usage=Used(9, 9)), {"tools": (LOOK_UP,), "answer": VERDICT}),
        (Rule(text="Yes.", fault=Fault("missing_usage")), {}),
    ],
    ids=["text", "length", "tools", "answer", "both", "no usage"],
)
async def test_the_pieces_are_those_of_the_reply_that_comes_whole(
    providers: Providers, server: ModelServer, model: str, rule: Rule, options: Any
) -> None:
    server.script.add(rule)
    request = ask(model, **options)
    whole = await providers.request(request)
    assert nameless(await read(providers, request)) == nameless(whole)
    assert [call.stream for call in server.calls] == [False, True]


async def failure(providers: Providers, request: ModelRequest) -> tuple[ModelError, list[ModelDelta]]:
    came: list[ModelDelta] = []
    with pytest.raises(ModelError) as raised:
        await read(providers, request, came)
    assert KEY not in str(raised.value)
    assert raised.value.__context__ is None
    return raised.value, came


@BOTH
@pytest.mark.parametrize(
    ("fault", "kind", "error_class", "begins"),
    [
        (Fault("status", status=529, message=f"no, and not {KEY}"), ModelRefused, "model_transient", False),
        (Fault("status", status=400), ModelRefused, "validation", False),
        (Fault("status", status=429, retry_after_s=7), ModelRateLimited, "rate_limit", False),
        (Fault("status", status=504), ModelUncertain, "timeout", False),
        (Fault("cut_before_reply"), ModelUncertain, "network", False),
        (Fault("cut_in_body"), ModelUncertain, "network", True),
        (Fault("stream_error", message=f"overloaded, says {KEY}"), ModelUncertain, "model_transient", True),
        (Fault("malformed_body"), ModelUncertain, "model_transient", False),
    ],
    ids=lambda each: each.kind if isinstance(each, Fault) else "",
)
async def test_a_failure_says_what_became_of_the_call(
    providers: Providers, server: ModelServer, model: str, fault: Fault, kind: type, error_class: str, begins: bool
) -> None:
    server.script.add(Rule(text="word " * 200, fault=fault))
    error, came = await failure(providers, ask(model))
    assert (type(error), error.error_class) == (kind, error_class)
    assert any(isinstance(piece, TextDelta) for piece in came) is begins
    assert len(server.calls) == 1, "nothing sends a call again by itself"


@BOTH
async def test_no_piece_is_waited_for_beyond_the_deadline(wire: Wire, wired: Providers, model: str) -> None:
    begun: list[Any] = [message_start(), *text_block(0, "Yes")] if model == CLAUDE else [chunk({"content": "Yes"})]
    wire.will_stream(*begun, done=False, **{"content-length": "100000"})
    started = time.monotonic()
    error, came = await failure(wired, ask(model, timeout_s=0.3))
    assert (type(error), error.error_class) == (ModelUncertain, "timeout")
    assert [piece for piece in came if isinstance(piece, TextDelta)] == [TextDelta("Yes")]
    assert time.monotonic() - started < 5


@BOTH
async def test_a_stream_that_ends_too_soon_is_a_reply_that_was_cut_off(wire: Wire, wired: Providers, model: str) -> None:
    begun: list[Any] = [message_start(), *text_block(0, "Yes")] if model == CLAUDE else [chunk({"content": "Yes"}, "stop")]
    wire.will_stream(*begun, done=False)
    error, _ = await failure(wired, ask(model))
    assert (type(error), error.error_class) == (ModelUncertain, "network")


@BOTH
async def test_the_connection_is_there_for_the_next_call(wire: Wire, wired: Providers, model: str) -> None:
    events = (
        [message_start(), *text_block(0, "Yes"), *message_end()] if model == CLAUDE else [chunk({"content": "Yes"}, "stop")]
    )
    wire.will_stream(*events)
    for _ in range(3):
        assert (await read(wired, ask(model))).text == "Yes"
    assert wire.connections == 1
    async with aclosing(wired.stream(ask(model))) as left:
        await anext(left)
    assert (await read(wired, ask(model))).text == "Yes"
    assert wire.connections == 2, "of a reply that nobody read on nothing is left on a line"


# --- Anthropic ------------------------------------------------------------------------------------------------------


def message_start(**used: int) -> dict[str, Any]:
    counted = {"input_tokens": 10, "output_tokens": 1, **used}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "stop_reason": None, "usage": counted}
    return {"type": "message_start", "message": message}


def block(index: int, begun: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": begun},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text_block(index: int, *pieces: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def piece(arguments: str) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": arguments}


def message_end(stop_reason: str = "end_turn", **used: int | None) -> list[dict[str, Any]]:
    delta = {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": {"output_tokens": 5, **used}}
    return [{"type": "ping"}, delta, {"type": "of_a_later_version"}, {"type": "message_stop"}]


async def test_thinking_is_kept_with_its_signature_and_comes_in_pieces(wire: Wire, wired: Providers) -> None:
    thought = [{"type": "thinking_delta", "thinking": piece} for piece in ("A ", "summary.")]
    wire.will_stream(
        message_start(cache_read_input_tokens=7),
        *block(
            0, {"type": "thinking", "thinking": "", "signature": ""}, *thought, {"type": "signature_delta", "signature": "c2ln"}
        ),
        *block(1, {"type": "redacted_thinking", "data": "aGlk"}),
        *text_block(2, "Y", "es."),
        *message_end(input_tokens=10, cache_read_input_tokens=None),
    )
    came: list[ModelDelta] = []
    reply = await read(wired, ask(CLAUDE), came)
    assert [piece.text for piece in came if isinstance(piece, ThinkingDelta)] == ["A ", "summary."]
    assert (reply.text, reply.finish_reason, reply.response_id) == ("Yes.", "stop", "msg_1")
    assert reply.usage == Usage(17, 5, 7, 0)
    first, second, _ = reply.turn["parts"]
    assert (first["content"], first["signature"]) == ("A summary.", "c2ln")
    assert second["signature"] == "aGlk"


async def test_arguments_that_were_cut_short_are_given_as_they_came(wire: Wire, wired: Providers) -> None:
    pieces = [piece(text) for text in ("", '{"name"', ': "Ad')]
    use = {"type": "tool_use", "id": "use_1", "name": "look_up", "input": {}}
    wire.will_stream(message_start(), *block(0, use, *pieces), *message_end("max_tokens"))
    *_, reply = [each async for each in wired.stream(ask(CLAUDE, tools=(LOOK_UP,)))]
    assert isinstance(reply, ModelReply)
    assert [(wish.arguments, type(wish.arguments)) for wish in reply.tool_requests] == [('{"name": "Ad', str)]
    assert msgspec.json.decode(msgspec.json.encode(reply.turn)) == reply.turn


# --- OpenAI ---------------------------------------------------------------------------------------------------------


def chunk(delta: dict[str, Any], finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason}, {"index": 1, "delta": {"content": "another"}}]
    return {"id": "c_1", "object": "chat.completion.chunk", "choices": choices, "usage": None, **fields}


async def test_what_others_make_of_the_format_is_understood(wire: Wire, wired: Providers) -> None:
    wire.will_stream(
        chunk({"role": "assistant", "content": "<thi"}),
        chunk({"content": "nk>hm</th"}),
        chunk({"content": "ink>Y"}),
        chunk({"content": [{"type": "text", "text": "es."}], "reasoning_content": "so"}),
        chunk({"tool_calls": [{"id": "c1", "function": {"name": "look_up"}, "extra_content": {"s": "x"}}]}),
        chunk({"tool_calls": [{"function": {"arguments": '{"name": '}}]}),
        chunk({"tool_calls": [{"function": {"arguments": '"Ada"}'}}]}),
        chunk({"tool_calls": [{"id": "c2", "function": {"name": "look_up", "arguments": ""}}]}),
        chunk({}, "tool_calls"),
        chunk({}, choices=None, usage={"prompt_tokens": 10, "completion_tokens": 5}),
    )
    reply = await read(wired, ask(GPT, tools=(LOOK_UP,)))
    assert (reply.text, reply.finish_reason, reply.usage) == ("Yes.", "tool_call", Usage(10, 5))
    assert [(wish.id, wish.arguments) for wish in reply.tool_requests] == [("c1", {"name": "Ada"}), ("c2", {})]
    assert [part.get("provider_details") for part in reply.turn["parts"][2:]] == [{"extra_content": {"s": "x"}}, None]
    assert wire.requests[0]["stream_options"] == {"include_usage": True}


async def test_a_usage_above_the_listed_rates_is_none(wire: Wire, wired: Providers) -> None:
    used = {"prompt_tokens": 10, "completion_tokens": 5}
    wire.will_stream(chunk({"content": "Yes."}, "stop", service_tier="priority"), chunk({}, choices=[], usage=used))
    assert (await read(wired, ask(GPT))).usage is None


# --- Bounds and pieces ------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(("piece", "words"), [("x" * 500_000, "4 MiB"), ("[" * 9_000, "50,000 lists")])
async def test_a_reply_without_end_is_not_taken(wire: Wire, wired: Providers, model: str, piece: str, words: str) -> None:
    if model == CLAUDE:
        wire.will_stream(message_start(), *text_block(0, *[piece] * 10), *message_end())
    else:
        wire.will_stream(*[chunk({"content": piece})] * 10)
    error, _ = await failure(wired, ask(model))
    assert isinstance(error, ModelUncertain)
    assert words in str(error)


def test_events_are_found_however_the_bytes_are_cut() -> None:
    body = b': a comment\nevent: one\ndata: {"a":\ndata:"b"}\r\n\r\n\nid: 7\ndata: two\n\ndata: not yet'
    for size in range(1, len(body) + 1):
        events = Events()
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        assert [data for piece in pieces for data in events.feed(piece)] == [b'{"a":\n"b"}', b"two"]


@pytest.mark.parametrize("line", [b"data: x", b"\ndata: x" * 10, b"x"])
def test_an_event_without_end_is_not_kept(line: bytes) -> None:
    events, pieces = Events(), [line + b"x" * 1000] * (2 * REPLY_BYTES // 1000)
    with pytest.raises(ReplyTooLarge):
        deque(data for piece in pieces for data in events.feed(piece))


def test_a_thought_among_what_is_said_is_left_out_however_it_is_cut() -> None:
    chance = random.Random(7)
    words = ["<think>", "</think>", "<", "think>", "</thin", "a", "b ", ">"]
    for _ in range(3_000):
        text = "".join(chance.choices(words, k=chance.randrange(12)))
        spoken, told, left = ThinkingFilter(), "", text
        while left:
            size = chance.randrange(1, 6)
            told, left = told + spoken.feed(left[:size]), left[size:]
        assert told + spoken.rest() == openai.without_thinking(text), text


async def test_a_double_s_reply_comes_in_pieces_too() -> None:
    async def asked() -> ModelReply:
        return reply

    from holdfast.ports import ToolRequest

    wish = ToolRequest("1", "look_up", {"name": "A" * 40})
    reply = ModelReply("Yes. " * 9, (wish,), ToolRequest("2", "verdict", FIT), Usage(1, 2), "stop", None, {})
    *came, last = [piece async for piece in streamed(asked())]
    assert last == reply
    joined(came, reply)  # type: ignore[arg-type]
