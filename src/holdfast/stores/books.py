"""The books of scopes as an append finds and leaves them, and whether there is room for it: the same in every store.

Never here: SQL, a lock, who waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from holdfast.core.facts.postings import Posting
from holdfast.core.nouns.team_budgets import Lender
from holdfast.core.values.ids import RunId
from holdfast.core.values.scopes import AgentRow, ScopeRow, budget_of
from holdfast.core.views.projection import Changes
from holdfast.errors import OverLimit


def limited(rows: Mapping[str, ScopeRow], posting: Posting) -> ScopeRow:
    """The books as `posting` finds them, with the limit that it brings along. Nothing is allotted to an agent whom its team
    budget does not know."""
    row = rows[posting.scope]
    if posting.limit is not None:
        return msgspec.structs.replace(row, limit=posting.limit)
    if row.limit is None and (budget := budget_of(posting.scope)) is not None and rows[budget].limit is not None:
        return msgspec.structs.replace(row, limit=0)
    return row


def excess(row: ScopeRow, posting: Posting, ahead: int) -> int | None:
    """Return the amount that a posting wants, if its scope has less left for it, else None. `ahead` is the amount that waiters
    before it want. The amount includes loans that go back: the outcome that returns them may have come with a call that
    takes more."""
    if not posting.bounded or row.left is None:
        return None
    comes, goes = max(posting.limit_change, 0), max(-posting.limit_change, 0)
    besides = row.left + posting.limit_change + posting.lends - posting.total
    if posting.lends > max(besides, 0) // 2:
        return posting.lends
    wanted = posting.total + goes
    return wanted if wanted > 0 and wanted > row.left + comes - ahead else None


def moved(row: ScopeRow, posting: Posting) -> ScopeRow:
    """The books after `posting`."""
    return ScopeRow(
        row.scope,
        None if row.limit is None else row.limit + posting.limit_change,
        row.settled + posting.settled,
        row.held + posting.held,
        row.in_doubt + posting.in_doubt,
    )


def moved_at_ms(appends: Iterable[Changes]) -> dict[str, int]:
    """Return the time at which these changes last moved the books of each scope. Lending does not count."""
    times: dict[str, int] = {}
    for changes in appends:
        for each in changes.postings:
            if each.settled or each.held or each.in_doubt:
                times[each.scope] = max(times.get(each.scope, 0), changes.run.updated_at_ms)
    return times


def team(agents: Iterable[AgentRow], rows: Mapping[str, ScopeRow]) -> list[AgentRow]:
    """The agents of a team budget as they stand where `rows` of the same scopes were moved further."""
    return [
        each
        if (row := rows.get(each.scope)) is None
        else AgentRow(each.scope, row.limit, row.settled, row.held, row.in_doubt, each.priority, each.moved_at_ms)
        for each in agents
    ]


def over(run: RunId, row: ScopeRow, amount: int, ahead: int, team: Iterable[AgentRow]) -> OverLimit:
    """Return the error for an append that wants more than a scope has left. `team` are the agents of its team budget."""
    assert row.limit is not None, "what has no limit has room"
    return OverLimit(
        f"{row.scope} has {row.left} of {row.limit} left, and run {run} wants {amount}. Nothing was written.",
        run=run,
        scope=row.scope,
        limit=row.limit,
        used=row.used + ahead,
        held=row.held,
        wanted=amount,
        team=tuple(
            Lender(each.scope, each.limit, each.left, each.held, each.priority, each.moved_at_ms)
            for each in team
            if each.limit is not None and each.left is not None
        ),
    )
