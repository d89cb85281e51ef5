"""One run's history in the store: how it becomes a state, and when a snapshot of that state pays.

One is taken when the events since the last are many and outweigh it, so that a step with a long journal is written down a few
times in all. Losing it loses nothing.

Never here: deciding, appending.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import msgspec

from holdfast.core.evolve import evolve
from holdfast.core.facts.events import Event, Recorded
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import FOLD_VERSION, State
from holdfast.core.values.ids import RunId
from holdfast.core.values.payload import Payload
from holdfast.errors import CorruptHistory, NotFound
from holdfast.ports import Log, SnapshotRecord

_EVENT_BYTES: Final = 120
"""What an event costs beside its payloads, roughly, for the decision when a snapshot pays."""

_encode_state = msgspec.json.Encoder().encode
_decode_state = msgspec.json.Decoder(State).decode


@cache
def _payloads_in(kind: type[Event]) -> tuple[str, ...]:
    """The fields of an event that hold a user's value, which outweighs all else about it."""
    return tuple([each.name for each in msgspec.structs.fields(kind) if each.type in (Payload, Payload | None)])


class RunHistory:
    """That of one run, and how much of it lies behind its latest snapshot."""

    def __init__(self, run: RunId, log: Log) -> None:
        self._run = run
        self._log = log
        self._snapshot_seq = 0
        self._snapshot_bytes = 0
        self._tail_bytes = 0

    async def load(self) -> State:
        """The run, folded from its latest snapshot. Raises NotFound, CorruptHistory."""
        history = await self._log.load(self._run, FOLD_VERSION)
        state = State()
        self._snapshot_seq = self._snapshot_bytes = self._tail_bytes = 0
        if history.snapshot is not None:
            try:
                state = _decode_state(history.snapshot.state)
            except (msgspec.DecodeError, RecursionError) as problem:
                raise CorruptHistory(f"The snapshot of run {self._run} cannot be read: {problem}.") from problem
            self._snapshot_seq, self._snapshot_bytes = history.snapshot.seq, len(history.snapshot.state)
        self._fold(state, history.events)
        if not state.seq:
            raise NotFound(f"There is no run {self._run} in this store.")
        return state

    async def catch_up(self, state: State) -> list[Event]:
        """Fold into `state` what others have appended since; what that was."""
        news = await self._log.events(self._run, state.seq)
        self._fold(state, news)
        return [each.event for each in news]

    def _fold(self, state: State, recorded: Sequence[Recorded]) -> None:
        for each in recorded:
            if each.seq != state.seq + 1:
                raise CorruptHistory(f"Run {self._run}: event {each.seq} follows event {state.seq}.")
            evolve(state, each.event, each.at_ms)
            state.trace_id = each.trace_id or state.trace_id
        self.weigh([each.event for each in recorded])

    def weigh(self, events: Sequence[Event]) -> None:
        """Count what has been appended to the tail."""
        for event in events:
            self._tail_bytes += _EVENT_BYTES
            for name in _payloads_in(type(event)):
                payload = getattr(event, name)
                if payload is not None:
                    self._tail_bytes += len(payload.json)

    def snapshot_pays(self, state: State, graph: Graph) -> bool:
        """Whether the tail outweighs the last snapshot, so that a resume costs the same however long the history is."""
        tail = state.seq - self._snapshot_seq
        return tail >= graph.definition.snapshot_every and self._tail_bytes >= self._snapshot_bytes and not state.ended

    async def snapshot(self, state: State) -> None:
        """Keep the folded state. Raises StoreError."""
        encoded = _encode_state(state)
        await self._log.snapshot(self._run, SnapshotRecord(state.seq, FOLD_VERSION, encoded, state.tenant))
        self._snapshot_seq, self._snapshot_bytes, self._tail_bytes = state.seq, len(encoded), 0
