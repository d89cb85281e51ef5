"""Counts of a store's rows, for metrics.

Never here: a count without a bound, what is made of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, get_args

import msgspec

from holdfast.core.views.status import ENDED, Status, Wait
from holdfast.ports import GateCount, StoreCounts
from holdfast.ports.figures import MAX_COUNTED, MAX_READ
from holdfast.stores.nouns.tables import Noun

_OPEN: Final = tuple(status for status in get_args(Status) if status not in ENDED)
_decode_waits = msgspec.json.Decoder(list[Wait]).decode


class Census(Noun):
    """Keeps ports.Census."""

    async def counts(self) -> StoreCounts:
        now_ms = self._clock.now_ms()
        runs = {status: await self._count("count_runs", status) for status in _OPEN}
        due, held = (await self._tables.ask("count_running", now_ms, MAX_COUNTED))[0]
        gates = [GateCount(*row) for row in await self._tables.ask("count_gates", now_ms, MAX_COUNTED)]
        in_doubt, in_doubt_nanousd = (await self._tables.ask("count_doubts", MAX_COUNTED))[0]
        return StoreCounts(
            runs,
            await self._waits(runs),
            {**dict(await self._tables.ask("count_waiters", MAX_COUNTED)), "slot": due},
            sorted(gates),
            held,
            in_doubt_nanousd,
            {"model": in_doubt, "effect": await self._count("count_effects")},
            await self._count("count_letters"),
        )

    async def _count(self, statement: str, *bound: str) -> int:
        ((found,),) = await self._tables.ask(statement, *bound, MAX_COUNTED)
        return int(found)

    async def _waits(self, runs: Mapping[str, int]) -> Mapping[str, int]:
        counts: Counter[str] = Counter()
        for status, all_ in runs.items():
            if not all_:
                continue
            rows = await self._tables.ask("waits_of_runs", status, MAX_READ)
            read: Counter[str] = Counter()
            for (waits,) in rows:
                read.update({wait.kind for wait in _decode_waits(waits)})
            for kind, number in read.items():
                counts[kind] += round(number * max(1.0, all_ / len(rows)))
        return dict(counts)
