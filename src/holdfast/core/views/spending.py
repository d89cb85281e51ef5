"""The money of a run over time: a row after each event that changes what is spent, held or in doubt, or the limit.

Never here: a price, the books of scopes above the run.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.core.evolve import evolve
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import State
from holdfast.core.values.ids import NodeName, StepId, node_of, root_of
from holdfast.core.values.money import Budget


class SpendingRow(msgspec.Struct, frozen=True):
    """The money of a run after an event, in nano-dollars. `node` and `name` are the node and the model or tool of the call that
    the event is about."""

    seq: int
    at_ms: int
    node: NodeName | None
    name: str | None
    settled_nanousd: int
    held_nanousd: int
    in_doubt_nanousd: int
    limit_nanousd: int | None


class Spending:
    """The money of a run over time, gathered from its history, event by event, by the state before and after each."""

    def __init__(self) -> None:
        self.rows: list[SpendingRow] = []
        self._books = _books(Budget())
        self._of: tuple[StepId | None, str | None] = None, None

    def before(self, state: State, event: ev.Event) -> None:
        """Note which call an event is about: afterwards the state may know it no longer."""
        known = state.calls.get(getattr(event, "call", None))  # type: ignore[arg-type]
        if known is not None:
            self._of = known.step, known.sent_to or known.name
        else:
            self._of = getattr(event, "step", None), _name(event)

    def after(self, state: State, recorded: ev.Recorded) -> None:
        """Add a row where the event has changed an amount."""
        if (books := _books(state.budget)) != self._books:
            self._books, (step, name) = books, self._of
            node = root_of(node_of(step)) if name and step is not None else None
            self.rows.append(SpendingRow(recorded.seq, recorded.at_ms, node, name, *books))


def spending(history: Iterable[ev.Recorded]) -> list[SpendingRow]:
    """Return the rows of a run, from its whole history."""
    state, gathered = State(), Spending()
    for recorded in history:
        gathered.before(state, recorded.event)
        evolve(state, recorded.event, recorded.at_ms)
        gathered.after(state, recorded)
    return gathered.rows


def _name(event: ev.Event) -> str | None:
    match event:
        case ev.ModelCallHeld():
            return event.sent_to or event.model
        case ev.EffectIntended():
            return event.tool
        case _:
            return None


def _books(budget: Budget) -> tuple[int, int, int, int | None]:
    return budget.settled_nanousd, budget.held_nanousd, budget.in_doubt_nanousd, budget.limit_nanousd
