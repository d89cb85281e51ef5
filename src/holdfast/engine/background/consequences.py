"""Consequences of commits outside their run: children begin, parents learn of their ends, conversations go on, supervisors
start their next tasks, and waits for a shared value end.

The process that commits sees to it at once. If it dies before, another finds it in the store: soon if a process was seen to
have died, within LONGEST_S otherwise, so that looking costs next to nothing if there is nothing. Never here: what follows
(engine.background.children, engine.background.dialogue, engine.background.supervising).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import State
from holdfast.core.nouns import conversations, supervision
from holdfast.engine.background.children import Children
from holdfast.engine.background.dialogue import Dialogues
from holdfast.engine.background.shared_waits import SharedWaits
from holdfast.engine.background.supervising import Supervising
from holdfast.engine.runs.errands import Errands
from holdfast.engine.runs.mailbox import Mailbox
from holdfast.engine.runs.payloads import Payloads
from holdfast.engine.runs.runtime import Runtime
from holdfast.models.gateway import Gateway

SHORTEST_S: Final = 0.5
LONGEST_S: Final = 5.0
"""Between two looks into the store: twice as long after each that finds nothing."""
_ENDS: Final = (ev.RunCompleted, ev.RunFailed, ev.RunCancelled)


class Consequences:
    """The consequences that this process sees to. Keeps `runs.Subscriber`."""

    def __init__(
        self, runtime: Runtime, payloads: Payloads, gateway: Gateway | None = None, supervising: Supervising | None = None
    ) -> None:
        self._clock = runtime.clock
        self._errands = Errands(runtime.runs)
        self._children = Children(runtime, payloads, self._errands)
        self._dialogues = Dialogues(runtime, payloads, gateway)
        self._shared = SharedWaits(runtime, self._errands)
        self._supervising = Supervising(runtime, payloads, gateway) if supervising is None else supervising
        self._pause_s = SHORTEST_S
        self._looked_s = self._next_s = -math.inf
        runtime.runs.subscribers.append(self)

    def committed(self, mailbox: Mailbox, events: Sequence[ev.Event], state: State) -> None:
        if not events:
            return
        if isinstance(events[-1], _ENDS) and (supervisor := supervision.named_by(state.key)) is not None:
            self._errands.soon(self._supervising.carry_on(state.tenant, supervisor))
        if not (state.children_asked or state.parent is not None or state.shared or state.shares):
            return
        if state.shares:
            self._shared.committed(events, state)
        self._children.committed(events, state)
        if state.shared and state.parent is None and isinstance(events[-1], _ENDS):
            found = conversations.named_by(state.shared)
            if found is not None:
                self._errands.soon(self._dialogues.carry_on(*found))

    def needs(self, mailbox: Mailbox) -> bool:
        return False

    async def turn(self, *, died: bool) -> None:
        """Have done what others have left undone. `died` says that a process is seen to have done so. Raises StoreError."""
        now_s = self._clock.monotonic_s()
        if died or self._errands.take_left():
            self._pause_s = SHORTEST_S
            self._next_s = min(self._next_s, self._looked_s + SHORTEST_S)
        if now_s < self._next_s:
            return
        found = await self._children.look()
        found += await self._dialogues.look(self._errands)
        found += await self._shared.look()
        found += await self._supervising.look(self._errands)
        self._pause_s = SHORTEST_S if found else min(2 * self._pause_s, LONGEST_S)
        self._looked_s = now_s
        self._next_s = now_s + self._pause_s

    async def aclose(self) -> None:
        """Finish what was begun, if that is soon done."""
        await self._errands.aclose()
