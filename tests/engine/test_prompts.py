"""What a prompt may be: what only looks like text to us must not reach a model as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.engine.conversation import _prompt
from holdfast.errors import InvalidInput

IMAGE = {"type": "image", "source": {"type": "base64", "data": "aGk="}}


@pytest.mark.parametrize(
    ("user", "what"),
    [
        ([{"role": "user", "content": "Hello?"}], "a list of messages"),
        ({"role": "user", "content": "Hello?"}, "a message"),
        ([{"type": "text", "text": "What is this?"}, IMAGE], "content of the type 'image'"),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, "content of the type 'image_url'"),
        (b"\x89PNG", "raw bytes"),
    ],
)
def test_messages_and_images_are_refused_with_words(user: Any, what: str) -> None:
    with pytest.raises(InvalidInput, match=f"this is {what}.*Nothing was called"):
        _prompt({"system": "Be brief.", "user": user})


@pytest.mark.parametrize(
    "user", [{"order": {"type": "image", "size": 3}}, [{"role": "admin"}, {"role": "guest"}], [1, 2]]
)
def test_data_goes_as_json(user: Any) -> None:
    assert _prompt({"user": user})[1].startswith(("{", "["))
