"""Histories that earlier versions wrote, read by today's: each folds to what it folded to when it was recorded.

When a test here fails, runs that people have in their stores would be read wrongly. Mend the fold, or give the changed
field a default; never record a history again to make its test pass.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from holdfast.core.decide import decide
from holdfast.core.evolve import evolve
from holdfast.core.facts import commands as cmd
from holdfast.core.facts.events import AnyEvent, RunStarted, encode
from holdfast.core.facts.graph import Graph
from holdfast.core.facts.state import FOLD_VERSION, State
from holdfast.core.views.status import status
from holdfast.core.views.trajectory import trajectory
from holdfast.errors import RunEnded
from holdfast.service import view
from tests.golden.record import HERE, HISTORIES, course, fold, read, summary

NAMES = sorted(file.name.removesuffix(".jsonl") for file in HERE.glob("*.jsonl"))
BROKEN = (
    "This version reads a history of an earlier one differently. Runs in people's stores were written like this one, so"
    " the fold must be mended (or a new field given its default); the recorded files stay as they are."
)


@pytest.mark.parametrize("name", NAMES)
def test_a_history_folds_to_what_it_was_when_it_was_recorded(name: str) -> None:
    golden = read(name)
    recorded = msgspec.json.decode((HERE / f"{name}.state.json").read_bytes())
    now = summary(fold(golden)) | {"course": course(golden)}
    different = {key for key in recorded if now.get(key) != recorded[key]}
    assert not different, f"{BROKEN} {name} differs in {sorted(different)}"


@pytest.mark.parametrize("name", NAMES)
def test_a_history_is_read_without_loss_at_every_place(name: str) -> None:
    """Its events mean today what they meant, and a snapshot taken anywhere goes on to the same end."""
    golden = read(name)
    lines = (HERE / f"{name}.jsonl").read_bytes().splitlines()[1:]
    whole = fold(golden)
    for count, (line, recorded) in enumerate(zip(lines, golden.events, strict=True), 1):
        known = msgspec.json.decode(msgspec.json.decode(line, type=dict[str, msgspec.Raw])["event"])
        again = msgspec.json.decode(encode(recorded.event))
        assert {key: again.get(key) for key in known} == known, f"{BROKEN} Event {count} of {name} has lost something."
        if count % 7 == 0:
            state = msgspec.json.decode(msgspec.json.encode(fold(golden, count)), type=State)
            for later in golden.events[count:]:
                evolve(state, later.event, later.at_ms)
            assert state == whole, f"{name}: a snapshot at {count} leads elsewhere"


@pytest.mark.parametrize("name", NAMES)
def test_what_a_server_tells_of_a_history_is_the_same_path(name: str) -> None:
    events = read(name).events
    told = [msgspec.json.decode(msgspec.json.encode(view.of_event(each))) for each in events]
    assert trajectory(map(view.recorded_of, told)) == trajectory(events)


@pytest.mark.parametrize("name", NAMES)
def test_no_field_of_an_event_hides_what_is_said_of_its_place(name: str) -> None:
    """Each kind of event is in one of these, so this is about all of them."""
    for each in read(name).events:
        told = view.of_event(each)
        assert (told["seq"], told["type"]) == (each.seq, type(each.event).__name__)
        assert (told["at"], told["trace_id"]) == (view.iso(each.at_ms), each.trace_id)
        again = view.recorded_of(msgspec.json.decode(msgspec.json.encode(told))).event
        assert getattr(again, "seq", None) == getattr(each.event, "seq", None)


@pytest.mark.parametrize("kind", get_args(AnyEvent))
def test_an_event_field_that_shares_a_name_with_its_place_is_shown_under_another(kind: Any) -> None:
    place = {"seq", "at", "type", "trace_id", "verified", "run_id", "workflow", "cursor"}
    hidden = place.intersection(kind.__struct_fields__) - {*view.SHOWN_AS.get(kind.__name__, {})}
    assert hidden <= ({"workflow"} if kind is RunStarted else set()), "a name in SHOWN_AS is missing"


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_of_a_history_is_still_known_by_its_hash(name: str) -> None:
    """Otherwise no process would take up the runs that were written under it."""
    golden = read(name)
    state = fold(golden)
    graph = Graph(golden.graphs[-1])
    assert graph.hash == state.graph_hash, f"{BROKEN} The graph of {name} has another hash today."
    assert decide(graph, state, cmd.Tick(), state.at_ms) == [] or not state.ended
    if state.ended:
        with pytest.raises(RunEnded):
            decide(graph, state, cmd.PauseRun(), state.at_ms)


def test_each_event_has_a_history_that_holds_it() -> None:
    """A new event needs one: add a history of its feature to tests/golden/record.py, and record it."""
    seen = {type(recorded.event) for name in NAMES for recorded in read(name).events}
    missing = sorted(event.__name__ for event in get_args(AnyEvent) if event not in seen)
    assert not missing, f"no golden history has {missing}"


def test_each_history_is_recorded() -> None:
    assert sorted(HISTORIES) == NAMES
    assert FOLD_VERSION >= 1


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("random")])
def test_what_a_history_was_recorded_from_still_ends_as_it_did(name: str) -> None:
    """Otherwise nobody could record one that is like it."""
    assert status(fold(HISTORIES[name]())) == status(fold(read(name)))
