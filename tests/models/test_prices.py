"""Prices: exact names only, the dearest rate before a call, the exact one after it, and nothing for what is unknown."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from holdfast.errors import InvalidInput, UnknownPrice
from holdfast.models.prices import DeclaredPrice, Price, Prices
from holdfast.ports import Usage

SONNET_4_7 = DeclaredPrice(input_usd_per_mtok=3.0, output_usd_per_mtok=Decimal(15))


@pytest.fixture(scope="module")
def prices() -> Prices:
    return Prices()


@pytest.mark.parametrize(
    ("model", "input_usd", "output_usd"),
    [
        ("claude-haiku-4-5", "1", "5"),
        ("anthropic:claude-haiku-4-5", "1", "5"),
        ("claude-haiku-4-5-20251001", "1", "5"),
        ("claude-sonnet-4-20250514", "3", "15"),
        ("gpt-4.1-nano", "0.1", "0.4"),
        ("gpt-4o-2024-05-13", "5", "15"),
        ("openai:gpt-4o-mini", "0.15", "0.6"),
    ],
)
def test_a_model_is_priced_under_its_exact_name(prices: Prices, model: str, input_usd: str, output_usd: str) -> None:
    rates = prices.of(model).tiers[0]
    assert (rates.input, rates.output) == (Decimal(input_usd), Decimal(output_usd))


@pytest.mark.parametrize(
    "model",
    [
        "claude-haiku-4-5-fake-fast",  # the snapshot itself would price it as haiku
        "claude-haiku-4-5-20251399",
        "claude-sonnet-4-7",
        "Claude-Haiku-4-5",
        "openai:claude-haiku-4-5",
        "gpt-4o-mini-search-preview",  # searches by itself: its text is not all it bills
        "o3-deep-research",
        "gpt-audio",
        "whisper-1",
        "text-embedding-3-small",
        "",
    ],
)
def test_any_other_name_has_no_price(prices: Prices, model: str) -> None:
    with pytest.raises(UnknownPrice):
        prices.of(model)


def test_an_unknown_price_says_what_to_do(prices: Prices) -> None:
    with pytest.raises(UnknownPrice) as raised:
        prices.of("claude-sonnet-4-7")
    assert raised.value.message == (
        "claude-sonnet-4-7 has no known price, so no limit can be kept for it. Nothing was called.\n"
        'Declare it in holdfast.toml under [models."claude-sonnet-4-7"] (input_usd_per_mtok, output_usd_per_mtok),'
        " or use one of: claude-sonnet-4-6, claude-sonnet-4-5, claude-sonnet-4-0."
    )


def test_a_declared_price_is_known_and_wins() -> None:
    prices = Prices({"claude-sonnet-4-7": SONNET_4_7, "claude-haiku-4-5": SONNET_4_7})
    assert prices.of("anthropic:claude-sonnet-4-7") == prices.of("claude-sonnet-4-7")
    assert prices.of("claude-haiku-4-5").cost_nanousd(Usage(1_000_000, 0)) == 3_000_000_000
    assert Prices({"m": SONNET_4_7}).of("m").context_window_tokens is None


def test_a_declared_cache_rate_counts_and_an_undeclared_one_is_the_dearest() -> None:
    written = Usage(1_000_000, 0, cache_write_tokens=1_000_000)
    read = Usage(1_000_000, 0, cache_read_tokens=1_000_000)
    plain = Prices({"m": SONNET_4_7}).of("m")
    assert (plain.cost_nanousd(written), plain.cost_nanousd(read)) == (3_750_000_000, 3_000_000_000)
    free = DeclaredPrice(input_usd_per_mtok=3, output_usd_per_mtok=15, cache_read_usd_per_mtok=0, cache_write_usd_per_mtok=0)
    price = Prices({"m": free}).of("m")
    assert price.cost_nanousd(written) == price.cost_nanousd(read) == 0


def test_what_a_cache_could_have_saved_is_the_input_at_the_rate_of_reading(prices: Prices) -> None:
    sonnet = prices.of("claude-sonnet-4-5")
    assert sonnet.cacheable_nanousd(Usage(1_000, 50)) == 1_000 * (3_000 - 300)
    assert sonnet.cacheable_nanousd(Usage(1_000, 50, 600, 300)) == 100 * (3_000 - 300) + 300 * (3_750 - 300)
    assert sonnet.cacheable_nanousd(Usage(1_000, 50, 1_000)) == 0
    assert Prices({"m": SONNET_4_7}).of("m").cacheable_nanousd(Usage(1_000, 50)) == 0


@pytest.mark.parametrize("rate", [-1, float("nan"), float("inf")])
def test_a_declared_rate_must_be_an_amount(rate: float) -> None:
    with pytest.raises(InvalidInput, match=r'models\."m"'):
        Prices({"m": DeclaredPrice(input_usd_per_mtok=rate, output_usd_per_mtok=1)})


def test_the_first_token_above_a_threshold_makes_all_of_them_dearer(prices: Prices) -> None:
    sonnet = prices.of("claude-sonnet-4-5")
    assert sonnet.cost_nanousd(Usage(200_000, 100)) == 200_000 * 3_000 + 100 * 15_000
    assert sonnet.cost_nanousd(Usage(200_001, 100)) == 200_001 * 6_000 + 100 * 22_500


def test_the_worst_case_uses_the_price_of_its_tier_and_of_cache_writes(prices: Prices) -> None:
    sonnet = prices.of("claude-sonnet-4-5")
    assert sonnet.worst_case_nanousd(200_000, 1_000) == 200_000 * 3_750 + 1_000 * 15_000
    assert sonnet.worst_case_nanousd(200_001, 1_000) == 200_001 * 7_500 + 1_000 * 22_500


@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-haiku-5-5", "gpt-6-sol", "gpt-4.1-nano"])
@pytest.mark.parametrize("at_most", [1, 99_999, 200_001, 300_000])
def test_no_usage_within_the_bounds_costs_more_than_the_worst_case(prices: Prices, model: str, at_most: int) -> None:
    price = prices.of(model)
    worst = price.worst_case_nanousd(at_most, 500)
    for used in {1, at_most // 2, at_most} - {0}:
        for usage in (
            Usage(used, 500),
            Usage(used, 500, cache_read_tokens=used),
            Usage(used, 500, cache_write_tokens=used),
            Usage(used, 0, cache_read_tokens=used // 2, cache_write_tokens=used - used // 2),
        ):
            assert price.cost_nanousd(usage) <= worst


def test_fractions_of_a_nano_dollar_are_rounded_up(prices: Prices) -> None:
    nano = prices.of("gpt-4.1-nano")  # 0.1 dollars per million: 100 nano-dollars a token; cached, 25
    assert nano.cost_nanousd(Usage(3, 0, cache_read_tokens=3)) == 75
    third = Prices({"m": DeclaredPrice(input_usd_per_mtok=Decimal("0.0003"), output_usd_per_mtok=0)}).of("m")
    assert third.cost_nanousd(Usage(1, 0)) == 1
    assert third.worst_case_nanousd(1, 1) == 1


@pytest.mark.parametrize(
    "usage",
    [
        Usage(-1, 0),
        Usage(10, -1),
        Usage(10, 0, cache_read_tokens=-1),
        Usage(10, 0, cache_read_tokens=11),
        Usage(10, 0, cache_read_tokens=6, cache_write_tokens=5),
    ],
)
def test_a_usage_that_cannot_be_true_has_no_cost(prices: Prices, usage: Usage) -> None:
    with pytest.raises(ValueError, match="cannot be true"):
        prices.of("claude-haiku-4-5").cost_nanousd(usage)


@pytest.mark.parametrize(("input_tokens", "max_tokens"), [(-1, 10), (10, -1)])
def test_a_call_that_cannot_be_has_no_worst_case(prices: Prices, input_tokens: int, max_tokens: int) -> None:
    with pytest.raises(ValueError, match="no call"):
        prices.of("claude-haiku-4-5").worst_case_nanousd(input_tokens, max_tokens)


def test_a_price_that_changed_at_a_date_is_that_of_the_day() -> None:
    def sonnet(year: int) -> Price:
        return Prices(now=lambda: datetime(year, 1, 1, tzinfo=UTC)).of("claude-sonnet-4-6")

    assert [len(sonnet(year).tiers) for year in (2026, 2027)] == [2, 1]


def test_a_listed_context_window_is_taken_wider_because_the_snapshot_rounds_it(prices: Prices) -> None:
    window = prices.of("gpt-4.1").context_window_tokens
    assert window is not None
    assert window >= 1_047_576


def test_equal_fingerprints_mean_equal_prices(prices: Prices) -> None:
    assert prices.fingerprint == Prices().fingerprint
    declared = Prices({"claude-sonnet-4-7": SONNET_4_7}).fingerprint
    assert declared == Prices({"claude-sonnet-4-7": SONNET_4_7}).fingerprint != prices.fingerprint
    dearer = DeclaredPrice(input_usd_per_mtok=3, output_usd_per_mtok=16)
    assert Prices({"claude-sonnet-4-7": dearer}).fingerprint != declared
