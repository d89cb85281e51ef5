"""Signals inside a step: waiting for one, and sending one to another run, exactly once.

To send one is an effect: its intent stands in the journal of the run that sends, and the run that receives remembers the
effect's key. So a call whose outcome was lost is made again. Never here: which wait gets a signal (core.rules.waits).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.authoring.signal import Signal, schema_of
from holdfast.authoring.step import EffectStep, outside_of_flows
from holdfast.authoring.values.adapter import reader
from holdfast.authoring.values.sensitive import sealed_by, sealed_for
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.contribution import contributors
from holdfast.core.rules.waits import schema_of_wait
from holdfast.core.values.actor import Actor
from holdfast.core.values.demand import NOTHING
from holdfast.core.values.ids import Path, RunId
from holdfast.core.values.payload import digest
from holdfast.core.values.policies import VALIDATION
from holdfast.core.views.projection import RunRow
from holdfast.engine.attempts.attempt import Attempt
from holdfast.engine.attempts.cursor import Suspension
from holdfast.engine.attempts.journal import StepJournal
from holdfast.engine.operations import function
from holdfast.engine.runs.payloads import Payloads
from holdfast.engine.runs.runtime import Runtime
from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidInput,
    NotFound,
    OperationFailed,
    OutcomeUnknown,
    SchemaMismatch,
    ToolFailed,
)

SEND: Final = "send_signal"
"""The name of the effect."""
_MAX_DIGEST: Final = 16
"""Characters: enough to notice that a key is another signal's."""


async def wait(journal: StepJournal, path: Path, name: str | Signal[Any], timeout_s: float | None, hint: Any) -> Any:
    """The data of the next signal, as what its Signal or `hint` says. Raises OperationFailed and SchemaMismatch."""
    called, hint = (name.name, name.type) if isinstance(name, Signal) else (name, hint)
    data = await _data(journal, path, called, timeout_s, hint)
    try:
        return reader(hint)(data)
    except SchemaMismatch as problem:
        raise SchemaMismatch(
            f"Send the signal {called!r} again with data that fits what waits for it. {problem.message}"
        ) from None


async def _data(journal: StepJournal, path: Path, name: str, timeout_s: float | None, hint: Any) -> Any:
    args_hash, asked = digest(["signal", name, timeout_s]), {"timeout_s": timeout_s}
    known = await journal.recall(path, "signal", name, args_hash, asked)
    if known is None:
        timeout_ms = None if timeout_s is None else int(timeout_s * 1000)
        command = cmd.AwaitSignal(
            journal.step, journal.number, path, name, args_hash, timeout_ms, values=journal.take(), schema=schema_of(hint)
        )
        await journal.send(command)
        known = await journal.recall(path, "signal", name, args_hash)
        if known is None:
            raise Suspension
    if known.error is not None:
        raise OperationFailed(known.error.message, error=known.error, path=path)
    return known.value


async def send(journal: StepJournal, path: Path, run: str, name: str | Signal[Any], data: Any) -> None:
    """Send a run of the same tenant a signal, once. Raises OperationFailed with the recorded error."""
    step, called = _step(journal.attempt), name.name if isinstance(name, Signal) else name
    arguments = step.bound((run, called, name.dump(data) if isinstance(name, Signal) else data), {})
    with outside_of_flows():
        try:
            await journal.attempt.services.tools.call(journal, path, SEND, arguments, allowed={SEND: step})
        except OperationFailed:
            await function.retry(journal, path, step.retry)
            raise


async def addressed(
    runtime: Runtime,
    payloads: Payloads,
    to: RunRow,
    name: str | Signal[Any],
    data: Any,
    by: Actor,
    key: str | None,
    sender: RunId | None = None,
) -> cmd.SendSignal:
    """The command that brings a run a signal. What the run's code declares is held against it here, if the code is; what the
    run waits for, where the command is decided. Raises InvalidInput."""
    called = name.name if isinstance(name, Signal) else name
    code = runtime.catalog.workflows.get(to.graph_hash)
    declared = None if code is None else code.signals.get(called)
    with sealed_for(to.tenant, payloads.sealing):
        given = name.dump(data) if isinstance(name, Signal) else data
        if declared is not None and declared is not name:
            given = declared.dump(given)
        plain = payloads.plain(given) if declared is None else msgspec.UNSET
        if declared is None and (wanted := schema_of_wait(await runtime.runs.state(to.run, fresh=False), called)) is not None:
            given = _sealed_by(wanted, plain)
        payload = await payloads.keep(given, to.tenant, max(runtime.store.clock.now_ms(), to.started_at_ms))
    meant = "" if key is None else digest([called, await payloads.value(payload, to.tenant)])[:_MAX_DIGEST]
    return cmd.SendSignal(called, payload, by, key, meant, sender, plain=plain)


def _sealed_by(schema: dict[str, Any], plain: Any) -> Any:
    """Raises InvalidInput without a key."""
    try:
        return sealed_by(schema, plain)
    except ValueError as problem:
        raise InvalidInput(f"{problem}. No signal was sent.") from None


def _step(attempt: Attempt) -> EffectStep[..., None]:
    """The effect, as this attempt has it."""

    async def send_signal(run: str, name: str, data: Any, key: str) -> None:
        await _deliver(attempt, run, name, data, key)

    return EffectStep(
        send_signal,
        name=SEND,
        description="Send a run a signal.",
        policy="idempotent",
        retry=None,
        demand=NOTHING,
        key=None,
        unique="run",
        names=globals(),
    )


async def _deliver(attempt: Attempt, run: str, name: str, data: Any, key: str) -> None:
    """Bring the signal. Raises ToolFailed if it cannot be sent, OutcomeUnknown if it is unknown whether it was."""
    runtime, sender = attempt.services.runtime, await attempt.state()
    by, theirs = Actor(sender.by, sender.os_user, sender.client, sender.trace_id), contributors(sender)
    try:
        row = await runtime.store.views.run(RunId(run))
        if row is None or row.tenant != attempt.tenant:
            raise NotFound(f"There is no run {run} in this store.")
        sent = await addressed(runtime, attempt.services.payloads, row, name, data, by, key, attempt.run)
        await runtime.runs.send(row.run, msgspec.structs.replace(sent, contributors=theirs, makers={**sender.makers}))
    except (Conflict, InvalidInput, NotFound) as problem:
        raise ToolFailed(f"{problem.message} No signal was sent.", error_class=VALIDATION) from None
    except HoldfastError as problem:
        raise OutcomeUnknown(problem.message) from problem
