"""Questions of the engine itself to a person: an unknown effect, a limit, a failure; and the withdrawal of a question.

Never here: what follows from an answer (gates).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.core.facts import events as ev
from holdfast.core.facts.state import TOOL_APPROVAL, Gate, OpenCall, State, Step
from holdfast.core.rules.decision import Decision
from holdfast.core.values.ids import CallId, GateId, NodeName, StepId, engine_gate_id, root_step
from holdfast.core.values.payload import INLINE_BYTES, Payload, digest, inline
from holdfast.core.values.policies import ErrorRecord

EFFECT_UNKNOWN: Final = "effect_unknown"
"""The outcome of a tool call is unknown."""
EXHAUSTED: Final = "exhausted"
"""A step has failed for good."""
COMPENSATION_FAILED: Final = "compensation_failed"
"""An effect could not be undone."""
WORKFLOW_MISSING: Final = "workflow_missing"
"""No process can run this run's workflow any more. The gate takes no decision: it is withdrawn when the code is back or the run
migrated."""
CODE_CHANGED: Final = "code_changed"
"""A step's code no longer asks for what its journal holds. `approve` continues with the code as it is, `answer` with
`"restart"` begins the step again. `retry` and `reject` are possible too."""
VERSION_HELD: Final = "version_held"
"""The results of this version of the workflow are worse than those of the version before, or missing, and a rule holds it back.
`approve` releases the version, `reject` fails the run. Nothing has begun."""
LIMITS: Final = {
    "cost": "budget",
    "steps": "max_steps",
    "tokens": "max_tokens",
    "active": "max_active",
    "wall": "max_wall",
    "model_calls": "max_model_calls",
    "tool_calls": "max_tool_calls",
    "lifespan": "lifespan",
}
"""The reason code of the gate that each limit opens.

- `budget`: The cost limit is too low for the next model call.
- `max_steps`: The limit on steps is reached.
- `max_tokens`: The limit on tokens is too low for the next model call.
- `max_active`: The limit on working time is reached.
- `max_wall`: The run has reached its maximum age; nothing new begins.
- `max_model_calls`: The limit on model calls is reached; no model was called.
- `max_tool_calls`: The limit on tool calls is reached; no tool was called.
- `lifespan`: The run is older than its workflow expects; nothing was stopped.
"""

_ABOUT_GOING_ON: Final = frozenset({WORKFLOW_MISSING, VERSION_HELD, *LIMITS.values()})
STOPPING: Final = frozenset({VERSION_HELD, LIMITS["steps"], LIMITS["tokens"], LIMITS["active"], LIMITS["wall"]})
"""The gates before whose answer no step starts. (One about money or calls stops only who needs them.)"""

_OUTCOMES: Final = {"answer": "it happened: the data is its response", "reject": "it did not", "retry": "call it again"}


def open_engine_gate(
    d: Decision,
    reason: str,
    content: dict[str, Any],
    *,
    allowed: tuple[str, ...],
    subject: str,
    reviewers: tuple[str, ...] = (),
) -> None:
    """Ask about the run itself. The gate belongs to no step's journal."""
    d.emit(
        ev.GateOpened(
            gate=engine_gate_id(d.state.run, reason, d.state.gates_opened + 1),
            reason=reason,
            shown=inline(content),
            shown_hash=digest(content),
            allowed=allowed,
            reviewers=reviewers,
            subject=subject,
            hash_optional=False,
        )
    )


def asks_about(gate: GateId, reason: str) -> bool:
    """True if it is the engine's gate of that reason."""
    return f":!{reason}." in gate


def ask_about_effect(d: Decision, id_: CallId, call: OpenCall, error: ErrorRecord, *, repeatable: bool) -> None:
    """`repeatable`: the step that meant the effect is still there to call it again."""
    shown = {
        "call": id_,
        "tool": call.name,
        "request": call.request.value() if call.request.blob is None else {"blob": call.request.blob},
        "key": call.key,
        "intended_at_ms": call.intended_at_ms,
        "what_is_known": error.message,
        "answers": {how: what for how, what in _OUTCOMES.items() if how != "retry" or repeatable},
    }
    if d.state.phase == "failing":
        shown["run"] = "it fails whatever is answered; a retry of the run takes it up again"
    allowed = ("answer", "reject", "retry") if repeatable else ("answer", "reject")
    open_engine_gate(d, EFFECT_UNKNOWN, shown, allowed=allowed, subject=id_)


_MAX_SHOWN_BYTES: Final = INLINE_BYTES // 2
"""Of what a gate shows of outputs: an event stays small. Larger ones are named."""


def ask_about_failure(
    d: Decision, step: StepId, error: ErrorRecord, *, answerable: bool, at_hand: Mapping[NodeName, Payload]
) -> None:
    """`answerable`: a person may give the step's output; one that decides, or has asked a person, is tried again, so that it
    decides itself or asks again.
    `at_hand`: what a loop that is used up has come to, by node."""
    answers = {"retry": "try again, with the same keys", "answer": "the data is the step's output", "reject": "fail"}
    if not answerable:
        del answers["answer"]
    shown: dict[str, Any] = {"step": step, "error_class": error.error_class, "message": error.message, "answers": answers}
    if at_hand:
        shown["at_hand"] = dict(_within_bounds(at_hand))
    open_engine_gate(d, EXHAUSTED, shown, allowed=tuple(answers), subject=step)


def _within_bounds(outputs: Mapping[NodeName, Payload]) -> Iterator[tuple[NodeName, Any]]:
    left = _MAX_SHOWN_BYTES
    for node, output in outputs.items():
        size = output.size_bytes if output.blob is not None else len(bytes(output.json))
        if output.blob is None and size <= left:
            left -= size
            yield node, output.value()
        else:
            yield node, f"({size} bytes, too much to be shown here)"


def ask_about_compensation(d: Decision, step: StepId, error: ErrorRecord) -> None:
    shown = {
        "step": step,
        "tool": error.tool,
        "message": error.message,
        "answers": {"retry": "try again, with the same keys", "answer": "it has been undone by hand; end the run"},
    }
    open_engine_gate(d, COMPENSATION_FAILED, shown, allowed=("retry", "answer"), subject=step)


def has_asked(state: State, step: Step) -> bool:
    """True if a person was asked in a step, or in an item of a map that it asked for, as far as the state has it: another's
    output does not overrule a person's answer. The approval of a tool's call is about that call alone."""
    concerned = (each for each in state.steps.values() if each is step or root_step(each.id) == step.id)
    ops = (op for each in concerned for op in (*each.journal.values(), *each.kept.values()))
    return any(op.kind == "gate" and op.name != TOOL_APPROVAL for op in ops)


def withdraw_of_step(d: Decision, step: StepId, reason: str) -> None:
    for id_, gate in list(d.state.gates.items()):
        if gate.opened.step == step or (gate.opened.subject == step and gate.opened.reason in (EXHAUSTED, CODE_CHANGED)):
            d.emit(ev.GateWithdrawn(id_, reason))


def withdraw_about(d: Decision, subject: str, reason: str) -> None:
    for id_, gate in list(d.state.gates.items()):
        if gate.opened.subject == subject:
            d.emit(ev.GateWithdrawn(id_, reason))


def withdraw_of_reason(d: Decision, code: str, reason: str) -> None:
    for id_, gate in list(d.state.gates.items()):
        if gate.opened.reason == code:
            d.emit(ev.GateWithdrawn(id_, reason))


def withdraw_all_but_effects(d: Decision, reason: str) -> None:
    """An ending run asks nothing more, except what became of its effects, and what a step asks that cleans up."""
    for id_, gate in list(d.state.gates.items()):
        if gate.opened.step is not None and d.state.cleans_up(gate.opened.step):
            continue
        if gate.opened.reason not in (EFFECT_UNKNOWN, COMPENSATION_FAILED):
            d.emit(ev.GateWithdrawn(id_, reason))


def is_asked_about(state: State, subject: str) -> bool:
    return any(gate.opened.subject == subject for gate in state.gates.values())


def is_open(state: State, code: str) -> bool:
    """True if a gate of this reason is open."""
    return any(gate.opened.reason == code for gate in state.gates.values())


def holds_the_end(gate: Gate) -> bool:
    """True if a run cannot end before this gate is answered. Limits and missing code are about going on: an ending needs no
    answer."""
    return gate.opened.reason not in _ABOUT_GOING_ON
