"""A fork's inheritance from its origin: a pure function of the origin's history, to the events that the new run begins with.

A fork has the origin's history before a step, as of the moment at which that step began, but for decisions of people and what
has been undone since: from there on, everything is gone through again. An operation that asks for the same at the same place
gets its outcome in the origin, which stays the origin's: its key, its cost, its undoing.

Never here: reading the history, the new run's own rules (steps, fence, calls).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.core.evolve import evolve
from holdfast.core.facts import events as ev
from holdfast.core.facts.contribution import contributors
from holdfast.core.facts.graph import COMPENSATE, Graph
from holdfast.core.facts.state import (
    BACKGROUND,
    CHILD,
    KEPT_FROM_A_PLACE,
    MAP,
    SHARED,
    TOOL_APPROVAL,
    VERSION,
    Operation,
    State,
    Step,
    verdict_key,
)
from holdfast.core.nouns.shared_values import APPROVALS
from holdfast.core.rules.fence import SAID
from holdfast.core.rules.questions import EXHAUSTED
from holdfast.core.rules.readiness import next_step
from holdfast.core.values.actor import NOBODY, Actor
from holdfast.core.values.ids import (
    CallId,
    GateId,
    NodeName,
    Path,
    RunId,
    StepId,
    comes_from,
    is_item,
    node_of,
    root_of,
    root_step,
    step_id,
    step_of,
    visit_of,
)
from holdfast.core.values.payload import Payload
from holdfast.core.values.trace import trace_of
from holdfast.errors import Conflict, InvalidInput, NotFound

MAX_INHERITED: Final = 20_000
"""Events that a fork begins with, in one append."""
REUSABLE: Final = KEPT_FROM_A_PLACE - {"gate", BACKGROUND}
"""The operations whose outcomes a fork takes over. What a person decided is asked again, and a child in the background is the
origin's."""
_MAX_NAMED: Final = 20


class ForkRequest(msgspec.Struct, frozen=True):
    """From where a run is forked, and what is to be otherwise. `outputs` are what nodes are said to come to, `output` what the
    step, or the operation in it, is said to; `reply` is the same as a model would have said it. `quiet` are the children that
    are known to have asked no person: any other counts as one that has."""

    step: StepId
    path: Path | None = None
    output: Payload | None = None
    outputs: Mapping[NodeName, Payload] = {}
    repeats_effects: bool = False
    by: Actor = NOBODY
    reply: Payload | None = None
    quiet: frozenset[RunId] = frozenset()


class Cost(msgspec.Struct):
    """The cost of an operation in the origin, of all its calls, and the most it could have cost."""

    settled_nanousd: int = 0
    held_nanousd: int = 0


class ForkedOperation(msgspec.Struct, frozen=True):
    """An operation of the origin, at its place. `policy` is that of a tool; `stands`: it came before the place at which
    the fork begins; `why` says why its outcome cannot be reused."""

    step: StepId
    path: Path
    kind: str
    name: str
    settled_nanousd: int = 0
    held_nanousd: int = 0
    policy: str = ""
    stands: bool = False
    reason: str = ""


class Fork(msgspec.Struct, frozen=True):
    """The events that a new run would begin with, and what would follow from them."""

    began: ev.RunStarted
    """How the origin began, with the labels that it had before the step."""
    contributors: tuple[str, ...]
    """Those of the origin, its starter first."""
    makers: dict[str, tuple[str, ...]]
    graph_hash: str
    begins_at: StepId
    """The first step that is gone through again: the one that was named, or an earlier one, for which `reason` says why."""
    path: Path | None
    """The operation from which on it is."""
    reason: str
    events: tuple[ev.Event, ...]
    kept_steps: tuple[StepId, ...]
    """Steps that are not done again."""
    repeated_steps: tuple[StepId, ...]
    """Those that are: the origin's from there on, as far as it came to them."""
    reused_operations: tuple[ForkedOperation, ...]
    """Operations that take the outcome that they had, if they are asked for in the same way."""
    repeated_operations: tuple[ForkedOperation, ...]
    """Those of the origin that cannot: they failed, were undone, or were a person's to decide."""


class _Place(msgspec.Struct):
    """The place at which the new run leaves the origin: before the event of that number."""

    number: int
    step: StepId
    why: str = ""


def forked(graph: Graph, history: Sequence[ev.Recorded], wish: ForkRequest) -> Fork:
    """Return the fork of the run with this whole `history`. `graph` is the one that the run follows now.

    Raises Conflict if the run is under way, or an effect of it has no outcome yet; NotFound for a step or a path that it has
    not reached; InvalidInput for an outcome that cannot be given.
    """
    course = _followed(history, wish.quiet)
    state = course.state
    _expect_at_rest(state)
    place = _place(graph, course, wish)
    before = State()
    for recorded in history[: place.number]:
        evolve(before, recorded.event, recorded.at_ms)
    inheritance = _Inheritance(graph, course, before, wish, place)
    events = tuple(inheritance.events())
    if len(events) > MAX_INHERITED:
        raise Conflict(
            f"Run {state.run} has come to too much before {wish.step}: a fork begins with {MAX_INHERITED} steps and operations"
            f" at the most, this one would with {len(events)}. Nothing was started: fork it from an earlier step."
        )
    began = history[0].event
    assert isinstance(began, ev.RunStarted)
    return Fork(
        msgspec.structs.replace(began, labels=before.labels),
        (*([] if state.by is None else [state.by]), *contributors(state)),
        state.makers,
        state.graph_hash,
        place.step,
        wish.path if place.step == wish.step else None,
        place.why,
        events,
        inheritance.kept,
        inheritance.again,
        tuple(inheritance.reused()),
        tuple(inheritance.repeated()),
    )


def operation_at(history: Sequence[ev.Recorded], step: StepId, path: Path) -> Operation | None:
    """Return the operation of the run of this whole `history` that a step has asked for at a place."""
    return _followed(history).operations.get(step, {}).get(path)


def questions(history: Sequence[ev.Recorded], quiet: Collection[RunId]) -> dict[StepId, set[Path]]:
    """Return the steps of a run in which a person was asked, by the step or by a child that is not among the `quiet`, with the
    places. The approval of a tool's call is about that call alone."""
    found: dict[StepId, set[Path]] = {}
    for recorded in history:
        event = recorded.event
        match event:
            case ev.GateOpened() if event.step is not None and event.path is not None and event.reason != TOOL_APPROVAL:
                found.setdefault(event.step, set()).add(event.path)
            case ev.ChildRequested() | ev.ChildAwaited() if event.child not in quiet:
                found.setdefault(event.step, set()).add(event.path)
            case _:
                pass
    return found


def _followed(history: Sequence[ev.Recorded], quiet: frozenset[RunId] = frozenset()) -> _Course:
    course = _Course(quiet, questions(history, quiet))
    for recorded in history:
        course.fold(recorded)
    course.end()
    return course


def _expect_at_rest(state: State) -> None:
    if not state.ended and (not state.paused or state.phase):
        now = f"is {state.phase}" if state.phase else "is under way"
        raise Conflict(
            f"Run {state.run} {now}; only a run that has ended or is paused is forked. Nothing was started: pause it first"
            f" (`holdfast runs pause {state.run}`)."
        )
    for id_, call in state.calls.items():
        if call.kind == "effect":
            raise Conflict(
                f"It is not known yet what became of the call {id_} of {call.name!r} in run {state.run}, and a fork might do it"
                " again. Nothing was started: settle that call first (`holdfast effects list`)."
            )


# --- What the origin has done -----------------------------------------------------------------------------------------


class _Course:
    """The origin from its first event to its last: where its steps began, what their operations came to, what was decided by
    people and what undone."""

    def __init__(self, quiet: frozenset[RunId], operations: dict[StepId, set[Path]]) -> None:
        self.state = State()
        self.number = 0
        self.asked = operations
        """The places at which a person was asked, by step."""
        self._quiet = quiet
        self.began: dict[StepId, int] = {}
        """Before which event each step has begun, the latest time."""
        self.operations: dict[StepId, dict[Path, Operation]] = {}
        self.decided: dict[StepId, int] = {}
        """The steps that go by what a person has decided, and at which event that was."""
        self.undone: dict[CallId | RunId, StepId] = {}
        """Calls and children, and the steps that had asked for them."""
        self._children: dict[RunId, StepId] = {}
        self.touched: set[StepId] = set()
        """The steps of which some map has items that a person has decided about, or that were undone."""
        self.summoned: set[StepId] = set()
        """Visits that a loop has gone back to."""
        self.costs: dict[tuple[StepId, Path], Cost] = {}
        self.policies: dict[tuple[StepId, Path], str] = {}
        """Of the tools that were called."""
        self._ready: set[StepId] = set()
        self._gates: dict[GateId, ev.GateOpened] = {}

    def fold(self, recorded: ev.Recorded) -> None:
        event, state = recorded.event, self.state
        match event:
            case ev.StepReady():
                self.began[event.step] = self.number
                self._ready.add(event.step)
            case ev.StepStarted(attempt=1) if event.step not in self._ready:
                self.began[event.step] = self.number
            case ev.StepCompleted() | ev.JournalDropped():
                self._note(state.steps.get(node_of(event.step)))
            case ev.LoopTaken() | ev.RunReopened():
                for id_ in event.superseded:
                    self._note(state.step(id_))
                    self._ready.discard(id_)
            case ev.GateOpened():
                self._gates[event.gate] = event
            case ev.GateDecided() | ev.GateExpired():
                self._decide(event)
            case ev.EffectIntended() | ev.ChildRequested() | ev.ChildUndone() | ev.ChildAwaited() | ev.ChildEnded():
                self._ask(event)
            case ev.ModelCallHeld():
                cost = self.costs.setdefault((event.step, event.path), Cost())
                cost.held_nanousd = max(cost.held_nanousd, event.hold_nanousd)
            case ev.ModelCallSettled() if (call := state.calls.get(event.call)) is not None:
                self.costs.setdefault((call.step, call.path), Cost()).settled_nanousd += event.cost_nanousd
            case _:
                pass
        evolve(state, event, recorded.at_ms)
        if isinstance(event, ev.LoopTaken):
            self.summoned.add(next_step(state, event.target))
        self.number += 1

    def end(self) -> None:
        for step in self.state.steps.values():
            self._note(step)
        if self.state.naming > 1:  # tasks came to something in another order than that in which they asked for it
            for id_, noted in self.operations.items():
                self.operations[id_] = dict(sorted(noted.items(), key=lambda item: item[1].settled))
        for id_, known in self.state.inherited.items():
            for path, op in {**known.journal, **known.reusable}.items():
                self.operations.setdefault(id_, {}).setdefault(path, op)

    def _ask(self, event: ev.EffectIntended | ev.ChildRequested | ev.ChildUndone | ev.ChildAwaited | ev.ChildEnded) -> None:
        match event:
            case ev.EffectIntended():
                self.policies[event.step, event.path] = event.policy
                if (call := event.compensates) is not None:
                    self._undo(call, step_of(call))
            case ev.ChildRequested():
                self._children[event.child] = event.step
            case ev.ChildUndone():
                self._undo(event.child, self._children[event.child])
            case ev.ChildAwaited() if event.child not in self._quiet:
                self._go_by(event.step)
            case ev.ChildEnded() if event.child not in self._quiet and event.child in self.state.children:
                for place in self.state.children[event.child].places:
                    self._go_by(StepId(place.rpartition(":")[0]))
            case _:
                pass

    def _undo(self, name: CallId | RunId, step: StepId) -> None:
        self.undone[name] = step
        if is_item(node_of(step)):
            self.touched.add(root_step(step))

    def _decide(self, event: ev.GateDecided | ev.GateExpired) -> None:
        opened = self._gates[event.gate]
        answered = opened.reason == EXHAUSTED and isinstance(event, ev.GateDecided) and event.decision == "answer"
        step = opened.step or (StepId(opened.subject or "") if answered else None)
        if step is not None:
            self._go_by(step)

    def _go_by(self, step: StepId) -> None:
        """Remember that a step goes by what a person has decided."""
        self.decided.setdefault(root_step(step), self.number)
        if is_item(node_of(step)):
            self.touched.add(root_step(step))

    def _note(self, step: Step | None) -> None:
        """Remember what the operations of a step have come to, in the order in which they were asked for."""
        if step is None:
            return
        noted = self.operations.setdefault(step.id, {})
        for path, op in step.journal.items():
            if op.status in ("done", "failed"):
                noted.pop(path, None)
                noted[path] = msgspec.structs.replace(op)
        for path, op in step.inherited.items():
            noted.setdefault(path, op)

    def is_undone(self, op: Operation) -> bool:
        return op.call in self.undone or op.child in self.undone

    def is_persons(self, op: Operation) -> bool:
        """True if a person decided it: at a gate, in a child, or by an approval in advance for a number of calls."""
        if op.kind == CHILD or (op.child is not None and op.kind != BACKGROUND):
            return op.child not in self._quiet
        return op.kind == "gate" or (op.kind == SHARED and op.name.startswith(f"{APPROVALS}/"))

    def has_asked(self, node: NodeName) -> bool:
        """True if a person was asked in some visit of a node, or in an item of a map there."""
        return any(root_of(node_of(step)) == node for step in self.asked)

    def has_asked_at(self, step: StepId, path: Path, op: Operation) -> bool:
        """True if an operation of a step asked a person: at its place or within, or in an item of the map that it is."""
        within = any(each == path or each.startswith(f"{path}.") for each in self.asked.get(step, ()))
        in_items = op.kind == MAP and any(each != step and root_step(each) == step for each in self.asked)
        return within or in_items or self.is_persons(op)

    def stands(self, step: StepId, op: Operation) -> bool:
        """True if the outcome of an operation of a step still holds, and no person decided it."""
        if self.is_persons(op):
            return False
        return not self.is_undone(op) and not (op.kind == MAP and root_step(step) in self.touched)


def _place(graph: Graph, course: _Course, wish: ForkRequest) -> _Place:
    """The first moment from which on all is gone through again."""
    run, node = course.state.run, node_of(wish.step)
    number = course.began.get(wish.step)
    if number is None or node == COMPENSATE or node not in graph.nodes:
        others = [each for each in course.began if node_of(each) in graph.nodes]
        names = ", ".join(others[:_MAX_NAMED]) + (", ..." if len(others) > _MAX_NAMED else "")
        whence = course.state.origin
        elsewhere = f" What came before them is run {whence.run}'s." if whence is not None else ""
        raise NotFound(
            f"No step {wish.step} has begun in run {run}. Nothing was started. These have: {names or 'none'}.{elsewhere}"
        )
    found = _Place(number, wish.step)
    for step, at in course.decided.items():
        if at < number and course.began.get(step, number) < found.number:
            found = _Place(course.began[step], step, f"{step} went by what a person decided, who is asked again")
    for asked in course.undone.values():
        step = root_step(asked)
        if course.began.get(step, number) < found.number:
            found = _Place(course.began[step], step, f"what {step} did was undone")
    return found


# --- What the new run has of it ---------------------------------------------------------------------------------------


class _Inheritance:
    """The origin as the new run begins with it."""

    def __init__(self, graph: Graph, course: _Course, before: State, wish: ForkRequest, place: _Place) -> None:
        self._graph = graph
        self._course = course
        self._before = before
        self._wish = wish
        self._steps = {name: step for name, step in before.steps.items() if name in graph.nodes and _is_over(step)}
        self.kept = tuple(step.id for step in self._steps.values())
        again = [step for name, step in before.steps.items() if name not in self._steps]
        self._visits = {**before.visits, **{node_of(step.id): visit_of(step.id) - 1 for step in again}}
        self._summoned = {**before.summoned, **{node_of(s.id): None for s in again if s.id in course.summoned}}
        standing = _standing(course, wish)
        self._standing = standing if place.step == wish.step else frozenset[Path]()
        self._given = self._replaced_outputs()
        self._operations = {
            id_: operations
            for id_, operations in course.operations.items()
            if (root := root_of(node_of(id_))) in graph.nodes
            and visit_of(id_) > self._visits.get(root, 0)
            and root_step(id_) not in self._given
        }
        self.again = tuple(
            id_
            for id_ in course.began
            if node_of(id_) in graph.nodes
            and visit_of(id_) > self._visits.get(node_of(id_), 0)
            and id_ not in self.kept
            and id_ not in self._given
        )

    def _replaced_outputs(self) -> dict[StepId, Payload]:
        """Return the outputs that are given for steps. Raises InvalidInput."""
        given: dict[StepId, Payload] = {}
        wish = self._wish
        for name, output in wish.outputs.items():
            known = self._steps.get(name)
            self._expect_settable(name)
            if known is not None and known.status != "completed":
                raise InvalidInput(f"{known.id} was {known.status}; it has no output to replace. Nothing was started.")
            id_ = known.id if known is not None else step_id(name, self._visits.get(name, 0) + 1)
            if id_ == wish.step:
                raise InvalidInput(f"{id_} is where the fork begins; say what it comes to (output=JSON). Nothing was started.")
            given[id_] = output
        if wish.output is not None and wish.path is None:
            self._expect_settable(node_of(wish.step))
            given[wish.step] = wish.output
        return given

    def _expect_settable(self, name: NodeName) -> None:
        node = self._graph.nodes.get(name)
        if node is None:
            known = ", ".join([*self._graph.nodes][:_MAX_NAMED])
            raise InvalidInput(f"The workflow has no node {name!r}; it has: {known}. Nothing was started.")
        if node.decides:
            who = "a person" if node.kind == "human_gate" else "the node itself"
            raise InvalidInput(f"The outcome of {name!r} was decided by {who}, in the fork as well. Nothing was started.")
        if self._course.has_asked(name):
            raise InvalidInput(
                f"The outcome of {name!r} was decided by a person asked in it, in the fork as well. Nothing was started."
            )

    def events(self) -> Iterator[ev.Event]:
        wish, state = self._wish, self._course.state
        given = {id_: output for id_, output in self._given.items() if id_ not in self.kept}
        yield ev.RunForked(
            state.run,
            state.seq,
            wish.step,
            wish.path,
            {name: count for name, count in self._visits.items() if count},
            tuple(self._summoned),
            given,
            wish.repeats_effects,
            *wish.by.event_fields,
            trace=trace_of(state.traceparent, state.root).trace_id,
        )
        for step in self._before.previous.values():
            if node_of(step.id) in self._graph.nodes:
                yield _inherited(step, step.output, previous=True)
        for step in sorted(self._steps.values(), key=lambda step: step.ended_seq):
            yield _inherited(step, self._given.get(step.id, step.output))
        yield from self._verdicts()
        for id_, path, op, stands in self._inherited_operations():
            yield ev.OperationInherited(
                id_, path, op.kind, op.name, op.args_hash, op.outcome, op.error, op.call, op.key, stands
            )
        for number, signal in enumerate(self._before.signals, 1):
            yield ev.SignalReceived(signal.name, number, signal.data)

    def _verdicts(self) -> Iterator[ev.Event]:
        for name, step in self._steps.items():
            for edge in (*self._graph.outgoing[name], *self._graph.loops_from.get(name, ())):
                if edge.guard is not None:
                    allowed = self._before.verdicts.get(verdict_key(step.id, edge.target, edge.guard))
                    if allowed is not None:
                        yield ev.GuardJudged(step.id, edge.target, edge.guard, allowed)

    def _inherited_operations(self) -> Iterator[tuple[StepId, Path, Operation, bool]]:
        """Each with whether it stands in the journal from the beginning."""
        wish = self._wish
        for id_, operations in self._operations.items():
            for path, op in operations.items():
                if self._is_said(id_, path):
                    said = wish.reply if op.kind == "model" and wish.reply is not None else wish.output
                    taken = msgspec.structs.replace(
                        op, status="done", args_hash=SAID, outcome=said, error=None, call=None, key=None
                    )
                    # Where outcomes are handed over in their order, it has its turn when the code asks for it.
                    yield id_, path, taken, self._course.state.naming < 2
                elif id_ == wish.step and path in self._standing:
                    yield id_, path, op, True
                elif op.outcome is not None and _is_reusable(op) and self._course.stands(id_, op):
                    yield id_, path, msgspec.structs.replace(op, error=None), False

    def _is_said(self, step: StepId, path: Path) -> bool:
        return self._wish.output is not None and (step, path) == (self._wish.step, self._wish.path)

    def reused(self) -> Iterator[ForkedOperation]:
        for id_, path, op, stands in self._inherited_operations():
            if op.kind in REUSABLE and not self._is_said(id_, path):
                yield self._done(id_, path, op, stands=stands)

    def repeated(self) -> Iterator[ForkedOperation]:
        taken = {(id_, path) for id_, path, _, _ in self._inherited_operations()}
        for id_, operations in self._operations.items():
            for path, op in operations.items():
                if op.kind in REUSABLE | {"gate"} and (id_, path) not in taken:
                    yield self._done(id_, path, op, reason=self._reason(op))

    def _done(self, step: StepId, path: Path, op: Operation, *, stands: bool = False, reason: str = "") -> ForkedOperation:
        cost, policy = self._course.costs.get((step, path), Cost()), self._course.policies.get((step, path), "")
        return ForkedOperation(step, path, op.kind, op.name, cost.settled_nanousd, cost.held_nanousd, policy, stands, reason)

    def _reason(self, op: Operation) -> str:
        if self._course.is_persons(op):
            return "a person decides"
        if op.args_hash == SAID:
            return "a person had given its outcome"
        return "it was undone" if self._course.is_undone(op) else "it had failed" if op.error else "it is not over"


def _is_reusable(op: Operation) -> bool:
    return op.kind in REUSABLE and op.args_hash != SAID


def _is_over(step: Step) -> bool:
    return (
        step.status in ("completed", "skipped")
        or (step.status == "cancelled" and not step.called_off)
        or (step.status == "failed" and step.absorbed)
    )


def _standing(course: _Course, wish: ForkRequest) -> frozenset[Path]:
    """The operations of the step that stand in its journal: those from before the path, as far as no person had decided and
    nothing was undone. Raises NotFound, InvalidInput."""
    if wish.path is None:
        return frozenset()
    operations = course.operations.get(wish.step, {})
    found: list[Path] = []
    step = course.state.step(wish.step)
    heard = step.cancelled_at if step is not None else 0  # of the origin's being cancelled, which the fork is not
    is_there = stands = True
    for path, op in operations.items():
        if comes_from(path, wish.path) and op.kind != VERSION:
            break
        stands = stands and course.stands(wish.step, op) and not 0 < heard < op.settled
        if stands:
            found.append(path)
    else:
        is_there = False
    if not is_there:
        known = ", ".join([*operations][:_MAX_NAMED]) or "none"
        raise NotFound(
            f"{wish.step} of run {course.state.run} has come to nothing at {wish.path}; it has at {known}. Nothing was started."
        )
    if wish.output is not None:
        said = operations.get(wish.path)
        is_persons = said is not None and course.has_asked_at(wish.step, wish.path, said)
        if said is None or is_persons or said.kind not in REUSABLE:
            what = "was decided by a person" if is_persons else "cannot be given"
            raise InvalidInput(f"The outcome of {wish.step} at {wish.path} {what}, in the fork as well. Nothing was started.")
    return frozenset(found)


def _inherited(step: Step, output: Payload, *, previous: bool = False) -> ev.StepInherited:
    status = step.status
    assert status in ("completed", "failed", "skipped", "cancelled")
    return ev.StepInherited(
        step.id,
        status,
        output,
        step.decisions,
        step.error,
        step.absorbed,
        step.reason,
        step.conversation,
        previous,
        step.fields if output is step.output else {},
    )
