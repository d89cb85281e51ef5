"""A history in words: every kind of event has some, and nothing that the next command needs is cut."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, get_args

import msgspec
import pytest
from rich.cells import cell_len

from holdfast.cli.page import terminal
from holdfast.cli.page.event_format import EventFormatter
from holdfast.core.facts.events import AnyEvent, ModelCallHeld, ModelCallSettled, StateConflicted
from holdfast.service import view
from tests.cli.conftest import Shell
from tests.golden.record import HERE, read

NAMES = sorted(file.name.removesuffix(".jsonl") for file in HERE.glob("*.jsonl"))
HISTORIES = {name: read(name).events for name in NAMES}
KINDS = sorted(get_args(AnyEvent), key=lambda kind: kind.__name__)


def told(history: Sequence[Any]) -> list[tuple[str, str]]:
    """The types of a history's events, and their words."""
    words = EventFormatter()
    rows = [msgspec.json.decode(msgspec.json.encode(view.of_event(each))) for each in history]
    return [(row["type"], words.sentence_of_row(row)) for row in rows]


TOLD = {name: told(history) for name, history in HISTORIES.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_event_has_words(kind: type) -> None:
    lines = {line for lines in TOLD.values() for type_, line in lines if type_ == kind.__name__}
    assert lines
    for line in lines:
        assert line
        assert not re.search(kind.__name__, line), line
        assert not re.search(r"_hash|_nanousd|=None|\w+\(.*=|sha256", line), line


def test_a_later_event_of_a_call_names_its_model() -> None:
    settled = [line for lines in TOLD.values() for type_, line in lines if type_ == ModelCallSettled.__name__]
    assert settled
    assert all(re.match(r"[^:]+: \S+ \$\d[\d.]*, \d+ \+ \d+ tokens", line) for line in settled), settled
    called = [line for lines in TOLD.values() for type_, line in lines if type_ == ModelCallHeld.__name__]
    assert all(re.search(r" calls \S+, at most \$\d", line) for line in called), called


def test_a_conflict_has_both_values_and_the_result() -> None:
    conflicts = {line for lines in TOLD.values() for type_, line in lines if type_ == StateConflicted.__name__}
    assert any(re.search(r"\(merge\): a \S.*, b \S.* → ", line) for line in conflicts), conflicts


def test_an_event_of_a_later_version_is_shown_with_its_fields() -> None:
    row = view.of_event(HISTORIES[NAMES[0]][0]) | {"type": "FutureEvent"}
    assert EventFormatter().sentence_of_row(row).startswith('FutureEvent {"run": ')


def test_a_history_is_readable_in_80_columns(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    run = shell("run", "flow:letter", "-i", '{"customer": "Ada"}', "--json").data["run_id"]
    (gate,) = shell("gates", "list", "--run", run, "--json").data
    piped = shell("runs", "events", run).out
    assert re.search(rf"approval asks ann, bob: approve, .* or \w+ \(approval, gate {gate['gate_id']}\)", piped)
    assert "draft completed → " in piped
    monkeypatch.setattr(terminal, "width", lambda: 80)
    lines = shell("runs", "events", run).out.splitlines()
    assert all(cell_len(line) <= 80 or gate["gate_id"] in line for line in lines), lines
    assert gate["gate_id"] in " ".join(lines)
    assert " ".join(" ".join(lines).split()).count("…") == piped.count("…"), "nothing more is cut than in a pipe"
    events = [json.loads(line) for line in shell("runs", "events", run, "--json").out.splitlines()]
    assert [re.match(r" *(\d+)  \+", line)[1] for line in lines if re.match(r" *\d+  \+", line)] == [  # type: ignore[index]
        str(each["seq"]) for each in events
    ]
