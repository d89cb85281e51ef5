"""Brings children into being, has them do as their parents do, and tells the parents of their ends.

What a commit asks for is seen to at once by the process that made it. What a crash left undone is found in the store, by
whoever looks next: starting a child, telling of its end and calling it off may each happen twice, and count once. Nobody waits
in here for a child, and a parent that waits holds nothing. Never here: a rule.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from typing import Final

from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.facts.contribution import contributors
from holdfast.core.facts.state import Child, State
from holdfast.core.values.actor import Actor
from holdfast.core.values.ids import RunId
from holdfast.core.values.payload import NULL, Payload
from holdfast.core.values.policies import CANCELLED, VALIDATION, ErrorRecord
from holdfast.engine.runs.background_tasks import BackgroundTasks
from holdfast.engine.runs.payloads import Payloads
from holdfast.engine.runs.runtime import Runtime
from holdfast.errors import Conflict, CorruptHistory, HoldfastError, NotFound, RunEnded, StoreError, UsageError
from holdfast.ports import ChildLink

log = logging.getLogger("holdfast")

_PICKUP_MS: Final = 1000
"""How long what is pending is left to the process that made it so."""
_MOST: Final = 200
"""Of one look; the rest is the next one's."""
_MAX_TIMES: Final = 5
"""How often a child is looked at again about which more was said meanwhile; then it is the next look's."""
_ENDS: Final = (ev.RunCompleted, ev.RunFailed, ev.RunCancelled)


class Children:
    """The children that this process sees to."""

    def __init__(self, runtime: Runtime, payloads: Payloads, background_tasks: BackgroundTasks) -> None:
        self._runtime = runtime
        self._runs = runtime.runs
        self._links = runtime.store.children
        self._payloads = payloads
        self._soon = background_tasks.soon

    # --- At once ------------------------------------------------------------------------------------------------------

    def committed(self, events: Sequence[ev.Event], state: State) -> None:
        for event in events:
            match event:
                case ev.ChildRequested() if (child := state.children.get(event.child)) is not None:
                    self._soon(self._bring(event.child, child.graph_hash, _wishes(state, event.child, child, event.again)))
                case ev.ChildUndone():
                    self._soon(self._undo(event.child, state))
                case ev.ChildAbandoned():
                    self._soon(self._look(event.child))
                case ev.RunPaused() | ev.RunResumed():
                    for name, _ in state.open_children():
                        self._soon(self._look(name))
                case _:
                    pass
        if state.parent is not None and isinstance(events[-1], _ENDS):
            self._soon(self._tell(state.run))

    # --- What was left undone -----------------------------------------------------------------------------------------

    async def look(self) -> int:
        """See to what has been pending for so long that no process can be at it, and return how much it was. Raises
        StoreError."""
        pending = await self._links.pending(self._runtime.store.clock.now_ms() - _PICKUP_MS, _MOST)
        mine = [each for each in pending if not {each.child, each.parent} & self._runs.damaged]
        for link in mine:
            self._soon(self._see_to(link))
        return len(mine)

    async def _look(self, child: RunId) -> None:
        link = await self._links.link(child)
        if link is not None and link.is_pending:
            await self._see_to(link)

    async def _see_to(self, link: ChildLink) -> None:
        """Do what is to be done about a child. Where its parent has said more meanwhile, it is seen to again: who says it last
        to the child must have said the latest."""
        for _ in range(_MAX_TIMES):
            try:
                if link.state == "requested":
                    await self._start(link)
                elif link.state == "ended":
                    await self._tell(link.child)
                if link.ordered > link.heeded:
                    await self._order(link)
            except CorruptHistory as problem:
                log.error(
                    "holdfast leaves child %s of run %s alone: %s",
                    link.child,
                    link.parent,
                    problem,
                    extra={"run_id": link.child},
                )
                self._runs.damaged.add(link.child)
                return
            if await self._links.settle(link):
                return
            now = await self._links.link(link.child)
            if now is None or not (now.is_pending or now.ordered != link.ordered):
                return
            link = now

    async def _start(self, link: ChildLink) -> None:
        parent = await self._runs.state(link.parent)
        child = parent.children.get(link.child)
        if child is None or child.ended:
            return
        if child.undoing:
            await self._undo(link.child, parent)
            return
        again = bool(await self._runtime.store.log.seqs([link.child]))
        await self._bring(link.child, child.graph_hash, _wishes(parent, link.child, child, again))

    # --- Steps on the way ---------------------------------------------------------------------------------------------

    async def _bring(self, child: RunId, graph_hash: str, wishes: Sequence[cmd.Command]) -> None:
        """Have a child begin, and what its parent wants of it besides decided in the same breath: one whose parent was paused
        or cancelled meanwhile starts no step. One that was started before is left as it is."""
        begins = isinstance(wishes[0], cmd.StartRun)
        graph = await self._runtime.catalog.graph_of(graph_hash)
        mailbox = self._runs.begin(child, graph) if begins else self._runs.mailbox(child)
        told = [mailbox.post(wish) for wish in wishes]
        await asyncio.wait(told)
        refusals = [each.exception() for each in told]  # each is looked at, or asyncio complains of it
        if isinstance(refused := refusals[0], UsageError):
            start = wishes[0]
            assert isinstance(start, cmd.StartRun)
            assert start.parent is not None
            await self._end(start.parent.run, cmd.EndChild(child, "failed", error=_refused(refused, self._runs.now_ms())))
        elif isinstance(refused, RunEnded):
            await self._tell(child)  # it cannot be taken up again: what became of it stands
        elif refused is not None and not isinstance(refused, Conflict):
            raise refused

    async def _undo(self, child: RunId, parent: State) -> None:
        """Have a child that has completed undo what it did. Where it cannot, its parent hears why."""
        reason, run = f"undone: run {parent.run}, which asked for it, {_describe_parent(parent)}", parent.run
        try:
            if await self._runtime.store.log.is_archived(child):
                raise Conflict(f"Run {child} is archived with its month.")
            await self._runs.send(child, cmd.UndoRun(reason))
        except RunEnded:
            await self._tell(child)
        except (StoreError, CorruptHistory):
            raise
        except HoldfastError as problem:
            error = ErrorRecord("", VALIDATION, problem.message, False, self._runs.now_ms())
            await self._end(run, cmd.EndChild(child, "failed", error=error))

    async def _order(self, link: ChildLink) -> None:
        """Have a child do as its parent does now."""
        parent = await self._runs.state(link.parent)
        child = parent.children.get(link.child)
        wish = _wish(parent, child) or cmd.ResumeRun()
        with contextlib.suppress(RunEnded, NotFound):  # it has ended by itself, or is still to begin, with this
            await self._runs.send(link.child, wish)

    async def _tell(self, child: RunId) -> None:
        """Bring the end of a child to its parent."""
        state = await self._runs.state(child)
        if state.parent is None or not state.ended:
            return
        output = await self._output(state) if state.ended == "completed" else NULL
        error = state.error
        if state.ended == "cancelled":
            error = ErrorRecord("", CANCELLED, state.reason or "cancelled", False, state.ended_at_ms)
        if state.ended == "completed":
            error = None
        end = cmd.EndChild(
            child,
            state.ended,
            output,
            error,
            undoable=bool(state.compensable),
            contributors=contributors(state),
            makers={**state.makers},
        )
        await self._end(state.parent.run, end)

    async def _end(self, parent: RunId, end: cmd.EndChild) -> None:
        try:
            if await self._runs.send(parent, end):
                return
        except (RunEnded, NotFound):
            pass
        # The parent does not wait any more, so nothing has to be sent.
        link = await self._links.link(end.child)
        if link is not None and link.state == "ended":
            await self._links.settle(link)

    async def _output(self, state: State) -> Payload:
        """Return a child's result as its parent keeps it: a large value for as long as the parent's own months."""
        if not state.parts and state.output.blob is None:
            return state.output
        parts = {name: await self._payloads.value(part, state.tenant) for name, part in state.parts.items()}
        value = parts if state.parts else await self._payloads.value(state.output, state.tenant)
        return await self._payloads.keep(value, state.tenant, self._runtime.store.clock.now_ms())


def _wishes(parent: State, name: RunId, child: Child, again: bool) -> list[cmd.Command]:
    """Return the commands that a child begins with."""
    if again:
        begin: cmd.Command = cmd.RetryRun(contributors=contributors(parent), makers={**parent.makers})
    else:
        depth = parent.parent.depth + 1 if parent.parent is not None else 1
        begin = cmd.StartRun(
            name,
            parent.tenant,
            child.input,
            child.args_hash,
            child.limit_nanousd,
            by=Actor(
                parent.by, parent.os_user, parent.client, parent.trace_id, roles=parent.roles, traceparent=parent.traceparent
            ),
            price_fingerprint=parent.price_fingerprint,
            team=parent.team,
            parent=ev.Parent(parent.run, child.step, child.path, parent.root, depth),
            shared=parent.shared,
            max_tokens=child.max_tokens,
            agent=child.agent,
            contributors=contributors(parent),
            makers={**parent.makers},
        )
    wish = _wish(parent, child)
    return [begin] if wish is None else [begin, wish]


def _wish(parent: State, child: Child | None) -> cmd.Command | None:
    """Return the command that has a child do as its parent does; None if it is to go on."""
    if parent.ended or child is None or child.abandoned or (parent.phase and not parent.cleans_up(child.step)):
        return cmd.CancelRun(f"run {parent.run}, which asked for it, {_describe_parent(parent)}")
    return cmd.PauseRun() if parent.paused else None


def _describe_parent(parent: State) -> str:
    if parent.phase == "cancelling" or parent.ended == "cancelled":
        return f"is cancelled: {parent.reason}" if parent.reason else "is cancelled"
    return "has failed" if parent.phase == "failing" or parent.ended == "failed" else "goes on without it"


def _refused(problem: HoldfastError, at_ms: int) -> ErrorRecord:
    return ErrorRecord("", VALIDATION, f"It could not be started. {problem.message}", False, at_ms)
