"""What a command says of the store that it works on."""

from __future__ import annotations

import pytest

from holdfast.cli.opening import shown, typed

WITH, WITHOUT = (
    "postgresql://ada:s3cr:et@db.example:5432/runs?schema=a",
    "postgresql://ada:***@db.example:5432/runs?schema=a",
)


def test_a_password_is_never_shown() -> None:
    assert shown(WITH) == WITHOUT
    assert "s3cr" not in typed("worker", "flow.py", store=WITH)


@pytest.mark.parametrize("place", ["sqlite:///a:b@c.db", "holdfast.db", "postgresql://ada@db.example:5432/runs"])
def test_a_place_without_a_password_is_shown_as_it_is(place: str) -> None:
    assert shown(place) == place
