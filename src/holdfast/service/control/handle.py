"""A handle on a run: asked and waited for by its id, from any process.

Never here: telling a run anything (command).
"""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

from holdfast.authoring.values.adapter import PLAIN
from holdfast.authoring.workflow import Output_co
from holdfast.core.facts.events import Recorded, StepCancelled, StepCompleted, StepFailed
from holdfast.core.facts.state import State
from holdfast.core.values.ids import RunId, is_item, map_of, node_of
from holdfast.core.values.scopes import with_headroom
from holdfast.core.views.status import may_be_placed, status
from holdfast.errors import RunFailed, SchemaMismatch
from holdfast.platform.own_loop import OfLoop
from holdfast.ports import ANY_YAML

if TYPE_CHECKING:
    from holdfast.engine.runs.payloads import Payloads
    from holdfast.engine.steps.executor import Executor
    from holdfast.ports import Log

log = logging.getLogger("holdfast")

_LOOK_AGAIN_S: Final = 30.0
_BEGUN_S: Final = 0.02
"""How often to look for a child that was asked for, or for its parent's hearing of its end."""
_HOPE_S: Final = 1.0
"""The same of a run that waits for a place: no commit of its own reports that there may be one."""
_MAX_WAITING: Final = 2_000
"""Of those who wait above runs and have room, how many are looked at."""
_EVENTS: Final = 1000
_MAX_PAGES: Final = 20
"""How much of a history is read for a page of items: a few megabytes."""
_ENDS: Final = (StepCompleted, StepFailed, StepCancelled)


class ItemPage(NamedTuple):
    """Items that have ended, as the events that say so, and after which event there may be more; None: there are none."""

    ends: Sequence[Recorded]
    after: int | None


class Run(OfLoop, Generic[Output_co]):
    """A handle on a run, `Run[O]` of a `Flow[I, O]`: query it and wait for it, from any process."""

    id: str
    """Id of the run."""

    def __init__(self, executor: Executor, run: RunId, log: Log | None = None) -> None:
        """`log`: where its history is read, if not in the engine's own."""
        self._executor = executor
        self._log = log if log is not None else executor.services.runtime.store.log
        self._runtime = executor.services.runtime
        self._loop = self._runtime.loop
        self.id = run
        self._run = run

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    async def state(self) -> State:
        """Return the run's state after all events committed by now."""
        return await self._runtime.runs.state(self._run)

    async def status(self) -> str:
        """Return the run's status."""
        return status(await self.state())

    async def result(self) -> Output_co:
        """Wait for the run's end and return its output. The output of a flow whose code is here has the declared type; others
        are JSON data.

        Raises:
            RunFailed: The run failed or was cancelled; its error is attached.
        """
        if not self._runtime.membership.works:
            await self._warn_if_nobody_works()
        state = await self._until(lambda state: bool(state.ended), fresh=False, at_end=True)
        if state.ended == "failed":  # unless it has just been taken up again elsewhere
            state = await self._until(lambda state: bool(state.ended), fresh=True, at_end=True)
        if state.ended == "completed":
            found: Output_co = self._typed(state, await output(self._executor.services.payloads, state))
            return found
        error = state.error
        why = error.message if error is not None else state.reason
        raise RunFailed(f"Run {self.id} {state.ended}: {why}", run=self.id, status=state.ended, error=error)

    def _typed(self, state: State, plain: Any) -> Any:
        """Return an output as the run's workflow says that it returns it. What other code has written, and does not fit, stays
        as it is."""
        workflow = self._runtime.catalog.workflows.get(state.graph_hash)
        if workflow is None or workflow.returns is PLAIN:
            return plain
        try:
            return workflow.returns.load(plain)
        except SchemaMismatch:
            return plain

    async def _warn_if_nobody_works(self) -> None:
        """The run's row tells it: its history is read by who waits for its end, and once."""
        store = self._runtime.store
        row = await store.views.run(self._run)
        if row is None or row.ended_at_ms is not None or await store.sessions.able([row.graph_hash, ANY_YAML]):
            return
        log.warning(
            "Start a worker (holdfast worker FILE.py:%s), or open the engine without execute=False: no process executes run %s,"
            " whose result is waited for here. No live process has its workflow.",
            row.workflow,
            self.id,
        )

    async def until(self, met: Callable[[State], bool]) -> State:
        """Wait for a state and return it.

        Args:
            met: Condition, called with the state after every commit.
        """
        return await self._until(met, fresh=True)

    async def _until(self, condition: Callable[[State], bool], *, fresh: bool, at_end: bool = False) -> State:
        """`fresh`: what was heard here of the run may be out of date by what another process has just committed, and
        `condition` may hold of it no longer. `at_end`: it holds of no run that has not ended."""
        runtime = self._runtime
        async with runtime.runs.watch(self._run, condition, at_end=at_end) as changed:
            changed.elsewhere = fresh
            while True:
                changed.clear()
                fresh, changed.elsewhere = changed.elsewhere, False
                state = await runtime.runs.state(self._run, fresh=fresh)
                changed.seq = state.seq
                if condition(state):
                    return state
                if runtime.membership.broken is not None:
                    raise runtime.membership.broken
                again_s = _HOPE_S if may_be_placed(state) else _LOOK_AGAIN_S
                try:
                    async with asyncio.timeout(again_s):  # wait_for may swallow a cancellation of the wait
                        await changed.wait()
                except TimeoutError:
                    changed.elsewhere = True  # a commit elsewhere may not have been announced

    async def settled(self) -> State:
        """Wait until the run has ended, or waits for a person, a signal or money, is paused, or has no prospect of a place. A
        run that waits for children is not settled while one of them goes on."""
        while True:
            state = await self.until(self.is_idle)
            busy = await self._busy_child(state)
            if busy is None and not await self._has_room(state):
                return state
            await self._runtime.clock.sleep(_BEGUN_S)
            if busy is not None and await busy._has_begun():
                await busy.settled()

    async def is_settled(self, state: State) -> bool:
        """Return True if the run, and each child it waits for, goes no further by itself.

        Args:
            state: State of the run.
        """
        return self.is_idle(state) and await self._busy_child(state) is None and not await self._has_room(state)

    async def _has_room(self, state: State) -> bool:
        """Return True if this process is about to give the run the room it waits for: a limit above it was raised, and no run
        before it takes all of that."""
        if not (state.short and self._executor.places(state)):
            return False
        return self._run in with_headroom(await self._runtime.store.scopes.headroom(_MAX_WAITING))

    async def _busy_child(self, state: State) -> Run[Any] | None:
        """A child that goes on by itself, or has a child that does."""
        for name, _ in list(state.open_children()):
            child: Run[Any] = Run(self._executor, name)
            if not await child._has_begun():
                return child
            now = await child.state()
            if now.ended or not child.is_idle(now):
                return child
            if (busy := await child._busy_child(now)) is not None:
                return busy
        return None

    async def _has_begun(self) -> bool:
        return await self._runtime.store.views.run(self._run) is not None

    def is_idle(self, state: State) -> bool:
        """Return True if the run goes no further by itself, as far as this process knows.

        Args:
            state: State of the run.
        """
        return is_idle(state) and not self._executor.may_place(state)

    def needs_somebody(self, state: State) -> bool:
        """Do the same as `is_idle`. Deprecated.

        Args:
            state: State of the run.
        """
        warnings.warn("needs_somebody() has become is_idle(), and will be removed in 0.3.", DeprecationWarning, stacklevel=2)
        return self.is_idle(state)

    async def events(self, after: int = 0, limit: int | None = None) -> Sequence[Recorded]:
        """Return the run's history.

        Args:
            after: Number of the last known event; 0 for the beginning.
            limit: Maximum number of events; by default all.
        """
        return await self._log.events(self._run, after, limit)

    async def items(self, map_: str, after: int = 0, limit: int = 100) -> ItemPage:
        """Return the ended items of a map, in the order in which they ended. A page may be shorter than `limit` if much history
        lies between them.

        Args:
            map_: Name of the map: `review`, in a flow `flow/2`.
            after: Number of the event after which to begin.
            limit: Maximum number of items.
        """
        found: list[Recorded] = []
        for _ in range(_MAX_PAGES):
            page = await self.events(after, _EVENTS)
            for each in page:
                after = each.seq
                if isinstance(each.event, _ENDS) and is_item(name := node_of(each.event.step)) and map_of(name) == map_:
                    found.append(each)
                    if len(found) == limit:
                        return ItemPage(found, after)
            if len(page) < _EVENTS:
                return ItemPage(found, None)
        return ItemPage(found, after)


async def output(payloads: Payloads, state: State) -> Any:
    """Return a completed run's result."""
    if state.parts:
        return {name: await payloads.value(part, state.tenant) for name, part in state.parts.items()}
    return await payloads.value(state.output, state.tenant)


def is_idle(state: State) -> bool:
    """True if the run goes no further by itself: it has ended, is paused, or waits for more than time. One that waits for a
    place may be given it; the process that places knows."""
    now = status(state)
    if now in ("running", "waiting"):
        timed = any(state.steps[name].status == "retrying" for name in state.unfinished) or any(
            (op.status == "open" and op.kind == "sleep") or op.status in ("deferred", "retrying")
            for name in state.unfinished
            for _, op in state.steps[name].unsettled()
        )
        timed = timed or state.awaits is not None or any(map_.due_at_ms is not None for map_ in state.maps.values())
        return now == "waiting" and not timed and not any(due is not None for due in state.joins.values())
    return True
