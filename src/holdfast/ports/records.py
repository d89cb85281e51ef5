"""Records that tenants have under names: schedules, conversations, supervisors; and evaluations.

Never here: an implementation, a default, what follows from one (core.nouns).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holdfast.core.nouns import conversations, supervision
from holdfast.core.nouns.conversations import Conversation, ConversationTurn
from holdfast.core.nouns.evaluations import Evaluation, ScenarioResult
from holdfast.core.nouns.schedules import Schedule
from holdfast.core.nouns.supervision import Supervisor, Task


class KeptSchedule(NamedTuple):
    """A schedule as the store has it. Its revision goes up with every change."""

    schedule: Schedule
    revision: int


class Schedules(Protocol):
    """The schedules of the store, each known by its tenant and its name."""

    async def add(self, schedule: Schedule) -> bool:
        """False, and nothing is changed, where there is one of this name already."""
        ...

    async def replace(self, schedule: Schedule, revision: int) -> bool:
        """Put it in the place of the one of that revision; False where that has changed meanwhile, or is gone."""
        ...

    async def remove(self, tenant: str, name: str) -> bool:
        """False if there was none."""
        ...

    async def find(self, tenant: str, name: str) -> KeptSchedule | None: ...

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[KeptSchedule]:
        """By tenant and name; `after` are those of the last one before."""
        ...

    async def due(self, now_ms: int, limit: int) -> Sequence[KeptSchedule]:
        """Return the schedules that are due by then, the longest due first."""
        ...

    async def next_due_ms(self) -> int | None:
        """Return the time at which the next schedule is due, or None if none will be."""
        ...


class Conversations(Protocol):
    """The conversations of the store, each known by its tenant and its id."""

    async def put(self, change: conversations.Change) -> bool:
        """Keep a conversation with what was said, in one transaction, in the place of the one of its revision (0: there is
        none); it has the next revision afterwards. False, and nothing is changed, where another stands there."""
        ...

    async def remove(self, conversation: Conversation) -> bool:
        """Remove a conversation with its messages, in one transaction. Return False, with nothing removed, if it has changed
        since it was seen, or is in use."""
        ...

    async def discard(self, tenant: str, conversation: str) -> bool:
        """Remove an unreadable conversation with its messages. Return False if it does not exist."""
        ...

    async def idle(self, before_ms: int, limit: int) -> Sequence[Conversation]:
        """Return the conversations with no run and nothing pending that last changed before `before_ms`, by the time of their
        last change."""
        ...

    async def find(self, tenant: str, name: str) -> Conversation | None: ...

    async def exchanges(self, tenant: str, name: str) -> Sequence[ConversationTurn]:
        """Return all turns, by number."""
        ...

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Conversation]:
        """By tenant and id; `after` are those of the last one before."""
        ...

    async def due(self, limit: int) -> Sequence[Conversation]:
        """Return the conversations that need action: their run has ended, or is still to be started or cancelled."""
        ...


class Supervisors(Protocol):
    """The supervisors of the store, each known by its tenant and its name."""

    async def put(self, change: supervision.Change) -> bool:
        """Keep a supervisor with what is new of its tasks, in one transaction, in the place of the one of its revision (0:
        there is none); it has the next revision afterwards. False, and nothing is changed, where another stands there.
        Tasks of it that have ended for longer than supervision.KEPT_MS are let go of."""
        ...

    async def find(self, tenant: str, name: str) -> Supervisor | None: ...

    async def task(self, tenant: str, name: str, task: str) -> Task | None:
        """A task of that supervisor, by its id."""
        ...

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[Supervisor]:
        """By tenant and name; `after` are those of the last one before."""
        ...

    async def due(self, now_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        """Return the tenants and names of supervisors that are due by then, and of those with a task whose run has ended."""
        ...

    async def remove(self, supervisor: Supervisor) -> bool:
        """Remove one with all that is kept of its tasks, in one transaction. False, and nothing is removed, where it has
        changed since it was seen."""
        ...


class Evaluations(Protocol):
    """The results of suites. Nothing in it changes, and nothing leaves it."""

    async def add(self, evaluation: Evaluation, judged_runs: Sequence[ScenarioResult]) -> None:
        """Keep one more, with its runs. One that is kept under that id already stays as it is."""
        ...

    async def find(self, id_: str) -> tuple[Evaluation, Sequence[ScenarioResult]] | None:
        """The one of that id, with its runs."""
        ...

    async def listed(self, tenant: str | None, workflow: str | None, before: str | None, limit: int) -> Sequence[Evaluation]:
        """Newest first, those before an id; of a tenant and a workflow, or of all."""
        ...
