"""The fold of model and tool calls: holds, intents, outcomes, doubts."""

from __future__ import annotations

from typing import Final

from holdfast.core.facts import events as ev
from holdfast.core.facts.folding.moves import (
    Folds,
    awaited,
    close,
    leave_scope,
    mark,
    note_moved,
    operation,
    wake,
    wake_deferred,
)
from holdfast.core.facts.state import EFFECT, Compensable, NamedEffect, OpenCall, OperationStatus, State
from holdfast.core.nouns.routing import unable_until_ms
from holdfast.core.values.ids import CallId, SessionId, StepId, node_of, root_of
from holdfast.core.values.policies import ErrorRecord


def _set_open(s: State, call: OpenCall, id_: CallId, status: OperationStatus, error: ErrorRecord | None = None) -> None:
    """Give the operation that `call` was the latest sending of another status."""
    step = s.step(call.step)
    op = step.journal.get(call.path) if step is not None else None
    if step is None or op is None or op.call != id_ or op.status == "done":
        return
    op.error = error
    mark(s, step, call.path, op, status)
    note_moved(s, node_of(call.step))
    if status in ("reopened", "unverified") or (status == "failed" and not awaited(step, call)):
        wake(s, step)


def _model_call_held(s: State, e: ev.ModelCallHeld, at_ms: int) -> None:
    op = operation(s, e.step, e.path, "model", e.model, e.args_hash, at_ms)
    s.steps[node_of(e.step)].pool_waits.pop(e.path, None)
    op.tries += 1
    op.call, op.request_kept = e.call, e.request is not None
    s.deferred.pop(f"{e.step}:{e.path}", None)
    leave_scope(s, e.step, e.path, op)
    s.budget.held_nanousd += e.hold_nanousd
    s.tokens_held += e.tokens
    s.model_calls += 1
    s.calls[e.call] = OpenCall(
        "model",
        e.step,
        e.attempt,
        e.path,
        e.model,
        at_ms,
        _session_of(s, e.step),
        at_ms,
        hold_nanousd=e.hold_nanousd,
        tokens=e.tokens,
        scoped=e.scoped,
        tokens_scoped=e.tokens_scoped,
        sent_to=e.sent_to or e.model,
        bound_percent=e.bound_percent,
        token_bound_percent=e.token_bound_percent,
        agent=e.agent,
        loans=e.loans,
    )


def _session_of(s: State, step: StepId) -> SessionId | None:
    return s.steps[node_of(step)].session


def _hold_deferred(s: State, e: ev.HoldDeferred, at_ms: int) -> None:
    op = operation(s, e.step, e.path, e.kind, e.model, e.args_hash, at_ms, "deferred")
    op.needed_nanousd, op.needed_tokens = e.needed_nanousd, e.needed_tokens
    leave_scope(s, e.step, e.path, op)
    op.blocked = e.blocked
    s.deferred[f"{e.step}:{e.path}"] = None


def _scope_exceeded(s: State, e: ev.ScopeExceeded, at_ms: int) -> None:
    op = operation(s, e.step, e.path, e.kind, e.model, e.args_hash, at_ms, "deferred")
    op.needed_nanousd, op.needed_tokens, op.blocked = e.needed_nanousd, e.needed_tokens, e.blocked
    op.scope, op.due_at_ms = e.scope, e.due_at_ms
    s.deferred.pop(f"{e.step}:{e.path}", None)
    s.short[f"{e.step}:{e.path}"] = None


def _free(s: State, call: OpenCall) -> None:
    if call.doubted:
        s.budget.in_doubt_nanousd -= call.hold_nanousd
        s.tokens_in_doubt -= call.tokens
    else:
        s.budget.held_nanousd -= call.hold_nanousd
        s.tokens_held -= call.tokens


def _model_call_settled(s: State, e: ev.ModelCallSettled, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    _free(s, call)
    _settle(s, call, e.cost_nanousd)
    s.tokens_used += e.input_tokens + e.output_tokens
    if e.over_bound:
        _raise_bound(s, call, e.cost_nanousd, e.input_tokens + e.output_tokens)
    step = s.step(call.step)
    op = step.journal.get(call.path) if step is not None else None
    if op is not None and op.call == e.call:
        close(s, call.step, call.path, outcome=e.output, sender=call)
    wake_deferred(s)


def _settle(s: State, call: OpenCall, cost_nanousd: int) -> None:
    if cost_nanousd:
        s.budget.settled_nanousd += cost_nanousd
        node = root_of(node_of(call.step))
        s.cost_nanousd_by_node[node] = s.cost_nanousd_by_node.get(node, 0) + cost_nanousd


def _raise_bound(s: State, call: OpenCall, cost_nanousd: int, tokens: int) -> None:
    """Hold what goes to that model from now on as if each call were billed as far above its bounds as this one. Where money was
    short, the larger of the two is taken: what was billed besides may weigh more in another call."""
    if call.tokens < tokens:
        _raise(s.token_bound_percents, call.sent_to, call.token_bound_percent, tokens, call.tokens)
    if call.hold_nanousd < cost_nanousd:
        _raise(s.bound_percents, call.sent_to, call.bound_percent, cost_nanousd, call.hold_nanousd)
        _raise(s.bound_percents, call.sent_to, call.bound_percent, tokens, call.tokens)


def _raise(percents: dict[str, int], model: str, before: int, used: int, bound: int) -> None:
    if bound:
        percents[model] = max(percents.get(model, 100), -(-before * used // bound))


def _model_call_failed(s: State, e: ev.ModelCallFailed, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    _free(s, call)
    s.model_calls -= e.reopens  # it never left, or was put off by who limits it
    _note_unable(s, call, e.error)
    _set_open(s, call, e.call, "reopened" if e.reopens else "failed", None if e.reopens else e.error)
    wake_deferred(s)


def _note_unable(s: State, call: OpenCall, error: ErrorRecord) -> None:
    """Remember that a model could not answer, for who begins the operation again."""
    step = s.step(call.step)
    op = step.journal.get(call.path) if step is not None else None
    until_ms = unable_until_ms(error)
    if op is not None and until_ms is not None:
        op.unable = {**op.unable, call.sent_to: until_ms}
        note_moved(s, node_of(call.step))


def _model_call_in_doubt(s: State, e: ev.ModelCallInDoubt, at_ms: int) -> None:
    call = s.calls[e.call]
    _doubt_money(s, call)
    _note_unable(s, call, e.error)
    if e.output is not None:
        close(s, call.step, call.path, outcome=e.output, sender=call)
    else:
        _set_open(s, call, e.call, "reopened" if e.reopens else "failed", None if e.reopens else e.error)
    _doubt(call, e.error, at_ms)
    wake_deferred(s)  # what waited for this hold must learn that it will not come back


def _doubt_money(s: State, call: OpenCall) -> None:
    if not call.doubted:
        s.budget.held_nanousd -= call.hold_nanousd
        s.budget.in_doubt_nanousd += call.hold_nanousd
        s.tokens_held -= call.tokens
        s.tokens_in_doubt += call.tokens


def _doubt(call: OpenCall, error: ErrorRecord | None, at_ms: int) -> None:
    call.doubted, call.error, call.at_ms = True, error, at_ms


def _model_call_reconciled(s: State, e: ev.ModelCallReconciled, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    _free(s, call)
    _settle(s, call, e.cost_nanousd)
    s.tokens_used += call.tokens  # the number is unknown; never fewer than it was
    wake_deferred(s)


def _effect_intended(s: State, e: ev.EffectIntended, at_ms: int) -> None:
    op = operation(s, e.step, e.path, "tool", e.tool, e.args_hash, at_ms)
    op.tries += 1
    op.call, op.key = e.call, e.key
    for other in [id_ for id_, call in s.calls.items() if call.key == e.key]:
        given_up = s.calls.pop(other)  # this is its repeat: whatever it still brings is an orphan
        s.abandoned[other] = None
        _free(s, given_up)
        _settle(s, given_up, given_up.hold_nanousd)
    s.budget.held_nanousd += e.hold_nanousd
    s.tool_calls += e.compensates is None
    s.calls[e.call] = OpenCall(
        "effect",
        e.step,
        e.attempt,
        e.path,
        e.tool,
        at_ms,
        _session_of(s, e.step),
        at_ms,
        key=e.key,
        named=e.named,
        policy=e.policy,
        args_hash=e.args_hash,
        settles_within_s=e.settles_within_s,
        compensation=e.compensation,
        compensates=e.compensates,
        request=e.request,
        hold_nanousd=e.hold_nanousd,
        scoped=e.hold_nanousd > 0,
        agent=e.agent,
        loans=e.loans,
    )
    s.deferred.pop(f"{e.step}:{e.path}", None)
    leave_scope(s, e.step, e.path, op)
    if e.named:
        s.named[e.key] = NamedEffect(e.args_hash, e.call)
    if e.tenant_wide:
        s.claims[e.call] = e.key
    if e.compensates is not None and e.compensates in s.claims:
        s.undoing[e.call] = e.compensates


def _effect_reused(s: State, e: ev.EffectReused, at_ms: int) -> None:
    op = operation(s, e.step, e.path, "tool", e.tool, e.args_hash, at_ms, "done")
    leave_scope(s, e.step, e.path, op)
    if e.call is not None:
        s.named[e.key] = NamedEffect(e.args_hash, e.call, e.response)
    op.key, op.outcome = e.key, s.named[e.key].response


def _effect_deferred(s: State, e: ev.EffectDeferred, at_ms: int) -> None:
    op = operation(s, e.step, e.path, "tool", e.tool, e.args_hash, at_ms, "deferred")
    op.key, op.needed_nanousd, op.blocked = e.key, 0, False
    if e.call is None:
        leave_scope(s, e.step, e.path, op)
        s.deferred[f"{e.step}:{e.path}"] = None
    else:
        op.scope, op.other = f"{EFFECT}/{e.key}", e.call
        s.deferred.pop(f"{e.step}:{e.path}", None)
        s.short[f"{e.step}:{e.path}"] = None


def _effect_completed(s: State, e: ev.EffectCompleted, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    _free(s, call)
    _settle(s, call, call.hold_nanousd)
    if call.named and call.key is not None:
        s.named[call.key] = NamedEffect(call.args_hash, e.call, e.response)
    if call.compensation is not None:
        s.compensable.append(Compensable(e.call, call.name, call.compensation, call.request, e.response))
    step = s.step(call.step)
    op = step.journal.get(call.path) if step is not None else None
    if op is not None and op.call == e.call:
        close(s, call.step, call.path, outcome=e.response, sender=call)
    wake_deferred(s)


def _effect_failed(s: State, e: ev.EffectFailed, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    _free(s, call)
    _settle(s, call, e.cost_nanousd)
    _unname(s, e.call, call)
    _set_open(s, call, e.call, "failed", e.error)
    wake_deferred(s)


def _effect_released(s: State, e: ev.EffectReleased, at_ms: int) -> None:
    call = s.calls.pop(e.call)
    _free(s, call)
    s.tool_calls -= call.compensates is None
    _unname(s, e.call, call)
    _set_open(s, call, e.call, "reopened")
    wake_deferred(s)


def _effect_in_doubt(s: State, e: ev.EffectInDoubt, at_ms: int) -> None:
    call = s.calls[e.call]
    _doubt_money(s, call)
    _doubt(call, e.error, at_ms)
    _set_open(s, call, e.call, "unverified" if s.is_verified(call) else "in_doubt", e.error)


def _effect_unanswered(s: State, e: ev.EffectUnanswered, at_ms: int) -> None:
    call = s.calls[e.call]
    _set_open(s, call, e.call, "failed", e.error)
    _doubt_money(s, call)
    _doubt(call, e.error, at_ms)
    _unname(s, e.call, call)
    wake_deferred(s)


def _effect_reopened(s: State, e: ev.EffectReopened, at_ms: int) -> None:
    call = s.calls[e.call]
    if not call.doubted:
        _doubt_money(s, call)
        _doubt(call, None, at_ms)
    call.reopened = True
    _unname(s, e.call, call)
    _set_open(s, call, e.call, "reopened")
    wake_deferred(s)


def _unname(s: State, id_: CallId, call: OpenCall) -> None:
    """Free the name of an effect that did not happen, or that may be called again: another call may take it."""
    if call.named and call.key is not None and (known := s.named.get(call.key)) is not None and known.call == id_:
        del s.named[call.key]


def _outcome_orphaned(s: State, e: ev.OutcomeOrphaned, at_ms: int) -> None:
    s.abandoned.pop(e.call, None)


def _tool_call_denied(s: State, e: ev.ToolCallDenied, at_ms: int) -> None:
    op = operation(s, e.step, e.path, "tool", e.tool, e.args_hash, at_ms, "failed")
    op.error = e.error


FOLDS: Final[Folds] = {
    ev.ModelCallHeld: _model_call_held,
    ev.HoldDeferred: _hold_deferred,
    ev.ScopeExceeded: _scope_exceeded,
    ev.ModelCallSettled: _model_call_settled,
    ev.ModelCallFailed: _model_call_failed,
    ev.ModelCallInDoubt: _model_call_in_doubt,
    ev.ModelCallReconciled: _model_call_reconciled,
    ev.EffectIntended: _effect_intended,
    ev.EffectReused: _effect_reused,
    ev.EffectDeferred: _effect_deferred,
    ev.EffectCompleted: _effect_completed,
    ev.EffectFailed: _effect_failed,
    ev.EffectReleased: _effect_released,
    ev.EffectInDoubt: _effect_in_doubt,
    ev.EffectUnanswered: _effect_unanswered,
    ev.EffectReopened: _effect_reopened,
    ev.OutcomeOrphaned: _outcome_orphaned,
    ev.ToolCallDenied: _tool_call_denied,
}
