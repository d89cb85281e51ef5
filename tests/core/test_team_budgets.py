"""The rules of team budgets: what agents are allotted, what they lend, and what goes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.nouns.team_budgets import MAX_AGENTS, Lender, TeamAgent, allotted, checked, grantable, plan_loans, unused
from holdfast.errors import InvalidInput

AMOUNTS = st.integers(0, 10**12)
NAMES = st.sampled_from(["critic", "planner", "reviewer", "writer"])


def lender(scope: str, left: int, *, priority: float = 1.0, moved_at_ms: int = 0, held: int = 0) -> Lender:
    return Lender(scope, left + held, left, held, priority, moved_at_ms)


LENDERS = st.lists(
    st.builds(lender, NAMES, st.integers(-1000, 10**12), priority=st.floats(0, 9), moved_at_ms=st.integers(0, 99)),
    unique_by=lambda each: each.scope,
)


def test_the_longest_idle_lends_first_and_then_the_lowest_priority() -> None:
    team = [
        lender("busy", 1000, moved_at_ms=9, priority=0),
        lender("dear", 1000, moved_at_ms=3, priority=2),
        lender("cheap", 1000, moved_at_ms=3, priority=1),
        lender("idle", 1000, moved_at_ms=1, priority=9),
    ]
    assert [*plan_loans(1200, team).items()] == [("idle", 500), ("cheap", 500), ("dear", 200)]


def test_no_agent_lends_more_than_half_of_what_it_has_left() -> None:
    assert plan_loans(500, [lender("writer", 1001)]) == {"writer": 500}
    assert plan_loans(501, [lender("writer", 1001)]) == {}
    assert plan_loans(1, [lender("writer", -5), lender("critic", 1)]) == {}


def test_a_team_lends_a_shortage_whole_or_not_at_all_and_knows_its_maximum() -> None:
    team = [lender("writer", 100), lender("critic", 30)]
    assert plan_loans(66, team) == {}
    assert grantable(7, team) == 7 + 50 + 15
    assert grantable(-3, team) == 65


@given(st.integers(1, 10**13), LENDERS)
def test_a_loan_is_what_is_missing_and_of_each_at_most_half(missing: int, team: list[Lender]) -> None:
    loans = plan_loans(missing, team)
    assert sum(loans.values()) in (0, missing)
    assert bool(loans) == (missing <= grantable(0, team))
    assert all(0 < loans[each.scope] * 2 <= each.left for each in team if each.scope in loans)


def test_what_was_borrowed_last_goes_back_first() -> None:
    loans = {"idle": 500, "cheap": 500, "dear": 200}
    assert unused(loans, 300) == {"dear": 200, "cheap": 100}
    assert unused(loans, 5000) == {"dear": 200, "cheap": 500, "idle": 500}
    assert unused(loans, 0) == unused(loans, -7) == {}


@given(st.dictionaries(NAMES, st.integers(1, 10**9)), st.integers(-10, 10**10))
def test_never_more_goes_back_than_was_lent_or_is_left(loans: dict[str, int], rest: int) -> None:
    back = unused(loans, rest)
    assert sum(back.values()) == min(max(rest, 0), sum(loans.values()))
    assert all(0 < amount <= loans[name] for name, amount in back.items())


def test_agents_share_equally_what_those_leave_who_have_an_initial_allocation() -> None:
    team = checked({"planner": TeamAgent(2.0, 0.5), "writer": 1.5, "critic": 1})
    assert allotted(1000, team, {}) == {"planner": 500, "writer": 250, "critic": 250}
    assert team["writer"] == TeamAgent(1.5)


def test_a_new_allotment_leaves_each_agent_what_it_has_used() -> None:
    team = checked({"planner": 1, "writer": 1, "critic": 1})
    assert allotted(900, team, {"planner": 700}) == {"planner": 700, "writer": 100, "critic": 100}
    assert allotted(900, team, {"gone": 600, "idle": 0}) == {"gone": 600, "planner": 100, "writer": 100, "critic": 100}
    assert allotted(100, team, {"planner": 700}) == {"planner": 700, "writer": 0, "critic": 0}


@given(AMOUNTS, st.dictionaries(NAMES, st.floats(0.01, 0.2)), st.dictionaries(NAMES, AMOUNTS))
def test_all_together_are_allotted_the_total_at_most(total: int, parts: dict[str, float], used: dict[str, int]) -> None:
    team = {name: TeamAgent(1.0, part if part > 0.1 else None) for name, part in parts.items()}
    found = allotted(total, team, used)
    assert sum(found.values()) <= max(total, sum(used.values()))
    assert set(found) == set(team) | {name for name, amount in used.items() if amount}
    assert all(found[name] >= used.get(name, 0) for name in found)


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        ({}, "1 to 100 agents, not by 0"),
        ({str(number): 1.0 for number in range(MAX_AGENTS + 1)}, "not by 101"),
        ({"writer": -1}, "The priority of agent 'writer' is -1"),
        ({"writer": float("nan")}, "is nan"),
        ({"writer": True}, "is True"),
        ({"writer": TeamAgent(1.0, 0)}, "initial allocation of agent 'writer' is 0; it is a part of the total, above 0 to 1"),
        (
            {"writer": TeamAgent(1.0, 0.6), "critic": TeamAgent(1.0, 0.6)},
            "come to 1.2 of the total; together they are at most 1",
        ),
    ],
)
def test_a_team_that_is_none_is_refused_in_words(agents: dict[str, TeamAgent | float], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        checked(agents)
