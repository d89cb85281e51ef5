"""The model calls of runs, read from histories."""

from __future__ import annotations

import pytest

from holdfast.core.facts import events as ev
from holdfast.core.views.model_calls import model_calls
from tests.golden.record import HERE, fold, read

NAMES = sorted(file.name.removesuffix(".jsonl") for file in HERE.glob("*.jsonl"))


@pytest.mark.parametrize("name", NAMES)
def test_every_call_is_a_row_and_their_sums_are_those_of_the_run(name: str) -> None:
    golden = read(name)
    state, rows = fold(golden), model_calls(golden.events)
    held = [each.event.call for each in golden.events if isinstance(each.event, ev.ModelCallHeld)]
    assert [row.call for row in rows] == held
    settled = [each.event for each in golden.events if isinstance(each.event, ev.ModelCallSettled)]
    assert sum(row.status == "completed" for row in rows) == len({each.call for each in settled if each.call in held})
    if not any(
        isinstance(each.event, ev.ModelCallReconciled | ev.ModelCallInDoubt | ev.EffectIntended) for each in golden.events
    ):
        assert sum(row.cost_nanousd for row in rows) == state.budget.settled_nanousd
    assert {row.call for row in rows if row.status == "running"} <= {*state.calls} | {row.call for row in rows if state.ended}
