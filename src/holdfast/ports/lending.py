"""Pools above steps, lent in shares to those who place them; and what a call has reserved of pools.

Never here: an implementation, a default, how a pool is divided (core.capacity.lending).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.core.capacity.estimates import Estimate, Use
from holdfast.core.capacity.lending import DeclaredPool, Grant, Share, Visit, Visitor


class Lending(Protocol):
    """Pools above steps (core.capacity.lending): declared here for every process, and lent in shares to those who place steps.

    The pools that a visit names are locked in the order of their names, in a transaction of its own, never one of an
    append. A share is its session's: it is free when that is dead, and what the visitor has placed cannot be running.
    """

    async def set_pool(self, pool: DeclaredPool) -> None:
        """Declare a pool, or give it other figures. What is lent above a smaller limit comes back as it is given back."""
        ...

    async def add_pool(self, pool: DeclaredPool) -> bool:
        """Declare a pool if there is none of its name; False, and nothing is changed, where there is one."""
        ...

    async def remove_pool(self, name: str) -> bool:
        """False if there was none. What is lent of it is remembered, should it be declared again meanwhile."""
        ...

    async def pools(self) -> Sequence[DeclaredPool]:
        """All of them, by name."""
        ...

    async def lend(self, visitor: Visitor, visits: Sequence[Visit]) -> Sequence[Grant]:
        """Return the visitor's share of each of these pools from now on, in one transaction. A pool that does not exist is left
        out.

        Raises Conflict if the visitor's session is dead: then it has nothing. After any other error the share is unknown, and
        the next visit corrects that.
        """
        ...

    async def pool_shares(self, pool: str) -> Sequence[Share]:
        """Return the shares of a pool, by holder. Shares of dead holders are among them until the next visit."""
        ...

    async def estimates(self, *, workflow: str | None = None, pool: str | None = None) -> Sequence[Estimate]:
        """Return the amounts of pools that steps have taken (core.capacity.estimates), by workflow, node and pool."""
        ...

    async def learn(self, uses: Sequence[Use]) -> None:
        """Take into account what steps have taken, in one transaction."""
        ...


class Reservation(Protocol):
    """Amounts of pools that are reserved for one call until it is settled."""

    amounts: Mapping[str, int]
    """By the names of the pools."""
    waited_s: float
    """How long the call has waited for it."""

    def settle(self, amounts: Mapping[str, int]) -> None:
        """The call is over: its slots come back, and of each rate in `amounts` what it did not use. Where it used more, that is
        charged. Rates that are not in `amounts` were used as they were reserved. Only what is said first counts."""
        ...
