"""Tables fit the terminal; elsewhere nothing is cut. Times and ids are read as people write them."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

import holdfast.cli
from holdfast.cli.page import moment, table, terminal
from holdfast.cli.page.table import ID, Column
from holdfast.errors import UsageError
from tests.cli.conftest import Shell
from tests.cli.test_runs import started

NOW_MS = 1_800_000_000_000
A_RUN = "019aa8b2-6f41-7c3a-9d0e-2b7e4a5c6d7e"
LONG = {  # what stands in a column whose width is bounded by what it means; anything else may be as long as it likes
    "status": "requires_attention",
    "state": "partly archived",
    "began": "999 min",
    "took": "999 min",
    "changed": "999 d",
    "age": "999 d",
    "open for": "999 d",
    "deadline": "in 999 min",
    "cost": "$1234567.123456",
    "limit": "$1234567.12",
    "allocated": "$1234567.123456",
    "remaining": "$1234567.12",
    "use": "100%",
    "priority": "1000000",
    "approval": A_RUN,
    "when": "amount <= 1000",
    "until": "2026-11-21 01:30:00Z",
    "idle since": "2026-11-21 01:30:00Z",
    "settled": "$1234567.123456",
    "left": "$1234567.12",
    "hold": "$12345.123456",
    "wants": "$12345.123456",
    "day": "2026-11-21",
    "month": "2026-11",
    "type": "integer",
    "needed": "yes",
    "calls": "1234567",
    "attempts": "12345",
    "reminders": "1000",
    "runs": "12345678",
    "unended": "12345678",
    "events": "12345678901",
    "size": "1023.9 GB",
    "granted": "1234567",
    "used": "1234567",
    "wanted": "1234567",
    "life": "starting",
    "amount": "1234567",
    "version": "1234567",
    "loaded": "999 d",
    "processes": "12345",
    "kind": "conditional",
    "items": "100000",
    "done": "100000",
    "failed": "100000",
    "under way": "1000",
    "load": "100%",
    "waiting": "10000 of 10000",
    "at work": "1000 of 1000",
    "errors": "1234567",
    "average": "1234567 ms",
    "passed": "1000 of 1000",
    "met": "yes",
    "open": "12345678",
    "resolved": "12345678",
    "oldest": "999 d",
    "next": "2026-11-21 01:30:00Z",
    "time": "2026-11-21 01:30:00Z",
}


def tables() -> Iterator[tuple[str, Sequence[Column]]]:
    for module in pkgutil.walk_packages(holdfast.cli.__path__, "holdfast.cli."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, tuple) and value and all(isinstance(each, Column) for each in value):
                yield f"{module.name}.{name}", value


@pytest.mark.parametrize("columns", [pytest.param(columns, id=name) for name, columns in tables()])
def test_every_table_fits_80_columns_whatever_stands_in_it(
    columns: Sequence[Column], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = [LONG.get(column.name, A_RUN * 2 + f":{column.name}") for column in columns]
    monkeypatch.setattr(terminal, "width", lambda: 80)
    table.show(columns, [row])
    head, line = capsys.readouterr().out.splitlines()
    assert max(cell_len(head), cell_len(line)) <= 80
    for column in columns:  # what never goes is there, and an id is a prefix that can be typed
        assert column.goes or column.name.upper() in head
    assert line.startswith(row[0][: min(13, columns[0].least or 13) - 1])


def test_no_table_hides_from_that_test() -> None:
    known = {name.rpartition(".")[2] for name, _ in tables()}
    for path in Path(holdfast.cli.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "table.show":
                assert ast.unparse(node.args[0]) in known | {"columns"}, (path.name, node.lineno)


OTHER = "019aa8b2-6f41-7c3b-9d0e-2b7e4a5c6d7e"


def test_ids_in_a_narrow_table_keep_what_the_next_command_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = (Column("gate", ID), Column("state"), Column("risk"), Column("reason", 8), Column("asks", 6, goes=1))
    monkeypatch.setattr(terminal, "width", lambda: 70)
    rows = [(f"{run}:flow#1:{n}", "open", "", "tool_approval", "role:support-leads") for run in (A_RUN, OTHER) for n in (0, 1)]
    table.show(columns, rows)
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["GATE", "STATE", "REASON", "ASKS"], "a column without content gives its room to others"
    assert [line.split() for line in lines] == [
        [f"{run[:18]}:flow#1:{n}", "open", "tool_approval", "role:support-leads"] for run in (A_RUN, OTHER) for n in (0, 1)
    ]


def test_a_shortened_id_is_the_beginning_of_one_run_and_of_what_follows() -> None:
    assert table.shortened([A_RUN]) == ["019aa8b2-6f41"]
    assert table.shortened([f"{A_RUN}:a", f"{OTHER}:a", "-"]) == [f"{A_RUN[:18]}:a", f"{OTHER[:18]}:a", "-"]


def test_a_table_that_is_no_terminals_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    table.show((Column("run", ID), Column("note", 5, goes=1)), [(A_RUN, "x" * 300)])
    assert capsys.readouterr().out.splitlines()[1] == f"{A_RUN}  {'x' * 300}"


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("90s", NOW_MS - 90_000),
        ("15min", NOW_MS - 900_000),
        ("2h", NOW_MS - 7_200_000),
        ("3d", NOW_MS - 259_200_000),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T01:00+01:00", 0),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_time_is_read_as_people_write_it(text: str, at_ms: int | None) -> None:
    if at_ms is None:
        with pytest.raises(UsageError, match="Write a time span"):
            moment.parse_time(text, "--since", NOW_MS)
    else:
        assert moment.parse_time(text, "--since", NOW_MS) == at_ms


def test_the_beginning_of_an_id_is_enough_wherever_an_id_is_taken(shell: Shell) -> None:
    run = started(shell, "letter", "-i", '{"customer": "Ada"}', "--key", "k")
    begun = run[:30]
    (gate,) = (each["gate_id"] for each in shell("gates", "list", "--run", begun, "--json").data)
    for words in (("runs", "show"), ("runs", "events"), ("budget", "show"), ("queue", "why"), ("gates", "show")):
        assert shell(*words, begun).code == 0, words
    assert shell("gates", "show", f"{gate[:40]}…", "--json").data["gate_id"] == gate
    assert shell("gates", "show", begun.upper()).code == 0
    short = table.shortened([gate])[0]
    assert shell("gates", "show", short, "--json").data["gate_id"] == gate
    assert shell("gates", "list", "--after", short, "--json").data == []
    second = started(shell, "broken")
    for words in (("runs", "show"), ("runs", "cancel"), ("gates", "approve"), ("budget", "raise", "--by", "1")):
        said = shell(*words, "0")
        assert said.code == 2, words
        assert f"{run}  letter 1, waiting" in said.err
        assert second in said.err
    assert shell("runs", "show", "f").code == 3
    assert shell("gates", "show", f"{begun}:nowhere").code == 3
    assert shell("effects", "resolve", f"{begun}:pay", "--again").code == 3

    def listed(*words: str) -> list[Any]:
        return [each["run_id"] for each in shell("runs", "list", "--json", *words).data]

    assert listed("--status", "waiting,failed") == listed("--status", "waiting", "--status", "failed") == [second, run]
    assert listed("--status", "failed", "--since", "1h") == [second]
    assert listed("--until", "1h") == []
    assert listed("--key", "k") == listed("--workflow", "letter", "--tenant", "default") == [run]
    assert shell("effects", "list", "--state", "foo").code == 2
    assert shell("runs", "list", "--status", "failed,lost").code == 2
