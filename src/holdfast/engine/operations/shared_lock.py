"""Locks on shared values, as the code of a step holds them: for the length of a block, and never across a suspension.

A lock is a lease by the store's clock with a number, the fence, that every write under it shows: whose lease is over writes
nothing.
That a lock was taken stands in the journal, so code that runs again takes it again only for what it has not done before. Never
here: what is read and written under it (shared_space).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final, Self

from holdfast.core.facts import commands as cmd
from holdfast.core.facts.state import SHARED_LOCK
from holdfast.core.values.ids import Path
from holdfast.core.values.policies import TIMEOUT
from holdfast.engine.attempts.cursor import certain, cursor, note_calls
from holdfast.engine.attempts.journal import StepJournal
from holdfast.errors import InvalidInput, OperationFailed

_LONGEST_S: Final = 3600.0
_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.25
_TURNS: Final = "!turns"
"""The space of the locks that processes take to write one value in turn. No code of a user's can name it."""
_TURN_WAIT_S: Final = 30.0
_TURN_LEASE_S: Final = 10.0
"""Longer than any write takes; a process that dies with its turn keeps others waiting no longer."""
Name = tuple[str, str]


class HeldLock:
    """A lock that the code is inside of, in the branch `prefix` and all that is in it, `depth` blocks deep. It has its fence
    once it is taken; `seen` is the version that was read or written under it."""

    def __init__(self, name: Name, wait_s: float, lease_s: float) -> None:
        self.name = name
        self.wait_s = wait_s
        self.lease_s = lease_s
        self.prefix = cursor().prefix
        self.depth = 0
        self.fence: int | None = None
        self.seen: int | None = None


class SharedLocks:
    """The locks of one attempt."""

    def __init__(self, journal: StepJournal) -> None:
        self._journal = journal
        self._held: list[HeldLock] = []

    def lock(self, space: str, key: str, wait_s: float, lease_s: float) -> SharedLock:
        """Raises InvalidInput for times that are none."""
        if not (0 <= wait_s <= _LONGEST_S and 0 < lease_s <= _LONGEST_S):
            raise InvalidInput(
                f"A lock is waited for and held up to {_LONGEST_S:.0f} s, not {wait_s} and {lease_s}. Nothing was locked."
            )
        return SharedLock(self, self._journal, (space, key), wait_s, lease_s)

    async def within(self, held: HeldLock | None) -> int | None:
        """The number that a write under a lock has to show. Takes the lock where this attempt has only come through what an
        earlier one did under it. Raises OperationFailed."""
        if held is not None and held.fence is None and not await self.take(held):
            raise self.too_late(held, None)
        return None if held is None else held.fence

    def enter(self, name: Name, wait_s: float, lease_s: float) -> HeldLock:
        held = self.around(*name)
        if held is None:
            held = HeldLock(name, wait_s, lease_s)
            if not self._held:
                self._journal.ends.append(self._free_all)
            self._held.append(held)
        held.depth += 1
        return held

    async def leave(self, held: HeldLock) -> None:
        held.depth -= 1
        if held.depth:
            return
        self._held.remove(held)
        if not self._held:
            self._journal.ends.remove(self._free_all)
        if held.fence is not None:
            await self._free(held, held.fence)

    async def _free_all(self) -> None:
        """Free what the code had when it was left."""
        self._journal.ends.remove(self._free_all)
        while self._held:
            held = self._held.pop()
            if held.fence is not None:
                await self._free(held, held.fence)

    async def _free(self, held: HeldLock, fence: int) -> None:
        values = self._journal.attempt.services.runtime.store.shared_values
        await self._journal.attempt.patiently(lambda: values.unlock(self._journal.tenant, *held.name, fence))

    async def take(self, held: HeldLock) -> bool:
        """Return True if the lock was taken in time."""
        if (turn := certain()) is not None:
            await turn
        attempt, tenant = self._journal.attempt, self._journal.tenant
        values, clock = attempt.services.runtime.store.shared_values, attempt.services.runtime.clock
        until_s, pause_s = clock.monotonic_s() + held.wait_s, _PAUSE_S
        holder, lease_ms = f"{self._journal.run}/{self._journal.step}", int(held.lease_s * 1000)
        while True:
            held.fence = await attempt.patiently(lambda: values.lock(tenant, *held.name, holder, lease_ms))
            left_s = until_s - clock.monotonic_s()
            if held.fence is not None or left_s <= 0:
                return held.fence is not None
            await clock.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    @asynccontextmanager
    async def turn(self, space: str, key: str) -> AsyncIterator[None]:
        """Wait for one's turn among the processes that write a value again and again, and have it for the length of the block.
        A caller that waits too long goes on all the same: the lock only makes conflicts rare."""
        held = HeldLock((_TURNS, f"{space}/{key}"), _TURN_WAIT_S, _TURN_LEASE_S)
        await self.take(held)
        try:
            yield
        finally:
            if held.fence is not None:
                await self._free(held, held.fence)

    def too_late(self, held: HeldLock, path: Path | None) -> OperationFailed:
        space, key = held.name
        message = f"The lock on {key!r} of {space!r} was held by another for {held.wait_s:g} s. Nothing was done under it."
        return OperationFailed(message, error=self._journal.error(TIMEOUT, message, retryable=True), path=path)

    def around(self, space: str, key: str) -> HeldLock | None:
        """The lock on a value that the code is in: a branch is in those that were taken around it, and not in another's."""
        prefix = cursor().prefix
        return next((each for each in self._held if each.name == (space, key) and prefix.startswith(each.prefix)), None)


class SharedLock:
    """One block under a lock."""

    def __init__(self, locks: SharedLocks, journal: StepJournal, name: Name, wait_s: float, lease_s: float) -> None:
        self._locks = locks
        self._journal = journal
        self._name = name
        self._times_s = wait_s, lease_s
        self._held: HeldLock | None = None

    async def __aenter__(self) -> Self:
        """Take the lock, or go on under that which the code is in already. Raises OperationFailed (class `timeout`)."""
        name = "/".join(self._name)
        with cursor().place() as path:
            op = self._journal.find(path, SHARED_LOCK, name)
            self._held = held = self._locks.enter(self._name, *self._times_s)
            try:
                if op is not None and op.status == "done":
                    is_taken = op.outcome is not None and bool(op.outcome.value())
                else:
                    is_taken = held.fence is not None or await self._locks.take(held)
                    self._journal.note(cmd.Value(path, SHARED_LOCK, is_taken, name=name))
                if not is_taken:
                    raise self._locks.too_late(held, path)
            except BaseException:
                await self._locks.leave(held)
                raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held is not None:
            await self._locks.leave(self._held)


note_calls(SharedLock, "lock", "__aenter__", "__aexit__")
