"""A process that exports is killed between its batches: what it derived and what follows arrive, with the ids that they had."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast import Engine
from holdfast.core.views.spans import spans
from tests.engine.kit import bounded
from tests.forks import Fork
from tests.telemetry import dying
from tests.telemetry.receiver import Received, http_receiver


async def until(received: Received, count: int) -> None:
    while len(received.spans) < count:
        await asyncio.sleep(0.01)


@bounded
async def test_every_span_arrives_though_the_exporter_is_killed_with_the_same_ids(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'holdfast.db'}"
    with http_receiver() as (endpoint, received):
        process = Fork("tests.telemetry.dying", store, endpoint)
        try:
            await until(received, 40)
        finally:
            process.kill()
            process.wait()
        async with Engine.open(store, settings=dying.settings(store, endpoint), workflows=[dying.counting]) as engine:
            wanted: dict[str, str] = {}
            for row in await engine.runs(limit=1000):
                await engine.run(row.run).result()
                for span in spans(await engine.store.log.events(row.run)):
                    wanted[span.span_id] = f"{span.began_at_ms}-{span.ended_at_ms}"
            async with asyncio.timeout(30):
                while not wanted.keys() <= {span.span_id.hex() for span in received.spans}:
                    await asyncio.sleep(0.02)
    for span in received.spans:
        times = f"{span.start_time_unix_nano // 1_000_000}-{span.end_time_unix_nano // 1_000_000}"
        assert wanted[span.span_id.hex()] == times, "a repeat is the same span"
