"""The abilities and reports of the processes of a fleet, for the rows that a service shows.

Never here: a command; a question that a user of an engine asks (run_reader).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.values.ids import RunId, SessionId
from holdfast.errors import NotFound
from holdfast.ports import ANY_YAML, Report, Stall, Store

if TYPE_CHECKING:
    from holdfast.core.views.projection import RunRow

_LOST_MS: Final = 3_600_000
"""Time for which a lost process stays listed."""


async def capable(store: Store, graph_hash: str) -> int:
    """Return the number of living processes that can run a workflow, by the hash of its graph."""
    return await store.sessions.able(await _hashes(store, graph_hash))


async def missing_since_ms(store: Store, rows: Sequence[RunRow]) -> Mapping[RunId, int]:
    """Return the time since which no living process can run the workflow of a run. Only runs with this problem are listed."""
    running = [row for row in rows if row.status == "running"]
    since_ms: dict[str, int | None] = {}
    for graph_hash in {row.graph_hash: None for row in running}:
        hashes = await _hashes(store, graph_hash)
        able = await store.sessions.able(hashes)
        since_ms[graph_hash] = None if able else await store.sessions.able_until_ms(hashes) or 0
    return {
        row.run: max(row.due_at_ms or row.updated_at_ms, at_ms)
        for row in running
        if (at_ms := since_ms[row.graph_hash]) is not None
    }


async def _hashes(store: Store, graph_hash: str) -> list[str]:
    """Return the hashes of which a process that can run this workflow has one."""
    from holdfast.core.facts.graph import Definition, Graph  # noqa: PLC0415 - few commands need it

    try:
        definition = msgspec.json.decode(await store.graphs.graph(graph_hash), type=Definition)
    except NotFound:
        return [graph_hash]
    return [graph_hash, *[ANY_YAML] * Graph(definition, is_accepted=True).has_scripts]


async def stalls(store: Store, run: RunId) -> Sequence[Stall]:
    """Return the obstacles to a run that living processes report."""
    from holdfast.engine.capacity import diagnosis  # noqa: PLC0415 - few commands need it

    return [each for report in await diagnosis.living(store.sessions) for each in report.stalls if each.run == run]


async def lost_reports(store: Store) -> Sequence[tuple[Report, int]]:
    """Return the last reports of the processes lost in the last hour, each with the time at which it was found dead."""
    from holdfast.engine.capacity import diagnosis  # noqa: PLC0415 - few commands need it

    return await diagnosis.lost(store.sessions, store.clock.now_ms() - _LOST_MS)


async def names(store: Store, sessions: Collection[SessionId]) -> Mapping[SessionId, str]:
    """Return the names, `host:pid`, of the processes of sessions, if still known."""
    return await store.sessions.labels(sessions) if sessions else {}
