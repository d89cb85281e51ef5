"""The read model of a run has the rows of each of its folds."""

from __future__ import annotations

import pytest

from holdfast.core.views.attempts import attempts
from holdfast.core.views.model_calls import model_calls
from holdfast.core.views.operations import operations
from holdfast.core.views.read_model import ReadModel
from holdfast.core.views.spending import spending
from tests.golden.record import HERE, read


@pytest.mark.parametrize("name", sorted(file.stem for file in HERE.glob("*.jsonl")))
def test_one_pass_has_the_rows_of_each_fold(name: str) -> None:
    history, model = read(name).events, ReadModel()
    for recorded in history:
        model.add(recorded)
    assert model.operations.rows() == operations(history)
    assert model.attempts.rows == attempts(history)
    assert model.model_calls.rows == model_calls(history)
    assert model.spending.rows == spending(history)
