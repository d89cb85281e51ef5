"""Runs as early versions have started them, for tests of what such runs go on with.

Never here: a promise.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core import decide
from holdfast.core.facts import commands as cmd
from holdfast.core.rules import steps
from holdfast.core.rules.decision import Decision


def name_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every run that is started name the operations of its flow by one counter, without an event loop of its own."""

    def start(d: Decision, c: Any) -> None:
        steps.start_run(d, msgspec.structs.replace(c, naming=1))

    monkeypatch.setitem(decide._RULES, cmd.StartRun, start)
