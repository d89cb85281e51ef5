"""The slots of one process: how many of its attempts work, are about to, and stand aside.

An attempt that waits for pools stands aside: others start meanwhile. When it goes on it has its slot at once, even where
that is one more than there are, for it holds parts of pools by then; nothing new starts before one is free again. Pools let
few in at a time, so that those many are few.

Never here: who gets a slot (executor), what an attempt does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

MOST_ASIDE: Final = 5_000
"""So many attempts stand aside at most, each with what it has in memory; any more keep their slots, and so hold up what
would come after them."""


class Slots:
    """`most` attempts work at once."""

    def __init__(self, most: int, on_free: Callable[[], None]) -> None:
        self.most = most
        self.working = 0
        """Attempts, with those that stand aside."""
        self.starting = 0
        """Slots of steps whose start is on its way to the disk."""
        self._aside = 0
        self._on_free = on_free

    @property
    def free(self) -> int:
        """Below zero where attempts have gone on that had stood aside."""
        return self.most - self.working - self.starting + self._aside

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Inside, an attempt needs no slot."""
        if self._aside >= MOST_ASIDE:
            yield
            return
        self._aside += 1
        self._on_free()
        try:
            yield
        finally:
            self._aside -= 1
