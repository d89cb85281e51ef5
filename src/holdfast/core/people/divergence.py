"""The rules of a step whose code no longer asks for what its journal holds: it stops and a person is asked, nothing fails.

It is tried again by itself, ever more rarely, so that it goes on when the old code is back; or somebody has it go on with
the code as it is. Never here: how the two are compared (fence).
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.state import KEPT_FROM_THE_BEGINNING, NOTED, State, Step, comes_after
from holdfast.core.rules import endings, questions, steps
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.questions import CODE_CHANGED
from holdfast.core.values.ids import Path, StepId, node_of
from holdfast.core.values.payload import Payload, digest
from holdfast.core.values.policies import NON_DETERMINISTIC
from holdfast.errors import InvalidDecision

RESTART: Final = "restart"
"""What an answer says that wants the step done from its beginning."""
MOST_STOPS: Final = 60
"""Before only a person's word has it tried again: half a day, at this pace. A fleet with old and new code at once passes a
step to and fro at most this often."""
_FIRST_S, _LONGEST_S = 5, 600
_MOST_SHOWN: Final = 20
"""Operations of a journal that a question lists."""


def stop_step(d: Decision, c: commands.StopStep) -> None:
    """An attempt's code does not fit: leave the step, and ask. What this attempt looked at is forgotten with it."""
    step = d.current(c)
    if step.cleans_up:
        endings.end_cleanup(d, step, "does not fit its journal")
        return
    wait_s = min(_FIRST_S * 2 ** min(step.stops, 16), _LONGEST_S)
    retry_at_ms = d.now_ms + 1000 * wait_s if step.stops + 1 < MOST_STOPS else None
    shown = _shown(d.state, step, c)
    d.emit(ev.StepStopped(c.step, c.attempt, c.path, retry_at_ms))
    known = [gate.opened.shown_hash for gate in d.state.gates.values() if _is_about(gate.opened, c.step)]
    if known != [digest(shown)]:
        questions.withdraw_about(d, c.step, "its code asks for something else now")
        allowed = ("retry", "approve", "answer", "reject")
        questions.open_engine_gate(d, CODE_CHANGED, shown, allowed=allowed, subject=c.step)


def _is_about(opened: ev.GateOpened, step: StepId) -> bool:
    return opened.reason == CODE_CHANGED and opened.subject == step


def withdraw_moot(d: Decision) -> None:
    """Take the question back once the step has got past the place at which it had stopped."""
    for gate in list(d.state.gates.values()):
        if gate.opened.reason == CODE_CHANGED:
            step = d.state.step(StepId(gate.opened.subject or ""))
            if step is None or step.stopped is None:
                d.emit(ev.GateWithdrawn(gate.opened.gate, "its code fits its journal again"))


def _shown(state: State, step: Step, c: commands.StopStep) -> dict[str, Any]:
    done = {path: op for path, op in step.journal.items() if op.has_come_to_something and op.kind not in NOTED}
    told = {path: f"{op.kind} {op.name!r} at {path}" for path, op in done.items()}
    here = [path for path in done if comes_after(state, step, path, c.path)]
    again = [path for path, op in done.items() if op.kind not in KEPT_FROM_THE_BEGINNING]
    return {
        "step": c.step,
        "message": f"The code of step {c.step} no longer does what its journal says. At {c.path} the journal holds"
        f" {c.recorded['operation']}, and the code now asks for {c.asked['operation']}. Nothing was called",
        "cause": "The code was changed, or it depends on something that differs each time: the time, chance, the order of a"
        " set. Take that from ctx.now(), ctx.uuid() or a step",
        "journal": c.recorded,
        "code": c.asked,
        "answers": {
            "retry": "try again now: with the old code back the step goes on where it was. It also tries by itself, ever more"
            " rarely",
            "approve": f"go on with the code as it is, from {c.path}. Asked for the same again, it gets what is there:"
            f" {_listed([told[path] for path in here])}. What it asks for otherwise is done, and what it does not ask for any"
            " more stays done",
            "answer": f'with the data "{RESTART}": do the step again from its beginning. Effects are not done twice where it'
            f" asks for the same ones; done again, and paid again: {_listed([told[path] for path in again])}",
            "reject": "fail the step",
        },
    }


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return (", ".join(names[:_MOST_SHOWN]) or "nothing") + more


def check(d: Decision, opened: ev.GateOpened, c: commands.DecideGate) -> None:
    """Raises InvalidDecision for an answer that says something else, or while it would leave an effect behind of which
    nobody knows whether it happened."""
    if c.decision == "answer" and c.data != RESTART:  # type: ignore[comparison-overlap]
        raise InvalidDecision(f'Gate {opened.gate}: the only answer is data=JSON with the text "{RESTART}". It is still open.')
    if c.decision not in ("approve", "answer"):
        return
    step = d.state.step(StepId(opened.subject or ""))
    first = step.stopped if step is not None and c.decision == "approve" else None
    for id_, call in d.state.calls.items():
        if (
            call.kind == "effect"
            and call.step == opened.subject
            and (first is None or step is None or comes_after(d.state, step, call.path, first))
        ):
            raise InvalidDecision(
                f"Gate {opened.gate}: it is not known yet what became of the call {id_} of {call.name!r}, and the code as it is"
                " may not ask for it any more. Nothing was decided: settle that call first (`holdfast effects list`), or have"
                " the old code back and retry."
            )


def answered(d: Decision, opened: ev.GateOpened, c: commands.DecideGate, data: Payload) -> None:
    step = d.state.step(StepId(opened.subject or ""))
    if step is None:
        return
    if c.decision == "reject":
        error = d.error(node_of(step.id), NON_DETERMINISTIC, str(opened.shown.value()["message"]) + ".")
        steps.fail_step(d, step, error, final=True)
    elif c.decision == "retry":
        d.emit(ev.StepReplayed(step.id))
    else:
        _drop(d, step, step.stopped if c.decision == "approve" else None)


def _drop(d: Decision, step: Step, first: Path | None) -> None:
    for id_, gate in list(d.state.gates.items()):
        asked = gate.opened
        if asked.step != step.id or asked.path is None:
            continue
        if first is None or comes_after(d.state, step, asked.path, first):
            d.emit(ev.GateWithdrawn(id_, "the step goes on with other code"))
    if step.maps:
        endings.call_items_off(d, step, "the step goes on with other code", first)
    d.emit(ev.JournalDropped(step.id, first))
