"""Criteria of lists and of bulk commands: each reaches the store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest

from holdfast.core.views.selection import LetterSelection, RunFilter, Selection
from holdfast.errors import InvalidInput
from holdfast.service.declarations.command import Bulk, BulkDeadLetters
from holdfast.service.declarations.query import DeadLetters, Runs
from holdfast.service.handlers import dead_letters
from holdfast.service.listing import build_filter

OFFERED = [name for name in Selection.__struct_fields__ if name != "tenant"]
"""The tenant follows from the caller's rights."""


def given(selection: type, name: str) -> Any:
    hint = get_type_hints(selection)[name]
    if name in ("min_score", "max_score"):
        return "a=1"
    listed = ("timer",) if name == "waiting_for" else ("a=1",)
    return listed if get_origin(hint) is tuple else 1 if int in get_args(hint) else "1"


@pytest.mark.parametrize("query", [Runs(), Bulk(action="retry")], ids=["list", "bulk"])
@pytest.mark.parametrize("name", OFFERED)
def test_every_criterion_that_callers_have_reaches_the_store(name: str, query: Runs | Bulk) -> None:
    found = build_filter(msgspec.structs.replace(query, **{name: given(Selection, name)}), None, 10)
    assert found != build_filter(query, None, 10)
    assert found.keys() <= RunFilter.__annotations__.keys()


@pytest.mark.parametrize(
    "bound", ["", "helpful", "helpful=", "helpful=high", "=1", "two words=1", "helpful=nan", "helpful=1e99"]
)
def test_a_bound_of_a_score_that_is_none_is_refused(bound: str) -> None:
    for name in ("min_score", "max_score"):
        with pytest.raises(InvalidInput, match="write NAME=VALUE"):
            build_filter(msgspec.structs.replace(Runs(), **{name: bound}), None, 10)


def test_a_list_of_runs_selects_by_more_than_a_bulk_command() -> None:
    found = build_filter(Runs(in_doubt=True, parent="a", prefix="b", cursor="c"), "acme", 10)
    assert (found["in_doubt"], found["parent"], found["prefix"], found["before"]) == (True, "a", "b", "c")
    assert (found["tenant"], found["limit"]) == ("acme", 10)


@pytest.mark.parametrize("name", [name for name in LetterSelection.__struct_fields__ if name != "tenant"])
@pytest.mark.parametrize("query", [DeadLetters(), BulkDeadLetters(action="retry")], ids=["list", "bulk"])
def test_every_criterion_of_dead_letters_reaches_the_engine(name: str, query: DeadLetters | BulkDeadLetters) -> None:
    request: Any = SimpleNamespace(whose="acme")
    value = given(LetterSelection, name)
    found = dead_letters.build_criteria(request, msgspec.structs.replace(query, **{name: value}))
    assert found == {**dead_letters.build_criteria(request, query), {"run": "run_id"}.get(name, name): value}
    assert found["tenant"] == "acme"
