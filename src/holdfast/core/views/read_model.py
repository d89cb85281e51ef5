"""The read model of a run: its operations, attempts, model calls and spending, from one pass over its history.

Never here: a fold of one of these (operations, attempts, model_calls, spending), the path (trajectory).
"""

from __future__ import annotations

from holdfast.core.facts import events as ev
from holdfast.core.views.attempts import Attempts
from holdfast.core.views.model_calls import ModelCalls
from holdfast.core.views.operations import Operations
from holdfast.core.views.spending import Spending


class ReadModel:
    """The views of a run, gathered event by event."""

    def __init__(self) -> None:
        self.operations = Operations()
        self.attempts = Attempts()
        self.model_calls = ModelCalls()
        self.spending = Spending()

    def add(self, recorded: ev.Recorded) -> None:
        """Take an event of the history in, in its order."""
        self.spending.before(self.operations.state, recorded.event)
        self.operations.add(recorded)
        self.spending.after(self.operations.state, recorded)
        self.attempts.add(recorded)
        self.model_calls.add(recorded)
