"""The attempts of runs, read from histories."""

from __future__ import annotations

import pytest

from holdfast.core.facts import events as ev
from holdfast.core.views.attempts import attempts
from tests.golden.record import HERE, fold, read

NAMES = sorted(file.name.removesuffix(".jsonl") for file in HERE.glob("*.jsonl"))


@pytest.mark.parametrize("name", NAMES)
def test_attempts_agree_with_the_steps_of_the_run(name: str) -> None:
    golden = read(name)
    state, rows = fold(golden), attempts(golden.events)
    assert [row.seq for row in rows] == [each.seq for each in golden.events if isinstance(each.event, ev.StepStarted)]
    latest = {row.step: row for row in rows}
    for step in state.steps.values():
        row = latest.get(step.id)
        if row is not None:
            assert row.attempt == step.attempt - step.resumptions
            assert (row.status == "running") == (step.status == "active")
            assert row.status != "completed" or row.ended_seq == step.ended_seq


def test_a_lost_attempt_is_lost_and_the_next_one_has_the_next_number() -> None:
    rows = [row for name in NAMES for row in attempts(read(name).events)]
    lost = [row for row in rows if row.status == "lost"]
    assert lost
    assert all(row.ended_at_ms is not None and row.ended_at_ms >= row.began_at_ms for row in lost)
