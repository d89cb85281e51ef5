"""Rate limits as providers enforce them: token buckets that refill continuously, and a number of calls at once.

A request is charged when it arrives, for its input and for all the output that it may have; when it ends, what it did not
use comes back. One that does not fit is refused whole, with the time after which it would. No connection here, no clock.
"""

import math

from msgspec import Struct

from holdfast.testing.wire import Call, Usage


class RateLimit(Struct, frozen=True, kw_only=True):
    """A provider's limits for a model. A bucket holds the amount that it refills in `capacity_s`."""

    requests_per_min: int | None = None
    tokens_per_min: int | None = None
    concurrent: int | None = None
    capacity_s: float = 60.0


class _Bucket:
    def __init__(self, per_min: int, capacity_s: float) -> None:
        self._per_s = per_min / 60
        self._capacity = self._per_s * capacity_s
        self._level = self._capacity
        self._at_s = 0.0

    def wait_s(self, amount: float, now_s: float) -> float:
        """Return the seconds until the bucket holds `amount`; 0 if it does now."""
        self._level = min(self._capacity, self._level + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return max(0.0, (amount - self._level) / self._per_s)

    def take(self, amount: float) -> None:
        self._level -= amount


class Turnstile:
    """The limit of one model, and how far it is used."""

    def __init__(self, limit: RateLimit) -> None:
        self._concurrent = limit.concurrent
        self._inside = 0
        self._requests = _Bucket(limit.requests_per_min, limit.capacity_s) if limit.requests_per_min else None
        self._tokens = _Bucket(limit.tokens_per_min, limit.capacity_s) if limit.tokens_per_min else None

    def enter(self, call: Call, now_s: float) -> float | None:
        """None for a call that is let in, and charged; otherwise the Retry-After of one that is not, in whole seconds."""
        if self._concurrent is not None and self._inside >= self._concurrent:
            return 1.0
        charges = [
            (bucket, amount)
            for bucket, amount in ((self._requests, 1), (self._tokens, _max_tokens_of(call)))
            if bucket is not None
        ]
        wait_s = max((bucket.wait_s(amount, now_s) for bucket, amount in charges), default=0.0)
        if wait_s > 0:
            return float(math.ceil(wait_s))
        for bucket, amount in charges:
            bucket.take(amount)
        self._inside += 1
        return None

    def leave(self, call: Call, usage: Usage | None, now_s: float) -> None:
        self._inside -= 1
        if self._tokens is not None and usage is not None:
            self._tokens.wait_s(0, now_s)
            self._tokens.take(usage.input_tokens + usage.output_tokens - _max_tokens_of(call))


def _max_tokens_of(call: Call) -> int:
    return call.input_tokens + (call.max_tokens or 0)
