"""The rules of a run whose workflow no process can run any more: when a person is asked, and when that is taken back.

Only work that is stuck asks: a run that waits for a person or a timer needs no code before the answer is there, and asking
earlier would be about nothing that anyone could see. Its deadlines need the graph only, which is stored.

Never here: finding out who can run what (the store's sessions say that, and the sweep looks).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core.facts.commands import Loaded
from holdfast.core.facts.state import State
from holdfast.core.rules import limits, questions
from holdfast.core.rules.decision import Decision
from holdfast.core.rules.questions import WORKFLOW_MISSING

_HASH_DIGITS: Final = 12
"""How much of a graph's hash the sentence shows; the gate holds all of it."""


def ask(d: Decision, loaded: tuple[Loaded, ...]) -> None:
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


def withdraw_moot(d: Decision) -> None:
    """Take the question back once a process that can run the workflow has to do with the run."""
    if d.session is not None:
        questions.withdraw_of_reason(d, WORKFLOW_MISSING, "a process can run its workflow again")


def _message(state: State, others: list[Loaded], runs_on: Sequence[str]) -> str:
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
