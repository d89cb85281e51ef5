"""Records that tenants have under names, each with its revision: schedules, conversations, supervisors; and evaluations.

Never here: what follows from one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core.nouns import conversations, supervision
from holdfast.core.nouns.conversations import Conversation, Exchange
from holdfast.core.nouns.evaluations import Evaluation, Judged
from holdfast.core.nouns.schedules import Schedule
from holdfast.core.nouns.supervision import KEPT_MS, Supervisor, Task, due_at_ms
from holdfast.ports import KeptSchedule
from holdfast.stores.nouns.tables import Noun, Steps, do
from holdfast.stores.row import Row, decode_exchange, encode

R = TypeVar("R", Conversation, Supervisor)

_decode_schedule: Final = msgspec.json.Decoder(Schedule).decode
_decode_conversation: Final = msgspec.json.Decoder(Conversation).decode
_decode_supervisor: Final = msgspec.json.Decoder(Supervisor).decode
_decode_task: Final = msgspec.json.Decoder(Task).decode
_decode_evaluation: Final = msgspec.json.Decoder(Evaluation).decode
_decode_judged: Final = msgspec.json.Decoder(tuple[Judged, ...]).decode

After = tuple[str, str] | None
"""The tenant and the name of the last one before."""


class _Records(Noun):
    """Records whose bodies are sealed for their tenants."""

    def _seal(self, tenant: str, record: Any) -> bytes:
        return self._sealing.seal(tenant, encode(record))

    def _one(self, decode: Callable[[bytes], R], found: Sequence[Row]) -> R | None:
        """The one that was found, as it stands at its revision. Raises KeyMissing."""
        for body, revision in found:
            return msgspec.structs.replace(decode(self._sealing.open(body)), revision=revision)
        return None

    def _all(self, decode: Callable[[bytes], R], found: Iterable[Row]) -> list[R]:
        """Those whose keys are there."""
        opened = ((self._sealing.readable(decode, body), revision) for body, revision in found)
        return [msgspec.structs.replace(each, revision=revision) for each, revision in opened if each is not None]


class Schedules(_Records):
    """Keeps ports.Schedules."""

    async def add(self, schedule: Schedule) -> bool:
        return bool(await self._tables.change("add_schedule", *self._row(schedule)))

    async def replace(self, schedule: Schedule, revision: int) -> bool:
        return bool(await self._tables.change("replace_schedule", *self._row(schedule), revision))

    async def remove(self, tenant: str, name: str) -> bool:
        return bool(await self._tables.change("remove_schedule", tenant, name))

    async def find(self, tenant: str, name: str) -> KeptSchedule | None:
        for body, revision in await self._tables.ask("schedule", tenant, name):
            return KeptSchedule(_decode_schedule(self._sealing.open(body)), revision)
        return None

    async def page(self, tenant: str | None, after: After, limit: int) -> Sequence[KeptSchedule]:
        return self._kept(await self._tables.ask("schedules", tenant, *(after or ("", "")), limit))

    async def due(self, now_ms: int, limit: int) -> Sequence[KeptSchedule]:
        return self._kept(await self._tables.ask("schedules_due", now_ms, limit))

    async def next_due_ms(self) -> int | None:
        ((found,),) = await self._tables.ask("next_schedule")
        return None if found is None else int(found)

    def _row(self, schedule: Schedule) -> Row:
        return schedule.tenant, schedule.name, schedule.due_at_ms, self._seal(schedule.tenant, schedule)

    def _kept(self, found: Iterable[Row]) -> list[KeptSchedule]:
        """Those whose keys are there."""
        opened = ((self._sealing.readable(_decode_schedule, body), revision) for body, revision in found)
        return [KeptSchedule(schedule, revision) for schedule, revision in opened if schedule is not None]


class Conversations(_Records):
    """Keeps ports.Conversations."""

    async def put(self, change: conversations.Change) -> bool:
        kept = change.conversation
        row = (kept.tenant, kept.id, kept.run, kept.is_pending, self._seal(kept.tenant, kept), self._clock.now_ms())
        messages = [(kept.tenant, kept.id, each.number, self._seal(kept.tenant, each)) for each in change.exchanges]

        def steps() -> Steps[bool]:
            found = yield do("replace_conversation", *row, kept.revision) if kept.revision else do("add_conversation", *row)
            for message in messages if found else ():
                yield do("put_exchange", *message)
            return bool(found)

        return await self._tables.transact(steps)

    async def remove(self, conversation: Conversation) -> bool:
        place = (conversation.tenant, conversation.id)

        def steps() -> Steps[bool]:
            found = yield do("remove_conversation", *place, conversation.revision)
            if found:
                yield do("remove_exchanges", *place)
            return bool(found)

        return await self._tables.transact(steps)

    async def idle(self, before_ms: int, limit: int) -> Sequence[Conversation]:
        return self._all(_decode_conversation, await self._tables.ask("conversations_idle", before_ms, limit))

    async def find(self, tenant: str, conversation: str) -> Conversation | None:
        return self._one(_decode_conversation, await self._tables.ask("conversation", tenant, conversation))

    async def exchanges(self, tenant: str, conversation: str) -> Sequence[Exchange]:
        found = await self._tables.ask("exchanges", tenant, conversation)
        return [decode_exchange(self._sealing.open(body)) for (body,) in found]

    async def page(self, tenant: str | None, after: After, limit: int) -> Sequence[Conversation]:
        found = await self._tables.ask("conversations", tenant, *(after or ("", "")), limit)
        return self._all(_decode_conversation, found)

    async def due(self, limit: int) -> Sequence[Conversation]:
        return self._all(_decode_conversation, await self._tables.ask("conversations_due", limit))


class Supervisors(_Records):
    """Keeps ports.Supervisors."""

    async def put(self, change: supervision.Change) -> bool:
        kept = change.supervisor
        row = (kept.tenant, kept.name, due_at_ms(kept), self._seal(kept.tenant, kept))
        tasks = [
            (kept.tenant, kept.name, each.id, each.run, each.ended_ms, self._seal(kept.tenant, each)) for each in change.tasks
        ]
        before_ms = self._clock.now_ms() - KEPT_MS

        def steps() -> Steps[bool]:
            found = yield do("replace_supervisor", *row, kept.revision) if kept.revision else do("add_supervisor", *row)
            for task in tasks if found else ():
                yield do("put_task", *task)
            if found and tasks:
                yield do("forget_tasks", kept.tenant, kept.name, before_ms)
            return bool(found)

        return await self._tables.transact(steps)

    async def remove(self, supervisor: Supervisor) -> bool:
        place = (supervisor.tenant, supervisor.name)

        def steps() -> Steps[bool]:
            found = yield do("remove_supervisor", *place, supervisor.revision)
            if found:
                yield do("remove_tasks", *place)
            return bool(found)

        return await self._tables.transact(steps)

    async def find(self, tenant: str, name: str) -> Supervisor | None:
        return self._one(_decode_supervisor, await self._tables.ask("supervisor", tenant, name))

    async def task(self, tenant: str, name: str, task: str) -> Task | None:
        for (body,) in await self._tables.ask("task", tenant, name, task):
            return _decode_task(self._sealing.open(body))
        return None

    async def page(self, tenant: str | None, after: After, limit: int) -> Sequence[Supervisor]:
        return self._all(_decode_supervisor, await self._tables.ask("supervisors", tenant, *(after or ("", "")), limit))

    async def due(self, now_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        return [(tenant, name) for tenant, name in await self._tables.ask("supervisors_due", now_ms, limit)]


class Evaluations(_Records):
    """Keeps ports.Evaluations."""

    async def add(self, evaluation: Evaluation, judged: Sequence[Judged]) -> None:
        bodies = (self._seal(evaluation.tenant, each).decode() for each in (evaluation, tuple(judged)))
        await self._tables.change("add_evaluation", evaluation.id, evaluation.tenant, evaluation.workflow, *bodies)

    async def found(self, id_: str) -> tuple[Evaluation, Sequence[Judged]] | None:
        for body, judged in await self._tables.ask("evaluation", id_):
            return _decode_evaluation(self._sealing.open(body.encode())), _decode_judged(self._sealing.open(judged.encode()))
        return None

    async def listed(self, tenant: str | None, workflow: str | None, before: str | None, limit: int) -> Sequence[Evaluation]:
        found = await self._tables.ask("evaluations", tenant, workflow, before, limit)
        opened = (self._sealing.readable(_decode_evaluation, body.encode()) for (body,) in found)
        return [each for each in opened if each is not None]
