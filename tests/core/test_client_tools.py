"""What a front end brings: what is taken of it, and what is not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.nouns.client_tools import MAX_CONTEXT, MAX_TOOLS, ClientContext, ClientTool, checked, expect_apart, words
from holdfast.core.nouns.conversations import ConversationTurn
from holdfast.errors import InvalidInput

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}}
GOOD = ClientTool("go_to", "Open a page.", SCHEMA)


def test_what_is_in_bounds_is_taken() -> None:
    checked([GOOD, ClientTool("stop")], [ClientContext("page", "/wages")])
    checked([ClientTool(f"t{number}") for number in range(MAX_TOOLS)], [ClientContext("d", "v")] * MAX_CONTEXT)
    assert ClientTool("stop").schema == {"type": "object"}


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "a b"},
        {"name": "x" * 65},
        {"name": "transfer_to_pay"},
        {"description": "x" * 2_001},
        {"parameters": {"type": "array"}},
        {"parameters": {"properties": []}},
        {"parameters": {"properties": {"a": {"pattern": "("}}}},
        {"parameters": {"description": "x" * 17_000}},
    ],
    ids=lambda changes: str(changes)[:40],
)
def test_a_tool_that_no_model_could_call_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="Nothing was done"):
        checked([msgspec.structs.replace(GOOD, **changes)], ())


def test_more_than_is_taken_is_refused() -> None:
    large = ClientContext("d", "x" * 70_000)
    for tools, context in (
        ([GOOD] * 2, ()),
        ([GOOD] * (MAX_TOOLS + 1), ()),
        ((), [large]),
        ((), [ClientContext("d", "v")] * 65),
    ):
        with pytest.raises(InvalidInput, match="Nothing was done"):
            checked(tools, context)


def test_a_name_of_the_agent_s_own_is_not_taken() -> None:
    expect_apart([GOOD], {"pay"})
    with pytest.raises(InvalidInput, match="Rename the front end's tool 'go_to'"):
        expect_apart([GOOD], {"pay", "go_to"})


def test_context_is_marked_as_the_user_s_words() -> None:
    first, *rest = words([ClientContext("page", "/wages"), ClientContext("rank", "admin")]).splitlines()
    assert "the user's words" in first
    assert rest == ["page: /wages", "rank: admin"]


def test_a_message_without_a_front_end_is_kept_as_it_was() -> None:
    kept = msgspec.to_builtins(ConversationTurn(number=1, text="hello", at_ms=5))
    assert not {"tools", "context"} & kept.keys()
