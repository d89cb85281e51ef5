"""Money as whole nano-dollars, and the books of one run: what is settled, held and in doubt against its limit.

Never here: a float, a price, a provider.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import TypeAlias

import msgspec

Usd: TypeAlias = str | int | float
"""Dollars as people and programs write them: "0.50"."""
NANOUSD_PER_USD = 1_000_000_000
_MAX_USD = Decimal(9_000_000_000)  # what a signed 64-bit column can hold in nano-dollars


def nanousd(usd: Decimal | str | int | float) -> int:
    """`usd` dollars in nano-dollars, rounded up. A float is read as the decimal that it prints as.

    Raises ValueError for what is not a finite, non-negative amount below nine billion dollars.
    """
    try:
        amount = Decimal(str(usd))
    except InvalidOperation:
        raise ValueError(f"{usd!r} is not an amount of dollars; write it like 0.50") from None
    if not amount.is_finite() or amount < 0 or amount > _MAX_USD:
        raise ValueError(f"{usd!r} is not an amount of dollars between 0 and {_MAX_USD}")
    return int((amount * NANOUSD_PER_USD).to_integral_value(rounding=ROUND_CEILING))


def usd(amount_nanousd: int) -> str:
    """The exact dollars as a decimal string with at least two places: `0.50`, `0.000135`."""
    sign, amount = ("-", -amount_nanousd) if amount_nanousd < 0 else ("", amount_nanousd)
    whole, fraction = divmod(amount, NANOUSD_PER_USD)
    return f"{sign}{whole}.{f'{fraction:09d}'.rstrip('0').ljust(2, '0')}"


class Budget(msgspec.Struct):
    """The books of one run. Invariant at every commit: settled + held + in doubt ≤ limit.

    Money in doubt left with a call whose fate is unknown; it counts as spent until it is reconciled.
    """

    limit_nanousd: int | None = None
    settled_nanousd: int = 0
    held_nanousd: int = 0
    in_doubt_nanousd: int = 0

    @property
    def committed_nanousd(self) -> int:
        return self.settled_nanousd + self.held_nanousd + self.in_doubt_nanousd

    @property
    def available_nanousd(self) -> int | None:
        """Return what a new hold may take; None without a limit."""
        return None if self.limit_nanousd is None else self.limit_nanousd - self.committed_nanousd

    def fits(self, hold_nanousd: int) -> bool:
        available = self.available_nanousd
        return available is None or hold_nanousd <= available

    def could_fit_later(self, hold_nanousd: int) -> bool:
        """True if the calls now in flight might leave enough room when they settle."""
        available = self.available_nanousd
        return available is None or hold_nanousd <= available + self.held_nanousd
