"""Two requests to a model are compared part by part, as one reads a conversation."""

from __future__ import annotations

from typing import Any

from holdfast.core.views.transcript import TurnChange, changes, spoken


def asked(*turns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"system": "Be kind.", "turns": list(turns), "max_tokens": 50, "tools": [], **more}


def user(text: str) -> dict[str, Any]:
    return {"type": "user", "text": text}


def same(value: Any) -> Any:
    return value


def no_names(value: Any) -> Any:
    return {
        **value,
        "turns": [{**turn, "text": turn["text"].replace("Ada", "X").replace("Bob", "X")} for turn in value["turns"]],
    }


def test_only_the_parts_that_differ_are_told_in_their_order() -> None:
    found = changes(asked(user("a"), user("b"), user("c")), asked(user("a"), user("B"), max_tokens=60), same)
    assert found == (TurnChange("max_tokens", "50", "60"), TurnChange("user", "b", "B"), TurnChange("user", "c", None))


def test_parts_of_other_speakers_stand_one_after_the_other() -> None:
    tools = {"type": "tools", "replies": [{"id": "1", "name": "look", "content": "here", "is_error": True}]}
    assert [*spoken(tools)] == [("tool look failed", "here")]
    found = changes(asked(tools), asked(user("b")), same)
    assert found == (TurnChange("tool look failed", "here", None), TurnChange("user", None, "b"))


def test_what_may_have_been_replaced_counts_only_where_nothing_else_differs() -> None:
    assert changes(asked(user("Ada")), asked(user("Bob")), no_names) == (TurnChange("user", "Ada", "Bob"),)
    found = changes(asked(user("Ada")), asked(user("Bob"), max_tokens=60), no_names)
    assert found == (TurnChange("max_tokens", "50", "60"),)
