"""The operations of runs: what is read from histories agrees with the state that is folded from them."""

from __future__ import annotations

from collections import Counter
from typing import get_args

import pytest

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import OPEN_STEPS
from holdfast.core.views.operations import OperationKind, Operations, RowStatus, operations
from holdfast.core.views.status import waiting_for
from tests.golden.record import HERE, fold, read

OF_STEPS = frozenset({"slot", "worker", "place", "nothing"})
"""Waits of steps and runs, which no operation has."""
NAMES = sorted(file.name.removesuffix(".jsonl") for file in HERE.glob("*.jsonl"))


@pytest.mark.parametrize("name", NAMES)
def test_the_money_and_tokens_of_all_operations_are_those_of_the_run(name: str) -> None:
    golden = read(name)
    state, rows = fold(golden), operations(golden.events)
    spent = state.budget.settled_nanousd + state.budget.in_doubt_nanousd
    assert sum(row.cost_nanousd for row in rows) == spent
    assert sum(row.held_nanousd for row in rows) == state.budget.held_nanousd
    settled = [each.event for each in golden.events if isinstance(each.event, ev.ModelCallSettled)]
    assert sum(row.input_tokens + row.output_tokens for row in rows) == sum(
        each.input_tokens + each.output_tokens for each in settled
    )


@pytest.mark.parametrize("name", NAMES)
def test_rows_agree_with_the_journals_after_each_event(name: str) -> None:
    gathered = Operations()
    for recorded in read(name).events:
        gathered.add(recorded)
        rows = {(row.step, row.path): row for row in gathered.rows()}
        for step in gathered.state.steps.values():
            for path, op in step.journal.items():
                row = rows.get((step.id, path))
                if row is not None and step.status in OPEN_STEPS and row.decision is None:
                    assert (op.status in ("done", "failed")) == row.is_over, (recorded.seq, path)
                    assert (op.status == "done") == (row.status == "completed"), (recorded.seq, path)
                elif row is None:
                    assert op.kind in {"now", "left", "result", "label", "version", "summary"} or op.kind.startswith("shared_")


@pytest.mark.parametrize("name", NAMES)
def test_the_waits_of_operations_are_those_of_the_run(name: str) -> None:
    gathered = Operations()
    for recorded in read(name).events:
        gathered.add(recorded)
        rows = gathered.rows()
        of_operations = [row.wait for row in rows if row.wait is not None]
        begun = {f"{row.step}:{row.path}" for row in rows if row.kind == "child" and row.is_over}  # in the background
        for wait in waiting_for(gathered.state):
            is_of_one = wait.kind not in OF_STEPS and wait.reason != "outcome_outstanding" and wait.id != wait.step
            if is_of_one and wait.id not in begun:
                assert wait in of_operations, recorded.seq
        assert [row for row in rows if row.is_over and row.wait is not None] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_has_ended_has_no_open_operations(name: str) -> None:
    golden = read(name)
    rows = operations(golden.events)
    if fold(golden).ended:
        assert [row for row in rows if not row.is_over and row.status != "in_doubt"] == []
    assert all(row.ended_at_ms is None or row.ended_at_ms >= row.began_at_ms for row in rows)
    assert [row.seq for row in rows] == sorted(row.seq for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_every_question_is_a_row_with_its_decision(name: str) -> None:
    golden = read(name)
    rows = [row for row in operations(golden.events) if row.kind == "question"]
    opened = [each.event.gate for each in golden.events if isinstance(each.event, ev.GateOpened)]
    assert Counter(row.about for row in rows if not row.reused) == Counter(opened)
    decided = {each.event.gate: each.event for each in golden.events if isinstance(each.event, ev.GateDecided)}
    for row in rows:
        if row.about in decided:
            assert (row.decision, row.by) == (decided[row.about].decision, decided[row.about].by)


def test_all_kinds_and_statuses_of_operations_come_up() -> None:
    seen = [row for name in NAMES for row in _seen(name)]
    assert {row[0] for row in seen} == set(get_args(OperationKind)) - {"value"}  # of a kind that a later version adds
    assert {row[1] for row in seen} == set(get_args(RowStatus))


def _seen(name: str) -> set[tuple[str, str]]:
    gathered, found = Operations(), set()
    for recorded in read(name).events:
        gathered.add(recorded)
        found |= {(row.kind, row.status) for row in gathered.rows()}
    return found


@pytest.mark.parametrize("name", NAMES)
def test_each_try_that_failed_is_listed_with_its_time(name: str) -> None:
    golden = read(name)
    failed = (ev.FunctionFailed, ev.ModelCallFailed, ev.EffectFailed)
    times = [each.at_ms for each in golden.events if isinstance(each.event, failed)]
    rows = operations(golden.events)
    assert sorted(each.at_ms for row in rows for each in row.failed_tries) == sorted(times)
    for row in rows:
        assert all(each.retry_at_ms is None or each.retry_at_ms >= each.at_ms for each in row.failed_tries)


@pytest.mark.parametrize("name", NAMES)
def test_every_question_that_was_answered_names_the_event_of_its_answer(name: str) -> None:
    golden = read(name)
    ends = {each.event.gate: each.seq for each in golden.events if isinstance(each.event, ev.GateDecided)}
    rows = [row for row in operations(golden.events) if row.kind == "question" and not row.reused]
    assert {row.about: row.ended_seq for row in rows if row.about in ends} == ends
