"""Brings an attempt from its begin to its end: runs the node, and has its result, its error or its suspension committed.

Never here: what a kind of node does (nodes), what an operation does (journal), which attempts there are (executor).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from contextvars import copy_context

import msgspec

from holdfast.authoring.step import enter
from holdfast.authoring.values.sensitive import seal_for
from holdfast.authoring.values.view import typed_state
from holdfast.core.capacity.estimates import Use, reported
from holdfast.core.capacity.lending import DeclaredPool
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.typed_state import misfits
from holdfast.core.values.ids import root_of
from holdfast.core.values.payload import INLINE_BYTES, Payload
from holdfast.core.values.policies import NON_DETERMINISTIC, VALIDATION
from holdfast.engine.attempts import cursor, divergence
from holdfast.engine.attempts.attempt import Attempt, cancelled, is_left
from holdfast.engine.attempts.cursor import Abandonment, Displacement, Divergence, Refusal, Suspension
from holdfast.engine.attempts.journal import StepJournal, error_of
from holdfast.engine.attempts.time_limit import within
from holdfast.engine.flow.task_factory import is_step
from holdfast.engine.operations import conversation
from holdfast.engine.operations.context import StepContext
from holdfast.engine.operations.stream import tell_rest
from holdfast.engine.steps import nodes
from holdfast.errors import (
    Conflict,
    CorruptHistory,
    NotFound,
    OperationFailed,
    PlaceLost,
    RunEnded,
    SchemaMismatch,
    SeqConflict,
    StaleAttempt,
    StoreError,
    Unstorable,
)
from holdfast.models.pace import Pace
from holdfast.platform.border import fact, is_cut_off, is_ours
from holdfast.platform.isolation import isolated

log = logging.getLogger("holdfast")


async def carry(attempt: Attempt, finished: Callable[[Attempt, BaseException | None], None]) -> None:
    """Execute an attempt, then the one that its end has started, and so on: a task for each would take longer than all else
    about a short step. `finished` is told of the last, and of its problem if it could not bring its end home; those before
    it have left their slots to it."""
    problem: BaseException | None = None
    following: Attempt | None = None
    while True:
        try:
            await isolated(execute(attempt), copy_context())
        except BaseException as broken:  # noqa: BLE001 - it is passed on
            problem = broken
        following = attempt.next
        if following is None or problem is not None:
            break
        attempt = following
    finished(attempt, problem)  # whatever came, its slot is free again
    if following is not None:
        try:
            if not isinstance(problem, GeneratorExit):
                await following.leave(())  # it has not begun, and will not here
        finally:
            finished(following, None)
    if isinstance(problem, asyncio.CancelledError | KeyboardInterrupt | GeneratorExit):
        raise problem


async def execute(attempt: Attempt) -> None:
    """Run `attempt` to its end and have the end committed.

    Raises a cancellation that the engine has asked for, and StoreError where the end could not be committed.
    """
    context = _context(attempt)
    journal, residents = context.journal, attempt.services.residents
    cursor.begin()
    is_step.set(True)
    seal_for(attempt.tenant, attempt.services.payloads.sealing)
    enter(context if attempt.calls_steps else None)
    try:
        lent = await _lent(attempt) if attempt.pools else []
        if lent and not attempt.runs_scripts:
            attempt.pace = Pace(attempt.services.runtime.clock, lent)
        await journal.open()
        hears_nothing = journal.before.cleans_up and not attempt.has_tasks
        command = cancelled(attempt) if hears_nothing else await _end(attempt, context, journal)
        if attempt.has_tasks and not isinstance(command, cmd.SuspendStep):
            residents.drop(context, attempt.number)
        if command is not None:
            if isinstance(command, cmd.CompleteStep):
                for stream in journal.borders:
                    await tell_rest(journal, stream)
            if attempt.writes:  # what code wrote that does not run again is there before anybody hears of its end
                await attempt.services.streams.flushed()
            attempt.said_its_last = True
            await _report(attempt, command, journal)
        if lent and isinstance(command, cmd.CompleteStep):
            _learn(attempt, [pool for pool, _ in lent])
        await attempt.drain()
    except BaseException as problem:  # noqa: BLE001 - all of it is seen to
        residents.drop(context, attempt.number)
        await _see_to(problem, attempt, journal)


def _context(attempt: Attempt) -> StepContext:
    """The `ctx` of an attempt: that of the attempt before, where its flow is still in memory."""
    state = attempt.mailbox.state
    step = None if state is None or not attempt.has_tasks else state.step(attempt.step)
    if step is not None:
        context: StepContext | None = attempt.services.residents.take(attempt.run, step, attempt.definition)
        if context is not None:
            context.go_on(attempt)
            return context
    return StepContext(attempt, StepJournal(attempt), conversation.talk)


async def _see_to(problem: BaseException, attempt: Attempt, journal: StepJournal) -> None:
    """Have an attempt fail that could not make out its end, or have it committed, unless its step has moved on.

    Raises what is not the step's own: what ends the task or the process.
    """
    match problem:
        case CorruptHistory():  # its own run is lost to us; the others are not
            log.error("holdfast leaves run %s alone: %s", attempt.run, problem)
            return
        case Conflict() | NotFound():
            if await _is_over(attempt):
                return  # what moved the step knows better
        case asyncio.CancelledError():
            if _was_asked_to_leave(attempt):
                await attempt.leave(journal.take())
                raise problem
            # Else its own code has cancelled the task that it runs in.
        case Unstorable():
            pass
        case StoreError():
            raise problem
        case _:
            if is_ours(problem):
                raise problem
            log.error(
                "holdfast: the step %s of run %s met a fault of Holdfast, and fails; please report it",
                attempt.step,
                attempt.run,
                exc_info=problem,
            )
    await _fail(attempt, journal, problem)


async def _lent(attempt: Attempt) -> list[tuple[DeclaredPool, int]]:
    """The pools of which something was reserved for it, and how much."""
    client, workflow = attempt.services.pool_client, attempt.graph.definition.name
    pools = await attempt.patiently(lambda: client.read(workflow))
    return [(pools[name], amount) for name, amount in attempt.pools.items() if name in pools]


def _learn(attempt: Attempt, lent: Collection[DeclaredPool]) -> None:
    """Learn from its use of pools how much steps of its node are expected to take from now on."""
    used = [*(reported(attempt.reports, lent) if attempt.pace is None else attempt.pace.uses())]
    if used:
        workflow = attempt.graph.definition.name
        attempt.services.pool_client.learn(Use(workflow, root_of(attempt.name), pool, amount) for pool, amount in used)


def _expect_patch(attempt: Attempt, output: Payload) -> None:
    """Check the patch of an output against the workflow's typed state. Raises SchemaMismatch, which fails the step."""
    model, strategies = attempt.state_model, attempt.graph.definition.state
    assert model is not None
    if output.blob is not None:
        if strategies:
            raise SchemaMismatch(
                f"The output of {attempt.name!r} has more than {INLINE_BYTES // 1024} KiB; patches of the state that may meet"
                " others have less: put what is large into a file, or the output of a node in another workflow, and its name"
                " into the state."
            )
        return
    if isinstance(value := output.value(), dict):
        typed_state(model, value)
        if misfit := next(iter(misfits(strategies, value)), None):
            raise SchemaMismatch(f"The output of {attempt.name!r}: {misfit}.")


async def _end(attempt: Attempt, context: StepContext, journal: StepJournal) -> cmd.Command | None:
    """Return the end of the attempt, as a command; None if its last operation already carried it."""
    node = attempt.graph.node(attempt.name)
    limit_s = node.timeout_s if node is not None else None
    try:
        if limit_s is None:
            result = await cursor.heeding(nodes.run(attempt, context))
        else:
            async with within(limit_s, "the attempt"):
                result = await cursor.heeding(nodes.run(attempt, context))
        if result is nodes.LEFT:
            return None
        output = await attempt.kept(result.output)
        if attempt.state_model is not None:
            _expect_patch(attempt, output)
        turns = result.conversation
        talk = None if turns is None else await attempt.kept(msgspec.to_builtins(turns))
        ways = result.decisions and tuple(attempt.services.payloads.redact(way) for way in result.decisions)
        said = None if not result.trace else await attempt.kept(result.trace)
        return cmd.CompleteStep(attempt.step, attempt.number, output, ways, journal.take(), context.provisional, talk, said)
    except Abandonment as left:
        return cmd.FailAttempt(attempt.step, attempt.number, left.error, None, journal.take())
    except Refusal as left:
        refused = journal.error(NON_DETERMINISTIC, str(left), problem=left)
        return cmd.FailAttempt(attempt.step, attempt.number, refused, None, journal.take())
    except Divergence as left:
        recorded, asked = await divergence.shown(attempt, left)
        return cmd.StopStep(attempt.step, attempt.number, left.path, recorded, asked)
    except (Displacement, PlaceLost):
        return cmd.LoseAttempt(attempt.step, attempt.number, journal.take())
    except Suspension as left:
        return cmd.SuspendStep(attempt.step, attempt.number, journal.take(), timers=left.timers)
    except BaseException as problem:
        if is_ours(problem) or problem is attempt.store_problem:
            raise  # not the step's own error
        kind = type(problem)  # isinstance would ask the exception itself
        if issubclass(kind, StaleAttempt | RunEnded | SeqConflict) and await attempt.is_over():
            raise
        return _failed(attempt, journal, problem)


def _failed(attempt: Attempt, journal: StepJournal, problem: BaseException) -> cmd.Command:
    if is_cut_off() and is_left(attempt):
        raise asyncio.CancelledError from None  # its clean-up has raised the problem
    error, path = error_of(journal, problem)
    spent = issubclass(type(problem), OperationFailed) and fact(problem, "spent") is True
    return cmd.FailAttempt(attempt.step, attempt.number, error, path, journal.take(), spent)


def _was_asked_to_leave(attempt: Attempt) -> bool:
    """True if the engine, or the end of the event loop, has cancelled the task of an attempt; its own code may have, too."""
    task, each = asyncio.current_task(), attempt
    while not each.called_off and each.next is not None:
        each = each.next  # the same task goes on with it
    if is_left(each):
        return True
    return all(other.cancelling() for other in asyncio.all_tasks() if other is not task)


async def _is_over(attempt: Attempt) -> bool:
    try:
        return await attempt.is_over()
    except NotFound:
        return True


async def _fail(attempt: Attempt, journal: StepJournal, problem: BaseException) -> None:
    """Have it committed that an attempt has failed, where its end could not be made out or stored."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()
    attempt.said_its_last = True
    error, _ = error_of(journal, problem)
    with contextlib.suppress(Conflict, NotFound):  # the step has moved on
        await attempt.report(cmd.FailAttempt(attempt.step, attempt.number, error, None, ()))


async def _report(attempt: Attempt, command: cmd.Command, journal: StepJournal) -> None:
    """Have the end committed; where the store can hold no such end, that it cannot."""
    try:
        await attempt.report(command)
    except Unstorable as problem:
        why = journal.error(VALIDATION, f"How {attempt.name!r} ended cannot be stored: {problem.message}")
        failed = cmd.FailAttempt(attempt.step, attempt.number, why, None, ())
        await attempt.report(failed)
