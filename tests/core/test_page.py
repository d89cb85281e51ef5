"""Pages of rows in the order of their events."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from holdfast.core.views.page import rows_after


class Row(NamedTuple):
    seq: int


ROWS = [Row(each) for each in (1, 3, 3, 3, 7)]


@pytest.mark.parametrize(
    ("seq", "limit", "found"),
    [(0, None, ROWS), (0, 1, ROWS[:1]), (0, 2, ROWS[:4]), (1, 1, ROWS[1:4]), (3, 9, ROWS[4:]), (7, 1, []), (2, 0, [])],
)
def test_a_page_has_all_rows_of_its_last_event(seq: int, limit: int | None, found: list[Row]) -> None:
    assert rows_after(ROWS, seq, limit) == found
