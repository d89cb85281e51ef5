"""Pools: declared, removed and looked at.

Never here: who gets how much of one (core.capacity.lending, scheduling).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.core.capacity.estimates import Estimate
from holdfast.core.capacity.lending import MAX_LIMIT, DeclaredPool, RateUnit, Share, declared_pool
from holdfast.errors import InvalidInput, NotFound
from holdfast.service.control.base import ControlBase, word

if TYPE_CHECKING:
    from holdfast.engine.capacity.diagnosis import PoolUsers


class DeclaredPools(ControlBase):
    """The pools of the store, which all processes share."""

    async def set_pool(
        self,
        name: str,
        *,
        slots: int | None = None,
        rate: int | None = None,
        per_s: int | None = None,
        burst: int | None = None,
        counts: RateUnit | None = None,
        of: str | None = None,
    ) -> DeclaredPool:
        """Declare a pool from which steps reserve amounts, or replace its declaration: slots, or a rate. It holds within
        seconds, for every process.

        Raises:
            InvalidInput: The declaration contradicts itself.
        """
        if (slots is None) == (rate is None):
            raise InvalidInput(f"Pool {name!r} needs either slots or a rate. Nothing was changed.")
        for field, limit in (("slots", slots), ("rate", rate)):
            if limit is not None and not 1 <= limit <= MAX_LIMIT:
                words = f"{field} must be 1 to {MAX_LIMIT:,}; it is {limit!r:.80}. Nothing was changed."
                raise InvalidInput(words, field=field)
        name, of = word("name of the pool", name), None if of is None else word("name", of)
        pool = declared_pool(name, slots=slots, rate=rate, per_s=per_s, burst=burst, counts=counts, of=of)
        if problems := list(pool.problems()):
            raise InvalidInput(f"Pool {name!r:.130} cannot be declared: {'; '.join(problems)}. Nothing was changed.")
        await self.store.lending.set_pool(pool)
        return pool

    async def remove_pool(self, name: str) -> None:
        """Remove a pool. Steps that ask for it wait until it is declared again.

        Raises:
            NotFound: The pool does not exist.
        """
        if not await self.store.lending.remove_pool(word("name of the pool", name)):
            raise _no_pool(name)

    async def pools(self) -> Sequence[DeclaredPool]:
        """Return all declared pools, by name."""
        return await self.store.lending.pools()

    async def pool(self, name: str) -> DeclaredPool:
        """Return a declared pool.

        Raises:
            NotFound: The pool does not exist.
        """
        found = next((pool for pool in await self.pools() if pool.name == name), None)
        if found is None:
            raise _no_pool(name)
        return found

    async def pool_shares(self, name: str) -> Sequence[Share]:
        """Return how much of a pool each process holds now.

        Args:
            name: Name of the pool.
        """
        return await self.store.lending.pool_shares(word("name of the pool", name))

    async def pool_users(self, name: str) -> PoolUsers:
        """Return the steps that hold something of a pool, and those that wait and ask for it.

        Args:
            name: Name of the pool.
        """
        from holdfast.engine.capacity import diagnosis  # noqa: PLC0415 - who only asks for pools needs no scheduler

        store = self.store
        return await diagnosis.users_of(store.views, store.lending, store.sessions, name)

    async def pool_estimates(self, name: str) -> Sequence[Estimate]:
        """Return the estimates of how much of a pool the steps of each node take.

        Args:
            name: Name of the pool.
        """
        return await self.store.lending.estimates(pool=word("name of the pool", name))


def _no_pool(name: str) -> NotFound:
    return NotFound(f"There is no pool {name!r:.130} in this store; `holdfast pools list` shows those that are.")
