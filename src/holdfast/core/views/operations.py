"""The operations of a run as rows: each thing that a step did or waits for, with when, how long, how often and for how much.

A row is the journal's operation at its place, read after each event that concerns it; the fold of the history is `evolve`
alone. Never here: what people see of it (service.view), data of users.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.core.evolve import evolve
from holdfast.core.facts import events as ev
from holdfast.core.facts.graph import EXPIRED
from holdfast.core.facts.state import (
    AWAITED,
    BACKGROUND,
    CHILD,
    FUNCTION,
    LOOKED_AT,
    MAP,
    MESSAGE,
    NOTED,
    OPEN_STEPS,
    SHARED,
    SHARED_WAIT,
    SLEEP,
    SUMMARY,
    UNDONE,
    Operation,
    State,
)
from holdfast.core.values.ids import CallId, GateId, Path, StepId
from holdfast.core.values.payload import Payload
from holdfast.core.values.policies import CALLED_OFF, ErrorRecord
from holdfast.core.views.page import rows_after
from holdfast.core.views.status import Wait, waiting_for

OperationKind: TypeAlias = Literal[
    "function", "model", "tool", "question", "child", "map", "timer", "signal", "shared_value", "message", "value"
]
RowStatus: TypeAlias = Literal["running", "waiting", "retrying", "in_doubt", "completed", "failed", "cancelled"]
"""`waiting`: for a person, time, a program, another run, money or pools; `retrying`: failed, and will be tried again."""

_KINDS: Final[dict[str, OperationKind]] = {
    FUNCTION: "function",
    "model": "model",
    "tool": "tool",
    "effect": "tool",
    "gate": "question",
    CHILD: "child",
    BACKGROUND: "child",
    AWAITED: "child",
    UNDONE: "child",
    MAP: "map",
    SLEEP: "timer",
    "signal": "signal",
    SHARED: "shared_value",
    SHARED_WAIT: "shared_value",
    MESSAGE: "message",
}
_HIDDEN: Final = LOOKED_AT | NOTED | {SUMMARY}
"""What a step only looked at, and parts of a model call."""
_WAITING: Final = frozenset({"gate", SLEEP, "signal", AWAITED, SHARED_WAIT})
_CALLED: Final = (ev.ModelCallHeld, ev.EffectIntended)
_FAILED: Final = (ev.FunctionFailed, ev.ModelCallFailed, ev.EffectFailed)
MAX_FAILED_TRIES: Final = 20
_OVER: Final = frozenset({"completed", "failed", "cancelled"})


class FailedTry(msgspec.Struct, frozen=True):
    """A try of an operation that failed and, if another follows, when that is due."""

    at_ms: int
    retry_at_ms: int | None
    error_class: str


class _Bought(msgspec.Struct):
    """The part of a reply to a program that is read; replies to steps have no such field."""

    max_tokens: Any = None


_READ_BOUGHT: Final = msgspec.json.Decoder(_Bought)


class OperationRow(msgspec.Struct, omit_defaults=True):
    """An operation of a step at a place of its code. Times are Unix milliseconds, money is in nano-dollars.

    `tries` counts the calls that left, and the failures of a function; `waited_ms` is the time until the first left.
    `about` is the gate, the child run or the call. A question has the `decision` and the person who gave it (`by`).
    """

    step: StepId
    path: Path | None
    kind: OperationKind
    name: str
    seq: int
    began_at_ms: int
    status: RowStatus = "running"
    ended_at_ms: int | None = None
    ended_seq: int | None = None
    """Number of the event with its outcome, which has what it returned."""
    tries: int = 0
    waited_ms: int = 0
    cost_nanousd: int = 0
    held_nanousd: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    max_tokens: int | None = None
    """The maximum of output that was bought for a program, where the limit could not pay its own."""
    about: str | None = None
    due_at_ms: int | None = None
    waits_for: tuple[str, ...] = ()
    """The pools, or the scope whose limit is used up, for which a call waits."""
    wait: Wait | None = None
    """The wait of the run that it is, as `waiting_for` has it."""
    reused: bool = False
    decision: str | None = None
    by: str | None = None
    error: ErrorRecord | None = None
    failed_tries: tuple[FailedTry, ...] = ()
    """The latest of its tries that failed."""

    @property
    def is_over(self) -> bool:
        return self.status in _OVER

    def end(self, status: RowStatus, at_ms: int) -> None:
        """Give it the status with which it ended, and the time of that where it had not ended before."""
        self.status, self.ended_at_ms = status, at_ms if self.ended_at_ms is None else self.ended_at_ms


_Place: TypeAlias = tuple[StepId, Path]


class Operations:
    """The operations of a run, gathered from its history, event by event."""

    def __init__(self) -> None:
        self.state = State()
        self._all: list[OperationRow] = []
        self._at: dict[_Place, OperationRow] = {}
        """The row of the operation that stands at a place of a journal now."""
        self._questions: dict[GateId, OperationRow] = {}
        """Questions that stand in no journal: about the run, about a step as a whole, about an effect in doubt."""

    def add(self, recorded: ev.Recorded) -> None:
        """Take an event of the history in, in its order."""
        event, at_ms, state = recorded.event, recorded.at_ms, self.state
        places = list(self._places(event))
        spent = self._spent()
        evolve(state, event, at_ms)
        if isinstance(event, ev.StepReady | ev.StepStarted):
            self._inherit(event.step, recorded)
        if isinstance(event, ev.JournalDropped):
            self._retire(event.step)
        found = [row for place in places if (row := self._read(place, recorded)) is not None]
        if found:
            self._charge(found[0], event, self._spent() - spent)
        self._ask(recorded)

    def rows(self, last: int | None = None) -> list[OperationRow]:
        """Return the rows, or the `last` of them, in the order in which the operations began."""
        return self._current(self._all if last is None else self._all[-last:])

    def after(self, seq: int, limit: int | None = None) -> list[OperationRow]:
        """Return copies of the rows that began after event `seq`: at most `limit`, but all of the last one's event."""
        return [msgspec.structs.replace(row) for row in self._current(rows_after(self._all, seq, limit))]

    def _current(self, rows: Sequence[OperationRow]) -> list[OperationRow]:
        """Return rows as they are now. They are read again: what lets an operation go on may be an event of another."""
        waits = {wait.id: wait for wait in waiting_for(self.state)}
        for row in rows:
            place = (row.step, row.path or Path(""))
            if self._at.get(place) is row:
                self._describe(place, row)
            elif not row.is_over and row.about not in self.state.gates:
                row.end("cancelled", self.state.at_ms)
            row.wait = None if row.is_over else waits.get(f"{row.step}:{row.path}") or waits.get(row.about or "")
        return list(rows)

    def _spent(self) -> int:
        return self.state.budget.settled_nanousd + self.state.budget.in_doubt_nanousd

    def _places(self, event: ev.Event) -> Iterator[_Place]:
        """Yield the places of operations that an event concerns, before it is taken in."""
        step, path = getattr(event, "step", None), getattr(event, "path", None)
        if step is not None and path is not None:
            yield step, path
        elif (call := getattr(event, "call", None)) is not None:
            _, of, rest = call.split(":", 2)
            yield StepId(of), Path(rest.rpartition(":")[0])
        elif (gate := getattr(event, "gate", None)) is not None:
            opened = self.state.gates[gate].opened if gate in self.state.gates else None
            if opened is not None and opened.step is not None and opened.path is not None:
                yield opened.step, opened.path
        elif isinstance(event, ev.ChildEnded) and (child := self.state.children.get(event.child)) is not None:
            yield child.step, child.path
            for place in child.places:
                of, _, rest = place.partition(":")
                yield StepId(of), Path(rest)

    def _operation(self, place: _Place) -> Operation | None:
        current = self.state.step(place[0])
        return current.journal.get(place[1]) if current is not None else None

    def _begin(self, place: _Place, kind: OperationKind, name: str, seq: int, at_ms: int) -> OperationRow:
        row = self._at[place] = OperationRow(*place, kind, name, seq, at_ms)
        self._all.append(row)
        return row

    def _inherit(self, step: StepId, recorded: ev.Recorded) -> None:
        """Begin the rows of what a visit has in its journal from the start: a fork got it from its origin."""
        current = self.state.step(step)
        for path, op in current.journal.items() if current is not None else ():
            if (step, path) not in self._at and op.kind not in _HIDDEN:
                row = self._begin((step, path), _KINDS.get(op.kind, "value"), op.name, recorded.seq, recorded.at_ms)
                row.reused = True

    def _retire(self, step: StepId) -> None:
        """Leave the rows as they are whose operations are no longer in the journal: others may take their places."""
        for place in [place for place in self._at if place[0] == step and self._operation(place) is None]:
            row = self._at.pop(place)
            if not row.is_over:
                row.end("cancelled", self.state.at_ms)

    def _read(self, place: _Place, recorded: ev.Recorded) -> OperationRow | None:
        """Note in the row of an operation what an event says of it."""
        event, op = recorded.event, self._operation(place)
        row = self._at.get(place)
        if op is None:
            if row is None and isinstance(event, ev.PoolsAwaited):
                row = self._begin(place, "model", event.model, recorded.seq, recorded.at_ms)
        elif op.kind in _HIDDEN:
            return None
        elif row is None or row.kind != _KINDS.get(op.kind, "value") or (row.is_over and isinstance(event, ev.GateOpened)):
            began_ms = recorded.at_ms - getattr(event, "took_ms", 0)
            row = self._begin(place, _KINDS.get(op.kind, "value"), op.name, recorded.seq, began_ms)
        if row is None:
            return None
        if isinstance(event, _CALLED):
            row.tries += 1
            if row.tries == 1:
                row.waited_ms = recorded.at_ms - row.began_at_ms
        elif isinstance(event, ev.FunctionFailed) or (row.kind == "function" and isinstance(event, ev.ValueRecorded)):
            row.tries += 1
        row.reused = row.reused or isinstance(event, ev.EffectReused | ev.OperationReused | ev.OperationInherited)
        was_over = row.is_over
        self._describe(place, row)
        if isinstance(event, _FAILED):
            failed = FailedTry(recorded.at_ms, None, event.error.error_class)
            row.failed_tries = (*row.failed_tries[1 - MAX_FAILED_TRIES :], failed)
        elif isinstance(event, ev.RetryScheduled) and row.failed_tries:
            last = msgspec.structs.replace(row.failed_tries[-1], retry_at_ms=event.retry_at_ms)
            row.failed_tries = (*row.failed_tries[:-1], last)
        if not was_over and row.is_over:
            row.ended_seq = recorded.seq
        return row

    def _describe(self, place: _Place, row: OperationRow) -> None:
        """Give a row what its operation says now."""
        step, op = self.state.step(place[0]), self._operation(place)
        if op is not None:
            row.name, row.error, row.due_at_ms = op.name, op.error, op.due_at_ms
            row.about = op.gate or op.child or op.call
            if row.kind == "question" and op.gate is not None and (decided := self.state.decided.get(op.gate)) is not None:
                row.decision, row.by = decided.decision, decided.by
        pools = step.pool_waits.get(place[1]) if step is not None else None
        scope = (op.scope,) if op is not None and op.scope is not None else ()
        row.waits_for = pools.pools if pools is not None and not row.is_over else scope
        status = "waiting" if pools is not None else row.status if op is None else _status(op)
        if row.decision is not None and row.decision != EXPIRED:
            status = "completed"  # also where its step has still to complete
        elif status not in _OVER and (step is None or step.status not in OPEN_STEPS) and status != "in_doubt":
            status = "cancelled"
        if status in _OVER:
            ended_ms = op.settled_ms if op is not None else 0
            row.end(status, ended_ms or self.state.at_ms)
        else:
            row.status, row.ended_at_ms = status, None

    def _charge(self, row: OperationRow, event: ev.Event, spent: int) -> None:
        row.cost_nanousd += spent
        call: CallId | None = getattr(event, "call", None)
        held = self.state.calls.get(call) if call is not None else None
        if call is not None:
            row.held_nanousd = held.hold_nanousd if held is not None and not held.doubted else 0
        if isinstance(event, ev.ModelCallSettled):
            row.input_tokens += event.input_tokens
            row.output_tokens += event.output_tokens
            row.max_tokens = _bought(event.output)

    def _ask(self, recorded: ev.Recorded) -> None:
        """Keep the questions that stand in no journal."""
        event, at_ms = recorded.event, recorded.at_ms
        if isinstance(event, ev.GateOpened):
            step = event.step or StepId("")
            op = self._operation((step, event.path)) if event.path is not None else None
            if op is None or op.kind != "gate":
                row = OperationRow(step, event.path, "question", event.reason, recorded.seq, at_ms, "waiting")
                row.about, row.due_at_ms = event.gate, event.due_at_ms
                self._questions[event.gate] = row
                self._all.append(row)
            return
        gate: GateId | None = getattr(event, "gate", None)
        asked = self._questions.get(gate) if gate is not None else None
        if asked is None or gate in self.state.gates:
            return
        if isinstance(event, ev.GateDecided):
            asked.decision, asked.by = event.decision, event.by
            asked.end("completed", at_ms)
        else:
            asked.end("failed" if isinstance(event, ev.GateExpired) else "cancelled", at_ms)
        asked.ended_seq = recorded.seq if asked.ended_seq is None else asked.ended_seq


def _status(op: Operation) -> RowStatus:
    match op.status:
        case "done":
            return "completed"
        case "failed":
            return "cancelled" if op.error is not None and op.error.error_class == CALLED_OFF else "failed"
        case "in_doubt" | "unverified":
            return "in_doubt"
        case "retrying":
            return "retrying"
        case "deferred":
            return "waiting"
        case _:
            return "waiting" if op.kind in _WAITING else "running"


def operations(history: Iterable[ev.Recorded]) -> list[OperationRow]:
    """Return the operations of a run, in the order in which they began, from its whole history.

    Raises CorruptHistory for a history that does not begin at its beginning.
    """
    gathered = Operations()
    for recorded in history:
        gathered.add(recorded)
    return gathered.rows()


def _bought(output: Payload) -> int | None:
    """Return the maximum that a reply says was bought; None of one that is too long to stand in the history."""
    if output.blob is not None or not bytes(output.json).startswith(b"{"):
        return None
    found = _READ_BOUGHT.decode(output.json).max_tokens
    return found if isinstance(found, int) else None
