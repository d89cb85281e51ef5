"""The money of a run over time is what its state says at each time."""

from __future__ import annotations

import pytest

from holdfast.core.evolve import evolve
from holdfast.core.facts.state import State
from holdfast.core.views.spending import spending
from tests.golden.record import HERE, read


@pytest.mark.parametrize("name", sorted(file.stem for file in HERE.glob("*.jsonl")))
def test_each_row_is_what_the_state_says_and_no_change_is_left_out(name: str) -> None:
    events = read(name).events
    rows = {row.seq: row for row in spending(events)}
    state, before = State(), (0, 0, 0, None)
    for recorded in events:
        evolve(state, recorded.event, recorded.at_ms)
        budget = state.budget
        after = (budget.settled_nanousd, budget.held_nanousd, budget.in_doubt_nanousd, budget.limit_nanousd)
        assert (recorded.seq in rows) == (after != before)
        if (row := rows.get(recorded.seq)) is not None:
            assert (row.settled_nanousd, row.held_nanousd, row.in_doubt_nanousd, row.limit_nanousd) == after
        before = after  # type: ignore[assignment]
    paid = [row for row in rows.values() if row.name is not None]
    assert all(row.node for row in paid)
