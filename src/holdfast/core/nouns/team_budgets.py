"""Team budgets: money and tokens that agents share, what each of them is allotted, and what they lend each other.

An agent whose allotment has too little left for a call borrows what is missing from those who have more than they use: from
the longest idle first, then from the lowest priority, and from each at most half of what it has left. What is missing is lent
whole or not at all. A loan stands with its call: what the call does not use of it goes back when the call is closed. The rule
is that of "Token Budget Allocator Across Agent Teams" in "7 AI Agent Orchestration Patterns"; there a request that does not
fit takes what there is of the donors all the same.

Never here: a store, a clock, the names of scopes (scopes), which call is made (calls).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Annotated, Final, NoReturn

import msgspec
from msgspec import Meta

from holdfast.errors import InvalidInput

MAX_AGENTS: Final = 100
"""Of one team budget: where one has too little left, all others are looked at."""
_MAX_PRIORITY: Final = 1_000_000
_ROUNDING: Final = 1e-9


class TeamAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent's place in a team budget."""

    priority: Annotated[
        float, Meta(description="Of two agents that are idle equally long, the one with the lower priority lends first.")
    ] = 1.0
    initial_allocation: Annotated[
        float | None, Meta(description="Part of the total, above 0 and at most 1; by default an equal part of the rest.")
    ] = None


class Lender(msgspec.Struct, frozen=True):
    """An agent of a team budget as one who may lend: `left` of its `limit`, `held` by its calls in flight, and since when no
    call of it has begun or ended."""

    scope: str
    limit: int
    left: int
    held: int
    priority: float
    moved_at_ms: int

    @property
    def lends(self) -> int:
        """Return what it may lend: half of what it has left."""
        return max(self.left, 0) // 2

    @property
    def may_lend(self) -> int:
        """Return the most it may lend once its calls in flight are closed."""
        return max(self.left + self.held, 0) // 2


def plan_loans(missing: int, lenders: Iterable[Lender]) -> dict[str, int]:
    """Of whom how much is borrowed where so much is `missing`; empty where all together may not lend it."""
    loans: dict[str, int] = {}
    for each in sorted(lenders, key=lambda lender: (lender.moved_at_ms, lender.priority, lender.scope)):
        if missing > 0 and each.lends > 0:
            loans[each.scope] = min(each.lends, missing)
            missing -= loans[each.scope]
    return loans if missing <= 0 else {}


def grantable(left: int, lenders: Iterable[Lender]) -> int:
    """The most that an agent could be granted now, with what the others may lend it."""
    return max(left, 0) + sum(each.lends for each in lenders)


def unused(loans: Mapping[str, int], rest: int) -> dict[str, int]:
    """Return the amount that goes back to each lender if `rest` of a call's hold was not used: the last loan goes back
    first."""
    back: dict[str, int] = {}
    for lender, amount in reversed([*loans.items()]):
        if rest > 0:
            back[lender] = min(amount, rest)
            rest -= back[lender]
    return back


def checked(agents: Mapping[str, TeamAgent | float]) -> dict[str, TeamAgent]:
    """The agents of a team budget; a number is a priority. Raises InvalidInput."""
    if not 1 <= len(agents) <= MAX_AGENTS:
        _refuse(f"A team budget is shared by 1 to {MAX_AGENTS} agents, not by {len(agents)}.")
    found = {name: given if isinstance(given, TeamAgent) else TeamAgent(given) for name, given in agents.items()}
    for name, agent in found.items():
        part = agent.initial_allocation
        if not _is_number(agent.priority) or not 0 <= agent.priority <= _MAX_PRIORITY:
            _refuse(f"The priority of agent {name!r} is {agent.priority!r:.80}; it is a number from 0 to {_MAX_PRIORITY}.")
        if part is not None and (not _is_number(part) or not 0 < part <= 1):
            _refuse(f"The initial allocation of agent {name!r} is {part!r:.80}; it is a part of the total, above 0 to 1.")
    whole = sum(agent.initial_allocation or 0 for agent in found.values())
    if whole > 1 + _ROUNDING:
        _refuse(f"The initial allocations come to {whole:g} of the total; together they are at most 1.")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refuse(reason: str) -> NoReturn:
    raise InvalidInput(f"{reason} Nothing was changed.")


def allotted(total: int, agents: Mapping[str, TeamAgent], used: Mapping[str, int]) -> dict[str, int]:
    """Return the allotment of each agent of `total`: never less than it has `used`, so that all allotments together exceed the
    total only if that is used already. Former agents keep what they have used."""
    found = {name: amount for name, amount in used.items() if name not in agents and amount > 0}
    open_ = _parts(agents)
    while open_:
        rest = max(total - sum(found.values()), 0)
        whole = sum(open_.values())
        shares = {name: int(rest * part / whole) if whole else 0 for name, part in open_.items()}
        above = [name for name, share in shares.items() if used.get(name, 0) > share]
        if not above:
            return found | shares
        for name in above:
            found[name] = used[name]
            del open_[name]
    return found


def _parts(agents: Mapping[str, TeamAgent]) -> dict[str, Fraction]:
    """The part of the total of each agent."""
    said = {name: Fraction(part) for name, agent in agents.items() if (part := agent.initial_allocation) is not None}
    others = len(agents) - len(said)
    equal = max(1 - sum(said.values(), Fraction(0)), Fraction(0)) / max(others, 1)
    return {name: said.get(name, equal) for name in agents}


class AgentBooks(msgspec.Struct, frozen=True):
    """An agent's books, in nano-dollars or in tokens: what it is `allocated` now, with what it has borrowed and without what it
    lends; `utilization` is the part of that which is used, held or in doubt. `moved_at_ms`: since when it is idle, or 0."""

    allocated: int
    used: int
    held: int
    in_doubt: int
    remaining: int
    utilization: float
    priority: float
    moved_at_ms: int


class Books(msgspec.Struct, frozen=True):
    """A team budget's books, in nano-dollars or in tokens: `remaining` is the part of the `total` that is neither used nor held
    nor in doubt."""

    total: int
    allocated: int
    used: int
    held: int
    in_doubt: int
    remaining: int
    agents: dict[str, AgentBooks]


class Dashboard(msgspec.Struct, frozen=True):
    """A team budget as it stands: its books in nano-dollars and in tokens, None for what it does not limit."""

    name: str
    tenant: str
    money: Books | None
    tokens: Books | None
