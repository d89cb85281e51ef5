"""The contributors to the runs above a run, and to those under way below it: what one of them learned may be what another asks
about.

They are read one after the other, shortly before a decision is taken: a contribution in between is not found. Never here: the
contributors to a run itself (core.facts.contribution), a rule.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.facts.contribution import contributors
from holdfast.core.facts.state import State
from holdfast.core.values.ids import RunId
from holdfast.engine.runs.runs import Runs
from holdfast.errors import NotFound

MAX_KIN: Final = 1_000
"""Runs that are looked at. Where more are under way, it is not known who contributed to them."""


async def contributors_of_kin(runs: Runs, state: State) -> tuple[str, ...] | None:
    """Return the contributors to the ancestors and to the children under way of a run, and to theirs; None where not all of
    them are known. Raises StoreError."""
    found: dict[str, None] = {}
    above, below = state.parent, _below(state)
    seen = 0
    while above is not None or below:
        if seen == MAX_KIN:
            return None
        seen += 1
        try:
            each = await runs.state(above.run if above is not None else below.pop())
        except NotFound:
            continue  # a child that is asked for and not there yet
        above, below = (each.parent, below) if above is not None else (None, [*below, *_below(each)])
        found.update(dict.fromkeys(contributors(each)))
    return tuple(found)


def _below(state: State) -> list[RunId]:
    return [name for name, _ in state.open_children()]
