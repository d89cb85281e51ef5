"""What a model call takes of its provider's pools: before it at most, after it exactly.

Providers count the input as tokens and the output as `max_tokens` or as it comes. The bound that holds money counts the
input in bytes, which is up to four times as much, and whoever reserves four times too much waits too often. So the input
is estimated: the bound, times the largest part of it that replies of this model have lately turned out to be, and a tenth
on top. A larger part counts at once, a smaller one is believed slowly, and before the first reply the bound itself is
reserved. What a reply reports is what counts in the end: the rest comes back, and what is above is charged.

Never here: money, a request on its way, who waits (borrower).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.core.quota import LEASE_S, Pool, Want
from holdfast.errors import ModelRefused
from holdfast.models.family import provider_of
from holdfast.ports import Clock, ModelRequest, Pools, Shares, Usage

LONGEST_LEASE_S: Final = 660.0
"""How long a slot is lent at most, unless its pool says otherwise: the longest a request may take, and what surrounds it."""

GRACE_S: Final = 5.0
"""How much longer than its own time-out a request may take before it is given up from outside."""

HOLDING_S: Final = 5.0
"""How long it may take from lending to sending: in between, the money is held."""

LATE_S: Final = 5.0
"""What the waiting side adds to every share, so that it may be heard of late."""

_REQUESTS: Final = "requests"
_MARGIN: Final = 1.1
_FORGETTING: Final = 0.1
_FIRST_CLOSING_S: Final = 1.0
_LONGEST_CLOSING_S: Final = 60.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider allows for a model, an account or a key."""

    requests_per_min: int | None = None
    tokens_per_min: int | None = None
    input_tokens_per_min: int | None = None
    output_tokens_per_min: int | None = None
    concurrent: int | None = None
    burst_s: float
    lease_s: float = LONGEST_LEASE_S

    def pools(self, name: str) -> Iterator[Pool]:
        rates = {
            _REQUESTS: self.requests_per_min,
            "tokens": self.tokens_per_min,
            "input_tokens": self.input_tokens_per_min,
            "output_tokens": self.output_tokens_per_min,
        }
        for what, per_min in rates.items():
            if per_min is not None:
                yield Pool(f"{name}/{what}", "rate", per_min, self.burst_s, LEASE_S)
        if self.concurrent is not None:
            yield Pool(f"{name}/concurrent", "slots", self.concurrent, lease_s=self.lease_s)


class Lent(msgspec.Struct):
    """What a call was lent, and how long its request may take with that."""

    shares: Shares
    timeout_s: float
    input_bound: int
    waited_s: float = 0.0
    """How long the call has waited for it."""
    is_back: bool = False


class Quotas:
    """The pools of models, as the gateway takes from them. Without limits nothing is waited for."""

    def __init__(
        self, limits: Mapping[str, Limits], pools: Pools | None, clock: Clock, declared: Mapping[str, str] | None = None
    ) -> None:
        """`limits` by the name of a model, of a provider, or of the variable that holds its key. `declared` says who
        serves models whose names do not tell."""
        self._limits = limits
        self._pools = pools
        self._clock = clock
        self._declared = declared or {}
        self._parts: dict[str, float] = {}

    def same(self, model: str, other: str) -> bool:
        """Whether calls of both take from the same pools."""
        return self._of(model) == self._of(other)

    def names_of(self, model: str) -> list[str]:
        """What it is called where somebody limits it: by its own names, its provider's and its key's."""
        own, wider = self._names(model)
        return [*own, *wider]

    async def reserve(self, request: ModelRequest, input_bound: int, priority: int = 0) -> Lent | None:
        """Wait for what `request` needs; None where nothing limits it. Raises as Pools.reserve does."""
        found = self._of(request.model)
        if not found or self._pools is None:
            return None
        around_s = GRACE_S + HOLDING_S
        leases_s = [pool.lease_s - around_s - LATE_S for pool in found if pool.kind == "slots"]
        timeout_s = min(request.timeout_s, *leases_s) if leases_s else request.timeout_s
        estimate = math.ceil(input_bound * min(1.0, self._parts.get(request.model, 1.0) * _MARGIN))
        wants = [Want(pool, _amount(pool, estimate, request.max_tokens)) for pool in found]
        since_s = self._clock.monotonic_s()
        shares = await self._pools.reserve(wants, deadline_s=timeout_s + around_s, priority=priority)
        return Lent(shares, timeout_s, input_bound, self._clock.monotonic_s() - since_s)

    def in_time(self, lent: Lent) -> bool:
        """Whether a request that is sent now is over before its slots are lent to others."""
        return self._clock.monotonic_s() + lent.timeout_s + GRACE_S <= lent.shares.expires_at_s

    def used(self, lent: Lent, model: str, usage: Usage | None) -> None:
        """The call is over. `usage` is None where nobody knows: then it counts as all that was lent."""
        if usage is None or lent.is_back:
            self._give_back(lent, {})
            return
        part, known = usage.input_tokens / max(1, lent.input_bound), self._parts.get(model, 0.0)
        self._parts[model] = max(part, known + (part - known) * _FORGETTING)
        amounts = {
            want.pool.name: _amount(want.pool, usage.input_tokens, usage.output_tokens) for want in lent.shares.wants
        }
        self._give_back(lent, amounts)

    def unsent(self, lent: Lent) -> None:
        """The request never left: all of it comes back."""
        self._give_back(lent, {want.pool.name: 0 for want in lent.shares.wants})

    def refused(self, lent: Lent) -> None:
        """The provider refused it: a request, but no tokens."""
        self._give_back(
            lent, {want.pool.name: 0 for want in lent.shares.wants if not want.pool.name.endswith(f"/{_REQUESTS}")}
        )

    def close(self, lent: Lent, model: str, retry_after_s: float | None, refusals: int) -> None:
        """The provider takes no more of `model` for now. Its own pools are closed, where there are any: what a provider
        limits it limits by model. Without a Retry-After, longer each time."""
        guess_s = min(_LONGEST_CLOSING_S, _FIRST_CLOSING_S * 2 ** min(refusals, 10))
        for_s = guess_s if retry_after_s is None else retry_after_s
        assert self._pools is not None
        own = {f"{name}/" for name in self._names(model)[0]}
        pools = [want.pool for want in lent.shares.wants if want.pool.kind == "rate"]
        narrow = [pool for pool in pools if any(pool.name.startswith(name) for name in own)]
        for pool in narrow or pools or [want.pool for want in lent.shares.wants]:
            self._pools.close(pool, for_s)

    async def aclose(self) -> None:
        if self._pools is not None:
            await self._pools.aclose()

    def _give_back(self, lent: Lent, used: Mapping[str, int]) -> None:
        """Only what is said first counts."""
        assert self._pools is not None
        if not lent.is_back:
            lent.is_back = True
            self._pools.give_back(lent.shares, used)

    def _of(self, model: str) -> list[Pool]:
        if not self._limits:
            return []
        own, wider = self._names(model)
        names = [name for name in dict.fromkeys((*own, *wider)) if name in self._limits]
        return [pool for name in names for pool in self._limits[name].pools(name)]

    def _names(self, model: str) -> tuple[Sequence[str], Sequence[str]]:
        """By what names limits of `model` may be given: its own, and those of who serves it."""
        try:
            provider, name = provider_of(model, self._declared)
        except ModelRefused:
            return (model,), ()  # a double of a model; a provider would refuse to prepare it
        return (model, f"{provider}:{name}", name), (provider, f"{provider.upper()}_API_KEY")


def _amount(pool: Pool, input_tokens: int, output_tokens: int) -> int:
    amounts = {
        "tokens": input_tokens + output_tokens,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
    }
    return amounts.get(pool.name.rpartition("/")[2], 1)
