"""The sinks that the settings name, and the followers that feed them in this process.

Never here: what a sink does, when a follower reads.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import uuid4

from holdfast.analytics import OF_ARCHIVES
from holdfast.compose.notifying import notifying
from holdfast.engine.background.archive_tail import ArchiveTail
from holdfast.engine.background.follower import Follower
from holdfast.engine.runs.runtime import Runtime
from holdfast.platform.spare_time import SpareTime
from holdfast.ports import Sink
from holdfast.settings import Secrets, Settings


def sinks_of(settings: Settings, runtime: Runtime, secrets: Secrets) -> list[Sink]:
    """Return the sinks that the settings name, but for notifications. Raises UsageError, MissingExtra."""
    sinks: list[Sink] = []
    if settings.telemetry is not None:
        from holdfast.compose.telemetry import trace_sink

        sinks.append(trace_sink(settings, settings.telemetry, runtime, secrets))
    if settings.clickhouse is not None:
        from holdfast.compose.clickhouse import clickhouse_sinks

        sinks += clickhouse_sinks(settings.clickhouse, secrets)
    return sinks


@asynccontextmanager
async def following(
    settings: Settings, runtime: Runtime, secrets: Secrets, is_wanted: Callable[[], bool]
) -> AsyncIterator[None]:
    """Feed the sinks inside a block, while `is_wanted` returns that this is the process for it. Raises UsageError."""
    async with AsyncExitStack() as stack:
        spare = SpareTime()
        notifier = await stack.enter_async_context(notifying(settings, runtime, secrets, is_wanted))
        for sink in [*sinks_of(settings, runtime, secrets), *([] if notifier is None else [notifier])]:
            stack.push_async_callback(sink.aclose)
            tail = ArchiveTail(runtime.store) if sink.name == OF_ARCHIVES else None
            follower = Follower(runtime.store, runtime.clock, sink, uuid4().hex, is_wanted, spare.share(), tail)
            stack.push_async_callback(follower.aclose)
            await follower.begin()
            follower.start()
        yield
