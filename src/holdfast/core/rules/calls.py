"""The rules of calls: an intent opens one, an outcome closes it exactly once, and what is lost is in doubt.

Two fences: an intent must come from the step's current attempt; an outcome is addressed to its call and is accepted
whichever process brings it, whatever became of the attempt or the run. Never here: how a call is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import COMPENSATE
from holdfast.core.facts.state import OPEN_STEPS, REPEATABLE, NamedEffect, OpenCall, State, Step
from holdfast.core.rules import dead_letters, fence, limits, mapping, questions, shortages, waits
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.fence import intends, match_operation
from holdfast.core.values.actor import NOBODY
from holdfast.core.values.ids import CallId, EffectKey, Path, SessionId, call_id, effect_key, is_item, map_of, node_of, run_of
from holdfast.core.values.policies import CANCELLED, LOST, TRANSIENT, ErrorRecord
from holdfast.errors import AlreadyClosed, Conflict, InvalidInput, KeyReused, NotFound, Suspended

COUNTED: Final = "the provider had reported what the call used"
"""The reason why a call without a reply is reconciled, without a person."""

# --- Model calls ------------------------------------------------------------------------------------------------------


def hold_model_call(d: Decision, c: commands.HoldModelCall) -> None:
    """Set the worst case aside, or say why not: refuse, never clamp."""
    step = intends(d, c, c.path, "model", c.model, c.args_hash)
    op = step.journal.get(c.path)
    if op is not None and op.status in ("done", "failed", "open"):
        return  # it has its outcome, or another call of it is in flight: the caller looks at the journal
    d.record(c.step, c.values)
    stopped = limits.stops_calls(d)
    offers = [_bounded(d.state, offer) for offer in c.offers]
    rooms = [limits.room(d, "model", offer.hold_nanousd, offer.tokens) for offer in offers]
    if "now" in rooms and not stopped:
        fitting = [number for number, room in enumerate(rooms) if room == "now"]
        found = {n: shortages.room(d, c.step, offers[n]) for n in fitting}
        admitted = next((n for n, room in found.items() if room.short is None), None)
        if admitted is None:
            least = min((offers[n] for n in fitting), key=lambda o: (o.hold_nanousd, o.tokens))
            shortages.wait(d, c, "model", c.model, least)
            return
        offer = offers[admitted]
        limits.note_excess(d, "model", offer.model, offer.hold_nanousd, offer.tokens)
        call = call_id(d.state.run, c.step, step.named(c.path), (op.tries if op is not None else 0) + 1)
        d.emit(
            ev.ModelCallHeld(
                call,
                c.step,
                c.attempt,
                c.path,
                c.model,
                c.args_hash,
                offer.hold_nanousd,
                admitted,
                offer.model,
                offer.tokens,
                scoped=True,
                tokens_scoped=True,
                bound_percent=d.state.bound_percents.get(offer.model, 100),
                token_bound_percent=d.state.token_bound_percents.get(offer.model, 100),
                agent=shortages.agent_of(d, c.step),
                loans=found[admitted].loans,
                request=c.request,
            )
        )
        return
    least = min(offers, key=lambda offer: offer.hold_nanousd)
    tokens = min(offer.tokens for offer in offers)
    blocked = all(room == "never" for room in rooms)
    d.emit(ev.HoldDeferred(c.step, c.attempt, c.path, c.model, c.args_hash, least.hold_nanousd, tokens, blocked))
    if stopped:
        limits.attend_time(d)
    elif blocked:
        limits.block(d, "model", least.model, least.hold_nanousd, tokens)


def _bounded(state: State, offer: commands.CallCandidate) -> commands.CallCandidate:
    """The offer at the bound that holds in this run: higher where the model has billed a call of it above its own."""
    percents = (state.bound_percents.get(offer.model, 100), state.token_bound_percents.get(offer.model, 100))
    held = zip((offer.hold_nanousd, offer.tokens), percents, strict=True)
    return commands.CallCandidate(offer.model, *(-(-amount * percent // 100) for amount, percent in held))


def settle_model_call(d: Decision, c: commands.SettleModelCall) -> None:
    call = _open(d, c.call, "model")
    if call is None:
        return
    over = c.cost_nanousd > call.hold_nanousd or 0 < call.tokens < c.input_tokens + c.output_tokens
    cache = c.cache_read_tokens, c.cache_write_tokens, c.cacheable_nanousd
    d.emit(ev.ModelCallSettled(c.call, c.cost_nanousd, c.input_tokens, c.output_tokens, c.output, over, call.hold, *cache))


def fail_model_call(d: Decision, c: commands.FailModelCall) -> None:
    call = _open(d, c.call, "model")
    if call is not None:
        reopens = c.reopens or _passes_on(d, c.fallbacks, call.hold_nanousd, call.tokens)
        d.emit(ev.ModelCallFailed(c.call, c.error, reopens, call.hold))


def doubt_model_call(d: Decision, c: commands.DoubtModelCall) -> None:
    call = _open(d, c.call, "model")
    if call is not None and not call.doubted:
        reopens = c.reopens or _passes_on(d, c.fallbacks)
        d.emit(ev.ModelCallInDoubt(c.call, c.error, reopens, c.output, call.hold, c.partial))
        if c.cost_nanousd is not None:  # lost after its provider had counted it: what it cost is known all the same
            d.emit(ev.ModelCallReconciled(c.call, c.cost_nanousd, hold=call.hold, rule=COUNTED))


def _passes_on(d: Decision, fallbacks: Sequence[commands.CallCandidate], freed_nanousd: int = 0, freed_tokens: int = 0) -> bool:
    """True if one of `fallbacks` fits what is left once this much is free again. If none does, the operation fails as its call
    did, and its step's policy decides: it does not wait for money."""
    return any(
        d.state.headroom(max(0, each.hold_nanousd - freed_nanousd), max(0, each.tokens - freed_tokens)) == "now"
        for each in fallbacks
    ) and not limits.stops_calls(d)


def reconcile_call(d: Decision, c: commands.ReconcileCall) -> None:
    call = d.state.calls.get(c.call)
    if call is not None and call.kind == "effect" and call.doubted and call.hold_nanousd:
        raise Conflict(
            f"The call {c.call} is one of the tool {call.name!r}, whose price follows from what became of it. Nothing was"
            " reconciled: say that first (`holdfast effects resolve`)."
        )
    if call is None or call.kind != "model" or not call.doubted:
        raise NotFound(f"No money is in doubt under the call {c.call}.")
    if c.cost_nanousd < 0:
        raise InvalidInput(f"A call cannot have cost less than nothing; {c.call} is still in doubt.")
    d.emit(ev.ModelCallReconciled(c.call, c.cost_nanousd, *c.by.event_fields, call.hold, c.rule))


# --- Effects ----------------------------------------------------------------------------------------------------------


def intend_effect(d: Decision, c: commands.IntendEffect) -> None:
    """Open the call of a tool, unless its effect is another call's already: then that one's outcome is this one's too."""
    step = intends(d, c, c.path, "tool", c.tool, c.args_hash)
    op = step.journal.get(c.path)
    if op is not None and op.status not in ("reopened", "deferred"):
        return
    key = c.key or (op.key if op is not None else None)
    key = key or effect_key(d.state.tenant, d.state.run, c.step, step.named(c.path), c.tool)
    known = d.state.named.get(key) if c.key is not None else None
    elsewhere = d.taken.get(key) if c.tenant_wide and known is None else None
    doubted = {id_: call.args_hash for id_, call in d.state.calls.items() if call.key == key and call.repeatable}
    other = known or elsewhere
    _check_request(c, doubted | ({other.call: other.args_hash} if other is not None else {}))
    d.record(c.step, c.values)
    if other is not None:
        _meet(d, c, key, other)
        return
    if c.policy == "once" and c.compensates is None and not fence.may_repeat(d.state, step, c.path):
        raise Conflict(
            f"Run {d.state.run} is a fork, and this call of {c.tool!r} is none of its origin's. What happens once is done again"
            " only if a person approves it, or the fork repeats effects (repeat_effects=True). Nothing was called."
        )
    loans = _granted(d, c)
    if loans is None:
        return
    given_up = [call for call in d.state.calls.values() if call.key == key]
    for id_ in doubted:
        questions.withdraw_about(d, id_, "it is called again under its key")
    number = (op.tries if op is not None else 0) + 1
    d.emit(
        ev.EffectIntended(
            call=call_id(d.state.run, c.step, step.named(c.path), number),
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
            tenant_wide=c.tenant_wide,
            hold_nanousd=c.hold_nanousd,
            given_up={id_: call.hold for id_, call in d.state.calls.items() if call.key == key and call.hold is not None},
            agent=shortages.agent_of(d, c.step) if c.hold_nanousd else None,
            loans=loans,
        )
    )
    for call in given_up:
        go_on(d, call, again=True)  # a step that failed for want of that outcome has this one's


def _granted(d: Decision, c: commands.IntendEffect) -> dict[str, int] | None:
    """Return what others lend for a tool call, if the limits allow the call; None if it waits. Limits do not apply to
    undoing."""
    if c.compensates is not None:
        return {}
    stopped = limits.is_out_of_time(d)
    room = limits.room(d, "tool", c.hold_nanousd, 0)
    if room == "now" and not stopped:
        offer = commands.CallCandidate(c.tool, c.hold_nanousd, 0)
        found = shortages.room(d, c.step, offer)
        if found.short is None:
            limits.note_excess(d, "tool", c.tool, c.hold_nanousd, 0)
            return found.loans
        shortages.wait(d, c, "tool", c.tool, offer)
        return None
    blocked = stopped or room == "never"
    d.emit(ev.HoldDeferred(c.step, c.attempt, c.path, c.tool, c.args_hash, c.hold_nanousd, 0, blocked, "tool"))
    if stopped:
        limits.attend_time(d)
    elif blocked:
        limits.block(d, "tool", c.tool, c.hold_nanousd, 0)
    return None


def _check_request(c: commands.IntendEffect, requests: Mapping[CallId, str]) -> None:
    """Raises KeyReused where a call under the same key has asked for something else; `requests` are their hashes."""
    for other, args_hash in requests.items():
        if args_hash != c.args_hash:
            raise KeyReused(
                f"The effect key of this call to {c.tool!r} was used for another request in call {other} of run"
                f" {run_of(other)}. Nothing was called: the same key must mean the same thing.",
                call=other,
                run=run_of(other),
            )


def _meet(d: Decision, c: commands.IntendEffect, key: EffectKey, other: NamedEffect | commands.KnownEffect) -> None:
    """The effect is another call's, of this run or of another: take its outcome, or wait for it. Nothing is sent."""
    # Of another run's call the event tells, of its own the state knows.
    call, response = (other.call, other.response) if isinstance(other, commands.KnownEffect) else (None, None)
    if other.response is not None:
        d.emit(ev.EffectReused(c.step, c.attempt, c.path, c.tool, c.args_hash, key, call, response))
    else:
        d.emit(ev.EffectDeferred(c.step, c.attempt, c.path, c.tool, c.args_hash, key, call))


def complete_effect(d: Decision, c: commands.CompleteEffect) -> None:
    call = _open(d, c.call, "effect", orphan=ev.OutcomeOrphaned(c.call, response=c.response))
    if call is not None:
        questions.withdraw_about(d, c.call, "its outcome arrived")
        d.emit(ev.EffectCompleted(c.call, c.response, hold=call.hold))
        go_on(d, call, again=True)


def fail_effect(d: Decision, c: commands.FailEffect) -> None:
    call = _open(d, c.call, "effect", orphan=ev.OutcomeOrphaned(c.call, error=c.error))
    if call is not None:
        questions.withdraw_about(d, c.call, "its outcome arrived")
        d.emit(ev.EffectFailed(c.call, c.error, hold=call.hold))
        go_on(d, call)


def release_effect(d: Decision, c: commands.ReleaseEffect) -> None:
    call = _open(d, c.call, "effect", orphan=None)
    if call is not None:
        questions.withdraw_about(d, c.call, "it provably never left")
        d.emit(ev.EffectReleased(c.call, call.hold))
        go_on(d, call)


def doubt_effect(d: Decision, c: commands.DoubtEffect) -> None:
    """The sender lived, but cannot say what happened: a time-out, a connection that broke."""
    call = _open(d, c.call, "effect", orphan=None)
    if call is None or call.doubted:
        return
    # Repeating is harmless under some policies, so for the step it is an ordinary failure: its retry policy decides.
    if c.reopens and call.policy in REPEATABLE:
        d.emit(ev.EffectReopened(c.call, hold=call.hold))
    elif call.policy == "read":
        d.emit(ev.EffectFailed(c.call, c.error, hold=call.hold, cost_nanousd=call.hold_nanousd))
    elif call.policy in REPEATABLE:
        d.emit(ev.EffectUnanswered(c.call, c.error, call.hold))
    else:
        d.emit(ev.EffectInDoubt(c.call, c.error, call.hold))


def reopen_effect(d: Decision, c: commands.ReopenEffect) -> None:
    """The tool's own lookup found nothing. That counts only when the tool has had its time to settle."""
    call = d.state.calls.get(c.call)
    if call is None or call.kind != "effect" or not call.doubted or call.reopened:
        raise AlreadyClosed(f"The call {c.call} already has its outcome.", call=c.call)
    if call.policy != "verify":
        raise Conflict(f"The tool of call {c.call} has no lookup; only a person can have it called again.")
    if d.now_ms < call.at_ms + int((call.settles_within_s or 0) * 1000):
        raise Suspended(
            f"The call {c.call} may still have an effect that its lookup does not show; what the lookup says counts"
            f" {call.settles_within_s:g} s after the last moment at which it may have left."
        )
    questions.withdraw_about(d, c.call, "its lookup found that it did not happen")
    d.emit(ev.EffectReopened(c.call, hold=call.hold))
    go_on(d, call)


def deny_tool_call(d: Decision, c: commands.DenyToolCall) -> None:
    op = match_operation(d.current(c), c.path, "tool", c.tool, c.args_hash)
    if op is not None and op.status not in ("reopened", "deferred"):
        return  # it was called before it was forbidden: what became of it stands
    d.record(c.step, c.values)
    d.emit(ev.ToolCallDenied(c.step, c.attempt, c.path, c.tool, c.args_hash, c.error))


def attend_doubts(d: Decision) -> None:
    """See that each effect in doubt will be settled: by its step, which repeats or verifies it, or else by a person.

    Looked at after every rule, because a step that would have done it can end in many ways.
    """
    for id_, call in list(d.state.calls.items()):
        if call.kind != "effect" or not call.doubted or questions.is_asked_about(d.state, id_):
            continue
        wanted = is_wanted(d.state, id_, call)
        if wanted and (call.repeatable or (d.state.is_verified(call) and _has_its_step(d.state, id_, call))):
            continue  # who only waits for the same effect verifies nothing
        node = node_of(call.step)
        if call.policy == "read":  # it changes nothing, so no event is needed
            error = d.error(node, CANCELLED, "Its answer is not needed any more.", tool=call.name)
            d.emit(ev.EffectFailed(id_, error, hold=call.hold, cost_nanousd=call.hold_nanousd))
        else:
            unknown = call.error or d.error(node, LOST, f"It cannot be known what became of {id_}.", tool=call.name)
            questions.ask_about_effect(d, id_, call, unknown, repeatable=wanted)


def doubt_behind(state: State, step: Step, error: ErrorRecord, path: Path | None) -> CallId | None:
    """Return the call of unknown outcome that a step has failed of; None where it failed of something else, or may not ask for
    that call again."""
    op = step.journal.get(path) if path is not None else None
    found = [op] if op is not None else [each for _, each in step.unsettled()]
    passes = error.error_class in TRANSIENT
    for each in found:
        call = state.calls.get(each.call) if each.call is not None and each.kind == "tool" else None
        if call is None or call.kind != "effect" or not call.doubted or each.call is None:
            continue
        if each.status == "unverified" or (call.repeatable and (each.status == "failed" or passes)):
            return each.call
    return None


def go_on(d: Decision, call: OpenCall, *, again: bool = False) -> None:
    """Let a step go on that had failed only because the outcome of `call` was unknown. `again`: its operation is looked at
    again."""
    step = d.state.step(call.step)
    if step is None or step.failed_path != call.path or not _may_go_on(d.state, step):
        return
    if not questions.is_asked_about(d.state, step.id):  # else a person says what is to become of the step
        dead_letters.retry(d, step.id, call.path if again else None, NOBODY)
        mapping.resume(d, step)
        waits.deliver(d)


def _may_go_on(state: State, step: Step) -> bool:
    """True for a step that is set aside until a person answers, while anything waits for it."""
    name = node_of(step.id)
    if not step.parked or (is_item(name) and state.maps[map_of(name)].ended):
        return False
    return not state.phase or name == COMPENSATE


def is_wanted(state: State, id_: CallId, call: OpenCall) -> bool:
    """True if a step exists that may make this call again: its own, or one that means the same effect."""
    return _has_its_step(state, id_, call) or any(
        op.key == call.key and op.status in ("reopened", "deferred")
        for name in state.unfinished
        for _, op in state.steps[name].unsettled()
    )


def _has_its_step(state: State, id_: CallId, call: OpenCall) -> bool:
    """True if the step that made the call still exists."""
    step = state.step(call.step)
    if step is None or (op := step.journal.get(call.path)) is None or op.call != id_:
        return False
    return step.status in OPEN_STEPS or _may_go_on(state, step)


# --- What a dead session leaves behind ---------------------------------------------------------------------------------


def lose_calls(d: Decision, dead: frozenset[SessionId]) -> None:
    """The processes that were making these calls are dead: settle what each call now means."""
    for id_, call in list(d.state.calls.items()):
        if call.doubted or call.session not in dead:
            continue
        message = f"The process died during {id_}; how far it got cannot be known."
        error = d.error(node_of(call.step), LOST, message, tool=call.name if call.kind == "effect" else None)
        if call.kind == "model":
            d.emit(ev.ModelCallInDoubt(id_, error, reopens=True, hold=call.hold))
        elif call.policy in REPEATABLE:
            d.emit(ev.EffectReopened(id_, hold=call.hold))
        else:
            d.emit(ev.EffectInDoubt(id_, error, call.hold))


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
