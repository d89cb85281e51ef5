"""The money of a run over time: a row after each event that changes what is spent, held or in doubt, or the limit.

Never here: a price, the books of scopes above the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from holdfast.core.evolve import evolve
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import State
from holdfast.core.values.ids import NodeName, node_of, root_of
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


def spending(history: Iterable[ev.Recorded]) -> Iterator[SpendingRow]:
    """Yield the rows of a run, from its whole history."""
    state = State()
    before = _books(state.budget)
    for recorded in history:
        event = recorded.event
        known = state.calls.get(getattr(event, "call", None))  # type: ignore[arg-type]
        step = known.step if known is not None else getattr(event, "step", None)
        name = (known.sent_to or known.name) if known is not None else _name(event)
        evolve(state, event, recorded.at_ms)
        if (after := _books(state.budget)) != before:
            before = after
            yield SpendingRow(recorded.seq, recorded.at_ms, root_of(node_of(step)) if name else None, name, *after)


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
