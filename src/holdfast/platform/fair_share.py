"""An amount that is shared by holders of whom none takes what a newcomer needs: connections, turns, streams.

A holder is a path, like `("acme", "clients.ops")`: a tenant, and a token of that tenant. Of what the others on a level leave
free, one holder has half at most. So a single one has half of all, the next a quarter, and a newcomer finds room.

Never here: what is shared, and who a holder is.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias

from holdfast.errors import TooMuch

Holder: TypeAlias = tuple[str, ...]


class FairShare:
    """An amount of `most`, and a line of `waiting` for it, which is shared in the same way."""

    def __init__(self, most: int, name: str, *, waiting: int = 0) -> None:
        """`name` says in errors what it is, like "streams are open"."""
        self.most = most
        self._what = name
        self._held: Counter[Holder] = Counter()
        """By holder, and by each beginning of its path; all together by the empty one."""
        self._line = FairShare(waiting, f"of those that wait because too many {name}") if waiting else None
        self._waiting: dict[Holder, deque[asyncio.Future[None]]] = {}
        """Those who wait, in the order in which holders have their next turn."""

    def held_by(self, holder: Holder) -> int:
        """Return how much a holder has, or all whose paths begin so."""
        return self._held[holder]

    def room_of(self, holder: Holder) -> int:
        """Return how much a holder may have just now, with what it has."""
        room = self.most
        for level in range(len(holder)):
            others = self._held[holder[:level]] - self._held[holder[: level + 1]]
            room = (room - others + 1) // 2
        return room

    def take(self, holder: Holder) -> bool:
        """Take one, if there is room for this holder."""
        if self._held[holder] >= self.room_of(holder):
            return False
        for level in range(len(holder) + 1):
            self._held[holder[:level]] += 1
        return True

    def give_back(self, holder: Holder) -> None:
        """Give one back; who waits and has room now is next."""
        for level in range(len(holder) + 1):
            beginning = holder[:level]
            self._held[beginning] -= 1
            if not self._held[beginning]:
                del self._held[beginning]
        while any(self._serve(each) for each in list(self._waiting)):
            pass

    @contextmanager
    def held(self, holder: Holder) -> Iterator[None]:
        """Hold one. Raises TooMuch where there is no room."""
        if not self.take(holder):
            raise self._too_much(holder)
        try:
            yield
        finally:
            self.give_back(holder)

    @asynccontextmanager
    async def turn(self, holder: Holder, wait_s: float) -> AsyncIterator[None]:
        """Hold one, after waiting for it. Raises TooMuch where the line is full, or after `wait_s`."""
        if holder in self._waiting or not self.take(holder):
            if self._line is None:
                raise self._too_much(holder)
            with self._line.held(holder):
                try:
                    async with asyncio.timeout(wait_s):
                        await self._waited(holder)
                except TimeoutError:
                    raise self._too_much(holder) from None
        try:
            yield
        finally:
            self.give_back(holder)

    async def _waited(self, holder: Holder) -> None:
        turn = asyncio.get_running_loop().create_future()
        line = self._waiting.setdefault(holder, deque())
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(holder)  # it came at the same moment
            elif turn in line:
                line.remove(turn)
                if not line and self._waiting.get(holder) is line:
                    del self._waiting[holder]
            raise

    def _serve(self, holder: Holder) -> bool:
        """Give one to who waits longest of a holder, if there is room; the holder goes to the end of the line."""
        line = self._waiting[holder]
        while line and line[0].done():
            del line[0]
        is_served = bool(line) and self.take(holder)
        if is_served:
            line.popleft().set_result(None)
            self._waiting[holder] = self._waiting.pop(holder)
        if not line:
            del self._waiting[holder]
        return is_served

    def _too_much(self, holder: Holder) -> TooMuch:
        return TooMuch(
            f"Too many {self._what}: {self._held[holder]} for this caller, {self._held[()]} in all, and {self.most} at most."
            " Nothing was done: try again in a second.",
            retry_after_s=1,
        )
