"""The rule for compacting a model's prompt: when and where to cut. The older turns are summarised, the newest stay word for
word.

Pure, so that a replay cuts where the run did. Never here: making a summary (engine.operations.compaction), what turns are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from holdfast.errors import UsageError

LEAST_TOKENS: Final = 1_000
MAX_SUMMARY_TOKENS: Final = 2_000
_SUMMARY_SHARE: Final = 16
"""Of what a request may have; a token of a summary counts for some four, because bounds count bytes."""


_SUMMARY: Final = "Summary of the earlier conversation:\n\n{}"


class Compaction(NamedTuple):
    """Before a call whose input is bounded above `above_tokens` the older turns are summed up, by `model` or by the one that is
    asked."""

    above_tokens: int
    model: str | None = None

    @property
    def summary_tokens(self) -> int:
        """The most that a summary may have."""
        return max(1, min(MAX_SUMMARY_TOKENS, self.above_tokens // _SUMMARY_SHARE))


def of(above_tokens: int | None, model: str | None) -> Compaction | None:
    """Return the policy that was asked for, None where none was. Raises UsageError."""
    if above_tokens is None:
        if model is not None:
            raise UsageError(f"compact_with={model!r:.130} says who sums up, and compact_above_tokens not when.")
        return None
    if above_tokens < LEAST_TOKENS:
        raise UsageError(f"compact_above_tokens={above_tokens}: use {LEAST_TOKENS} or more.")
    return Compaction(above_tokens, model)


def render_summary(summary: str) -> str:
    """Return a summary as a model reads it."""
    return _SUMMARY.format(summary)


def cut(borders: Sequence[int], tokens_from: Callable[[int], int], above_tokens: int) -> int | None:
    """Return the place to cut; None if there are no `borders`. It is the first of them, ascending, from which the request
    has at most half of its limit, or else the last. `tokens_from` returns the tokens of a request with the turns from a
    border on."""
    if not borders:
        return None
    first = bisect_left(borders, True, key=lambda border: tokens_from(border) <= above_tokens // 2)
    return borders[min(first, len(borders) - 1)]
