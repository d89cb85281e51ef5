"""Nouns as data: what the fields of a command make of a line that is typed."""

from __future__ import annotations

import re
from typing import Any

import typer.main

from holdfast.cli.app import app
from tests.cli.conftest import Shell


def helps() -> dict[str, str]:
    """The help of each option of a declared noun."""
    root: Any = typer.main.get_command(app)
    verbs = root.get_command(None, "pools").commands["set"], root.get_command(None, "schedules").commands["backfill"]
    return {each.opts[0]: each.help for verb in verbs for each in verb.params if each.param_type_name == "option"}


def test_help_names_options_in_place_of_fields() -> None:
    found = helps()
    assert found["--slots"].endswith("instead of `--rate`.")
    assert [name for name, text in found.items() if re.search(r"`(rate|slots|of|counts|per_s)`", text)] == []


def test_help_says_how_a_time_is_written() -> None:
    assert helps()["--since"] == "First time, inclusive, like 2026-11-21, or 3d for three days ago."


def test_a_value_that_has_to_be_typed_is_asked_for(shell: Shell) -> None:
    refused = shell("shared", "write", "board", "case-7")
    assert (refused.code, "--value" in refused.err) == (2, True)
    assert shell("shared", "write", "board", "case-7", "--value", "null", "--json").data["value"] is None


def test_who_acts_is_who_was_named(shell: Shell) -> None:
    assert shell("shared", "write", "board", "case-7", "--value", "1", "--as", "ann", "--json").data["by"] == "ann"


def test_a_verb_answers_with_what_it_was_about(shell: Shell) -> None:
    assert shell("pools", "set", "GPU", "--slots", "2", "--json").data["limit"] == 2
    assert shell("pools", "remove", "GPU", "--json").data == {"name": "GPU", "removed": True}
    assert shell("pools", "list", "--json").data == []
