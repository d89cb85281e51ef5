"""The model server's journal, as those read it who count what happened. Never here: what an example promises."""

from __future__ import annotations

from pathlib import Path

from holdfast.models.prices import Prices
from holdfast.ports import Usage
from holdfast.testing.journal_file import read_journal
from holdfast.testing.model_server import CallRecord, read_calls

JUST_BEFORE_S = 3.0
"""A reply sent less than this before a kill may not have been written down by the worker: it was still in flight."""

JUST_AFTER_S = 0.1
"""What a process had sent when it was killed may arrive so much later: long before another process could send anything."""


class ModelJournal:
    """The model server's journal."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = -1
        self._calls: list[CallRecord] = []
        self._replied: dict[int, float] = {}

    def calls(self) -> list[CallRecord]:
        self._read()
        return self._calls

    def in_flight(self, at_unix_s: float, *, just_before_s: float = 0.0, just_after_s: float = 0.0) -> list[CallRecord]:
        """The calls that had arrived at that time, or `just_after_s` after it, and were not answered until `just_before_s`
        before it."""
        self._read()
        return [
            call
            for call in self._calls
            if call.at_unix_s - just_after_s <= at_unix_s < self._replied.get(call.number, at_unix_s + 1) + just_before_s
        ]

    def _read(self) -> None:
        size = self._path.stat().st_size
        if size == self._size:
            return
        self._size = size
        self._calls = read_calls(self._path)
        replies = (entry for entry in read_journal(self._path) if entry["event"] == "replied")
        self._replied = {entry["number"]: entry["at_unix_s"] for entry in replies}


def cost_nanousd(prices: Prices, call: CallRecord) -> int:
    """What a call costs by the usage that the model server reported."""
    used = call.used
    if used is None:
        return 0
    usage = Usage(used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens)
    return prices.of(call.model).cost_nanousd(usage)
