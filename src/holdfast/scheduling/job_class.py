"""Classes of jobs: those that need the same of a worker and want of the same pools, however much.

Where the first of a class cannot go, none behind it can: they want of what it is short of as well. So the first alone stands
in the lines of pools and workers, as the *head* of its class, and the others stand behind it. However many wait, what comes
back is offered to no more queues than there are classes.

Never here: what a head waits for.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.scheduling.wait_queue import AnyQueue, WaitQueue
from holdfast.scheduling.worker import Need


class JobClass:
    """Queues of which only the first has to be looked at."""

    __slots__ = ("_tried", "head", "line", "name", "queues")

    def __init__(self, name: tuple[Need, tuple[str, ...]]) -> None:
        self.name = name
        self.line = WaitQueue()
        """Those behind the head."""
        self.head: AnyQueue | None = None
        self.queues = 0
        """How many queues are of this class, waiting in it or not."""
        self._tried = False

    def waiting(self) -> Iterator[AnyQueue]:
        """Yield all queues that wait in it, with the head."""
        if self.head:
            yield self.head
        yield from self.line

    def refuses(self, queue: AnyQueue) -> bool:
        """Return True if `queue` has to wait behind the head. A queue of a higher priority has not: it becomes the head when it
        joins."""
        self._choose()
        head = self.head
        return head is not None and head is not queue and not self._outranked_by(queue, head)

    def join(self, queue: AnyQueue) -> None:
        """From now on it waits here, as the head if it is refused by none."""
        head = self.head
        self.line.add(queue)
        if head and self._outranked_by(queue, head):
            self.line.add(head)
            self._follow(queue)
        self._choose()

    def leave(self, queue: AnyQueue) -> None:
        if self.head is queue:
            self.head = None
        else:
            self.line.discard(queue)

    def fall_in(self, queue: AnyQueue) -> None:
        """The first job of the head was placed; its next stands in line with the others."""
        self.head = None
        self.line.add(queue)

    def was_tried(self) -> None:
        """The head was looked at, and waits in other lines."""
        self._tried = True

    def upcoming(self, now_s: float) -> AnyQueue | None:
        """The head, if it has not been looked at."""
        self._choose()
        return None if self._tried else self.head

    def _choose(self) -> None:
        if self.head is None and (first := self.line.first()):
            self._follow(first)

    def _follow(self, queue: AnyQueue) -> None:
        self.line.discard(queue)
        self.head, self._tried = queue, False

    @staticmethod
    def _outranked_by(queue: AnyQueue, head: AnyQueue) -> bool:
        return queue.priority != head.priority and queue.outranks(head)
