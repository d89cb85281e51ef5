"""What a command says of the store that it works on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext

import pytest

from holdfast.cli import connect
from holdfast.cli.connect import mask_passwords, typed
from holdfast.errors import StoreError, StoreFull, StoreUnreadable

WITH, WITHOUT = ("postgresql://ada:s3cr:et@db.example:5432/runs?schema=a", "postgresql://ada:***@db.example:5432/runs?schema=a")


def test_a_password_is_never_shown() -> None:
    assert mask_passwords(WITH) == WITHOUT
    assert "s3cr" not in typed("worker", "flow.py", store=WITH)


@pytest.mark.parametrize("place", ["sqlite:///a:b@c.db", "holdfast.db", "postgresql://ada@db.example:5432/runs"])
def test_a_place_without_a_password_is_shown_as_it_is(place: str) -> None:
    assert mask_passwords(place) == place


@pytest.mark.parametrize(
    ("problem", "opened"),
    [(StoreFull(), 3), (StoreUnreadable("It is away.", passes=True), 3), (StoreUnreadable("It is none."), 1)],
)
async def test_a_store_is_waited_for_where_its_trouble_may_pass(
    problem: StoreError, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "_PAUSES_S", (0.0,))
    times = 0

    @asynccontextmanager
    async def store() -> AsyncIterator[str]:
        nonlocal times
        times += 1
        if times < 3:
            raise problem
        yield "there"

    with nullcontext() if problem.passes else pytest.raises(StoreError):
        async with connect.patiently(store, 60.0) as found:
            assert found == "there"
    assert times == opened
