"""The model server as the providers' own SDKs and pydantic-ai see it, and as a judge reads it from its journal."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from pydantic import BaseModel

from holdfast.testing.model_rule import FaultKind
from holdfast.testing.model_server import Fault, ModelServer, Rule, ToolCall, Usage, environment, load_rules, read_calls
from tests.testing import sdk

HAIKU = "claude-haiku-4-5"
GPT = "gpt-5-mini"
QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
HELLO = [{"role": "user", "content": "Hello"}]


def search() -> sdk.ModelRequestParameters:
    """The tool that a request offers."""
    tool = sdk.ToolDefinition(name="search_kb", parameters_json_schema=QUERY)
    return sdk.ModelRequestParameters(function_tools=[tool])


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ModelServer]:
    async with ModelServer(journal=tmp_path / "calls.jsonl") as server:
        yield server


@pytest.fixture
async def claude(server: ModelServer) -> AsyncIterator[sdk.AsyncAnthropic]:
    async with sdk.claude(api_key="k", base_url=server.anthropic_url, max_retries=0) as client:
        yield client


@pytest.fixture
async def gpt(server: ModelServer) -> AsyncIterator[sdk.AsyncOpenAI]:
    async with sdk.gpt(api_key="k", base_url=server.openai_url, max_retries=0) as client:
        yield client


@pytest.fixture(params=["anthropic", "openai", "responses"])
def model(request: pytest.FixtureRequest, claude: sdk.AsyncAnthropic, gpt: sdk.AsyncOpenAI) -> sdk.Model:
    if request.param == "anthropic":
        return sdk.AnthropicModel(HAIKU, provider=sdk.AnthropicProvider(anthropic_client=claude))
    if request.param == "responses":
        return sdk.OpenAIResponsesModel(GPT, provider=sdk.OpenAIProvider(openai_client=gpt))
    return sdk.OpenAIChatModel(GPT, provider=sdk.OpenAIProvider(openai_client=gpt))


def asks_for_a_tool(model: sdk.Model) -> str:
    """How pydantic-ai reads the end of a reply that calls a tool: a response is only completed, or not."""
    return "stop" if isinstance(model, sdk.OpenAIResponsesModel) else "tool_call"


async def ask(
    model: sdk.Model, text: str = "Hello", tools: sdk.ModelRequestParameters | None = None, max_tokens: int = 200
) -> sdk.ModelResponse:
    messages = [sdk.ModelRequest.user_text_prompt(text, instructions="Be brief.")]
    return await sdk.model_request(
        model, messages, model_settings={"max_tokens": max_tokens}, model_request_parameters=tools or search()
    )


async def ask_streaming(model: sdk.Model, text: str = "Hello") -> sdk.ModelResponse:
    messages = [sdk.ModelRequest.user_text_prompt(text)]
    async with sdk.model_request_stream(
        model, messages, model_settings={"max_tokens": 200}, model_request_parameters=search()
    ) as stream:
        async for _ in stream:
            pass
        return stream.get()


# --- what it says ----------------------------------------------------------------------------------------------------


async def test_both_sdks_get_text_with_its_usage_and_a_reason_to_stop(claude: sdk.AsyncAnthropic, gpt: sdk.AsyncOpenAI) -> None:
    message = await claude.messages.create(model=HAIKU, max_tokens=50, messages=HELLO)
    completion = await gpt.chat.completions.create(model=GPT, messages=HELLO)

    assert message.content[0].text == completion.choices[0].message.content == "I have read: Hello"
    assert (message.stop_reason, completion.choices[0].finish_reason) == ("end_turn", "stop")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (2, 5)
    assert completion.usage
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens, completion.usage.total_tokens) == (2, 5, 7)


async def test_the_same_request_is_answered_the_same_under_another_id(model: sdk.Model, server: ModelServer) -> None:
    first, second = await ask(model), await ask(model)

    assert [part.content for part in first.parts] == [part.content for part in second.parts]
    assert first.usage == second.usage
    assert first.provider_response_id != second.provider_response_id
    assert len({call.request_sha256 for call in server.calls}) == 1


async def test_a_tool_call_makes_its_round_trip(model: sdk.Model, server: ModelServer) -> None:
    server.script.add(
        Rule(turn=1, tool_calls=(ToolCall("search_kb", {"query": "about {user}"}),)),
        Rule(turn=2, text="It is in the handbook."),
    )
    question = sdk.ModelRequest.user_text_prompt("refunds")

    first = await sdk.model_request(model, [question], model_request_parameters=search())
    call = first.tool_calls[0]
    result = sdk.ModelRequest(parts=[sdk.ToolReturnPart(call.tool_name, "found", tool_call_id=call.tool_call_id)])
    second = await sdk.model_request(model, [question, first, result], model_request_parameters=search())

    assert (call.tool_name, call.args_as_dict()) == ("search_kb", {"query": "about refunds"})
    assert first.finish_reason == asks_for_a_tool(model)
    assert [part.content for part in second.parts if isinstance(part, sdk.TextPart)] == ["It is in the handbook."]
    assert [(call.turn, call.called, call.tools, call.user) for call in server.calls] == [
        (1, ("search_kb",), ("search_kb",), "refunds"),
        (2, (), ("search_kb",), "refunds"),
    ]


async def test_arguments_that_were_not_given_fit_the_tools_schema(model: sdk.Model, server: ModelServer) -> None:
    server.script.add(Rule(tool_calls=(ToolCall("search_kb"),)))
    response = await ask(model, "What about refunds?")
    assert response.tool_calls[0].args_as_dict() == {"query": "query: What about refunds?"}


class Triage(BaseModel):
    kind: Literal["bug", "feature", "billing", "other"]
    urgent: bool
    summary: str


async def test_a_forced_output_tool_is_called_with_what_the_text_suggests(model: sdk.Model, server: ModelServer) -> None:
    result = await sdk.Agent(model, output_type=Triage).run("My billing is wrong")
    assert result.output.kind == "billing"
    assert [(call.kind, call.called) for call in server.calls] == [("output", ("final_result",))]


async def test_an_output_given_by_rule_comes_the_way_it_was_demanded(model: sdk.Model, server: ModelServer) -> None:
    wanted = {"kind": "feature", "urgent": False, "summary": "Dark mode."}
    server.script.add(Rule(output=wanted))
    result = await sdk.Agent(model, output_type=Triage).run("Anything")
    assert result.output.model_dump() == wanted


async def test_openai_response_format_gets_json_of_its_schema(gpt: sdk.AsyncOpenAI, server: ModelServer) -> None:
    model = sdk.OpenAIChatModel(GPT, provider=sdk.OpenAIProvider(openai_client=gpt))
    native = await sdk.Agent(model, output_type=sdk.NativeOutput(Triage)).run("a bug, I think")
    parsed = await gpt.chat.completions.parse(model=GPT, messages=HELLO, response_format=Triage)

    assert native.output.kind == "bug"
    assert parsed.choices[0].message.parsed
    assert [call.kind for call in server.calls] == ["output", "output"]


async def test_anthropic_output_format_gets_json_of_its_schema(claude: sdk.AsyncAnthropic) -> None:
    message = await claude.messages.parse(model=HAIKU, max_tokens=200, messages=HELLO, output_format=Triage)
    assert isinstance(message.parsed_output, Triage)


async def test_a_stream_brings_the_same_text_tool_call_and_usage_as_a_whole_answer(
    model: sdk.Model, server: ModelServer
) -> None:
    # Line separators inside a server-sent event are a classic way to lose half of it.
    text = "One\u2028two\u0085three\r\nfour – 😀 " * 20
    server.script.add(Rule(text=text, tool_calls=(ToolCall("search_kb", {"query": "x" * 100}),)))
    whole, streamed = await ask(model), await ask_streaming(model)

    assert [part.content for part in streamed.parts if isinstance(part, sdk.TextPart)] == [text]
    assert [call.args_as_dict() for call in streamed.tool_calls] == [call.args_as_dict() for call in whole.tool_calls]
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    assert (streamed.state, streamed.finish_reason) == ("complete", asks_for_a_tool(model))
    assert [call.stream for call in server.calls] == [False, True]


async def test_openai_streams_report_no_usage_unless_asked(gpt: sdk.AsyncOpenAI) -> None:
    chunks = [chunk async for chunk in await gpt.chat.completions.create(model=GPT, messages=HELLO, stream=True)]
    assert not any(chunk.usage for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "stop"


@pytest.mark.parametrize("rule", [Rule(text="word " * 500), Rule(tool_calls=(ToolCall("search_kb", {"query": "w" * 999}),))])
async def test_no_answer_is_longer_than_its_max_tokens(model: sdk.Model, server: ModelServer, rule: Rule) -> None:
    server.script.add(rule)
    response = await ask(model, max_tokens=20)
    assert response.finish_reason == "length"
    assert response.usage.output_tokens == 20


async def test_a_rule_may_say_what_a_call_used(model: sdk.Model, server: ModelServer) -> None:
    server.script.add(Rule(usage=Usage(200_001, 7, cache_read_tokens=1000)))
    usage = (await ask(model)).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (200_001, 7, 1000)
    assert server.calls[0].used == Usage(200_001, 7, cache_read_tokens=1000)


async def test_a_marked_prefix_is_written_to_the_cache_once_and_read_afterwards(server: ModelServer) -> None:
    client = sdk.claude(api_key="k", base_url=server.anthropic_url)
    system = [{"type": "text", "text": "s" * 400, "cache_control": {"type": "ephemeral"}}]

    async def usage(user: str) -> tuple[int, int | None, int | None]:
        messages = [{"role": "user", "content": user}]
        seen = (await client.messages.create(model=HAIKU, max_tokens=9, system=system, messages=messages)).usage
        return seen.input_tokens, seen.cache_creation_input_tokens, seen.cache_read_input_tokens

    assert await usage("a" * 40) == (10, 100, 0)
    assert await usage("b" * 80) == (20, 0, 100)
    await client.close()


async def test_the_journal_tells_of_cache_marks_on_tools(claude: sdk.AsyncAnthropic, server: ModelServer) -> None:
    model = sdk.AnthropicModel(HAIKU, provider=sdk.AnthropicProvider(anthropic_client=claude))
    settings: Any = {"anthropic_cache_tool_definitions": True, "max_tokens": 77}
    question = [sdk.ModelRequest.user_text_prompt("Hello")]
    response = await sdk.model_request(model, question, model_settings=settings, model_request_parameters=search())

    assert response.usage.cache_write_tokens > 0
    assert [(call.cache_control_on_tools, call.max_tokens) for call in server.calls] == [(True, 77)]


# --- rules -----------------------------------------------------------------------------------------------------------


async def test_rules_are_asked_in_order_and_what_is_added_comes_first(model: sdk.Model, server: ModelServer) -> None:
    server.script.add(Rule(user="refund", text="specific"), Rule(text="general"))
    assert await said(model, "a REFUND please") == "specific"
    server.script.add(Rule(model="gpt-*", text="gpt"), Rule(wire="anthropic", system=("loud", "brief"), text="claude"))
    assert await said(model, "a refund please") == ("claude" if isinstance(model, sdk.AnthropicModel) else "gpt")
    server.script.clear()
    assert await said(model, "a refund please") == "I have read: a refund please"


async def test_a_rule_may_count_the_calls_it_matches(model: sdk.Model, server: ModelServer) -> None:
    server.script.add(Rule(times=1, text="once"), Rule(user="b", nth=2, text="second b"), Rule(text="always"))
    asked = ["b", "b", "a", "b", "b"]
    assert [await said(model, text) for text in asked] == ["once", "always", "always", "second b", "always"]


async def test_a_rule_without_an_answer_leaves_it_to_the_next(model: sdk.Model, server: ModelServer) -> None:
    server.script.add(Rule(latency_s=0.001), Rule(times=1, fault=Fault("status", status=503)), Rule(nth=1, text="first"))
    with pytest.raises(sdk.ModelAPIError):
        await ask(model)
    assert await said(model) == "first"  # the refused call never asked the third rule


async def test_a_tool_that_is_not_offered_is_not_called(model: sdk.Model, server: ModelServer) -> None:
    server.script.add(Rule(tool_calls=(ToolCall("search_kb"),)), Rule(text="without a tool"))
    assert (await ask(model)).tool_calls
    assert await said(model) == "without a tool"


async def said(model: sdk.Model, text: str = "Hello") -> str:
    response = await ask(model, text, sdk.ModelRequestParameters())
    return "".join(part.content for part in response.parts if isinstance(part, sdk.TextPart))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"rules": [{"text": "fine"}, {"txt": "x"}]}', "rule 2: Object contains unknown field `txt`"),
        ('{"rules": [{"fault": {"kind": "explode"}}]}', "rule 1: Invalid enum value 'explode'"),
        ("[]", "Expected `object`"),
        ('{"rules"', "truncated"),
    ],
)
def test_a_wrong_rules_file_is_refused_with_the_place(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "rules.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=complaint) as refusal:
        load_rules(path, Rule)
    assert str(path) in str(refusal.value)


def test_a_server_that_cannot_read_its_rules_says_how_they_look(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text("[]")
    for module in ("model_server", "mail_sink"):
        command = [sys.executable, "-m", f"holdfast.testing.{module}", "--rules", str(path)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
        assert '{"rules": [RULE, ...]}' in ended.stderr


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "error", "outcome"),
    [
        (Fault("status", status=429, retry_after_s=3), "ModelRateLimitError", "sent"),
        (Fault("status", status=503, message="overloaded"), "ModelOverloadedError", "sent"),
        (Fault("status", status=418), "ModelAPIError", "sent"),
        (Fault("stream_error", status=529, code="overloaded_error"), "ModelOverloadedError", "sent"),
        (Fault("hang"), "ModelTimeoutError", "client_left"),
        (Fault("cut_before_reply"), "ModelConnectionError", "cut"),
        (Fault("cut_in_body"), "ModelConnectionError", "cut"),
        (Fault("malformed_body"), "ModelAPIError", "sent"),
    ],
    ids=lambda value: f"{value.kind}-{value.status}" if isinstance(value, Fault) else "",
)
async def test_a_fault_of_the_connection_reaches_the_client_and_the_journal(
    model: sdk.Model, server: ModelServer, fault: Fault, error: str, outcome: str, stream: bool
) -> None:
    server.script.add(Rule(fault=fault, text="word " * 40))
    model.client.timeout = httpx2.Timeout(5, read=0.1 if fault.kind == "hang" else 5)

    with pytest.raises(getattr(sdk, error)) as caught:
        await (ask_streaming if stream else ask)(model)

    if fault.kind == "status":
        assert (caught.value.status_code, caught.value.retry_after) == (fault.status, fault.retry_after_s)
    await until(lambda: [call.outcome for call in server.calls] == [outcome])
    assert [(call.fault, call.stream) for call in server.calls] == [(fault.kind, stream)]
    said = fault.kind == "cut_in_body" or (fault.kind == "stream_error" and stream)
    assert (server.calls[0].used is not None) == said


async def test_a_broken_stream_has_brought_half_of_its_text(claude: sdk.AsyncAnthropic, server: ModelServer) -> None:
    server.script.add(Rule(text="word " * 200, fault=Fault("cut_in_body")))
    pieces: list[str] = []

    async def read() -> None:
        async with claude.messages.stream(model=HAIKU, max_tokens=500, messages=HELLO) as stream:
            async for piece in stream.text_stream:
                pieces.append(piece)  # noqa: PERF401 -- what came before the break must stay

    with pytest.raises(httpx2.RemoteProtocolError):
        await read()
    assert 0 < len("".join(pieces)) < 1000
    assert server.calls[0].used
    assert server.calls[0].used.output_tokens == 250  # spent, whatever the client saw


async def test_usage_that_is_missing_or_negative_stands_in_the_journal_all_the_same(
    claude: sdk.AsyncAnthropic, gpt: sdk.AsyncOpenAI, server: ModelServer
) -> None:
    server.script.add(Rule(nth=1, fault=Fault("missing_usage")), Rule(nth=3, fault=Fault("missing_usage")))
    server.script.add(Rule(nth=2, fault=Fault("negative_usage")), Rule(nth=4, fault=Fault("negative_usage")))
    messages = [await claude.messages.create(model=HAIKU, max_tokens=50, messages=HELLO) for _ in range(2)]
    completions = [await gpt.chat.completions.create(model=GPT, messages=HELLO) for _ in range(2)]

    assert getattr(messages[0], "usage", None) is completions[0].usage is None
    assert messages[1].usage.input_tokens < 0
    assert completions[1].usage
    assert completions[1].usage.prompt_tokens < 0
    assert [call.used for call in server.calls] == [Usage(2, 5)] * 4


async def test_an_answer_that_is_not_of_the_schema_is_seen_by_a_validator(model: sdk.Model, server: ModelServer) -> None:
    server.script.add(Rule(fault=Fault("wrong_schema")))
    with pytest.raises(sdk.UnexpectedModelBehavior):
        await sdk.Agent(model, output_type=Triage, retries=0).run("Hello")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["unknown_tool", "invalid_arguments", "malformed_arguments"])
async def test_a_wrong_tool_call_reaches_the_client(
    model: sdk.Model, server: ModelServer, kind: FaultKind, stream: bool
) -> None:
    server.script.add(Rule(fault=Fault(kind), tool_calls=(ToolCall("search_kb", {"query": "refunds"}),)))
    call = (await (ask_streaming if stream else ask)(model)).tool_calls[0]

    if kind == "unknown_tool":
        assert call.tool_name not in search().tool_defs
    elif kind == "invalid_arguments":
        assert "query" not in call.args_as_dict()
    else:
        assert call.args == {} or not is_json(call.args)  # Anthropic's whole answers can carry no other than an object


async def test_each_retry_of_an_sdk_is_a_call_in_the_journal(server: ModelServer) -> None:
    server.script.add(Rule(times=2, fault=Fault("status", status=529, retry_after_s=0.001)))
    async with sdk.claude(api_key="k", base_url=server.anthropic_url) as client:
        await client.messages.create(model=HAIKU, max_tokens=50, messages=HELLO)
    assert [call.status for call in server.calls] == [529, 529, 200]
    assert len({call.request_sha256 for call in server.calls}) == 1


async def test_what_a_provider_would_not_take_is_refused_and_is_no_call(server: ModelServer) -> None:
    called = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "search_kb", "input": {}}]}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"messages": HELLO, "max_tokens": 5}, "model: Field required"),
        ({"model": HAIKU, "messages": HELLO}, "max_tokens: Field required"),
        ({"model": HAIKU, "max_tokens": 5, "messages": [*HELLO, called]}, "tool calls without a tool result after them: t1"),
        ({"model": HAIKU, "max_tokens": 5, "messages": [{"role": "user", "content": [7]}]}, "not of this format"),
    ]
    async with httpx2.AsyncClient(base_url=server.anthropic_url, headers={"x-api-key": "k"}) as client:
        for body, complaint in wrong:
            reply = await client.post("/v1/messages", json=body)
            assert reply.status_code == 400
            assert complaint in reply.json()["error"]["message"]
        assert (await client.post("/v1/messages", json={}, headers={"x-api-key": ""})).status_code == 401
    assert server.calls == []
    assert [entry["status"] for entry in server.journal.entries()] == [400, 400, 400, 400, 401]


async def test_openai_responses_are_answered_whole_and_streamed(gpt: sdk.AsyncOpenAI, server: ModelServer) -> None:
    """With what the SDK reads of them: text, calls of functions, usage, the reason of a reply that was cut."""
    tool = {"type": "function", "name": "search_kb", "parameters": QUERY, "strict": False}
    server.script.add(Rule(turn=1, text="I look.", tool_calls=(ToolCall("search_kb", {"query": "refunds"}),)))
    server.script.add(Rule(turn=2, text="It is there."))
    first = await gpt.responses.create(model=GPT, input="refunds", instructions="Be brief.", tools=[tool])
    message, call = first.output
    assert (first.output_text, call.name, call.arguments) == ("I look.", "search_kb", '{"query":"refunds"}')
    assert (first.status, first.usage.input_tokens > 0, first.usage.output_tokens) == ("completed", True, 10)
    said = [{"role": "user", "content": "refunds"}, message, call]
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "found"}
    events = [event async for event in await gpt.responses.create(model=GPT, input=[*said, result], tools=[tool], stream=True)]
    assert [event.sequence_number for event in events] == [*range(len(events))]
    assert "".join(each.delta for each in events if each.type == "response.output_text.delta") == "It is there."
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert events[-1].response.output_text == "It is there."
    async with gpt.responses.stream(model=GPT, input=[*said, result]) as stream:
        assert (await stream.get_final_response()).output_text == "It is there."
    cut = await gpt.responses.create(model=GPT, input="refunds", tools=[tool], max_output_tokens=1)
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert [(call.turn, call.called, call.stream) for call in server.calls] == [
        (1, ("search_kb",), False),
        (2, (), True),
        (2, (), True),
        (1, (), False),
    ]


async def test_openai_responses_parse_into_the_class_that_was_asked_for(gpt: sdk.AsyncOpenAI, server: ModelServer) -> None:
    found = await gpt.responses.parse(model=GPT, input="My billing is wrong", text_format=Triage)
    assert found.output_parsed.kind == "billing"
    server.script.add(Rule(output={"kind": "bug", "urgent": True, "summary": "x"}))
    native = await sdk.Agent(
        sdk.OpenAIResponsesModel(GPT, provider=sdk.OpenAIProvider(openai_client=gpt)), output_type=sdk.NativeOutput(Triage)
    ).run("Anything")
    assert native.output == Triage(kind="bug", urgent=True, summary="x")


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"model": GPT}, "input: a text, or a list of items"),
        ({"model": GPT, "input": "x", "previous_response_id": "resp_1"}, "previous_response_id: leave it out"),
        ({"model": GPT, "input": [{"type": "item_reference", "id": "x"}]}, "'item_reference'"),
        ({"model": GPT, "input": [{"type": "function_call_output", "call_id": "c", "output": ""}]}, "without a tool call"),
        ({"model": GPT, "input": "x", "tool_choice": {"type": "function", "name": "y"}}, "Tool choice 'y' not found"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_a_response_that_openai_would_not_give_is_refused(
    server: ModelServer, body: dict[str, Any], complaint: str
) -> None:
    async with httpx2.AsyncClient(base_url=server.openai_url, headers={"authorization": "Bearer k"}) as client:
        said = await client.post("responses", json=body)
    assert (said.status_code, server.calls) == (400, [])
    assert complaint in said.json()["error"]["message"]


async def test_what_the_server_does_not_speak_is_said_in_words(gpt: sdk.AsyncOpenAI, server: ModelServer) -> None:
    with pytest.raises(sdk.InternalServerError, match="does not speak GET /v1/models") as caught:
        await gpt.models.list()
    assert caught.value.status_code == 501
    async with httpx2.AsyncClient(base_url=server.openai_url, headers={"authorization": "Bearer k"}) as client:
        for method, path in (("POST", "audio/speech"), ("GET", "responses/resp_1"), ("DELETE", "files/f"), ("GET", "")):
            said = await client.request(method, path)
            assert said.status_code == 501, path
            assert "POST /v1/responses" in said.json()["error"]["message"]
    assert server.calls == []
    assert {entry["status"] for entry in server.journal.entries()} == {501}


# --- its life, and the judge's -----------------------------------------------------------------------------------------


async def test_the_sdks_find_the_server_by_the_environment(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    async with sdk.AsyncAnthropic() as claude, sdk.AsyncOpenAI() as gpt:
        await claude.messages.create(model=HAIKU, max_tokens=50, messages=HELLO)
        await gpt.chat.completions.create(model=GPT, messages=HELLO)
    assert [call.wire for call in server.calls] == ["anthropic", "openai"]


async def test_servers_live_side_by_side_and_count_for_themselves(tmp_path: Path) -> None:
    async def load(name: str, calls: int) -> list[int]:
        async with ModelServer(journal=tmp_path / name, latency_s=0.002) as server:
            async with sdk.gpt(api_key="k", base_url=server.openai_url, max_retries=0) as client:
                await asyncio.gather(*(client.chat.completions.create(model=GPT, messages=HELLO) for _ in range(calls)))
            assert {call.outcome for call in server.calls} == {"sent"}
            return [call.number for call in server.calls]

    counted = await asyncio.gather(load("a", 10), load("b", 20), load("c", 30))
    assert counted == [list(range(1, calls + 1)) for calls in (10, 20, 30)]


def test_it_answers_while_the_only_loop_is_blocked(tmp_path: Path) -> None:
    with ModelServer(journal=tmp_path / "calls.jsonl") as server:
        model = sdk.OpenAIChatModel(GPT, provider=sdk.OpenAIProvider(base_url=server.openai_url, api_key="k"))
        response = sdk.model_request_sync(model, [sdk.ModelRequest.user_text_prompt("Hello")])
    assert response.usage.output_tokens == server.calls[0].used.output_tokens


async def test_stopping_waits_for_no_hung_request(tmp_path: Path) -> None:
    async with ModelServer(journal=tmp_path / "calls.jsonl", rules=[Rule(fault=Fault("hang"))]) as server:
        client = sdk.gpt(api_key="k", base_url=server.openai_url, max_retries=0)
        asking = [asyncio.create_task(client.chat.completions.create(model=GPT, messages=HELLO)) for _ in range(9)]
        await until(lambda: len(server.calls) == 9)
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert {type(error) for error in await asyncio.gather(*asking, return_exceptions=True)} == {sdk.APIConnectionError}
    assert {call.outcome for call in server.calls} == {"cut"}
    await client.close()


class Process:
    """The server as a process of its own."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.journal = directory / "calls.jsonl"
        self.port_file = directory / "port"
        files = ["--journal", str(self.journal), "--port-file", str(self.port_file)]
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "holdfast.testing.model_server", *files, *options], stdout=subprocess.PIPE, text=True
        )
        assert self.popen.stdout
        self.announced = dict(self.popen.stdout.readline().strip().split("=", 1) for _ in range(4))
        self.port = int(self.port_file.read_text())

    def end(self, number: int) -> int:
        self.popen.send_signal(number)
        status = self.popen.wait(5)
        assert self.popen.stdout
        self.popen.stdout.close()
        return status


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in started:
        if process.popen.poll() is None:
            process.end(signal.SIGKILL)


async def test_a_killed_server_has_lost_no_call_and_its_successor_counts_on(tmp_path: Path, processes: list[Process]) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"rules": [{"nth": 2, "fault": {"kind": "hang"}}]}))
    first = Process(tmp_path, "--rules", str(rules))
    processes.append(first)
    assert first.announced == environment(first.port)

    async with sdk.gpt(api_key="k", base_url=first.announced["OPENAI_BASE_URL"], max_retries=0) as client:
        await client.chat.completions.create(model=GPT, messages=HELLO)
        hung = asyncio.create_task(client.chat.completions.create(model=GPT, messages=HELLO))
        await until(lambda: len(read_calls(first.journal)) == 2)
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        with pytest.raises(sdk.APIConnectionError):
            await hung
    assert [(call.number, call.outcome) for call in read_calls(first.journal)] == [(1, "sent"), (2, None)]

    async with ModelServer(journal=first.journal) as second:
        async with sdk.gpt(api_key="k", base_url=second.openai_url) as client:
            await client.chat.completions.create(model=GPT, messages=HELLO)
        assert [(call.number, call.outcome) for call in second.calls] == [(1, "sent"), (2, None), (3, "sent")]


def test_a_server_in_a_process_takes_rules_by_http_and_ends_on_request(tmp_path: Path, processes: list[Process]) -> None:
    process = Process(tmp_path)
    processes.append(process)
    base = process.announced["ANTHROPIC_BASE_URL"]
    rules = {"rules": [{"text": "by rule"}]}

    def answer() -> str:
        with sdk.OpenAI(api_key="k", base_url=f"{base}/v1") as client:
            return client.chat.completions.create(model=GPT, messages=HELLO).choices[0].message.content or ""

    assert httpx2.post(f"{base}/_control/rules", json=rules).status_code == 204
    assert answer() == "by rule"
    assert "unknown field" in httpx2.post(f"{base}/_control/rules", json={"rules": [{"x": 1}]}).json()["error"]
    assert httpx2.delete(f"{base}/_control/rules").status_code == 204
    assert answer() == "I have read: Hello"
    assert process.end(signal.SIGTERM) == os.EX_OK


def test_a_server_in_a_process_needs_no_journal(tmp_path: Path) -> None:
    port = tmp_path / "port"
    command = [sys.executable, "-m", "holdfast.testing.model_server", "--port-file", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path, text=True) as process:
        try:
            assert process.stdout
            base = process.stdout.readline().strip().partition("=")[2]
            with sdk.OpenAI(api_key="k", base_url=f"{base}/v1") as client:
                answer = client.chat.completions.create(model=GPT, messages=HELLO)
            assert answer.choices[0].message.content == "I have read: Hello"
            assert [each.name for each in tmp_path.iterdir()] == ["port"]
        finally:
            process.terminate()
    assert process.returncode == os.EX_OK


def test_neither_a_torn_line_nor_half_a_character_costs_a_call(tmp_path: Path) -> None:
    journal = tmp_path / "calls.jsonl"
    journal.write_text('{"event":"refused","at_unix_s":0}\n{"event":"received","number')
    with ModelServer(journal=journal) as server:
        reply = httpx2.post(
            f"{server.openai_url}/chat/completions",
            content=rb'{"model": "gpt-5-mini", "messages": [{"role": "user", "content": "half \ud83d"}]}',
            headers={"authorization": "Bearer k"},
        )
    assert reply.json()["choices"][0]["message"]["content"] == "I have read: half ?"
    assert [(call.user, call.outcome) for call in server.calls] == [("half ?", "sent")]


async def until(condition: Any) -> None:
    """The server notices the end of a connection on its own thread, a moment after the client."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def is_json(text: Any) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
