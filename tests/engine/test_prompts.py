"""What a prompt may be: what only looks like text to us must not reach a model as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Chat
from holdfast.engine.operations import prompt
from holdfast.errors import InvalidInput
from holdfast.models.turn import in_words
from holdfast.ports import ModelTurn

IMAGE = {"type": "image", "source": {"type": "base64", "data": "aGk="}}


@pytest.mark.parametrize(
    ("user", "what"),
    [
        ([{"role": "user", "content": "Hello?"}], "a list of messages"),
        (({"role": "user", "content": "Hello?"}, {"role": "assistant", "content": "Yes."}), "a list of messages"),
        ({"role": "user", "content": "Hello?"}, "a message"),
        ((IMAGE,), "content of the type 'image'"),
        ([{"type": "text", "text": "What is this?"}, IMAGE], "content of the type 'image'"),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "content of the type 'image_url'"),
        (b"\x89PNG", "raw bytes"),
    ],
)
def test_messages_and_images_are_refused_with_words(user: Any, what: str) -> None:
    with pytest.raises(InvalidInput, match=f"this is {what}.*Nothing was called"):
        prompt.read({"system": "Be brief.", "user": user})


@pytest.mark.parametrize("user", [{"order": {"type": "image", "size": 3}}, [{"role": "admin"}, {"role": "guest"}], [1, 2]])
def test_data_goes_as_json(user: Any) -> None:
    _, [(text,)] = prompt.read({"user": user})
    assert text.startswith(("{", "["))


def test_the_messages_of_a_chat_are_turns_of_those_who_said_them() -> None:
    chat = Chat.model_validate(
        {"messages": [{"role": role, "text": role[0]} for role in ("user", "assistant", "user", "user")]}
    )
    assert prompt.read({"system": "Be brief.", "messages": chat.messages}) == (
        "Be brief.",
        [("u",), ModelTurn(in_words("a")), ("u",), ("u",)],
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"messages": []}, "no messages of a Chat"),
        ({"messages": [{"role": "system", "text": "x"}]}, "no messages of a Chat"),
        ({"messages": [{"role": "assistant", "text": "x"}]}, "the last message of a Chat is the one to answer"),
        ({"messages": [{"role": "user", "text": "x"}], "user": "y"}, "A prompt is a text"),
    ],
)
def test_messages_that_no_agent_can_answer_are_refused(asked: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=f"(?i){words}"):
        prompt.read(asked)
