"""A wait of a run as a sentence, and who can end it: declared once, for the command line and for every client.

Never here: commands, times of a reader's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from holdfast.core.rules.questions import (
    CODE_CHANGED,
    COMPENSATION_FAILED,
    EFFECT_UNKNOWN,
    EXHAUSTED,
    LIMITS,
    VERSION_HELD,
    WORKFLOW_MISSING,
)
from holdfast.core.values.demand import Demand
from holdfast.core.values.scopes import AGENT, CONVERSATION, FLEET_RUNS, TREE, in_words
from holdfast.core.views.status import Wait, WaitKind

IN_FLIGHT: Final = "holds_in_flight"
ENGINE_ASKS: Final = {
    EFFECT_UNKNOWN: "it is unknown whether {} happened",
    EXHAUSTED: "{} failed permanently",
    CODE_CHANGED: "the code of {} has changed",
    COMPENSATION_FAILED: "{} could not undo what was done",
    WORKFLOW_MISSING: "no process can run {}",
    VERSION_HELD: "{} is held back",
    **dict.fromkeys(LIMITS.values(), "the limit on {}"),
}
"""The subjects of the engine's own gates, by their reason; the subject goes in between."""
_BY_ITSELF: Final = "It goes on by itself; no action is needed."


class WaitWords(NamedTuple):
    """The words for a kind of wait."""

    sentence: Callable[[Wait, str], str]
    """Of the wait, and of the moment at which it ends by itself (empty without one)."""
    way_out: str
    """The person or process that can end it, and the way."""


def sentence(wait: Wait, due: str = "") -> str:
    """Return what a run waits for. `due` is the moment at which the wait ends by itself, in words."""
    return WORDS[wait.kind].sentence(wait, due)


def way_out(wait: Wait) -> str:
    """Return who can end a wait, and how."""
    return _BY_ITSELF if _is_settling(wait) else WORDS[wait.kind].way_out


def needs_nobody(wait: Wait) -> bool:
    """Return True if a wait ends by itself, and no person can end it earlier."""
    return _is_settling(wait) or wait.kind in ("timer", "retry", "child", "effect", "model")


def _is_settling(wait: Wait) -> bool:
    return wait.kind in ("money", "tokens", "calls") and wait.reason.endswith(IN_FLIGHT)


def _until(due: str) -> str:
    return f" until {due}" if due else ""


def _step(wait: Wait) -> str:
    return wait.step or "The run"


def _of_gate(wait: Wait, due: str) -> str:
    asked = ENGINE_ASKS.get(wait.reason, wait.reason).format(wait.about or "the run")
    return f"{_step(wait)} asks for a decision: {asked}{_until(due)}."


def _of_retry(wait: Wait, due: str) -> str:
    what = _step(wait) if wait.about is None else f"{wait.about!r} in {_step(wait)}"
    return f"It tries {what} again ({wait.reason}){f' at {due}' if due else ''}."


def _of_call(wait: Wait, due: str) -> str:
    about = wait.about or "a model"
    return f"{_step(wait)} waits for the outcome of a call of {about} ({wait.reason}). If none comes, a person is asked."


def _of_room(wait: Wait, due: str) -> str:
    """Return the words for a wait for money, tokens or calls."""
    what, step = wait.kind, _step(wait)
    scope = (wait.about or "").removeprefix("tokens/")
    waits_for_others = wait.reason.endswith(IN_FLIGHT)
    if wait.reason.startswith(f"{TREE}_"):
        root = scope.rpartition("/")[2]
        if waits_for_others:
            return f"{step} waits for {what} that other runs of the tree of {root} hold."
        return f"The tree of run {root} has no {what} left for a call of {step}. Raise the limit of that run."
    if wait.reason.startswith(f"{AGENT}_"):
        return f"{step} waits for {what}: {in_words(scope)} has too little left, and no other agent may lend it enough."
    if wait.reason.startswith(f"{CONVERSATION}_"):
        return f"{step} waits for {what}: {in_words(scope)} has used or holds all of its limit."
    if wait.reason in ("over_limit", IN_FLIGHT):  # in the run's own books
        if waits_for_others:
            return f"{step} waits for {'money' if what == 'money' else what} that other calls of the run hold."
        return f"{step} waits for a higher limit: its next call does not fit what is left."
    head = f"The {in_words(scope)}, has no {'tokens' if what == 'tokens' else 'room'} for a call of {step}"
    if waits_for_others:
        return f"{head} before others have settled."
    return f"{head} under its limit. It waits {f'until {due}, or ' if due else ''}for more."


def describe_demand(demand: Demand | None) -> str:
    """Return what a step demands, in words: `gpu, fast, cpu_m=2000 and 5 of OPENAI_RPS`."""
    if demand is None:
        return "a free slot"
    amounts = {"cpu_m": demand.cpu_m, "memory_mb": demand.memory_mb, "gpus": demand.gpus}
    parts = [f"the task {demand.task}"] if demand.is_remote else []
    parts += [*demand.labels, *demand.tags, *(f"{name}={amount}" for name, amount in amounts.items() if amount)]
    parts += [f"{'some' if amount is None else amount} of {pool}" for pool, amount in demand.pools.items()]
    parts = parts or ["a shell" if demand.runs_scripts else "a free slot"]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


_LIMIT: Final = "An admin can raise the limit."
WORDS: Final[Mapping[WaitKind, WaitWords]] = {
    "place": WaitWords(
        lambda wait, due: f"It waits for a place: {in_words(wait.about or FLEET_RUNS)} are at their limit.",
        "It goes on when another run ends. An admin can raise the limit on active runs.",
    ),
    "slot": WaitWords(
        lambda wait, due: f"{_step(wait)} waits for a slot: a process that has its workflow starts it.",
        "It goes on when a process that has its workflow has a free slot. You can start another worker.",
    ),
    "worker": WaitWords(
        lambda wait, due: f"{_step(wait)} waits for a worker that has {describe_demand(wait.demand)}.",
        "It goes on when such a worker is free. You can start one.",
    ),
    "pool": WaitWords(
        lambda wait, due: (
            f"A model call of {_step(wait)} waits for capacity of {' and '.join((wait.about or '').split(', '))}."
        ),
        "It goes on when others return capacity. An admin can enlarge the pool.",
    ),
    "gate": WaitWords(_of_gate, "Those whom it asks can decide."),
    "signal": WaitWords(
        lambda wait, due: f"It waits for the signal {wait.reason!r}{_until(due)}.",
        "An operator or a program can send the signal.",
    ),
    "shared_value": WaitWords(
        lambda wait, due: f"{_step(wait)} waits for a write of the shared value {wait.reason!r}{_until(due)}.",
        "An operator or another run can write the value.",
    ),
    "timer": WaitWords(lambda wait, due: f"It sleeps{_until(due)} in {_step(wait)}.", _BY_ITSELF),
    "retry": WaitWords(_of_retry, _BY_ITSELF),
    "money": WaitWords(_of_room, _LIMIT),
    "tokens": WaitWords(_of_room, _LIMIT),
    "calls": WaitWords(_of_room, _LIMIT),
    "child": WaitWords(lambda wait, due: f"{_step(wait)} waits for its child {wait.about}.", "It goes on when the child ends."),
    "effect": WaitWords(_of_call, "It goes on when the outcome is known."),
    "model": WaitWords(_of_call, "It goes on when the outcome is known."),
    "nothing": WaitWords(
        lambda wait, due: (
            f"{_step(wait)} waits for nothing: this is a fault of Holdfast. A process that has its workflow starts it again."
            " Please report it with the run's history."
        ),
        "You can start a worker that has its workflow.",
    ),
}
"""Each kind of wait."""
