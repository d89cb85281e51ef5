"""The expressions of a job at work: on one account for all of them, and never for long in the event loop.

Most take microseconds, and are evaluated in place. A longer one begins again in a thread, which is safe because an evaluation
changes nothing. Never here: what an expression is for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.actions.expressions import Account, NotQuick
from holdfast.actions.jobs.attempt import Attempt

T = TypeVar("T")

QUICK_CHARACTERS: Final = 200_000
"""What an evaluation may look at in the loop: some ten milliseconds at the worst."""


class Evaluation:
    """Of the expressions of one job, or of one combination of it, which GitHub calls a job too."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._account = Account()

    async def of(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which evaluates expressions and changes nothing. Raises what `work` raises."""
        try:
            with self._account.open(QUICK_CHARACTERS):
                return work()
        except NotQuick:
            return await self._attempt.aside(lambda: self._at_leisure(work))

    def _at_leisure(self, work: Callable[[], T]) -> T:
        with self._account.open():
            return work()
