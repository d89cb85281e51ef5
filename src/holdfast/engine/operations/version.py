"""The version of its code that a step goes on with at a place, so that new code stands beside runs begun with the old.

Never here: what the versions do (the user's code), changes without a version (divergence).
"""

from __future__ import annotations

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import VERSION, Operation
from holdfast.core.values.ids import Path, comes_from
from holdfast.engine.attempts.cursor import Divergence
from holdfast.engine.attempts.journal import StepJournal


class Versions:
    """The versions that one attempt was given."""

    def __init__(self, journal: StepJournal) -> None:
        self._journal = journal
        self._told: dict[Path, int] = {}
        """They are recorded with the next commit, and must not be computed again before: by then there is more behind them."""

    def at(self, place: Path, following: Path, name: str, latest: int) -> int:
        """The latest, or 1 where earlier attempts have come past the place (that of the next operation is `following`), whose
        code did not ask; and from then on the same. Leaves the step where that is later than what the code knows."""
        known = self._told.get(place)
        if known is None:
            known = self._told[place] = self._recorded(place, name) or self._new(place, following, name, latest)
        if known > latest:
            op = Operation(VERSION, f"{name} {known}", "")
            self._journal.diverge(Divergence(place, place, op, VERSION, f"{name} {latest}", None))
        return known

    def _recorded(self, place: Path, name: str) -> int | None:
        op = self._journal.find(place, VERSION, name)
        return None if op is None or op.outcome is None else int(op.outcome.value())

    def _new(self, place: Path, following: Path, name: str, latest: int) -> int:
        passed = any(comes_from(path, following) for path in self._journal.before.journal)
        version = 1 if passed else latest
        self._journal.note(cmd.Value(place, VERSION, version, name=name))
        return version
