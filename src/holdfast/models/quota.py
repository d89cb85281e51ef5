"""The amounts that a model call takes of its pools: the most before it, exact after it.

Providers count the input as tokens, and the output as `max_tokens` or as it comes. The bound that holds money counts the input
in bytes, which is up to four times as much. A reservation four times too large would make calls wait too often. So the input is
estimated: the bound, times the largest recent ratio of actual tokens to bound for this model, plus a tenth. A larger ratio
counts at once, and a smaller one only slowly. Before the first reply the bound itself is reserved. In the end the usage that a
reply reports counts: the rest comes back, and any excess is charged.

Never here: money, a request on its way, who waits (engine).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.core.capacity.lending import DeclaredPool
from holdfast.errors import ModelRefused
from holdfast.models.family import provider_of
from holdfast.ports import EmbeddingRequest, ForwardedRequest, ModelRequest, Reservation, Usage

_MARGIN: Final = 1.1
_FORGETTING: Final = 0.1
_FIRST_CLOSING_S: Final = 1.0
_LONGEST_CLOSING_S: Final = 60.0
_MAX_MODELS: Final = 256
"""Whose names are remembered: each call asks for them several times."""


class QuotaLease(msgspec.Struct, frozen=True):
    """A call's reservation, the pools that it is of, and the bound of the call's input."""

    reservation: Reservation
    pools: tuple[DeclaredPool, ...]
    input_bound: int


class Quotas:
    """The amounts that model calls take of pools."""

    def __init__(self, providers: Mapping[str, str] | None = None) -> None:
        """`providers` says who serves models whose names do not tell."""
        self._declared = providers or {}
        self._parts: dict[str, float] = {}
        self._names = lru_cache(_MAX_MODELS)(self._find_names)

    def names_of(self, model: str) -> list[str]:
        """Return the names under which a model may be limited: its own, its provider's and its key's."""
        own, wider = self._names(model)
        return [*own, *wider]

    def of(self, model: str, pools: Sequence[DeclaredPool]) -> list[DeclaredPool]:
        """Return the pools that count calls of a model."""
        names = self.names_of(model)
        return [pool for pool in pools if pool.of in names]

    def amounts(
        self, pools: Collection[DeclaredPool], request: ModelRequest | EmbeddingRequest | ForwardedRequest, input_bound: int
    ) -> dict[str, int]:
        """Return the most that a call takes of each of its pools, as far as it is known."""
        estimate = math.ceil(input_bound * min(1.0, self._parts.get(request.model, 1.0) * _MARGIN))
        return {pool.name: max(1, _amount(pool, estimate, request.max_tokens)) for pool in pools}

    def used(self, lease: QuotaLease, model: str, usage: Usage | None) -> None:
        """End the call. `usage` is None if it is unknown: then it counts as all that was lent."""
        if usage is None:
            lease.reservation.settle({})
            return
        part, known = usage.input_tokens / max(1, lease.input_bound), self._parts.get(model, 0.0)
        self._parts[model] = max(part, known + (part - known) * _FORGETTING)
        lease.reservation.settle({pool.name: _amount(pool, usage.input_tokens, usage.output_tokens) for pool in lease.pools})

    def unsent(self, lease: QuotaLease) -> None:
        """The request never left: all of it comes back."""
        lease.reservation.settle(dict.fromkeys(lease.reservation.amounts, 0))

    def refused(self, lease: QuotaLease) -> None:
        """The provider refused it: a request, but no tokens."""
        lease.reservation.settle({pool.name: _amount(pool, 0, 0) for pool in lease.pools})

    def closed(
        self, model: str, pools: Sequence[DeclaredPool], retry_after_s: float | None, refusals: int
    ) -> tuple[list[str], float]:
        """The provider takes no more of `model` for now: which of its pools that closes, and for how long. Its own where
        there are any: what a provider limits it limits by model. Without a Retry-After, longer each time."""
        guess_s = min(_LONGEST_CLOSING_S, _FIRST_CLOSING_S * 2 ** min(refusals, 10))
        own = self._names(model)[0]
        rates = [pool for pool in pools if pool.kind == "rate"]
        narrow = [pool for pool in rates if pool.of in own]
        return [pool.name for pool in narrow or rates or pools], guess_s if retry_after_s is None else retry_after_s

    def _find_names(self, model: str) -> tuple[Sequence[str], Sequence[str]]:
        """By what names limits of `model` may be given: its own, and those of who serves it."""
        try:
            provider, name = provider_of(model, self._declared)
        except ModelRefused:
            return (model,), ()  # a double of a model; a provider would refuse to prepare it
        return (model, f"{provider}:{name}", name), (provider, f"{provider.upper()}_API_KEY")


def _amount(pool: DeclaredPool, input_tokens: int, output_tokens: int) -> int:
    amounts = {
        "requests": 1,
        "tokens": input_tokens + output_tokens,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
    }
    return amounts[pool.counts or "requests"]
