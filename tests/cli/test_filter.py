"""Criteria of runs as options: those of the list are those of every command that takes many runs."""

from __future__ import annotations

from typing import Any

import pytest
import typer.main

from holdfast.cli.app import app
from holdfast.cli.bulk import BULK
from holdfast.cli.filter import SELECTION
from holdfast.core.views.selection import Selection


def options_of(name: str) -> dict[str, Any]:
    command: Any = typer.main.get_command(app)
    for word in ("runs", name):
        command = command.commands[word]
    return {each.name: each for each in command.params}


@pytest.mark.parametrize("name", ["list", "cancel", "retry", "pause", "resume", "fork", "export"])
def test_every_criterion_is_an_option_of_lists_and_of_bulk_commands(name: str) -> None:
    options = options_of(name)
    assert options.keys() >= set(Selection.__struct_fields__) - {"key"}
    assert all(options[each].help for each in Selection.__struct_fields__)


def test_times_amounts_and_statuses_are_read_as_they_were_typed() -> None:
    many = BULK.make(every=True, limit=5, status=["failed,waiting"], since_ms="2h", min_cost_usd="0.50", label=["a=b"])
    query = many.asked.query(7_200_000, usual=("paused",))
    assert (query.status, query.since_ms, query.min_cost_usd, query.label) == (("failed", "waiting"), 0, "0.50", ("a=b",))


def test_nothing_typed_is_every_run_with_the_usual_statuses() -> None:
    asked = SELECTION.make(**{name: default for name, (_, default) in SELECTION.options.items()})
    assert asked.is_any
    assert asked.query(0, usual=("paused",)).status == ("paused",)
