"""The edges of a flow's operations are those of their times."""

from __future__ import annotations

from typing import Any

from holdfast.core.values.ids import Path, StepId
from holdfast.core.views.flow_graph import follows
from holdfast.core.views.operations import OperationRow


def rows(*times: tuple[int, int | None]) -> list[OperationRow]:
    return [
        OperationRow(StepId("flow#1"), Path(str(place)), "function", "f", place, began, ended_at_ms=ended)
        for place, (began, ended) in enumerate(times)
    ]


def test_what_ran_one_after_the_other_is_a_chain() -> None:
    assert [*follows(rows((1, 2), (2, 5), (5, 5), (5, 9), (9, None)))] == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_what_ran_side_by_side_follows_the_same_and_is_followed_by_the_same() -> None:
    assert sorted(follows(rows((1, 2), (3, 8), (3, 6), (4, None), (9, None)))) == [(0, 1), (0, 2), (0, 3), (1, 4), (2, 4)]


def test_what_has_not_ended_is_followed_by_nothing() -> None:
    assert [*follows(rows((1, None), (2, None)))] == []


def test_a_long_chain_is_drawn_without_looking_at_each_pair() -> None:
    looked = 0

    class Looked(list[OperationRow]):
        def __getitem__(self, place: Any) -> Any:
            nonlocal looked
            looked += 1
            return super().__getitem__(place)

    chain = Looked(rows(*((2 * n, 2 * n + 1) for n in range(1_000))))
    assert len([*follows(chain)]) == 999
    assert looked <= 2_000
