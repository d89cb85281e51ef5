"""Brings an attempt from its begin to its end: runs the node, and has its result, its error or its suspension committed.

Never here: what a kind of node does (nodes), what an operation does (journal), which attempts there are (executor).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextvars import copy_context

import msgspec

from holdfast.authoring import trace
from holdfast.authoring.step import enter
from holdfast.authoring.view import typed_state
from holdfast.core import commands as cmd
from holdfast.core.estimates import Use, reported
from holdfast.core.ids import root_of
from holdfast.core.lending import DeclaredPool
from holdfast.core.payload import INLINE_BYTES, Payload
from holdfast.core.policies import NON_DETERMINISTIC, VALIDATION
from holdfast.core.typed_state import misfits
from holdfast.engine import conversation, cursor, divergence, nodes
from holdfast.engine.attempt import Attempt
from holdfast.engine.context import StepContext
from holdfast.engine.cursor import Abandonment, Displacement, Divergence, Refusal, Suspension
from holdfast.engine.isolation import isolated
from holdfast.engine.journal import StepJournal, error_of
from holdfast.engine.time_limit import within
from holdfast.errors import (
    Conflict,
    CorruptHistory,
    NotFound,
    PlaceLost,
    RunEnded,
    SchemaMismatch,
    SeqConflict,
    StaleAttempt,
    StoreError,
    Unstorable,
)
from holdfast.models.pace import Pace

log = logging.getLogger("holdfast")


async def carry(attempt: Attempt, finished: Callable[[Attempt, BaseException | None], None]) -> None:
    """Execute an attempt, then the one that its end has started, and so on: a task for each would take longer than all else
    about a short step. `finished` is told of the last, and of its problem if it could not bring its end home; those before
    it have left their slots to it."""
    problem: BaseException | None = None
    while True:
        try:
            await isolated(execute(attempt), copy_context())
        except (Exception, asyncio.CancelledError) as broken:  # noqa: BLE001 - it is passed on
            problem = broken
        following = attempt.next
        if following is None or problem is not None:
            break
        attempt = following
    finished(attempt, problem)
    if following is not None:
        await following.leave(())  # it has not begun, and will not here
        finished(following, None)
    if isinstance(problem, asyncio.CancelledError):
        raise problem


async def execute(attempt: Attempt) -> None:
    """Run `attempt` to its end and have the end committed. Raises nothing but cancellation."""
    journal = StepJournal(attempt)
    context = StepContext(attempt, journal, conversation.talk)
    cursor.begin()
    enter(context if attempt.calls_steps else None)
    try:
        lent = await _lent(attempt) if attempt.pools else []
        if lent and not attempt.runs_scripts:
            attempt.pace = Pace(attempt.services.runtime.clock, lent)
        await journal.open()
        command = await _end(attempt, context, journal)
        if command is not None:
            if attempt.writes:  # what code wrote that does not run again is there before anybody hears of its end
                await attempt.services.streams.flushed()
            attempt.said_its_last = True
            await _report(attempt, command, journal)
        if lent and isinstance(command, cmd.CompleteStep):
            _learn(attempt, [pool for pool, _ in lent])
        await attempt.drain()
    except (Conflict, NotFound):
        return  # the step has moved on, and what moved it knows better
    except CorruptHistory as problem:
        # Its own run is lost to us; the others are not.
        log.error("holdfast leaves run %s alone: %s", attempt.run, problem)
    except asyncio.CancelledError:
        await attempt.leave(journal.take())
        raise


async def _lent(attempt: Attempt) -> list[tuple[DeclaredPool, int]]:
    """The pools of which something was reserved for it, and how much."""
    client, workflow = attempt.services.pool_client, attempt.graph.definition.name
    pools = await attempt.patiently(lambda: client.read(workflow))
    return [(pools[name], amount) for name, amount in attempt.pools.items() if name in pools]


def _learn(attempt: Attempt, lent: Collection[DeclaredPool]) -> None:
    """What it has used of pools is what steps of its node are thought to take from now on."""
    used = [*(reported(attempt.reports, lent) if attempt.pace is None else attempt.pace.uses())]
    if used:
        workflow = attempt.graph.definition.name
        attempt.services.pool_client.learn(Use(workflow, root_of(attempt.name), pool, amount) for pool, amount in used)


def _expect_patch(attempt: Attempt, output: Payload) -> None:
    """What the workflow's typed state does not take fails its step. Raises SchemaMismatch."""
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
    """How the attempt ended, as a command; None if its last operation said it all."""
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
        return cmd.CompleteStep(
            attempt.step, attempt.number, output, ways, journal.take(), context.provisional, talk, said
        )
    except Abandonment as left:
        return cmd.FailAttempt(attempt.step, attempt.number, left.error, None, journal.take())
    except Refusal as left:
        refused = journal.error(NON_DETERMINISTIC, str(left), trace=trace.of(left))
        return cmd.FailAttempt(attempt.step, attempt.number, refused, None, journal.take())
    except Divergence as left:
        recorded, asked = await divergence.shown(attempt, left)
        return cmd.StopStep(attempt.step, attempt.number, left.path, recorded, asked)
    except (Displacement, PlaceLost):
        return cmd.LoseAttempt(attempt.step, attempt.number, journal.take())
    except Suspension:
        return cmd.SuspendStep(attempt.step, attempt.number, journal.take())
    except StoreError:
        raise  # not the step's own error
    except Exception as problem:
        if isinstance(problem, StaleAttempt | RunEnded | SeqConflict) and await attempt.is_over():
            raise
        error, path = error_of(journal, problem)
        spent = getattr(problem, "spent", False)
        return cmd.FailAttempt(attempt.step, attempt.number, error, path, journal.take(), spent)


async def _report(attempt: Attempt, command: cmd.Command, journal: StepJournal) -> None:
    """Have the end committed; where the store can hold no such end, that it cannot."""
    try:
        await attempt.report(command)
    except Unstorable as problem:
        why = journal.error(VALIDATION, f"How {attempt.name!r} ended cannot be stored: {problem.message}")
        failed = cmd.FailAttempt(attempt.step, attempt.number, why, None, ())
        await attempt.report(failed)
