"""What grants allow, and for which workflows and tools they hold."""

from __future__ import annotations

import pytest

from holdfast.core.access import EVERYTHING, GRANTS, Access, Grant, problem


@pytest.mark.parametrize(
    ("may", "allowed"),
    [
        (("viewer",), {"viewer"}), (("operator",), {"viewer", "operator"}), (("reviewer",), {"viewer", "reviewer"}),
        (("admin",), set(GRANTS)), (("operator", "reviewer"), {"viewer", "operator", "reviewer"}), ((), set()),
    ],
)  # fmt: skip
def test_a_grant_allows_what_it_implies_and_nothing_else(may: tuple[Grant, ...], allowed: set[str]) -> None:
    assert {grant for grant in GRANTS if Access(may).allows(grant)} == allowed


def test_workflows_and_tools_are_named_by_patterns() -> None:
    access = Access(("admin",), ("order*", "quick"), ())
    assert [access.reaches(name) for name in ("orders", "quick", "Quick", "quicker", "")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert not access.handles("refund")
    assert EVERYTHING.reaches("anything")
    assert EVERYTHING.handles("anything")


def test_what_somebody_wrote_down_is_a_grant_or_told() -> None:
    assert problem(["viewer", "admin"]) is None
    assert problem([]) == "it grants nothing"
    assert "there is no grant 'root'" in (problem(["viewer", "root"]) or "")
