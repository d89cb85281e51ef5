"""Derives spans from committed events and sends them: the sink of traces.

What is kept in memory is bounded: the runs under way that were seen last, and what of one batch was not taken yet. A run that
is not in memory is read again from its history, so a process that takes over goes on with the same spans. Never here: how a
batch is read, when it is tried again (engine.background.follower).
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from holdfast.core.facts.events import RunCancelled, RunCompleted, RunFailed, RunStarted
from holdfast.core.values.ids import RunId, Seq
from holdfast.core.values.trace import is_sampled
from holdfast.core.views.span_parts import Span
from holdfast.core.views.spans import Spans
from holdfast.errors import HoldfastError, StoreError
from holdfast.ports import CommittedEvent, Log, SinkUnavailable
from holdfast.telemetry.exporter import Exporter, Refused
from holdfast.telemetry.names import Run
from holdfast.telemetry.otlp import Exported

log = logging.getLogger("holdfast")

NAME: Final = "traces"
_BATCH: Final = 200
_MAX_SPANS: Final = 500
"""Spans in one request: about 500 kB."""
_MAX_RUNS: Final = 2000
"""Runs of which what is under way is kept in memory."""
_PAGE: Final = 2000
_ENDS: Final = (RunCompleted, RunFailed, RunCancelled)


class TraceSink:
    """Sends the spans of all runs to a receiver."""

    name: Final = NAME
    begins: Final[Literal["now"]] = "now"
    batch: Final = _BATCH

    def __init__(
        self, log_: Log, exporter: Exporter[Sequence[Exported]], ratio: float, headers: Callable[[], Mapping[str, str]]
    ) -> None:
        """`headers` returns those of each request; it raises MissingSecret where one has no value."""
        self._log = log_
        self._exporter = exporter
        self._ratio = ratio
        self._headers = headers
        self._runs: OrderedDict[RunId, Spans] = OrderedDict()
        self._untaken: dict[tuple[RunId, int], list[Span]] = {}
        """Derived spans that the receiver has not taken: they are sent unchanged when the batch comes again."""

    async def take(self, events: Sequence[CommittedEvent]) -> int:
        """Return when the receiver has the spans of these: the number of events and spans that were dropped."""
        dropped, sent = 0, 0
        spans: list[Exported] = []
        before, self._untaken = self._untaken, {}
        for event in events:
            found = before.get((event.run, event.recorded.seq))
            if found is None:
                try:
                    found = await self._derive(event)
                except StoreError as problem:
                    raise SinkUnavailable(f"the store cannot be read: {problem.message}") from problem
                except Exception as problem:  # noqa: BLE001 - one history that cannot be read keeps no other
                    self._runs.pop(event.run, None)
                    log.warning("holdfast drops event %s of run %s from its traces: %s", event.recorded.seq, event.run, problem)
                    found, dropped = [], dropped + 1
                self._untaken[event.run, event.recorded.seq] = found
            run = Run(event.run, event.tenant, event.workflow, event.version)
            spans += [Exported(span, run) for span in found]
        while sent < len(spans):
            dropped += await self._send(spans[sent : sent + _MAX_SPANS])
            sent += _MAX_SPANS
        self._untaken.clear()
        return dropped

    async def aclose(self) -> None:
        """Close the connection."""
        await self._exporter.aclose()

    async def _send(self, spans: Sequence[Exported]) -> int:
        """Send spans; those that the receiver refuses are dropped, and no others with them."""
        try:
            headers = self._headers()
        except HoldfastError as problem:
            raise SinkUnavailable(problem.message) from None
        try:
            return await self._exporter.send(spans, headers)
        except Refused as problem:
            if len(spans) == 1:
                log.warning("holdfast drops span %s: %s", spans[0].span.span_id, problem)
                return 1
        half = len(spans) // 2
        return await self._send(spans[:half]) + await self._send(spans[half:])

    async def _derive(self, event: CommittedEvent) -> list[Span]:
        """Return the spans that ended with an event."""
        run, seq = event.run, event.recorded.seq
        gathered = self._runs.get(run)
        if isinstance(event.recorded.event, RunStarted):
            gathered = Spans()
        elif gathered is None or gathered.seq >= seq:
            gathered = Spans()
            await self._catch_up(gathered, run, seq)
        elif gathered.seq + 1 < seq:
            await self._catch_up(gathered, run, seq)
        if gathered.seq and not is_sampled(gathered.context, self._ratio):
            found, gathered.seq = [], seq
        else:
            found = gathered.add(event.recorded)
        self._runs[run] = gathered
        self._runs.move_to_end(run)
        if isinstance(event.recorded.event, _ENDS):
            del self._runs[run]
        elif len(self._runs) > _MAX_RUNS:
            self._runs.popitem(last=False)
        return found if is_sampled(gathered.context, self._ratio) else []

    async def _catch_up(self, gathered: Spans, run: RunId, until: int) -> None:
        """Take in the events of a run before `until`, which were exported before."""
        while gathered.seq + 1 < until:
            page = await self._log.events(run, gathered.seq, min(_PAGE, until - 1 - gathered.seq))
            for recorded in page:
                gathered.add(recorded)
                if not is_sampled(gathered.context, self._ratio):
                    gathered.seq = Seq(until - 1)  # nothing of it is sent, so nothing more is read
                    return
            if not page:
                raise LookupError(f"its history ends with event {gathered.seq}")
