"""Work of a process after its commits. Outside the run: children begin, parents learn of their ends, conversations go on,
supervisors start their next tasks, and waits for a shared value end. Inside it: guards are asked, outside of any decision, and
a run that falls due so soon that a sweep would come late gets its tick.

The process that commits sees to it at once. If it dies before, another finds it in the store: soon if a process was seen to
have died, within LONGEST_S otherwise, so that looking costs next to nothing if there is nothing. Never here: what follows
(engine.background.children, engine.background.dialogue, engine.background.supervising; core for guards and ticks).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.authoring.values.sensitive import seal_for
from holdfast.authoring.values.view import StateView
from holdfast.authoring.workflow import Workflow
from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.facts.commands import Tick, Verdict
from holdfast.core.facts.events import Event
from holdfast.core.facts.state import Question, State
from holdfast.core.nouns import conversations, supervision
from holdfast.core.rules.limits import with_above
from holdfast.core.values.ids import RunId, node_of
from holdfast.core.values.policies import GUARD, ErrorRecord
from holdfast.core.values.remainder import ScopeLeft
from holdfast.engine.background.children import Children
from holdfast.engine.background.conversation_runner import ConversationRunner
from holdfast.engine.background.shared_waits import SharedWaits
from holdfast.engine.background.supervising import Supervising
from holdfast.engine.runs.background_tasks import BackgroundTasks
from holdfast.engine.runs.mailbox import Mailbox, unheard
from holdfast.engine.runs.payloads import Payloads, read
from holdfast.engine.runs.runtime import Runtime
from holdfast.errors import BlobLost, Conflict, NotFound, StoreError, TransitionDenied
from holdfast.models.gateway import Gateway
from holdfast.platform.border import is_ours, text_of, words_of
from holdfast.platform.log_ids import LogIds, enter

SHORTEST_S: Final = 0.5
LONGEST_S: Final = 5.0
"""Between two looks into the store: twice as long after each that finds nothing."""
_ENDS: Final = (ev.RunCompleted, ev.RunFailed, ev.RunCancelled)


class FollowUps:
    """The consequences that this process sees to. Keeps `runs.Subscriber`."""

    def __init__(
        self, runtime: Runtime, payloads: Payloads, gateway: Gateway | None = None, supervising: Supervising | None = None
    ) -> None:
        self._clock = runtime.clock
        self._errands = BackgroundTasks(runtime.runs)
        self._children = Children(runtime, payloads, self._errands)
        self._dialogues = ConversationRunner(runtime, payloads, gateway)
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


_SOON_MS: Final = 1000
_MOST: Final = 10_000

log = logging.getLogger("holdfast")


class Reminders:
    """The reminders of one process, one for each run at most."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._tasks: dict[RunId, asyncio.Task[None]] = {}

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def committed(self, mailbox: Mailbox, events: Sequence[Event]) -> None:
        """A run has gone on: see that it is looked at, if it falls due within a second."""
        if not events or mailbox.due_at_ms is None:
            return
        run, due_in_ms = mailbox.run, mailbox.due_at_ms - self._runtime.store.clock.now_ms()
        if not 0 < due_in_ms < _SOON_MS:
            return
        if (sooner := self._tasks.pop(run, None)) is not None:
            sooner.cancel()
        elif len(self._tasks) >= _MOST:
            return  # the sweep is good enough
        self._tasks[run] = asyncio.create_task(self._look_at(run, due_in_ms), name=f"holdfast-due-{run}")

    async def _look_at(self, run: RunId, due_in_ms: int) -> None:
        await self._runtime.clock.sleep((due_in_ms + 1) / 1000)
        del self._tasks[run]
        self._runtime.runs.mailbox(run).post(Tick()).add_done_callback(unheard)

    async def aclose(self) -> None:
        tasks = [*self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class GuardJudge:
    """The guards of one process's workflows: each run's are asked by one task at a time."""

    def __init__(
        self,
        payloads: Payloads,
        workflows: Mapping[str, Workflow],
        now_ms: Callable[[], int],
        above: Callable[[State, Question], Awaitable[tuple[ScopeLeft, ...]]],
    ) -> None:
        """`above` reads what is left of the budgets above a run; of a replay, what the guard was shown then."""
        self._above = above
        self._payloads = payloads
        self._workflows = workflows
        self._now_ms = now_ms
        self._judging: dict[RunId, asyncio.Task[None]] = {}

    def __bool__(self) -> bool:
        return bool(self._judging)

    def __contains__(self, run: RunId) -> bool:
        """True if the guards of a run are being asked."""
        return run in self._judging

    def committed(self, mailbox: Mailbox, state: State) -> None:
        """A run has gone on: ask the guards that are to be asked, unless they are being asked already."""
        if _asks(state) and mailbox.run not in self._judging:
            task = asyncio.create_task(self._judge(mailbox), name=f"holdfast-guards-{mailbox.run}")
            self._judging[mailbox.run] = task

    async def aclose(self) -> None:
        """Stop asking: the process that takes up the runs asks again."""
        tasks = [*self._judging.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _judge(self, mailbox: Mailbox) -> None:
        try:
            state = await mailbox.stable()
            seal_for(state.tenant, self._payloads.sealing)
            enter(LogIds(state.run, "", 0, state.tenant, state.workflow, state.traceparent, state.root))
            while _asks(state):
                workflow = self._workflows[state.graph_hash]
                # Taken in one piece: while the blobs are fetched and the guards think, others commit.
                blobs: dict[str, bytes] = {}
                view, questions = _view(workflow, state, blobs), [*state.asked.values()]
                try:
                    blobs |= await self._payloads.fetch(view.stored_apart, state.tenant)
                    verdicts = [await self._ask(workflow, question, view, state) for question in questions]
                except BlobLost as lost:
                    verdicts = [self._broken(question, lost.message) for question in questions]
                await mailbox.send(cmd.JudgeGuards(tuple(verdicts)))
                state = await mailbox.stable()
        except (Conflict, NotFound):
            pass  # another process judged, or the run has ended
        except StoreError as problem:
            log.warning(
                "holdfast could not ask the guards of run %s and will ask again: %s",
                mailbox.run,
                problem,
                extra={"run_id": mailbox.run},
            )
        finally:
            del self._judging[mailbox.run]
            mailbox.rest()

    async def _ask(self, workflow: Workflow, question: Question, view: StateView, state: State) -> Verdict:
        above = await self._above(state, question)
        view.left = with_above(view.left, above)
        return msgspec.structs.replace(await self._call_guard(workflow, question, view), above=above)

    async def _call_guard(self, workflow: Workflow, question: Question, view: StateView) -> Verdict:
        guard = question.guard
        try:
            said: Any = workflow.guards[guard](view)
            if inspect.isawaitable(said):
                said = await said
            if said is not None and not isinstance(said, bool):
                raise TypeError(f"a guard returns True or False, not {said!r}")
            return Verdict(question.step, question.target, guard, said is not False)
        except TransitionDenied as denied:
            return Verdict(question.step, question.target, guard, False, self._payloads.redact(words_of(denied)))
        except BaseException as problem:
            if is_ours(problem):
                raise
            return self._broken(question, text_of(problem))

    def _broken(self, question: Question, reason: str) -> Verdict:
        """Return the verdict that counts for a guard that failed to answer."""
        message = self._payloads.redact(f"The guard {question.guard!r} broke: {reason}")
        node = question.target or node_of(question.step)
        error = ErrorRecord(node, GUARD, message, False, self._now_ms())
        return Verdict(question.step, question.target, question.guard, False, message, error)


def _asks(state: State) -> bool:
    """True if guards are to be asked before the run goes on."""
    return bool(state.asked) and not state.phase and not state.ended


def _view(workflow: Workflow, state: State, blobs: dict[str, bytes]) -> StateView:
    return StateView(
        state, lambda payload: read(payload, blobs), workflow.state_model, workflow.state_strategies, workflow.outputs
    )
