"""Two spellings of a name are the same person's, and what is not verified says so."""

from __future__ import annotations

import pytest

from holdfast.core.values.actor import NOBODY, Actor, folded, is_among


@pytest.mark.parametrize(
    "other",
    [
        "ANN MÜLLER",
        " ann  müller ",
        "Ann Mu\u0308ller",
        "Ann\u200b Müller",
        "Ａｎｎ Müller",
        "Ann\tMüller",
        "Ann\ufe0f Müller",
        "A\u034fnn Müller",
        "Ann Müller\u3164",
        "\u2800Ann Müller",
        "Ann\U000e0041 M\u180büller",
    ],
)
def test_a_name_is_the_same_in_any_case_spelling_and_with_any_blanks(other: str) -> None:
    assert folded(other) == folded("Ann Müller")


@pytest.mark.parametrize("other", ["Ann Muller", "Ann", "AnnMüller", "", None])
def test_another_name_is_another_person(other: str | None) -> None:
    assert folded(other) != folded("Ann Müller")


@pytest.mark.parametrize(
    ("reviewers", "name", "roles", "is_one"),
    [
        (("ann", "legal"), "Ann", (), True),
        (("ann", "legal"), "bob", ("Legal",), True),
        (("ann", "legal"), "bob", ("sales",), False),
        (("ann",), None, (), False),
        ((), "ann", ("legal",), False),
    ],
)
def test_a_reviewer_is_asked_by_name_or_by_role(
    reviewers: tuple[str, ...], name: str | None, roles: tuple[str, ...], is_one: bool
) -> None:
    assert is_among(reviewers, name, roles) is is_one


@pytest.mark.parametrize(
    ("claim", "shown"),
    [
        (NOBODY, "an unnamed person"),
        (Actor("grace"), "grace (unverified)"),
        (Actor("grace", os_user="deploy"), "grace (unverified, by OS user deploy)"),
        (Actor("grace", client="shop"), "grace (unverified, by shop)"),
        (Actor("grace", client="hook:slack"), "grace (verified by hook:slack)"),
        (Actor("hook:slack", client="hook:slack"), "hook:slack"),
        (Actor("deploy", os_user="deploy"), "deploy"),
        (Actor("shop", client="shop"), "shop"),
    ],
)
def test_people_read_what_a_name_is_worth(claim: Actor, shown: str) -> None:
    assert str(claim) == shown


def test_events_keep_who_asked_and_not_the_trace() -> None:
    assert Actor("ann", "deploy", "shop", "0" * 32).event_fields == ("ann", "deploy", "shop")
