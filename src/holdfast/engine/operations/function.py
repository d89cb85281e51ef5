"""Calls a function of the user's whose result is recorded: a step of a flow.

Like a task it runs at least once: what it came to is recorded when it has returned, and nothing before. Never here: tools,
of which an intent is recorded first (tools.executor).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from holdfast.authoring import trace
from holdfast.authoring.step import Step, enter
from holdfast.authoring.values.plain import refusal
from holdfast.core.facts import commands as cmd
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import FUNCTION
from holdfast.core.rules.fence import may_begin
from holdfast.core.values.ids import Path
from holdfast.core.values.payload import digest
from holdfast.core.values.policies import VALIDATION, RetryPolicy
from holdfast.engine.attempts import cursor
from holdfast.engine.attempts.attempt import is_left
from holdfast.engine.attempts.cursor import Suspension
from holdfast.engine.attempts.journal import StepJournal, error_of, keep_place
from holdfast.engine.attempts.time_limit import within
from holdfast.errors import InvalidInput, OperationFailed, Suspended, Unstorable
from holdfast.platform.border import is_cut_off
from holdfast.platform.threads import is_async
from holdfast.ports import Recall

_encode = msgspec.json.Encoder(order="deterministic").encode
_UNCHANGING: Final = frozenset({str, int, float, bool, bytes, type(None)})
_CHANGED: Final = (
    "{name!r} changed its argument {which}. A replay does not run it again, and would not see the change. Return the new value"
    " instead, or pass a copy."
)


async def call(
    journal: StepJournal, path: Path, step: Step[Any, Any], args: tuple[Any, ...], arguments: Mapping[str, Any]
) -> Any:
    """Return the function's result, as the journal keeps it. Raises OperationFailed with the recorded error; lets the engine's
    suspensions through."""
    name = journal.redact(step.name)
    bound = step.bound(args, arguments)
    asked = {each: _data(journal, value) for each, value in bound.items()}
    args_hash = digest(asked)
    known = await _recall(journal, path, name, args_hash, asked)
    if known is None:
        await _expect_to_begin(journal)
        body = partial(step.function, *args, **arguments)
        if (answer := journal.stood_in(path, FUNCTION, name, args_hash)) is not None:
            body = partial(_answered, answer, path)
        can_change = not _UNCHANGING.issuperset(map(type, bound.values()))
        changed = partial(_changed, journal, bound, asked) if can_change else None
        known = await _called(journal, path, name, args_hash, step, body, changed)
    if known.error is not None:
        raise journal.failure(known.error, path, spent=True)
    return known.value


def _data(journal: StepJournal, argument: Any) -> Any:
    """An argument as it counts for what was asked. It is not kept, so a date or a set will do; what JSON can say nothing of (a
    client, a connection) counts by its type only."""
    try:
        return msgspec.json.decode(journal.attempt.services.payloads.clean(argument, is_kept=False))
    except InvalidInput:
        pass
    try:
        return journal.redact(_encode(argument).decode())
    except (TypeError, ValueError, OverflowError, RecursionError):
        kind = type(argument)
        return f"<{trace.recorded_module(kind.__module__)}.{kind.__qualname__}>"


def _changed(journal: StepJournal, bound: Mapping[str, Any], request: Mapping[str, Any]) -> str | None:
    """Return the place and the name of the first argument that is not what it was when the function was called."""
    for place, (name, value) in enumerate(bound.items(), 1):
        if type(value) in _UNCHANGING or (isinstance(request[name], str) and request[name].startswith("<")):
            continue
        if _data(journal, value) != request[name]:
            return f"{place} ({name})"
    return None


async def _recall(journal: StepJournal, path: Path, name: str, args_hash: str, request: Any) -> Recall | None:
    """Return the outcome of the function that is called at `path`; None if it is to be called now. Leaves the step if it is to
    be called later."""
    if journal.find(path, FUNCTION, name, args_hash, request) is None and not journal.before.may_reuse:
        return None
    return await journal.recall(path, FUNCTION, name, args_hash, request)


async def _expect_to_begin(journal: StepJournal) -> None:
    """Leaves the step where nothing new may begin in its run, or by this process."""
    if not journal.may_send():
        await keep_place(journal)
    state = journal.attempt.mailbox.state or await journal.attempt.state()
    try:
        may_begin(state, journal.step)
    except Suspended:
        raise Suspension from None


async def _called(
    journal: StepJournal,
    path: Path,
    name: str,
    args_hash: str,
    step: Step[Any, Any],
    body: partial[Any],
    changed: Callable[[], str | None] | None,
) -> Recall:
    began_s = asyncio.get_running_loop().time()
    try:
        result = await _run(journal, name, step.timeout_s, body)
    except Exception as problem:  # noqa: BLE001 - whatever a user's function raises becomes data
        if is_cut_off() and is_left(journal.attempt):
            raise asyncio.CancelledError from None  # it has not failed, and another attempt makes the call
        error, _ = error_of(journal, problem)
        if changed is not None and (which := changed()) is not None:
            words = f"{_CHANGED.format(name=name, which=which)} It raised {error.message}"
            error = journal.error(VALIDATION, words)
    else:
        try:
            if changed is not None and (which := changed()) is not None:
                error = journal.error(VALIDATION, _CHANGED.format(name=name, which=which))
            else:
                if not step.returns.is_plain:
                    result = step.returns.dump(result)
                return Recall(await _record_result(journal, path, name, args_hash, result, _ms_since(began_s)))
        except (InvalidInput, Unstorable) as problem:
            error = journal.error(VALIDATION, refusal(f"The result of {name!r}", problem.message))
    begun, took_ms = (journal.step, journal.number, path, name, args_hash), _ms_since(began_s)
    failed = cmd.FailFunction(*begun, error, step.retry, values=journal.take(), took_ms=took_ms)
    _leave_if_retried(await journal.send(failed))
    return Recall(error=error)


def _answered(answer: Recall, path: Path) -> Any:
    """Return the function's recorded result, or raise its recorded error."""
    if answer.error is not None:
        raise OperationFailed(answer.error.message, error=answer.error, path=path)
    return answer.value


def _ms_since(began_s: float) -> int:
    return round((asyncio.get_running_loop().time() - began_s) * 1000)


async def _record_result(journal: StepJournal, path: Path, name: str, args_hash: str, result: Any, took_ms: int) -> Any:
    """Return the function's result, durably and as every replay will see it. Raises InvalidInput or Unstorable."""
    payload = await journal.attempt.store_value(result)
    await journal.record(cmd.Value(path, FUNCTION, None, payload, name, args_hash, took_ms=took_ms))
    return await journal.attempt.value(payload)


async def retry(journal: StepJournal, path: Path, policy: RetryPolicy) -> None:
    """Leave the step if the operation at `path`, which has failed, is to be tried again."""
    _leave_if_retried(await journal.send(cmd.RetryOperation(journal.step, journal.number, path, policy)))


def _leave_if_retried(events: Sequence[ev.Event]) -> None:
    if any(isinstance(event, ev.RetryScheduled) for event in events):
        raise Suspension


async def _run(journal: StepJournal, name: str, limit_s: float | None, body: partial[Any]) -> Any:
    threads, around = journal.attempt.services.threads, cursor.cursor()
    here, context = cursor.inside(name)
    context.run(enter, None)
    if (turn := cursor.certain()) is not None:
        await turn
    around.is_in_function = around.progress is not None and is_async(body)
    try:
        if limit_s is None:
            result = await threads.run(body, {}, context)
        else:
            async with within(limit_s, f"the step {name!r}"):
                result = await threads.run(body, {}, context)
    finally:
        around.is_in_function = False
    if here.misuse is not None:
        raise here.misuse  # also where the function has caught it
    return result
