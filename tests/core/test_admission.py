"""Admission: a run has a place among the active ones of its tenant and of the fleet, or waits for it, or is refused."""

from __future__ import annotations

import pytest

from holdfast.core.values.payload import NULL
from holdfast.core.values.scopes import FLEET_RUNS, run_scopes, tenant_runs
from holdfast.errors import TooManyRuns
from tests.core.game import RUN, Game, cmd, ev, graph, kinds, node

ACME = tenant_runs("acme")
FULL = cmd.Shortage(limit=2, left=0, held=2)


def places(game: Game, events: list[ev.Event]) -> dict[str, int]:
    return {posting.scope: posting.held for posting in game.rows(events).postings}


def queued(scope: str = ACME, **more: object) -> Game:
    game = Game(graph("a > b", **more), start=False)
    game.start(queue=True, shortages={scope: FULL})
    return game


def test_a_run_takes_a_place_of_its_tenant_and_fleet_and_returns_both_at_its_end() -> None:
    game = Game(graph("a"), start=False)
    started = game.start()
    assert places(game, started) == {ACME: 1, FLEET_RUNS: 1}
    assert all(posting.bounded and posting.in_turn for posting in game.rows(started).postings)
    ended = game.complete("a")
    assert places(game, ended) == {ACME: -1, FLEET_RUNS: -1}
    assert not any(posting.bounded for posting in game.rows(ended).postings)


def test_waiting_for_a_person_keeps_the_place() -> None:
    game = Game(graph(node("a", "human_gate")))
    game.human_gate("a")
    assert game.status == "waiting"
    assert places(game, game.events(ev.GateOpened, ev.StepSuspended)) == {}


@pytest.mark.parametrize("scope", run_scopes("acme"))
def test_a_start_beyond_the_cap_is_refused_with_the_time_to_try_again(scope: str) -> None:
    game = Game(graph("a"), start=False)
    with pytest.raises(TooManyRuns, match="Nothing was started") as refused:
        game.start(shortages={scope: cmd.Shortage(limit=2, left=-3, held=2)})
    assert (refused.value.scope, refused.value.limit, refused.value.retry_after_s) == (scope, 2, 4)
    assert game.history == []
    with pytest.raises(TooManyRuns) as refused:
        game.start(shortages={scope: cmd.Shortage(limit=2, left=-999, held=2)})
    assert refused.value.retry_after_s == 60
    assert kinds(game.start(shortages={scope: cmd.Shortage(limit=2, left=1, held=1)})) == ["RunStarted", "StepStarted"]


def test_a_start_that_is_queued_is_recorded_and_begins_nothing() -> None:
    game = queued()
    assert kinds(game.events()) == ["RunStarted"]
    assert game.status == "waiting"
    assert [(wait.kind, wait.reason, wait.about) for wait in game.waits] == [("place", "admission", ACME)]
    assert game.due_ms is None
    rows = game.rows(game.events())
    assert rows.postings == ()
    assert [(waiter.scope, waiter.wanted) for waiter in rows.waiters] == [(ACME, 1)]
    assert kinds(game.tick(3600)) == []
    assert kinds(game.signal("go")) == ["SignalReceived"]


def test_when_there_is_room_it_begins() -> None:
    game = queued()
    events = game.do(cmd.Tick(headroom=frozenset([ACME])))
    assert kinds(events) == ["RunAdmitted", "StepStarted"]
    assert places(game, events) == {ACME: 1, FLEET_RUNS: 1}
    assert game.rows(events).waiters == ()
    game.complete("a")
    assert places(game, game.complete("b")) == {ACME: -1, FLEET_RUNS: -1}


def test_room_elsewhere_is_none_of_its_business() -> None:
    game = queued()
    assert game.do(cmd.Tick(headroom=frozenset([FLEET_RUNS]))) == []


def test_where_another_scope_is_full_it_waits_there() -> None:
    game = queued()
    events = game.do(cmd.Tick(headroom=frozenset([ACME])), shortages={FLEET_RUNS: FULL})
    assert kinds(events) == ["AdmissionDeferred"]
    assert [waiter.scope for waiter in game.rows(events).waiters] == [FLEET_RUNS]
    assert game.do(cmd.Tick(headroom=frozenset([FLEET_RUNS])), shortages={FLEET_RUNS: FULL}) == [], "somebody was faster"
    assert kinds(game.do(cmd.Tick(headroom=frozenset([FLEET_RUNS])))) == ["RunAdmitted", "StepStarted"]


def test_a_queued_run_can_be_cancelled_and_gives_back_what_it_never_had() -> None:
    game = queued()
    events = game.cancel()
    assert kinds(events) == ["RunCancelling", "RunCancelled"]
    assert places(game, events) == {}
    assert game.rows(events).waiters == ()


def test_a_queued_run_that_is_paused_takes_no_other_turn() -> None:
    game = queued()
    assert game.rows(game.pause()).waiters == ()
    assert [waiter.scope for waiter in game.rows(game.resume()).waiters] == [ACME]


def test_a_run_that_an_early_version_started_counts_in_no_scope() -> None:
    game = Game(graph("a"), start=False)
    started = game.start()[0]
    early = ev.RunStarted(RUN, "acme", "flow", 1, game.graph.hash, NULL, None, 100)
    assert game.rows([early]).postings == ()
    assert isinstance(started, ev.RunStarted)
    game.state.counted = False
    assert game.rows([ev.RunCompleted()]).postings == ()
