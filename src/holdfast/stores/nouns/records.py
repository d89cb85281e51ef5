"""Records that tenants have under names, each with its revision: schedules, conversations, supervisors, notification rules;
and evaluations.

Records of all kinds are in one table, and their parts in another: a new kind needs no statement. Never here: what follows from
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

import msgspec

from holdfast.core.nouns import conversations, supervision
from holdfast.core.nouns.conversations import Conversation, ConversationTurn
from holdfast.core.nouns.evaluations import Evaluation, ScenarioResult
from holdfast.core.nouns.schedules import Schedule
from holdfast.core.nouns.supervision import KEPT_MS, Supervisor, Task, due_at_ms
from holdfast.core.values.ids import RunId
from holdfast.core.views.notifications import Rule
from holdfast.ports import KeptSchedule
from holdfast.stores.nouns.tables import Noun, Steps, do
from holdfast.stores.row import CONVERSATION, decode_exchange, encode

K = TypeVar("K")

_decode_task: Final = msgspec.json.Decoder(Task).decode
_decode_evaluation: Final = msgspec.json.Decoder(Evaluation).decode
_decode_judged: Final = msgspec.json.Decoder(tuple[ScenarioResult, ...]).decode


class _Record(NamedTuple):
    """A record as it is to be kept, in the place of the one of its revision (0: there is none)."""

    tenant: str
    name: str
    revision: int
    body: Any
    due_at_ms: int | None = None
    run: RunId | None = None
    is_pending: bool = False


class _Part(NamedTuple):
    """A part of a record: a message of a conversation, a task of a supervisor."""

    name: str
    body: Any
    run: RunId | None = None
    ended_at_ms: int | None = None


class _Records(Noun, Generic[K]):
    """Records of one kind, on the table of all. Bodies are sealed for their tenants."""

    _kind: ClassVar[str]
    _decode: Callable[[bytes], Any]

    async def find(self, tenant: str, name: str) -> K | None:
        for body, revision in await self._tables.ask("record", self._kind, tenant, name):
            return self._with_revision(self._decode(self._sealing.open(body)), revision)
        return None

    async def page(self, tenant: str | None, after: tuple[str, str] | None, limit: int) -> Sequence[K]:
        return await self._all("records", tenant, *(after or ("", "")), limit)

    async def _all(self, statement: str, *bound: Any) -> list[K]:
        """Return those of a list whose keys are there."""
        found = await self._tables.ask(statement, self._kind, *bound)
        opened = ((self._sealing.readable(self._decode, body), revision) for body, revision in found)
        return [self._with_revision(record, revision) for record, revision in opened if record is not None]

    def _with_revision(self, record: Any, revision: int) -> K:
        kept: K = msgspec.structs.replace(record, revision=revision)
        return kept

    async def _put(self, record: _Record, parts: Iterable[_Part] = (), parts_kept_ms: int | None = None) -> bool:
        tenant, name, revision, body, *columns = record
        place, now_ms = (self._kind, tenant, name), self._clock.now_ms()
        row = (*place, *columns, now_ms, self._seal(tenant, body))
        rows = [(*place, part, run, ended_at_ms, self._seal(tenant, body)) for part, body, run, ended_at_ms in parts]

        def steps() -> Steps[bool]:
            found = yield do("replace_record", *row, revision) if revision else do("add_record", *row)
            for part in rows if found else ():
                yield do("put_part", *part)
            if found and rows and parts_kept_ms is not None:
                yield do("forget_parts", *place, now_ms - parts_kept_ms)
            return bool(found)

        return await self._tables.transact(steps)

    async def _remove(self, statement: str, *bound: Any) -> bool:
        """Remove the one that a statement removes, by its kind, tenant and name, with its parts."""

        def steps() -> Steps[bool]:
            found = yield do(statement, *bound)
            if found:
                yield do("remove_parts", *bound[:3])
            return bool(found)

        return await self._tables.transact(steps)

    def _seal(self, tenant: str, body: Any) -> bytes:
        return self._sealing.seal(tenant, encode(body))


class Schedules(_Records[KeptSchedule]):
    """Keeps ports.Schedules."""

    _kind = "schedule"
    _decode = staticmethod(msgspec.json.Decoder(Schedule).decode)

    async def add(self, schedule: Schedule) -> bool:
        return await self.replace(schedule, 0)

    async def replace(self, schedule: Schedule, revision: int) -> bool:
        return await self._put(_Record(schedule.tenant, schedule.name, revision, schedule, schedule.due_at_ms))

    async def remove(self, tenant: str, name: str) -> bool:
        return await self._remove("remove_record", self._kind, tenant, name, None)

    async def due(self, now_ms: int, limit: int) -> Sequence[KeptSchedule]:
        return await self._all("records_due", now_ms, limit)

    async def next_due_ms(self) -> int | None:
        ((found,),) = await self._tables.ask("next_record", self._kind)
        return None if found is None else int(found)

    def _with_revision(self, record: Any, revision: int) -> KeptSchedule:
        return KeptSchedule(record, revision)


class Conversations(_Records[Conversation]):
    """Keeps ports.Conversations. Messages are its parts, by number."""

    _kind = CONVERSATION
    _decode = staticmethod(msgspec.json.Decoder(Conversation).decode)

    async def put(self, change: conversations.Change) -> bool:
        kept = change.conversation
        record = _Record(kept.tenant, kept.id, kept.revision, kept, run=kept.run, is_pending=kept.is_pending)
        return await self._put(record, [_Part(f"{each.number:010d}", each) for each in change.exchanges])

    async def remove(self, conversation: Conversation) -> bool:
        kept = conversation
        return await self._remove("remove_record", self._kind, kept.tenant, kept.id, kept.revision)

    async def discard(self, tenant: str, conversation: str) -> bool:
        return await self._remove("discard_record", self._kind, tenant, conversation)

    async def idle(self, before_ms: int, limit: int) -> Sequence[Conversation]:
        return await self._all("records_idle", before_ms, limit)

    async def exchanges(self, tenant: str, name: str) -> Sequence[ConversationTurn]:
        found = await self._tables.ask("parts", self._kind, tenant, name)
        return [decode_exchange(self._sealing.open(body)) for (body,) in found]

    async def due(self, limit: int) -> Sequence[Conversation]:
        return await self._all("records_of_ended_runs", limit)


class Supervisors(_Records[Supervisor]):
    """Keeps ports.Supervisors. Tasks are its parts."""

    _kind = "supervisor"
    _decode = staticmethod(msgspec.json.Decoder(Supervisor).decode)

    async def put(self, change: supervision.Change) -> bool:
        kept = change.supervisor
        tasks = [_Part(each.id, each, each.run, each.ended_ms) for each in change.tasks]
        return await self._put(_Record(kept.tenant, kept.name, kept.revision, kept, due_at_ms(kept)), tasks, KEPT_MS)

    async def remove(self, supervisor: Supervisor) -> bool:
        kept = supervisor
        return await self._remove("remove_record", self._kind, kept.tenant, kept.name, kept.revision)

    async def task(self, tenant: str, name: str, task: str) -> Task | None:
        for (body,) in await self._tables.ask("part", self._kind, tenant, name, task):
            return _decode_task(self._sealing.open(body))
        return None

    async def due(self, now_ms: int, limit: int) -> Sequence[tuple[str, str]]:
        found = await self._tables.ask("records_of_ended_parts", self._kind, now_ms, limit)
        return [(tenant, name) for tenant, name in found]


class NotificationRules(_Records[Rule]):
    """Keeps ports.NotificationRules."""

    _kind = "notification_rule"
    _decode = staticmethod(msgspec.json.Decoder(Rule).decode)

    async def put(self, rule: Rule) -> bool:
        return await self._put(_Record(rule.tenant, rule.name, rule.revision, rule))

    async def remove(self, tenant: str, name: str) -> bool:
        return await self._remove("remove_record", self._kind, tenant, name, None)


class Evaluations(Noun):
    """Keeps ports.Evaluations."""

    async def add(self, evaluation: Evaluation, judged: Sequence[ScenarioResult]) -> None:
        bodies = (self._sealing.seal(evaluation.tenant, encode(each)).decode() for each in (evaluation, tuple(judged)))
        await self._tables.change("add_evaluation", evaluation.id, evaluation.tenant, evaluation.workflow, *bodies)

    async def find(self, id_: str) -> tuple[Evaluation, Sequence[ScenarioResult]] | None:
        for body, judged in await self._tables.ask("evaluation", id_):
            return _decode_evaluation(self._sealing.open(body.encode())), _decode_judged(self._sealing.open(judged.encode()))
        return None

    async def listed(self, tenant: str | None, workflow: str | None, before: str | None, limit: int) -> Sequence[Evaluation]:
        found = await self._tables.ask("evaluations", tenant, workflow, before, limit)
        opened = (self._sealing.readable(_decode_evaluation, body.encode()) for (body,) in found)
        return [each for each in opened if each is not None]
