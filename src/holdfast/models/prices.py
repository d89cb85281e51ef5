"""The cost of a model call in whole nano-dollars: the most it can be before the call, exact after it.

Prices come from two places: what the user declares in holdfast.toml, which always wins, and the snapshot that ships
with genai-prices, never refreshed from a network. The snapshot's own matching is fuzzy (claude-haiku-4-5-fake-fast is
priced as haiku there), so it is only looked up by exact names: the ids and `equals` clauses that it lists, and the
dated version of such a name where the snapshot's rule for that very model covers it. Anything else has no price.

Never here: an estimate of tokens, a budget, a provider's format.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.values.money import nanousd
from holdfast.errors import InvalidInput, UnknownPrice
from holdfast.ports import Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice

_PROVIDERS: Final = ("anthropic", "openai")
_OF_PROGRAMS: Final = "google"
"""A provider that is only called for programs: its prices are in no run's fingerprint."""
_MTOK: Final = 1_000_000
_DATED: Final = re.compile(r"(.+)-(20\d\d)-?(\d\d)-?(\d\d)")

_TOKEN_RATES: Final = frozenset({"input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok"})
_RATES_OF_THINGS_NEVER_ASKED_FOR: Final = frozenset({"web_searches_kcount", "storage_searches_kcount"})
_GEMINI_RATES_NEVER_ASKED_FOR: Final = frozenset({"input_audio_mtok", "cache_audio_read_mtok", "output_audio_mtok"})
"""Recordings are refused there."""
_UNDECLARED_CACHE_WRITE: Final = Decimal("1.25")
"""What Anthropic, the dearest, asks for writing to its five-minute cache, as a multiple of the input rate."""


class DeclaredPrice(msgspec.Struct, frozen=True, kw_only=True):
    """A price the user vouches for, in dollars per million tokens. A float is read as the decimal that it prints as.

    Reading from a cache costs as much as other input unless `cache_read_usd_per_mtok` says otherwise; writing to it
    a quarter more unless `cache_write_usd_per_mtok` does.
    """

    input_usd_per_mtok: Decimal | float
    output_usd_per_mtok: Decimal | float
    cache_read_usd_per_mtok: Decimal | float | None = None
    cache_write_usd_per_mtok: Decimal | float | None = None
    context_window_tokens: int | None = None


class Rates(msgspec.Struct, frozen=True):
    """Dollars per million tokens, for all tokens of a request with more than `above_tokens` input tokens."""

    above_tokens: int
    input: Decimal
    output: Decimal
    cache_read: Decimal
    cache_write: Decimal


class Price(msgspec.Struct, frozen=True):
    """The price of one model: its rates by size of the input; the first applies to any size."""

    model: str
    tiers: tuple[Rates, ...]
    context_window_tokens: int | None = None
    """The most input tokens the model reads, where known."""

    def worst_case_nanousd(self, input_tokens_at_most: int, max_tokens: int) -> int:
        """The most a call can cost, whatever part of its input is written to or read from a cache, rounded up."""
        if input_tokens_at_most < 0 or max_tokens < 0:
            raise ValueError(f"no call reads {input_tokens_at_most} and writes up to {max_tokens} tokens")
        reachable = (rates for rates in self.tiers if rates.above_tokens < max(input_tokens_at_most, 1))
        return nanousd(max(_worst(rates, input_tokens_at_most, max_tokens) for rates in reachable))

    def plain_nanousd(self, input_tokens: int, output_tokens: int) -> int:
        """Return the cost of these tokens for calls of the usual size, with nothing cached, rounded up."""
        rates = self.tiers[0]
        return nanousd((input_tokens * rates.input + output_tokens * rates.output) / _MTOK)

    def cost_nanousd(self, usage: Usage) -> int:
        """Return the cost of a call with this usage, rounded up. Raises ValueError for an impossible usage."""
        cached = usage.cache_read_tokens + usage.cache_write_tokens
        if min(msgspec.structs.astuple(usage)) < 0 or cached > usage.input_tokens:
            raise ValueError(f"a usage that cannot be true: {usage}")
        rates = [rates for rates in self.tiers if rates.above_tokens < max(usage.input_tokens, 1)][-1]
        usd = (
            (usage.input_tokens - cached) * rates.input
            + usage.cache_read_tokens * rates.cache_read
            + usage.cache_write_tokens * rates.cache_write
            + usage.output_tokens * rates.output
        ) / _MTOK
        return nanousd(usd)

    def cacheable_nanousd(self, usage: Usage) -> int:
        """Return what a call with this usage would have cost less with its whole input read from the provider's cache."""
        read = Usage(usage.input_tokens, usage.output_tokens, usage.input_tokens, 0)
        return max(0, self.cost_nanousd(usage) - self.cost_nanousd(read))


class Prices:
    """Every known price. Importing costs nothing; the snapshot is loaded by the first lookup (0.2 s)."""

    def __init__(
        self, prices: Mapping[str, DeclaredPrice] | None = None, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """`now` decides between the prices of a model that changed, or will change, at a date."""
        self._declared_price = {model: _declared_price(model, price) for model, price in (prices or {}).items()}
        self._now = now

    def of(self, model: str, *, writes: bool = True) -> Price:
        """The price of `model`, a name as in ModelRequest; of one that `writes` nothing, its input's. Raises UnknownPrice for
        any that is not exactly known."""
        provider, colon, name = model.partition(":")
        providers = (provider,) if colon and provider in (*_PROVIDERS, _OF_PROGRAMS) else _PROVIDERS
        name = name if providers != _PROVIDERS else model
        if price := self._declared_price.get(model) or self._declared_price.get(name):
            return price
        for provider in providers:
            listed = _load_of_programs() if provider == _OF_PROGRAMS else _load_listed()[provider]
            if (info := _find(listed, name)) and (price := _listed_price(name, info, self._now(), writes=writes)):
                return price
        raise self._unknown(model, name)

    @property
    def fingerprint(self) -> str:
        """The sha256 of every price here, listed and declared: equal fingerprints, equal prices."""
        declared = [repr(price) for _, price in sorted(self._declared_price.items())]
        return hashlib.sha256("\n".join([_snapshot_digest(), *declared]).encode()).hexdigest()

    def _unknown(self, model: str, name: str) -> UnknownPrice:
        now = self._now()
        listed = (
            known for names in _load_listed().values() for known, info in names.items() if _listed_price(known, info, now)
        )
        close = difflib.get_close_matches(name, [*self._declared_price, *listed], n=3, cutoff=0.5)
        instead = f", or use one of: {', '.join(close)}" if close else ""
        return UnknownPrice(
            f"{model} has no known price, so no limit can be kept for it. Nothing was called.\n"
            f'Declare it in holdfast.toml under [models."{model}"] (input_usd_per_mtok, output_usd_per_mtok){instead}.',
            model=model,
            close=tuple(close),
        )


def _worst(rates: Rates, input_tokens: int, output_tokens: int) -> Decimal:
    dearest_input = max(rates.input, rates.cache_read, rates.cache_write)
    return (input_tokens * dearest_input + output_tokens * rates.output) / _MTOK


def _declared_price(model: str, price: DeclaredPrice) -> Price:
    def rate(usd_per_mtok: Decimal | float | None, otherwise: Decimal = Decimal(0)) -> Decimal:
        amount = otherwise if usd_per_mtok is None else Decimal(str(usd_per_mtok)).normalize()
        if not amount.is_finite() or amount < 0:
            raise InvalidInput(f'[models."{model}"] declares a price of {usd_per_mtok}; write dollars per million tokens.')
        return amount

    base = rate(price.input_usd_per_mtok)
    rates = Rates(
        above_tokens=0,
        input=base,
        output=rate(price.output_usd_per_mtok),
        cache_read=rate(price.cache_read_usd_per_mtok, base),
        cache_write=rate(price.cache_write_usd_per_mtok, base * _UNDECLARED_CACHE_WRITE),
    )
    return Price(model, (rates,), price.context_window_tokens)


def _listed_price(name: str, info: ModelInfo, now: datetime, *, writes: bool = True) -> Price | None:
    """The price of a listed model, or None where text tokens are not all it bills."""
    priced = info.get_prices(now)
    keys = {key for key, value in vars(priced).items() if value is not None}
    needed = {"input_mtok", "output_mtok"} if writes else {"input_mtok"}
    unasked = _RATES_OF_THINGS_NEVER_ASKED_FOR | (_GEMINI_RATES_NEVER_ASKED_FOR if name.startswith("gemini-") else frozenset())
    if not needed <= keys or keys - _TOKEN_RATES - unasked:
        return None
    starts = {0} | {tier.start for key in keys for tier in getattr(getattr(priced, key), "tiers", ())}
    return Price(name, tuple(_rates(priced, start) for start in sorted(starts)), _window(info))


def _rates(priced: ModelPrice, above_tokens: int) -> Rates:
    from genai_prices.types import TieredPrices

    def rate(key: str, otherwise: Decimal = Decimal(0)) -> Decimal:
        value = getattr(priced, key)
        if value is None:
            return otherwise
        if isinstance(value, TieredPrices):
            value = next((tier.price for tier in reversed(value.tiers) if tier.start <= above_tokens), value.base)
        return Decimal(value)

    base = rate("input_mtok")
    return Rates(above_tokens, base, rate("output_mtok"), rate("cache_read_mtok", base), rate("cache_write_mtok", base))


def _window(info: ModelInfo) -> int | None:
    """The context window, a sixteenth wider: the snapshot rounds (GPT-4.1's 1,047,576 tokens are listed as 1,000,000)."""
    return info.context_window + info.context_window // 16 if info.context_window else None


@cache
def _load_listed() -> Mapping[str, Mapping[str, ModelInfo]]:
    """The snapshot's models by provider and exact name. Models that search by themselves bill more than their text."""
    from genai_prices.data import providers

    return {provider.id: _named(provider) for provider in providers if provider.id in _PROVIDERS}


@cache
def _load_of_programs() -> Mapping[str, ModelInfo]:
    """Google's models of the snapshot, by exact name."""
    from genai_prices.data import providers

    return next((_named(provider) for provider in providers if provider.id == _OF_PROGRAMS), {})


def _named(provider: Any) -> dict[str, ModelInfo]:
    return {name: info for info in provider.models for name in (info.id, *_equals(info.match)) if "search" not in name}


def _equals(clause: Any) -> Iterator[str]:
    """The names that a match clause spells out."""
    if (name := getattr(clause, "equals", None)) is not None:
        yield name
    for alternative in getattr(clause, "or_", ()):
        yield from _equals(alternative)


def _find(listed: Mapping[str, ModelInfo], name: str) -> ModelInfo | None:
    """The model listed as `name`, or the one whose dated version `name` is (claude-haiku-4-5-20251001)."""
    if name in listed or not (dated := _DATED.fullmatch(name)):
        return listed.get(name)
    base, year, month, day = dated.groups()
    try:
        date(int(year), int(month), int(day))
    except ValueError:
        return None
    info = listed.get(base)
    return info if info and info.is_match(name) else None


@cache
def _snapshot_digest() -> str:
    lines = (f"{name} {info.prices!r}" for names in _load_listed().values() for name, info in sorted(names.items()))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
