"""The options of `run`: the fields of a start, as a server is sent them and an engine takes them."""

from __future__ import annotations

from typing import Any

from holdfast.cli.runs.run import START
from holdfast.service.declarations.command import Start


def test_every_field_of_a_start_is_an_option_of_run() -> None:
    elsewhere = {"workflow", "version", "yaml", "input"}
    assert START.options.keys() == set(Start.__struct_fields__) - elsewhere


def test_what_is_typed_is_read_as_the_fields_of_a_start() -> None:
    typed: dict[str, Any] = {"tags": ["a", "b"], "labels": ["k=v", "l=w"], "max_tokens": 5, "on_limit": "fail", "key": None}
    start = START.make(**typed)
    assert start == {"tags": ("a", "b"), "labels": {"k": "v", "l": "w"}, "max_tokens": 5, "on_limit": "fail"}
    assert Start(workflow="w", **start).labels == {"k": "v", "l": "w"}
