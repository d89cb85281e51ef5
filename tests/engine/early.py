"""A run as early versions left it whose process stood still for too long: its step is suspended, and nothing wakes it.

Never here: what is made of it.
"""

from __future__ import annotations

import uuid

import msgspec

from holdfast.core.evolve import evolve
from holdfast.core.facts import events as ev
from holdfast.core.values.ids import AppendId, RunId, Seq, SessionId
from holdfast.core.views.projection import project
from holdfast.engine.runs.mailbox import RunHistory
from holdfast.ports import Append, Store


async def strand(store: Store, run: str) -> None:
    """Have the ready steps of a run begun by a process, and left for nothing. Its row is as early versions wrote it."""
    state = await RunHistory(RunId(run), store.log).load()
    before, now_ms = state.seq, store.clock.now_ms()
    events: list[ev.Event] = []
    for name in [*state.startable]:
        step = state.steps[name]
        begun = ev.StepStarted(step.id, step.attempt + 1, SessionId("a process that stood still"))
        events += [begun, ev.StepSuspended(step.id, step.attempt + 1)]
    for event in events:
        evolve(state, event, now_ms)
    changes = project(state, events, executing=False)
    row = msgspec.structs.replace(changes.run, waiting_for=b"[]", due_at_ms=None)
    recorded = tuple(ev.Recorded(Seq(before + n), now_ms, event, None) for n, event in enumerate(events, 1))
    changed = msgspec.structs.replace(changes, run=row)
    await store.log.append([Append(RunId(run), before, AppendId(uuid.uuid4().hex), recorded, changed)])
