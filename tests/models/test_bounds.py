"""The bound of input tokens: never below what a tokenizer can make of a request, and no bound at all for what is not text."""

import json
import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UnboundableRequest
from holdfast.models.bounds import input_tokens_at_most
from holdfast.ports import AnswerSpec, ModelRequest, ModelTurn, ToolReply, ToolSpec, ToolTurn, Turn, UserTurn

FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")
TEXT = {"part_kind": "text", "content": "Looking it up."}
THINKING = {"part_kind": "thinking", "content": "A summary.", "signature": "c2lnbmF0dXJl"}
CALL = {"part_kind": "tool-call", "tool_name": "look_up", "args": {"name": "Ada"}, "tool_call_id": "call_1"}


def request(*turns: Turn, system: str = "", tools: tuple[ToolSpec, ...] = (), answer: AnswerSpec | None = None) -> ModelRequest:
    return ModelRequest("claude-haiku-4-5", system, turns, 100, tools=tools, answer=answer)


def bound(*turns: Turn) -> int:
    return input_tokens_at_most(request(*turns))


def replay(*parts: object, output_tokens: int = 0, **fields: object) -> ModelTurn:
    return ModelTurn({"parts": list(parts), "usage": {"output_tokens": output_tokens}, **fields})


def longest(text: str) -> int:
    """What a tokenizer of bytes could at worst be given of `text`, if it normalises all of it the same way."""
    return max(len(form.encode()) for form in (text, *(unicodedata.normalize(name, text) for name in FORMS)))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_no_normal_form_of_a_text_has_more_bytes_than_its_bound(text: str) -> None:
    assert bound(UserTurn(text)) - bound(UserTurn("")) >= longest(text)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), max_size=6))
def test_not_even_when_each_piece_is_normalised_its_own_way(pieces: list[str]) -> None:
    assert bound(UserTurn("".join(pieces))) - bound(UserTurn("")) >= sum(longest(piece) for piece in pieces)


def test_composing_never_lengthens_what_decomposing_gave() -> None:
    composed = [chr(point) for point in range(0x110000) if unicodedata.decomposition(chr(point)) or 0xAC00 <= point < 0xD7A4]
    assert len(composed) > 13_000
    for character in composed:
        nfc, nfd, nfkc, nfkd = (len(unicodedata.normalize(form, character).encode()) for form in FORMS)
        assert nfc <= nfd
        assert nfkc <= nfkd


def test_one_sign_that_stands_for_four_words_counts_as_the_words() -> None:
    assert bound(UserTurn("\ufdfa" * 50)) - bound(UserTurn("")) == 1_650


def test_plain_text_counts_its_bytes_and_a_small_margin() -> None:
    assert 1_000 < bound(UserTurn("x" * 1_000)) < 1_200


def test_everything_that_is_text_counts() -> None:
    tool = ToolSpec("look_up", "Looks up.", {"type": "object", "properties": {"name": {"type": "string"}}})
    answer = AnswerSpec("verdict", "The verdict.", {"type": "object"})
    small = request(replay(CALL), ToolTurn((ToolReply("call_1", "look_up", "found"),)), tools=(tool,), answer=answer)
    for larger in (
        request(*small.turns, tools=small.tools, answer=answer, system="x" * 5_000),
        request(UserTurn("x" * 5_000), *small.turns, tools=small.tools, answer=answer),
        request(replay(CALL, {**TEXT, "content": "x" * 5_000}), small.turns[1], tools=small.tools, answer=answer),
        request(replay({**CALL, "args": json.dumps(["x" * 5_000])}), small.turns[1], tools=small.tools, answer=answer),
        request(replay(THINKING | {"signature": "x" * 5_000}), *small.turns, tools=small.tools, answer=answer),
        request(small.turns[0], ToolTurn((ToolReply("call_1", "look_up", "x" * 5_000),)), tools=(tool,), answer=answer),
        request(*small.turns, tools=(tool, ToolSpec("other", "x" * 5_000, {})), answer=answer),
        request(*small.turns, tools=(ToolSpec("look_up", "", {"title": "x" * 5_000}),), answer=answer),
        request(*small.turns, tools=(tool,), answer=AnswerSpec("verdict", "", {"title": "x" * 5_000})),
    ):
        assert input_tokens_at_most(larger) > input_tokens_at_most(small) + 4_700


def test_json_counts_as_its_longest_spelling() -> None:
    schema = {"type": "object", "description": "é\ufdfa\U0001f600" * 100}
    spellings = [json.dumps(schema, ensure_ascii=False), json.dumps(schema), json.dumps(schema, indent=1)]
    tools = (ToolSpec("t", "", schema),)
    assert input_tokens_at_most(request(tools=tools)) > max(map(longest, spellings))


def test_an_error_of_a_tool_counts_with_the_quotes_around_it() -> None:
    content = '"\n' * 500
    failed = ToolTurn((ToolReply("call_1", "look_up", content, is_error=True),))
    assert bound(failed) > len(json.dumps({"error": content}))


def test_arguments_that_are_none_count_with_the_object_that_is_made_of_them() -> None:
    call = {"part_kind": "tool-call", "tool_name": "t", "tool_call_id": "c", "args": '"' * 1_000}
    assert bound(replay(call)) > len(json.dumps({"INVALID_JSON": call["args"]}))


def test_replayed_thinking_counts_what_was_billed_for_it_beyond_its_summary() -> None:
    assert bound(replay(THINKING, output_tokens=9_000)) == bound(replay(THINKING)) + 9_000


def test_a_known_context_window_is_a_bound_too() -> None:
    long = request(UserTurn("x" * 300_000))
    assert input_tokens_at_most(long, context_window_tokens=200_000) == 200_000
    assert input_tokens_at_most(long) > 300_000


@pytest.mark.parametrize(
    "turn",
    [
        replay(TEXT, {"part_kind": "file", "content": {}}),
        replay({"part_kind": "builtin-tool-call", "tool_name": "web_search", "args": {}, "tool_call_id": "x"}),
        replay({"part_kind": "compaction", "content": "?"}),
        replay(TEXT, provider_details={"container_id": "container_1"}),
        ModelTurn("a reply of some other adapter"),
        ModelTurn({"parts": None}),
        UserTurn("half a character: \ud83d"),
    ],
)
def test_what_is_not_text_has_no_bound_and_is_refused(turn: Turn) -> None:
    with pytest.raises(UnboundableRequest, match="Nothing was called"):
        bound(turn)
