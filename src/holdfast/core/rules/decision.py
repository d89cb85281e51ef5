"""One decision in the making: the events so far, already folded, so that the next rule sees what the last one did.

Never here: a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.core.evolve import evolve
from holdfast.core.facts.commands import AttemptCommand, KnownEffect, Shortage, Value, Worker
from holdfast.core.facts.contribution import is_new
from holdfast.core.facts.events import ContributorNamed, Event, MakersLearned, ValueRecorded
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import SLEEP, State, Step
from holdfast.core.values.ids import EffectKey, NodeName, Path, StepId, node_of
from holdfast.core.values.policies import ErrorRecord
from holdfast.errors import RunEnded, StaleAttempt


class Decision:
    """The events of a command, as they are decided. Rules check first and emit afterwards: a refusal must find the state
    untouched."""

    __slots__ = ("events", "graph", "now_ms", "placed", "ready", "session", "shortages", "slots", "state", "taken", "touched")

    def __init__(
        self,
        graph: Graph,
        state: State,
        now_ms: int,
        worker: Worker | None,
        shortages: Mapping[str, Shortage],
        keys: Mapping[EffectKey, KnownEffect],
    ) -> None:
        self.graph = graph
        self.state = state
        # Store time never runs backwards within a run, whatever a clock says.
        self.now_ms = max(now_ms, state.at_ms)
        self.session = worker.session if worker is not None else None
        self.slots = worker.slots if worker is not None else 0
        self.placed = worker.placed if worker is not None else frozenset()
        self.shortages = shortages
        """Scopes above the run that are known to have little room left, or none."""
        self.taken = keys
        """Tenant-wide effects that are known to be another run's."""
        self.events: list[Event] = []
        self.touched: dict[NodeName, None] = {}
        """Nodes about which there is news."""
        self.ready: dict[NodeName, None] = {}
        """Nodes that this decision found ready."""

    def emit(self, event: Event) -> None:
        evolve(self.state, event, self.now_ms)
        self.events.append(event)

    def touch(self, node: NodeName) -> None:
        """Have the nodes after `node` looked at before the decision is done."""
        self.touched[node] = None

    def record(self, step: StepId, values: tuple[Value, ...]) -> None:
        """Put what a step looked at before this command into its journal."""
        for value in values:
            if value.kind == SLEEP and _has_outcome(self.state, step, value.path):
                continue  # it was noticed elsewhere that the timer had run out
            kept = (value.path, value.kind, value.value, value.payload, value.name, value.args_hash, value.took_ms)
            self.emit(ValueRecorded(step, *kept))
            if value.authors:
                self.contribute(value.authors, value.name)

    def contribute(self, names: Iterable[str], read: str | None = None) -> None:
        """Note who has a hand in the run; in what a step has `read`, a shared value or something found in a space of that
        name."""
        for name in names:
            if is_new(self.state, name, by_reading=read is not None):
                self.emit(ContributorNamed(name, read))

    def learn(self, makers: Mapping[str, tuple[str, ...]]) -> None:
        """Note the makers of the keys that were used for decisions in a run that this one hears of."""
        known = self.state.makers
        news = {name: those for name, those in makers.items() if not {*those} <= {*known.get(name, ())}}
        if news:
            self.emit(MakersLearned(news))

    def current(self, command: AttemptCommand) -> Step:
        """The step whose attempt sends `command`. Raises StaleAttempt if it no longer speaks for the step."""
        step = self.state.step(command.step)
        if self.state.ended:
            raise RunEnded(f"Run {self.state.run} has ended ({self.state.ended}).")
        if step is None or step.status != "active" or step.attempt != command.attempt:
            now = "is no longer wanted" if step is None else f"is {step.status} at attempt {step.attempt}"
            raise StaleAttempt(
                f"Attempt {command.attempt} of step {command.step} no longer counts: the step {now}."
                " What it did is recorded; its result is not.",
                step=command.step,
                attempt=command.attempt,
            )
        return step

    def error(
        self, node: str, error_class: str, message: str, *, retryable: bool = False, tool: str | None = None
    ) -> ErrorRecord:
        return ErrorRecord(node, error_class, message, retryable, self.now_ms, tool)


def _has_outcome(state: State, step: StepId, path: Path) -> bool:
    op = state.steps[node_of(step)].journal.get(path)
    return op is not None and op.status in ("done", "failed")
