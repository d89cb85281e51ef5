"""The choice among several models for a request: the cheapest that can answer, as far as is known before it is asked.

The five levels and the rule follow "Cost-Aware Task Routing" of "7 AI Agent Orchestration Patterns". Unlike there, no model is
taken that cannot answer, or whose price does not fit: if none is left, nothing is called.

Never here: a price, a request, what has been learned of a model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from holdfast.core.values.policies import LONGEST_RETRY_AFTER_S, MODEL_TRANSIENT, RATE_LIMIT, ErrorRecord

_LASTING: Final = (MODEL_TRANSIENT, RATE_LIMIT)
"""What a provider itself says: it has trouble, is overloaded, or takes no more for now."""
_UNABLE_S: Final = 300.0
"""After so long a model that could not answer may be asked first again."""


class Complexity(IntEnum):
    """The difficulty of a task."""

    TRIVIAL = 1
    """Classification, extraction."""
    SIMPLE = 2
    """Summaries, questions and answers."""
    MODERATE = 3
    """Several steps of reasoning."""
    COMPLEX = 4
    """Code, analysis."""
    EXPERT = 5
    """Architecture, unsolved problems."""


class RoutedModel(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model that a router may choose, with its abilities."""

    model: str
    """Name of the model, `provider:name`."""
    min_complexity: Complexity = Complexity.TRIVIAL
    """Lowest difficulty for which it is chosen."""
    max_complexity: Complexity = Complexity.EXPERT
    """Highest difficulty for which it is chosen."""
    tools: bool = True
    """True if it can call tools."""
    vision: bool = True
    """True if it can see pictures."""
    tokens_per_s: float | None = None
    """Speed in tokens per second, until it has been measured."""
    max_context_tokens: int | None = None
    """Context in tokens, input and output together, if the price list does not have it."""


class ModelNeeds(NamedTuple):
    """The demands of a request on a model. An unknown complexity excludes no model."""

    complexity: Complexity | None = None
    max_latency_s: float | None = None
    tools: bool = False
    vision: bool = False


class Quote(NamedTuple):
    """A model's quote for a request: the most it can use and cost, its expected cost and time, and why the model is not asked,
    if so."""

    model: str
    tokens: int
    worst_case_nanousd: int
    expected_nanousd: int
    latency_s: float | None
    refusal: str | None = None


def refusal(
    model: RoutedModel, needs: ModelNeeds, tokens: int, window_tokens: int | None, latency_s: float | None
) -> str | None:
    """Why a model cannot answer a request of at most `tokens`, in words; None where it can."""
    level = needs.complexity
    if level is not None and not model.min_complexity <= level <= model.max_complexity:
        return f"it is for {model.min_complexity.name} to {model.max_complexity.name}, and this is {Complexity(level).name}"
    if needs.tools and not model.tools:
        return "it calls no tools"
    if needs.vision and not model.vision:
        return "it reads no images"
    most = model.max_context_tokens or window_tokens
    if most is not None and tokens > most:
        return f"it reads and writes {most} tokens at most, and this may be {tokens}"
    if needs.max_latency_s is not None and latency_s is not None and latency_s > needs.max_latency_s:
        return f"it would take {latency_s:.1f} s, and {needs.max_latency_s:g} s are allowed"
    return None


def ranked(quotes: Iterable[Quote]) -> list[Quote]:
    """Return the quotes that can answer, the lowest expected cost first; of two alike the one that was declared first."""
    return sorted((each for each in quotes if each.refusal is None), key=lambda each: each.expected_nanousd)


def others_first(models: Sequence[str], providers: Sequence[str], failed: Collection[str]) -> list[int]:
    """In which order to ask `models` after those that `failed` could not answer: those of other providers first, and these
    last."""
    gone = {provider for model, provider in zip(models, providers, strict=True) if model in failed}
    return sorted(range(len(models)), key=lambda n: (models[n] in failed, providers[n] in gone))


def unable_until_ms(error: ErrorRecord) -> int | None:
    """Until when it would be no use to begin with the model that has failed so: as long as its provider said, else for a
    while. None where it may answer at once."""
    if error.error_class not in _LASTING:
        return None
    wait_s = _UNABLE_S if error.retry_after_s is None else min(error.retry_after_s, LONGEST_RETRY_AFTER_S)
    return error.at_ms + int(1_000 * wait_s)
