"""Runs for the tests of stores: decided, folded and projected by the real core, one append at a time."""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core.decide import decide
from holdfast.core.evolve import evolve
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.events import Event, Recorded
from holdfast.core.facts.graph import Definition, Edge, Graph, Node
from holdfast.core.facts.state import FOLD_VERSION, SHARED_USE, State
from holdfast.core.nouns.shared_values import SharedValue
from holdfast.core.values.actor import Actor
from holdfast.core.values.demand import Demand
from holdfast.core.values.ids import (
    AppendId,
    CallId,
    EffectKey,
    GateId,
    NodeName,
    Path,
    RunId,
    Seq,
    SessionId,
    StepId,
    call_id,
    gate_id,
    step_id,
)
from holdfast.core.values.payload import digest, inline
from holdfast.core.values.policies import ErrorRecord
from holdfast.core.views.projection import project
from holdfast.ports import Append, History, SnapshotRecord, Store

DRAFT, APPROVE, SEND = step_id("draft", 1), step_id("approve", 1), step_id("send", 1)
PATH = Path("0")
BORN_MS = 1_700_000_000_000
MONTH, NEXT = "2023-11", "2023-12"
"""The month of that, and the one after it."""
NEXT_MS = BORN_MS + 20 * 24 * 3600 * 1000

_nodes = (Node(NodeName("draft"), "task"), Node(NodeName("approve"), "human_gate"), Node(NodeName("send"), "tool_node"))
_edges = (Edge(NodeName("draft"), NodeName("approve")), Edge(NodeName("approve"), NodeName("send")))
_ids = itertools.count(1)


def graph(name: str = "tiny") -> Graph:
    """A draft that a person approves and a tool then sends."""
    return Graph(Definition(name, 1, _nodes, _edges))


TINY = graph()


def demanding(name: str = "asks", version: int = 1) -> Graph:
    """A workflow of one step, which waits for a place."""
    return Graph(Definition(name, version, (Node(NodeName("a"), "task", demand=Demand(labels=("gpu",))),), ()))


ASKS = demanding()


class Story:
    """One run as its own process sees it: every method decides something and returns what is to be appended."""

    def __init__(self, *, tenant: str = "acme", session: str = "a session", graph: Graph = TINY, at_ms: int = BORN_MS) -> None:
        self.graph = graph
        self.tenant = tenant
        self.session = SessionId(session)
        self.state = State()
        self.at_ms = at_ms
        number = os.getpid() << 24 | next(_ids)
        self.run = RunId(str(uuid.UUID(int=at_ms << 80 | 7 << 76 | 2 << 62 | number)))
        self.history: list[Recorded] = []

    def does(
        self,
        command: cmd.Command,
        *,
        executes: bool = True,
        shortages: Mapping[str, cmd.Shortage] | None = None,
        taken: Mapping[EffectKey, cmd.KnownEffect] | None = None,
        placed: Iterable[str] = (),
    ) -> Append:
        """The append that `command` leads to, a millisecond after the last."""
        before = self.state.seq
        self.at_ms += 1
        worker = cmd.Worker(self.session, 10, frozenset(map(StepId, placed))) if executes else None
        return self.happens(before, decide(self.graph, self.state, command, self.at_ms, worker, shortages or {}, taken or {}))

    def happens(self, before: int, events: list[Event]) -> Append:
        """An append of `events`, which are folded already."""
        trace_id = f"{before:032x}" if before % 2 else None
        at_ms = self.state.at_ms
        recorded = tuple(Recorded(Seq(before + 1 + n), at_ms, event, trace_id) for n, event in enumerate(events))
        self.history.extend(recorded)
        changes = project(self.state, events, executing=True)
        return Append(self.run, Seq(before), AppendId(uuid.uuid4().hex), recorded, changes)

    def forget(self, append: Append) -> None:
        """The store did not take `append`: go back to where it was."""
        del self.history[append.expected :]
        self.state = State()
        for recorded in self.history:
            evolve(self.state, recorded.event, recorded.at_ms)

    # --- Money, while the draft is being written --------------------------------------------------------------------------

    def hold(
        self, nanousd: int, path: str = "0", *, tokens: int = 1, shortages: Mapping[str, cmd.Shortage] | None = None
    ) -> Append:
        command = cmd.HoldModelCall(DRAFT, 1, Path(path), "m", "hash", (cmd.CallCandidate("m", nanousd, tokens),))
        return self.does(command, shortages=shortages)

    def suspend(self) -> Append:
        return self.does(cmd.SuspendStep(DRAFT, 1))

    def settle(self, nanousd: int, path: str = "0") -> Append:
        return self.does(cmd.SettleModelCall(self.money(path), nanousd, 1, 1, inline("text")))

    def doubt(self, path: str = "0") -> Append:
        error = ErrorRecord("draft", "timeout", "no answer", True, self.at_ms)
        return self.does(cmd.DoubtModelCall(self.money(path), error))

    def money(self, path: str = "0") -> CallId:
        return call_id(self.run, DRAFT, Path(path), 1)

    # --- An effect that other runs may mean too ----------------------------------------------------------------------------

    def mean(
        self, key: str, policy: str = "once", path: str = "0", *, attempt: int = 1, taken: cmd.KnownEffect | None = None
    ) -> Append:
        command = cmd.IntendEffect(
            SEND, attempt, Path(path), "mail", policy, "hash", inline({"to": "bob"}), EffectKey(key), tenant_wide=True
        )
        return self.does(command, taken={EffectKey(key): taken} if taken is not None else {})

    # --- A value that other runs write too --------------------------------------------------------------------------------

    def shares(self, key: str, base: int, value: str, *, fence: int | None = None, **more: Any) -> Append:
        outcome = inline(SharedValue(value, base + 1, self.at_ms, value, self.run))
        path = Path(str(self.state.seq))
        return self.does(
            cmd.WriteSharedValue(
                DRAFT, 1, path, "board", key, "hash", base, is_written=True, outcome=outcome, fence=fence, **more
            )
        )

    def uses(self, *keys: str) -> Append:
        """It has found these, of the space in which it shares."""
        found = inline([{"key": key} for key in keys])
        value = cmd.Value(Path(str(self.state.seq)), SHARED_USE, None, found, name="board")
        return self.does(cmd.RecordValues(DRAFT, 1, (value,)))

    # --- What may happen, in this order -------------------------------------------------------------------------------

    def start(
        self,
        *,
        key: str | None = None,
        text: str = "hello",
        by: str | None = None,
        executes: bool = True,
        shortages: Mapping[str, cmd.Shortage] | None = None,
        shared: tuple[str, ...] = (),
        agent: str | None = None,
        tags: tuple[str, ...] = (),
        labels: Mapping[str, str] = {},
    ) -> Append:
        """With `shortages`, to be queued where that says that there is no place; `shared` are scopes in which it counts besides,
        in a team budget as `agent`."""
        given = inline({"text": text})
        command = cmd.StartRun(
            self.run,
            self.tenant,
            given,
            digest(text),
            key=key,
            by=Actor(by),
            queue=shortages is not None,
            shared=shared,
            agent=agent,
            tags=tags,
            labels={**labels},
        )
        return self.does(command, executes=executes, shortages=shortages)

    def start_again(self) -> Append:
        """The start of this run once more, by somebody who does not know that it has begun."""
        self.state, self.history = State(), []
        return self.start()

    def label(self, **labels: str | None) -> Append:
        return self.does(cmd.LabelRun(labels))

    def draft(self, text: str = "a draft") -> Append:
        return self.does(cmd.CompleteStep(DRAFT, 1, inline(text)))

    def ask(self, *, timeout_ms: int | None = None, **more: Any) -> Append:
        return self.does(
            cmd.OpenGate(
                APPROVE,
                1,
                PATH,
                "approval",
                "hash",
                inline("a draft"),
                "shown",
                ("approve", "reject"),
                timeout_ms=timeout_ms,
                completes_step=True,
                **{"reviewers": ("ada", "grace"), **more},
            )
        )

    def assign(self, *to: str) -> Append:
        return self.does(cmd.AssignGate(self.gate, to, delegates=True, by=Actor("ada")))

    def answer(self, decision: str = "approve", by: str = "ada") -> Append:
        return self.does(cmd.DecideGate(self.gate, decision, by=Actor(by)))

    def intend(self) -> Append:
        return self.does(cmd.IntendEffect(SEND, 1, PATH, "mail", "once", "hash", inline({"to": "bob"})))

    def send(self) -> Append:
        return self.does(cmd.CompleteEffect(self.call, inline("sent")))

    def finish(self) -> Append:
        return self.does(cmd.CompleteStep(SEND, 1, inline("done")))

    def whole(self) -> Iterator[Append]:
        """From the start to the end, each decided when it is asked for."""
        yield self.start()
        yield from self.rest()

    def rest(self) -> Iterator[Append]:
        """The same from after the start."""
        for act in (self.draft, self.ask, self.answer, self.intend, self.send, self.finish):
            yield act()

    @property
    def gate(self) -> GateId:
        return gate_id(self.run, APPROVE, PATH)

    @property
    def call(self) -> CallId:
        return call_id(self.run, SEND, PATH, 1)


async def put(store: Store, *appends: Append) -> None:
    """Append one after the other; all must be taken."""
    for append in appends:
        assert list(await store.log.append([append])) == [None]


async def ended(store: Store, count: int = 3, at_ms: int = BORN_MS) -> list[Story]:
    """Runs that have ended, with effects and gates, each of a tenant of its own; in few commits."""
    stories = [Story(at_ms=at_ms, tenant=f"tenant {n}") for n in range(count)]
    for appends in zip(*(list(story.whole()) for story in stories), strict=True):
        assert set(await store.log.append(appends)) == {None}
    assert all(story.state.ended for story in stories)
    return stories


def fold(history: History) -> State:
    """What a loaded history amounts to."""
    state = State() if history.snapshot is None else msgspec.json.decode(history.snapshot.state, type=State)
    for recorded in history.events:
        evolve(state, recorded.event, recorded.at_ms)
    return state


def snapshot_of(state: State, fold_version: int = FOLD_VERSION) -> SnapshotRecord:
    return SnapshotRecord(state.seq, fold_version, msgspec.json.encode(state))
