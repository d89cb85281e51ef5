"""The Model port over a real connection: each call is sent once, and each failure says what became of it."""

import asyncio
import contextlib
import email.utils
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core.values.ids import CallId, RunId, StepId
from holdfast.core.values.trace import TraceContext, call_span
from holdfast.errors import ModelError, ModelRateLimited, ModelRefused, ModelUncertain
from holdfast.models.bounds import input_tokens_at_most
from holdfast.models.providers import Providers
from holdfast.platform.current_span import StepSpan
from holdfast.ports import ModelReply, ModelRequest, ModelTurn, ToolReply, ToolSpec, ToolTurn, Usage, UserTurn
from holdfast.testing.model_rule import FaultKind
from holdfast.testing.model_server import Fault, ModelServer, Rule, ToolCall
from holdfast.testing.model_server import Usage as Used
from tests.models.provider import (
    CLAUDE,
    GPT,
    KEY,
    LOOK_UP,
    VERDICT,
    Wire,
    anthropic_reply,
    ask,
    environment,
    openai_reply,
    stored,
)

BOTH = pytest.mark.parametrize("model", [CLAUDE, GPT])


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
        request = ask(model, UserTurn("Is Ada any good?"), stored(first.turn), found, UserTurn("Well?"), tools=(LOOK_UP,))
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
async def test_tools_come_before_the_answer_in_one_conversation(providers: Providers, server: ModelServer, model: str) -> None:
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
    assert len(server.calls) == 1, "nothing sends a call again by itself"


@BOTH
async def test_a_rate_limit_says_how_long_it_lasts(providers: Providers, server: ModelServer, model: str) -> None:
    server.script.add(Rule(fault=Fault("status", status=429, retry_after_s=7)))
    error = await failure(providers, ask(model))
    assert isinstance(error, ModelRateLimited)
    assert (error.retry_after_s, error.error_class, error.retryable, error.status_code) == (7, "rate_limit", True, 429)
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        (GPT, Fault("status", status=429, code="insufficient_quota")),
        (CLAUDE, Fault("status", status=400, message="Your credit balance is too low to access the API.")),
        (CLAUDE, Fault("status", status=429, code="billing_error")),
    ],
)
async def test_an_empty_account_is_no_rate_limit_because_waiting_does_not_fill_it(
    providers: Providers, server: ModelServer, model: str, fault: Fault
) -> None:
    server.script.add(Rule(fault=fault))
    error = await failure(providers, ask(model))
    assert "no credit left" in str(error)
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
    assert time.monotonic() - started < 5
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
    wire.will_say(anthropic_reply({"type": "text", "text": "Yes."}) if model == CLAUDE else openai_reply({"content": "Yes."}))
    reply = await wired.request(ask(model))
    assert KEY not in json.dumps(msgspec.to_builtins(reply))


async def test_a_second_answer_stays_among_the_tool_requests_so_that_it_can_be_replied_to(wire: Wire, wired: Providers) -> None:
    uses = [{"type": "tool_use", "id": f"use_{number}", "name": "verdict", "input": {"fit": number == 1}} for number in (1, 2)]
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
async def test_an_answer_is_forced_where_the_model_can_be(wire: Wire, wired: Providers, model: str, forced: Any) -> None:
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
async def test_nothing_is_sent_that_the_bound_did_not_count(wire: Wire, wired: Providers, model: str) -> None:
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


async def test_a_refusal_that_another_try_might_mend_is_no_reason_to_send_again(wire: Wire, wired: Providers) -> None:
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


@pytest.mark.parametrize("wait", ["-1", "soon", "nan", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "²"])
async def test_a_rate_limit_that_says_nothing_sensible_is_one_without_an_end(wire: Wire, wired: Providers, wait: str) -> None:
    wire.will_say({"error": {}}, status=429, retry_after=wait, retry_after_ms=wait)
    error = await failure(wired, ask(GPT))
    assert isinstance(error, ModelRateLimited)
    assert error.retry_after_s is None


async def test_the_key_goes_out_and_the_environment_says_which_organization_pays(wire: Wire) -> None:
    names = {
        "OPENAI_BASE_URL": f"{wire.url}/v1/",
        "OPENAI_API_KEY": KEY,
        "OPENAI_ORG_ID": "org-1",
        "ANTHROPIC_BASE_URL": wire.url,
    }
    wire.will_say({"error": {}}, status=400)
    providers = Providers(environment=names)
    await failure(providers, ask(GPT))
    await failure(providers, ask(CLAUDE))
    await providers.aclose()
    openai, anthropic = wire.heads
    assert f"authorization: bearer {KEY}" in openai
    assert "openai-organization: org-1" in openai
    assert openai.startswith("post /v1/chat/completions ")
    assert "authorization" not in anthropic, "a server of one's own may need no key"
    assert anthropic.startswith("post /v1/messages ")


CALL = CallId("0190-run:classify#1:0/2:1")


@BOTH
async def test_a_provider_gets_the_id_of_a_call_and_the_same_question(wire: Wire, wired: Providers, model: str) -> None:
    wire.will_say({"error": {}}, status=400)
    named = msgspec.structs.replace(ask(model), call=CALL)
    await failure(wired, ask(model))
    await failure(wired, named)
    with contextlib.suppress(ModelError):
        async with contextlib.aclosing(wired.stream(named)) as pieces:
            await anext(pieces)
    plain, sent, streamed = wire.requests
    assert "x-client-request-id" not in wire.heads[0]
    assert all(f"x-client-request-id: {CALL}\r\n" in head for head in wire.heads[1:])
    metadata = {"metadata": {"user_id": "0190-run"}} if model == CLAUDE else {}
    assert sent == plain | metadata
    assert sent.items() <= streamed.items()
    assert named.compared() == ask(model).compared(), "the hash by which a replay knows it is the same"
    assert "call" not in named.compared()


async def test_a_provider_gets_the_place_of_a_call_in_its_trace(wire: Wire, wired: Providers) -> None:
    trace = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736")
    wire.will_say({"error": {}}, status=400)

    async def asked() -> None:
        StepSpan(lambda: trace, RunId("0190-run"), StepId("classify#1"), exports=True).enter(1)
        await failure(wired, msgspec.structs.replace(ask(GPT), call=CALL))

    await asyncio.create_task(asked())
    await failure(wired, msgspec.structs.replace(ask(GPT), call=CALL))
    within, outside = wire.heads
    assert f"traceparent: 00-{trace.trace_id}-{call_span(CALL)}-01\r\n" in within
    assert "traceparent" not in outside


async def test_the_id_of_a_call_is_ascii_and_bounded_in_a_header(wire: Wire, wired: Providers) -> None:
    wire.will_say({"error": {}}, status=400)
    for node in ("prüfen\r\nx: y", "n" * 600):
        await failure(wired, msgspec.structs.replace(ask(GPT), call=CallId(f"0190-run:{node}#1:0:1")))
    first, second = (head.split("x-client-request-id: ")[1].split("\r\n")[0] for head in wire.heads)
    assert first == "0190-run:pr%c3%bcfen%0d%0ax:%20y#1:0:1"
    assert len(second) < 100
    assert second.startswith("0190-run:")


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
            anthropic_reply(usage={"input_tokens": 1, "output_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": 9}}),
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


async def test_a_request_that_cannot_be_put_in_the_format_is_refused_before_it_leaves(wire: Wire, wired: Providers) -> None:
    wire.will_say({})
    error = await failure(wired, ask(CLAUDE, ModelTurn({"kind": "of nobody's making"})))
    assert (type(error), error.error_class, error.retryable) == (ModelRefused, "validation", False)
    assert wire.requests == []


@BOTH
async def test_without_a_key_nothing_is_called(model: str) -> None:
    error = await failure(Providers(environment={}), ask(model))
    assert (type(error), error.error_class) == (ModelRefused, "authorization")
    assert "_API_KEY is not set" in str(error)


@pytest.mark.parametrize("model", ["llama-4", "mistral:large", "anthropic:", "o"])
async def test_a_model_without_a_provider_says_how_to_name_its_provider(model: str) -> None:
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


def test_no_client_is_loaded_before_the_first_call_and_no_sdk_by_it() -> None:
    program = (
        "import asyncio, sys, holdfast.models.bounds, holdfast.models.prices\n"
        "from holdfast.models.providers import Providers\n"
        "providers = Providers(environment={'ANTHROPIC_API_KEY': 'key', 'OPENAI_API_KEY': 'key'})\n"
        "holdfast.models.prices.Prices({})\n"
        "dear = {'anthropic', 'openai', 'pydantic', 'pydantic_ai', 'genai_prices', 'httpx2'}\n"
        "print(*sorted(dear & set(sys.modules)))\n"
        "asyncio.run(providers.prepare('claude-haiku-4-5'))\n"
        "asyncio.run(providers.prepare('gpt-5'))\n"
        "print(*sorted(dear & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "httpx2"]
