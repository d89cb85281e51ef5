"""The rules of calls: an intent opens one, an outcome closes it exactly once, and what is lost is in doubt.

Two fences: an intent must come from the step's current attempt; an outcome is addressed to its call and is accepted
whoever brings it, whatever became of the attempt or the run. Never here: how a call is made.
"""

from __future__ import annotations

from holdfast.core import commands, limits, questions
from holdfast.core import events as ev
from holdfast.core.decision import Decision
from holdfast.core.fence import intends, match_operation
from holdfast.core.ids import CallId, SessionId, call_id, effect_key, node_of
from holdfast.core.policies import LOST, ErrorRecord
from holdfast.core.state import OpenCall
from holdfast.errors import AlreadyClosed, KeyReused, NotFound

REPEATABLE = frozenset({"read", "idempotent"})
"""The effect policies under which a call of unknown outcome may simply be made again, under its key."""


# --- Model calls ------------------------------------------------------------------------------------------------------


def hold_model_call(d: Decision, c: commands.HoldModelCall) -> None:
    """Set the worst case aside, or say why not: refuse, never clamp."""
    step = intends(d, c, c.path, "model", c.model, c.args_hash)
    op = step.journal.get(c.path)
    if op is not None and op.status in ("done", "failed", "open"):
        return  # it has its outcome, or another call of it is in flight: whoever asks looks at the journal
    d.record(c.step, c.values)
    budget = d.state.budget
    within_limits = limits.allow_tokens(d, c.tokens)
    if not within_limits or not budget.fits(c.hold_nanousd):
        d.emit(ev.HoldDeferred(c.step, c.attempt, c.path, c.model, c.args_hash, c.hold_nanousd))
        if within_limits and not budget.could_fit_later(c.hold_nanousd):
            limits.block_on_money(d, c.model, c.hold_nanousd)
        return
    number = (op.tries if op is not None else 0) + 1
    call = call_id(d.state.run, c.step, c.path, number)
    d.emit(ev.ModelCallHeld(call, c.step, c.attempt, c.path, c.model, c.args_hash, c.hold_nanousd))


def settle_model_call(d: Decision, c: commands.SettleModelCall) -> None:
    call = _open(d, c.call, "model")
    if call is None:
        return
    over = c.cost_nanousd > call.hold_nanousd
    d.emit(ev.ModelCallSettled(c.call, c.cost_nanousd, c.input_tokens, c.output_tokens, c.output, over))


def fail_model_call(d: Decision, c: commands.FailModelCall) -> None:
    if _open(d, c.call, "model") is not None:
        d.emit(ev.ModelCallFailed(c.call, c.error))


def doubt_model_call(d: Decision, c: commands.DoubtModelCall) -> None:
    call = _open(d, c.call, "model")
    if call is not None and not call.doubted:
        d.emit(ev.ModelCallInDoubt(c.call, c.error, output=c.output))


def reconcile_call(d: Decision, c: commands.ReconcileCall) -> None:
    call = d.state.calls.get(c.call)
    if call is None or call.kind != "model" or not call.doubted:
        raise NotFound(f"No money is in doubt under the call {c.call}.")
    d.emit(ev.ModelCallReconciled(c.call, c.cost_nanousd, c.by))


# --- Effects ----------------------------------------------------------------------------------------------------------


def intend_effect(d: Decision, c: commands.IntendEffect) -> None:
    step = intends(d, c, c.path, "tool", c.tool, c.args_hash)
    op = step.journal.get(c.path)
    if op is not None and op.status not in ("reopened", "deferred"):
        return
    key = c.key or effect_key(d.state.tenant, d.state.run, c.step, c.path, c.tool)
    known = d.state.named.get(key) if c.key is not None else None
    if known is not None and known.args_hash != c.args_hash:
        raise KeyReused(
            f"The effect key of this call to {c.tool!r} was used for another request in call {known.call}."
            " Nothing was called: the same key must mean the same thing.",
            call=known.call,
        )
    d.record(c.step, c.values)
    if known is not None:
        arrived = known.response is not None
        event = ev.EffectReused if arrived else ev.EffectDeferred
        d.emit(event(c.step, c.attempt, c.path, c.tool, c.args_hash, key))
        return
    number = (op.tries if op is not None else 0) + 1
    d.emit(
        ev.EffectIntended(
            call=call_id(d.state.run, c.step, c.path, number),
            step=c.step,
            attempt=c.attempt,
            path=c.path,
            tool=c.tool,
            policy=c.policy,
            key=key,
            args_hash=c.args_hash,
            request=c.request,
            named=c.key is not None,
            settles_within_s=c.settles_within_s,
            compensation=c.compensation,
            compensates=c.compensates,
        )
    )


def complete_effect(d: Decision, c: commands.CompleteEffect) -> None:
    if _open(d, c.call, "effect", orphan=ev.OutcomeOrphaned(c.call, response=c.response)) is None:
        return
    questions.withdraw_about(d, c.call, "its outcome arrived")
    d.emit(ev.EffectCompleted(c.call, c.response))


def fail_effect(d: Decision, c: commands.FailEffect) -> None:
    if _open(d, c.call, "effect", orphan=ev.OutcomeOrphaned(c.call, error=c.error)) is None:
        return
    questions.withdraw_about(d, c.call, "its outcome arrived")
    d.emit(ev.EffectFailed(c.call, c.error))


def release_effect(d: Decision, c: commands.ReleaseEffect) -> None:
    if _open(d, c.call, "effect", orphan=None) is not None:
        questions.withdraw_about(d, c.call, "it provably never left")
        d.emit(ev.EffectReleased(c.call))


def doubt_effect(d: Decision, c: commands.DoubtEffect) -> None:
    """The sender lived, but cannot say what happened: a time-out, a connection that broke."""
    call = _open(d, c.call, "effect", orphan=None)
    if call is None or call.doubted:
        return
    if call.policy in REPEATABLE:
        # Repeating is harmless, so for the step this is an ordinary failure: its retry policy decides.
        d.emit(ev.EffectFailed(c.call, c.error))
        return
    d.emit(ev.EffectInDoubt(c.call, c.error))
    _ask_about(d, c.call, call, c.error)


def reopen_effect(d: Decision, c: commands.ReopenEffect) -> None:
    call = d.state.calls.get(c.call)
    if call is None or not call.doubted:
        raise AlreadyClosed(f"The call {c.call} already has its outcome.")
    d.emit(ev.EffectReopened(c.call))


def deny_tool_call(d: Decision, c: commands.DenyToolCall) -> None:
    step = d.current(c)
    match_operation(step, c.path, "tool", c.tool, c.args_hash)
    d.record(c.step, c.values)
    d.emit(ev.ToolCallDenied(c.step, c.attempt, c.path, c.tool, c.args_hash, c.error))


def _ask_about(d: Decision, id_: CallId, call: OpenCall, error: ErrorRecord) -> None:
    """Put the question to a person, unless the tool's own lookup will answer it."""
    wanted = d.state.step(call.step) is not None
    if call.policy != "verify" or not wanted:
        questions.ask_about_effect(d, id_, call, error)


# --- What a dead session leaves behind ---------------------------------------------------------------------------------


def lose_calls(d: Decision, dead: frozenset[SessionId]) -> None:
    """The processes that were making these calls are dead: settle what each call now means."""
    for id_, call in list(d.state.calls.items()):
        if call.doubted or call.session not in dead:
            continue
        message = f"The process died during {id_}; nobody can know how far it got."
        error = d.error(node_of(call.step), LOST, message, tool=call.name if call.kind == "effect" else None)
        if call.kind == "model":
            d.emit(ev.ModelCallInDoubt(id_, error, reopens=True))
        elif call.policy in REPEATABLE:
            d.emit(ev.EffectReopened(id_))
        else:
            d.emit(ev.EffectInDoubt(id_, error))
            _ask_about(d, id_, call, error)


def _open(d: Decision, id_: CallId, kind: str, *, orphan: ev.Event | None = None) -> OpenCall | None:
    """The call, if it still lacks its outcome; None if it was given up and repeated, and `orphan` is now recorded.

    Raises AlreadyClosed for a call that has its outcome, or that this run never made.
    """
    call = d.state.calls.get(id_)
    if call is not None and call.kind == kind:
        return call
    if id_ in d.state.abandoned:
        if orphan is not None:
            d.emit(orphan)
        return None
    raise AlreadyClosed(f"The call {id_} already has its outcome; this one was not recorded.", call=id_)
