"""Scopes: what stands above runs and has a limit of its own, like a tenant's day. What they are called, what is in their
books, and who waits in them.

A scope is a row of the store with books as a run has them: settled, held, in doubt. Beside each that counts money stands one
before whose name is `tokens/`, so that each scope counts one thing. The active runs of a tenant, and those of all together, are
scopes too, in which each run holds one place until its end. A team budget is a scope of its total, and one below it for each
agent, which counts what the agent uses under what it is allotted.

Never here: what events move in them (postings), what a limit is, or what happens where it is reached (limits, shortages), who
lends how much (team_budgets).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final, Literal, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from holdfast.core.values.ids import RunId
from holdfast.core.values.money import usd
from holdfast.core.values.remainder import ScopeLeft

Period = Literal["day", "month"]
PERIODS: Final[tuple[Period, ...]] = ("day", "month")

PLACEMENT: Final = "placement"
"""Where runs wait with steps that are to be placed. No books are kept of it; placement makes the room."""

_TOKENS: Final = "tokens/"
_DATED: Final = frozenset({"tenant", "team"})
DAY_MS: Final = 86_400_000
_EPOCH: Final = date(1970, 1, 1)
_MAX_REMEMBERED: Final = 4096
"""Keys that were made before: each commit of a tenant's runs asks for the same few all day long."""


class Waiter(msgspec.Struct, frozen=True):
    """A run waits for room for `wanted` in a scope."""

    scope: str
    family: str
    wanted: int


class ScopeWaiter(msgspec.Struct, frozen=True):
    """A waiter as the store knows it. `left` is what its scope may still take, None where there is no limit. One who wants more
    is named among those with room where calls in flight can leave no room any more, and his run does not know it."""

    run: RunId
    scope: str
    wanted: int
    left: int | None


class ScopeRow(msgspec.Struct, frozen=True):
    """The books of a scope, and its limit."""

    scope: str
    limit: int | None
    settled: int = 0
    held: int = 0
    in_doubt: int = 0

    @property
    def used(self) -> int:
        return self.settled + self.held + self.in_doubt

    @property
    def left(self) -> int | None:
        return None if self.limit is None else self.limit - self.used


class AgentRow(ScopeRow, frozen=True):
    """The books of an agent in a team budget; what it calls moved them last at `moved_at_ms`, 0 for never."""

    priority: float = 1.0
    moved_at_ms: int = 0


# --- Names ------------------------------------------------------------------------------------------------------------


def money_family(tenant: str, team: str | None, period: Period) -> str:
    """Return the subject of a limit on money: each day, or month, of a tenant, or of one of its teams. A limit on tokens is for
    its `in_tokens`."""
    owner = f"tenant/{in_scopes(tenant)}" if team is None else f"team/{in_scopes(tenant)}/{quote(team, safe='')}"
    return f"{owner}/{period}"


def in_scopes(tenant: str) -> str:
    """A tenant as the second part of the names of its scopes has it, of all but the `fleet`'s and those of trees."""
    return quote(tenant, safe="")


def in_tokens(scope: str) -> str:
    """The scope, or family, that counts the tokens of the calls whose money counts in this one."""
    return _TOKENS + scope


def counts_tokens(scope: str) -> bool:
    """True if a scope counts tokens, not money."""
    return scope.startswith(_TOKENS)


@lru_cache(_MAX_REMEMBERED)
def dated_scopes(tenant: str, team: str | None, day: int, tokens: bool) -> tuple[tuple[str, str], ...]:
    """(scope, family) of everything that money of this day counts in, or that its tokens do."""
    money = _money_scopes(tenant, team, day)
    return tuple((in_tokens(scope), in_tokens(family)) for scope, family in money) if tokens else money


@lru_cache(_MAX_REMEMBERED)
def _money_scopes(tenant: str, team: str | None, day: int) -> tuple[tuple[str, str], ...]:
    """(scope, family) of everything that money of this day counts in."""
    today = _EPOCH + timedelta(days=day)
    names = {"day": today.isoformat(), "month": today.isoformat()[:7]}
    found = []
    for owner in (None, team) if team is not None else (None,):
        for period in PERIODS:
            family = money_family(tenant, owner, period)
            found.append((f"{family}/{names[period]}", family))
    return tuple(found)


def money_scopes(tenant: str, team: str | None, at_ms: int) -> tuple[str, ...]:
    """The scopes in which a run's money of that moment counts."""
    return tuple(scope for scope, _ in _money_scopes(tenant, team, at_ms // DAY_MS))


class OwnerOfBudget(NamedTuple):
    """The tenant or team whose spending a family of scopes counts, and the period of each."""

    tenant: str
    team: str | None
    period: Period


def owner_of(family: str) -> OwnerOfBudget | None:
    """Return whose money or tokens a family counts, and in what periods. None for one that is no tenant's or team's."""
    kind, *names = family.removeprefix(_TOKENS).split("/")
    period = next((each for each in PERIODS if each == names[-1]), None) if names else None
    if kind not in _DATED or period is None or len(names) != (2 if kind == "tenant" else 3):
        return None
    return OwnerOfBudget(unquote(names[0]), unquote(names[1]) if kind == "team" else None, period)


def current_scope(family: str, at_ms: int) -> str:
    """Return the scope of a dated family that a moment is in."""
    today = (_EPOCH + timedelta(days=at_ms // DAY_MS)).isoformat()
    return f"{family}/{today if family.endswith('/day') else today[:7]}"


TREE: Final = "tree"
CONVERSATION: Final = "conversation"
FLEET_RUNS: Final = "fleet/runs"
"""The active runs of all tenants."""


def tenant_runs(tenant: str) -> str:
    """The active runs of one tenant."""
    return f"tenant/{in_scopes(tenant)}/runs"


def run_scopes(tenant: str) -> tuple[str, ...]:
    """Return the scopes in which a run of `tenant` needs a place. Each is a family of its own: these have no days."""
    return (tenant_runs(tenant), FLEET_RUNS)


def tree_of(run: RunId) -> str:
    """The money of a run and of everything below it. A family of its own; its limit is the run's."""
    return f"{TREE}/{run}"


AGENT: Final = "agent"


def team_budget(tenant: str, name: str) -> str:
    """The money of a team budget; its tokens are in its `in_tokens`. Its limit is the total."""
    return f"{AGENT}/{in_scopes(tenant)}/{quote(name, safe='')}"


def of_agent(budget: str, agent: str) -> str:
    """Return the scope of an agent's use of a team budget, in the budget's unit. Its limit is the agent's allotment."""
    return f"{budget}/{quote(agent, safe='')}"


_PARTS_OF_AGENT: Final = 4


def budget_of(scope: str) -> str | None:
    """The team budget of which a scope is an agent's."""
    names = scope.removeprefix(_TOKENS).split("/")
    return scope.rpartition("/")[0] if names[0] == AGENT and len(names) == _PARTS_OF_AGENT else None


def is_team_budget(scope: str) -> bool:
    """True if a scope is the whole of a team budget."""
    return level(scope) == AGENT and budget_of(scope) is None


def above(tenant: str, team: str | None, shared: tuple[str, ...], at_ms: int, agent: str | None = None) -> tuple[str, ...]:
    """The scopes in which a run's money and tokens of that moment count, those that it shares included, as those of `agent` in
    its team budget."""
    dated = money_scopes(tenant, team, at_ms)
    return (*dated, *map(in_tokens, dated), *with_agents(shared, agent))


def left_above(rows: Iterable[ScopeRow]) -> tuple[ScopeLeft, ...]:
    """Return what is left in those of these scopes that have a limit."""
    return tuple(_left_of(row, row.limit) for row in rows if row.limit is not None)


def _left_of(row: ScopeRow, limit: int) -> ScopeLeft:
    left, percent = max(0, limit - row.used), min(100, row.used * 100 // limit) if limit > 0 else 100
    if counts_tokens(row.scope):
        return ScopeLeft(row.scope, level(row.scope), percent, tokens=left)
    return ScopeLeft(row.scope, level(row.scope), percent, cost_usd=usd(left))


def with_agents(shared: tuple[str, ...], agent: str | None) -> tuple[str, ...]:
    if agent is None:
        return shared
    return (*shared, *(of_agent(scope, agent) for scope in shared if is_team_budget(scope)))


def owner_scopes(tenant: str, team: str | None, at_ms: int) -> tuple[str, ...]:
    """The scopes of one owner, a tenant or a team, at that moment: its day and its month."""
    return money_scopes(tenant, team, at_ms)[-len(PERIODS) :]


def family_of(scope: str) -> str:
    """Return the family for which the limit of `scope` is set."""
    head, _, last = scope.rpartition("/")
    return head if last[:1].isdigit() and level(scope) in _DATED else scope


def level(scope: str) -> str:
    """Return the level of a scope: a `tenant`'s, a `team`'s, the `fleet`'s, a `conversation`'s, an `agent`'s, or a `tree`'s of
    runs."""
    return scope.removeprefix(_TOKENS).partition("/")[0]


def in_words(scope: str) -> str:
    """A scope or a family as people call it: `tenant acme, day 2026-11-21`, `team search of acme, each month`,
    `tokens of tenant acme, each day`, `active runs of tenant acme`."""
    if counts_tokens(scope):
        return f"tokens of {in_words(scope.removeprefix(_TOKENS))}"
    kind, *names = [unquote(part) for part in scope.split("/")]
    if kind == CONVERSATION:
        return f"conversation {names[1]} of tenant {names[0]}"
    if kind == TREE:
        return f"run {names[0]} with all its children"
    if kind == AGENT:
        whole = f"team budget {names[1]} of {names[0]}"
        return f"agent {names[2]} in {whole}" if len(names) > _PARTS_OF_AGENT - 2 else whole
    if names[-1] == "runs":
        return "active runs" if kind == "fleet" else f"active runs of tenant {names[0]}"
    if kind == "team":
        owner, names = f"team {names[1]} of {names[0]}", names[2:]
    else:
        owner, names = f"{kind} {names[0]}", names[1:]
    return f"{owner}, {' '.join(names)}" if len(names) > 1 else f"{owner}, each {names[0]}"


def over_at_ms(scope: str) -> int | None:
    """Return when a dated scope is over: the first moment (UTC) of the next day or month. None for one that has no date."""
    if level(scope) not in _DATED:
        return None
    first = date.fromisoformat(f"{scope.rpartition('/')[2]}-01"[:10])
    if family_of(scope).endswith("/month"):
        after = (first.replace(day=1) + timedelta(days=32)).replace(day=1)
    else:
        after = first + timedelta(days=1)
    return int(datetime.combine(after, time(), UTC).timestamp()) * 1000


# --- Who goes on when there is room ---------------------------------------------------------------------------------------


def with_headroom(waiting: Iterable[ScopeWaiter]) -> dict[RunId, frozenset[str]]:
    """Of those who wait, in the order in which they came: the runs that fit together into what is left, and where; and those
    for whom there can be no room any more, who try again only to hear that."""
    left: dict[str, int | None] = {}
    found: dict[RunId, frozenset[str]] = {}
    for each in waiting:
        room = left.setdefault(each.scope, each.left)
        if room is not None and each.left is not None and each.wanted <= each.left:
            if each.wanted > room:
                continue
            left[each.scope] = room - each.wanted
        found[each.run] = found.get(each.run, frozenset()) | {each.scope}
    return found
