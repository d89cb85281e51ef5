"""Criteria of callers and of stores: the same ones, under the same names but for a few."""

from __future__ import annotations

from holdfast.core.views.selection import RunFilter, Selection

RENAMED = {
    "tag": "labels",
    "label": "labels",
    "min_cost_usd": "cost_from_nanousd",
    "max_cost_usd": "cost_to_nanousd",
    "min_score": "score_from",
    "max_score": "score_to",
}


def test_every_criterion_of_callers_is_one_of_stores() -> None:
    names = {RENAMED.get(name, name) for name in Selection.__struct_fields__}
    of_lists = {"ids", "prefix", "parent", "root", "in_doubt", "before", "limit"}
    assert names == RunFilter.__annotations__.keys() - of_lists


def test_a_selection_without_criteria_is_of_every_run() -> None:
    assert not any(getattr(Selection(), name) for name in Selection.__struct_fields__)
