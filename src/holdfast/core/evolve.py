"""`evolve`: folds one event into the state of its run.

It knows no graph and refuses nothing: it is total over known events and raises CorruptHistory only for a history that no
rule can have written. Never here: what an event does (folding).
"""

from __future__ import annotations

from typing import Final

from holdfast.core.facts import events as ev
from holdfast.core.facts.contribution import CONTRIBUTIONS, note
from holdfast.core.facts.folding import call, child, items, operation, run, step
from holdfast.core.facts.folding.moves import Folds
from holdfast.core.facts.state import State
from holdfast.core.values.ids import Seq
from holdfast.errors import CorruptHistory

FOLDS: Final[Folds] = {**run.FOLDS, **step.FOLDS, **items.FOLDS, **operation.FOLDS, **call.FOLDS, **child.FOLDS}


def evolve(state: State, event: ev.Event, at_ms: int) -> State:
    """`state` with `event`, which happened at `at_ms`, folded into it (in place)."""
    try:
        fold = FOLDS[type(event)]
    except KeyError:
        raise CorruptHistory(f"run {state.run}: an event of unknown kind {type(event).__name__}") from None
    state.seq = Seq(state.seq + 1)
    state.at_ms = at_ms
    try:
        if type(event) in CONTRIBUTIONS:
            note(state, event)
        fold(state, event, at_ms)
    except (LookupError, AttributeError, ValueError, StopIteration) as problem:
        raise CorruptHistory(
            f"run {state.run}: event {state.seq} ({type(event).__name__}) does not follow from the events before it"
            f" ({problem!r})"
        ) from problem
    return state
