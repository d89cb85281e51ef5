"""The rows of a store are what its histories amount to, whatever happened in them: random runs, commit by commit.

Never here: a rule of the core, a statement of SQL.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.core.evolve import evolve
from holdfast.core.facts import events as ev
from holdfast.core.facts.events import Recorded
from holdfast.core.facts.graph import EXPIRED
from holdfast.core.facts.state import FOLD_VERSION, State
from holdfast.core.values.ids import AppendId, RunId, Seq, node_of, root_of
from holdfast.core.views.projection import EffectChange, GateChange, project, sessions_in_flight
from holdfast.core.views.status import status
from holdfast.engine.background.rollup import count_some
from holdfast.ports import Append
from holdfast.stores.sqlite import SqliteStore
from tests.core.test_properties import Chaos, Crew, Record, some_graph
from tests.stores.story import fold, snapshot_of

RUNS = 80
STATES = {
    ev.EffectCompleted: "completed",
    ev.EffectFailed: "failed",
    ev.EffectReleased: "released",
    ev.EffectInDoubt: "in_doubt",
    ev.EffectUnanswered: "in_doubt",
    ev.EffectReopened: "repeated",
    ev.OutcomeOrphaned: "orphaned",
}


def histories() -> list[Record]:
    """Random runs, half of them played to their end."""
    found = []
    for seed in range(RUNS):
        graph = some_graph(2 + seed % 6, 5_000 + seed)
        if seed % 2:
            crew = Crew(graph, seed)
            crew.play()
            found.append(crew.game)
        else:
            chaos = Chaos(graph, random.Random(seed))
            chaos.play(60)
            found.append(chaos.game)
    return found


def appends(game: Record, run: RunId) -> list[Append]:
    """The history of `game` as the appends of a run of that name, one for each command."""
    state, found, before = State(), [], 0
    for end in game.commits:
        events = []
        for data, at_ms in zip(game.history[before:end], game.times[before:end], strict=True):
            # Each run means a tenant-wide effect of its own.
            event = ev.decode(data.replace(b"0190-run", run.encode()).replace(b'"wide"', f'"wide-{run}"'.encode()))
            evolve(state, event, at_ms)
            events.append(event)
        recorded = tuple(Recorded(Seq(before + 1 + n), state.at_ms, event) for n, event in enumerate(events))
        changes = project(state, events, executing=False)
        found.append(Append(run, Seq(before), AppendId(f"{run}.{end}"), recorded, changes))
        before = end
    return found


async def check(store: SqliteStore, run: RunId) -> State:
    """The rows of a run against its history as the store gives it back."""
    events = await store.log.events(run)
    state = fold(await store.log.load(run, FOLD_VERSION))
    anew = State()
    for recorded in events:
        evolve(anew, recorded.event, recorded.at_ms)
    assert state == anew
    row = await store.views.run(run)
    either = [project(state, [events[-1].event], executing=executing).run for executing in (False, True)]
    assert row is not None
    assert row in either, "the row is what the history amounts to, whoever wrote last"
    assert row.status == status(state)
    await check_gates(store, run, state, events)
    await check_effects(store, run, events)
    return state


async def check_gates(store: SqliteStore, run: RunId, state: State, events: Sequence[Recorded]) -> None:
    rows = {opened.gate: (opened, change) for opened, change in await store.views.gates(run=run, open_only=False, limit=9999)}
    assert set(rows) == {each.event.gate for each in events if isinstance(each.event, ev.GateOpened)}
    for gate, (opened, change) in rows.items():
        now = "open" if change is None else change.state
        if gate in state.gates:
            at = state.gates[gate]
            assert (opened.opened_at_ms, opened.due_at_ms) == (at.at_ms, at.opened.due_at_ms)
            assert opened.reviewers == at.opened.reviewers
            assert (opened.quorum, opened.expires_at_ms) == (at.opened.quorum, at.opened.expires_at_ms)
            assert ((change and change.approved_by) or ()) == tuple(each.by for each in at.approvals)
            assert now == ("open" if at.escalated_at_ms is None else "escalated")
            assert (change.reminders if change is not None else 0) in (at.reminders, None)
        elif gate in state.decided:
            known = state.decided[gate]
            assert isinstance(change, GateChange)
            told = (EXPIRED, None, None) if known.decision == EXPIRED else ("decided", known.decision, known.by)
            assert (now, change.decision, change.by) == told
        else:
            assert now == "withdrawn"
    asked = {opened.gate for opened, _ in await store.views.gates(run=run, limit=9999)}
    assert asked == set(state.gates), "what is listed is what is asked"


async def check_effects(store: SqliteStore, run: RunId, events: Sequence[Recorded]) -> None:
    latest: dict[str, str] = {}
    for recorded in events:
        event = recorded.event
        if isinstance(event, ev.EffectIntended):
            latest[event.call] = "intended"
        elif type(event) in STATES:
            latest[event.call] = STATES[type(event)]  # type: ignore[attr-defined, index]
    rows = {opened.call: change for opened, change in await store.views.effects(run=run, limit=9999)}
    assert {call: "intended" if change is None else change.state for call, change in rows.items()} == latest
    for recorded in events:
        if isinstance(recorded.event, ev.EffectCompleted):
            change = rows[recorded.event.call]
            assert isinstance(change, EffectChange)
            assert change.response == recorded.event.response


async def check_money(store: SqliteStore, runs: Sequence[RunId]) -> None:
    """The roll-up of costs and the books of scopes say to the nano-dollar what the histories say."""
    mine, scopes = Counter[tuple[str, str, str]](), Counter[str]()
    for run in runs:
        kinds: dict[str, tuple[str, str, str]] = {}
        for recorded in await store.log.events(run):
            day = time.strftime("%Y-%m-%d", time.gmtime(recorded.at_ms / 1000))
            billed: list[tuple[str, int]] = []
            match recorded.event:
                case ev.ModelCallHeld() as hold:
                    kinds[hold.call] = day, root_of(node_of(hold.step)), hold.sent_to
                case ev.EffectIntended() as intent:
                    billed = [(call, given.nanousd) for call, given in intent.given_up.items()]
                    kinds[intent.call] = day, root_of(node_of(intent.step)), f"tool {intent.tool}"
                case ev.ModelCallSettled() | ev.ModelCallReconciled() | ev.EffectFailed() as closed:
                    billed = [(closed.call, closed.cost_nanousd)]
                case ev.EffectCompleted(hold=ev.Hold() as price) as done:
                    billed = [(done.call, price.nanousd)]
                case _:
                    pass
            for call, cost in billed:
                if cost or not kinds[call][2].startswith("tool "):
                    mine[kinds[call]] += cost
                    scopes[f"tenant/acme/day/{kinds[call][0]}"] += cost
    for _ in range(2):  # the second time there is nothing to add
        while not await count_some(store):
            pass
        costs = await store.costs.rollup("0000", "9999", tenant="acme")
        assert {(each.tenant, each.workflow) for each in costs} == {("acme", "flow")}
        assert {(each.day, each.node, each.model): each.cost_nanousd for each in costs} == dict(mine)
    assert {row.scope: row.settled for row in await store.scopes.balances(list(scopes))} == dict(scopes)
    assert len(mine) >= 5, "hardly anything cost anything"


@pytest.fixture(scope="module")
def games() -> list[Record]:
    return histories()


async def test_the_rows_of_random_histories_are_their_folded_states(tmp_path: Path, games: list[Record]) -> None:
    """Runs go to the disk side by side, in commits of many; some are checked in the middle, all at the end."""
    store = await SqliteStore.connect(tmp_path / "holdfast.db")
    pick = random.Random(7)
    named = {RunId(f"01900000-0000-7000-8000-{number:012}"): game for number, game in enumerate(games)}
    todo = {run: appends(game, run) for run, game in named.items()}
    ended = {run: game.state.ended for run, game in zip(todo, games, strict=True)}
    commits = 0
    async with asyncio.timeout(60):
        while todo:
            runs = pick.sample(list(todo), min(len(todo), 12))
            fates = await store.log.append([todo[run].pop(0) for run in runs])
            assert list(fates) == [None] * len(runs)
            commits += 1
            for run in [run for run in runs if not todo[run]]:
                del todo[run]
            looked = pick.choice(runs)
            state = await check(store, looked)
            if pick.random() < 0.1:
                await count_some(store)
            if pick.random() < 0.3:
                await store.log.snapshot(looked, snapshot_of(state))
    await check_money(store, list(ended))
    for run, how in ended.items():
        state = await check(store, run)
        assert state.ended == how
        in_flight = {session for due in await store.views.due(2**60, [state.graph_hash], 9999) for session in due.dead}
        assert in_flight <= set(sessions_in_flight(state)), "only what is in flight is looked after"
    await store.aclose()
    assert commits > 50
