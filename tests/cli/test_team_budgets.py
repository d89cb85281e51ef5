"""`holdfast team-budgets`: what agents may spend together, and how they stand."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.cli.conftest import Shell


def test_a_team_budget_is_set_shown_listed_and_removed(shell: Shell, home: Path) -> None:
    given = ("--agent", "planner=2:50%", "--agent", "writer=1.5", "--agent", "critic")
    said = shell("team-budgets", "set", "papers", "--total-usd", "0.02", "--total-tokens", "1000", *given)
    assert (said.code, said.out) == (0, shell("team-budgets", "show", "papers").out)
    assert shell("team-budgets", "list", "--json").data == ["papers"]
    assert shell("team-budgets", "list").out.splitlines() == ["TEAM BUDGET", "papers"]
    shown = shell("team-budgets", "show", "papers").out
    assert "In dollars: $0.02 in all, $0.00 used, $0.00 held, $0.00 in doubt, $0.02 remaining" in shown
    assert "In tokens: 1000 in all" in shown
    assert "planner  500        0     0     0         500        0%   2         ever" in shown
    found = shell("team-budgets", "show", "papers", "--json").data
    assert found["money"]["agents"]["writer"] == {
        "allocated_usd": "0.005",
        "used_usd": "0.00",
        "held_usd": "0.00",
        "in_doubt_usd": "0.00",
        "remaining_usd": "0.005",
        "utilization": 0.0,
        "priority": 1.5,
        "idle_since": None,
    }
    assert shell("team-budgets", "remove", "papers", "--json").data == {"name": "papers", "removed": True}
    missing = shell("team-budgets", "show", "papers")
    assert (missing.code, "has no team budget 'papers'" in missing.err) == (3, True)


def test_what_is_no_team_budget_is_refused_in_words(shell: Shell, home: Path) -> None:
    odd = shell("team-budgets", "set", "papers", "--total-usd", "1", "--agent", "writer=much")
    assert (odd.code, "'writer=much' is not an agent; write it like writer" in odd.err) == (2, True)
    none = shell("team-budgets", "set", "papers", "--agent", "writer")
    assert (none.code, "Say what the total is" in none.err) == (2, True)
    more = shell("team-budgets", "set", "papers", "--total-usd", "1", "--agent", "writer:80%", "--agent", "critic:80%")
    assert "come to 1.6 of the total" in more.err


def test_a_schedule_and_a_conversation_are_given_one(shell: Shell, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    spends = ("--team-budget", "papers", "--agent", "planner")
    schedule = ("schedules", "set", "nightly", "tests.cli.flows:patient", "--cron", "30 2 * * *", *spends, "--json")
    for refused in (shell(*schedule), shell("chat", "tests.cli.flows:patient", *spends)):
        assert (refused.code, "has no team budget 'papers'" in refused.err) == (2, True)
    assert shell("team-budgets", "set", "papers", "--total-usd", "1", "--agent", "planner").code == 0
    made = shell(*schedule).data
    assert (made["team_budget"], made["agent"]) == ("papers", "planner")
    assert shell("chat", "tests.cli.flows:patient", "--conversation", "c", *spends).code == 0
    (row,) = shell("conversations", "list", "--json").data
    assert (row["team_budget"], row["spends_as"]) == ("papers", "planner")
