"""What a model call takes of the pools that count for it, and what of that comes back."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast.core.capacity.lending import DeclaredPool
from holdfast.models.quota import QuotaLease, Quotas
from holdfast.ports import ModelRequest, Usage, UserTurn

HAIKU = "claude-haiku-4-5"
TOKENS = DeclaredPool("T", "rate", 100_000, 60, 10_000, "tokens", HAIKU)
INPUT = DeclaredPool("I", "rate", 100_000, 60, 10_000, "input_tokens", HAIKU)
REQUESTS = DeclaredPool("R", "rate", 600, 60, 60, "requests", "anthropic")
CALLS = DeclaredPool("C", "slots", 4, counts="requests", of="ANTHROPIC_API_KEY")
BROWSERS = DeclaredPool("BROWSERS", "slots", 8)
ALL = [TOKENS, INPUT, REQUESTS, CALLS, BROWSERS]


class Reserved:
    """A reservation that remembers what it was settled with."""

    waited_s = 0.0

    def __init__(self, amounts: Mapping[str, int]) -> None:
        self.amounts = amounts
        self.used: Mapping[str, int] | None = None

    def settle(self, used: Mapping[str, int]) -> None:
        self.used = used


def request(model: str = HAIKU, max_tokens: int = 100) -> ModelRequest:
    return ModelRequest(model, "", (UserTurn("?"),), max_tokens)


def lent(quotas: Quotas, *pools: DeclaredPool, input_bound: int = 1_000) -> tuple[QuotaLease, Reserved]:
    reserved = Reserved(quotas.amounts(pools, request(), input_bound))
    return QuotaLease(reserved, pools, input_bound), reserved


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (HAIKU, ["T", "I", "R", "C"]),
        ("anthropic:" + HAIKU, ["T", "I", "R", "C"]),
        ("claude-sonnet-4-5", ["R", "C"]),
        ("gpt-4.1-nano", []),
        ("a-double", []),
    ],
)
def test_a_call_takes_of_its_models_pools_of_its_providers_and_of_its_keys(model: str, names: list[str]) -> None:
    assert [pool.name for pool in Quotas().of(model, ALL)] == names


def test_the_input_is_estimated_by_what_earlier_replies_turned_out_to_be() -> None:
    quotas = Quotas()
    first, reserved = lent(quotas, TOKENS)
    assert reserved.amounts == {"T": 1_000 + 100}, "before the first reply nothing but the bound is certain"
    quotas.used(first, HAIKU, Usage(250, 10))
    second, reserved = lent(quotas, TOKENS)
    assert reserved.amounts == {"T": 275 + 100}
    quotas.used(second, HAIKU, Usage(500, 10))
    third, reserved = lent(quotas, TOKENS)
    assert reserved.amounts == {"T": 550 + 100}, "more counts at once"
    quotas.used(third, HAIKU, Usage(250, 10))
    assert lent(quotas, TOKENS)[1].amounts["T"] > 500 + 100, "less is believed slowly"


def test_what_a_call_has_used_is_counted_by_what_each_pool_counts() -> None:
    quotas = Quotas()
    call, reserved = lent(quotas, *ALL[:4])
    assert reserved.amounts == {"T": 1_100, "I": 1_000, "R": 1, "C": 1}
    quotas.used(call, HAIKU, Usage(400, 20))
    assert reserved.used == {"T": 420, "I": 400, "R": 1, "C": 1}


def test_a_call_counts_in_full_without_figures_as_one_when_refused_and_zero_unsent() -> None:
    quotas = Quotas()
    call, reserved = lent(quotas, TOKENS, REQUESTS)
    quotas.used(call, HAIKU, None)
    assert reserved.used == {}
    quotas.refused(call)
    assert reserved.used == {"T": 0, "R": 1}
    quotas.unsent(call)
    assert reserved.used == {"T": 0, "R": 0}


@pytest.mark.parametrize(("pools", "closed"), [(ALL[:4], ["T", "I"]), ([REQUESTS, CALLS], ["R"]), ([CALLS], ["C"])])
def test_an_exhausted_provider_closes_the_pools_of_its_model_if_there_are_any(
    pools: list[DeclaredPool], closed: list[str]
) -> None:
    assert Quotas().closed(HAIKU, pools, 7.5, 0) == (closed, 7.5)


def test_without_a_retry_after_it_is_left_alone_longer_each_time() -> None:
    found = [Quotas().closed(HAIKU, [TOKENS], None, refusals)[1] for refusals in (0, 1, 3, 50)]
    assert found == [1.0, 2.0, 8.0, 60.0]
