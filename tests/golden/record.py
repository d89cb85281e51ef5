"""Writes the golden histories down: `python -m tests.golden.record [NAME ...]`, with a fixed clock and fixed names.

A history is written once, by the version in which its feature appeared, and then kept: the point is that later versions
read what earlier ones wrote. So a file that is there is left alone, unless it is named.

Never here: a promise.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

import holdfast.compose.engine
from examples.support_triage.workflow import HERE as EXAMPLE
from examples.support_triage.workflow import wf as support_triage
from holdfast import Engine
from holdfast.core.evolve import evolve
from holdfast.core.facts.events import Recorded, decode
from holdfast.core.facts.graph import COMPENSATE, Definition, Join
from holdfast.core.facts.state import FUNCTION, LABEL, MAP, SHARED_USE, SLEEP, TIMER, VERSION, State
from holdfast.core.nouns.shared_values import SharedConflict, SharedIndex, SharedValue, packed
from holdfast.core.rules.forking import ForkRequest, forked
from holdfast.core.values import policies
from holdfast.core.values.ids import AppendId, CallId, EffectKey, NodeName, RunId, SessionId, StepId
from holdfast.core.values.ids import Path as Place
from holdfast.core.values.payload import inline
from holdfast.core.values.policies import RetryPolicy
from holdfast.core.values.scopes import run_scopes
from holdfast.core.views.status import status, waiting_for
from holdfast.models.providers import Providers
from holdfast.settings import load
from holdfast.stores.sqlite import SqliteStore
from holdfast.testing.mail_sink import MailSink
from holdfast.testing.model_server import ModelServer, Rule, ToolCall
from tests.core.game import ANN, RUN, START_MS, TRANSIENT, Actor, Game, cmd, definition, edge, error, graph, loop, node
from tests.core.test_properties import Crew, some_graph

HERE = Path(__file__).parent
TWICE = RetryPolicy(max_attempts=2, initial_s=1, jitter=0)


class Golden(msgspec.Struct, frozen=True):
    """A history as it is kept: the graphs it went by, the last of them now, and its events."""

    graphs: tuple[Definition, ...]
    events: tuple[Recorded, ...]


def summary(state: State) -> dict[str, Any]:
    """What a history amounts to, as far as every later version must see the same in it."""
    budget = state.budget
    found: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode(
            {
                "run": state.run,
                "seq": state.seq,
                "tenant": state.tenant,
                "workflow": state.workflow,
                "version": state.version,
                "graph_hash": state.graph_hash,
                "status": status(state),
                "ended": state.ended,
                "output": state.output,
                "parts": state.parts,
                "error": state.error,
                "reason": state.reason,
                "limit_nanousd": budget.limit_nanousd,
                "settled_nanousd": budget.settled_nanousd,
                "held_nanousd": budget.held_nanousd,
                "in_doubt_nanousd": budget.in_doubt_nanousd,
                "tokens_used": state.tokens_used,
                "active_ms": state.active_ms,
                "model_calls": state.model_calls,
                "tool_calls": state.tool_calls,
                "neared": state.neared,
                "would_stop": state.would_stop,
                "bound_percents": state.bound_percents,
                "cost_nanousd_by_node": state.cost_nanousd_by_node,
                "steps": {
                    name: {"id": step.id, "status": step.status, "attempt": step.attempt, "output": step.output}
                    for name, step in state.steps.items()
                },
                "gates": sorted(state.gates),
                "decided": state.decided,
                "calls": sorted(state.calls),
                "named": state.named,
                "compensable": state.compensable,
                "signals": state.signals,
                "labels": state.labels,
                "waiting_for": waiting_for(state),
            }
        )
    )
    return found


def fold(golden: Golden, count: int | None = None) -> State:
    state = State()
    for recorded in golden.events[:count]:
        evolve(state, recorded.event, recorded.at_ms)
    return state


def course(golden: Golden) -> list[str]:
    """How the run stood after each event: its status, its money, its steps and what they wait for."""
    state, found = State(), []
    for recorded in golden.events:
        evolve(state, recorded.event, recorded.at_ms)
        budget = state.budget
        money = f"{budget.settled_nanousd}+{budget.held_nanousd}+{budget.in_doubt_nanousd}"
        steps = [
            f"{step.id}={step.status}" + "".join(f",{path}:{op.status}" for path, op in step.journal.items())
            for step in state.steps.values()
        ]
        found.append(" ".join([status(state), money, *steps]))
    return found


def write(name: str, golden: Golden) -> None:
    lines = [msgspec.json.encode(golden.graphs), *map(msgspec.json.encode, golden.events)]
    (HERE / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    golden = read(name)
    state = msgspec.json.format(msgspec.json.encode(summary(fold(golden)) | {"course": course(golden)}), indent=1)
    (HERE / f"{name}.state.json").write_bytes(state + b"\n")


def read(name: str) -> Golden:
    graphs, *events = (HERE / f"{name}.jsonl").read_bytes().splitlines()
    return Golden(msgspec.json.decode(graphs, type=tuple[Definition, ...]), tuple(_recorded(line) for line in events))


def _recorded(line: bytes) -> Recorded:
    raw = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    seq, at_ms = (msgspec.json.decode(raw[name], type=int) for name in ("seq", "at_ms"))
    return Recorded(seq, at_ms, decode(bytes(raw["event"])))  # type: ignore[arg-type]


# --- One history for each feature -----------------------------------------------------------------------------------------


def of(game: Game, *before: Definition) -> Golden:
    events = tuple(
        Recorded(n, at_ms, event)  # type: ignore[arg-type]
        for n, (event, at_ms) in enumerate(zip(game.events(), game.times, strict=True), 1)
    )
    return Golden((*before, game.graph.definition), events)


def waits_for_pools() -> Golden:
    """A call waits for what it takes of pools and is made then; that of another step waits when the history ends, and that of
    a third waited when its attempt failed."""
    game = Game(graph("a", "b", node("c", retry=TWICE)))
    for name in ("a", "b", "c"):
        game.do(cmd.AwaitPools(*game.at(name), Place("0"), "m", ("m/requests", "m/tokens")))
    game.now_ms += 2_000
    game.settle(game.held("a", 40), 10)
    game.complete("a", "said")
    game.fail("c", TRANSIENT)
    return of(game)


def steered() -> Golden:
    """Two messages come while a model is at work: one is read before its next call, the other by nobody."""
    game = Game(graph("a"))
    game.settle(game.held("a", 40), 10)
    game.do(cmd.SendMessage(2, inline({"text": "hurry", "parts": []})))
    game.do(cmd.ReadMessages(*game.at("a"), Place("1")))
    game.settle(game.held("a", 40, path="1"), 10)
    game.do(cmd.SendMessage(3, inline({"text": "thanks", "parts": []})))
    return of(game)


def typed_state() -> Golden:
    """Patches of a typed state that meet: one is merged, one rejected and tried again; a task names where it goes on."""
    fields: Any = {"facts": "merge", "risk": "reject"}
    game = Game(graph(node("a"), node("b"), node("c", retry=TWICE), "a > x", "a > y", "b > x", "c > x", state=fields))
    game.complete("a", {"facts": {"x": 1}, "risk": 1}, "y")
    game.complete("b", {"facts": {"x": 2, "y": 2}})
    game.complete("c", {"risk": 3})
    game.tick(2)
    game.complete("c", {"risk": 3})
    game.complete("y")
    return of(game)


def shares_values() -> Golden:
    """Values that runs share: one is written under a lock, of two conflicts one is merged and one refused, one wait is over, and
    another comes to its end."""
    game = Game(graph("a", "b", "c"))
    sides = "bob", "merge", inline({"tea": 1}), inline({"cake": 1})

    def wrote(path: str, base: int, value: object, **more: Any) -> None:
        outcome = inline(SharedValue(value, base + 1, game.now_ms, "a", game.state.run))
        place = (*game.at("a"), Place(path), "board", "case", f"arguments {path}")
        game.do(cmd.WriteSharedValue(*place, base, is_written=True, outcome=outcome, **more))

    wrote("0", 0, {"tea": 1}, fence=3)
    wrote("1", 1, {"tea": 1, "cake": 1}, conflict=SharedConflict(0, 1, *sides))
    refused = (*game.at("a"), Place("2"), "board", "case", "arguments 2", 2)
    rejected = SharedConflict(0, 2, "bob", "reject", *sides[2:])
    game.do(cmd.WriteSharedValue(*refused, is_written=False, outcome=inline(None), conflict=rejected, refusal="It has moved."))
    for name, timeout_ms in (("b", None), ("c", 1_000)):
        game.do(cmd.AwaitSharedValue(*game.at(name), Place("0"), "board", "case", "after 2", 2, timeout_ms))
        game.suspend(name)
    game.do(cmd.BringSharedValue(StepId("b#1"), Place("0"), inline(SharedValue(7, 3, game.now_ms, "bob"))))
    game.tick(2)
    return of(game)


def keeps_what_is_found() -> Golden:
    """Values that are found by their words and their meaning: one is written in the place of another, used, and deleted."""
    game = Game(graph("a"))
    index = SharedIndex("black tea", "tiny", packed((3, 4)))
    outcome = inline(SharedValue("tea", 1, game.now_ms, "a", game.state.run))
    place = (*game.at("a"), Place("0"), "!memory/a/", "1", "arguments")
    game.do(cmd.WriteSharedValue(*place, 0, is_written=True, outcome=outcome, index=index, keep=1, dropped=("0",)))
    found = cmd.Value(Place("1"), SHARED_USE, None, inline([{"key": "1", "text": "tea"}]), name="!memory/a/")
    gone = inline(SharedValue(None, 2, game.now_ms, "a", game.state.run, gone=True))
    forgets = (*game.at("a"), Place("2"), "!memory/a/", "1", "arguments 2", 1)
    game.do(cmd.WriteSharedValue(*forgets, is_written=True, outcome=gone, values=(found,), keep=0))
    return of(game)


def a_flow() -> Golden:
    """A flow of one node: a version, a function that returned, one that fails, waits and returns, one that fails for good, which
    the flow lives with, a tool that is tried again, and a process that dies in between."""
    game = Game(graph(node("flow")))

    def returned(path: str, name: str, result: Any, *more: cmd.Value) -> None:
        value = cmd.Value(Place(path), FUNCTION, None, inline(result), name, f"{name}'s arguments")
        game.do(cmd.RecordValues(*game.at("flow"), (*more, value)))

    def failed(path: str, name: str, problem: policies.ErrorRecord) -> None:
        game.do(cmd.FailFunction(*game.at("flow"), Place(path), name, f"{name}'s arguments", problem, TWICE))

    returned("0", "price", {"net": 3.5}, cmd.Value(Place("@tax"), VERSION, 2, name="tax"))
    failed("1", "stock", TRANSIENT)
    game.suspend("flow")
    game.tick(5)
    game.lose()
    game.session = SessionId("next")
    game.tick(1)
    returned("1", "stock", 7)
    failed("2", "discount", error(policies.VALIDATION))
    game.did_not(game.intended("flow", "idempotent", "3"), TRANSIENT)
    game.do(cmd.RetryOperation(*game.at("flow"), Place("3"), TWICE))
    game.suspend("flow")
    game.tick(5)
    game.did(game.intended("flow", "idempotent", "3"))
    game.complete("flow", {"total": 24.5})
    return of(game)


def a_flow_of_tasks() -> Golden:
    """A flow of several tasks: outcomes in another order than that in which they were asked for, a time limit that ran out
    while the process lived, another across its death, and what is called off with them."""
    game = Game(graph(node("flow")), naming=2)

    def returned(path: str, name: str, result: Any, *more: cmd.Value) -> None:
        value = cmd.Value(Place(path), FUNCTION, None, inline(result), name, f"{name}'s arguments")
        game.do(cmd.RecordValues(*game.at("flow"), (*more, value)))

    def called_off(*paths: str) -> None:
        game.do(cmd.CallOffOperations(*game.at("flow"), tuple(map(Place, paths))))

    returned("~1.0", "price of b", 3)
    returned("~0.0", "price of a", 2, cmd.Value(Place("0"), "now", game.now_ms))
    game.open_gate("flow", path="~2.0")
    game.await_signal("flow", "go", path="~2.1")
    game.now_ms += 2_000
    game.do(cmd.RecordValues(*game.at("flow"), (cmd.Value(Place("~2.@0"), SLEEP, None, None, TIMER, "2 s"),)))
    called_off("~2.0", "~2.1")
    game.child("flow", "1")
    game.do(cmd.MapItems(*game.at("flow"), Place("2"), "check", "a list", 2, 2, 2))
    game.do(cmd.SuspendStep(*game.at("flow"), timers=(cmd.Timer(Place("@1"), "an hour", 3_600_000),)))
    game.lose()
    game.session = SessionId("next")
    game.tick(3_600)
    called_off("2", "1", "@1")
    game.signal("go", {"n": 1})
    game.await_signal("flow", "go", path="3")
    game.end_child(RunId("child-flow-1-1"), "cancelled")
    game.complete("flow", 5)
    return of(game)


def a_family() -> Golden:
    """A run with a limit and children: one that completes, one that fails and is taken up, one with a name that is asked for
    twice, one in the background that is waited for, and one that nobody waits for any more."""
    game = Game(graph(node("a", retry=TWICE), node("b"), edge("a", "b")), limit=1000)
    game.settle(game.held("a", 60), 45)
    first, named = game.child("a", "1"), game.child("a", "2", key="named")
    game.ask_for("a", "3", key="named")
    later = game.child("a", "4", background=True, limit=100)
    game.suspend("a")
    game.end_child(first, output={"n": 1})
    game.end_child(named, "failed")
    game.pause()
    game.resume()
    game.fail("a", game.op("a", "2").error, "2")
    game.tick(3)
    game.ask_for("a", "2", key="named")
    game.suspend("a")
    game.end_child(named, output={"n": 2})
    game.await_child("a", later, "5")
    game.child("a", "6")
    game.raise_limit("cost", 2000)
    game.end_child(later, output={"n": 3})
    game.complete("a", "a")
    ((left, _),) = game.state.open_children()
    game.end_child(left, "cancelled")
    game.settle(game.held("b", 100), 90)
    game.complete("b", "b")
    return of(game)


def an_undone_family() -> Golden:
    """A run that fails and has two children undo what they did, in its order; of one somebody has to say so again."""
    game = Game(graph(node("a"), node("b"), edge("a", "b")))
    first, second = game.child("a", "1"), game.child("a", "2", handoff=True)
    game.suspend("a")
    game.end_child(first, undoable=True)
    game.end_child(second, undoable=True)
    game.complete("a", "a")
    game.fail("b")
    game.undo_child(second, "0")
    game.suspend(COMPENSATE)
    game.end_child(second, "failed")
    game.fail(COMPENSATE, game.op(COMPENSATE, "0").error, "0")
    ((gate, _),) = game.state.gates.items()
    game.decide("retry", gate)
    game.tick()
    game.undo_child(second, "0")
    game.suspend(COMPENSATE)
    game.end_child(second, "cancelled")
    game.undo_child(first, "1")
    game.suspend(COMPENSATE)
    game.end_child(first, "cancelled")
    game.complete(COMPENSATE, None)
    return of(game)


def a_loop() -> Golden:
    """A check sends the run back twice; only the last draft counts. A guard speaks at the way out."""
    game = Game(graph(node("good", "check"), node("send", guard="short"), "draft > good > send", loop("good", "draft")))
    for decision in ("retry", "retry", "pass"):
        game.now_ms += 1_000
        game.complete("draft", f"draft {game.step('draft').id}")
        game.complete("good", None, decision)
    game.judge()
    game.complete("send", "sent")
    return of(game)


def a_fan_out() -> Golden:
    """Five branches and every join: a quorum, one that times out, one called off, one skipped."""
    game = Game(
        graph(
            node("route", "branch"),
            node("quorum", join=Join("quorum", 2)),
            node("rest", join=Join("best_effort", timeout_s=60)),
            node("strict", join="all_required"),
            node("end", join="any"),
            "begin > a > quorum",
            "begin > b > quorum",
            "begin > c > quorum",
            "begin > d > rest",
            "begin > e > rest",
            "begin > route > left",
            "route > right",
            "left > strict",
            "right > strict",
            "quorum > end",
            "rest > end",
        ),
        slots=6,
    )
    game.complete("begin", {"n": 5})
    for name in "abd":
        game.complete(name, name)
    game.tick()
    game.complete("route", None, "left")
    game.complete("left", 1)
    game.tick(61)
    for name in ("quorum", "rest", "e", "end"):
        if name in game.active:
            game.complete(name, name)
    return of(game)


def a_gate() -> Golden:
    """Reminded, escalated, edited; then another that is rejected, along its edge. (The first has four eyes in the recorded
    history: an edit was executed there by then.)"""
    gates = (node("first", "human_gate"), node("second", "human_gate"))
    game = Game(graph(*gates, "first > second > end", edge("second", "apology", when="reject")), by="bob")
    first = game.human_gate("first", timeout_ms=60_000, remind_every_ms=30_000, reviewers=("ann",))
    game.tick(31)
    game.tick(30)
    game.decide("edit", first, {"text": "better"}, reason="a word was wrong")
    game.tick()
    second = game.human_gate("second")
    game.decide("reject", second, reason="not like this")
    game.tick()
    game.complete("apology", "sorry")
    return of(game)


def a_contribution() -> Golden:
    """What a program says with a key, and a person by a signal; the edit of another at a gate with four eyes."""
    game = Game(graph(node("pay", "human_gate"), "pay > end"), by=Actor("keys.shop", "", "keys.shop", maker="cyd"))
    game.do(cmd.SendSignal("hurry", inline({}), Actor("dan")), session=None)
    gate = game.human_gate("pay", shown={"to": "ann"}, filled=inline({"edited_body": {"to": "ann"}}), four_eyes=True)
    game.decide("edit", gate, {"edited_body": {"to": "bob"}}, by="eve", reason="a word was wrong")
    game.decide("approve", gate, by="zoe")
    game.tick()
    game.complete("end", "paid")
    return of(game)


def learned_makers() -> Golden:
    """Asks another person than the one who has decided in a child, with a key that a third has made."""
    game = Game(graph("check", "pay", "check > pay"), by="ann")
    child = game.child("check")
    game.do(cmd.EndChild(child, "completed", inline("zed"), makers={"zed": ("bob",)}))
    game.complete("check")
    gate = cmd.OpenGate(*game.at("pay"), Place("0"), "question", "h", inline(5), "h", ("approve",), not_by=("zed",))
    game.do(gate)
    game.decide("approve", by="eve")
    return of(game)


def a_quorum() -> Golden:
    """Two persons approve, the first of whom with a key that another has made."""
    game = Game(graph(node("pay", "human_gate"), "pay > end"), by="ann")
    gate = game.human_gate("pay", quorum=2, reviewers=("role:finance",))
    game.decide("approve", gate, by=Actor("keys.desk", "", "keys.desk", maker="bob"), roles=("finance",), reason="fine")
    game.decide("approve", gate, by="eve", roles=("finance",))
    game.tick()
    game.complete("end", "paid")
    return of(game)


def a_gate_handed_on() -> Golden:
    """A gate with a quorum is given to others, edited with a key that another person has made, and approved by two."""
    game = Game(graph(node("pay", "human_gate"), "pay > end"), by="ann")
    gate = game.human_gate("pay", quorum=2, reviewers=("bob", "role:finance"), filled=inline({"to": "ann"}))
    game.do(cmd.AssignGate(gate, ("role:legal",), True, Actor("bob"), "also"), session=None)
    game.do(cmd.AssignGate(gate, ("role:legal", "eve"), False, Actor("bob")), session=None)
    game.decide(
        "edit", gate, by=Actor("keys.desk", "", "keys.desk", maker="bob"), data={"edited_body": "kim"}, roles=("legal",)
    )
    game.decide("approve", gate, by="eve")
    game.decide("approve", gate, by="zoe", roles=("legal",))
    game.tick()
    game.complete("end", "paid")
    return of(game)


def an_expiry() -> Golden:
    """One gate is delegated, given to others and decided in a word of its own; of two that expire one has an edge for that,
    and the question of a step is asked anew."""
    names = ("first", "second")
    gates = tuple(node(name, "human_gate", options={"decisions": ("approve", "to_legal")}) for name in names)
    ways = (edge("first", "second", when="to_legal"), edge("second", "late", when="expired"))
    more = (edge("first", "end", when="approve"), edge("second", "end", when="to_legal"), edge("second", "end", when="approve"))
    game = Game(graph(*gates, *ways, *more, on_exhausted="dead_letter"), by="bob")
    first = game.human_gate("first", reviewers=("ann",), allowed=("approve", "to_legal"))
    game.do(cmd.AssignGate(first, ("eve", "legal"), True, ANN, "on holiday"), session=None)
    game.do(cmd.AssignGate(first, ("legal",), False, ANN), session=None)
    game.decide("to_legal", first, by="eve", roles=("legal",))
    game.tick()
    game.human_gate("second", allowed=("approve", "to_legal"), expires_after_ms=60_000)
    game.tick(61)
    game.tick()
    game.open_gate("late", "0", expires_after_ms=1_000)
    game.suspend("late")
    game.tick(2)
    game.tick()
    game.fail("late", error(policies.EXPIRED), "0")
    game.decide("retry")
    game.tick()
    game.open_gate("late", "0", expires_after_ms=1_000)
    game.suspend("late")
    game.decide("answer", data={"late": True})
    game.tick()
    game.complete("late", "at last")
    return of(game)


def a_retry() -> Golden:
    """A time-out, a rate limit, then it works; the operations before keep their outcomes."""
    game = Game(graph(node("work", retry=RetryPolicy(max_attempts=3, initial_s=1, jitter=0))))
    game.effect("work", key="k")
    game.refuse(game.held("work", 50, 10, "1"), TRANSIENT)
    game.fail("work", TRANSIENT, "1")
    game.tick(5)
    game.refuse(game.held("work", 50, 10, "1"), error(policies.RATE_LIMIT, retryable=True))
    game.fail("work", error(policies.RATE_LIMIT, retryable=True), "1")
    game.tick(120)
    game.settle(game.held("work", 50, 10, "1"), 20, tokens=(3, 4))
    game.complete("work", "done")
    return of(game)


def a_dead_letter() -> Golden:
    """Parked, replayed with its keys, parked again, answered by a person."""
    game = Game(graph(node("work", retry=TWICE), "work > end", on_exhausted="dead_letter"))
    game.effect("work")
    for answer in ("retry", "answer"):
        game.did_not(game.intended("work", "idempotent", "1"))
        game.fail("work", error(), "1")
        game.decide(answer, data={"by": "hand"} if answer == "answer" else None)
        game.tick()
    game.tick()
    game.complete("end", "done")
    return of(game)


def a_map() -> Golden:
    """A list of five, two at a time: one is tried again, one may fail, the rest is called off when three are done. In a second
    map more fail than may; a person takes the run up."""
    each = node("review", retry=TWICE)
    game = Game(graph(node("review", "map", each=each), "review > work"))
    pages: dict[str, Any] = {"pages": (inline(["a", "b", "c", "d", "e"]),), "starts": (0,), "keys": tuple("abcde")}
    mapped = cmd.MapItems(*game.at("review"), Place("0"), "review", "list", 5, 2, 3, 2, 60_000, **pages)
    game.do(mapped)
    game.suspend("review")
    game.fail("review[a]", TRANSIENT)
    game.fail("review[b]", error())
    game.tick(2)
    for name in ("c", "a", "d"):
        game.complete(f"review[{name}]", name.upper())
    results = cmd.Value(Place("0"), MAP, None, inline(["A", None, "C", "D", None]), "review", "list")
    game.do(cmd.RecordValues(*game.at("review"), (results,)))
    game.complete("review", ["A", None, "C", "D", None])
    pages = {"pages": (inline([1, 2]),), "starts": (0,)}
    game.do(cmd.MapItems(*game.at("work"), Place("0"), "f", "list", 2, 2, 2, retry=TWICE, **pages))
    game.suspend("work")
    game.effect("work/0[0]")
    game.fail("work/0[1]", error())
    game.fail("work", game.op("work").error, "0")
    game.retry()
    game.suspend("work")
    for name in ("work/0[0]", "work/0[1]"):
        game.complete(name, 1)
    game.do(cmd.RecordValues(*game.at("work"), (cmd.Value(Place("0"), MAP, None, inline([1, 1]), "f", "list"),)))
    game.complete("work", 2)
    return of(game)


def a_compensation() -> Golden:
    """Two bookings are undone after a failure, the latest first; one undoing fails and a person has it tried again."""
    game = Game(graph(node("book"), node("fail"), "book > fail"))
    flight = game.effect("book", path="0", compensation="undo", tool="flight")
    hotel = game.effect("book", path="1", compensation="undo", tool="hotel")
    game.complete("book")
    game.fail("fail", error())
    first = game.intended(COMPENSATE, "idempotent", "0", tool="undo", compensates=hotel)
    game.did_not(first)
    game.fail(COMPENSATE, error(policies.TOOL), "0")
    game.decide("retry")
    game.tick()
    game.did(game.intended(COMPENSATE, "idempotent", "0", tool="undo", compensates=hotel))
    game.did(game.intended(COMPENSATE, "idempotent", "1", tool="undo", compensates=flight))
    game.complete(COMPENSATE)
    return of(game)


def a_budget_block() -> Golden:
    """Two branches race for a limit that one fits into; the other waits, blocks, and goes on with a raised limit."""
    game = Game(graph("begin > a > end", "begin > b > end"), limit=100)
    game.complete("begin")
    first = game.held("a", 80, 10)
    game.hold("b", 80, 10)
    game.suspend("b")
    game.settle(first, 60, tokens=(5, 5))
    game.tick()
    game.hold("b", 80, 10)
    game.suspend("b")
    game.decide("answer", data={"limit_usd": "0.0000002"})
    game.tick()
    second = game.held("b", 80, 10)
    game.doubt_money(second)
    game.reconcile(second, 20)
    game.complete("a", "a")
    game.tick()
    game.fail("b", TRANSIENT, "0")
    game.tick(60)
    game.settle(game.held("b", 80, 10), 10, tokens=(1, 1))
    game.complete("b", "b")
    game.complete("end", "done")
    return of(game)


def a_cap() -> Golden:
    """Calls of models and tools up to their caps, told on the way there; a reply above its bound; the wall time, found by a
    tool."""
    limits = {"max_model_calls": 2, "max_tool_calls": 1, "max_wall_s": 100}
    game = Game(graph("a > end", "b > end", limits=limits), limit=1000)
    game.settle(game.held("a", 80, 10), 120, tokens=(10, 5))
    game.refuse(game.held("b", 80, 10))
    game.hold("b", 80, 10, "1")
    game.raise_limit("model_calls", 4)
    game.settle(game.held("b", 80, 10, "1"), 60, tokens=(1, 1))
    game.did(game.intended("a", path="1"))
    game.intend("b", path="2")
    game.decide("answer", data={"tool_calls": 5})
    game.now_ms += 100_000
    game.intend("b", path="2")
    game.complete("a", "a")
    game.suspend("b")
    game.raise_limit("wall", 500)
    game.tick()
    game.do(cmd.ReleaseEffect(game.intended("b", path="2")))
    game.complete("b", "b")
    game.complete("end", "done")
    return of(game)


def a_dry_run() -> Golden:
    """Limits that are only recorded: every one of them would have stopped the run."""
    limits = {"cost_nanousd": 100, "max_tokens": 20, "max_model_calls": 1, "max_tool_calls": 1, "max_steps": 1}
    game = Game(graph("a > b", limits=limits | {"max_wall_s": 60}), start=False)
    game.do(cmd.StartRun(RUN, "acme", inline(None), "", on_limit="record"))
    for path in "012":
        game.settle(game.held("a", 60, 15, path), 60, tokens=(10, 2))
    for path in "34":
        game.did(game.intended("a", path=path))
    game.complete("a")
    game.tick(61)
    game.complete("b", "all the same")
    return of(game)


def with_prices() -> Golden:
    """Tools that have a price: answered, refused, never left, lost and repeated, lost and answered by a person; one waits for what
    another holds, one in a scope, and one never fits."""
    game = Game(graph("a > end", "b > end"), limit=500)
    game.did(game.intended("a", "read", nanousd=50))
    game.did_not(game.intended("a", path="1", nanousd=50))
    game.do(cmd.ReleaseEffect(game.intended("a", path="2", nanousd=50)))
    lost = game.intended("b", "idempotent", nanousd=60)
    game.doubt(lost)
    game.fail("b", TRANSIENT, "0")
    game.tick(60)
    game.did(game.intended("b", "idempotent", nanousd=60))
    game.doubt(game.intended("b", "read", "1", nanousd=20))
    unknown = game.intended("b", path="2", nanousd=40)
    game.doubt(unknown)
    game.decide("answer", data={"said": "it happened"})
    held = game.intended("a", path="3", nanousd=200)
    game.intend("b", path="3", nanousd=100)
    game.suspend("b")
    game.did_not(held)
    game.tick()
    short = game.shortages(left=50, held=20)
    game.intend("b", path="3", nanousd=100, shortages=short)
    game.suspend("b")
    game.do(cmd.Tick(headroom=frozenset(short)))
    game.did(game.intended("b", path="3", nanousd=100))
    game.intend("a", path="4", nanousd=300)
    game.suspend("a")
    game.decide("answer", data={"limit_usd": "0.000001"})
    game.tick()
    game.did(game.intended("a", path="4", nanousd=300))
    game.complete("a", "a")
    game.complete("b", "b")
    game.complete("end", "done")
    return of(game)


def a_scope() -> Golden:
    """A tenant's day has no room: one call waits until others have settled, another for the next day; one is doubted."""
    game = Game(graph("a > end", "b > end"), team="search")
    game.hold("a", 60, shortages=game.shortages(left=10, held=90))
    game.suspend("a")
    game.hold("b", 30, shortages=game.shortages())
    game.suspend("b")
    game.do(cmd.Tick(headroom=frozenset(game.shortages())))
    call = game.held("a", 60)
    game.hold("b", 30, shortages=game.shortages(number=2))
    game.suspend("b")
    game.now_ms += 2 * 3600 * 1000
    game.tick()
    game.settle(call, 45)
    game.doubt_money(game.held("b", 30))
    game.complete("a")
    game.complete("b")
    game.complete("end", "done")
    return of(game)


def an_admission() -> Golden:
    """Too many runs are active: this one waits for its tenant, then for the fleet, and begins."""
    game = Game(graph("a"), start=False)
    tenant, fleet = run_scopes("acme")
    game.start(queue=True, shortages={tenant: cmd.Shortage(2, 0, 2)})
    game.now_ms += 1_000
    game.do(cmd.Tick(headroom=frozenset([tenant])), shortages={fleet: cmd.Shortage(5, 0, 5)})
    game.now_ms += 1_000
    game.do(cmd.Tick(headroom=frozenset([fleet])))
    game.complete("a", "done")
    return of(game)


def a_tenant_wide_effect() -> Golden:
    """The first effect is another run's, and waited for; the second its own, and undone after a failure."""
    game = Game(graph(node("work"), node("fail"), "work > fail"))
    other = cmd.KnownEffect(CallId("other-run:send#1:0:1"), "args")
    first = {EffectKey("first"): other}
    game.intend("work", key="first", tenant_wide=True, taken=first)
    game.suspend("work")
    game.do(cmd.Tick(headroom=frozenset(["effect/first"])))
    done = {EffectKey("first"): cmd.KnownEffect(other.call, "args", inline("sent by another"))}
    game.intend("work", key="first", tenant_wide=True, taken=done)
    book = game.intended("work", path="1", key="second", tenant_wide=True, compensation="undo")
    game.did(book)
    game.complete("work")
    game.fail("fail", error())
    game.did(game.intended(COMPENSATE, "idempotent", "0", tool="undo", compensates=book))
    game.complete(COMPENSATE)
    return of(game)


def a_reopened_run() -> Golden:
    """One branch fails while another sleeps, and a join is skipped: somebody takes the run up, it waits for its place, and
    ends."""
    game = Game(graph("begin > a", "a > quick", "begin > b", "b > slow", "a > j", "b > j", node("j", join=Join("any"))))
    game.complete("begin")
    game.sleep("b", 60)
    game.effect("a")
    game.fail("a", error())
    fleet = run_scopes("acme")[1]
    game.retry(shortages={fleet: cmd.Shortage(1, 0, 0)})
    game.now_ms += 100_000
    game.do(cmd.Tick(headroom=frozenset([fleet])))
    for name in ("a", "quick", "j"):
        game.complete(name, name)
    game.tick()
    for name in [*game.active]:
        game.complete(name, name)
    for name in [*game.active]:
        game.complete(name, name)
    return of(game)


def an_edited_dead_letter() -> Golden:
    """A step that has sent something fails for good, is edited, tried again, keeps what it asks for as it was, and fails once
    more, which a person accepts; another of the same run is refused."""
    game = Game(graph("a > c", "b > c", on_exhausted="dead_letter"))
    game.effect("a", "0", args="first")
    game.fail("a", error(policies.TOOL))
    game.edit_letter("a#1", {"to": "bob"})
    game.decide("retry")
    game.tick()
    game.intend("a", path="0", args="first")
    game.effect("a", "1", args="second")
    game.complete("a")
    game.fail("b")
    game.decide("reject")
    return of(game)


def a_failed_run_with_letters() -> Golden:
    """A run fails; somebody is done with its letter, takes the run up all the same, and edits the letter that comes of it."""
    game = Game(graph("a"))
    game.fail("a")
    game.resolve_letter("a#1")
    game.retry()
    game.fail("a")
    game.edit_letter("a#1")
    game.retry()
    game.complete("a")
    return of(game)


def a_fork() -> Golden:
    """A fork from the second round of a loop, inside a step: a guard has spoken, a signal came, a person had sent it back, of
    which nothing is known any more; of two effects one is asked for as it was, and one otherwise, which a person approves."""
    flow = graph(
        "plan > draft", edge("draft", "check", guard="ok"), node("check", "check"), loop("check", "draft"), "check > end"
    )
    origin = Game(flow, limit=1000)
    origin.signal("go", 1)
    origin.settle(origin.held("plan", 100), 40)
    origin.complete("plan", "P")
    for round_ in ("first", "second"):
        origin.effect("draft", "0", args=round_)
        origin.effect("draft", "1", args=round_, tool="file")
        origin.complete("draft", round_)
        origin.judge()
        origin.complete("check", decisions="retry" if round_ == "first" else "pass")
    origin.fail("end")
    history = [
        Recorded(n, at_ms, event)  # type: ignore[arg-type]
        for n, (event, at_ms) in enumerate(zip(origin.events(), origin.times, strict=True), 1)
    ]
    found = forked(
        flow, history, ForkRequest(StepId("draft#2"), Place("1"), outputs={NodeName("plan"): inline("another")}, by=ANN)
    )
    game = Game(flow, start=False)
    game.now_ms = origin.now_ms + 1000
    game.do(cmd.StartRun(RunId("0190-fork"), "acme", inline(None), "fork", 500, by=ANN, inherits=found.events))
    game.intend("draft", path="1", args="second", tool="file")
    game.open_gate("draft", "2.approval")
    game.suspend("draft")
    game.decide("approve")
    game.tick()
    game.effect("draft", "2", args="more")
    game.complete("draft")
    game.judge()
    game.complete("check", decisions="pass")
    game.complete("end", "E")
    return of(game)


def a_divergence() -> Golden:
    """Changed code stops a step that has paid and asked: first the old code is back, then the new code is accepted, then the
    step is done from its beginning."""
    game = Game(graph("a > b"))
    game.effect("a", "0")
    game.open_gate("a", "1")
    game.suspend("a")
    game.decide("approve")
    game.tick()
    game.stop("a", "1")
    game.tick(5)
    game.await_signal("a", "go", path="2")
    game.suspend("a")
    game.signal("go")
    game.tick()
    game.stop("a", "1")
    game.decide("approve")
    game.tick()
    game.sleep("a", 0, "1")
    game.tick(1)
    game.open_gate("a", "2")
    game.stop("a", "0")
    game.decide("answer", data="restart")
    game.tick()
    game.intend("a", path="1")
    game.complete("a")
    game.complete("b", "B")
    return of(game)


def an_unknown_effect() -> Golden:
    """A process dies in the middle of four calls: each is settled as its policy says. A late outcome is an orphan."""
    game = Game(graph("work > end"))
    calls = {policy: game.intended("work", policy, str(n)) for n, policy in enumerate(("idempotent", "verify", "once"))}
    game.lose()
    game.tick(1, session=SessionId("next"))
    game.session = SessionId("next")
    again = game.intended("work", "idempotent", "0")
    game.did(calls["idempotent"])
    game.did(again)
    game.tick(10)
    game.reopen(calls["verify"])
    game.never_left(game.intended("work", "verify", "1"))
    game.did(game.intended("work", "verify", "1"))
    game.decide("answer", data={"sent": True})
    game.do(cmd.DenyToolCall(*game.at("work"), Place("7"), "rm", "args", error(policies.DENIED)))
    game.complete("work")
    game.complete("end", "done")
    return of(game)


def a_named_effect() -> Golden:
    """Two branches mean the same effect: one does it, the other waits for it; a third finds it there."""
    game = Game(graph("begin > a > end", "begin > b > end"))
    game.complete("begin")
    call = game.intended("a", key="invite")
    game.intend("b", key="invite")
    game.suspend("b")
    game.did(call, "invited")
    game.complete("a")
    game.tick()
    game.intend("b", key="invite")
    game.complete("b")
    unanswered = game.intended("end", "idempotent", "0")
    game.doubt(unanswered)
    game.did(unanswered, "after all")
    game.complete("end", "done")
    return of(game)


def a_signal() -> Golden:
    """One is kept before anybody asks, one is waited for, one does not come in time."""
    game = Game(graph("work"))
    game.signal("go", {"n": 1})
    game.await_signal("work", "go", path="0")
    game.await_signal("work", "go", path="1")
    game.suspend("work")
    game.signal("go", {"n": 2})
    game.tick()
    game.await_signal("work", "never", 30, path="2")
    game.suspend("work")
    game.tick(31)
    seen = cmd.Value(Place("9"), "now", game.now_ms)
    game.do(cmd.CompleteStep(*game.at("work"), inline("done"), None, values=(seen,)))
    return of(game)


def a_timer() -> Golden:
    """Thirty days, across the death of the process, a pause, and a lifespan that passes meanwhile."""
    game = Game(graph("work", limits={"max_lifespan_s": 86_400}))
    game.sleep("work", 30 * 86_400)
    game.tick(86_400)
    game.pause()
    game.tick(29 * 86_400 + 1)
    game.resume()
    game.lose()
    game.session = SessionId("next")
    game.tick()
    game.complete("work", "awake")
    return of(game)


def a_migration() -> Golden:
    """A waiting run is moved to the next version of its workflow, which has one node more."""
    before = definition("work")
    game = Game(graph("work"))
    game.await_signal("work", "go")
    game.suspend("work")
    game.graph = graph(node("work"), "work > more")
    after = game.graph.definition
    game.graph = type(game.graph)(msgspec.structs.replace(after, version=2))
    game.do(cmd.MigrateRun(ANN))
    game.signal("go")
    game.tick()
    game.complete("work")
    game.complete("more", "migrated")
    return of(game, before)


def a_cancelled_run() -> Golden:
    """Cancelled while two steps work, of which one has a call under way."""
    game = Game(graph("begin > a > end", "begin > b > end"))
    game.complete("begin")
    call = game.intended("a")
    game.cancel("no longer needed")
    game.did(call)
    return of(game)


def a_labelled_run() -> Golden:
    """Labelled at its start, by its code, by people, and after its end."""
    game = Game(graph("a > b"), start=False)
    game.do(cmd.StartRun(RUN, "acme", inline(None), "", tags=("red",), labels={"customer": "acme", "stage": "new"}))
    game.do(cmd.RecordValues(*game.at("a"), (cmd.Value(Place("0"), LABEL, {"stage": "a", "more": "é"}),)))
    game.complete("a")
    game.do(cmd.LabelRun({"customer": "globex", "more": None}, ANN))
    game.complete("b")
    game.do(cmd.LabelRun({"late": "yes"}, ANN))
    return of(game)


def a_flow_that_cleans_up() -> Golden:
    """A flow hears that its run is being cancelled, takes back what it waited for, waits and calls a tool; its process dies, and
    the next one is not through in time. Then what it did is undone."""
    game = Game(graph(node("flow", options={"cleanup_s": 30.0})), naming=2)
    game.effect("flow", "0", compensation="undo")
    game.open_gate("flow", "1")
    game.suspend("flow")
    game.cancel()
    game.do(cmd.CallOffOperations(*game.at("flow"), (Place("1"),)))
    game.sleep("flow", 5, "2")
    game.tick(5)
    game.lose()
    game.session = SessionId("next")
    game.tick()
    game.effect("flow", "3", policy="idempotent")
    game.await_signal("flow", "nobody sends it", path="4")
    game.suspend("flow")
    game.tick(25)
    game.effect(COMPENSATE, "0", compensates=game.state.compensable[0].call, tool="undo")
    game.complete(COMPENSATE)
    return of(game)


def random_runs() -> dict[str, Callable[[], Golden]]:
    """Runs that chance made, with much of everything in them."""

    def play(seed: int) -> Golden:
        first = some_graph(6, seed)
        crew = Crew(first, seed)
        crew.play()
        migrated = (first.definition,) if crew.game.graph is not first else ()
        return of(crew.game, *migrated)

    return {f"random-{seed}": lambda seed=seed: play(seed) for seed in (3, 14, 15, 92, 65)}


# --- The example, on the real engine ----------------------------------------------------------------------------------


class CountedIds:
    """Keeps the Ids port, with the same names every time."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def run(self, now_ms: int) -> RunId:
        return RunId(f"018bcfe5-6800-7000-8000-{next(self._numbers):012}")

    def session(self) -> SessionId:
        return SessionId(f"session-{next(self._numbers)}")

    def append(self) -> AppendId:
        return AppendId(f"append-{next(self._numbers)}")

    def approval(self) -> str:
        return f"approval-{next(self._numbers)}"


LEADS = "support-leads@"
"""Whom the example asks."""
TRIAGE_RULES = (
    Rule(system="Classify", turn=1, tool_calls=(ToolCall("search_kb", {"query": "invoice"}),)),
    Rule(system="Classify", turn=2, text="billing"),
    Rule(turn=1, tool_calls=(ToolCall("fetch_account", {"email": "nobody@example.org"}),)),
    Rule(turn=2, text="We are looking into your invoice.\n\nThe Pinbarrow team"),
)


def support() -> Golden:
    """examples/support_triage: two agent loops, a person's edit, one e-mail."""
    return asyncio.run(_support())


async def _support() -> Golden:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with (
            MailSink(journal=place / "mail.jsonl") as mail,
            ModelServer(journal=place / "calls.jsonl", rules=TRIAGE_RULES) as server,
            patch.dict(os.environ, SMTP_HOST="127.0.0.1", SMTP_PORT=str(mail.port)),
            patch.object(holdfast.compose.engine, "RandomIds", CountedIds),
        ):
            store = await SqliteStore.connect(place / "holdfast.db", machine_ms=lambda: START_MS)
            model = Providers(environment=server.environment)
            async with Engine.open(store, workflows=[support_triage], model=model, settings=load(EXAMPLE)) as engine:
                ticket = {"ticket_text": "My invoice is wrong.", "customer_email": "nobody@example.org"}
                run = await engine.start(support_triage, ticket, key="ticket-1")
                state = await run.until(lambda state: bool(state.gates))
                await engine.decide(next(iter(state.gates)), "edit", {"edited_body": "Sorry!"}, by="ann", roles=[LEADS])
                await run.result()
                events = tuple(await run.events())
            await store.aclose()
    return Golden((support_triage.graph.definition,), events)


HISTORIES: dict[str, Callable[[], Golden]] = {
    "support-triage-agent-loops": support,
    "flow": a_flow,
    "tasks": a_flow_of_tasks,
    "children": a_family,
    "undone-children": an_undone_family,
    "loop": a_loop,
    "fan-out": a_fan_out,
    "gate": a_gate,
    "contribution": a_contribution,
    "learned-makers": learned_makers,
    "quorum": a_quorum,
    "handed-on": a_gate_handed_on,
    "expiry": an_expiry,
    "retry": a_retry,
    "dead-letter": a_dead_letter,
    "map": a_map,
    "compensation": a_compensation,
    "budget-block": a_budget_block,
    "caps": a_cap,
    "dry-run": a_dry_run,
    "prices": with_prices,
    "scope": a_scope,
    "admission": an_admission,
    "reopened": a_reopened_run,
    "fork": a_fork,
    "edited-letter": an_edited_dead_letter,
    "resolved-letter": a_failed_run_with_letters,
    "divergence": a_divergence,
    "tenant-wide-effect": a_tenant_wide_effect,
    "effect-unknown": an_unknown_effect,
    "named-effect": a_named_effect,
    "signal": a_signal,
    "timer": a_timer,
    "pools": waits_for_pools,
    "steered": steered,
    "shared-values": shares_values,
    "shared-index": keeps_what_is_found,
    "typed-state": typed_state,
    "migration": a_migration,
    "cancelled": a_cancelled_run,
    "labelled": a_labelled_run,
    "cleaned-up": a_flow_that_cleans_up,
    **random_runs(),
}


def main(names: list[str]) -> None:
    for name in names or HISTORIES:
        if names or not (HERE / f"{name}.jsonl").exists():
            golden = HISTORIES[name]()
            write(name, golden)
            print(f"{name}: {len(golden.events)} events, {status(fold(golden))}")


if __name__ == "__main__":
    main(sys.argv[1:])
