"""Quotes of a router: what was seen changes what is expected, and never what a call may cost."""

from __future__ import annotations

from holdfast import RoutedModel, Router
from holdfast.authoring.agents.router import Route
from holdfast.core.nouns.model_estimates import NOTHING_SEEN, Experience, ModelUse, by_place, learned
from holdfast.core.nouns.routing import ModelNeeds, Quote
from holdfast.models.prices import Prices
from holdfast.models.routing import quotes
from holdfast.ports import ModelRequest, UserTurn

HAIKU = "claude-haiku-4-5"
REQUEST = ModelRequest("router", "", (UserTurn("Say something. " * 40),), 1_000)
NOW_MS = 1_700_000_000_000


def quoted(seen: Experience, model: str = HAIKU) -> Quote:
    router = Router([RoutedModel(model, tokens_per_s=200)])
    (quote,) = quotes(REQUEST, Route(router, ModelNeeds()), Prices(), seen)
    return quote


def seen(cost_nanousd: int, output_tokens: int = 100) -> Experience:
    use = ModelUse("desk", "answer", HAIKU, output_tokens, 2_000, 1_000, cost_nanousd, NOW_MS)
    return Experience(by_place(learned({}, [use]).values())["desk", "answer"], {}, NOW_MS)


def test_what_is_expected_follows_what_was_written_and_paid_and_the_worst_case_stays() -> None:
    first, plain, half = quoted(NOTHING_SEEN), quoted(seen(1_000)), quoted(seen(500))
    assert (first.latency_s, plain.latency_s) == (5.0, 2.0)
    assert plain.expected_nanousd < first.expected_nanousd
    assert half.expected_nanousd == round(plain.expected_nanousd / 2)
    assert first.worst_case_nanousd == plain.worst_case_nanousd == half.worst_case_nanousd


def test_nothing_is_expected_to_cost_more_than_it_can() -> None:
    quote = quoted(seen(1_000_000, output_tokens=1_000))
    assert quote.expected_nanousd == quote.worst_case_nanousd
