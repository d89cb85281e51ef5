"""Tells steps of the versions of shared values that they wait for.

Who writes a value, or begins to wait for one, looks at once; what his death left undone is found by who looks at all waits.
Never here: what a wait is (core.rules.sharing).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import State
from holdfast.core.values.payload import inline
from holdfast.engine.runs.background_tasks import BackgroundTasks
from holdfast.engine.runs.runtime import Runtime
from holdfast.errors import Conflict
from holdfast.ports import SharedArrival

_MOST: Final = 200
"""Waits of one look; the rest is the next one's."""


class SharedWaits:
    """The waits for shared values of the store, as one process sees to them."""

    def __init__(self, runtime: Runtime, background_tasks: BackgroundTasks) -> None:
        self._runtime = runtime
        self._values = runtime.store.shared_values
        self._errands = background_tasks

    def committed(self, events: Sequence[ev.Event], state: State) -> None:
        """Values were written, or are waited for, of which there may be a later version by now."""
        names = {
            (state.tenant, event.space, event.key)
            for event in events
            if isinstance(event, ev.SharedValueWritten | ev.SharedValueAwaited)
        }
        for name in names:
            self._errands.soon(self.look(name))

    async def look(self, name: tuple[str, str, str] | None = None) -> int:
        """Tell those who wait for a version of that value, or of any, that is there; how many they were. Raises StoreError."""
        found = await self._values.arrivals(name, _MOST)
        for arrival in found:
            self._errands.soon(self._bring(arrival))
        return len(found)

    async def _bring(self, arrival: SharedArrival) -> None:
        command = cmd.BringSharedValue(arrival.step, arrival.path, inline(arrival.version), arrival.version.authors)
        try:
            await self._runtime.runs.send(arrival.run, command)
        except Conflict:
            return  # it has ended meanwhile
