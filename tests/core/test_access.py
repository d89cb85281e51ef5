"""What grants allow, and for which workflows and tools they hold."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from holdfast.core.values.access import EVERYTHING, GRANTS, Access, Grant, problem


@pytest.mark.parametrize(
    ("may", "allowed"),
    [
        (("viewer",), {"viewer"}),
        (("operator",), {"viewer", "operator"}),
        (("reviewer",), {"viewer", "reviewer"}),
        (("admin",), set(GRANTS)),
        (("operator", "reviewer"), {"viewer", "operator", "reviewer"}),
        ((), set()),
    ],
)
def test_a_grant_allows_what_it_implies_and_nothing_else(may: tuple[Grant, ...], allowed: set[str]) -> None:
    assert {grant for grant in GRANTS if Access(may).allows(grant)} == allowed


def test_workflows_and_tools_are_named_by_patterns() -> None:
    access = Access(("admin",), ("order*", "quick"), ())
    assert [access.reaches(name) for name in ("orders", "quick", "Quick", "quicker", "")] == [True, True, False, False, False]
    assert not access.handles("refund")
    assert EVERYTHING.reaches("anything")
    assert EVERYTHING.handles("anything")


@pytest.mark.parametrize(
    ("own", "asked", "holds"),
    [
        ("*", "mail_[ab]*", False),
        ("mail_*", "mail_*", True),
        ("mail_*", "mail_out", True),
        ("mail_*", "mail_out_*", True),
        ("mail_*", "mail_?", True),
        ("mail_*", "mail*", False),
        ("mail_*", "*", False),
        ("mail_?", "mail_*", False),
        ("mail_?", "mail_a", True),
        ("mail_?", "mail_?", True),
        ("*a*", "x[ab]y", False),
        ("*", "*", True),
        ("*b", "a*", False),
        ("mail_[ab]", "mail_[ab]", True),
        ("mail_[ab]", "mail_a", True),
        ("mail_[*]", "mail_*", False),
        ("", "", True),
    ],
)
def test_who_decides_about_all_of_a_pattern_decides_about_each_that_fits_it(own: str, asked: str, holds: bool) -> None:
    access = Access(("reviewer",), tools=("none", own))
    assert access.handles_all(asked) == holds
    fitting = ("mail_a", "mail_b", "mail_out", "mail_out_x", "mail", "xay", "xby", "a", "ab", "mail_*")
    assert not holds or all(access.handles(name) for name in fitting if fnmatchcase(name, asked))


def test_what_a_person_wrote_down_is_a_grant_or_reported() -> None:
    assert problem(["viewer", "admin"]) is None
    assert problem([]) == "it grants nothing"
    assert "there is no grant 'root'" in (problem(["viewer", "root"]) or "")
