"""What a call has reserved of pools.

Never here: an implementation, a default, how a pool is divided (core.capacity.lending).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Reservation(Protocol):
    """So much of pools is set aside for one call, until it is settled."""

    amounts: Mapping[str, int]
    """By the names of the pools."""
    waited_s: float
    """How long the call has waited for it."""

    def settle(self, used: Mapping[str, int]) -> None:
        """The call is over: its slots come back, and of each rate in `used` what it did not use. Where it used more, that is
        charged. Rates that are not in `used` were used as they were reserved. Only what is said first counts."""
        ...
