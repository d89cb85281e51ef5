"""The rules of a run whose code has changed or is gone: it stops and a person is asked, nothing fails.

A step whose code no longer asks for what its journal holds is tried again by itself, ever more rarely, so that it goes on when
the old code is back; or a person has it go on with the code as it is. Where no process can run the workflow at all, only work
that is stuck asks: a run that waits for a person or a timer needs no code before the answer is there, and asking earlier would
be about nothing that anyone could see. Its deadlines need the graph only, which is stored.

Never here: how code and journal are compared (fence), finding out who can run what (the store's sessions, the sweep).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.core.facts import commands
from holdfast.core.facts import events as ev
from holdfast.core.facts.commands import LoadedWorkflow
from holdfast.core.facts.state import KEPT_FROM_THE_BEGINNING, NOTED, State, Step, comes_after
from holdfast.core.rules import endings, limits, questions, steps
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.questions import CODE_CHANGED, WORKFLOW_MISSING
from holdfast.core.values.ids import Path, StepId, node_of
from holdfast.core.values.payload import Payload, digest
from holdfast.core.values.policies import NON_DETERMINISTIC
from holdfast.errors import InvalidDecision

RESTART: Final = "restart"
"""What an answer says that wants the step done from its beginning."""
MAX_STOPS: Final = 60
"""Before only a person's word has it tried again: half a day, at this pace. A fleet with old and new code at once passes a
step to and fro at most this often."""
_FIRST_S, _LONGEST_S = 5, 600
_MAX_SHOWN: Final = 20
"""Operations of a journal that a question lists."""


def stop_step(d: Decision, c: commands.StopStep) -> None:
    """An attempt's code does not fit: leave the step, and ask. What this attempt looked at is forgotten with it."""
    step = d.current(c)
    if step.cleans_up:
        endings.end_cleanup(d, step, "does not fit its journal")
        return
    wait_s = min(_FIRST_S * 2 ** min(step.stops, 16), _LONGEST_S)
    retry_at_ms = d.now_ms + 1000 * wait_s if step.stops + 1 < MAX_STOPS else None
    shown = _gate_content(d.state, step, c)
    d.emit(ev.StepStopped(c.step, c.attempt, c.path, retry_at_ms))
    known = [gate.opened.shown_hash for gate in d.state.gates.values() if _is_about(gate.opened, c.step)]
    if known != [digest(shown)]:
        questions.withdraw_about(d, c.step, "its code asks for something else now")
        allowed = ("retry", "approve", "answer", "reject")
        questions.open_engine_gate(d, CODE_CHANGED, shown, allowed=allowed, subject=c.step)


def _is_about(opened: ev.GateOpened, step: StepId) -> bool:
    return opened.reason == CODE_CHANGED and opened.subject == step


def withdraw_divergence(d: Decision) -> None:
    """Take the question back once the step has got past the place at which it had stopped."""
    for gate in list(d.state.gates.values()):
        if gate.opened.reason == CODE_CHANGED:
            step = d.state.step(StepId(gate.opened.subject or ""))
            if step is None or step.stopped is None:
                d.emit(ev.GateWithdrawn(gate.opened.gate, "its code fits its journal again"))


def _gate_content(state: State, step: Step, c: commands.StopStep) -> dict[str, Any]:
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
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return (", ".join(names[:_MAX_SHOWN]) or "nothing") + more


def check(d: Decision, opened: ev.GateOpened, c: commands.DecideGate) -> None:
    """Raises InvalidDecision for another answer, or while it would leave an effect of unknown outcome behind."""
    if c.decision == "answer" and c.data != RESTART:  # type: ignore[comparison-overlap]
        raise InvalidDecision(f'Gate {opened.gate}: the only answer is the text "{RESTART}" (data=JSON). It is still open.')
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


_HASH_DIGITS: Final = 12
"""How much of a graph's hash the sentence shows; the gate holds all of it."""


def ask(d: Decision, loaded: tuple[LoadedWorkflow, ...]) -> None:
    """Open the gate about the missing workflow, once, if something in the run can only go on with its code.

    A run that waits for a person, a program or a time needs no code until that has come, and one that is paused or
    stopped by a limit waits for a person already.
    """
    state = d.state
    needs_code = state.startable or state.unplaced or (state.asked and not state.phase)
    if d.session is not None or not needs_code or state.paused or state.awaits is not None or limits.is_stopped(state):
        return
    if questions.is_open(state, WORKFLOW_MISSING):
        return
    others = [each for each in loaded if each.workflow == state.workflow]
    shown = {
        "workflow": state.workflow,
        "version": state.version,
        "graph_hash": state.graph_hash,
        "loaded": [{"version": each.version, "graph_hash": each.graph_hash} for each in others],
        "message": _message(state, others, d.graph.definition.runs_on),
    }
    questions.open_engine_gate(d, WORKFLOW_MISSING, shown, allowed=(), subject=f"{state.workflow} {state.version}")


def withdraw_missing(d: Decision) -> None:
    """Take the question back once a process that can run the workflow has to do with the run."""
    if d.session is not None:
        questions.withdraw_of_reason(d, WORKFLOW_MISSING, "a process can run its workflow again")


def _message(state: State, others: list[LoadedWorkflow], runs_on: Sequence[str]) -> str:
    """Return what happened, what it means, and what to do."""
    name = f"{state.workflow!r} version {state.version}"
    there = " and ".join(f"version {each.version} (graph {each.graph_hash[:_HASH_DIGITS]})" for each in others)
    labels = f" It has to have the labels {', '.join(runs_on)}." if runs_on else ""
    return (
        f"Start a process that loads {name}, as `holdfast worker FILE.py:{state.workflow}` does, and the run goes on by itself:"
        f" no process can run it as this run knows it (graph {state.graph_hash[:_HASH_DIGITS]});"
        f" {f'loaded under that name is {there}' if there else 'nothing of that name is loaded'}."
        f"{labels} The run keeps what it has done. Or have it go on with other code: `holdfast runs migrate`"
    )
