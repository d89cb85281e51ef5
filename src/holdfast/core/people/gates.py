"""The rules of gates: what a person is asked, which answers count, and what follows from each.

A gate takes one decision, bound to the hash of exactly what was shown; on time-out it never decides by itself. What the engine
asks (an unknown effect, a limit, a failure) is a gate like any other. Never here: notifying a person.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.contribution import gives_content, with_read
from holdfast.core.facts.graph import EXPIRED, GATE_DECISIONS
from holdfast.core.facts.state import OTHERS, TOOL_APPROVAL, Gate, State
from holdfast.core.people import changed_code
from holdfast.core.people.reviewers import (
    MAX_REVIEWERS,
    barred,
    check_another_can_decide,
    check_assigned,
    check_distinct,
    check_person,
    check_somebody_can_decide,
    describe_reviewers,
    makers_of,
)
from holdfast.core.rules import calls, dead_letters, endings, limits, mapping, steps, waits
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.fence import intends
from holdfast.core.rules.questions import CODE_CHANGED, COMPENSATION_FAILED, EFFECT_UNKNOWN, EXHAUSTED, VERSION_HELD
from holdfast.core.rules.readiness import chosen, may_loop
from holdfast.core.values import policies, proposal
from holdfast.core.values.actor import folded, suffices
from holdfast.core.values.ids import CallId, GateId, StepId, gate_id, node_of, run_of
from holdfast.core.values.money import nanousd
from holdfast.core.values.payload import INLINE_BYTES, Payload, digest, inline, is_sensitive
from holdfast.core.values.policies import LIMIT, REJECTED, TOOL
from holdfast.errors import AlreadyDecided, Conflict, DecisionRefused, HoldfastError, InvalidDecision, InvalidInput, NotFound

APPROVAL: Final = "approval"
"""A `human_gate` node asks."""
QUESTION: Final = "question"
"""A handler asks, with `ctx.ask`."""
_FOR_A_TOOL: Final = (EFFECT_UNKNOWN, TOOL_APPROVAL)
"""Reasons where a person's answer stands for the tool's: any data, whatever the form of its arguments is."""
DEADLINE: Final = "gate_deadline_passed"
"""A gate had no answer before its deadline and needs attention."""
STALE: Final = "gate_stale_limit_exceeded"
"""A gate had no answer for `cancel_after_s` more; the run was cancelled."""
_COUNTABLE: Final = frozenset(GATE_DECISIONS)
"""What a gate with a quorum may be asked to take: approvals are counted, one of the others is enough; `answer` is left out."""
MAX_REMINDERS: Final = 1000
"""Of one question: a person who has not heard by then will not hear the next one either, and each is an event for ever."""


# --- Opening ----------------------------------------------------------------------------------------------------------


def open_gate(d: Decision, c: commands.OpenGate) -> None:
    step = intends(d, c, c.path, "gate", c.reason, c.args_hash)
    if c.path in step.journal:
        if c.completes_step:
            steps.suspend(d, step)
        return
    _check_form(c)
    for problem in proposal.problems(*c.proposal):
        raise InvalidInput(f"Ask with another proposal: {problem}. No question was asked.")
    if c.four_eyes and not folded(d.state.by):
        raise InvalidInput(
            "Say who asks for the run at its start (by=NAME): this question needs a second pair of eyes, and"
            " it is unknown who asked for the run, so no decision could count. No question was asked."
        )
    if not all(folded(name) for name in c.not_by):
        raise InvalidInput(
            "Name the persons who may not decide: not_by holds an empty name, which excludes no person. Have the question"
            " before this one ask reviewers, whose names are kept. No question was asked."
        )
    _check_quorum(c)
    c = msgspec.structs.replace(c, not_by=(*c.not_by, *(makers_of(d.state, c.not_by) if c.not_by else ())))
    if OTHERS in c.not_by:
        raise InvalidInput(
            "Ask without not_by: too many persons have decided with keys, here or in runs that this one has read from, to keep"
            " who made those. No question was asked."
        )
    known = with_read(d.state, c.values) if c.four_eyes else ()
    check_somebody_can_decide(d, c, known)
    d.record(c.step, c.values)
    due_at_ms = d.now_ms + c.timeout_ms if c.timeout_ms is not None else None
    expires_at_ms = d.now_ms + c.expires_after_ms if c.expires_after_ms is not None else None
    d.emit(
        ev.GateOpened(
            gate=gate_id(d.state.run, c.step, step.named(c.path)),
            reason=c.reason,
            shown=c.shown,
            shown_hash=c.shown_hash,
            allowed=_within_quorum(c.quorum, _offered(d, c) if c.completes_step else c.allowed),
            step=c.step,
            attempt=c.attempt,
            path=c.path,
            args_hash=c.args_hash,
            form=c.form,
            filled=c.filled,
            reviewers=c.reviewers,
            requester=d.state.by,
            four_eyes=c.four_eyes,
            due_at_ms=due_at_ms,
            remind_every_ms=c.remind_every_ms,
            cancel_after_ms=c.cancel_after_ms,
            completes_step=c.completes_step,
            expires_at_ms=expires_at_ms,
            not_by=c.not_by,
            contributors=known,
            quorum=c.quorum,
            hash_optional=c.hash_optional,
            proposed_action=c.proposal.proposed_action,
            evidence_ids=c.proposal.evidence_ids,
            risk_level=c.proposal.risk_level,
            terms=c.terms,
        )
    )
    if c.completes_step:
        steps.suspend(d, step)


def _check_quorum(c: commands.OpenGate) -> None:
    """Raises InvalidInput for a quorum that is none, or of answers that cannot be counted."""
    if not 1 <= c.quorum <= MAX_REVIEWERS:
        raise InvalidInput(f"Give quorum= as 1 to {MAX_REVIEWERS} persons; not {c.quorum}. No question was asked.")
    if c.quorum > 1 and ("approve" not in c.allowed or not {*c.allowed} <= _COUNTABLE):
        raise InvalidInput(
            f"Have a question with a quorum take approve, edit, reject or retry, approve among them; not"
            f" {', '.join(c.allowed)}. No question was asked."
        )


def _within_quorum(quorum: int, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the decisions that a gate takes; persons cannot be counted who answer in words of their own."""
    return allowed if quorum == 1 else tuple(each for each in allowed if each != "answer")


def _check_form(c: commands.OpenGate) -> None:
    """Raises InvalidInput for a form that no answer could ever be checked against."""
    if c.form is None:
        return
    from holdfast.core.values import schema  # noqa: PLC0415 - 100 ms for those who have one

    if (flaw := schema.flaw(c.form)) is not None:
        raise InvalidInput(f"The form of this gate is no JSON Schema that can be used: {flaw}. No question was asked.")
    if c.filled.blob is not None:
        raise InvalidInput(
            f"What this gate's form is filled with is {c.filled.size_bytes} bytes; a decision carries all of it, so it"
            f" must be below {INLINE_BYTES}. No question was asked: fill the form with less, and show the rest."
        )


def _offered(d: Decision, c: commands.OpenGate) -> tuple[str, ...]:
    """Return the decisions of a human_gate: retry only if an edge or a loop with visits left follows it."""
    name = node_of(c.step)
    named = any(edge.when == "retry" for edge in d.graph.outgoing.get(name, ()))
    loops = any(chosen(d.graph, loop, ("retry",)) and may_loop(d.state, loop) for loop in d.graph.loops_from.get(name, ()))
    return tuple(decision for decision in c.allowed if decision != "retry" or named or loops)


# --- Whom it asks -----------------------------------------------------------------------------------------------------


def assign_gate(d: Decision, c: commands.AssignGate) -> None:
    opened = _open(d, c.gate)
    if not opened.allowed:
        raise _not_taken(opened, "")
    if not c.to or not all(folded(name) for name in c.to):
        raise InvalidInput(f"Say whom gate {c.gate} is to ask, by names or roles. It still asks {describe_reviewers(opened)}.")
    check_assigned(d.state, opened, c)
    reviewers = tuple(dict.fromkeys((*(opened.reviewers if c.delegates else ()), *c.to)))
    if opened.quorum > 1 and not suffices(reviewers, barred(d.state, opened), opened.quorum):
        raise DecisionRefused(
            f"Name more persons: gate {c.gate} needs {opened.quorum} who approve, and {', '.join(reviewers)} are fewer."
            f" It still asks {describe_reviewers(opened)}. Write one that is a role as role:NAME."
        )
    if len(reviewers) > MAX_REVIEWERS:
        raise InvalidInput(f"Gate {c.gate} can ask {MAX_REVIEWERS} at most. It still asks {describe_reviewers(opened)}.")
    if reviewers != opened.reviewers:
        d.emit(ev.GateAssigned(c.gate, reviewers, c.delegates, *c.by.event_fields, c.reason, c.roles))


# --- Deciding ---------------------------------------------------------------------------------------------------------


class _Checked(NamedTuple):
    """A decision that a gate takes: what was asked, what the decision comes to, and the limit that it raises."""

    opened: ev.GateOpened
    decision: commands.DecideGate
    data: Payload
    raised: ev.LimitRaised | None


def decide_gate(d: Decision, c: commands.DecideGate) -> None:
    _take(d, _checked(d, c))


def decide_together(d: Decision, c: commands.DecideTogether) -> None:
    """Answer several calls of tools that a step asks about at the same time: all of these answers are taken, or none."""
    gates_ = [each.gate for each in c.decisions]
    if not gates_ or len(set(gates_)) < len(gates_):
        raise InvalidDecision("Say of at least one gate, and of each once, what is decided. Nothing was decided.")
    checked = [_checked(d, each) for each in c.decisions]
    first = checked[0].opened
    for each in checked:
        if each.opened.gate not in asked_together(d.state, first.gate):
            raise InvalidDecision(
                f"Gate {each.opened.gate} is not about a call of a tool that is asked about together with {first.gate}."
                " Nothing was decided: decide it by itself."
            )
    for number, each in enumerate(checked):
        _check_not_given_before(each, checked[:number])
    for each in checked:
        _take(d, each)


def _check_not_given_before(checked: _Checked, before: Sequence[_Checked]) -> None:
    """Raise DecisionRefused where the person has contributed by an answer before this one: taken one after the other, it would
    be refused for that."""
    opened, by = checked.opened, checked.decision.by
    if not opened.four_eyes:
        return
    for earlier, other, data, _ in before:
        gives = gives_content(earlier, other.decision, data, other.reason) and not _is_edit(earlier, other, data)
        if gives and folded(other.by.name) == folded(by.name):
            raise DecisionRefused(
                f"Gate {opened.gate} needs a second pair of eyes, and {by.name!r} contributes to the run by answering"
                f" {earlier.gate}. Nothing was decided: answer the one that needs it before the others, or have another"
                " person decide it."
            )


def asked_together(state: State, gate: GateId) -> list[GateId]:
    """The open gates about calls of tools that the same step asks about at the same time, this one among them; in the order of
    their places. Of a gate about something else none."""
    known = state.gates.get(gate)
    if known is None or known.opened.reason != TOOL_APPROVAL:
        return []
    found = (
        other.opened
        for other in state.gates.values()
        if other.opened.reason == TOOL_APPROVAL and other.opened.step == known.opened.step
    )
    return [opened.gate for opened in sorted(found, key=lambda opened: _order(opened.path or ""))]


def _order(path: str) -> list[tuple[int, str]]:
    """Places in the order in which they come: `0.2.0` before `0.10.0`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in path.split(".")]


def _open(d: Decision, gate: GateId) -> ev.GateOpened:
    """A gate that may still be answered. Raises NotFound, AlreadyDecided."""
    known = d.state.gates.get(gate)
    if known is None:
        raise closed(d.state, gate)
    if (expires_at_ms := known.opened.expires_at_ms) is not None and expires_at_ms <= d.now_ms:
        raise _expired(gate, expires_at_ms)
    return known.opened


def _checked(d: Decision, c: commands.DecideGate) -> _Checked:
    """Raises whatever speaks against a decision."""
    opened = _open(d, c.gate)
    if c.decision not in opened.allowed:
        raise _not_taken(opened, c.decision)
    if c.shown_hash is not None and c.shown_hash != opened.shown_hash:
        raise Conflict(
            f"Gate {c.gate} shows something else than what was decided about ({opened.shown_hash[:12]}, not"
            f" {c.shown_hash[:12]}). Nothing was decided: look again (`holdfast gates show {c.gate}`)."
        )
    check_person(opened, c.by.name, c.roles, of=d.state, maker=c.by.maker, kin=c.kin)
    if opened.quorum > 1 and c.decision == "approve":
        check_distinct(d.state, opened, c.by)
    _check_without_data(opened, c)
    data = _data(opened, c)
    if _is_edit(opened, c, data):
        check_another_can_decide(d, opened, c)
    if c.decision not in offered(d.state, opened):
        raise InvalidDecision(
            f"Gate {opened.gate}: give the outcome of the call: the step that made it is over, and nothing can call it again."
            " Answer with the tool's response, or reject if it did not happen."
        )
    if opened.reason == CODE_CHANGED:
        changed_code.check(d, opened, c)
    raised = _raised_limit(d, opened, c) if opened.reason in limits.LIMIT_OF and c.decision == "answer" else None
    return _Checked(opened, c, data, raised)


def _take(d: Decision, checked: _Checked) -> None:
    """Record a decision, and what follows from it."""
    opened, c, data, raised = checked
    if _is_edit(opened, c, data):
        after = digest([opened.shown_hash, data.value()])
        d.emit(ev.GateEdited(c.gate, data, after, *c.by.event_fields, c.reason, c.roles, c.by.maker))
        return
    if c.decision == "approve" and len(d.state.gates[c.gate].approvals) + 1 < opened.quorum:
        d.emit(ev.GateApproved(c.gate, opened.shown_hash, *c.by.event_fields, c.reason, c.roles, c.by.maker))
        return
    follow = _FOLLOWS.get(opened.reason)
    d.emit(ev.GateDecided(c.gate, c.decision, data, opened.shown_hash, *c.by.event_fields, c.reason, c.roles, c.by.maker))
    if raised is not None:
        d.emit(raised)
    elif opened.reason in limits.LIMIT_OF:
        endings.begin_failing(d, d.error("", LIMIT, f"The limit was not extended: {c.reason or 'rejected'}."))
    elif follow is not None:
        follow(d, opened, c, data)
    elif opened.completes_step and opened.step is not None:
        step = d.state.step(opened.step)
        if step is not None:
            steps.finish_step(d, step, data, (c.decision,))


def _check_without_data(opened: ev.GateOpened, c: commands.DecideGate) -> None:
    """Raise InvalidDecision for data beside another word than those that carry it: no other person would see it before the code
    has it."""
    if not (opened.four_eyes or opened.quorum > 1) or c.decision in ("approve", "edit", "answer") or c.data in (None, {}):
        return
    raise InvalidDecision(
        f"Gate {opened.gate} needs a second pair of eyes, and no other person would see the data beside {c.decision!r}. It is"
        f" still open: decide {c.decision!r} without data{', or `edit`' if 'edit' in opened.allowed else ''}."
    )


def _is_edit(opened: ev.GateOpened, c: commands.DecideGate, data: Payload) -> bool:
    """True if a decision changes what a gate with four eyes or a quorum shows, so that another person is to look at it first.
    An answer that a tool is to have given is none: nothing is called with it. One to a question without a form is, where it
    can be approved."""
    if not (opened.four_eyes or opened.quorum > 1):
        return False
    if c.decision == "edit":
        return True
    shown, said = opened.filled.value(), data.value()
    if c.decision == "answer" and opened.reason == QUESTION and opened.form is None and "approve" in opened.allowed:
        return said not in (None, {})
    if c.decision != "answer" or opened.reason == TOOL_APPROVAL or not (isinstance(shown, dict) and isinstance(said, dict)):
        return False
    return any(value is not None and said.get(name) != value for name, value in shown.items())


def _not_taken(opened: ev.GateOpened, decision: str) -> InvalidDecision:
    if not opened.allowed:
        return InvalidDecision(
            f"Gate {opened.gate} takes no decision: it is withdrawn when what it shows has been done"
            f" (`holdfast gates show {opened.gate}`)."
        )
    return InvalidDecision(f"Gate {opened.gate} takes {', '.join(opened.allowed)}, not {decision!r}. It is still open.")


def offered(state: State, opened: ev.GateOpened) -> tuple[str, ...]:
    """Return the decisions that an open gate takes as things stand: a call is made again only while anything may make it."""
    call = state.calls.get(CallId(opened.subject or "")) if opened.reason == EFFECT_UNKNOWN else None
    if call is None or calls.is_wanted(state, CallId(opened.subject or ""), call):
        return opened.allowed
    return tuple(decision for decision in opened.allowed if decision != "retry")


def closed(state: State, gate: GateId) -> HoldfastError:
    """Why a gate that is not open cannot be decided."""
    known = state.decided.get(gate)
    if known is None:
        return no_gate(gate)
    if known.decision == EXPIRED:
        return _expired(gate, known.at_ms)
    return AlreadyDecided(
        f"Gate {gate} was already decided: {known.decision} by {known.by or 'an unnamed person'}.",
        decision=known.decision,
        by=known.by,
        at_ms=known.at_ms,
    )


def no_gate(gate: GateId) -> NotFound:
    """Return the refusal of a decision about an unknown gate."""
    return NotFound(
        f"There is no open gate {gate}; `holdfast gates list` shows those that are, and `holdfast gates show` what"
        " became of one that was decided long ago."
    )


def _expired(gate: GateId, at_ms: int) -> AlreadyDecided:
    return AlreadyDecided(
        f"Gate {gate} has expired: no answer came in time, and none counts any more. Nothing was decided. If"
        f" its run has failed because of that, a retry of the run asks again (`holdfast runs retry {run_of(gate)}`).",
        decision=EXPIRED,
        at_ms=at_ms,
    )


def _data(opened: ev.GateOpened, c: commands.DecideGate) -> Payload:
    """Return the data of the decision. Raises DecisionRefused for an approval of something else than what was shown, and
    InvalidDecision for data that is missing or does not fit the gate's form."""
    filled = opened.filled.value()
    shown: dict[str, Any] = filled if isinstance(filled, dict) else {}
    if c.decision == "approve":
        _check_approval(opened, shown, c.data)
    if c.decision == "answer" and opened.reason in _FOR_A_TOOL:
        if not c.given and c.data is None:
            raise InvalidDecision(f"Gate {opened.gate}: say what the tool answered, for example null (data=JSON).")
        return inline(c.data)
    if opened.form is None:
        return inline(c.data) if opened.edited_by is None or c.decision != "approve" else opened.filled
    if c.decision in ("reject", "retry") or c.decision not in GATE_DECISIONS:
        return inline(c.data or {})
    return inline(_filled(opened.gate, opened.form, shown, c))


def expect_fields(gate: GateId, form: dict[str, Any], data: Any) -> None:
    """Raise InvalidDecision for data whose sensitive fields do not fit their form: once they are sealed that is invisible."""
    if not isinstance(data, dict) or not is_sensitive(form):
        return
    from holdfast.core.values import schema  # noqa: PLC0415 - see above

    given = {name: each for name, each in form.items() if name != "required"}  # what is shown fills in the rest
    _expect_fit(gate, schema, given, data)


def _filled(gate: GateId, form: dict[str, Any], content: dict[str, Any], c: commands.DecideGate) -> dict[str, Any]:
    """The form with what was shown in it, and above that what the person gave. Raises InvalidDecision where it does not fit."""
    if c.decision in ("edit", "answer") and not c.data:
        raise InvalidDecision(f"Gate {gate}: {c.decision} needs data. Its fields: {_fields(form)}.")
    if c.data is not None and not isinstance(c.data, dict):
        raise InvalidDecision(f"Gate {gate}: data is an object of its fields: {_fields(form)}.")
    from holdfast.core.values import schema  # noqa: PLC0415 - see above

    try:
        unknown = schema.unknown_fields(form, c.data or {}, content)
    except schema.TooMuch as problem:
        raise InvalidDecision(f"Gate {gate}: the data cannot be held against its form: {problem}.") from None
    if unknown:
        names = ", ".join(repr(".".join(map(str, each.path))) for each in unknown)
        raise InvalidDecision(
            f"Gate {gate}: the form has no field {names}; its fields: {unknown[0].known}.", field="data", misfits=unknown
        )
    data = {**content, **(c.data or {})}
    _expect_fit(gate, schema, form, data)
    return data


def _expect_fit(gate: GateId, schema: Any, form: dict[str, Any], data: dict[str, Any]) -> None:
    try:
        problems = schema.problems(form, data, "data")
    except schema.TooMuch as problem:
        raise InvalidDecision(f"Gate {gate}: the data cannot be held against its form: {problem}.") from None
    if problems:
        words = f"Gate {gate}: the data does not fit its form: {'; '.join(problems)}."
        raise InvalidDecision(words, field="data", misfits=problems)


def _check_approval(opened: ev.GateOpened, content: dict[str, Any], data: Any) -> None:
    """Raises DecisionRefused for an approval that is not of what was shown. It may fill in what the form has left open: its
    fields that have no value. (The form of a tool's call is its parameters, and leaves nothing open.)"""
    given = data if isinstance(data, dict) else {} if data is None else {"data": data}
    form = opened.form if opened.form is not None and opened.reason != TOOL_APPROVAL else {}
    is_open = {name for name in form.get("properties", {}) if content.get(name) is None and opened.quorum == 1}
    other = [
        name for name in given if name not in is_open and (name not in content or digest(given[name]) != digest(content[name]))
    ]
    if other:
        raise DecisionRefused(
            f"Gate {opened.gate}: an approval is of what was shown; {', '.join(other)} would be something else. It is still"
            f" open.{' Decide `edit` to change it.' if 'edit' in opened.allowed else ' This gate takes no edits.'}"
        )


def _fields(form: dict[str, Any]) -> str:
    return ", ".join(form.get("properties", {})) or "none"


def _raised_limit(d: Decision, opened: ev.GateOpened, c: commands.DecideGate) -> ev.LimitRaised:
    """The new limit that an answer to a limit's gate names: `{"limit_usd": "2.00"}`, or the limit's own name."""
    limit = limits.LIMIT_OF[opened.reason]
    data = c.data if isinstance(c.data, dict) else {}
    given = data.get("limit_usd") if limit == "cost" else data.get(limit, data.get(opened.reason))
    if given is None:
        field = limits.answer_field(limit)
        raise InvalidDecision(
            f"Gate {opened.gate}: the answer needs the new limit, in the field `{field}` of data.", field="data"
        )
    try:
        value = nanousd(given) if limit == "cost" else int(given)
    except (ValueError, TypeError, OverflowError):
        raise InvalidDecision(f"Gate {opened.gate}: {given!r} is no limit.") from None
    limits.check_raise(d, limit, value)
    limits.check_enough(d, limit, value)
    return ev.LimitRaised(limit, value, *c.by.event_fields)


def _effect_answered(d: Decision, opened: ev.GateOpened, c: commands.DecideGate, data: Payload) -> None:
    call = CallId(opened.subject or "")
    made = d.state.calls[call]
    hold = made.hold
    if c.decision == "answer":
        d.emit(ev.EffectCompleted(call, data, *c.by.event_fields, hold))
    elif c.decision == "reject":
        tool = d.state.calls[call].name
        message = f"{c.by.name or 'A person'} found that this call of {tool!r} did not happen" + (
            f": {c.reason}" if c.reason else "."
        )
        error = d.error(node_of(d.state.calls[call].step), TOOL, message, tool=tool)
        d.emit(ev.EffectFailed(call, error, *c.by.event_fields, hold))
    else:
        d.emit(ev.EffectReopened(call, *c.by.event_fields, hold))
    calls.go_on(d, made, again=c.decision != "reject")


def _failure_answered(d: Decision, opened: ev.GateOpened, c: commands.DecideGate, data: Payload) -> None:
    step = d.state.step(StepId(opened.subject or ""))
    if step is None:
        return
    if c.decision == "retry":
        dead_letters.retry(d, step.id, step.failed_path, c.by)
        mapping.resume(d, step)
        waits.deliver(d)  # what came while the step was parked
    elif c.decision == "answer":
        _name_contributor(d, c)
        steps.finish_step(d, step, data, None)
    elif step.error is not None:
        d.emit(ev.DeadLetterResolved(step.id, c.reason, *c.by.event_fields))
        endings.begin_failing(d, step.error)


def _compensation_answered(d: Decision, opened: ev.GateOpened, c: commands.DecideGate, data: Payload) -> None:
    step = d.state.step(StepId(opened.subject or ""))
    if step is None:
        return
    if c.decision == "retry":
        d.emit(ev.StepReplayed(step.id, step.failed_path, *c.by.event_fields))
    else:
        _name_contributor(d, c)
        steps.finish_step(d, step, data, None)


def _name_contributor(d: Decision, c: commands.DecideGate) -> None:
    """Record who says what a step comes to in its place."""
    if c.by.name is not None:
        d.emit(ev.ContributorNamed(c.by.name))


def _version_answered(d: Decision, opened: ev.GateOpened, c: commands.DecideGate, data: Payload) -> None:
    """Fail the run if its version was not released; else its first steps start, as no gate is in their way any more."""
    if c.decision == "reject":
        endings.begin_failing(d, d.error("", REJECTED, f"Its version was not released: {c.reason or 'rejected'}."))


_FOLLOWS: Final = {
    VERSION_HELD: _version_answered,
    EFFECT_UNKNOWN: _effect_answered,
    EXHAUSTED: _failure_answered,
    CODE_CHANGED: changed_code.answered,
    COMPENSATION_FAILED: _compensation_answered,
}


# --- Waiting ----------------------------------------------------------------------------------------------------------


def attend_due(d: Decision) -> None:
    """Remind, escalate and, where the workflow says so, cancel. A gate never decides by itself."""
    for id_, gate in list(d.state.gates.items()):
        opened = gate.opened
        if id_ not in d.state.gates:
            continue  # what came of one before it has taken it back
        if opened.expires_at_ms is not None and opened.expires_at_ms <= d.now_ms:
            _expire(d, opened)
            continue
        if opened.due_at_ms is not None and gate.escalated_at_ms is None and opened.due_at_ms <= d.now_ms:
            d.emit(ev.GateEscalated(id_, DEADLINE))
        if stale_at_ms(gate) is not None and d.now_ms >= (stale_at_ms(gate) or 0) and d.state.phase != "cancelling":
            endings.begin_cancelling(d, STALE)
            return
        due = remind_at_ms(gate)
        if due is not None and due <= d.now_ms and opened.remind_every_ms:
            # After a long sleep one reminder stands for all that were missed.
            d.emit(ev.GateReminded(id_, max(gate.reminders + 1, (d.now_ms - gate.at_ms) // opened.remind_every_ms)))


def _expire(d: Decision, opened: ev.GateOpened) -> None:
    """No answer counts any more: what follows is said by an edge for that, or it is the failure of what asked."""
    words = f"Gate {opened.gate} was not answered in time, and no answer counts any more."
    d.emit(ev.GateExpired(opened.gate, d.error(node_of(opened.step or StepId("")), policies.EXPIRED, words)))
    if opened.completes_step and opened.step is not None and (step := d.state.step(opened.step)) is not None:
        steps.finish_step(d, step, inline({}), (EXPIRED,))


def due_at_ms(gate: Gate) -> Iterator[int | None]:
    """Yield when `attend_due` has something to do about it."""
    if gate.escalated_at_ms is None:
        yield gate.opened.due_at_ms
    yield remind_at_ms(gate)
    yield stale_at_ms(gate)
    yield gate.opened.expires_at_ms


def remind_at_ms(gate: Gate) -> int | None:
    """Return when the next reminder is due; None after the last."""
    every_ms = gate.opened.remind_every_ms
    if not every_ms or gate.reminders >= MAX_REMINDERS:
        return None
    return gate.at_ms + every_ms * (gate.reminders + 1)


def stale_at_ms(gate: Gate) -> int | None:
    """Return when an escalated gate without an answer cancels its run, because cancelling commits nothing."""
    if gate.escalated_at_ms is None or gate.opened.cancel_after_ms is None:
        return None
    return gate.escalated_at_ms + gate.opened.cancel_after_ms
