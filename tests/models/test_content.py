"""Content parts: held for at least what the providers' documents say that they cost, refused in words where nobody knows."""

from __future__ import annotations

import pytest

from holdfast.core.values.content import ContentPart
from holdfast.errors import UnboundableRequest
from holdfast.models.bounds import input_tokens_at_most
from holdfast.ports import ModelRequest, UserTurn
from tests import media

CLAUDE, GPT, LISTENER = "claude-opus-4-8", "gpt-5-mini", "gpt-4o-audio-preview"


def part(kind: str, media_type: str, content: bytes) -> ContentPart:
    return ContentPart(kind, media_type, "0" * 64, len(content), content=content)  # type: ignore[arg-type]


def image(width: int, height: int) -> ContentPart:
    return part("image", "image/jpeg", media.jpeg(width, height))


def asked(model: str, *parts: ContentPart) -> ModelRequest:
    return ModelRequest(model, "", (UserTurn("Well?", parts),), 100)


def tokens(model: str, found: ContentPart, window: int | None = None) -> int:
    """What a part adds to a request."""
    return input_tokens_at_most(asked(model, found), window) - input_tokens_at_most(asked(model), window)


@pytest.mark.parametrize(
    ("model", "size", "documented"),
    [
        (CLAUDE, (200, 200), 64),
        (CLAUDE, (1000, 1000), 1_334),
        (CLAUDE, (1092, 1092), 1_590),
        (CLAUDE, (2576, 1456), 4_784),
        (CLAUDE, (8000, 8000), 4_784),
        ("gpt-4o", (1024, 1024), 765),
        ("gpt-4o", (2048, 4096), 1_105),
        ("gpt-4o-mini", (1024, 1024), 2_833 + 4 * 5_667),
        ("gpt-4o-mini-2024-07-18", (2048, 768), 2_833 + 8 * 5_667),
        ("gpt-4.1", (1800, 2400), 1_452),
        ("gpt-4.1-nano", (1024, 1024), 2_520),
        ("gpt-5-mini", (1024, 1024), 1_659),
        ("o1", (4000, 3000), 75 + 8 * 150),
        ("ft:gpt-4o:us", (512, 512), 255),
        ("openai:gpt-4.1", (1024, 1024), 1_024),
    ],
)
def test_an_image_is_held_for_what_its_size_may_cost(model: str, size: tuple[int, int], documented: int) -> None:
    assert documented <= tokens(model, image(*size)) <= (documented + 2_000) * 6


def test_a_larger_image_is_never_held_for_less() -> None:
    for model in (CLAUDE, GPT, "gpt-4o-mini"):
        found = [tokens(model, image(side, side + 7)) for side in range(1, 9_000, 300)]
        assert found == sorted(found)


def test_a_recording_is_held_by_its_seconds() -> None:
    assert 100 <= tokens(LISTENER, part("audio", "audio/wav", media.wav(10))) < 200
    assert tokens(LISTENER, part("audio", "audio/mpeg", media.mp3(383))) >= 100


def test_a_text_is_a_text() -> None:
    assert 2_000 <= tokens(CLAUDE, part("document", "text/plain", b"x" * 2_000)) < 2_100


@pytest.mark.parametrize(
    ("model", "found"), [(CLAUDE, part("document", "application/pdf", media.PDF)), ("openai:llama-4", image(10, 10))]
)
def test_what_cannot_be_bounded_is_the_whole_context(model: str, found: ContentPart) -> None:
    assert input_tokens_at_most(asked(model, found), 200_000) == 200_000
    with pytest.raises(UnboundableRequest, match="context_tokens"):
        input_tokens_at_most(asked(model, found))


@pytest.mark.parametrize(
    ("model", "found", "words"),
    [
        (CLAUDE, part("audio", "audio/wav", media.wav(1)), "nothing that claude-opus-4-8 hears"),
        (GPT, part("audio", "audio/wav", media.wav(1)), "nothing that gpt-5-mini hears"),
        (LISTENER, part("audio", "audio/ogg", b"OggS"), "none of audio/mpeg, audio/wav"),
        (LISTENER, part("audio", "audio/mpeg", media.mp3(3) + b"gap"), "does not say how long"),
        (CLAUDE, part("image", "image/tiff", b"II*\0"), "none of image/gif"),
        (CLAUDE, part("image", "image/png", media.png()[:20]), "does not say how large"),
    ],
)
def test_what_a_model_does_not_take_is_refused_in_words(model: str, found: ContentPart, words: str) -> None:
    with pytest.raises(UnboundableRequest, match=rf"(?s){words}.*Nothing was called"):
        input_tokens_at_most(asked(model, found), 200_000)


def test_a_request_without_parts_is_compared_as_ever() -> None:
    """Its digest stands in histories."""
    assert list(asked(CLAUDE).compared()["turns"]) == [{"type": "user", "text": "Well?"}]


def test_a_request_is_compared_by_hashes_wherever_its_parts_are_kept() -> None:
    kept = ContentPart("image", "image/png", "a" * 64, 9, "2026-11")
    assert asked(CLAUDE, kept).compared()["turns"][0]["parts"] == (
        {"type": "image", "media_type": "image/png", "sha256": "a" * 64, "size_bytes": 9},
    )
