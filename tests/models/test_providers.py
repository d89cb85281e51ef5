"""The Model port over the real SDKs and a real connection: each call is sent once, and each failure says what became of it."""

import asyncio
import contextlib
import email.utils
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import ModelError, ModelRateLimited, ModelRefused, ModelUncertain
from holdfast.models.bounds import input_tokens_at_most
from holdfast.models.providers import Providers
from holdfast.ports import (
    AnswerSpec,
    ModelReply,
    ModelRequest,
    ModelTurn,
    ToolReply,
    ToolSpec,
    ToolTurn,
    Turn,
    Usage,
    UserTurn,
)
from holdfast.testing.model_rule import FaultKind
from holdfast.testing.model_server import Fault, ModelServer, Rule, ToolCall
from holdfast.testing.model_server import Usage as Used

CLAUDE, GPT = "claude-haiku-4-5", "gpt-4.1-nano"
BOTH = pytest.mark.parametrize("model", [CLAUDE, GPT])
KEY = "sk-canary-7d1f0c"

LOOK_UP = ToolSpec(
    "look_up",
    "Looks up a supplier.",
    {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
)
VERDICT = AnswerSpec(
    "verdict",
    "The verdict.",
    {
        "type": "object",
        "properties": {"fit": {"type": "boolean"}, "why": {"type": "string"}},
        "required": ["fit", "why"],
    },
)


def ask(model: str, *turns: Turn, **options: Any) -> ModelRequest:
    options = {"max_tokens": 200, "timeout_s": 20.0, **options}
    return ModelRequest(model, "Be brief.", turns or (UserTurn("Is Ada & Co. any good?"),), **options)


def stored(turn: Any) -> ModelTurn:
    """A reply as a later request has it: through JSON, as the run's history keeps it."""
    return ModelTurn(msgspec.json.decode(msgspec.json.encode(turn)))


async def failure(providers: Providers, request: ModelRequest) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await providers.request(request)
    assert KEY not in str(raised.value)
    assert raised.value.__context__ is None
    return raised.value


# --- against the scripted model -------------------------------------------------------------------------------------


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ModelServer]:
    async with ModelServer(journal=tmp_path / "calls.jsonl") as server:
        yield server


@pytest.fixture
async def providers(server: ModelServer) -> AsyncIterator[Providers]:
    providers = Providers(environment={**server.environment, "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY})
    yield providers
    await providers.aclose()


@BOTH
async def test_a_call_is_answered_and_its_usage_read(providers: Providers, server: ModelServer, model: str) -> None:
    server.script.add(Rule(text="Yes.", usage=Used(100, 9, cache_read_tokens=30)))
    reply = await providers.request(ask(model))
    assert (reply.text, reply.tool_requests, reply.answer) == ("Yes.", (), None)
    assert reply.usage == Usage(input_tokens=100, output_tokens=9, cache_read_tokens=30, cache_write_tokens=0)
    assert reply.finish_reason == "stop"
    assert reply.response_id
    assert [(call.max_tokens, call.stream, call.messages) for call in server.calls] == [(200, False, 1)]


@BOTH
async def test_a_reply_that_reached_its_limit_says_so(providers: Providers, server: ModelServer, model: str) -> None:
    server.script.add(Rule(text="word " * 100))
    assert (await providers.request(ask(model, max_tokens=5))).finish_reason == "length"


@BOTH
async def test_a_tool_is_asked_for_answered_and_the_conversation_goes_on(
    providers: Providers, server: ModelServer, model: str
) -> None:
    server.script.add(Rule(turn=1, text="I look it up.", tool_calls=(ToolCall("look_up", {"name": "Ada"}),)))
    first = await providers.request(ask(model, tools=(LOOK_UP,)))
    (wish,) = first.tool_requests
    assert (wish.name, wish.arguments, first.finish_reason) == ("look_up", {"name": "Ada"}, "tool_call")
    found = ToolTurn((ToolReply(wish.id, wish.name, "Ada & Co., founded 1843"),))
    for _ in range(2):
        request = ask(
            model, UserTurn("Is Ada any good?"), stored(first.turn), found, UserTurn("Well?"), tools=(LOOK_UP,)
        )
        assert (await providers.request(request)).text
    hashes = [call.request_sha256 for call in server.calls]
    assert hashes[1] == hashes[2], "equal requests are equal bytes"
    assert [call.turn for call in server.calls] == [1, 2, 2]
    assert all(call.cache_control_on_tools for call in server.calls) is (model == CLAUDE)


@BOTH
@pytest.mark.parametrize("tools", [(), (LOOK_UP,)], ids=["alone", "beside a tool"])
async def test_a_structured_answer_comes_as_an_object(
    providers: Providers, server: ModelServer, model: str, tools: tuple[ToolSpec, ...]
) -> None:
    server.script.add(Rule(output={"fit": True, "why": "solid"}))
    reply = await providers.request(ask(model, tools=tools, answer=VERDICT))
    assert reply.answer is not None
    assert (reply.answer.name, reply.answer.arguments) == ("verdict", {"fit": True, "why": "solid"})
    assert reply.tool_requests == ()
    repair = ToolTurn((ToolReply(reply.answer.id, reply.answer.name, "`why` is too short", is_error=True),))
    request = ask(model, UserTurn("Is Ada any good?"), stored(reply.turn), repair, tools=tools, answer=VERDICT)
    assert (await providers.request(request)).answer is not None


@BOTH
async def test_tools_come_before_the_answer_in_one_conversation(
    providers: Providers, server: ModelServer, model: str
) -> None:
    server.script.add(Rule(turn=1, tool_calls=(ToolCall("look_up"),)), Rule(output={"fit": False, "why": "late"}))
    first = await providers.request(ask(model, tools=(LOOK_UP,), answer=VERDICT))
    assert first.answer is None
    found = ToolTurn(tuple(ToolReply(wish.id, wish.name, "late twice") for wish in first.tool_requests))
    request = ask(model, UserTurn("Is Ada any good?"), stored(first.turn), found, tools=(LOOK_UP,), answer=VERDICT)
    last = await providers.request(request)
    assert last.answer is not None
    assert last.answer.arguments == {"fit": False, "why": "late"}


async def test_arguments_that_are_not_json_are_given_as_they_came(providers: Providers, server: ModelServer) -> None:
    server.script.add(Rule(fault=Fault("malformed_arguments"), tool_calls=(ToolCall("look_up"),)))
    (wish,) = (await providers.request(ask(GPT, tools=(LOOK_UP,)))).tool_requests
    assert isinstance(wish.arguments, str)


@BOTH
@pytest.mark.parametrize("fault", ["missing_usage", "negative_usage"])
async def test_a_reply_without_a_readable_usage_is_still_a_reply(
    providers: Providers, server: ModelServer, model: str, fault: FaultKind
) -> None:
    server.script.add(Rule(text="Yes.", fault=Fault(fault)))
    reply = await providers.request(ask(model))
    assert (reply.text, reply.usage) == ("Yes.", None)


REFUSED, UNCERTAIN = ModelRefused, ModelUncertain


@BOTH
@pytest.mark.parametrize(
    ("status", "kind", "error_class", "retryable"),
    [
        (307, REFUSED, "validation", False),
        (400, REFUSED, "validation", False),
        (401, REFUSED, "authorization", False),
        (402, REFUSED, "authorization", False),
        (403, REFUSED, "authorization", False),
        (404, REFUSED, "validation", False),
        (408, UNCERTAIN, "timeout", True),
        (413, REFUSED, "validation", False),
        (422, REFUSED, "validation", False),
        (500, REFUSED, "model_transient", True),
        (502, UNCERTAIN, "model_transient", True),
        (503, REFUSED, "model_transient", True),
        (504, UNCERTAIN, "timeout", True),
        (520, UNCERTAIN, "model_transient", True),
        (529, REFUSED, "model_transient", True),
    ],
)
async def test_a_status_says_what_became_of_the_call(
    providers: Providers,
    server: ModelServer,
    model: str,
    status: int,
    kind: type[ModelError],
    error_class: str,
    retryable: bool,
) -> None:
    server.script.add(Rule(fault=Fault("status", status=status, message=f"no, says the server, and not {KEY}")))
    error = await failure(providers, ask(model))
    assert (type(error), error.error_class, error.retryable) == (kind, error_class, retryable)
    assert error.status_code == status
    assert "Nothing was spent" in str(error) or "counts as spent" in str(error)
    assert ("no, says the server" in str(error)) is (status != 401), "a provider's words about a key may repeat it"
    assert len(server.calls) == 1, "no SDK may send a call again by itself"


@BOTH
async def test_a_rate_limit_says_how_long_it_lasts(providers: Providers, server: ModelServer, model: str) -> None:
    server.script.add(Rule(fault=Fault("status", status=429, retry_after_s=7)))
    error = await failure(providers, ask(model))
    assert isinstance(error, ModelRateLimited)
    assert (error.retry_after_s, error.error_class, error.retryable, error.status_code) == (7, "rate_limit", True, 429)
    assert len(server.calls) == 1


async def test_an_empty_account_is_no_rate_limit_because_waiting_does_not_fill_it(
    providers: Providers, server: ModelServer
) -> None:
    server.script.add(Rule(fault=Fault("status", status=429, code="insufficient_quota")))
    error = await failure(providers, ask(GPT))
    assert (type(error), error.error_class, error.retryable) == (ModelRefused, "authorization", False)


@BOTH
@pytest.mark.parametrize(
    ("fault", "error_class"),
    [("cut_before_reply", "network"), ("cut_in_body", "network"), ("malformed_body", "model_transient")],
)
async def test_a_reply_that_breaks_off_leaves_the_call_uncertain(
    providers: Providers, server: ModelServer, model: str, fault: FaultKind, error_class: str
) -> None:
    server.script.add(Rule(fault=Fault(fault)))
    error = await failure(providers, ask(model))
    assert (type(error), error.error_class, error.retryable) == (ModelUncertain, error_class, True)
    assert len(server.calls) == 1


@BOTH
async def test_the_deadline_holds_for_the_whole_call(providers: Providers, server: ModelServer, model: str) -> None:
    server.script.add(Rule(fault=Fault("hang")))
    started = time.monotonic()
    error = await failure(providers, ask(model, timeout_s=0.3))
    assert (type(error), error.error_class, error.retryable) == (ModelUncertain, "timeout", True)
    assert time.monotonic() - started < 2
    assert len(server.calls) == 1


@BOTH
async def test_calls_at_the_same_time_know_nothing_of_one_another(
    providers: Providers, server: ModelServer, model: str
) -> None:
    sizes = [4 * size for size in range(1, 31)]
    server.script.add(*(Rule(user=f"<{size}>", usage=Used(size, 1)) for size in sizes))
    replies = await asyncio.gather(*(providers.request(ask(model, UserTurn(f"<{size}>"))) for size in sizes))
    assert [reply.usage and reply.usage.input_tokens for reply in replies] == sizes
    assert len(server.calls) == len(sizes)


@BOTH
async def test_a_cancelled_call_ends_as_cancelled(providers: Providers, server: ModelServer, model: str) -> None:
    server.script.add(Rule(fault=Fault("hang")))
    call = asyncio.create_task(providers.request(ask(model)))
    async with asyncio.timeout(60):
        while not server.calls:
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call


# --- against replies written by hand --------------------------------------------------------------------------------


class Wire:
    """A provider that sends prepared replies, the last one for ever, and keeps what it was sent."""

    port = 0

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.requests: list[dict[str, Any]] = []

    def will_say(self, body: Any, status: int = 200, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json", "content-length": str(len(content)), **headers}
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        self.replies.append(f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + content)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                self.requests.append(json.loads(await reader.readexactly(length)))
                writer.write(self.replies.pop(0) if len(self.replies) > 1 else self.replies[0])
                await writer.drain()
        writer.close()


@pytest.fixture
async def wire() -> AsyncIterator[Wire]:
    wire = Wire()
    listening = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    wire.port = listening.sockets[0].getsockname()[1]
    yield wire
    listening.close()


@pytest.fixture
async def wired(wire: Wire) -> AsyncIterator[Providers]:
    providers = Providers(environment=environment(wire.port))
    yield providers
    await providers.aclose()


def environment(port: int) -> Mapping[str, str]:
    return {
        "ANTHROPIC_BASE_URL": f"http://someone:{KEY}@127.0.0.1:{port}",
        "OPENAI_BASE_URL": f"http://someone:{KEY}@127.0.0.1:{port}/v1",
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
    return {
        "id": "c_1",
        "object": "chat.completion",
        "created": 1,
        "model": GPT,
        "choices": [choice],
        "usage": usage,
        **fields,
    }


async def test_thinking_is_replayed_with_its_signature(wire: Wire, wired: Providers) -> None:
    thinking = {"type": "thinking", "thinking": "A summary.", "signature": "c2lnbmVk"}
    wire.will_say(
        anthropic_reply(thinking, {"type": "redacted_thinking", "data": "aGlkZGVu"}, {"type": "text", "text": "Yes."})
    )
    reply = await wired.request(ask(CLAUDE))
    assert reply.text == "Yes."
    await wired.request(ask(CLAUDE, UserTurn("Any good?"), stored(reply.turn), UserTurn("Sure?")))
    said, replayed, asked = wire.requests[1]["messages"]
    assert [message["role"] for message in (said, replayed, asked)] == ["user", "assistant", "user"]
    assert replayed["content"] == [
        thinking,
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "text", "text": "Yes."},
    ]


@BOTH
async def test_what_is_replayed_names_neither_a_url_nor_a_key(wire: Wire, wired: Providers, model: str) -> None:
    wire.will_say(
        anthropic_reply({"type": "text", "text": "Yes."}) if model == CLAUDE else openai_reply({"content": "Yes."})
    )
    reply = await wired.request(ask(model))
    assert KEY not in json.dumps(msgspec.to_builtins(reply))


async def test_a_second_answer_stays_among_the_tool_requests_so_that_it_can_be_replied_to(
    wire: Wire, wired: Providers
) -> None:
    uses = [
        {"type": "tool_use", "id": f"use_{number}", "name": "verdict", "input": {"fit": number == 1}}
        for number in (1, 2)
    ]
    wire.will_say(anthropic_reply(*uses))
    reply = await wired.request(ask(CLAUDE, answer=VERDICT))
    assert (reply.answer and reply.answer.id, [wish.id for wish in reply.tool_requests]) == ("use_1", ["use_2"])


@pytest.mark.parametrize(
    ("model", "forced"),
    [
        (CLAUDE, {"type": "any"}),
        ("claude-haiku-5-5", {"type": "any"}),
        ("claude-opus-5-5", {"type": "auto"}),  # refuses to be forced
        (GPT, "required"),
    ],
)
async def test_an_answer_is_forced_where_the_model_can_be(
    wire: Wire, wired: Providers, model: str, forced: Any
) -> None:
    wire.will_say({"error": {"message": "enough"}}, status=400)
    await failure(wired, ask(model, answer=VERDICT))
    (sent,) = wire.requests
    assert sent["tool_choice"] == forced
    assert "final answer" in json.dumps(sent["tools"])


@pytest.mark.parametrize(
    ("model", "tier", "limit"),
    [
        (CLAUDE, "standard_only", "max_tokens"),
        (GPT, "default", "max_completion_tokens"),
        ("openai:llama-4", None, "max_tokens"),
        ("openai:gpt-oss-120b", None, "max_tokens"),
    ],
)
async def test_the_listed_rates_are_asked_for_and_the_output_is_always_limited(
    wire: Wire, wired: Providers, model: str, tier: str | None, limit: str
) -> None:
    wire.will_say({"error": {"message": "enough"}}, status=400)
    await failure(wired, ask(model, temperature=0.5))
    (sent,) = wire.requests
    assert (sent.get("service_tier"), sent[limit], sent["temperature"]) == (tier, 200, 0.5)


@pytest.mark.parametrize(
    "model",
    [
        *(CLAUDE, "claude-sonnet-4-6", "claude-sonnet-5", "claude-opus-5-5", "claude-fable-5-2", "claude-haiku-5-5"),
        *(GPT, "gpt-4o", "gpt-5.2", "gpt-6-sol", "o4-mini", "openai:gpt-oss-120b", "openai:llama-4"),
    ],
)
async def test_no_adapter_sends_more_than_the_bound_counted(wire: Wire, wired: Providers, model: str) -> None:
    wire.will_say({"error": {"message": "enough"}}, status=400)
    shared = {"$defs": {"line": {"type": "object", "properties": {"sum": {"type": "number"}}}}}
    lines = {f"line_{number}": {"$ref": "#/$defs/line", "description": "é\ufdfa"} for number in range(30)}
    tool = ToolSpec("book", "Books lines.", {"type": "object", "properties": lines, "required": list(lines), **shared})
    turn = {
        "kind": "response",
        "provider_name": "anthropic",
        "parts": [
            {"part_kind": "thinking", "content": "hm " * 50, "signature": "c2ln" * 50, "provider_name": "anthropic"},
            {"part_kind": "tool-call", "tool_name": "book", "args": {"line_1": {"sum": 1}}, "tool_call_id": "call_1"},
        ],
    }
    error = ToolTurn((ToolReply("call_1", "book", 'no "line"\n' * 50, is_error=True),))
    request = ask(model, UserTurn("<system>\ufdfa</system>"), ModelTurn(turn), error, tools=(tool,), answer=VERDICT)
    await failure(wired, request)
    (sent,) = wire.requests
    read_by_the_model = [sent["messages"], sent["tools"], sent.get("system")]
    assert len(json.dumps(read_by_the_model, ensure_ascii=False).encode()) < input_tokens_at_most(request)


async def test_an_adapter_that_wants_to_send_again_is_not_let(wire: Wire, wired: Providers) -> None:
    message = "messages.1.content.0: The block is bound to a different conversation"
    wire.will_say({"type": "error", "error": {"type": "invalid_request_error", "message": message}}, status=400)
    error = await failure(wired, ask("claude-opus-5-5"))
    assert (type(error), error.error_class) == (ModelRefused, "validation")
    assert message in str(error)
    assert len(wire.requests) == 1


@BOTH
async def test_a_rate_limit_may_be_given_as_a_date(wire: Wire, wired: Providers, model: str) -> None:
    wire.will_say({"error": {}}, status=429, retry_after=email.utils.formatdate(time.time() + 90, usegmt=True))
    error = await failure(wired, ask(model))
    assert isinstance(error, ModelRateLimited)
    assert error.retry_after_s is not None
    assert 80 < error.retry_after_s <= 90


@BOTH
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"<html>Welcome</html>", {"content_type": "text/html"}),
        (b"[]", {}),
        (b'{"content": null, "choices": []}', {}),
        (b"", {}),
        (b"not gzip", {"content_encoding": "gzip"}),
    ],
)
async def test_a_reply_that_makes_no_sense_leaves_the_call_uncertain(
    wire: Wire, wired: Providers, model: str, body: bytes, headers: dict[str, Any]
) -> None:
    wire.will_say(body, **headers)
    error = await failure(wired, ask(model))
    assert (type(error), error.retryable) == (ModelUncertain, True)


@pytest.mark.parametrize(
    "reply",
    [
        anthropic_reply({"type": "text", "text": "One mo"}, stop_reason="pause_turn"),
        anthropic_reply({"type": "text", "text": "half a character: \ud83d"}),
    ],
)
async def test_a_reply_that_cannot_be_kept_leaves_the_call_uncertain(
    wire: Wire, wired: Providers, reply: dict[str, Any]
) -> None:
    wire.will_say(reply)
    assert isinstance(await failure(wired, ask(CLAUDE)), ModelUncertain)


@pytest.mark.parametrize(
    ("model", "reply"),
    [
        (CLAUDE, anthropic_reply(usage={"input_tokens": 10})),
        (CLAUDE, anthropic_reply(usage={"input_tokens": "10", "output_tokens": 5})),
        (CLAUDE, anthropic_reply(usage={"input_tokens": 0, "output_tokens": 0})),
        (CLAUDE, anthropic_reply(usage={"input_tokens": 10, "output_tokens": 5, "service_tier": "priority"})),
        (CLAUDE, anthropic_reply(usage={"input_tokens": 10, "output_tokens": 5, "speed": "fast"})),
        (
            CLAUDE,
            anthropic_reply(
                usage={"input_tokens": 1, "output_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": 9}}
            ),
        ),
        (GPT, openai_reply({"content": ""}, usage=None)),
        (GPT, openai_reply({"content": ""}, usage={"prompt_tokens": 10.5, "completion_tokens": 5})),
        (GPT, openai_reply({"content": ""}, service_tier="priority")),
        (
            GPT,
            openai_reply(
                {"content": ""},
                usage={"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 11}},
            ),
        ),
    ],
)
async def test_a_usage_that_is_not_exactly_known_is_none(
    wire: Wire, wired: Providers, model: str, reply: dict[str, Any]
) -> None:
    wire.will_say(reply)
    assert (await wired.request(ask(model))).usage is None


async def test_a_finish_reason_that_was_not_given_is_not_made_up(wire: Wire, wired: Providers) -> None:
    reply = openai_reply({"content": "Yes."})
    reply["choices"][0]["finish_reason"] = None
    wire.will_say(reply)
    assert (await wired.request(ask(GPT))).finish_reason is None


# --- without any server ---------------------------------------------------------------------------------------------


@BOTH
async def test_what_never_left_was_certainly_not_spent(unused_tcp_port: int, model: str) -> None:
    providers = Providers(environment=environment(unused_tcp_port))
    error = await failure(providers, ask(model))
    assert (type(error), error.error_class, error.retryable) == (ModelRefused, "network", True)
    assert f"127.0.0.1:{unused_tcp_port}" in str(error)
    await providers.aclose()


@BOTH
async def test_a_host_that_does_not_exist_was_never_reached(model: str) -> None:
    urls = {"ANTHROPIC_BASE_URL": "http://nowhere.invalid", "OPENAI_BASE_URL": "http://nowhere.invalid"}
    providers = Providers(environment=urls)
    error = await failure(providers, ask(model))
    assert (type(error), error.error_class) == (ModelRefused, "network")
    await providers.aclose()


async def test_a_request_no_adapter_can_send_is_refused_before_it_leaves(wire: Wire, wired: Providers) -> None:
    wire.will_say({})
    error = await failure(wired, ask(CLAUDE, ModelTurn({"kind": "of no adapter's making"})))
    assert (type(error), error.error_class, error.retryable) == (ModelRefused, "validation", False)
    assert wire.requests == []


@BOTH
async def test_without_a_key_nothing_is_called(model: str) -> None:
    error = await failure(Providers(environment={}), ask(model))
    assert (type(error), error.error_class) == (ModelRefused, "authorization")
    assert "_API_KEY is not set" in str(error)


@pytest.mark.parametrize("model", ["llama-4", "mistral:large", "anthropic:", "o"])
async def test_a_model_nobody_serves_says_how_to_name_its_provider(model: str) -> None:
    error = await failure(Providers(environment={}), ask(model))
    assert (type(error), error.error_class) == (ModelRefused, "validation")
    assert f"openai:{model}" in str(error)


async def test_a_declared_provider_must_be_one_that_is_spoken_to() -> None:
    error = await failure(Providers({"llama-4": "groq"}, {}), ask("llama-4"))
    assert (type(error), error.error_class) == (ModelRefused, "validation")
    assert "neither anthropic nor openai" in str(error)


async def test_a_declared_provider_serves_a_model_whose_name_does_not_tell(server: ModelServer) -> None:
    providers = Providers({"llama-4": "openai"}, server.environment)
    reply: ModelReply = await providers.request(ask("llama-4"))
    assert reply.text
    assert [(call.wire, call.model, call.max_tokens) for call in server.calls] == [("openai", "llama-4", 200)]
    await providers.aclose()


def test_no_sdk_is_loaded_before_the_first_call() -> None:
    program = (
        "import sys, holdfast.models.bounds, holdfast.models.prices\n"
        "from holdfast.models.providers import Providers\n"
        "Providers()\n"
        "holdfast.models.prices.Prices({})\n"
        "print(*sorted({'anthropic', 'openai', 'pydantic_ai', 'genai_prices', 'httpx2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
