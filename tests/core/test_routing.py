"""Which model a router takes, and why it does not take another."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.nouns.routing import (
    Complexity,
    ModelNeeds,
    Quote,
    RoutedModel,
    others_first,
    ranked,
    refusal,
    unable_until_ms,
)
from holdfast.core.values.policies import CANCELLED, LOST, MODEL_TRANSIENT, NETWORK, RATE_LIMIT, TIMEOUT, ErrorRecord

SMALL = RoutedModel("small", Complexity.TRIVIAL, Complexity.SIMPLE, tools=False, vision=False, max_context_tokens=1_000)


@pytest.mark.parametrize(
    ("needs", "tokens", "latency_s", "words"),
    [
        ({}, 1_000, None, None),
        ({"complexity": Complexity.SIMPLE}, 1, None, None),
        ({"complexity": Complexity.MODERATE}, 1, None, "it is for TRIVIAL to SIMPLE, and this is MODERATE"),
        ({"tools": True}, 1, None, "it calls no tools"),
        ({"vision": True}, 1, None, "it reads no images"),
        ({}, 1_001, None, "it reads and writes 1000 tokens at most, and this may be 1001"),
        ({"max_latency_s": 2.0}, 1, 1.5, None),
        ({"max_latency_s": 2.0}, 1, None, None),
        ({"max_latency_s": 2.0}, 1, 2.5, "it would take 2.5 s, and 2 s are allowed"),
    ],
)
def test_a_model_that_cannot_answer_is_not_asked_and_it_is_said_why(
    needs: dict[str, Any], tokens: int, latency_s: float | None, words: str | None
) -> None:
    assert refusal(SMALL, ModelNeeds(**needs), tokens, None, latency_s) == words


def test_what_a_model_reads_its_price_list_says_too() -> None:
    assert (
        refusal(RoutedModel("m"), ModelNeeds(), 101, 100, None) == "it reads and writes 100 tokens at most, and this may be 101"
    )
    assert refusal(RoutedModel("m"), ModelNeeds(), 101, None, None) is None


def quote(model: str, expected: int, refused: str | None = None) -> Quote:
    return Quote(model, 1, expected * 2, expected, None, refused)


def test_the_cheapest_comes_first_and_of_two_alike_the_one_that_was_declared_first() -> None:
    given = [quote("a", 3), quote("b", 1, "no"), quote("c", 2), quote("d", 2)]
    assert [each.model for each in ranked(given)] == ["c", "d", "a"]
    assert ranked([quote("b", 1, "no")]) == []


def test_after_a_failure_other_providers_are_asked_first_and_the_same_model_last() -> None:
    models, providers = ["a1", "a2", "b1", "a1"], ["a", "a", "b", "a"]
    assert others_first(models, providers, {"a1"}) == [2, 1, 0, 3]
    assert others_first(models, providers, {"b1"}) == [0, 1, 3, 2]
    assert others_first(models, providers, {"a1", "b1"}) == [1, 0, 2, 3]
    assert others_first(models, providers, {*models}) == [0, 1, 2, 3], "where all have failed, the cheapest comes first again"


@pytest.mark.parametrize(
    ("error_class", "retry_after_s", "until_ms"),
    [
        (MODEL_TRANSIENT, None, 1_300_000),
        (RATE_LIMIT, None, 1_300_000),
        (RATE_LIMIT, 2.5, 1_002_500),
        (RATE_LIMIT, 10**12, 1_000_000 + 31 * 86_400_000),
        (NETWORK, None, None),
        (TIMEOUT, None, None),
        (LOST, None, None),
        (CANCELLED, None, None),
    ],
)
def test_a_model_is_not_begun_with_again_for_as_long_as_its_provider_has_trouble(
    error_class: str, retry_after_s: float | None, until_ms: int | None
) -> None:
    error = ErrorRecord("ask", error_class, "It cannot.", True, 1_000_000, retry_after_s=retry_after_s)
    assert unable_until_ms(error) == until_ms
