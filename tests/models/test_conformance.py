"""The wires against pydantic-ai and the providers' SDKs: the same requests, and replies that are read alike."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pydantic import BaseModel, Field

from holdfast.core.values.content import ContentPart, Kind
from holdfast.errors import ModelError
from holdfast.models.providers import Providers
from holdfast.ports import AnswerSpec, ModelRequest, ModelTurn, ToolReply, ToolSpec, ToolTurn, Turn, UserTurn
from tests import media
from tests.models.provider import CLAUDE, GPT, LOOK_UP, VERDICT, Wire, anthropic_reply, ask, openai_reply
from tests.models.test_streams import block, chunk, message_end, message_start, piece, text_block
from tests.testing import sdk

if TYPE_CHECKING:
    from tests.models import oracle  # imports the SDKs, for which whoever collects the tests need not wait

OWN = (
    "claude-haiku-4-5",
    "claude-opus-4-1",
    "claude-sonnet-4-6",
    "claude-opus-4-8",
    "claude-opus-5",
    "claude-opus-5-5",
    "claude-sonnet-5",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-fable-5",
    "claude-fable-5-1",
    "claude-mythos-preview",
    "gpt-4o",
    "gpt-4.1-nano",
    "ft:gpt-4o-mini:us",
    "chatgpt-4o-latest",
    "gpt-5",
    "gpt-5-mini",
    "gpt-5-chat-latest",
    "gpt-5.1",
    "gpt-5.1-codex",
    "gpt-5.2",
    "gpt-5.2-pro",
    "gpt-5.3-chat",
    "gpt-5.4",
    "gpt-5.5",
    "gpt-5.6",
    "gpt-6-sol",
    "gpt-6.1-terra",
    "o1",
    "o3",
    "o4-mini",
)
HISTORY = Path(__file__).parents[1] / "golden" / "support-triage-agent-loops.jsonl"
FOREIGN = ("openai:llama-4", "openai:gpt-oss-120b", "anthropic:kimi")


class Line(BaseModel):
    """One line of a bill."""

    text: str
    cents: int = Field(description="What it costs.")


class Bill(BaseModel):
    lines: list[Line]
    first: Line = Field(description="The first.")
    note: str | None


class Tree(BaseModel):
    name: str
    below: list[Tree]


class Loose(BaseModel):
    words: list[Any]
    count: int = 3
    code: str = Field(min_length=2)


SCHEMAS: dict[str, dict[str, Any]] = {
    "all of it said": Bill.model_json_schema(),
    "with defaults": Loose.model_json_schema(),
    "nothing": {"type": "object"},
    "no members": {"type": "object", "properties": {}, "required": []},
    "any members": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": True},
    "one of": {"type": "object", "properties": {"a": {"oneOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["a"]},
    "a format": {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}, "required": ["a"]},
    "a date": {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}, "required": ["a"]},
    "a look-around": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!x)"}}, "required": ["a"]},
    "a name like a keyword": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"title": {"type": "string", "title": "Title"}, "properties": {"type": "string", "enum": ["title"]}},
        "required": ["title", "properties"],
    },
    "eleven deep": json.loads(
        '{"type": "object", "required": ["a"], "properties": {"a": ' * 11 + '{"type": "null"}' + "}}" * 11
    ),
}

THOUGHT = {
    "kind": "response",
    "provider_name": "anthropic",
    "parts": [
        {"part_kind": "thinking", "content": "hm", "signature": "c2ln", "provider_name": "anthropic"},
        {"part_kind": "thinking", "id": "redacted_thinking", "content": "", "signature": "aGlk", "provider_name": "anthropic"},
        {"part_kind": "text", "content": "I look."},
        {"part_kind": "text", "content": "Twice."},
        {"part_kind": "tool-call", "tool_name": "look_up", "args": {"name": "é"}, "tool_call_id": "c1"},
        {"part_kind": "tool-call", "tool_name": "look_up", "args": {}, "tool_call_id": "c2"},
    ],
}
REASONED = {
    "kind": "response",
    "provider_name": "openai",
    "parts": [
        {"part_kind": "thinking", "id": "reasoning_content", "content": "hm", "provider_name": "openai"},
        {"part_kind": "tool-call", "tool_name": "look_up", "args": '{"name":"é"}', "tool_call_id": "c1"},
        {
            "part_kind": "tool-call",
            "tool_name": "look_up",
            "args": "{cut",
            "tool_call_id": "c2",
            "provider_name": "openai",
            "provider_details": {"extra_content": {"signature": "c2ln"}},
        },
    ],
}
FOUND = ToolTurn((ToolReply("c1", "look_up", "founded 1843"), ToolReply("c2", "look_up", 'no "such"', is_error=True)))
USER = UserTurn("Is Ada any good?")


pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")  # of the other side


def held(kind: Kind, media_type: str, content: bytes) -> ContentPart:
    return ContentPart(kind, media_type, "0" * 64, len(content), content=content)


PARTS = {
    "a picture": held("image", "image/png", media.png(2, 2)),
    "a photograph": held("image", "image/jpeg", media.jpeg(2, 2)),
    "a PDF": held("document", "application/pdf", media.PDF),
}


def replayed(replay: dict[str, Any]) -> tuple[Turn, ...]:
    return (USER, ModelTurn(replay), FOUND, UserTurn("Well?"))


SAME: dict[str, ModelRequest] = {
    **{f"{model} tempered": ask(model, temperature=0.5) for model in (*OWN, *FOREIGN)},
    **{f"{model} with a tool": ask(model, tools=(LOOK_UP,)) for model in (CLAUDE, "claude-opus-5-5", GPT, *FOREIGN)},
    **{f"{model} with an answer": ask(model, answer=VERDICT) for model in (*OWN, *FOREIGN)},
    **{f"{model} with both": ask(model, tools=(LOOK_UP,), answer=VERDICT) for model in (*OWN, *FOREIGN)},
    **{
        f"{model} with {name}": ask(model, tools=(ToolSpec("book", "", schema),), answer=AnswerSpec("end", "It.", schema))
        for model in (CLAUDE, GPT)
        for name, schema in SCHEMAS.items()
    },
    **{f"{model} in turns": ask(model, USER, UserTurn(""), UserTurn("\ufdfa 漢")) for model in (CLAUDE, GPT)},
    **{f"{model} with a reply of its own": ask(model, *replayed(turn)) for model, turn in ((CLAUDE, THOUGHT), (GPT, REASONED))},
    **{
        f"{model} with {name}": ask(model, UserTurn("What is it?", (part,)))
        for model in (CLAUDE, GPT)
        for name, part in PARTS.items()
    },
    **{f"{model} with all": ask(model, UserTurn("", (*PARTS.values(), "Well?"))) for model in (CLAUDE, GPT)},
    "a recording": ask(
        GPT, UserTurn("", (held("audio", "audio/wav", media.wav(1)), held("audio", "audio/mpeg", media.mp3(2))))
    ),
    "a text": ask(CLAUDE, UserTurn("Read:", (held("document", "text/plain", "ünïcode".encode()),))),
    **{
        f"{model} steered": ask(model, *replayed(turn), UserTurn("Quick."))
        for model, turn in ((CLAUDE, THOUGHT), (GPT, REASONED))
    },
    **{
        f"{model} with an empty reply": ask(model, USER, ModelTurn({"kind": "response", "parts": []}))
        for model in (CLAUDE, GPT)
    },
}


async def bodies(wire: Wire, wired: Providers, request: ModelRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is sent here, and what the SDKs send."""
    from tests.models import oracle

    with pytest.raises(ModelError):
        await wired.request(request)
    with pytest.raises(sdk.ModelHTTPError):
        await oracle.asked(wire.url, request)
    ours, theirs = wire.requests[-2:]
    assert theirs.pop("stream") is False  # as it is where nothing is said
    return ours, theirs


async def test_requests_are_those_that_the_sdks_would_send(wire: Wire, wired: Providers) -> None:
    wire.will_say({"error": {"message": "enough"}}, status=400)
    for name, request in SAME.items():
        ours, theirs = await bodies(wire, wired, request)
        assert ours == theirs, name


class Difference(NamedTuple):
    """Of a request: the place in it that is not as the SDKs would have it, what stands there, and why."""

    model: str
    request: dict[str, Any]
    place: str
    ours: Any
    why: str


DIFFERENCES = {
    "a limit above the model's": Difference(
        CLAUDE,
        {"max_tokens": 100_000},
        "max_tokens",
        100_000,
        "what was asked for is what money was held for: whoever asks for too much is told so, nothing is cut in silence",
    ),
    "a model of its own definitions": Difference(
        CLAUDE,
        {"answer": AnswerSpec("end", "It.", Tree.model_json_schema())},
        "tools.0.input_schema.type",
        "object",
        "the root of parameters has to say that it is an object, and not where that is said",
    ),
    "what another model thought": Difference(
        GPT,
        {"turns": replayed(THOUGHT)},
        "messages.2.content",
        "I look.\n\nTwice.",
        "what another provider's model thought, sealed or not, is not repeated as its own words",
    ),
    "what was thought in another's format": Difference(
        CLAUDE,
        {"turns": replayed(REASONED)},
        "messages.1.role",
        "assistant",
        "what another provider's model thought is not repeated as a person's words",
    ),
    "two turns of a model": Difference(
        CLAUDE,
        {"turns": (USER, ModelTurn({"kind": "response", "parts": []}), USER)},
        "messages.0.content.1.text",
        USER.text,
        "what one says in a row is one message",
    ),
    "a text for those who take PDFs only": Difference(
        GPT,
        {"turns": (UserTurn("Read:", (held("document", "text/csv", b"a,b"),)),)},
        "messages.1.content.1.text",
        "a,b",
        "a document is sent as it is, without lines around it that nobody wrote",
    ),
    "all of several": Difference(
        GPT,
        {
            "tools": (
                ToolSpec(
                    "book",
                    "",
                    {"type": "object", "properties": {"a": {"allOf": [{"minimum": 1}, {"type": "number"}]}}, "required": ["a"]},
                ),
            )
        },
        "tools.0.function.strict",
        None,
        "OpenAI's strict schemas have no allOf",
    ),
    "a list of types": Difference(
        GPT,
        {
            "tools": (
                ToolSpec("book", "", {"type": "object", "properties": {"a": {"type": ["object", "null"]}}, "required": ["a"]}),
            )
        },
        "tools.0.function.strict",
        None,
        "an object in a strict schema names its members, wherever it is one",
    ),
    "a depth that OpenAI refuses": Difference(
        "openai:llama-4",
        {"tools": (ToolSpec("book", "", SCHEMAS["eleven deep"]),)},
        "tools.0.function.strict",
        None,
        "OpenAI's limits on strict schemas are kept at everybody who knows the word",
    ),
}


def found(body: Any, place: str) -> Any:
    for step in place.split("."):
        if isinstance(body, list):
            body = body[int(step)] if int(step) < len(body) else {}
        else:
            body = body.get(step)
    return body


async def test_what_is_not_as_the_sdks_would_have_it_is_so_for_a_reason(wire: Wire, wired: Providers) -> None:
    wire.will_say({"error": {"message": "enough"}}, status=400)
    for name, difference in DIFFERENCES.items():
        turns = difference.request.get("turns", ())
        request = ask(difference.model, *turns, **{key: value for key, value in difference.request.items() if key != "turns"})
        ours, theirs = await bodies(wire, wired, request)
        assert found(ours, difference.place) == difference.ours, name
        assert found(theirs, difference.place) != difference.ours, f"{name}: is none any more"


CALL = {"type": "function", "id": "call_1", "function": {"name": "look_up", "arguments": '{"name": "Ada"}'}}
USE = {"type": "tool_use", "id": "use_1", "name": "look_up", "input": {"name": "Ada"}}
TEXT = {"type": "text", "text": "Yes."}
CLAUDES: dict[str, dict[str, Any]] = {
    "text": anthropic_reply(TEXT, {"type": "text", "text": ""}, {"type": "text", "text": "\nNo.", "citations": None}),
    "tools": anthropic_reply(TEXT, USE, {**USE, "id": "use_2", "input": {}}, stop_reason="tool_use"),
    "thinking": anthropic_reply(
        {"type": "thinking", "thinking": "", "signature": "c2ln"}, {"type": "redacted_thinking", "data": "aGlk"}, TEXT
    ),
    "nothing": anthropic_reply(stop_reason="refusal"),
    "cut off": anthropic_reply(TEXT, stop_reason="max_tokens"),
    "of another reason": anthropic_reply(TEXT, stop_reason=None),
    "what nobody asked for": anthropic_reply(TEXT, {"type": "image", "source": {}}),
    "no content": {**anthropic_reply(), "content": None},
    "no parts": anthropic_reply("Yes."),  # type: ignore[arg-type]
}
GPTS: dict[str, dict[str, Any]] = {
    "text": openai_reply({"content": "Yes."}),
    "pieces": openai_reply(
        {"content": [{"type": "text", "text": "Yes"}, {"type": "reference", "x": 1}, {"type": "text", "text": "."}]}
    ),
    "tools": openai_reply({"content": "I look.", "tool_calls": [CALL, {**CALL, "id": "call_2"}]}),
    "no arguments": openai_reply({"tool_calls": [{**CALL, "function": {"name": "look_up", "arguments": ""}}]}),
    "arguments that are none": openai_reply({"tool_calls": [{**CALL, "function": {"name": "look_up", "arguments": "{cut"}}]}),
    "arguments that are a list": openai_reply({"tool_calls": [{**CALL, "function": {"name": "look_up", "arguments": "[1]"}}]}),
    "arguments that are no text": openai_reply({"tool_calls": [{**CALL, "function": {"name": "look_up", "arguments": {}}}]}),
    "reasoning": openai_reply({"content": "Yes.", "reasoning": "hm", "reasoning_content": "hm"}),
    "tags": openai_reply({"content": "<think>\nhm\n</think>\n\nYes. <think>or</think>No."}),
    "a refusal": openai_reply({"content": None, "refusal": "I will not."}),
    "nothing": openai_reply({"content": None}),
    "no choice": openai_reply({}, choices=[]),
    "a custom tool": openai_reply({"tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "x", "input": "y"}}]}),
}


async def heard(asking: Awaitable[Any]) -> oracle.Heard | None:
    """What is made of a reply; None for one that is not taken."""
    from tests.models import oracle

    try:
        reply = await asking
    except (ModelError, sdk.UnexpectedModelBehavior, AssertionError, RuntimeError, IndexError, TypeError):
        return None
    if isinstance(reply, oracle.Heard):
        return reply
    calls = [(call.id, call.name, call.arguments) for call in reply.tool_requests]
    return oracle.Heard(reply.text, calls, reply.response_id)


@pytest.mark.parametrize(("model", "replies"), [(CLAUDE, CLAUDES), (GPT, GPTS)])
async def test_replies_are_read_as_by_the_sdks(
    wire: Wire, wired: Providers, model: str, replies: dict[str, dict[str, Any]]
) -> None:
    from tests.models import oracle

    request = ask(model, tools=(LOOK_UP,))
    taken = 0
    for name, reply in replies.items():
        wire.says_only(reply)
        ours, theirs = await heard(wired.request(request)), await heard(oracle.asked(wire.url, request))
        assert ours == theirs, name
        taken += ours is not None
    assert taken > 5


STREAMS = {
    CLAUDE: [
        message_start(),
        *text_block(0, "Y", "es."),
        *block(1, USE | {"input": {}}, piece('{"name": '), piece('"Ada"}')),
        *block(2, USE | {"id": "use_2", "input": {}}, piece("")),
        *message_end("tool_use"),
    ],
    GPT: [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Yes."}),
        chunk({"tool_calls": [{"index": 0, **CALL, "function": {"name": "look_up", "arguments": '{"name": '}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"Ada"}'}}]}),
        chunk({"tool_calls": [{"index": 1, **CALL, "id": "call_2", "function": {"name": "look_up", "arguments": ""}}]}),
        chunk({}, "tool_calls"),
        chunk({}, choices=[], usage={"prompt_tokens": 10, "completion_tokens": 5}),
    ],
}


@pytest.mark.parametrize("model", [CLAUDE, GPT])
async def test_streams_are_asked_for_and_read_as_by_the_sdks(wire: Wire, wired: Providers, model: str) -> None:
    from tests.models import oracle

    async def last() -> Any:
        return [each async for each in wired.stream(request)][-1]

    request = ask(model, tools=(LOOK_UP,))
    wire.will_stream(*STREAMS[model], done=model == GPT)
    ours, theirs = await heard(last()), await oracle.asked(wire.url, request, in_pieces=True)
    assert ours == theirs
    assert len(theirs.calls) == 2
    assert wire.requests[0] == wire.requests[1]


async def test_what_histories_of_pydantic_ai_hold_is_replayed(wire: Wire, wired: Providers) -> None:
    """A conversation may go on after an upgrade, at another provider too."""
    events = [json.loads(line)["event"] for line in HISTORY.read_bytes().splitlines()[1:]]
    replies = [each["output"]["json"] for each in events if each["type"] == "ModelCallSettled"]
    turns = [ModelTurn(reply["turn"]) for reply in replies]
    assert {"canonical_system", "timestamp"} < set(turns[0].replay), "as 0.1 wrote it"
    wire.will_say({"error": {"message": "enough"}}, status=400)
    for model in (CLAUDE, GPT):
        ours, theirs = await bodies(wire, wired, ask(model, *(each for turn in turns for each in (USER, turn))))
        assert ours == theirs
        assert json.dumps(ours).count('"assistant"') == len(turns) > 3
