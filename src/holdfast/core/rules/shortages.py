"""Known shortages above a run: whether a call has room there, which members of its team lend what is missing, and waiting.

Never here: the run's own limits (limits), what is left in a scope (the stores), the size of loans (team_budgets).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.nouns import team_budgets
from holdfast.core.rules import endings, limits
from holdfast.core.rules.decision import Decision
from holdfast.core.values import scopes
from holdfast.core.values.ids import StepId, node_of, root_of
from holdfast.core.values.money import usd
from holdfast.core.values.policies import LIMIT


class Room(NamedTuple):
    """The room for a call above its run: `short` is the first scope that has none for it, and `loans` is what others of its
    team lend for it, by their scopes."""

    short: str | None
    loans: dict[str, int]


def agent_of(d: Decision, step: StepId) -> str | None:
    """As whom a step counts in the team budget of its run: as its node, or as the run."""
    node = d.graph.nodes.get(root_of(node_of(step)))
    said = node.options.get("agent") if node is not None else None
    return d.state.agent if said is None else str(said)


def room(d: Decision, step: StepId, offer: commands.CallCandidate) -> Room:
    """Return whether a call has room above its run, as far as is known."""
    loans: dict[str, int] = {}
    if not d.shortages:
        return Room(None, loans)
    for scope in scopes.above(d.state.tenant, d.state.team, d.state.shared, d.now_ms, agent_of(d, step)):
        known = d.shortages.get(scope)
        missing = 0 if known is None else _taken_of(scope, offer) - known.left
        if missing > 0:
            found = team_budgets.plan_loans(missing, _lenders(d, scope))
            if not found:
                return Room(scope, {})
            loans |= found
    return Room(None, loans)


def _lenders(d: Decision, scope: str) -> Sequence[team_budgets.Lender]:
    """The others of the team budget that a scope is an agent's of, with what is left of each by now."""
    return [
        msgspec.structs.replace(each, left=d.shortages[each.scope].left)
        for each in d.shortages[scope].team
        if each.scope != scope
    ]


def _taken_of(scope: str, offer: commands.CallCandidate) -> int:
    """Return the amount a call would take of a scope, in its unit."""
    return offer.tokens if scopes.counts_tokens(scope) else offer.hold_nanousd


def wait(
    d: Decision, c: commands.HoldModelCall | commands.IntendEffect, kind: limits.Kind, name: str, offer: commands.CallCandidate
) -> None:
    """The call fits its run, not a scope above it: wait there, or end, as the workflow says."""
    scope = room(d, c.step, offer).short
    assert scope is not None
    short = d.shortages[scope]
    lenders = _lenders(d, scope)
    in_tokens = scopes.counts_tokens(scope)
    blocked = _taken_of(scope, offer) > short.left + short.held + sum(each.may_lend for each in lenders)
    grantable = team_budgets.grantable(short.left, lenders) if short.team else None
    d.emit(
        ev.ScopeExceeded(
            c.step,
            c.attempt,
            c.path,
            name,
            c.args_hash,
            scope,
            offer.hold_nanousd,
            0 if in_tokens else short.limit,
            scopes.over_at_ms(scope),
            blocked,
            offer.tokens,
            short.limit if in_tokens else None,
            kind,
            grantable,
        )
    )
    if blocked and limits.fails(d):
        endings.begin_failing(d, d.error("", LIMIT, _refusal(scope, name, offer, short, grantable)))


def _refusal(scope: str, name: str, offer: commands.CallCandidate, short: commands.Shortage, grantable: int | None) -> str:
    def amount(number: int) -> str:
        return f"{number} tokens" if scopes.counts_tokens(scope) else f"${usd(number)}"

    verb = "use" if scopes.counts_tokens(scope) else "cost"
    could = "" if grantable is None else f" It could be granted {amount(grantable)}, with all that others may lend it."
    return (
        f"The next call to {name} may {verb} {amount(_taken_of(scope, offer))}, for which {scopes.in_words(scope)} has no"
        f" room under its limit of {amount(short.limit)}.{could} Nothing was called."
    )


def reopen(d: Decision, headroom: frozenset[str]) -> None:
    """Let calls be tried again whose scope has room now, or is over: the money of the new day is another's."""
    for step, path, op in d.state.short_operations():
        if op.scope in headroom or (op.due_at_ms is not None and op.due_at_ms <= d.now_ms):
            d.emit(ev.OperationReopened(step.id, path))
