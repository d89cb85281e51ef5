"""The books above runs: what appends move in them, up to which limit, and who waits.

Never here: an implementation, a default, a wire format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from holdfast.core.nouns.team_budgets import TeamAgent
from holdfast.core.values.scopes import AgentRow, ScopeRow, ScopeWaiter


class Scopes(Protocol):
    """The books of scopes above runs (core.values.scopes): what appends move in them, up to which limit, and who waits.

    Books are moved by appends alone, in the transaction of the append: its scopes' rows are locked in the order of
    their keys, and postings are taken in the order of the appends, so that a flush writes each row once. An append that
    has a bounded posting above zero that would bring a scope's settled + held + in doubt above its limit is refused as a
    whole with OverLimit; every other posting is taken. For a posting `in_turn` it counts as used what those want who wait
    in the scope before its run, or all who wait there if its run does not. Books are kept whether there is a limit or
    not. A posting that changes a limit moves it by so much; one that lends more than half of what is left is refused. Whoever
    moves anything of a team budget moves the books of its total too, so that the lock on that row is the lock on all of it.

    An append that is refused leaves a waiter in the same transaction, so that what makes room cannot miss it, unless
    its run is not there yet. One that is taken leaves exactly the waiters of its changes: those of the run that are
    among them keep their turn, others of the run go.
    """

    async def set_limit(self, family: str, amount: int | None) -> None:
        """Set, or with None remove, the limit of every scope of this family, those of days gone by included. What is
        used already may be more: then nothing more is admitted."""
        ...

    async def allot(self, budget: str, total: int | None, team: Mapping[str, TeamAgent]) -> None:
        """Set the total of a team budget and what its agents, by their scopes, are allotted of it (team_budgets.allotted),
        or with None remove all of this. Against appends that lend it is one step."""
        ...

    async def agents(self, budget: str) -> Sequence[AgentRow]:
        """The books of the agents of a team budget, by name."""
        ...

    async def limits(self, family: str) -> Mapping[str, int]:
        """The limits that are set, of families that begin with `family`."""
        ...

    async def balances(self, names: Sequence[str]) -> Sequence[ScopeRow]:
        """The books of these scopes, in the order asked for; empty ones where nothing was ever charged."""
        ...

    async def waiting(self, scopes: Sequence[str], limit: int) -> Sequence[ScopeWaiter]:
        """Return the runs that wait in these scopes, longest first."""
        ...

    async def headroom(self, limit: int) -> Sequence[ScopeWaiter]:
        """Return the runs that wait, longest first, in a scope that has room for that run alone. Also return a run with status
        `waiting` whose request would not fit even if all calls in flight gave their money back. It tries again, and so its
        status changes.

        The scope `effect/<key>` has no books. It has room as soon as no other run has this tenant-wide effect key with its
        outcome outstanding. Keys are kept for good, also when the runs that took them are gone.
        """
        ...
