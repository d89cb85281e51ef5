"""The rows beside the history, as the sweep and people's lists ask for them.

Never here: a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import msgspec

from holdfast.core.rules.questions import WORKFLOW_MISSING
from holdfast.core.values.ids import RunId, SessionId
from holdfast.core.values.scopes import PLACEMENT
from holdfast.ports import DueRun, UnplacedRun
from holdfast.stores.archive_store import ArchiveStore
from holdfast.stores.nouns.lists import Lists
from holdfast.stores.row import encode
from holdfast.stores.sqlite.context import StoreContext, StorePort, rows, value

_Waiting = tuple[RunId, str, int | None, str, str | None, int, frozenset[SessionId]]
_decode_waiting = msgspec.json.Decoder(list[_Waiting]).decode


class Views(Lists, StorePort):
    """Keeps ports.Views."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context)
        self._shelf = ArchiveStore(context.ground)

    async def due(self, now_ms: int, hashes: Sequence[str], limit: int) -> Sequence[DueRun]:
        return await self._reader.ask(lambda db: _due(db, now_ms, hashes, limit))

    async def stranded(self, before_ms: int, limit: int) -> Sequence[DueRun]:
        return await self._reader.ask(lambda db: _stranded(db, before_ms, limit))

    async def unplaced(self, after: int, limit: int) -> Sequence[UnplacedRun]:
        asked = {"scope": PLACEMENT, "after": after, "most": limit}
        return [UnplacedRun(*row) for row in await self._reader.ask(lambda db: rows(db, "unplaced", asked))]

    async def wanted_hashes(self, before_ms: int) -> Sequence[str]:
        def read(db: apsw.Connection) -> list[str]:
            dead = encode([session for session, _ in rows(db, "dead_in_flight")]).decode()
            asked = {"before_ms": before_ms, "dead": dead, "scope": PLACEMENT}
            return [hash_ for (hash_,) in rows(db, "wanted_hashes", asked)]

        return await self._reader.ask(read)

    async def next_due_ms(self, hashes: Sequence[str]) -> int | None:
        def read(db: apsw.Connection) -> int | None:
            times = (value(db, "next_due_ms", (hash_,)) for hash_ in hashes)
            return min((time for time in times if time is not None), default=None)

        return await self._reader.ask(read)

    async def unended(self, hashes: Sequence[str]) -> int:
        return await self._reader.ask(lambda db: sum(value(db, "unended", (hash_,)) for hash_ in hashes))


def _due(db: apsw.Connection, now_ms: int, hashes: Sequence[str], limit: int) -> list[DueRun]:
    died_ms: dict[SessionId, int] = dict(rows(db, "dead_in_flight"))
    found: list[_Waiting] = []
    for hash_ in hashes:
        found += _decode_waiting(value(db, "due_runs", {"hash": hash_, "now_ms": now_ms, "most": limit}))
    if died_ms:
        asked = {"dead": encode(list(died_ms)).decode(), "hashes": encode(hashes).decode(), "most": limit}
        found += _decode_waiting(value(db, "lost_runs", asked))
    return _in_order(found, now_ms, died_ms, limit)


def _stranded(db: apsw.Connection, before_ms: int, limit: int) -> list[DueRun]:
    died_ms: dict[SessionId, int] = dict(rows(db, "dead_in_flight"))
    dead = encode([session for session, at_ms in died_ms.items() if at_ms <= before_ms]).decode()
    given: dict[str, Any] = {"before_ms": before_ms, "dead": dead, "scope": PLACEMENT}
    hashes = [hash_ for (hash_,) in rows(db, "stranded_hashes", given)]
    found: list[_Waiting] = []
    for hash_ in hashes:
        asked = {**given, "hash": hash_, "reason": WORKFLOW_MISSING, "most": limit}
        found += _decode_waiting(value(db, "stranded_runs", asked))
    return _in_order(found, before_ms, died_ms, limit)


def _in_order(waiting: Iterable[_Waiting], now_ms: int, died_ms: dict[SessionId, int], limit: int) -> list[DueRun]:
    """The first of these runs, each once, those that have waited longest before the others."""
    due: dict[RunId, tuple[int, DueRun]] = {}
    for run, graph_hash, due_at_ms, tenant, started_by, updated_at_ms, sessions in waiting:
        dead = frozenset(sessions & died_ms.keys())
        times = [died_ms[session] for session in dead]
        if due_at_ms is not None and due_at_ms <= now_ms:
            times.append(due_at_ms)
        due[run] = min(times, default=updated_at_ms), DueRun(run, graph_hash, due_at_ms, tenant, started_by, dead)
    in_order = sorted(due.values(), key=lambda each: each[0])
    return [each for _, each in in_order[:limit]]
