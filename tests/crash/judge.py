"""Judges a case by the journals of the world outside, and the store by its own history.

Never here: anything that changes anything.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.core.evolve import evolve
from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Recorded, decode
from holdfast.core.facts.state import FUNCTION, State
from holdfast.core.values.ids import Seq
from holdfast.core.views.projection import Changes, project
from holdfast.testing.mail_sink import duplicates
from tests.crash.case import Case
from tests.crash.flows import POLICIES, RUN_OF
from tests.crash.person import price_nanousd
from tests.crash.victim import STORE

_encode_state = msgspec.json.Encoder().encode
_decode_state = msgspec.json.Decoder(State).decode


class Book(NamedTuple):
    """What a store holds of its only run: its events with the append that wrote each, and the rows beside them."""

    run: str
    events: list[tuple[Recorded, str]]
    payloads: dict[int, int]
    rows: dict[str, list[dict[str, Any]]]


TABLES = ("runs", "start_keys", "gates", "effects", "flights", "snapshots")


def read_book(path: Path) -> Book:
    """Read with another library than the one that wrote it, and changing nothing that anybody uses any more."""
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    try:
        assert db.execute("pragma integrity_check").fetchone()[0] == "ok"
        rows = {name: [dict(row) for row in db.execute(f"select * from {name}")] for name in TABLES}
        found = db.execute("select seq, at_ms, append_id, payload from events order by seq").fetchall()
        runs = {run for (run,) in db.execute("select distinct run from events")}
    finally:
        db.close()
    events = [(Recorded(Seq(row["seq"]), row["at_ms"], decode(row["payload"])), row["append_id"]) for row in found]
    payloads = {row["seq"]: zlib.crc32(row["payload"]) for row in found}
    assert len(runs) <= 1, "a start was done twice"
    return Book(runs.pop() if runs else "", events, payloads, rows)


def fold(book: Book) -> tuple[State, list[State]]:
    """The state after all events, and its books after each. The history is without gaps."""
    state, each = State(), []
    for number, (recorded, _) in enumerate(book.events, 1):
        assert recorded.seq == number
        evolve(state, recorded.event, recorded.at_ms)
        each.append(msgspec.structs.replace(state, budget=msgspec.structs.replace(state.budget)))
    return state, each


# --- The store --------------------------------------------------------------------------------------------------------


def assert_rows_equal_fold(book: Book) -> None:
    """Every row is what the fold of the history says, commit by commit; so is a snapshot."""
    state = State()
    changes: list[Changes] = []
    snapshots = {row["seq"]: row["state"] for row in book.rows["snapshots"]}
    for _, group in groupby(book.events, key=lambda each: each[1]):
        commit = [recorded for recorded, _ in group]
        for recorded in commit:
            evolve(state, recorded.event, recorded.at_ms)
            if recorded.seq in snapshots:
                kept, folded = _decode_state(snapshots.pop(recorded.seq)), _decode_state(_encode_state(state))
                assert kept == folded, f"the snapshot at {recorded.seq} is not what is folded"
        changes.append(project(state, [recorded.event for recorded in commit], executing=True))
    assert not snapshots, "there is a snapshot of events that are not there"
    if not changes:
        assert not any(book.rows.values())
        return
    run = msgspec.to_builtins(changes[-1].run)
    row = book.rows["runs"][0]
    run["start_key"] = run.pop("key")
    run["waiting_for"] = changes[-1].run.waiting_for
    if not state.ended:
        run["due_at_ms"] = row["due_at_ms"]  # depends on who wrote it
    assert {name: row[name] for name in run} == run
    assert {each["session"] for each in book.rows["flights"]} == set(changes[-1].sessions)
    assert json.loads(row["sessions"]) == list(changes[-1].sessions)
    assert [each["run"] for each in book.rows["start_keys"]] == [book.run]
    _assert_latest(book.rows["gates"], changes, "gates", "gate_changes", "gate", ("state", "decision"))
    _assert_latest(book.rows["effects"], changes, "effects", "effect_changes", "call", ("state", "error"))


def _assert_latest(
    rows: list[dict[str, Any]], changes: list[Changes], made: str, changed: str, name: str, columns: tuple[str, ...]
) -> None:
    first = "open" if made == "gates" else "intended"
    expected: dict[str, tuple[Any, ...]] = {}
    for change in changes:
        for new in getattr(change, made):
            expected[getattr(new, name)] = (first, None)
        for new in getattr(change, changed):
            expected[getattr(new, name)] = tuple(getattr(new, column) for column in columns)
    assert {row[name]: tuple(row[column] for column in columns) for row in rows} == expected


def assert_acknowledged_is_there(book: Book, trace: list[dict[str, Any]]) -> None:
    """Every event whose commit was acknowledged is in the history, as it was written."""
    there = {recorded.seq: type(recorded.event).__name__ for recorded, _ in book.events}
    for seq, kind, _, crc in acknowledged(trace):
        assert (there.get(seq), book.payloads.get(seq)) == (kind, crc), f"event {seq}, {kind}, was acknowledged"


def acknowledged(trace: list[dict[str, Any]]) -> list[list[Any]]:
    return [event for line in trace if _is_after(line) for event in line.get("events", ())]


def _is_after(line: dict[str, Any]) -> bool:
    return any(kind.startswith("after ") for kind in line.get("kinds", ()))


# --- The world --------------------------------------------------------------------------------------------------------


def judge(case: Case, reference: Case) -> None:
    """Raises AssertionError, with the case in its message, for any promise that was not kept."""
    try:
        _judge(case, reference)
    except AssertionError as broken:
        raise AssertionError(f"{case!r}: {broken}") from broken


def _judge(case: Case, reference: Case) -> None:
    book = read_book(case.directory / STORE)
    state, each = fold(book)
    assert_rows_equal_fold(book)
    for life in case.lives:
        assert_acknowledged_is_there(book, life.trace)
    assert case.lives[-1].result == {**(reference.lives[-1].result or {}), "run": book.run}
    assert not book.rows["flights"]
    _assert_told_stays(case, book)
    _assert_effects_once(case, reference, book)
    _assert_nothing_completed_is_called_again(case, book)
    _assert_no_recorded_step_runs_again(case, book)
    _assert_unknown_is_asked(case, book)
    _assert_money(case, state, each)
    _assert_streams(case, reference)


def _assert_streams(case: Case, reference: Case) -> None:
    """What was said is there once, in order and without a gap; of a reply that is in the history nothing else is, or what somebody
    was killed over."""
    said, expected = read_streams(case.directory / STORE), read_streams(reference.directory / STORE)
    assert said.get("progress") == expected.get("progress")


def read_streams(path: Path) -> dict[str, list[bytes]]:
    """What each stream of the store's only run holds, in order."""
    db = sqlite3.connect(path)
    try:
        chunks = db.execute("select stream, first, size, content from chunks order by run, stream, first").fetchall()
        sizes = dict(db.execute("select stream, size from streams").fetchall())
    finally:
        db.close()
    found: dict[str, list[bytes]] = {}
    ends: Counter[str] = Counter()
    for stream, first, size, content in chunks:
        assert first == ends[stream], f"there is a gap in the stream {stream}"
        ends[stream] += size
        found.setdefault(stream, []).append(content)
    assert dict(ends) == sizes, "a stream is not as long as its pieces"
    return found


def _assert_told_stays(case: Case, book: Book) -> None:
    """What somebody was told that it is so, is so: a start, a decision."""
    notes = [line for life in case.lives for line in life.trace]
    assert {line["started"] for line in notes if "started" in line} <= {book.run}
    decided = {r.event.gate for r, _ in book.events if isinstance(r.event, ev.GateDecided)}
    assert {line["decided"] for line in notes if "decided" in line} <= decided


def _assert_effects_once(case: Case, reference: Case, book: Book) -> None:
    """By key: what completed has happened, and what must not happen twice has not."""
    intents = {r.event.call: r.event for r, _ in book.events if isinstance(r.event, ev.EffectIntended)}
    done = {intents[r.event.call].key for r, _ in book.events if isinstance(r.event, ev.EffectCompleted)}
    policy = {intent.key: POLICIES[intent.tool] for intent in intents.values()}
    arrived = Counter(case.seen.keys)
    assert set(arrived) <= set(policy), "a call arrived that nobody intended"
    assert done == set(arrived), "what completed is not what happened"
    for key, times in arrived.items():
        intended = sum(intent.key == key for intent in intents.values())
        assert times <= intended
        if policy[key] in ("once", "verify"):
            assert times == 1, f"{policy[key]} effect {key[:12]} happened {times} times"
    assert not duplicates(case.seen.mails)
    assert _effects_by_tool(case) == _effects_by_tool(reference)


def _effects_by_tool(case: Case) -> Counter[str]:
    """How many different effects of each tool there were."""
    return Counter(tool for tool, _ in {(each["tool"], each["key"]) for each in case.seen.tools}) + Counter(
        mail.subject for mail in case.seen.mails
    )


def _assert_nothing_completed_is_called_again(case: Case, book: Book) -> None:
    """No call arrives in a later life whose outcome an earlier one had on the disk."""
    keys = {r.event.call: r.event.key for r, _ in book.events if isinstance(r.event, ev.EffectIntended)}
    hashes = {r.event.call: r.event.args_hash for r, _ in book.events if isinstance(r.event, ev.ModelCallHeld)}
    asked = {line["args_hash"]: line["asked"] for life in case.lives for line in life.trace if "args_hash" in line}
    over = case.seen
    known_keys: set[str] = set()
    known_asked: set[tuple[str, int]] = set()
    for life, following in pairwise(case.lives):
        for _, kind, call, _ in acknowledged(life.trace):
            if kind == "EffectCompleted":
                known_keys.add(keys[call])
            elif kind == "ModelCallSettled":
                user, turn = asked[hashes[call]]
                known_asked.add((user, turn))
        called = Counter(over.keys) - Counter(following.before.keys)
        assert not known_keys & set(called), "called again though it had completed"
        requested = Counter(over.asked) - Counter(following.before.asked)
        assert not known_asked & set(requested), "asked again though it was answered"


def _assert_no_recorded_step_runs_again(case: Case, book: Book) -> None:
    """No bare step runs in a later life whose result an earlier one had on the disk, or anybody has it twice."""
    steps = {r.seq: r.event.name for r, _ in book.events if isinstance(r.event, ev.ValueRecorded) and r.event.kind == FUNCTION}
    assert max(Counter(steps.values()).values(), default=0) <= 1, "a step has two results"
    known: set[str] = set()
    for life in case.lives:
        ran = {
            name for line in life.crossed for kind in line["kinds"] for _, is_run, name in [kind.partition(RUN_OF)] if is_run
        }
        assert not known & ran, "a step ran again though its result was recorded"
        known |= {steps[seq] for seq, *_ in acknowledged(life.trace) if seq in steps}


def _assert_unknown_is_asked(case: Case, book: Book) -> None:
    """A `once` call that was under way when its process was killed is a question to a person, and the run says so."""
    once = {r.event.call for r, _ in book.events if isinstance(r.event, ev.EffectIntended) and r.event.policy == "once"}
    intended: set[str] = set()
    told: set[str] = set()
    for number, life in enumerate(case.lives[:-1], 1):
        intended |= {call for _, kind, call, _ in acknowledged(life.trace) if kind == "EffectIntended"}
        # Where it was killed before a commit, that commit is not there. Another that was under way may be.
        told |= {call for line in life.crossed[:-1] for _, kind, call, _ in line.get("events", ()) if kind in _OUTCOMES}
        told |= {call for _, kind, call, _ in acknowledged(life.trace) if kind in _OUTCOMES}
        later = [line for each in case.lives[number:] for line in each.trace if "asked" in line and "status" in line]
        assert {line["status"] for line in later} <= {"requires_attention"}
        assert (intended & once) - told <= {line["asked"] for line in later}


_OUTCOMES = ("EffectCompleted", "EffectFailed", "EffectReleased", "EffectReopened")


def _assert_money(case: Case, state: State, each: list[State]) -> None:
    """What the provider charges is never above the limit, nor above what the run's books know of."""
    budget = state.budget
    limit_nanousd = budget.limit_nanousd
    assert limit_nanousd is not None
    assert max(then.budget.committed_nanousd for then in each) <= limit_nanousd
    bill_nanousd = sum(price_nanousd(call) for call in case.seen.calls)
    assert bill_nanousd <= limit_nanousd
    assert bill_nanousd <= budget.settled_nanousd + budget.in_doubt_nanousd, "the bill is higher than the books"
    assert budget.held_nanousd == 0
