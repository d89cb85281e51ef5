"""The content parts that each model accepts, and the most tokens that one of them can take.

An image is billed by its size, at no more than a fixed size to which the provider scales it down. Each rule here is the worst
of what the family documents, so that the hold is not too low for a model name that is newer than the rule:

- Claude (platform.claude.com, "Vision"): a token for each 28 × 28 pixels or part of them, formerly for each 750 pixels; at
  most 1,568 (long edge 1,568), for Claude Opus 4.7 and later 4,784 (long edge 2,576).
- OpenAI (developers.openai.com, "Images and vision"): 32 × 32 patches, at most 1,536 or, in original detail, 10,000, times
  1.2 to 2.46; or 512 × 512 tiles, at most eight after scaling to 2,048 and 768 pixels, of up to 170 tokens and 85 more. In
  gpt-4o-mini a tile is 5,667 tokens, and 2,833 more.
- Gemini (ai.google.dev, "Media resolution", "Image understanding"): 258 tokens for each tile, none smaller than 256 pixels, or
  up to 2,240 for the whole.
- OpenAI counts recorded speech as a token for each 100 ms (developers.openai.com, "Managing costs").

A PDF is billed by its text and by a picture of each page. Its amount of text cannot be known from outside: streams are packed,
drawn any number of times, and their codes stand for any text. So the hold covers the whole context of the model, above which
every provider refuses a request. The same holds for each part sent to a model without a rule here.

Never here: a provider's format, a price, reading a blob.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from holdfast.core.values.content import ContentPart
from holdfast.core.values.media import Pixels, pixels_of, seconds_of
from holdfast.errors import UnboundableRequest

PDF: Final = "application/pdf"
_CLAUDE_MOST: Final = 4_784
_PATCHES: Final = 10_000
_PATCH_TOKENS: Final = 2.46
_TILED: Final = re.compile(r"(ft:)?(chat)?gpt-4o|o[13]")
"""Those that know no patches. Of the others it is not asked which of the two they know."""
_TILES: Final = 8
_TOKENS_A_SECOND: Final = 10
_GEMINI_WHOLE, _GEMINI_TILE, _LEAST_TILE = 2_240, 258, 256
_IMAGES: Final = ("image/gif", "image/jpeg", "image/png", "image/webp")
_HEARD: Final = ("audio/mpeg", "audio/wav")


class _Family(NamedTuple):
    names: re.Pattern[str]
    image: Callable[[str, Pixels], int]
    hears: re.Pattern[str] | None
    """Those of its models that take recordings, if any does."""


def _claude(_: str, size: Pixels) -> int:
    patches = math.ceil(size.width / 28) * math.ceil(size.height / 28)
    return min(_CLAUDE_MOST, max(patches, math.ceil(size.width * size.height / 750)))


def _gpt(name: str, size: Pixels) -> int:
    patches = math.ceil(size.width / 32) * math.ceil(size.height / 32)
    base, tile = (2_833, 5_667) if "4o-mini" in name else (85, 170)
    tiles = base + _TILES * tile
    return tiles if _TILED.match(name) else max(math.ceil(_PATCH_TOKENS * min(patches, _PATCHES)), tiles)


def _gemini(_: str, size: Pixels) -> int:
    tiles = math.ceil(size.width / _LEAST_TILE) * math.ceil(size.height / _LEAST_TILE)
    return max(_GEMINI_WHOLE, _GEMINI_TILE * tiles)


_FAMILIES: Final = (
    _Family(re.compile(r"claude-"), _claude, None),
    _Family(re.compile(r"gemini-"), _gemini, None),
    _Family(re.compile(r"(ft:)?(gpt-(?!oss)|chatgpt-|o\d)"), _gpt, re.compile(r".*audio")),
)


def tokens_at_most(model: str, part: ContentPart) -> int | None:
    """The most tokens that `part`, which has its bytes and is no text, is for `model`; None: as many as its context holds.

    Raises UnboundableRequest for a part that the model does not take, or that its headers do not bound.
    """
    name = model.partition(":")[2] if model.startswith(("anthropic:", "openai:", "google:")) else model
    family = next((each for each in _FAMILIES if each.names.match(name)), None)
    if part.type == "document":
        return None
    if part.media_type not in _TAKEN[part.type]:
        raise _refusal_of(part, f"is none of {', '.join(_TAKEN[part.type])}, which models take")
    if family is None:
        return None
    if part.type == "image":
        size = pixels_of(part.content)
        if size is None:
            raise _refusal_of(part, "does not say how large it is where its format says so: it may be damaged")
        return family.image(name, size)
    if family.hears is None or not family.hears.match(name):
        raise _refusal_of(part, f"is nothing that {model} hears")
    lasts_s = seconds_of(part.content)
    if lasts_s is None:
        raise _refusal_of(part, "does not say how long it is: it is no WAV of plain samples, and no MP3 without gaps")
    return math.ceil(lasts_s * _TOKENS_A_SECOND) + 1


_TAKEN: Final[Mapping[str, tuple[str, ...]]] = {"image": _IMAGES, "audio": _HEARD}


def _refusal_of(part: ContentPart, reason: str) -> UnboundableRequest:
    return UnboundableRequest(f"{part} {reason}. Nothing was called.")
