"""What a record holds that no line can be made of, or that would make another line of it: it becomes a text, in bounds."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from holdfast.cli.page.log_output import Output
from holdfast.platform.log_filter import MAX_MESSAGE, LogFilter
from holdfast.settings import Secrets

SECRET = "the-value-of-a-secret"


class Raises:
    def __init__(self, problem: BaseException) -> None:
        self.problem = problem

    def __str__(self) -> str:
        raise self.problem

    __repr__ = __str__


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError

    encode = __len__ = __str__  # type: ignore[assignment]


class Hostile(Exception):
    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        raise SystemExit

    def __str__(self) -> str:
        raise KeyboardInterrupt


FORGED = '"}\n{"level": "info", "run_id": "another"}'
HOSTILE: dict[str, Any] = {
    "raises": Raises(ValueError("no")),
    "exits": Raises(SystemExit(3)),
    "half": "\ud800 half a character",
    "line": FORGED,
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf\rg",
    "terminal": "\x1b[2J\x1b]0;title\x07\u202ereversed\x00",
    "huge": "x" * 50_000_000,
    "number": 10**5_000,
    "infinite": float("inf"),
    "text": Text("a text of its own kind"),
    "deep": [[[[[[[[[["deep"]]]]]]]]]],
    "wide": {str(number): number for number in range(10_000)},
    "bytes": b"\xff\x00",
    "secret": {"a": [SECRET]},
    "class": Raises,
}


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr("holdfast.cli.page.terminal.write_line", found.append)
    return found


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "console"])
@pytest.mark.parametrize("place", ["message", "argument", "extra"])
@pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE)
def test_no_value_breaks_or_forges_a_line(lines: list[str], value: Any, place: str, as_json: bool) -> None:
    secrets = Secrets(None, {"KEY": SECRET})
    secrets.get("KEY")
    record = {
        "message": {"msg": value},
        "argument": {"msg": "a value: %s", "args": (value,)},
        "extra": {"msg": "a value", "extra_of_mine": value},
    }[place]
    Output(as_json=as_json).handle(logging.makeLogRecord({"name": "of_the_user", "levelname": "INFO", **record}))
    (line,) = lines
    assert len(line) < 3 * MAX_MESSAGE
    assert SECRET not in line
    assert not set(line) & set("\x1b\x07\x00\u202e\u2028\u2029\x85\x0b\x0c\r\ud800")
    if as_json:
        assert "\n" not in line
        fields = json.loads(line)
        assert (fields["logger"], "run_id" in fields) == ("of_the_user", False)
    else:
        _, *others = line.split("\n")
        assert [each for each in others if not each.startswith("  ")] == []


def test_arguments_that_do_not_fit_are_told_of(lines: list[str]) -> None:
    Output(as_json=True).handle(logging.makeLogRecord({"msg": "%d of %s", "args": ("one",)}))
    assert "cannot be written" in json.loads(lines[0])["message"]
    assert json.loads(lines[0])["message"].endswith("%d of %s")


def test_an_exception_that_cannot_be_looked_at_is_told_of(lines: list[str]) -> None:
    try:
        raise Hostile
    except Hostile:
        raised = sys.exc_info()
    Output(as_json=True).handle(logging.makeLogRecord({"msg": "failed", "exc_info": raised}))
    assert json.loads(lines[0])["message"] == "failed"
    assert json.loads(lines[0])["exception"]


def test_a_record_is_left_as_it_was_to_other_handlers(lines: list[str]) -> None:
    record = logging.makeLogRecord({"msg": "%s", "args": ("one",), "of_mine": object})
    Output(as_json=True).handle(record)
    assert (record.msg, record.args, record.of_mine) == ("%s", ("one",), object)  # type: ignore[attr-defined]
    assert not hasattr(record, "run_id")


def test_the_filter_is_a_processor_of_structlog_too() -> None:
    secrets = Secrets(None, {"KEY": SECRET})
    secrets.get("KEY")

    try:
        raise ValueError(SECRET)
    except ValueError as problem:
        event = LogFilter()(None, "info", {"event": f"key {SECRET}", "of": {"a": SECRET}, "exc_info": problem})
    assert event["event"] == "key [secret]"
    assert event["of"] == {"a": "[secret]"}
    assert event["exception"].endswith("ValueError: [secret]")
