"""Programs' requests on the wire: sent as they came but for the maximum, answered as the provider answered, and counted."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from holdfast.errors import (
    CallsStopped,
    InvalidInput,
    ModelRefused,
    ModelUncertain,
    NotFound,
    OperationFailed,
    UnboundableRequest,
)
from holdfast.models.forwarded.answers import answer_to
from holdfast.models.forwarded.events import EventSplitter
from holdfast.models.forwarded.normal import first_difference
from holdfast.models.forwarded.requests import forwarded_tokens_at_most, lowered, read, sent
from holdfast.models.prices import Prices
from holdfast.models.providers import Providers
from holdfast.ports import ForwardedFormat, ForwardedRequest, Usage
from tests.models.provider import CLAUDE, GPT, KEY, Wire, anthropic_reply, openai_reply

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
MESSAGES: dict[str, Any] = {
    "model": CLAUDE,
    "max_tokens": 500,
    "messages": [
        {"role": "user", "content": "How warm is it in Bergen?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Bergen"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "7 degrees"}]},
    ],
    "tools": [{"name": "weather", "description": "Tells it.", "input_schema": WEATHER}],
}
CHAT: dict[str, Any] = {
    "model": GPT,
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How warm is it in Bergen?"}],
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}],
}
RESPONSES: dict[str, Any] = {
    "model": GPT,
    "input": [
        {"role": "user", "content": "How warm is it in Bergen?"},
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Bergen"}', "id": "fc_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "7 degrees"},
    ],
    "tools": [{"type": "function", "name": "weather", "parameters": WEATHER}],
}
GEMINI: dict[str, Any] = {
    "contents": [{"role": "user", "parts": [{"text": "How warm is it in Bergen?"}]}],
    "tools": [{"functionDeclarations": [{"name": "weather", "parametersJsonSchema": WEATHER}]}],
    "generationConfig": {"topP": 0.5},
}
CLAUDE_CODE = {"user-agent": "claude-cli/2.1.332 (external, sdk-py)"}
CODEX = {"originator": "codex_exec", "user-agent": "codex_exec/0.171.0"}


GEMINI_PATH = "/models/gemini-2.5-flash:generateContent"


def asked(path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> ForwardedRequest:
    request = read(path, headers or {}, json.dumps(body).encode())
    return msgspec.structs.replace(request, timeout_s=20.0)


def chunk(delta: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "c_1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}], **fields}


def response(**fields: Any) -> dict[str, Any]:
    used = {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}
    return {"id": "resp_1", "status": "completed", "output": [], "usage": used, **fields}


def spoken_by_gemini() -> dict[str, Any]:
    used = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 3, "cachedContentTokenCount": 4}
    content = {"role": "model", "parts": [{"text": "Seven."}]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": used}


USED = {"prompt_tokens": 10, "completion_tokens": 5}
CHUNKS = (chunk({"content": "Seven "}), chunk({"content": "dégrees"}), {"id": "c_1", "choices": [], "usage": USED})
EVENTS = (
    {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 10, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Seven dégrees"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
)


async def test_a_message_goes_out_as_the_program_wrote_it_and_comes_back_as_it_was(wire: Wire, wired: Providers) -> None:
    reply = anthropic_reply({"type": "text", "text": "Seven."}, usage={"input_tokens": 10, "output_tokens": 5})
    wire.will_say(reply)
    headers = {"anthropic-version": "2023-06-01", "anthropic-beta": "new-thing", "x-stainless-lang": "python"}
    got = await wired.forward(asked("/v1/messages?beta=true", MESSAGES, headers), pytest.fail)
    assert json.loads(got.pieces[0]) == reply
    assert (got.content_type, got.usage, got.max_tokens) == ("application/json", Usage(10, 5), None)
    assert wire.requests == [{**MESSAGES, "service_tier": "standard_only"}]
    assert "post /v1/messages http" in wire.heads[0]
    assert "anthropic-version: 2023-06-01" in wire.heads[0]
    assert "anthropic-beta: new-thing" in wire.heads[0]
    assert "stainless" not in wire.heads[0]


async def test_a_streamed_message_is_passed_on_event_by_event_and_counted(wire: Wire, wired: Providers) -> None:
    wire.will_stream(*EVENTS, done=False)
    told: list[str] = []
    got = await wired.forward(asked("/messages", {**MESSAGES, "stream": True}), told.append)
    assert tuple(told) == got.pieces
    assert [json.loads(piece.split("data: ")[1]) for piece in told] == [*EVENTS]
    assert all(piece.endswith("\n\n") for piece in told)
    assert got.usage == Usage(10, 5)


async def test_a_completion_without_a_maximum_gets_one_and_the_usual_tier(wire: Wire, wired: Providers) -> None:
    wire.will_say(openai_reply({"content": "Seven."}))
    got = await wired.forward(asked("/v1/chat/completions", CHAT), pytest.fail)
    assert got.usage == Usage(10, 5)
    assert got.max_tokens == 16_384
    assert wire.requests == [{**CHAT, "max_completion_tokens": 16_384, "service_tier": "default"}]
    assert "post /v1/chat/completions http" in wire.heads[0]


async def test_a_streamed_completion_reports_its_usage_and_hides_it_unless_asked_for(wire: Wire, wired: Providers) -> None:
    wire.will_stream(*CHUNKS)
    wire.will_stream(*CHUNKS)
    got = await wired.forward(asked("/chat/completions", {**CHAT, "stream": True}), lambda piece: None)
    assert wire.requests[0]["stream_options"] == {"include_usage": True}
    assert got.usage == Usage(10, 5)
    assert len(got.pieces) == 3
    assert got.pieces[-1] == "data: [DONE]\n\n"
    asks = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    assert len((await wired.forward(asked("/chat/completions", asks), lambda piece: None)).pieces) == 4


async def test_a_response_comes_back_as_it_was_and_is_counted(wire: Wire, wired: Providers) -> None:
    wire.will_say(response())
    got = await wired.forward(asked("/v1/responses", RESPONSES), pytest.fail)
    assert json.loads(got.pieces[0]) == response()
    assert (got.usage, got.max_tokens) == (Usage(10, 5, 4), 16_384)
    assert wire.requests == [{**RESPONSES, "max_output_tokens": 16_384, "service_tier": "default"}]
    assert "post /v1/responses http" in wire.heads[0]


@pytest.mark.parametrize("end", ["response.completed", "response.incomplete"])
async def test_a_streamed_response_is_counted_by_its_last_event(wire: Wire, wired: Providers, end: str) -> None:
    delta = {"type": "response.output_text.delta", "delta": "Seven"}
    wire.will_stream({"type": "response.created", "response": {"usage": None}}, delta, {"type": end, "response": response()})
    told: list[str] = []
    got = await wired.forward(asked("/responses", {**RESPONSES, "stream": True}), told.append)
    assert tuple(told) == got.pieces
    assert len(told) == 3
    assert got.usage == Usage(10, 5, 4)


async def test_a_request_to_gemini_is_called_by_its_path_and_counted(wire: Wire, wired: Providers) -> None:
    wire.will_say(spoken_by_gemini())
    got = await wired.forward(asked("/v1/models/gemini-2.5-flash:generateContent", GEMINI), pytest.fail)
    assert json.loads(got.pieces[0]) == spoken_by_gemini()
    assert (got.usage, got.max_tokens) == (Usage(10, 8, 4), 32_768)
    assert wire.requests == [{**GEMINI, "generationConfig": {"topP": 0.5, "maxOutputTokens": 32_768}}]
    assert "post /v1beta/models/gemini-2.5-flash:generatecontent http" in wire.heads[0]
    assert f"x-goog-api-key: {KEY}" in wire.heads[0]


async def test_a_stream_of_gemini_ends_with_its_connection(wire: Wire, wired: Providers) -> None:
    first = {"candidates": [{"content": {"parts": [{"text": "Sev"}]}}]}
    path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    wire.will_stream(first, spoken_by_gemini(), done=False)
    told: list[str] = []
    got = await wired.forward(asked(path, GEMINI), told.append)
    assert [json.loads(piece.split("data: ")[1]) for piece in told] == [first, spoken_by_gemini()]
    assert got.usage == Usage(10, 8, 4)
    assert "streamgeneratecontent?alt=sse http" in wire.heads[0]
    wire.replies.clear()
    wire.will_stream(first, done=False)
    with pytest.raises(ModelUncertain):
        await wired.forward(asked(path, GEMINI), told.append)


def test_the_budget_of_gemini_s_thinking_is_within_its_maximum() -> None:
    config = {"maxOutputTokens": 60_000, "thinkingConfig": {"thinkingBudget": 8_192}}
    ways = lowered(asked("/models/gemini-2.5-flash:generateContent", {**GEMINI, "generationConfig": config}))
    assert ways[-1].max_tokens == 2_048
    assert sent(ways[-1])["generationConfig"] == {"maxOutputTokens": 2_048, "thinkingConfig": {"thinkingBudget": 1_536}}


def test_gemini_has_a_price_and_a_bound_for_images() -> None:
    price = Prices().of("google:gemini-2.5-flash")
    assert price.cost_nanousd(Usage(1_000_000, 0)) == 300_000_000
    png = b64encode(
        bytes.fromhex("89504e470d0a1a0a0000000d49484452000000640000006408060000007097a5d5") + bytes(90_000)
    ).decode()
    seen = {"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": png}}]}]}
    assert 2_240 < forwarded_tokens_at_most(asked("/models/gemini-2.5-flash:generateContent", seen)) < 4_000


async def test_vectors_and_counted_tokens_come_back_as_they_were(wire: Wire, wired: Providers) -> None:
    wire.will_say({"data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 3, "total_tokens": 3}})
    wire.will_say({"input_tokens": 12})
    embeds = {"model": "text-embedding-3-small", "input": ["Bergen"]}
    got = await wired.forward(asked("/v1/embeddings", embeds), pytest.fail)
    assert got.usage == Usage(3, 0)
    counts = {"model": CLAUDE, "messages": MESSAGES["messages"]}
    got = await wired.forward(asked("/v1/messages/count_tokens", counts), pytest.fail)
    assert json.loads(got.pieces[0]) == {"input_tokens": 12}
    assert got.usage == Usage(0, 0)
    assert wire.requests == [embeds, counts]


async def test_a_refusal_of_the_provider_cost_nothing_and_keeps_its_status(wire: Wire, wired: Providers) -> None:
    wire.will_say({"error": {"type": "invalid_request_error", "message": "prompt is too long"}}, status=413)
    with pytest.raises(ModelRefused, match="prompt is too long") as refused:
        await wired.forward(asked("/messages", MESSAGES), pytest.fail)
    assert refused.value.status_code == 413


@pytest.mark.parametrize("events", [EVENTS[:3], (*EVENTS[:3], {"type": "error", "error": {"message": "overloaded"}})])
async def test_a_stream_that_breaks_off_is_of_unknown_cost(wire: Wire, wired: Providers, events: Any) -> None:
    wire.will_stream(*events, done=False)
    told: list[str] = []
    with pytest.raises(ModelUncertain):
        await wired.forward(asked("/messages", {**MESSAGES, "stream": True}), told.append)
    assert len(told) == len(events)


# --- What is bought -----------------------------------------------------------------------------------------------------------


def test_a_maximum_is_lowered_step_by_step_to_a_floor_and_the_question_stays() -> None:
    request = asked("/messages", {**MESSAGES, "max_tokens": 64_000})
    ways = lowered(request)
    assert [way.max_tokens for way in ways][:2] == [48_000, 36_000]
    assert ways[-1].max_tokens == 1_024
    assert sent(ways[-1])["max_tokens"] == 1_024
    assert {json.dumps(way.compared()) for way in ways} == {json.dumps(request.compared())}
    assert request.body["max_tokens"] == 64_000


def test_a_maximum_below_the_floor_is_not_lowered() -> None:
    assert lowered(asked("/messages", MESSAGES)) == []


def test_a_model_that_thinks_keeps_room_for_its_answer() -> None:
    thinks = {**MESSAGES, "max_tokens": 32_000, "thinking": {"type": "enabled", "budget_tokens": 31_999}}
    ways = lowered(asked("/messages", thinks))
    assert ways[-1].max_tokens == 2_048
    assert all(1_024 <= sent(way)["thinking"]["budget_tokens"] < way.max_tokens for way in ways)


def test_replies_asked_for_at_once_are_all_bought() -> None:
    request = asked("/chat/completions", {**CHAT, "max_completion_tokens": 2_000, "n": 3})
    assert request.max_tokens == 6_000
    assert [sent(way)["max_completion_tokens"] for way in (request, lowered(request)[0])] == [2_000, 1_500]


def test_an_old_name_of_the_maximum_and_another_server_keep_theirs() -> None:
    local = asked("/chat/completions", {**CHAT, "model": "llama-3", "max_tokens": 300})
    assert local.model == "openai:llama-3"
    assert sent(local) == {**CHAT, "model": "llama-3", "max_tokens": 300}
    assert "max_tokens" in sent(asked("/chat/completions", {**CHAT, "model": "llama-3"}))


def test_a_cache_for_an_hour_is_kept_for_five_minutes() -> None:
    cached = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    request = asked("/messages", {**MESSAGES, "system": [cached]})
    assert sent(request)["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}


@pytest.mark.parametrize(
    ("path", "fields", "words"),
    [
        ("/messages", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
        ("/messages", {"mcp_servers": [{"url": "http://127.0.0.1"}]}, "mcp_servers"),
        ("/messages", {"container": "c_1"}, "container"),
        ("/messages", {"speed": "fast"}, "speed"),
        ("/messages", {"context_management": {"edits": [{"type": "compact_20260112"}]}}, "compact"),
        ("/chat/completions", {"web_search_options": {}}, "web_search_options"),
        ("/responses", {"background": True}, "background"),
        ("/responses", {"tools": [{"type": "web_search"}]}, "web_search"),
        ("/responses", {"tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}]}, "mcp"),
        ("/responses", {"service_tier": "priority"}, "priority"),
        (GEMINI_PATH, {"tools": [{"googleSearch": {}}]}, "googleSearch"),
        (GEMINI_PATH, {"generationConfig": {"responseModalities": ["AUDIO"]}}, "not text"),
        (GEMINI_PATH, {"contents": [{"parts": [{"fileData": {"fileUri": "x"}}]}]}, "file at an address"),
        (GEMINI_PATH, {"contents": [{"parts": [{"inlineData": {"mimeType": "audio/wav", "data": ""}}]}]}, "audio/wav"),
        ("/chat/completions", {"service_tier": "priority"}, "priority"),
        ("/chat/completions", {"modalities": ["text", "audio"]}, "speech"),
    ],
)
def test_what_has_no_bound_is_refused(path: str, fields: dict[str, Any], words: str) -> None:
    body = {"/messages": MESSAGES, "/chat/completions": CHAT, "/responses": RESPONSES, GEMINI_PATH: GEMINI}[path]
    with pytest.raises(UnboundableRequest, match=words):
        asked(path, {**body, **fields})


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"messages": []}', b'{"model": 7}'])
def test_a_body_that_is_no_request_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="Nothing was called"):
        read("/messages", {}, body)


def test_another_path_is_not_found() -> None:
    with pytest.raises(NotFound):
        read("/v1/batches", {}, b"{}")


def test_the_bound_counts_every_byte_and_an_image_by_its_size() -> None:
    png = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000640000006408060000007097a5d5")
    data = b64encode(png + bytes(90_000)).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    plain = forwarded_tokens_at_most(asked("/messages", MESSAGES))
    assert plain > len(json.dumps(MESSAGES))
    seen = {**MESSAGES, "messages": [{"role": "user", "content": [image]}, *MESSAGES["messages"]]}
    request = asked("/messages", seen)
    assert plain < forwarded_tokens_at_most(request) < plain + 1_000
    assert request.body["messages"][0]["content"][0]["source"]["data"] == data
    hidden = {**MESSAGES, "messages": [{"role": "user", "content": [{"type": "tool_use", "input": image}]}]}
    assert forwarded_tokens_at_most(asked("/messages", hidden)) > len(data)


def test_a_part_that_only_the_provider_knows_counts_as_the_whole_context() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/x.png"}}
    request = asked("/messages", {**MESSAGES, "messages": [{"role": "user", "content": [image]}]})
    assert forwarded_tokens_at_most(request, 200_000) == 200_000
    with pytest.raises(UnboundableRequest, match="whole context"):
        forwarded_tokens_at_most(request)


# --- What is compared ---------------------------------------------------------------------------------------------------------


def claude_code(day: str, user: str, version: str) -> ForwardedRequest:
    body = {
        **MESSAGES,
        "system": [{"type": "text", "text": f"x-anthropic-billing-header: cc_version={version}; cc_entrypoint=sdk-py;"}],
        "messages": [{"role": "user", "content": f"Today's date is {day}.\nRun it."}],
        "metadata": {"user_id": user},
    }
    return asked("/v1/messages", body, CLAUDE_CODE)


def test_what_claude_code_changes_between_starts_is_not_compared() -> None:
    one, two = claude_code("2026-11-26", "a", "2.1.332.9bd"), claude_code("2026-11-27", "b", "2.1.333.1f1")
    assert one.compared() == two.compared()
    assert one.body != two.body
    other = asked("/v1/messages", one.body)
    assert other.compared() != asked("/v1/messages", two.body).compared()


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
        {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://example.org/x.png"}]}]},
    ],
)
def test_what_the_provider_keeps_counts_as_the_whole_context(fields: dict[str, Any]) -> None:
    request = asked("/responses", {**RESPONSES, **fields})
    assert forwarded_tokens_at_most(request, 200_000) == 200_000
    assert forwarded_tokens_at_most(asked("/responses", RESPONSES), 200_000) < 20_000


def test_encrypted_reasoning_counts_twice() -> None:
    said = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x" * 50_000}
    plain = forwarded_tokens_at_most(asked("/responses", RESPONSES))
    with_it = forwarded_tokens_at_most(asked("/responses", {**RESPONSES, "input": [*RESPONSES["input"], said]}))
    assert 100_000 < with_it - plain < 101_000


def codex(turn: str) -> ForwardedRequest:
    """A request of Codex, each start of which has ids, dates and figures of its own."""
    message = {
        "type": "message",
        "id": f"msg_{turn}",
        "role": "user",
        "content": [{"type": "input_text", "text": f"<current_date>2026-11-{turn}</current_date> Run it."}],
        "internal_chat_message_metadata_passthrough": {"turn_id": turn},
    }
    output = f"Chunk ID: {turn}cce\nWall time: 0.{turn} seconds\nOutput:\none"
    items = [message, {"type": "function_call_output", "id": f"fco_{turn}", "call_id": "call_1", "output": output}]
    body = {**RESPONSES, "input": items, "prompt_cache_key": turn, "client_metadata": {"session_id": turn}}
    return asked("/v1/responses", body, CODEX)


def test_what_codex_changes_between_starts_is_not_compared() -> None:
    assert codex("26").compared() == codex("27").compared()
    kept = codex("26").compared()["body"]["input"]
    assert kept[1]["output"].startswith("Chunk ID: …\nWall time: … seconds")
    assert kept[1]["call_id"] == "call_1"


def gemini_cli(number: str) -> ForwardedRequest:
    output = f"Output: one\nProcess Group PGID: {number}"
    answer = {"functionResponse": {"name": "shell", "response": {"output": output}}}
    today = {"text": f"Today's date is Thursday, November {number}, 2026 (formatted as usual).\nHi."}
    body = {**GEMINI, "contents": [{"role": "user", "parts": [today]}, {"role": "user", "parts": [answer]}]}
    return asked(GEMINI_PATH, body, {"user-agent": "GeminiCLI-tui/0.61.0/gemini-2.5-flash (linux; x64)"})


def test_what_gemini_cli_changes_between_starts_is_not_compared() -> None:
    assert gemini_cli("26").compared() == gemini_cli("27").compared()


def test_keys_in_another_order_and_headers_are_not_compared() -> None:
    turned = dict(reversed(MESSAGES.items()))
    one, two = asked("/v1/messages", MESSAGES, {"x-retry": "1"}), asked("/messages?beta=true", turned, {"x-retry": "2"})
    assert one.compared() == two.compared()


def test_a_difference_names_its_field_and_both_values() -> None:
    before = {"messages": [{"role": "user", "content": "a" * 300 + "one"}], "n": 1}
    now = {"messages": [{"role": "user", "content": "a" * 300 + "two"}], "n": 1}
    found = first_difference(before, now)
    assert found is not None
    assert found.field == "messages[0].content"
    assert (found.before or "").endswith("one'")
    assert (found.now or "").endswith("two'")
    assert first_difference(before, {**before, "n": 2}) == ("n", "1", "2")
    assert first_difference(before, {"messages": before["messages"]}) == ("n", "1", None)
    assert first_difference(before, before) is None


# --- Answers ------------------------------------------------------------------------------------------------------------------

STOPPED = CallsStopped("Cost limit reached", reason="limit")


@pytest.mark.parametrize(
    ("format_", "headers", "status", "error"),
    [
        ("anthropic.messages", {}, 402, {"type": "billing_error", "message": "Cost limit reached"}),
        ("anthropic.messages", CLAUDE_CODE, 402, {"type": "billing_error", "message": "Cost limit reached"}),
        (
            "openai.chat",
            {},
            402,
            {"message": "Cost limit reached", "type": "insufficient_quota", "param": None, "code": "insufficient_quota"},
        ),
        (
            "openai.responses",
            CODEX,
            400,
            {"message": "Cost limit reached", "type": "invalid_request_error", "param": None, "code": None},
        ),
        ("gemini.generate", {}, 402, {"code": 402, "message": "Cost limit reached", "status": "FAILED_PRECONDITION"}),
    ],
)
def test_at_a_limit_a_program_gets_the_answer_that_ends_it(
    format_: ForwardedFormat, headers: dict[str, str], status: int, error: dict[str, Any]
) -> None:
    got = answer_to(STOPPED, format_, headers)
    assert (got.status, got.headers["x-should-retry"]) == (status, "false")
    assert json.loads(got.body)["error"] == error


def test_claude_code_gets_no_400_for_a_request_without_a_bound() -> None:
    problem = UnboundableRequest("no bound")
    assert answer_to(problem, "anthropic.messages", CLAUDE_CODE).status == 403
    assert answer_to(problem, "anthropic.messages", {}).status == 400


def test_a_transient_refusal_says_when_to_come_again() -> None:
    from holdfast.core.values.policies import ErrorRecord

    error = ErrorRecord("ask", "rate_limit", "too many", True, 0, retry_after_s=7.0)
    got = answer_to(OperationFailed("too many", error=error), "openai.chat", {})
    assert (got.status, got.headers["retry-after"]) == (429, "7")
    assert "x-should-retry" not in got.headers


# --- Events -------------------------------------------------------------------------------------------------------------------


def test_events_are_cut_where_they_end_wherever_the_bytes_are() -> None:
    text = "event: a\ndata: ä\n\n: ping\r\n\r\ndata: b\ndata: c\n\n"
    for size in range(1, 8):
        splitter, data = EventSplitter(), text.encode()
        found = [each for at in range(0, len(data), size) for each in splitter.feed(data[at : at + size])]
        assert "".join(each.text for each in found) == text
        assert [each.data.decode() for each in found] == ["ä", "", "b\nc"]
        assert [*splitter.rest()] == []
