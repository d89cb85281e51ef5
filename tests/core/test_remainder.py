"""What is left above a run: of each limit that there is, and the least of all."""

from __future__ import annotations

import msgspec

from holdfast.core.facts.state import State
from holdfast.core.rules.limits import left, with_above
from holdfast.core.values.remainder import ScopeLeft
from holdfast.core.values.scopes import ScopeRow, left_above


def test_what_is_left_above_is_of_each_scope_with_a_limit_and_counts_what_is_held() -> None:
    rows = [
        ScopeRow("tenant/acme/day/2026-11-27", 2 * 10**9, settled=10**9, held=4 * 10**8, in_doubt=10**8),
        ScopeRow("tenant/acme/month/2026-11", None, settled=10**12),
        ScopeRow("tokens/team/acme/search/day/2026-11-27", 1000, settled=250),
        ScopeRow("tree/root", 10**9, settled=2 * 10**9),
        ScopeRow("agent/acme/crew", 0),
    ]
    assert left_above(rows) == (
        ScopeLeft("tenant/acme/day/2026-11-27", "tenant", 75, cost_usd="0.50"),
        ScopeLeft("tokens/team/acme/search/day/2026-11-27", "team", 25, tokens=750),
        ScopeLeft("tree/root", "tree", 100, cost_usd="0.00"),
        ScopeLeft("agent/acme/crew", "agent", 100, cost_usd="0.00"),
    )


def test_what_may_be_spent_is_the_least_of_what_is_left() -> None:
    own = msgspec.structs.replace(left(State(), 0), cost_usd="10", tokens=50)
    above = (ScopeLeft("a", "tenant", 0, cost_usd="9.5"), ScopeLeft("b", "team", 0, tokens=60))
    found = with_above(own, above)
    assert (found.spendable_usd, found.spendable_tokens, found.above) == ("9.5", 50, above)
    assert (with_above(own, None).spendable_usd, with_above(own, ()).spendable_tokens) == ("10", 50)
    assert with_above(left(State(), 0), ()).spendable_usd is None
